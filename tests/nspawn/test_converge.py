"""playbooks/site.yml on real hosts, through the adapters that the product uses."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from nspawn_hosts import USER, Lab
from ssh_peer import MemoryPins, node, public_line, write_key

from provision.adapters.ansible import AnsibleWaves
from provision.adapters.ssh import ParamikoShell
from provision.model.node import Node
from provision.model.secret import Secret
from provision.ports import WaveState, WaveVerdict

SITE = Path(__file__).parents[2] / "playbooks" / "site.yml"
CHECK = "/usr/local/sbin/provision-check"
# A container has no kernel log of its own and nobody who sets its clock.
CONTAINER_CHECKS = ["disk-space", "systemd-units", "gpu-count", "nvme-count"]

pytestmark = [pytest.mark.nspawn, pytest.mark.timeout(300)]


class RealClock:
    """The clock on the wall."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def verdicts(waves: AnsibleWaves, *names: str) -> list[WaveVerdict]:
    """Join nobody, wait for all."""
    going_on = {WaveState.WAITING, WaveState.RUNNING}
    while any(waves.verdict(name).state in going_on for name in names):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return [waves.verdict(name) for name in names]


async def by_hand(folder: Path, sockets: Path, address: str) -> None:
    """Plain ansible-playbook on one host: converge, then a dry run that would change nothing."""
    inventory = folder / "inventory.yml"
    inventory.write_text(
        f"all: {{hosts: {{by-hand: {{ansible_host: {address}, ansible_user: {USER}}}}},\n"
        f"  vars: {{verify_checks: {json.dumps(CONTAINER_CHECKS)},\n"
        f"    ansible_ssh_private_key_file: {folder / 'id_client'},\n"
        f"    ansible_ssh_common_args: -o StrictHostKeyChecking=no -o UserKnownHostsFile={folder / 'known'}}}}}\n"
    )
    env = {"PATH": f"{Path(sys.prefix) / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    env |= {"ANSIBLE_PIPELINING": "1", "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=3s"}
    env["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(sockets)
    for options, changed in (((), None), (("--check", "--diff"), 0)):
        run = await asyncio.create_subprocess_exec(
            *("ansible-playbook", "-i", str(inventory), str(SITE), *options),
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said = (await run.communicate())[0].decode()
        assert run.returncode == 0, said
        assert changed is None or f"changed={changed} " in said, said


async def test_two_hosts_converge_once_and_a_third_that_lacks_a_gpu_is_refused_with_its_reason(
    lab: Lab, tmp_path: Path
) -> None:
    """Twice through site.yml as an ordinary user with sudo: the second run changes nothing; the marker proves it."""
    client_key = write_key(tmp_path / "id_client")
    pins = MemoryPins()
    shell = ParamikoShell(pins, user=USER, key_file=tmp_path / "id_client")
    names = ("gpu-12-01", "gpu-12-02", "gpu-12-03")
    for name in names:
        private = await shell.new_host_key(name)
        lab.start(name, host_key=private.reveal(), authorized_key=public_line(client_key))
    for host in lab.hosts.values():
        await asyncio.to_thread(host.wait)

    def told(which: Node) -> Mapping[str, object]:
        gpus = 8 if which.name == "gpu-12-03" else 0
        return {
            "verify_checks": CONTAINER_CHECKS,
            "provision_expected": {"gpus": gpus, "dimms": 32},
            "provision_packages": {},
            "site_token": Secret("hunter2-not-for-eyes"),
        }

    waves = AnsibleWaves(
        SITE,
        told,
        pins,
        ssh_user=USER,
        ssh_key_file=tmp_path / "id_client",
        clock=RealClock(),
        artifacts_dir=tmp_path / "waves",
        window_s=0.2,
    )
    try:
        addresses = {name: lab.hosts[name].address for name in names}
        assert await shell.marker(node(names[0]), addresses[names[0]]) is None
        for name in names:
            waves.join(node(name), addresses[name])
        first, second, short = await verdicts(waves, *names)
        assert (first.state, second.state) == (WaveState.OK, WaveState.OK), (first, second)
        assert first.changed > 0
        assert short.state is WaveState.FAILED
        assert short.task.startswith("verify : Refuse a node")
        assert "gpu-count: 0 of 8" in short.why

        marker = await shell.marker(node(names[0]), addresses[names[0]])
        assert marker is not None
        assert (marker.ok, marker.playbooks) == (True, waves.wanted(node(names[0])))
        assert await shell.marker(node(names[2]), addresses[names[2]]) is None

        waves.join(node(names[0]), addresses[names[0]])
        (again,) = await verdicts(waves, names[0])
        assert again == WaveVerdict(WaveState.OK, changed=0)
        assert await shell.marker(node(names[0]), addresses[names[0]]) == marker

        checked = await shell.run(node(names[2]), addresses[names[2]], CHECK, deadline_s=30)
        report = {check["name"]: check for check in json.loads(checked.stdout)["checks"]}
        assert (checked.status, report["gpu-count"]["ok"], report["disk-space"]["ok"]) == (1, False, True)
        assert report["systemd-units"]["ok"] is True, report["systemd-units"]
        await by_hand(tmp_path, lab.folder, addresses[names[1]].host)
        left = await shell.marker(node(names[1]), addresses[names[1]])
        assert left is not None
        assert left.playbooks == "by-hand"

        kept = "".join(path.read_text() for path in (tmp_path / "waves").iterdir())
        assert "gpu-12-03" in kept
        assert "hunter2" not in kept
    finally:
        await waves.close()
        await shell.close()


async def test_a_host_that_is_gone_is_unreachable_and_the_other_one_converges(lab: Lab, tmp_path: Path) -> None:
    """One wave, one dead host, one with another key than the pinned one, one that is well."""
    client_key, host_key = write_key(tmp_path / "id_client"), write_key(tmp_path / "host_key")
    pins = MemoryPins()
    private = (tmp_path / "host_key").read_text()
    for name in ("well", "gone", "stranger"):
        lab.start(name, host_key=private, authorized_key=public_line(client_key))
        pins.set_pin("ssh-host-key", name, public_line(host_key))
    pins.set_pin("ssh-host-key", "stranger", public_line(write_key(tmp_path / "other")))
    for host in lab.hosts.values():
        await asyncio.to_thread(host.wait)
    lab.hosts["gone"].process.terminate()
    lab.hosts["gone"].process.wait(15)
    waves = AnsibleWaves(
        SITE,
        lambda _: {"verify_checks": CONTAINER_CHECKS},
        pins,
        ssh_user="root",
        ssh_key_file=tmp_path / "id_client",
        clock=RealClock(),
        artifacts_dir=tmp_path / "waves",
        window_s=0.2,
        connect_timeout_s=2,
    )
    try:
        for name in ("well", "gone", "stranger"):
            waves.join(node(name), lab.hosts[name].address)
        well, gone, stranger = await verdicts(waves, "well", "gone", "stranger")
        assert well.state is WaveState.OK
        assert gone.state is WaveState.UNREACHABLE
        assert stranger.state is WaveState.UNREACHABLE
        assert "another SSH host key than the pinned one" in stranger.why
    finally:
        await waves.close()
