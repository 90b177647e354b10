"""What a wave costs the controller, and whether the throttle holds: ``make bench-configure`` (root, minutes).

Real hosts in systemd-nspawn run the whole site.yml with dummy packages from a signed mirror that serves every package
slowly. Reported: the controller's CPU per host-task (the hosts' own CPU is not in it) and the mirror's peak of parallel
downloads against the slots. Exit status 1 if a host did not converge, the CPU is over 70 ms or the peak over the slots.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / name) for name in ("nspawn", "adapters/ssh"))]

from dummy_mirror import Mirror  # noqa: E402
from dummy_stack import GPUS, HARDWARE, PACKAGES, everything  # noqa: E402
from nspawn_hosts import Lab, missing  # noqa: E402
from ssh_peer import MemoryPins, node, public_line, write_key  # noqa: E402

from provision.adapters.ansible import AnsibleWaves  # noqa: E402
from provision.adapters.ansible.tally import Tally  # noqa: E402
from provision.app.clock import SystemClock  # noqa: E402
from provision.ports import WaveState  # noqa: E402

MOST_MS = 70.0
CHECKS = ["gpu-count", "disk-space", "systemd-units", "driver-version", "nvidia-smi", "dpkg-audit", "dcgm", "exporters"]


class CountingWaves(AnsibleWaves):
    """Waves that count their host-tasks."""

    host_tasks = 0

    def _take(self, line: bytes, tally: Tally) -> None:
        self.host_tasks += line.startswith(b'{"e": "start"')
        super()._take(line, tally)


def controller_cpu_s() -> float:
    """CPU of this thread and of every child that has ended: the hosts have not, and the mirror has its own threads."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_THREAD, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


async def measure(lab: Lab, folder: Path, hosts: int, slots: int, slow_s: float) -> dict[str, Any]:
    """Two runs over all hosts; the figures."""
    names = [f"n{number:02d}" for number in range(hosts)]
    client, host_key, pins = write_key(folder / "client"), write_key(folder / "host"), MemoryPins()
    for name in names:
        pins.set_pin("ssh-host-key", name, public_line(host_key))
        key = (folder / "host").read_text()
        lab.start(name, host_key=key, authorized_key=public_line(client), files=HARDWARE)
        # Not all at once: the first packets of two dozen booting hosts fill the bridge's queues.
        await asyncio.sleep(0.2)
    for host in lab.hosts.values():
        await asyncio.to_thread(host.wait)
    mirror = Mirror(folder / "mirror", slow_s=slow_s)
    mirror.add(*everything())
    mirror.publish()
    repository = {"name": "site", "url": mirror.serve(f"{lab.subnet}.1"), "suite": "./", "key": mirror.key}
    told: Mapping[str, object] = {
        "provision_packages": PACKAGES,
        "provision_mirror": {"repositories": [repository]},
        "provision_expected": {"gpus": GPUS},
        "verify_checks": CHECKS,
    }
    settings: dict[str, Any] = {"ssh_user": "root", "ssh_key_file": folder / "client", "clock": SystemClock()}
    waves = CountingWaves(
        ROOT / "playbooks" / "site.yml",
        lambda _: told,
        pins,
        artifacts_dir=folder / "waves",
        window_s=0.5,
        max_waves=1,
        download_slots=slots,
        **settings,
    )
    result: dict[str, Any] = {"hosts": hosts, "slots": slots, "cores": os.cpu_count()}
    try:
        for label in ("first", "again"):
            result[label] = await run(waves, lab, names, mirror)
    finally:
        await waves.close()
        mirror.close()
    return result


async def run(waves: CountingWaves, lab: Lab, names: list[str], mirror: Mirror) -> dict[str, Any]:
    """One run over all hosts."""
    waves.host_tasks, mirror.peak, mirror.served = 0, 0, 0
    began, cpu_s = time.monotonic(), controller_cpu_s()
    for name in names:
        waves.join(node(name), lab.hosts[name].address)
    while any(waves.verdict(name).state in {WaveState.WAITING, WaveState.RUNNING} for name in names):  # noqa: ASYNC110
        await asyncio.sleep(0.5)
    used_s = controller_cpu_s() - cpu_s
    verdicts = [waves.verdict(name) for name in names]
    for verdict in {(v.task, v.why) for v in verdicts if v.state is not WaveState.OK}:
        sys.stderr.write(f"{verdict[0]}: {verdict[1]}\n")
    return {
        "converged": sum(verdict.state is WaveState.OK for verdict in verdicts),
        "changed": sum(verdict.changed for verdict in verdicts),
        "wall_s": round(time.monotonic() - began, 1),
        "host_tasks": waves.host_tasks,
        "controller_cpu_ms_per_host_task": round(1000 * used_s / max(1, waves.host_tasks), 1),
        "packages_served": mirror.served,
        "peak_downloads": mirror.peak,
    }


def main() -> int:
    """Measure, print JSON, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=32)
    parser.add_argument("--slots", type=int, default=4, help="how many hosts may download at once")
    parser.add_argument("--slow", type=float, default=0.2, help="seconds that the mirror takes for a package")
    told = parser.parse_args()
    if (reason := missing()) is not None:
        sys.stderr.write(f"no real hosts: {reason}\n")
        return 2
    # Every host's systemd wants some; the usual limit is reached with two dozen.
    limit = Path("/proc/sys/fs/inotify/max_user_instances")
    if int(limit.read_text()) < 4096:
        limit.write_text("4096")
    # As Ctrl-C: hosts, network and mounts go before this process does.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    lab = Lab()
    try:
        with tempfile.TemporaryDirectory() as folder:
            try:
                lab.open()
                result = asyncio.run(measure(lab, Path(folder), told.hosts, told.slots, told.slow))
            finally:
                for each in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(each, signal.SIG_IGN)
                lab.close()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: its hosts are gone\n")
        return 130
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    runs = (result["first"], result["again"])
    good = all(each["converged"] == told.hosts for each in runs) and result["again"]["changed"] == 0
    frugal = all(each["controller_cpu_ms_per_host_task"] <= MOST_MS for each in runs)
    return 0 if good and frugal and result["first"]["peak_downloads"] <= told.slots else 1


if __name__ == "__main__":
    sys.exit(main())
