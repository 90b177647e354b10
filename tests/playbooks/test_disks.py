"""The table of the disk decision: one machine, what is wanted, what is decided, and the words that say why.

Which drives are free, what may be on them, how many and how large; the pools are in test_disks_pools.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.playbooks.disk_case import BLANKS, KNOWN, NAMES, Case, judge, six
from tests.playbooks.disk_machines import (
    TB,
    Box,
    by_eui,
    disks,
    drive,
    importable,
    member,
    node,
    part,
    plain_os,
    seen,
    status,
    wanted,
)


def lvm_os(name: str, serial: str) -> dict[str, Any]:
    """Root on a logical volume."""
    volume = node("vg0-root", "lvm", fstype="ext4", on="/", **{"maj:min": "253:0"})
    return drive(name, serial, part(f"{name}p1", fstype="vfat"), part(f"{name}p3", volume, fstype="LVM2_member"))


def md_os(name: str, serial: str) -> dict[str, Any]:
    """Half of a mirror with the root on it."""
    return drive(
        name, serial, part(f"{name}p2", node("md0", "raid1", fstype="ext4", on="/"), fstype="linux_raid_member")
    )


def luks_os(name: str, serial: str) -> dict[str, Any]:
    """Root on LVM on LUKS."""
    volume = node("vg-root", "lvm", fstype="ext4", on="/")
    return drive(
        name, serial, part(f"{name}p3", node("crypt0", "crypt", volume, fstype="LVM2_member"), fstype="crypto_LUKS")
    )


def renamed() -> Box:
    """The system's drive comes last and has the highest number; the data drives moved up."""
    box = Box(0, os_drive=plain_os("nvme6n1", "OS0")).root("/dev/nvme6n1p2")
    for n in range(6):
        box.put(drive(f"nvme{n}n1", f"S{n}"))
    box.rows.reverse()
    return box


def two_os_drives() -> Box:
    """A mirrored system over two drives, six data drives."""
    box = Box(os_drive=md_os("nvme0n1", "OS0")).put(md_os("nvme7n1", "OS1")).root("/dev/md0")
    return box.tell(
        mdstat="Personalities : [raid1]\nmd0 : active raid1 nvme7n1p2[1] nvme0n1p2[0]\n      1 blocks [2/2]\n"
    )


def multipath() -> Box:
    """A seventh drive seen twice below a multipath device."""
    path = node("mpatha", "mpath", **{"maj:min": "253:5"})
    return (
        Box()
        .put(drive("sda", "SAS1", path, tran="sas", fstype="mpath_member"))
        .put(drive("sdb", "SAS1", path, tran="sas", fstype="mpath_member"))
    )


def zfs_root() -> Box:
    """The system itself runs from a pool."""
    rows = [part("nvme0n1p1", fstype="vfat", on="/boot/efi"), part("nvme0n1p4", fstype="zfs_member", label="rpool")]
    root = status("/dev/disk/by-id/nvme-NV4_OS0-part4", name="rpool", kind="")
    box = Box(os_drive=drive("nvme0n1", "OS0", *rows)).root("rpool/ROOT/os", fstype="zfs")
    return box.tell(zpool_status=root)


CASES = [
    # Which drives are free
    Case("plain", Box, "create", chosen=BLANKS),
    Case(
        "lvm root", lambda: Box(os_drive=lvm_os("nvme0n1", "OS0")).root("/dev/mapper/vg0-root"), "create", chosen=BLANKS
    ),
    Case("md root on two drives", two_os_drives, "create", chosen=BLANKS),
    Case(
        "luks root",
        lambda: Box(os_drive=luks_os("nvme0n1", "OS0")).root("/dev/mapper/vg-root"),
        "create",
        chosen=BLANKS,
    ),
    Case("zfs root", zfs_root, "create", chosen=BLANKS),
    Case("btrfs subvolume root", lambda: Box().root("/dev/nvme0n1p2[/@]", number="0:27"), "create", chosen=BLANKS),
    Case("root by device number", lambda: Box().root("/dev/root", number="259:2"), "create", chosen=BLANKS),
    Case("root on the highest number", renamed, "create", chosen="S0 S1 S2 S3 S4 S5"),
    Case("order of lsblk changed", lambda: (box := Box(), box.rows.reverse())[0], "create", chosen=BLANKS),
    Case(
        "no root drive",
        lambda: Box(os_drive=drive("nvme0n1", "OS0")).drop("nvme0n1").root("overlay"),
        "refuse",
        words=("below /",),
    ),
    Case("multipath", multipath, "create", chosen=BLANKS),
    Case(
        "second path of the system's drive without multipath",
        lambda: Box(os_drive=plain_os("sda", "OS0", tran="sas")).root("/dev/sda2").put(drive("sdb", "OS0", tran="sas")),
        "create",
        chosen=BLANKS,
    ),
    Case(
        "two paths to a data drive without multipath",
        lambda: Box(5).put(drive("sda", "X1", tran="sas")).put(drive("sdb", "X1", tran="sas")),
        "refuse",
        {"expected_drives": 7},
        ("/dev/sda, /dev/sdb have the same serial X1",),
    ),
    Case(
        "two namespaces of one drive",
        six(drive("nvme6n1", "S6", wwn="eui.1"), drive("nvme6n2", "S6", wwn="eui.2")),
        "refuse",
        {"expected_drives": 7},
        ("same serial S6",),
    ),
    Case("listed twice", lambda: (box := Box(), box.rows.append(box.rows[3]))[0], "create", chosen=BLANKS),
    Case(
        "virtual media", six(drive("sda", "V1", tran="usb", model="Virtual Floppy", rm=True)), "create", chosen=BLANKS
    ),
    Case(
        "virtual media that says sata", six(drive("sda", "V1", tran="sata", model="LCDRIVE")), "create", chosen=BLANKS
    ),
    Case("cd", six(node("sr0", "rom", serial="C1", tran="sata")), "create", chosen=BLANKS),
    Case(
        "zram, loop and nbd",
        six(node("zram0", "disk", on="[SWAP]"), node("loop0", "loop", on="/snap/x"), node("nbd0", "disk", serial="N")),
        "create",
        chosen=BLANKS,
    ),
    Case("read-only drive", six(drive("nvme6n1", "S6", ro=True)), "refuse", words=("5 drives could be used, 6",)),
    Case(
        "swap on a drive",
        six(drive("nvme6n1", "S6", part("nvme6n1p1", fstype="swap", on="[SWAP]"))),
        "refuse",
        words=("5 drives",),
    ),
    Case(
        "swap that only /proc/swaps shows",
        lambda: six(drive("nvme6n1", "S6", part("nvme6n1p1")))().tell(
            swaps="Filename Type\n/dev/nvme6n1p1 partition 1 0 -2\n"
        ),
        "refuse",
        {"wipe_allow": ["S6"]},
        ("zfs_wipe_allow names drive S6", "swap"),
    ),
    Case(
        "ceph",
        six(drive("nvme6n1", "S6", node("ceph--1-osd", "lvm"), fstype="LVM2_member")),
        "refuse",
        words=("5 drives",),
    ),
    Case(
        "raw ceph",
        six(drive("nvme6n1", "S6", fstype="ceph_bluestore")),
        "refuse",
        {"wipe_allow": ["S6"]},
        ("a Ceph OSD",),
    ),
    Case(
        "idle md member",
        six(drive("nvme6n1", "S6", fstype="linux_raid_member")),
        "refuse",
        {"drives": KNOWN},
        ("bay 6", "md member"),
    ),
    Case("pvs knows it", lambda: Box().tell(pvs=["/dev/nvme6n1"]), "refuse", {"drives": KNOWN}, ("LVM member",)),
    Case(
        "mdstat knows it",
        lambda: Box().tell(mdstat="md5 : inactive nvme6n1[0](S)\n"),
        "refuse",
        {"drives": KNOWN},
        ("md5",),
    ),
    Case(
        "held by something",
        lambda: Box().tell(holders={"nvme6n1": ["dm-9"]}),
        "refuse",
        {"drives": KNOWN},
        ("held by dm-9",),
    ),
    Case(
        "mounted where only findmnt sees it",
        lambda: (
            box := six(drive("nvme6n1", "S6", fstype="xfs"))(),
            box.mounts.append({"target": "/x", "source": "/dev/nvme6n1"}),
        )[0],
        "refuse",
        {"wipe_allow": ["S6"]},
        ("mounted at /x",),
    ),
    Case(
        "in another pool",
        lambda: Box().tell(zpool_status=status(by_eui("S6", number=None), name="fast", kind="")),
        "refuse",
        {"drives": KNOWN},
        ("in pool fast",),
    ),
    Case(
        "sas and sata with a wwn",
        lambda: (
            box := Box(0),
            [box.put(drive(f"sd{c}", f"A{c}", tran="sas", wwn=f"0x5000{n}")) for n, c in enumerate("abc")],
        )[0],
        "create",
        {"expected_drives": 3},
        chosen="Aa Ab Ac",
    ),
    Case("usb drive", six(drive("nvme6n1", "S6", tran="usb")), "refuse", {"drives": KNOWN}, ("attached by usb",)),
    Case(
        "drive that lost its size",
        six(drive("nvme6n1", "S6", size=0)),
        "refuse",
        {"drives": KNOWN},
        ("bay 6", "only 0 GB"),
    ),
    Case("drive without serial", six(drive("nvme6n1", "")), "refuse", words=("5 drives",)),
    Case("boot drive as MAAS knows it", Box, "create", {"boot_serial": "OS0"}, chosen=BLANKS),
    Case("boot drive is another", Box, "refuse", {"boot_serial": "OS9"}, ("runs from OS0", "OS9")),
    # Contents
    Case(
        "file system on a drive",
        six(drive("nvme2n1", "S2", fstype="xfs")),
        "refuse",
        words=("drive S2 (/dev/nvme2n1) is not blank: xfs",),
    ),
    Case(
        "empty partition table",
        six(drive("nvme2n1", "S2", pttype="gpt")),
        "refuse",
        words=("S2", "gpt partition table"),
    ),
    Case(
        "may be wiped",
        six(drive("nvme2n1", "S2", part("nvme2n1p1", fstype="ext4"))),
        "create",
        {"wipe_allow": ["S2"]},
        chosen=BLANKS,
        check=lambda plan: (
            plan["wipe"]
            == [{"path": by_eui("S2", number=None), "serial": "S2", "partitions": [by_eui("S2")], "zfs": []}]
        ),
    ),
    Case(
        "only the named one may be wiped",
        six(drive("nvme2n1", "S2", fstype="xfs"), drive("nvme3n1", "S3", fstype="xfs")),
        "refuse",
        {"wipe_allow": ["S2"]},
        ("drive S3",),
    ),
    Case(
        "wipe names the system's drive",
        Box,
        "refuse",
        {"wipe_allow": ["OS0"]},
        ("zfs_wipe_allow names drive OS0", "system's own"),
    ),
    Case("wipe names a drive of another node", Box, "create", {"wipe_allow": ["ELSEWHERE"]}, chosen=BLANKS),
    Case(
        "old windows drive",
        six(drive("nvme2n1", "S2", part("nvme2n1p1", fstype="ntfs"), pttype="dos")),
        "refuse",
        words=("dos partition table", "ntfs"),
    ),
    Case(
        "foreign pool",
        lambda: six(member("nvme2n1", "S2", pool="data"))().tell(zpool_import=importable(NAMES[1], name="data")),
        "refuse",
        words=("S2", "pool data could be imported"),
    ),
    Case("old label of a pool that is gone", six(member("nvme2n1", "S2")), "refuse", words=("S2", "zfs_member tank")),
    Case(
        "left by a creation that was killed",
        lambda: six(drive("nvme2n1", "S2", part("nvme2n1p1"), part("nvme2n1p9")))().tell(
            intent={"pool": "tank", "serials": ["S2"]}
        ),
        "create",
        chosen=BLANKS,
        check=lambda plan: [each["serial"] for each in plan["wipe"]] == ["S2"],
    ),
    Case(
        "data on a drive of a killed creation",
        lambda: six(drive("nvme2n1", "S2", part("nvme2n1p1", fstype="xfs")))().tell(
            intent={"pool": "tank", "serials": ["S2"]}
        ),
        "refuse",
        words=("S2", "xfs"),
    ),
    # Number and size
    Case(
        "missing drive",
        lambda: Box().drop("nvme4n1"),
        "refuse",
        {"drives": KNOWN},
        ("5 drives could be used, 6 were expected", "drive S4 of bay 4 is missing"),
    ),
    Case(
        "empty bay by address",
        lambda: Box(5),
        "refuse",
        {"drives": [{"bay": "7", "address": "0000:47:00.0"}]},
        ("the drive of bay 7 is missing",),
    ),
    Case("one too many", lambda: Box(7), "refuse", words=("7 drives could be used, 6", "S7")),
    Case(
        "unequal sizes", six(drive("nvme2n1", "S2", size=2 * TB)), "refuse", words=("not of one size", "S2", "2000 GB")
    ),
    Case("nearly equal sizes", six(drive("nvme2n1", "S2", size=4 * TB - TB // 50)), "create", chosen=BLANKS),
    Case(
        "two aliases a drive",
        Box,
        "create",
        chosen=BLANKS,
        check=lambda plan: plan["vdevs"][0]["aliases"] == [by_eui(f"S{n}", number=None) for n in range(1, 7)],
    ),
    Case("no alias", lambda: Box().tell(by_id={}), "refuse", words=("has no name in /dev/disk/by-id",)),
    Case("one drive not allowed", lambda: Box(1), "refuse", {"expected_drives": 1}, ("no redundancy",)),
    Case("one drive allowed", lambda: Box(1), "create", {"expected_drives": 1, "allow_single": True}, chosen="S1"),
    Case("thirteen drives", lambda: Box(13), "refuse", {"expected_drives": 13}, ("zfs_spares",)),
    Case(
        "thirteen with a spare",
        lambda: Box(13),
        "create",
        {"expected_drives": 13, "spares": 1},
        check=lambda plan: [len(v["aliases"]) for v in plan["vdevs"]] == [6, 6] and len(plan["spares"]) == 1,
    ),
    # Quarantine
    Case(
        "quarantined by serial",
        Box,
        "refuse",
        {"quarantine": [{"serial": "S3"}], "drives": KNOWN},
        ("drive S3 of bay 3 is in quarantine",),
    ),
    Case(
        "quarantined by firmware, seen in sysfs only",
        lambda: (
            box := Box(),
            box.sysfs.append({"name": "nvme9n1", "serial": "Q", "model": "M", "firmware": "F1", "address": ""}),
        )[0],
        "create",
        {"quarantine": [{"model": "M", "firmware": "F1"}]},
        chosen=BLANKS,
    ),
    Case(
        "quarantine of another firmware",
        lambda: (
            box := Box(),
            box.sysfs.append({"name": "nvme1n1", "serial": "S1", "model": "NV4", "firmware": "F2", "address": ""}),
        )[0],
        "create",
        {"quarantine": [{"model": "NV4", "firmware": "F1"}]},
        chosen=BLANKS,
    ),
    Case("empty quarantine entry matches nothing", Box, "create", {"quarantine": [{}]}, chosen=BLANKS),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_drives(case: Case) -> None:
    judge(case)


def test_the_table_is_large_enough() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 40


@pytest.mark.parametrize(
    ("count", "groups"),
    [
        *[(2, "mirror2"), (3, "raidz13"), (7, "raidz17"), (8, "raidz28"), (11, "raidz211")],
        (12, "raidz26 raidz26"),
        (14, "raidz27 raidz27"),
        (22, "raidz211 raidz211"),
        (24, "raidz28 raidz28 raidz28"),
    ],
)
def test_layout_by_count(count: int, groups: str) -> None:
    made, spares, problem = disks.layout(count, False)
    assert (" ".join(f"{kind}{width}" for kind, width in made), spares, problem) == (groups, 0, None)


def test_layout_names_its_problem() -> None:
    assert "spares" in disks.layout(7, False, 1)[2]
    assert disks.layout(8, False, 1) == ([("raidz1", 7)], 1, None)
    assert "no drives" in disks.layout(0, False)[2]


def test_one_alias_a_drive() -> None:
    """The World Wide Name first, no double with the namespace, no partition, no name of all zeros."""
    one = "/dev/nvme1n1"
    links = dict.fromkeys(
        ["nvme-M_S", "nvme-M_S_1", "nvme-M_S-part1", "nvme-eui.0000000000000000", "lvm-pv-uuid-x"], one
    )
    assert seen.best_alias(links, one) == "/dev/disk/by-id/nvme-M_S"
    assert seen.best_alias(links | {"nvme-eui.0025": one}, one) == "/dev/disk/by-id/nvme-eui.0025"
    assert (
        seen.best_alias({"scsi-3500": "/dev/sda", "wwn-0x500": "/dev/sda"}, "/dev/sda") == "/dev/disk/by-id/wwn-0x500"
    )
    # A serial number may end like a namespace: nothing else has that name without it.
    assert seen.best_alias({"nvme-M_12_1": one}, one) == "/dev/disk/by-id/nvme-M_12_1"


@pytest.mark.parametrize(
    "facts", [{}, {"lsblk": {}}, {"lsblk": {"blockdevices": []}, "zpool_status": "\t\n:::\nconfig:\n"}]
)
def test_no_facts_no_pool(facts: dict[str, Any]) -> None:
    """Nothing is known, so nothing is done."""
    assert disks.decide(facts, wanted())["action"] == "refuse"
