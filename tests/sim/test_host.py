"""Simulated hosts answer over real SSH: the OpenSSH client, paramiko and Ansible's raw module."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from provision.sim.build import build_machine
from provision.sim.host import HostServers
from provision.sim.host_commands import run
from provision.sim.parts import SimHost
from provision.sim.world import SimClock, SimMachine, World

OPENSSH = shutil.which("ssh")
ANSIBLE = Path(sys.executable).with_name("ansible")


def key_pair(folder: Path, name: str) -> tuple[Path, str, str]:
    """A private key file, its text, and the public half."""
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path, text, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


@dataclass
class Host:
    """A machine with a running system, the login key and the pinned host key."""

    machine: SimMachine
    system: SimHost
    key: Path
    stranger: Path
    public: str
    folder: Path

    def ssh(self, *more: str, key: Path | None = None) -> list[str]:
        """An OpenSSH command line that trusts only the pinned key."""
        known = self.folder / "known_hosts"
        where = f"[{self.machine.ssh_address}]:{self.machine.ssh_port}"
        known.write_text(f"{where} {self.public}\n", encoding="utf-8")
        options = [
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=yes",
            f"UserKnownHostsFile={known}",
            "GlobalKnownHostsFile=/dev/null",
            "ConnectTimeout=5",
        ]
        flags = [word for option in options for word in ("-o", option)]
        target = ["-p", str(self.machine.ssh_port), "-i", str(key or self.key), f"root@{self.machine.ssh_address}"]
        return ["ssh", "-F", "/dev/null", *flags, *target, *more]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    machine = build_machine(12, 3)
    world = World(SimClock(600), [machine])
    key, _, login = key_pair(tmp_path, "login")
    stranger, _, _ = key_pair(tmp_path, "stranger")
    _, private, public = key_pair(tmp_path, "hostkey")
    system = SimHost(
        "installed", "gpu-12-03", {"/etc/hostname": "gpu-12-03\n"}, private, (login,), image="ubuntu/jammy"
    )
    servers = HostServers(world)
    await servers.start()
    machine.powered = True
    machine.start_host(system)
    try:
        await until_open(machine)
        yield Host(machine, system, key, stranger, public, tmp_path)
    finally:
        await servers.stop()


async def until_open(machine: SimMachine, *, wanted: bool = True) -> None:
    """Wait for the port to accept or refuse."""
    for _ in range(100):
        try:
            _, writer = await asyncio.open_connection(machine.ssh_address, machine.ssh_port)
            writer.close()
            await writer.wait_closed()
            is_open = True
        except OSError:
            is_open = False
        if is_open is wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"port of {machine.name}: open is not {wanted}")


async def call(*argv: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run a real program."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.skipif(OPENSSH is None, reason="no OpenSSH client here")
async def test_openssh_reads_files_and_gets_exit_statuses(host: Host) -> None:
    """Files, missing files, unknown commands and the kernel's name, with the host key pinned."""
    assert await call(*host.ssh("cat /etc/hostname")) == (0, "gpu-12-03\n", "")
    status, out, err = await call(*host.ssh("cat /etc/provision/marker.json"))
    assert (status, out) == (1, "")
    assert "No such file" in err
    assert (await call(*host.ssh("rm -rf /")))[0] == 127
    assert (await call(*host.ssh("uname -r")))[1].startswith("5.15.")


@pytest.mark.skipif(OPENSSH is None, reason="no OpenSSH client here")
async def test_a_strange_key_and_a_strange_host_key_are_refused(host: Host) -> None:
    """Neither side lets a wrong key pass."""
    status, _, err = await call(*host.ssh("true", key=host.stranger))
    assert status == 255
    assert "Permission denied" in err
    _, _, other = key_pair(host.folder, "other")
    host.public = other
    status, _, err = await call(*host.ssh("true"))
    assert status == 255
    assert "Host key verification failed" in err


@pytest.mark.skipif(OPENSSH is None, reason="no OpenSSH client here")
async def test_one_master_connection_carries_several_sessions(host: Host) -> None:
    """ControlMaster: the second and third session go over the first one's connection, at once."""
    control = host.folder / "c"
    master = await asyncio.create_subprocess_exec(
        *host.ssh()[:1], "-M", "-N", "-S", str(control), *host.ssh()[1:], stdin=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            if control.exists():
                break
            await asyncio.sleep(0.02)
        over = ["ssh", "-S", str(control), *host.ssh("uname -r")[1:]]
        answers = await asyncio.gather(*(call(*over) for _ in range(3)))
        assert [answer[0] for answer in answers] == [0, 0, 0]
        # A wrong key cannot matter any more: nothing logs in again.
        assert (await call("ssh", "-S", str(control), *host.ssh("true", key=host.stranger)[1:]))[0] == 0
    finally:
        master.terminate()
        await master.wait()


async def test_paramiko_runs_the_checks_and_applies_once(host: Host) -> None:
    """The playbook's command writes the marker once and is counted once."""

    def talk() -> tuple[list[int], str]:
        transport = paramiko.Transport((host.machine.ssh_address, host.machine.ssh_port))
        try:
            transport.connect(username="root", pkey=paramiko.Ed25519Key.from_private_key_file(str(host.key)))
            statuses = []
            for line in ("provision-sim-apply abc", "provision-sim-apply abc", "/usr/local/sbin/provision-check"):
                channel = transport.open_session()
                channel.exec_command(line)
                output = b"".join(iter(lambda channel=channel: channel.recv(65536), b""))
                statuses.append(channel.recv_exit_status())
            return statuses, output.decode()
        finally:
            transport.close()

    statuses, output = await asyncio.to_thread(talk)
    assert statuses == [0, 0, 0]
    assert host.machine.writes["playbook"] == 1
    assert json.loads(host.system.files["/etc/provision/marker.json"])["playbooks"] == "abc"
    assert all(check["ok"] for check in json.loads(output)["checks"])


async def test_a_machine_without_power_refuses_connections(host: Host) -> None:
    """The port is shut while no installed system runs, and the port is the same afterwards."""
    port = host.machine.ssh_port
    host.machine.power_off()
    await until_open(host.machine, wanted=False)
    host.machine.powered = True
    host.machine.start_host(host.system)
    await until_open(host.machine)
    assert host.machine.ssh_port == port


@pytest.mark.skipif(not ANSIBLE.exists() or OPENSSH is None, reason="no ansible or no OpenSSH client here")
@pytest.mark.parametrize("become", [False, True], ids=["plain", "become"])
async def test_ansible_raw_works_over_openssh(host: Host, become: bool) -> None:
    """Ansible's raw module, with and without sudo, as the simulator's own playbook uses it."""
    known = host.folder / "known_hosts"
    host.ssh()
    argv = [
        str(ANSIBLE), "all", "-i", f"{host.machine.ssh_address},", "-m", "raw", "-a", "provision-sim-apply h1",
        "-u", "root", "--private-key", str(host.key), "-e", f"ansible_port={host.machine.ssh_port}",
        "-e", f"ansible_ssh_common_args='-F /dev/null -o UserKnownHostsFile={known} -o ControlPath={host.folder}/%h'",
        *(["--become"] if become else []),
    ]  # fmt: skip
    env = {
        "PATH": f"{ANSIBLE.parent}:/usr/bin:/bin",
        "HOME": str(host.folder),
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_PERSISTENT_CONTROL_PATH_DIR": str(host.folder),
        "LC_ALL": "C.UTF-8",
    }
    status, out, err = await call(*argv, env=env)
    assert status == 0, out + err
    assert host.machine.writes["playbook"] == 1


FAULTS = {
    "gpu_missing": ("gpu-count", "7 of 8"),
    "nvme_missing": ("nvme-count", "8 of 9"),
    "nic_missing": ("nic-count", "9 of 10"),
    "pcie_width": ("pcie-width", "Slot 38: x4 of x16"),
    "dimm_errors": ("dmesg-memory", "DIMM_A1"),
    "nvme_failing": ("dmesg-nvme", "critical medium error"),
    "clock_off": ("clock-offset", "+25200"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_checks_tell_what_the_machine_really_has(kind: str) -> None:
    """Every fault that a host can see makes exactly its check say no."""
    machine = build_machine(12, 3)
    World(SimClock(), [machine])
    system = SimHost("installed", "gpu-12-03")
    well = run(machine, system, "sudo -n /usr/local/sbin/provision-check")
    assert (well.status, json.loads(well.out)["noes"]) == (0, [])
    machine.inject(kind)
    sick = run(machine, system, "/usr/local/sbin/provision-check")
    noes = [check for check in json.loads(sick.out)["checks"] if check["ok"] is not True]
    name, why = FAULTS[kind]
    assert sick.status == 1
    assert any(check["name"] == name and why in check["why"] for check in noes)
    assert {check["name"] for check in noes} <= {name, "zpool", "pcie-width"}


@pytest.mark.parametrize(
    ("line", "status", "out"),
    [
        ("/bin/sh -c 'uname -r && sleep 0'", 127, "5.15.0-130-generic\n"),
        ("false || echo yes; true", 0, "yes\n"),
        ("false && echo no", 1, ""),
        ("sudo -H -S -n -u root /bin/sh -c 'echo BECOME-SUCCESS-x ; true'", 0, "BECOME-SUCCESS-x\n"),
        ("echo 'unfinished", 2, ""),
        ("", 0, ""),
        ("test -f /etc/hostname", 0, ""),
        ("test -f /nowhere", 1, ""),
        ("sh", 0, ""),
        (";;", 0, ""),
    ],
)
def test_command_lines_are_taken_apart_like_a_shell_does(line: str, status: int, out: str) -> None:
    """Wrappers, lists and their exit statuses; nothing of it is ever executed."""
    machine = build_machine(12, 3)
    World(SimClock(), [machine])
    answer = run(machine, SimHost("installed", files={"/etc/hostname": "x\n"}, image="ubuntu/jammy"), line)
    assert (answer.status, answer.out) == (status, out)


def test_addresses_are_bound_but_refuse_until_a_system_runs() -> None:
    """Before any installation nobody can connect, and nobody else can take the address."""

    async def story() -> None:
        machine = build_machine(12, 3)
        servers = HostServers(World(SimClock(), [machine]))
        await servers.start()
        try:
            await until_open(machine, wanted=False)
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((machine.ssh_address, machine.ssh_port))
        finally:
            await servers.stop()

    asyncio.run(story())
