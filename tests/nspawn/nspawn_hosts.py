"""Real hosts for tests: systemd-nspawn with systemd, sshd, apt and an address each, in a network of their own.

The root file system is made once by mmdebstrap and kept in the user's cache; each host is an overlay on it, on a
tmpfs. A bridge in a network namespace carries the hosts; a veth pair leads from it to the tests, with addresses of
198.18.0.0/15, which RFC 2544 keeps for tests. Everything is ended by its id and unmounted by ``Lab.close``.

Needs root and, on Debian or Ubuntu: mmdebstrap systemd-container iproute2 openssh-client util-linux.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from provision.model.node import Address

SUITE = "bookworm"
PACKAGES = "systemd-sysv,dbus,openssh-server,python3,python3-apt,sudo,iproute2,udev,kmod,pciutils"
USER = "ops"
# A user that may become root by sudo without a password, as cloud images have one.
HOOK = (
    f'chroot "$1" useradd --create-home --shell /bin/bash {USER} && '
    f'echo "{USER} ALL=(ALL) NOPASSWD:ALL" > "$1/etc/sudoers.d/90-{USER}" && '
    'rm -f "$1"/etc/ssh/ssh_host_* && : > "$1/etc/machine-id" && '
    'chroot "$1" systemctl enable systemd-networkd ssh'
)
BOOT_S = 90
# With --keep-unit nspawn leaves with status 133 when its host reboots, and wants to be started again.
_AGAIN = (
    "trap 'kill -TERM $child; wait $child; exit 0' TERM; "
    'while :; do "$@" & child=$!; wait $child; status=$?; [ $status = 133 ] || exit $status; done'
)
_CGROUPS = Path("/sys/fs/cgroup")


class LabError(Exception):
    """A host, its network or its root file system could not be made; the text says why."""


def missing() -> str | None:
    """Why no host can be made here, or None."""
    if os.geteuid() != 0:
        return "systemd-nspawn needs root"
    tools = [
        tool
        for tool in ("systemd-nspawn", "ip", "nsenter", "setpriv", "mmdebstrap", "dpkg-deb", "gpg")
        if shutil.which(tool) is None
    ]
    return f"not installed: {', '.join(tools)}" if tools else None


def root_file_system() -> Path:
    """The cached root file system; made if it is not there (about half a minute and the distribution's mirror)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "provision-tests"
    cache.mkdir(parents=True, exist_ok=True)
    recipe = hashlib.sha256(f"{SUITE} {PACKAGES} {HOOK}".encode()).hexdigest()[:12]
    ready = cache / f"rootfs-{SUITE}-{recipe}"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.is_dir():
            made = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
            try:
                options = ("--quiet", "--variant=minbase", f"--include={PACKAGES}", f"--customize-hook={HOOK}")
                _run("mmdebstrap", *options, SUITE, str(made / "root"))
                (made / "root").rename(ready)
            finally:
                shutil.rmtree(made, ignore_errors=True)
    return ready


@dataclass
class Host:
    """A running host."""

    name: str
    address: Address
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def root(self) -> Path:
        """Its file system, as the tests see it."""
        return self.folder / "root"

    def wait(self) -> None:
        """Until its SSH server says who it is."""
        until = time.monotonic() + BOOT_S
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise LabError(f"{self.name} ended while booting:\n{self.console()}")
            if self._speaks_ssh():
                return
            time.sleep(0.1)
        raise LabError(f"{self.name} did not come up in {BOOT_S} s:\n{self.console()}")

    def _speaks_ssh(self) -> bool:
        try:
            with socket.create_connection((self.address.host, 22), timeout=2) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    def console(self) -> str:
        """The end of its console."""
        return (self.folder / "console").read_text(errors="replace")[-3000:]


class Lab:
    """Some hosts and their network: ``open``, ``start`` hosts, ``close`` always."""

    def __init__(self) -> None:
        number = os.getpid() % 254 + 1
        self.tag = f"pvt{os.getpid():x}"
        self.subnet = f"198.18.{number}"
        self.folder = Path("/nonexistent")
        self.hosts: dict[str, Host] = {}

    def open(self) -> None:
        """Make the root file system, if need be, and the network.

        Raises:
            LabError: this machine does not allow it, or the distribution's mirror does not answer.
        """
        self.rootfs = root_file_system()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.tag}-"))
        _run("mount", "-t", "tmpfs", "-o", "size=4G,mode=0755", "tmpfs", str(self.folder))
        self._make_network()

    def _make_network(self) -> None:
        _run("ip", "netns", "add", self.tag)
        inside = ("ip", "-n", self.tag)
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "link", "add", "br0", "type", "bridge")
        _run(*inside, "link", "set", "br0", "up")
        _run("ip", "link", "add", self.tag, "type", "veth", "peer", "name", "uplink", "netns", self.tag)
        _run(*inside, "link", "set", "uplink", "master", "br0", "up")
        _run("ip", "addr", "add", f"{self.subnet}.1/24", "dev", self.tag)
        _run("ip", "link", "set", self.tag, "up")
        # nspawn keeps its locks and sockets there; without systemd as PID 1 nobody has made it.
        Path("/run/systemd/nspawn").mkdir(parents=True, exist_ok=True)

    def start(
        self, name: str, *, host_key: str, authorized_key: str, files: Mapping[str, tuple[str, int]] | None = None
    ) -> Host:
        """Boot one host; it does not wait for it. ``host_key`` is the private ed25519 key in OpenSSH's format.

        ``files`` maps paths without a leading slash to (text, mode). A host that reboots itself comes back.
        """
        folder = self.folder / name
        for part in ("up", "work", "root"):
            (folder / part).mkdir(parents=True)
        address = f"{self.subnet}.{len(self.hosts) + 11}"
        self._prepare(folder / "up", name, address, host_key, authorized_key, files or {})
        layers = f"lowerdir={self.rootfs},upperdir={folder}/up,workdir={folder}/work"
        _run("mount", "-t", "overlay", "overlay", "-o", layers, str(folder / "root"))
        process = self._boot(name, folder)
        self.hosts[name] = Host(name, Address(address), folder, process)
        return self.hosts[name]

    def _prepare(
        self,
        up: Path,
        name: str,
        address: str,
        host_key: str,
        authorized_key: str,
        more: Mapping[str, tuple[str, int]],
    ) -> None:
        network = (
            f"[Match]\nName=host0\n[Network]\nAddress={address}/24\nGateway={self.subnet}.1\nLinkLocalAddressing=no\n"
        )
        files = {
            "etc/hostname": (f"{name}\n", 0o644),
            "etc/hosts": (f"127.0.0.1 localhost\n127.0.1.1 {name}\n", 0o644),
            "etc/systemd/network/10-host0.network": (network, 0o644),
            "etc/ssh/ssh_host_ed25519_key": (host_key, 0o600),
            "root/.ssh/authorized_keys": (f"{authorized_key}\n", 0o600),
            f"home/{USER}/.ssh/authorized_keys": (f"{authorized_key}\n", 0o644),
            **more,
        }
        for path, (text, mode) in files.items():
            # A folder of the upper layer hides the mode of the one below: take it over.
            for parent in reversed(Path(path).parents[:-1]):
                if not (up / parent).exists():
                    (up / parent).mkdir()
                    if (self.rootfs / parent).exists():
                        shutil.copystat(self.rootfs / parent, up / parent)
                        stat = (self.rootfs / parent).stat()
                        os.chown(up / parent, stat.st_uid, stat.st_gid)
            (up / path).write_text(text)
            (up / path).chmod(mode)

    def _boot(self, name: str, folder: Path) -> subprocess.Popen[bytes]:
        machine = f"{self.tag}-{name}"
        cgroups = _own_cgroups(machine)
        # Its own cgroup in every hierarchy; nsenter and not `ip netns exec`, which hides the cgroups behind a new /sys.
        joins = "".join(f"mkdir -p {path} && echo $$ > {path}/cgroup.procs; " for path in cgroups)
        command = [
            *("setpriv", "--pdeathsig", "TERM", "nsenter", f"--net=/run/netns/{self.tag}"),
            *("systemd-nspawn", "--quiet", "--boot", f"--directory={folder}/root", f"--machine={machine}"),
            *("--register=no", "--keep-unit", "--network-bridge=br0", "--console=pipe", "--link-journal=no"),
            *("--resolv-conf=off", "--timezone=off", f"--hostname={name}"),
        ]
        with (folder / "console").open("wb") as console:
            return subprocess.Popen(
                ["/bin/sh", "-c", joins + _AGAIN, "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def close(self) -> None:
        """End and unmount everything. What fails does not keep the rest from being cleaned up."""
        if not self.folder.exists():
            return
        for host in self.hosts.values():
            if host.process.poll() is None:
                host.process.send_signal(signal.SIGTERM)
        for host in self.hosts.values():
            self._finish(host)
        for command in (
            ("ip", "link", "del", self.tag),
            ("ip", "netns", "del", self.tag),
            ("umount", str(self.folder)),
        ):
            subprocess.run(command, capture_output=True, check=False)
        if not os.path.ismount(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _finish(self, host: Host) -> None:
        try:
            host.process.wait(15)
        except subprocess.TimeoutExpired:
            host.process.kill()
            host.process.wait(10)
        for path in _own_cgroups(f"{self.tag}-{host.name}"):
            _end_cgroup(path)
        subprocess.run(["umount", str(host.root)], capture_output=True, check=False)


def _own_cgroups(machine: str) -> list[Path]:
    """Where this machine's cgroups lie: one tree with cgroup v2, one per hierarchy with v1 or both."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS / machine]
    return [_CGROUPS / name / machine for name in ("systemd", "unified", "memory") if (_CGROUPS / name).is_dir()]


def _end_cgroup(path: Path) -> None:
    """Kill who is left in this very cgroup and below, and take it away."""
    if not path.is_dir():
        return
    below = sorted((item for item in path.rglob("*") if item.is_dir()), key=lambda item: -len(item.parts))
    for group in [*below, path]:
        with contextlib.suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
    until = time.monotonic() + 5
    for group in [*below, path]:
        while group.exists() and time.monotonic() < until:
            try:
                group.rmdir()
            except OSError:
                time.sleep(0.05)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()[-2000:]}")
