"""A host behind a jump host: a real sshd carries the connection of the shell to the host."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import paramiko
import pytest
from ssh_peer import MemoryPins, SshPeer, node, public_line, write_key

from provision.adapters.ssh import ParamikoShell
from provision.errors import RefusedError, UnavailableError

pytestmark = pytest.mark.slow
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")


@dataclass
class Bastion:
    """sshd on loopback that lets the operator's key in."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    def proxy(self) -> str:
        """What stands behind ``-o ProxyCommand=``."""
        files = f"-i {self.folder}/operator -o UserKnownHostsFile={self.folder}/known"
        return f"ssh -F none {files} -o BatchMode=yes -p {self.port} -W %h:%p {getpass.getuser()}@127.0.0.1"

    def log(self) -> str:
        return (self.folder / "log").read_text()


@pytest.fixture
def bastion(tmp_path: Path) -> Iterator[Bastion]:
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("no jump host: openssh-server or openssh-client is not installed")
    folder = tmp_path / "bastion"
    folder.mkdir(mode=0o700)
    operator, own = write_key(folder / "operator"), write_key(folder / "own")
    (folder / "authorized").write_text(public_line(operator) + "\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {public_line(own)}\n")
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/own\nAuthorizedKeysFile {folder}/authorized\n"
        "PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nLogLevel DEBUG1\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd locks itself in when it is started by root
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([SSHD, "-f", folder / "config", "-D", "-e"], stderr=log, start_new_session=True)
    until = time.monotonic() + 20
    while "Server listening" not in (folder / "log").read_text():
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until
        time.sleep(0.02)
    yield Bastion(folder, port, process)
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(10)


@pytest.fixture
async def shell(pins: MemoryPins, client_key_file: Path, host_key: paramiko.PKey) -> object:
    pins.set_pin("ssh-host-key", "gpu-12-01", public_line(host_key))
    shell = ParamikoShell(pins, user="root", key_file=client_key_file, connect_timeout_s=10)
    yield shell
    await shell.close()


async def test_commands_reach_a_host_behind_a_jump_host(
    bastion: Bastion, shell: ParamikoShell, start: Callable[..., SshPeer]
) -> None:
    """The jump host sees two addresses and no plain text: host key and login are checked end to end."""
    peer = start()
    behind = replace(node(), ssh_proxy=bastion.proxy())
    for n in range(2):
        result = await shell.run(behind, peer.address, f"echo {n}; exit 3", deadline_s=10)
        assert (result.status, result.stdout) == (3, f"{n}\n")
    assert peer.connections == 1
    assert f"{peer.address.host} port {peer.address.port}" in bastion.log()


async def test_what_goes_wrong_on_the_way_names_the_way(
    bastion: Bastion, shell: ParamikoShell, start: Callable[..., SshPeer], pins: MemoryPins, tmp_path: Path
) -> None:
    peer = start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = replace(peer.address, port=free.getsockname()[1])
    behind = replace(node(), ssh_proxy=bastion.proxy())
    with pytest.raises(UnavailableError, match=r"through ssh -F none .*Connection refused, stdio forwarding failed"):
        await shell.run(behind, nobody, "true", deadline_s=10)
    with pytest.raises(UnavailableError, match=r"through no-such-program %h: .*not found"):
        await shell.run(replace(node(), ssh_proxy="no-such-program %h"), peer.address, "true", deadline_s=10)
    pins.set_pin("ssh-host-key", "gpu-12-01", public_line(write_key(tmp_path / "other")))
    with pytest.raises(RefusedError, match="pinned is SHA256"):
        await shell.run(behind, peer.address, "true", deadline_s=10)


async def test_the_way_ends_with_the_connection(
    bastion: Bastion, shell: ParamikoShell, start: Callable[..., SshPeer]
) -> None:
    behind = replace(node(), ssh_proxy=bastion.proxy())
    await shell.run(behind, start().address, "true", deadline_s=10)
    assert _through(bastion)
    await shell.close()
    until = time.monotonic() + 10
    while _through(bastion):
        assert time.monotonic() < until, "the ssh to the jump host stayed"
        await asyncio.sleep(0.05)


def _through(bastion: Bastion) -> list[str]:
    """Processes that are a way through this jump host."""
    mark = f"{bastion.folder}/known".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            told = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        found += [entry.name] if mark in told and told.startswith(b"ssh\0") else []
    return found
