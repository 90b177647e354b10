"""A software-emulated machine with an empty drive, libvirt and sushy-emulator before it, and a network to boot from.

libvirtd, dnsmasq and the guest live in a network namespace of the test's own; libvirtd also in a mount namespace, with
its folders in the test's. The emulator listens on loopback and reaches libvirtd by its socket. No KVM and no D-Bus is
needed, and nothing of the computer's own libvirt is touched.

Needs root and, on Debian: qemu-system-x86 ipxe-qemu libvirt-daemon-system libvirt-clients python3-libvirt dnsmasq-base
iproute2 util-linux; sushy-tools is one of requirements-dev.txt.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import bcrypt
from redfish_lab import make_certificate

from provision.model.node import Node

MAC, UUID = "52:54:00:77:0b:01", "5e1c7b1e-3d53-4c0e-9a51-0b8f5d2f7a77"
USER, PASSWORD = "lab", "sesame-öffne"
_ROM = Path("/usr/lib/ipxe/qemu/pxe-virtio.rom")
_BINDINGS = Path("/usr/lib/python3/dist-packages")
_TOOLS = ("qemu-system-x86_64", "libvirtd", "virsh", "dnsmasq", "ip", "nsenter", "unshare", "mount")
_PATIENCE_S = 60
# It tells over the network, in its own words, who booted, and stays.
_SCRIPT = "#!ipxe\nchain tftp://${next-server}/alive/${netX/mac:hexhyp}/${uuid} || sleep 3600\n"
# The console is the firmware's own, on the serial port. A drive there must be: without one to boot from the firmware
# has no boot order, and tries the network unasked.
_DOMAIN = f"""
<domain type='qemu'>
  <name>lab-node-1</name><uuid>{UUID}</uuid><memory unit='MiB'>256</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/><bios useserial='yes'/></os>
  <cpu mode='maximum'/><features><acpi/></features>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw'/><source file='@FOLDER@/empty.raw'/><target dev='vda' bus='virtio'/>
    </disk>
    <interface type='bridge'><mac address='{MAC}'/><source bridge='br0'/><model type='virtio'/></interface>
    <serial type='file'><source path='@FOLDER@/console'/></serial>
    <memballoon model='none'/>
  </devices>
</domain>
"""
_INNER = """
set -e
for kept in etc/libvirt var/lib/libvirt var/log/libvirt var/cache/libvirt; do
  mkdir -p "$1/$kept" "/$kept"; mount --bind "$1/$kept" "/$kept"
done
mkdir -p /run/libvirt; mount -t tmpfs tmpfs /run/libvirt
cd "$1"; exec libvirtd -f "$1/libvirtd.conf" --pid-file "$1/libvirtd.pid"
"""


def missing() -> str | None:
    """Why no such machine can be made here, or None."""
    if os.geteuid() != 0:
        return "a network namespace and libvirtd need root"
    lacking = [tool for tool in _TOOLS if shutil.which(tool) is None]
    lacking += [str(path) for path in (_ROM, _BINDINGS / "libvirt.py", Path("/dev/net/tun")) if not path.exists()]
    if not (Path(sys.executable).parent / "sushy-emulator").exists():
        lacking.append("sushy-emulator (requirements-dev.txt)")
    return f"not installed: {', '.join(lacking)}" if lacking else None


class NetworkMachine:
    """The machine, off, and all around it. Use as a context manager. ``log`` is what dnsmasq tells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._space = f"pvnb{os.getpid()}"
        self._running: list[subprocess.Popen[bytes]] = []
        self._port = 0

    def __enter__(self) -> NetworkMachine:
        try:
            self._make_network()
            self._start_libvirt()
            self._start_emulator()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # The guest is a daemon that libvirtd started: whatever is in our own namespace is ours.
        found = subprocess.run(["ip", "netns", "pids", self._space], capture_output=True, text=True, check=False)
        for pid in found.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for process in self._running:
            process.kill()
            process.wait()
        subprocess.run(["ip", "netns", "del", self._space], capture_output=True, check=False)

    @property
    def node(self) -> Node:
        """The machine, as the Redfish adapter is told of it."""
        return Node("lab-node-1", "lab", f"127.0.0.1:{self._port}", "lab-rack")

    @property
    def log(self) -> list[str]:
        """What dnsmasq said so far."""
        return (self.folder / "dnsmasq.log").read_text(encoding="utf-8", errors="replace").splitlines()

    @property
    def console(self) -> str:
        """What the firmware has written."""
        path = self.folder / "console"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def boots(self) -> int:
        """How often the booted script has spoken for this very machine: its address and its UUID."""
        spoke = f"/alive/{MAC.replace(':', '-')}/{UUID}"
        return sum(spoke in line for line in self.log)

    def _make_network(self) -> None:
        for line in (
            f"netns add {self._space}",
            f"-n {self._space} link set lo up",
            f"-n {self._space} link add br0 type bridge",
            f"-n {self._space} addr add 10.77.11.1/24 dev br0",
            f"-n {self._space} link set br0 up",
        ):
            subprocess.run(["ip", *line.split()], check=True, capture_output=True)
        (self.folder / "tftp").mkdir()
        (self.folder / "tftp" / "boot.ipxe").write_text(_SCRIPT, encoding="utf-8")
        argv = ["dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--user=root", "--log-dhcp"]
        argv += ["--interface=br0", "--bind-interfaces", "--dhcp-range=10.77.11.50,10.77.11.60,255.255.255.0,1h"]
        argv += [f"--dhcp-leasefile={self.folder}/leases", f"--pid-file={self.folder}/dnsmasq.pid", "--enable-tftp"]
        argv += [f"--tftp-root={self.folder}/tftp", "--dhcp-boot=boot.ipxe", "--log-facility=-"]
        self._start([*self._inside, *argv], "dnsmasq.log")

    def _start_libvirt(self) -> None:
        etc = self.folder / "etc" / "libvirt"
        etc.mkdir(parents=True)
        # Without a log daemon, and without what needs the control groups of a real init.
        etc.joinpath("qemu.conf").write_text(
            'stdio_handler = "file"\nsecurity_driver = "none"\nuser = "root"\ngroup = "root"\ndynamic_ownership = 0\n'
            "namespaces = []\ncgroup_controllers = []\n",
            encoding="utf-8",
        )
        (self.folder / "libvirtd.conf").write_text(
            f'unix_sock_dir = "{self.folder}"\nauth_unix_rw = "none"\nauth_unix_ro = "none"\n', encoding="utf-8"
        )
        inner = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _INNER, "sh", str(self.folder)]
        self._start([*self._inside, *inner], "libvirtd.log")
        self._until(lambda: self._virsh("version").returncode == 0, "libvirtd")
        (self.folder / "empty.raw").write_bytes(bytes(2**20))
        domain = self.folder / "domain.xml"
        domain.write_text(_DOMAIN.replace("@FOLDER@", str(self.folder)), encoding="utf-8")
        made = self._virsh("define", str(domain))
        assert made.returncode == 0, made.stderr

    def _start_emulator(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self._port = int(taken.getsockname()[1])
        # Only libvirt's own bindings of the distribution, not everything that lies beside them.
        bindings = self.folder / "bindings"
        bindings.mkdir()
        for found in (*_BINDINGS.glob("libvirt.py"), *_BINDINGS.glob("libvirtmod*.so")):
            (bindings / found.name).symlink_to(found)
        logins, certificate = self.folder / "logins", self.folder / "bmc.pem"
        logins.write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n", encoding="utf-8")
        make_certificate(certificate, "lab-bmc")
        settings = {
            "SUSHY_EMULATOR_LIBVIRT_URI": self._uri,
            "SUSHY_EMULATOR_ALLOWED_INSTANCES": [UUID],
            "SUSHY_EMULATOR_STATE_DIR": str(self.folder),
            "SUSHY_EMULATOR_AUTH_FILE": str(logins),
            "SUSHY_EMULATOR_LISTEN_IP": "127.0.0.1",
            "SUSHY_EMULATOR_LISTEN_PORT": self._port,
            "SUSHY_EMULATOR_SSL_CERT": str(certificate),
            "SUSHY_EMULATOR_SSL_KEY": str(certificate),
        }
        config = self.folder / "sushy.conf"
        config.write_text("".join(f"{name} = {value!r}\n" for name, value in settings.items()), encoding="utf-8")
        emulator = str(Path(sys.executable).parent / "sushy-emulator")
        env = {**os.environ, "PYTHONPATH": str(bindings), "TMPDIR": str(self.folder)}
        self._start([emulator, "--config", str(config)], "emulator.log", env)
        self._until(self._listens, "sushy-emulator")

    @property
    def _inside(self) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self._space}"]

    @property
    def _uri(self) -> str:
        return f"qemu+unix:///system?socket={self.folder}/libvirt-sock"

    def _virsh(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = ["virsh", "-c", self._uri, *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)

    def _start(self, argv: list[str], log: str, env: dict[str, str] | None = None) -> None:
        with (self.folder / log).open("wb") as out:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        self._running.append(process)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False

    def _until(self, ready: Callable[[], bool], who: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not ready():
            logs = "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))
            assert self._running[-1].poll() is None, f"{who} ended by itself:\n{logs}"
            assert time.monotonic() < until, f"{who} does not come up:\n{logs}"
            time.sleep(0.2)
