"""The software stack as dummy packages, and the hardware under it as a program that runs at boot.

The dummies do what the real ones are known for: a fabric manager of another version than the loaded module does not
start, nvidia-smi refuses a mismatch, a DKMS build may fail, and the loaded module stays the old one until a reboot.
"""

from __future__ import annotations

from dummy_mirror import Deb, File

KERNEL = "6.8.0-60-generic"
GPUS = 8


def unit(start: str, extra: str = "") -> File:
    text = f"[Unit]\nDescription=dummy\n[Service]\nExecStart={start}\n{extra}[Install]\nWantedBy=multi-user.target\n"
    return text, 0o644


def script(text: str) -> File:
    return f"#!/bin/sh\n{text}\n", 0o755


def serving(port: int, metric: str, lines: int) -> File:
    """An exporter: a tiny HTTP server."""
    return (
        "#!/usr/bin/python3\n"
        "from http.server import BaseHTTPRequestHandler, HTTPServer\n"
        f"text = ''.join('{metric}{{gpu=\"%d\"}} 40\\n' % n for n in range({lines}))\n"
        "class H(BaseHTTPRequestHandler):\n"
        "    def log_message(self, *_): pass\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers(); self.wfile.write(text.encode())\n"
        f"HTTPServer(('127.0.0.1', {port}), H).serve_forever()\n"
    ), 0o755


SMI = """\
loaded=$(cat /sys/module/nvidia/version 2>/dev/null) || { echo "couldn't communicate with the NVIDIA driver"; exit 9; }
[ "$loaded" = "@VERSION@" ] || { echo "Failed to initialize NVML: Driver/library version mismatch"; exit 18; }
mode=Disabled; systemctl is-active --quiet nvidia-persistenced && mode=Enabled
for n in $(seq 0 @LAST@); do
  case "$*" in
    *query-gpu=index*) echo "$n, 00000000:1$n:00.0, 165300$n" ;;
    *query-gpu=driver_version*) echo "$loaded, $mode" ;;
    -q) printf 'GPU 00000000:1%s:00.0\\n    Fabric\\n        State                   : %s\\n' $n Completed
        printf '        Status                  : Success\\n' ;;
  esac
done"""
BUILD = """\
if [ -e /etc/fake/dkms-fail ]; then
  mkdir -p /var/lib/dkms/@MODULE@/@VERSION@/build
  echo "nv-linux.h:1:10: fatal error: no such symbol" > /var/lib/dkms/@MODULE@/@VERSION@/build/make.log
  exit 10
fi
mkdir -p /var/lib/fake-dkms
echo "@MODULE@/@VERSION@, $(cat /proc/sys/kernel/osrelease), x86_64: installed" > /var/lib/fake-dkms/@MODULE@"""


def fill(text: str, **values: object) -> str:
    for key, value in values.items():
        text = text.replace(f"@{key.upper()}@", str(value))
    return text


def driver(version: str, branch: int) -> list[Deb]:
    """One version of the driver's family, with the names of its branch in the CUDA repository."""
    suffix = "" if branch >= 590 else f"-{branch}"
    side = "" if branch >= 580 else f"-{branch}"
    library = f"libnvidia-compute{suffix}"
    module = {"lib/fake-modules/nvidia": (version + "\n", 0o644)}
    smi = {"usr/bin/nvidia-smi": script(fill(SMI, version=version, last=GPUS - 1))}
    fabric = {
        "usr/bin/nv-fabricmanager": script(
            f'[ "$(cat /sys/module/nvidia/version)" = "{version}" ] || {{ echo "interface version {version} does not '
            'match the driver"; exit 1; }\nexec sleep infinity'
        ),
        "lib/systemd/system/nvidia-fabricmanager.service": unit("/usr/bin/nv-fabricmanager"),
    }
    persistence = {
        "usr/bin/nvidia-persistenced": script("exec sleep infinity"),
        "lib/systemd/system/nvidia-persistenced.service": unit("/usr/bin/nvidia-persistenced --no-persistence-mode"),
    }
    others = [other for other in ("-570", "-580", "") if other != suffix]

    def rivals(name: str, own: str) -> str:
        return ", ".join(f"{name}{other}" for other in ("-570", "-580", "") if f"{name}{other}" != own)

    return [
        Deb(
            f"nvidia-dkms{suffix}-open",
            f"{version}-0ubuntu1",
            depends="dkms",
            conflicts=", ".join(f"nvidia-dkms{other}-open" for other in others),
            files=module,
            postinst=fill(BUILD, module="nvidia", version=version),
            postrm="rm -f /var/lib/fake-dkms/nvidia",
        ),
        Deb(library, f"{version}-0ubuntu1", conflicts=rivals("libnvidia-compute", library)),
        Deb(
            f"nvidia-utils{suffix}",
            f"{version}-0ubuntu1",
            depends=library,
            conflicts=rivals("nvidia-utils", f"nvidia-utils{suffix}"),
            files=smi,
        ),
        Deb("nvidia-persistenced", f"{version}-0ubuntu1", files=persistence),
        Deb(
            f"nvidia-fabricmanager{side}",
            f"{version}-1",
            conflicts=rivals("nvidia-fabricmanager", f"nvidia-fabricmanager{side}"),
            files=fabric,
        ),
        Deb(f"libnvidia-nscq{side}", f"{version}-1", conflicts=rivals("libnvidia-nscq", f"libnvidia-nscq{side}")),
    ]


DOCKER = """\
#!/usr/bin/python3
import json, pathlib
path = pathlib.Path("/etc/docker/daemon.json")
told = json.loads(path.read_text()) if path.exists() else {}
print(json.dumps({"runc": {}, **told.get("runtimes", {})}))
"""


def ofed(version: str) -> Deb:
    return Deb(
        "doca-ofed",
        version,
        depends="dkms",
        files={
            "lib/fake-modules/mlx5_core": ("24.10-1.1.4\n", 0o644),
            "usr/bin/ofed_info": script("echo 'OFED-internal-24.10-1.1.4:'"),
            "lib/systemd/system/openibd.service": unit("/bin/true", "Type=oneshot\nRemainAfterExit=yes\n"),
        },
        postinst=fill(BUILD, module="mlnx-ofed-kernel", version="24.10"),
    )


def dcgm(version: str) -> list[Deb]:
    own = "datacenter-gpu-manager-4"
    service = {
        "usr/bin/dcgmi": script(f'echo "{GPUS} GPUs found."'),
        "lib/systemd/system/nvidia-dcgm.service": unit("/bin/sleep infinity"),
    }
    return [
        Deb(f"{own}-core", version, conflicts="datacenter-gpu-manager", files=service),
        *(Deb(f"{own}-cuda{major}", version, depends=f"{own}-core (= {version})") for major in (12, 13)),
        Deb(f"{own}-proprietary", version, depends=f"{own}-core (= {version})"),
    ]


def rest() -> list[Deb]:
    """Everything beside the driver, in one version."""
    toolkit = ("nvidia-container-toolkit", "nvidia-container-toolkit-base")
    toolkit += ("libnvidia-container-tools", "libnvidia-container1")
    exporter = {
        "usr/bin/dcgm-exporter": serving(9400, "DCGM_FI_DEV_GPU_TEMP", GPUS),
        "lib/systemd/system/nvidia-dcgm-exporter.service": unit("/usr/bin/dcgm-exporter"),
    }
    node_exporter = {
        "usr/bin/prometheus-node-exporter": serving(9100, "node_uname_info", 1),
        "lib/systemd/system/prometheus-node-exporter.service": unit("/usr/bin/prometheus-node-exporter"),
    }
    chrony = {
        "usr/bin/chronyc": script(
            'case "$*" in *tracking*) '
            'echo "A9FEA9FE,198.18.0.1,4,1795979101.3,0.000012,0.1,0.1,1.0,0.0,0.0,0.0,0.0,64.0,Normal";; esac'
        ),
        "lib/systemd/system/chrony.service": unit("/bin/sleep infinity"),
        "etc/chrony/conf.d/README": ("\n", 0o644),
    }
    return [
        Deb(f"linux-image-{KERNEL}", "6.8.0-60.63", files={f"boot/vmlinuz-{KERNEL}": ("kernel\n", 0o644)}),
        Deb(f"linux-headers-{KERNEL}", "6.8.0-60.63"),
        Deb(
            "dkms",
            "3.0.11",
            files={"usr/sbin/dkms": script("cat /var/lib/fake-dkms/* 2>/dev/null; true")},
        ),
        Deb(
            "docker-ce",
            "5:27.3.1-1",
            depends="docker-ce-cli, containerd.io",
            files={
                "lib/systemd/system/docker.service": unit("/bin/sleep infinity"),
            },
        ),
        Deb("docker-ce-cli", "5:27.3.1-1", files={"usr/bin/docker": (DOCKER, 0o755)}),
        Deb("containerd.io", "1.7.24-1"),
        *(Deb(name, "1.17.4-1") for name in toolkit),
        Deb("datacenter-gpu-manager-exporter", "4.1.0-1", files=exporter),
        Deb("prometheus-node-exporter", "1.8.2-1", files=node_exporter),
        Deb("chrony", "4.5-1", files=chrony),
    ]


PACKAGES = {
    "kernel": KERNEL,
    "doca-ofed": "2.9.1",
    "nvidia-driver": "570.124.06",
    "docker": "5:27.3.1-1",
    "containerd": "1.7.24-1",
    "nvidia-container-toolkit": "1.17.4",
    "dcgm": "1:4.2.3-1",
    "dcgm-exporter": "4.1.0",
    "node-exporter": "1.8.2",
    "chrony": "any",
}


def everything() -> list[Deb]:
    """What the mirror has: two versions of branch 570, one of 580, one of 590, two of DCGM."""
    return [
        *driver("570.124.06", 570),
        *driver("570.133.20", 570),
        *driver("580.126.20", 580),
        ofed("2.9.1-1"),
        *dcgm("1:4.2.3-1"),
        *dcgm("1:4.5.2-1"),
        *rest(),
    ]


BOOT = """\
#!/bin/sh
# The hardware, and what the boot loader and the kernel would have done.
set -e
echo boot >> /var/lib/fake-boots
kernel=6.1.0-1-generic; args=quiet
[ -e /boot/fake-grub ] && . /boot/fake-grub
mkdir -p /run/fake
echo "$kernel" > /run/fake/osrelease
echo "BOOT_IMAGE=/boot/vmlinuz-$kernel $args" > /run/fake/cmdline
mount --bind /run/fake/osrelease /proc/sys/kernel/osrelease
mount --bind /run/fake/cmdline /proc/cmdline
# A container's /sys is a small one of its own. It must be read-only again, or networkd waits for udev.
mount -o remount,rw /sys
mkdir -p /sys/module /sys/firmware
mount -o remount,ro /sys
mount -t tmpfs tmpfs /sys/module
mkdir /sys/module/mlx5_core
[ -e /lib/fake-modules/mlx5_core ] && cp /lib/fake-modules/mlx5_core /sys/module/mlx5_core/version
[ -e /lib/fake-modules/nvidia ] && modprobe nvidia
mount -t tmpfs tmpfs /sys/bus/pci
for n in $(seq 0 7); do
  d=/sys/bus/pci/devices/0000:1$n:00.0; mkdir -p $d; echo 0x030200 > $d/class; echo 0x10de > $d/vendor
done
mount -t tmpfs tmpfs /sys/devices/system/cpu
for f in online present possible; do echo 0-1 > /sys/devices/system/cpu/$f; done
for n in 0 1; do
  d=/sys/devices/system/cpu/cpu$n/cpufreq; mkdir -p $d
  echo powersave > $d/scaling_governor; echo 2000000 > $d/scaling_max_freq; echo 3800000 > $d/cpuinfo_max_freq
done
mount -t tmpfs tmpfs /sys/kernel/mm
mount -t tmpfs tmpfs /sys/firmware
if [ -e /etc/fake/secure-boot ]; then
  mkdir -p /sys/firmware/efi/efivars
  printf '\\006\\000\\000\\000\\001' > /sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
fi
exit 0
"""
MODPROBE = """\
#!/bin/sh
case "$1" in
  nvidia)
    [ -e /lib/fake-modules/nvidia ] || { echo "modprobe: FATAL: Module nvidia not found" >&2; exit 1; }
    mkdir -p /sys/module/nvidia; cp /lib/fake-modules/nvidia /sys/module/nvidia/version ;;
  nvidia-peermem)
    if [ -e /etc/fake/peermem-fails ]; then
      echo "modprobe: ERROR: could not insert 'nvidia_peermem': Unknown symbol in module" >&2; exit 1
    fi
    mkdir -p /sys/module/nvidia_peermem
    [ -e /etc/fake/peermem-unregistered ] || mkdir -p /sys/kernel/mm/memory_peers/nv_mem ;;
esac
"""
MODINFO = """\
#!/bin/sh
case "$*" in
  "-F license nvidia") [ -e /lib/fake-modules/nvidia ] && echo "Dual MIT/GPL" ;;
  "-F version "*) cat /lib/fake-modules/$3 ;;
esac
"""
GRUB = """\
#!/bin/sh
. /etc/default/grub.d/90-provision.cfg
echo "kernel=${GRUB_DEFAULT##*with Linux }; args='$GRUB_CMDLINE_LINUX'" > /boot/fake-grub
"""
# One PCIe bridge. Its ACS is on after every boot, as firmware leaves it.
LSPCI = """\
#!/bin/sh
case "$*" in
  *0604*) echo "0000:3a:01.0 0604: 1000:c030" ;;
  *) acs=+; [ -e /run/fake/acs-off ] && acs=-
     printf '3a:01.0 PCI bridge: dummy\\n\\t\\tACSCtl:\\tSrcValid%s TransBlk-\\n' $acs ;;
esac
"""
SETPCI = """\
#!/bin/sh
case "$*" in *=0000) touch /run/fake/acs-off ;; esac
"""
# What was asked of systemd, for whoever wants to know whether containers would have lost their GPUs.
SYSTEMCTL = """\
#!/bin/sh
echo "$*" >> /run/fake/systemctl
exec /usr/bin/systemctl "$@"
"""
SHUTDOWN = """\
#!/bin/sh
[ -e /etc/fake/does-not-restart ] || exec /usr/bin/systemctl reboot
"""

HARDWARE: dict[str, File] = {
    "usr/local/sbin/lspci": (LSPCI, 0o755),
    "usr/local/sbin/setpci": (SETPCI, 0o755),
    "usr/local/sbin/systemctl": (SYSTEMCTL, 0o755),
    "usr/sbin/shutdown": (SHUTDOWN, 0o755),
    "usr/local/sbin/fake-boot": (BOOT, 0o755),
    "usr/local/sbin/modprobe": (MODPROBE, 0o755),
    "usr/local/sbin/modinfo": (MODINFO, 0o755),
    "usr/local/sbin/update-grub": (GRUB, 0o755),
    "usr/local/sbin/update-initramfs": script("true"),
    "usr/local/sbin/hwclock": script("true"),
    "etc/fake/README": ("Flags that make the dummies fail.\n", 0o644),
    "etc/default/grub.d/README": ("\n", 0o644),
    "etc/systemd/system/fake-boot.service": (
        "[Unit]\nDefaultDependencies=no\nAfter=local-fs.target\nBefore=sysinit.target ssh.service\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\n"
        "Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
        "ExecStart=/usr/local/sbin/fake-boot\n",
        0o644,
    ),
    "etc/systemd/system/sysinit.target.d/fake.conf": ("[Unit]\nWants=fake-boot.service\n", 0o644),
}
