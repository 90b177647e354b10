"""provision-check as the process it is on a host: real files under a root of its own, real commands on PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "playbooks/roles/verify/files/provision-check"
Report = dict[str, Any]


class Host:
    """A made-up host: a file tree and some commands."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin = root / "root", root / "bin"
        self.bin.mkdir(parents=True)
        self.told: Report = {}

    def file(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text + "\n")

    def command(self, name: str, text: str = "", *, status: int = 0, stderr: str = "") -> None:
        (self.bin / f"{name}.out").write_text(text)
        script = f'#!/bin/sh\n/bin/cat "{self.bin}/{name}.out"\necho "{stderr}" >&2\nexit {status}\n'
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def pci(self, address: str, kind: str, vendor: str = "0x15b3", *, virtual: bool = False) -> None:
        self.file(f"sys/bus/pci/devices/{address}/class", kind)
        self.file(f"sys/bus/pci/devices/{address}/vendor", vendor)
        if virtual:
            (self.root / f"sys/bus/pci/devices/{address}/physfn").mkdir()

    def look(self, *checks: str, **told: object) -> Report:
        self.file("etc/provision/expected.json", json.dumps({"checks": list(checks), **told}))
        done = subprocess.run(
            [sys.executable, SCRIPT, "--root", self.root],
            capture_output=True,
            text=True,
            env={"PATH": str(self.bin)},
            check=False,
        )
        assert done.stderr == ""
        report: Report = json.loads(done.stdout)
        assert report["format"] == 1
        assert done.returncode == (1 if report["noes"] else 0)
        return report


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def only(report: Report) -> Report:
    (check,) = report["checks"]
    return check


def test_gpus_on_the_bus_and_in_nvidia_smi(host: Host) -> None:
    for slot in range(8):
        host.pci(f"0000:{slot:02x}:00.0", "0x030200", "0x10de")
    host.pci("0000:f0:00.0", "0x068000", "0x10de")  # an NVSwitch is not a GPU
    host.pci("0000:f1:00.0", "0x030000", "0x1a03")  # nor is the BMC's graphics
    assert only(host.look("gpu-count", expected={"gpus": 8}))["ok"] is True
    check = only(host.look("gpu-count", expected={"gpus": 8}, nvidia_smi=True))
    assert (check["ok"], check["why"]) == (None, "could not look: nvidia-smi is not installed")
    host.command("nvidia-smi", status=9, stderr="couldn't communicate with the NVIDIA driver")
    check = only(host.look("gpu-count", expected={"gpus": 8}, nvidia_smi=True))
    assert (check["ok"], "communicate" in check["why"]) == (None, True)
    host.command("nvidia-smi", "".join(f"{n}, 00000000:0{n}:00.0, 16530000{n}\n" for n in range(7)))
    check = only(host.look("gpu-count", expected={"gpus": 8}, nvidia_smi=True))
    assert (check["ok"], check["why"]) == (False, "7 of 8 in nvidia-smi")
    assert check["values"] == {"expected": 8, "on_pci": 8, "found": 7}
    assert check["part"] == {"kind": "gpu", "name": "*", "locator": "all GPUs"}


def test_nvme_counts_live_controllers_and_names_the_others(host: Host) -> None:
    for number in range(5):
        host.file(f"sys/class/nvme/nvme{number}/state", "live" if number != 3 else "dead")
    check = only(host.look("nvme-count", expected={"nvme": 5}))
    assert (check["ok"], check["why"]) == (False, "4 of 5; nvme3 is dead")
    host.file("sys/class/nvme/nvme3/state", "live")
    assert only(host.look("nvme-count", expected={"nvme": 5}))["ok"] is True
    assert only(host.look("nvme-count", expected={"nvme": 6}))["why"] == "5 of 6"


def test_nics_without_virtual_functions(host: Host) -> None:
    host.pci("0000:10:00.0", "0x020000")
    host.pci("0000:10:00.1", "0x020000", virtual=True)
    host.pci("0000:11:00.0", "0x020700")
    assert only(host.look("nic-count", expected={"nics": 2}))["ok"] is True
    assert only(host.look("nic-count", expected={"nics": 10}))["ok"] is False


def test_what_is_not_expected_is_not_judged(host: Host) -> None:
    assert host.look("gpu-count", "nvme-count", "nic-count", "zpool", expected={})["checks"] == []


def test_no_pci_bus_to_look_at_is_null_and_not_zero(host: Host) -> None:
    assert only(host.look("nic-count", expected={"nics": 2}))["ok"] is None


def test_disk_space_reads_real_file_systems(host: Host) -> None:
    host.file("proc/mounts", "/dev/vda / ext4 rw 0 0\nproc /proc proc rw 0 0\n/dev/sr0 /media iso9660 ro 0 0")
    stat = os.statvfs(host.root)
    percent = 100 * (stat.f_blocks - stat.f_bfree) / (stat.f_blocks - stat.f_bfree + stat.f_bavail)
    check = only(host.look("disk-space", max_disk_percent=101))
    assert check["ok"] is True
    assert abs(check["values"]["percent"] - percent) < 2
    assert only(host.look("disk-space", max_disk_percent=0))["ok"] is False
    host.file("proc/mounts", "proc /proc proc rw 0 0")
    assert only(host.look("disk-space"))["ok"] is None


def test_zpools(host: Host) -> None:
    assert only(host.look("zpool", zpools=["tank"]))["why"] == "could not look: zpool is not installed"
    host.command("zpool", "tank2\tONLINE\nold\tDEGRADED\n")
    answers = {
        c["part"]["name"]: (c["ok"], c["why"]) for c in host.look("zpool", zpools=["tank", "tank2", "old"])["checks"]
    }
    assert answers == {
        "tank": (False, "tank is not imported"),
        "tank2": (True, "tank2 is ONLINE"),
        "old": (False, "old is DEGRADED"),
    }


def test_failed_units(host: Host) -> None:
    host.command(
        "systemctl", "nvidia-fabricmanager.service loaded failed failed Fabric\nfoo.service loaded failed failed\n"
    )
    report = host.look("systemd-units", ignored_units=["foo.service"])
    assert report["noes"] == ["systemd-units: nvidia-fabricmanager.service has failed"]
    host.command("systemctl", "")
    assert only(host.look("systemd-units"))["ok"] is True
    host.command("systemctl", status=1, stderr="Failed to connect to bus")
    assert only(host.look("systemd-units"))["why"] == "could not look: systemctl: Failed to connect to bus"


@pytest.mark.parametrize(
    ("line", "limit", "ok"),
    [
        ("A9FEA9FE,169.254.169.123,4,1795979101.3,{},0.1,0.1,1.0,0.0,0.0,0.0,0.0,64.0,Normal", 0.05, True),
        ("A9FEA9FE,169.254.169.123,4,1795979101.3,{},0.1,0.1,1.0,0.0,0.0,0.0,0.0,64.0,Normal", 0.00001, False),
        ("7F7F0101,,0,0.0,{},0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,Not synchronised", 0.05, False),
    ],
)
def test_clock_by_chrony(line: str, limit: float, ok: bool, host: Host) -> None:
    host.command("chronyc", line.format("-0.000123"))
    check = only(host.look("clock-offset", max_clock_offset_s=limit))
    assert check["ok"] is ok
    assert check["values"]["offset_s"] == -0.000123


def test_clock_without_chrony(host: Host) -> None:
    assert only(host.look("clock-offset"))["ok"] is None
    host.command("chronyc", status=1, stderr="506 Cannot talk to daemon")
    host.command("timedatectl", "yes\n")
    assert only(host.look("clock-offset"))["ok"] is True
    host.command("timedatectl", "no\n")
    assert only(host.look("clock-offset"))["why"] == "not synchronised"


# Written by us in the kernel's manner: what must be found, and what looks like it and must not.
FIRES = [
    ("dmesg-nvme", "nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "nvme3"),
    ("dmesg-nvme", "nvme nvme1: Device not ready; aborting reset, CSTS=0x1", "nvme1"),
    ("dmesg-nvme", "blk_update_request: critical medium error, dev nvme2n1, sector 12345", "nvme2"),
    (
        "dmesg-pcie",
        "pcieport 0000:3a:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction",
        "0000:3a:01.0",
    ),
    (
        "dmesg-pcie",
        "0000:3a:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer",
        "0000:3a:01.0",
    ),
    (
        "dmesg-memory",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
        "CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    ),
    ("dmesg-gpu", "NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus.", "0000:1b:00"),
    ("dmesg-gpu", "NVRM: Xid (PCI:0000:db:00): 95, Uncontained ECC error", "0000:db:00"),
    ("dmesg-filesystem", "EXT4-fs error (device nvme0n1p2): ext4_find_entry:1463: inode #2", "nvme0n1p2"),
]
SILENT = [
    "pcieport 0000:3a:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
    "pcieport 0000:3a:01.0: PCIe Bus Error: severity=Correctable, type=Physical Layer",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0",
    "NVRM: Xid (PCI:0000:1b:00): 31, pid=99, name=python, MMU Fault",
    "NVRM: Xid (PCI:0000:1b:00): 45, pid=99, Ch 00000008",
    "NVRM: Xid (PCI:0000:1b:00): 63, Row Remapper: New row marked for remapping",
    "NVRM: Xid (PCI:0000:1b:00): 94, Contained ECC error",
    "nvme nvme0: 63/0/0 default/read/poll queues",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode",
]
RULES = sorted({rule for rule, _, _ in FIRES})


@pytest.mark.parametrize(("rule", "line", "device"), FIRES)
def test_a_line_that_speaks_of_a_broken_part_fires_its_own_rule(rule: str, line: str, device: str, host: Host) -> None:
    host.command("dmesg", f"[    1.0] Linux version 6.8\n[  100.1] {line}\n[  100.2] {line}\n")
    report = host.look(*RULES)
    assert [check["name"] for check in report["checks"] if not check["ok"]] == [rule]
    (no,) = [check for check in report["checks"] if not check["ok"]]
    assert (no["part"]["name"], no["values"]["lines"]) == (device, 2)
    assert line in no["why"]


@pytest.mark.parametrize("line", SILENT)
def test_a_line_for_which_nobody_goes_stays_silent(line: str, host: Host) -> None:
    host.command("dmesg", f"[  100.1] {line}\n")
    assert host.look(*RULES)["noes"] == []


def test_a_drive_is_called_by_the_serial_that_is_printed_on_it(host: Host) -> None:
    host.file("sys/class/nvme/nvme3/serial", "S64ANX0R000042  ")
    host.command("dmesg", FIRES[0][1])
    assert only(host.look("dmesg-nvme"))["part"]["locator"] == "NVMe serial S64ANX0R000042"


def test_without_a_kernel_log_nobody_says_that_all_is_well(host: Host) -> None:
    host.command("dmesg", status=1, stderr="dmesg: read kernel buffer failed: Operation not permitted")
    check = only(host.look("dmesg-gpu"))
    assert (check["ok"], "Operation not permitted" in check["why"]) == (None, True)
    host.command("journalctl", "Linux version 6.8\n")
    assert only(host.look("dmesg-gpu"))["ok"] is True


def test_a_check_that_breaks_is_null_and_the_others_go_on(host: Host) -> None:
    host.command("systemctl", "")
    report = host.look("nic-count", "no-such-check", "systemd-units", expected={"nics": "two"})
    assert [check["ok"] for check in report["checks"]] == [None, None, True]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"playbooks": "abc", "ok": true, "checks": []}', {"playbooks": "abc", "ok": True}),
        ('{"playbooks": "abc"}', None),
        ("{", None),
        ("[]", None),
    ],
)
def test_the_marker_is_reported_as_it_is(text: str, read: object, host: Host) -> None:
    host.command("systemctl", "")
    host.file("etc/provision/marker.json", text)
    assert host.look("systemd-units")["marker"] == read


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_without_expectations_it_says_where_they_come_from(text: str | None, host: Host) -> None:
    if text is not None:
        host.file("etc/provision/expected.json", text)
    done = subprocess.run(
        [sys.executable, SCRIPT, "--root", host.root], capture_output=True, text=True, env={"PATH": ""}, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "the role verify writes it" in done.stderr
    assert "Traceback" not in done.stderr
