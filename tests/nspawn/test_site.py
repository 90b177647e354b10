"""The whole site.yml on real hosts: from scratch, again, broken on purpose, and converged or refused."""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from dummy_mirror import Deb, Mirror
from dummy_stack import GPUS, HARDWARE, PACKAGES, everything, rest
from nspawn_hosts import Host, Lab
from ssh_peer import MemoryPins, node, public_line, write_key

from provision.adapters.ansible import AnsibleWaves
from provision.adapters.ansible.reap import Marks, find
from provision.adapters.ssh import ParamikoShell
from provision.model.node import Node
from provision.ports import WaveState, WaveVerdict
from tests.nspawn.test_converge import CHECK, SITE, RealClock, verdicts

# Six minutes on two cores: opt-in until it fits beside the others in ten (tests/nspawn/test_converge.py stays there).
pytestmark = [pytest.mark.nspawn, pytest.mark.lab, pytest.mark.timeout(900)]
NAMES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
# What a container cannot show: a kernel log of its own.
CHECKS = [
    *("gpu-count", "disk-space", "systemd-units", "clock-offset", "driver-version", "nvidia-smi", "fabric-manager"),
    *("peer-memory", "ofed", "dkms", "dpkg-audit", "package-holds", "container-runtime", "dcgm", "exporters"),
    "cpu-governor",
]


@dataclass
class Rack:
    """Four hosts, a mirror, and waves over both. ``told`` adds to what one host is told."""

    lab: Lab
    mirror: Mirror
    url: str
    waves: AnsibleWaves
    make: Callable[[], AnsibleWaves]
    shell: ParamikoShell
    packages: dict[str, str]
    told: dict[str, dict[str, object]] = field(default_factory=dict)

    def host(self, name: str) -> Host:
        return self.lab.hosts[name]

    async def run(self, *names: str) -> dict[str, WaveVerdict]:
        for name in names:
            self.waves.join(node(name), self.host(name).address)
        return dict(zip(names, await verdicts(self.waves, *names), strict=True))

    async def sh(self, name: str, command: str) -> str:
        result = await self.shell.run(node(name), self.host(name).address, command, deadline_s=60)
        assert result.status == 0, (command, result)
        return result.stdout.strip()

    async def report(self, name: str) -> dict[str, Any]:
        result = await self.shell.run(node(name), self.host(name).address, CHECK, deadline_s=60)
        found: dict[str, Any] = json.loads(result.stdout)
        return found


def said(found: Mapping[str, WaveVerdict]) -> str:
    """For a failing test."""
    return "\n".join(f"{name}: {v.state} {v.task}: {v.why}" for name, v in found.items())


@pytest.fixture
def names() -> tuple[str, ...]:
    """Which hosts stand in the rack."""
    return NAMES


@pytest.fixture
async def rack(lab: Lab, tmp_path: Path, names: tuple[str, ...]) -> AsyncIterator[Rack]:
    client_key, pins = write_key(tmp_path / "id_client"), MemoryPins()
    shell = ParamikoShell(pins, user="root", key_file=tmp_path / "id_client")
    for name in names:
        private = await shell.new_host_key(name)
        lab.start(name, host_key=private.reveal(), authorized_key=public_line(client_key), files=HARDWARE)
    mirror = Mirror(tmp_path / "mirror")
    mirror.add(*everything())
    mirror.publish()
    url = mirror.serve(f"{lab.subnet}.1")
    repository = {"name": "site", "url": url, "suite": "./", "key": mirror.key}
    packages, told = dict(PACKAGES), dict[str, dict[str, object]]()

    def variables(which: Node) -> Mapping[str, object]:
        return {
            "provision_packages": dict(packages),
            "provision_mirror": {"repositories": [repository]},
            "provision_expected": {"gpus": GPUS},
            "provision_ntp": ["198.18.0.1"],
            "verify_checks": CHECKS,
            "tuning_governor": "performance",
            "tuning_sysctl": {"net.ipv4.tcp_mtu_probing": 1},
            "gpu_peer_memory": "peermem",
            **told.get(which.name, {}),
        }

    def make() -> AnsibleWaves:
        return AnsibleWaves(
            SITE,
            variables,
            pins,
            ssh_user="root",
            ssh_key_file=tmp_path / "id_client",
            clock=RealClock(),
            artifacts_dir=tmp_path / "waves",
            window_s=0.2,
        )

    for host in lab.hosts.values():
        await asyncio.to_thread(host.wait)
    made = Rack(lab, mirror, url, make(), make, shell, packages, told)
    try:
        yield made
    finally:
        await made.waves.close()
        await shell.close()
        mirror.close()


async def test_the_whole_stack_from_scratch_again_and_broken_on_purpose(rack: Rack) -> None:
    boots = [await rack.sh(name, "cat /proc/sys/kernel/random/boot_id") for name in NAMES]
    first = await rack.run(*NAMES)
    assert {v.state for v in first.values()} == {WaveState.OK}, said(first)
    await everything_is_proved(rack, boots)
    again = await rack.run(*NAMES)
    assert again == dict.fromkeys(NAMES, WaveVerdict(WaveState.OK, changed=0))
    await drift_comes_back(rack)
    await refusals_say_why(rack)
    await another_branch_in_one_transaction(rack)


async def everything_is_proved(rack: Rack, boots: list[str]) -> None:
    """Each was restarted (another kernel was wanted), is pinned and held, and proves it."""
    for name, before in zip(NAMES, boots, strict=True):
        assert await rack.sh(name, "cat /proc/sys/kernel/random/boot_id") != before
        assert await rack.sh(name, "cat /sys/module/nvidia/version") == "570.124.06"
        report = await rack.report(name)
        assert report["noes"] == []
        assert {check["name"] for check in report["checks"]} == set(CHECKS)
        marker = await rack.shell.marker(node(name), rack.host(name).address)
        assert marker is not None
        assert (marker.ok, marker.playbooks) == (True, rack.waves.wanted(node(name)))
    held = (await rack.sh(NAMES[0], "apt-mark showhold")).split()
    assert {"nvidia-dkms-570-open", "libnvidia-compute-570", "nvidia-fabricmanager-570", "doca-ofed"} <= set(held)
    assert await rack.sh(NAMES[0], "cat /sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq") == "3800000"


async def drift_comes_back(rack: Rack) -> None:
    """One kind of drift a host; the same command brings each back."""
    # A1: fabric manager moved alone. A9: somebody's own keys in daemon.json.
    await rack.sh("gpu-1", "apt-mark unhold nvidia-fabricmanager-570; rm /etc/apt/preferences.d/provision.pref")
    await rack.sh("gpu-1", "apt-get install -y nvidia-fabricmanager-570=570.133.20-1")
    await rack.sh("gpu-1", """echo '{"data-root": "/data", "runtimes": {"own": {}}}' > /etc/docker/daemon.json""")
    assert any("nvidia-fabricmanager-570 570.133.20-1" in no for no in (await rack.report("gpu-1"))["noes"])
    # A2: user space is right, the loaded module is an old one: only a reboot helps.
    await rack.sh("gpu-2", "echo 570.86.15 > /sys/module/nvidia/version")
    assert "could not look: nvidia-smi" in str((await rack.report("gpu-2"))["noes"])
    # A5: somebody holds dpkg's lock for a while. A21: the same repository again, with another key.
    legacy = rack.host("gpu-3").root / "etc/apt/sources.list.d/docker.list"
    legacy.write_text(f"deb [signed-by=/etc/apt/keyrings/other.asc] {rack.url} ./\n")
    await rack.sh("gpu-3", "dpkg --force-depends --remove --force-remove-essential prometheus-node-exporter")
    # A13 and A11: OFED came after the driver, so it is built again, and that fails.
    await rack.sh("gpu-4", "touch -d '+1 minute' /var/lib/dpkg/info/doca-ofed.list; touch /etc/fake/dkms-fail")
    with (rack.host("gpu-3").root / "var/lib/dpkg/lock-frontend").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        asyncio.get_running_loop().call_later(12, fcntl.lockf, lock, fcntl.LOCK_UN)
        found = await rack.run(*NAMES)
    assert [found[name].state for name in NAMES[:3]] == [WaveState.OK] * 3, said(found)
    assert found["gpu-4"].state is WaveState.FAILED
    assert found["gpu-4"].task == "gpu : Install the whole family in one transaction"
    for words in ("not whole after it: nvidia-dkms-570-open", "make.log", "no such symbol"):
        assert words in found["gpu-4"].why
    assert await rack.sh("gpu-1", "dpkg-query -W -f '${Version}' nvidia-fabricmanager-570") == "570.124.06-1"
    daemon = json.loads(await rack.sh("gpu-1", "cat /etc/docker/daemon.json"))
    assert (daemon["data-root"], set(daemon["runtimes"])) == ("/data", {"own", "nvidia"})
    assert await rack.sh("gpu-2", "cat /sys/module/nvidia/version") == "570.124.06"
    # The compiler is well again: dpkg goes on where it stopped.
    await rack.sh("gpu-4", "rm /etc/fake/dkms-fail; touch /var/lib/dpkg/info/nvidia-dkms-570-open.list")
    await rack.sh("gpu-4", "touch -d '-1 hour' /var/lib/dpkg/info/doca-ofed.list")
    assert (await rack.run("gpu-4"))["gpu-4"].state is WaveState.OK


async def refusals_say_why(rack: Rack) -> None:
    """What cannot end well is refused with its sentence, and nothing is installed."""
    # A15: the node is days behind, and its clock cannot be set (a container has no clock of its own).
    rack.told["gpu-1"] = {"clock_controller_s": 4102444800.0}
    # A14: Secure Boot and a driver that nobody signed.
    (rack.host("gpu-2").root / "etc/fake/secure-boot").touch()
    await rack.sh(
        "gpu-2",
        "mkdir -p /sys/firmware/efi/efivars && printf '\\006\\0\\0\\0\\001' > "
        "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
    )
    # A partial mirror.
    rack.told["gpu-3"] = {"provision_packages": {**PACKAGES, "nvidia-driver": "575.57.08"}}
    # A8: a package of somebody else's would have to leave.
    rack.mirror.add(Deb("site-monitor", "1.0", depends="datacenter-gpu-manager-4-core (= 1:4.2.3-1)"))
    rack.mirror.publish()
    await rack.sh("gpu-4", "apt-get update -q && apt-get install -y site-monitor")
    rack.told["gpu-4"] = {"provision_packages": {**PACKAGES, "dcgm": "1:4.5.2-1"}}
    found = await rack.run(*NAMES)
    assert {v.state for v in found.values()} == {WaveState.FAILED}, said(found)
    assert "behind the controller and cannot be set" in found["gpu-1"].why
    assert "Secure Boot is on" in found["gpu-2"].why
    assert found["gpu-3"].task == "apt : Fetch what will be installed"
    assert "the mirror lacks" in found["gpu-3"].why
    assert "nvidia-dkms-575-open 575.57.08 (no such package)" in found["gpu-3"].why
    assert "site-monitor" in found["gpu-4"].why
    assert "1:4.2.3-1" in await rack.sh("gpu-4", "dpkg-query -W datacenter-gpu-manager-4-core")
    await rack.sh("gpu-2", "rm -r /sys/firmware/efi /etc/fake/secure-boot")
    await rack.sh("gpu-4", "apt-get remove -y site-monitor")
    rack.told.clear()


async def another_branch_in_one_transaction(rack: Rack) -> None:
    """570 → 580: other names, another CUDA, one reboot; what is left of 570 is gone, and nothing else."""
    rack.packages.update({"nvidia-driver": "580.126.20", "dcgm": "1:4.5.2-1"})
    found = await rack.run(*NAMES[:2])
    assert {v.state for v in found.values()} == {WaveState.OK}, said(found)
    for name in NAMES[:2]:
        assert (await rack.report(name))["noes"] == []
        left = await rack.sh(
            name, "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' '*nvidia*570*' | grep ' installed' || true"
        )
        assert left == ""


@pytest.mark.parametrize("names", [("gpu-1",)])
async def test_cancelled_in_the_middle_of_dpkg_the_next_run_goes_on(rack: Rack, names: tuple[str, ...]) -> None:
    """No process of the wave is left here; dpkg on the host is waited for or finished, and all is whole."""
    slow = next(deb for deb in rest() if deb.name == "prometheus-node-exporter")
    rack.mirror.add(replace(slow, version="1.9.0-1", postinst="touch /run/in-postinst; sleep 6"))
    rack.mirror.publish()
    rack.packages.clear()
    rack.packages["node-exporter"] = "1.9.0"
    rack.told["gpu-1"] = {"verify_checks": ["dpkg-audit"], "tuning_governor": "", "gpu_peer_memory": "none"}
    where = rack.host("gpu-1").address
    rack.waves.join(node("gpu-1"), rack.host("gpu-1").address)
    until = RealClock().monotonic() + 120
    while (await rack.shell.run(node("gpu-1"), where, "test -e /run/in-postinst", deadline_s=30)).status:
        assert RealClock().monotonic() < until, rack.waves.verdict("gpu-1")
        assert rack.waves.verdict("gpu-1").state in {WaveState.WAITING, WaveState.RUNNING}, rack.waves.verdict("gpu-1")
        await asyncio.sleep(0.2)
    tag = f"{rack.waves._id}.1"
    marks = Marks(tag, f"/provision-{tag[-8:]}-")
    assert find(marks)
    await rack.waves.close()
    assert find(marks) == []
    assert rack.waves.verdict("gpu-1").state is WaveState.NOT_ATTEMPTED
    rack.waves = rack.make()
    found = await rack.run("gpu-1")
    assert found["gpu-1"].state is WaveState.OK, said(found)
    assert (await rack.report("gpu-1"))["noes"] == []
    assert (
        await rack.sh("gpu-1", "dpkg --audit; dpkg-query -W -f '${db:Status-Status}' prometheus-node-exporter")
        == "installed"
    )
