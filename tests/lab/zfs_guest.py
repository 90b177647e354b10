"""A software-emulated Debian with NVMe drives that can be pulled, and the real ZFS in its kernel.

The root file system is made once: mmdebstrap, then the kernel module by zfs-dkms in a chroot (about seven minutes of
CPU), and kept in the user's cache as a disk image. Each guest runs on an overlay of it; throwing the overlay away is
what a new installation does to the system drive. No KVM, no network but port forwarding on loopback.

Needs root and, on Debian: qemu-system-x86 qemu-utils mmdebstrap e2fsprogs openssh-client, 4 GB of disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

SUITE, KERNEL = "bookworm", "linux-image-cloud-amd64"
BASE = "systemd-sysv,dbus,openssh-server,python3,python3-apt,sudo,udev,kmod,iproute2,initramfs-tools,dkms"
ZFS = "zfs-dkms zfsutils-linux zfs-zed"
BOOT_S, DRIVES = 300, 6
SETUP = r"""
set -e
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
apt-get -q update
apt-get -q install -y --no-install-recommends @PACKAGES@
for kernel in /lib/modules/*; do dkms autoinstall -k "${kernel##*/}"; done
rm -f /usr/sbin/policy-rc.d /etc/hostid /etc/ssh/ssh_host_*
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
: > /etc/machine-id
printf '[Match]\nName=en*\n[Network]\nDHCP=yes\n' > /etc/systemd/network/10-all.network
systemctl enable systemd-networkd ssh
# A new installation has not met ZFS yet: the role turns on what it needs.
systemctl disable zfs-zed zfs-import-cache zfs-mount zfs.target
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
mkdir -p /root/.ssh; chmod 700 /root/.ssh
"""


def missing() -> str | None:
    """Why no guest can be made here, or None."""
    if os.geteuid() != 0:
        return "making the guest's file system needs root"
    tools = [t for t in ("qemu-system-x86_64", "qemu-img", "mmdebstrap", "mke2fs", "ssh") if shutil.which(t) is None]
    return f"not installed: {', '.join(tools)}" if tools else None


def image() -> Path:
    """The cached folder with ``disk.img``, ``vmlinuz``, ``initrd`` and ``key``; made if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "provision-tests"
    cache.mkdir(parents=True, exist_ok=True)
    recipe = hashlib.sha256(f"{SUITE} {KERNEL} {BASE} {ZFS} {SETUP}".encode()).hexdigest()[:12]
    ready = cache / f"zfs-guest-{SUITE}-{recipe}"
    with (cache / "zfs-guest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.is_dir():
            made = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
            try:
                _make(made)
                made.rename(ready)
            finally:
                shutil.rmtree(made, ignore_errors=True)
    return ready


def _make(folder: Path) -> None:
    root = folder / "root"
    packages = f"{BASE},{KERNEL},{KERNEL.replace('image', 'headers')}"
    options = ("--quiet", "--variant=minbase", "--components=main,contrib", f"--include={packages}")
    _run("mmdebstrap", *options, SUITE, str(root))
    _finish(folder, root)


def _finish(folder: Path, root: Path) -> None:
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    _run("mount", "--bind", "/proc", str(root / "proc"))
    try:
        _run("chroot", str(root), "sh", "-c", SETUP.replace("@PACKAGES@", ZFS))
    finally:
        _run("umount", str(root / "proc"))
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
    shutil.copy(folder / "key.pub", root / "root/.ssh/authorized_keys")
    for name, pattern in (("vmlinuz", "vmlinuz-*"), ("initrd", "initrd.img-*")):
        shutil.copy(next((root / "boot").glob(pattern)), folder / name)
    with (folder / "disk.img").open("wb") as file:
        file.truncate(3 << 30)
    _run("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(folder / "disk.img"))
    shutil.rmtree(root)


class Guest:
    """A running guest. Use as a context manager; ``reinstall`` gives it a new system drive."""

    def __init__(self, folder: Path) -> None:
        self.image, self.folder = image(), folder
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        for number in range(1, DRIVES + 1):
            self.new_drive(f"D{number}")

    def __enter__(self) -> Guest:
        self.reinstall()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def new_drive(self, serial: str) -> None:
        """A blank drive on the shelf."""
        with (self.folder / f"{serial}.raw").open("wb") as file:
            file.truncate(1 << 30)

    def reinstall(self) -> None:
        """A new system on the system drive; the other drives are those that were there."""
        self.stop()
        disk = self.folder / "system.qcow2"
        disk.unlink(missing_ok=True)
        base = str(self.image / "disk.img")
        _run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, str(disk), "10G")
        self.start()

    def start(self) -> None:
        """Boot, and wait for its SSH server."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        argv = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off"]
        argv += ["-smp", "2", "-m", "1536", "-nodefaults", "-display", "none", "-no-reboot"]
        argv += ["-kernel", str(self.image / "vmlinuz"), "-initrd", str(self.image / "initrd")]
        argv += ["-append", "root=/dev/disk/by-id/virtio-SYSTEM rw console=ttyS0 quiet"]
        argv += ["-serial", f"file:{self.folder}/console", "-qmp", f"unix:{self.folder}/qmp,server=on,wait=off"]
        argv += ["-netdev", f"user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"]
        argv += ["-device", "virtio-net-pci,netdev=n0"]
        argv += ["-drive", f"file={self.folder}/system.qcow2,if=none,id=sys,cache=unsafe"]
        argv += ["-device", "virtio-blk-pci,drive=sys,serial=SYSTEM"]
        for number in range(1, DRIVES + 1):
            serial = self.serials[number - 1]
            argv += ["-device", f"pcie-root-port,id=bay{number},chassis={number},slot={number}"]
            argv += ["-drive", f"file={self.folder}/{serial}.raw,if=none,format=raw,id=f{serial},cache=unsafe"]
            argv += ["-device", f"nvme,id={serial},drive=f{serial},serial={serial},bus=bay{number}"]
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        self._wait()

    serials: tuple[str, ...] = tuple(f"D{number}" for number in range(1, DRIVES + 1))

    def _wait(self) -> None:
        until = time.monotonic() + BOOT_S
        while time.monotonic() < until:
            assert self.process is not None
            if self.process.poll() is not None:
                raise RuntimeError(f"the guest ended while booting:\n{self.console()}")
            if self.ssh("true", check=False).returncode == 0:
                return
            time.sleep(2)
        raise RuntimeError(f"the guest did not come up in {BOOT_S} s:\n{self.console()}")

    def console(self) -> str:
        """The end of its console."""
        with contextlib.suppress(OSError):
            return (self.folder / "console").read_text(errors="replace")[-3000:]
        return ""

    def stop(self) -> None:
        """Cut its power."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def ssh_options(self) -> list[str]:
        """How to reach it."""
        plain = ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={self.folder}/known_hosts"]
        return [*plain, "-o", "ConnectTimeout=20", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]

    def ssh(self, command: str, *, check: bool = True, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
        """Run a command in it."""
        argv = ["ssh", "-i", str(self.image / "key"), "-p", str(self.port), *self.ssh_options(), "root@127.0.0.1"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run([*argv, command], capture_output=True, text=True, timeout=timeout_s, check=False)
            if check and done.returncode != 0:
                raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
            return done
        if check:
            raise RuntimeError(f"{command} did not end in {timeout_s} s:\n{self.console()}")
        return subprocess.CompletedProcess(argv, 255, "", "no answer")

    def qmp(self, execute: str, **arguments: Any) -> None:
        """One command to the emulator: hands in the data centre."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(30)
            sock.connect(str(self.folder / "qmp"))
            lines = sock.makefile("rwb")
            lines.readline()
            for command in ({"execute": "qmp_capabilities"}, {"execute": execute, "arguments": arguments}):
                lines.write(json.dumps(command).encode() + b"\n")
                lines.flush()
                answer = json.loads(lines.readline())
                while "event" in answer:
                    answer = json.loads(lines.readline())
                if "error" in answer:
                    raise RuntimeError(f"{execute}: {answer['error']['desc']}")

    def pull(self, serial: str) -> None:
        """Take a drive out while the machine runs."""
        self.qmp("device_del", id=serial)
        self.until(f"! lsblk -dno SERIAL | grep -qw {serial}", 120)

    def insert(self, serial: str, bay: int) -> None:
        """Put a drive in."""
        self.qmp(
            "blockdev-add",
            driver="raw",
            **{"node-name": f"n{serial}"},
            file={"driver": "file", "filename": f"{self.folder}/{serial}.raw"},
        )
        self.qmp("device_add", driver="nvme", id=serial, drive=f"n{serial}", serial=serial, bus=f"bay{bay}")
        self.until(f"lsblk -dno SERIAL | grep -qw {serial}", 120)

    def until(self, command: str, within_s: float) -> None:
        """Wait until a command succeeds in it."""
        end = time.monotonic() + within_s
        while self.ssh(command, check=False).returncode != 0:
            if time.monotonic() > end:
                raise RuntimeError(
                    f"not true in {within_s} s: {command}\n{self.ssh('zpool status', check=False).stdout}"
                )
            time.sleep(1)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv[:4])} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
