"""Machines for the tests of the disk decision, told in a few words and spelled out as programs print them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import ansible.module_utils

UTILS = Path(__file__).parents[2] / "playbooks" / "module_utils"
# Ansible finds module_utils beside the playbook; so do the tests.
if str(UTILS) not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(str(UTILS))
disks = importlib.import_module("ansible.module_utils.provision_disks")
seen = importlib.import_module("ansible.module_utils.provision_disks_seen")
zpool_text = importlib.import_module("ansible.module_utils.provision_zpool_text")

TB = 10**12
Row = dict[str, Any]


def node(name: str, kind: str, *children: Row, fstype: str | None = None, on: str | None = None, **more: Any) -> Row:
    """One row of lsblk below a drive."""
    path = f"/dev/mapper/{name}" if kind in {"lvm", "crypt", "mpath"} else f"/dev/{name}"
    row: Row = {"name": name, "kname": name, "path": path, "type": kind, "size": TB, "ro": False, "rm": False}
    row |= {"tran": None, "serial": None, "wwn": None, "model": None, "pttype": None, "fstype": fstype, "label": None}
    row |= {"mountpoints": [on]} | more
    return row | ({"children": list(children)} if children else {})


def part(name: str, *children: Row, **more: Any) -> Row:
    """A partition."""
    return node(name, "part", *children, **more)


def drive(name: str, serial: str, *children: Row, **more: Any) -> Row:
    """A drive; one with partitions has a table."""
    row = node(name, "disk", *children, **({"tran": "nvme", "size": 4 * TB, "model": "NV4"} | more))
    row["serial"] = serial
    row["wwn"] = more.get("wwn", f"eui.{serial.lower():0>16}")
    if children and row["pttype"] is None:
        row["pttype"] = "gpt"
    return row


class Box:
    """A machine that runs from ``nvme0n1`` and has ``count`` blank drives after it, unless told otherwise."""

    def __init__(self, count: int = 6, *, os_drive: Row | None = None) -> None:
        self.rows: list[Row] = [os_drive or plain_os("nvme0n1", "OS0")]
        self.rows += [drive(f"nvme{n}n1", f"S{n}") for n in range(1, count + 1)]
        self.mounts = [{"target": "/", "source": "/dev/nvme0n1p2", "fstype": "ext4", "maj:min": "259:2"}]
        self.facts: dict[str, Any] = {"hostid": "0badcafe"}
        self.sysfs: list[Row] = []
        self.links: dict[str, str] = {}

    def put(self, row: Row) -> Box:
        """Put a device in place of the one with that name, or beside the others."""
        names = [each["name"] for each in self.rows]
        if row["name"] in names:
            self.rows[names.index(row["name"])] = row
        else:
            self.rows.append(row)
        return self

    def drop(self, *names: str) -> Box:
        """Pull drives."""
        self.rows = [row for row in self.rows if row["name"] not in names]
        return self

    def root(self, source: str, *, fstype: str = "ext4", number: str = "0:0") -> Box:
        """Say what ``findmnt`` says of /."""
        self.mounts[0] = {"target": "/", "source": source, "fstype": fstype, "maj:min": number}
        return self

    def tell(self, **facts: Any) -> Box:
        """Set other facts."""
        self.facts |= facts
        return self

    def told(self) -> dict[str, Any]:
        """All facts, as the module reads them."""
        links = dict(self.links)
        for row in self.rows:
            if row["type"] == "disk" and row["serial"]:
                links |= aliases(row)
        return {
            "disks": self.sysfs,
            "lsblk": {"blockdevices": self.rows},
            "by_id": links,
            "mounts": {"filesystems": self.mounts},
            **self.facts,
        }


def aliases(row: Row) -> dict[str, str]:
    """What udev makes in /dev/disk/by-id: a World Wide Name, model and serial, and the double with the namespace."""
    kind = "nvme" if row["tran"] == "nvme" else "ata"
    names = [f"{kind}-{row['model']}_{row['serial']}"]
    if kind == "nvme":
        names += [f"{names[0]}_1"]
    if row["wwn"]:
        names.append(f"nvme-{row['wwn']}" if kind == "nvme" else f"wwn-{row['wwn']}")
    links = dict.fromkeys(names, row["path"])
    for child in row.get("children") or []:
        if child["type"] == "part":
            number = child["name"].rsplit("p", 1)[-1] if kind == "nvme" else child["name"].lstrip("sdabcefgh")
            links |= dict.fromkeys([f"{name}-part{number}" for name in names], child["path"])
    return links


def plain_os(name: str, serial: str, **more: Any) -> Row:
    """A drive with an ordinary installation: EFI, root, nothing else."""
    efi = part(f"{name}p1", fstype="vfat", on="/boot/efi", **{"maj:min": "259:1"})
    return drive(name, serial, efi, part(f"{name}p2", fstype="ext4", on="/", **{"maj:min": "259:2"}), **more)


def wanted(expected: int = 6, **more: Any) -> dict[str, Any]:
    """Parameters of the decision with the module's defaults."""
    base: dict[str, Any] = {"pool": "tank", "expected_drives": expected, "drives": [], "wipe_allow": []}
    base |= {"quarantine": [], "boot_serial": "", "hostids": [], "allow_single": False, "spares": 0}
    base |= {"min_bytes": 10**11, "size_tolerance_percent": 1.0, "transports": ["nvme", "sata", "sas"]}
    return base | more


def status(
    *leaves: str, name: str = "tank", state: str = "ONLINE", kind: str = "raidz1-0", scan: str = "scan", note: str = ""
) -> str:
    """``zpool status -P``; a leaf is ``path`` or ``path STATE [was …]``."""
    lines = [f"  pool: {name}", f" state: {state}"] + ([f"status: {note}"] if note else [])
    lines += [f"  {scan}: none requested", "config:", "", "\tNAME  STATE  READ WRITE CKSUM", f"\t{name}  {state} 0 0 0"]
    lines += [f"\t  {kind}  {state} 0 0 0"] if kind else []
    lines += [_leaf(leaf, 4 if kind else 2, "  0  0  0") for leaf in leaves]
    return "\n".join([*lines, "", "errors: No known data errors", ""])


def importable(
    *leaves: str,
    name: str = "tank",
    number: str = "4711",
    state: str = "ONLINE",
    note: str = "",
    action: str = "The pool can be imported using its name or numeric identifier.",
) -> str:
    """``zpool import``."""
    lines = [f"   pool: {name}", f"     id: {number}", f"  state: {state}"] + ([f" status: {note}"] if note else [])
    lines += [f" action: {action}", " config:", "", f"\t{name}  {state}", f"\t  raidz1-0  {state}"]
    return "\n".join([*lines, *[_leaf(leaf, 4, "") for leaf in leaves], ""])


def _leaf(leaf: str, indent: int, errors: str) -> str:
    path, _, rest = leaf.partition(" ")
    state, _, more = (rest or "ONLINE").partition(" ")
    return f"\t{' ' * indent}{path}  {state}{errors}  {more}".rstrip()


def label(*, guid: str = "4711", hostid: int | None = 0x0BADCAFE, hostname: str = "gpu-1", name: str = "tank") -> str:
    """``zdb -l`` of one member."""
    lines = ["-" * 36, "LABEL 0 ", "-" * 36, "    version: 5000", f"    name: '{name}'", "    state: 0", "    txg: 10"]
    lines += [f"    pool_guid: {guid}", "    errata: 0"] + ([f"    hostid: {hostid}"] if hostid is not None else [])
    return "\n".join([*lines, f"    hostname: '{hostname}'", "    top_guid: 1", "    guid: 2", "    labels = 0 1 2 3 "])


def member(name: str, serial: str, *, pool: str = "tank", **more: Any) -> Row:
    """A whole drive in a pool, with the two partitions that ZFS makes."""
    first = part(f"{name}p1", fstype="zfs_member", label=pool)
    return drive(name, serial, first, part(f"{name}p9"), **more)


def by_eui(serial: str, *, number: int | None = 1) -> str:
    """The path under which ZFS knows a member."""
    return f"/dev/disk/by-id/nvme-eui.{serial.lower():0>16}" + (f"-part{number}" if number else "")
