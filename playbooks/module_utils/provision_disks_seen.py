"""One view of the drives of a machine, made of what several programs say. Pure; Python 3.8 and later.

``facts`` is plain data, any part may be missing:

``disks``         ``[{"name", "serial", "model", "firmware", "address"}]`` from sysfs, quarantined drives included
``lsblk``         the object that ``lsblk -J -b`` prints
``by_id``         ``{link name: path of the device}`` of /dev/disk/by-id
``mounts``        the object that ``findmnt -J -l -o TARGET,SOURCE,FSTYPE,MAJ:MIN`` prints
``swaps``         text of /proc/swaps
``mdstat``        text of /proc/mdstat
``pvs``           ``[path, …]`` of LVM's physical volumes
``holders``       ``{kernel name: [holder, …]}`` from sysfs
``zpool_status``  text of ``zpool status -P``
"""

import re

from ansible.module_utils.provision_zpool_text import parse_mdstat, parse_pools, parse_swaps

# Kernel names of things that are no drives, whatever lsblk calls their type.
NO_DRIVES = re.compile(r"^(?:zram|loop|dm-|nbd|sr|fd|ram|md|pmem|mtdblock|mmcblk|rbd|drbd|bcache|zd)\d*")
# Virtual media of BMCs (iDRAC, XCC, AMI) and its partitions for lifecycle data.
VIRTUAL_MEDIA = re.compile(r"\bvirtual\b|\bidrac\b|\blcdrive\b|\boemdrv\b|\bxclarity\b|\bilo\b", re.IGNORECASE)
MEMBERS = {
    "linux_raid_member": "an md member",
    "LVM2_member": "an LVM member",
    "LVM1_member": "an LVM member",
    "crypto_LUKS": "a LUKS volume",
    "mpath_member": "a multipath member",
    "ceph_bluestore": "a Ceph OSD",
    "ceph_filestore": "a Ceph OSD",
    "drbd": "a DRBD member",
    "bcache": "a bcache member",
    "isw_raid_member": "a member of a firmware RAID",
    "ddf_raid_member": "a member of a firmware RAID",
    "VMFS_volume_member": "a VMFS volume",
}
_PART = re.compile(r"-part\d+$")


def quarantined(disk, quarantine):
    """Whether a drive (``serial``, ``model``, ``firmware``) is one that must not be touched."""
    for entry in quarantine or []:
        keys = [key for key in ("serial", "model", "firmware") if entry.get(key)]
        if keys and all(str(disk.get(key) or "").strip() == str(entry[key]).strip() for key in keys):
            return True
    return False


class Seen:
    """The drives, what stands on each of them, and why some are out of question.

    ``drives`` is ``{path: drive}``; a drive has ``name, path, serial, model, firmware, size, wwn, alias, address,
    signatures, partitions, zfs`` (paths with ZFS labels) and ``used``: the reasons why it may never be chosen.
    """

    def __init__(self, facts, wanted):
        self.by_id = dict(facts.get("by_id") or {})
        self.sysfs = {disk["name"]: disk for disk in facts.get("disks") or []}
        self.quarantined = []
        self.drives = {}
        self._owners = {}  # any name, path or device number → paths of the drives below it
        self._read_lsblk(facts, wanted)
        self.pools = parse_pools(facts.get("zpool_status") or "")
        self.root = set()
        self._mark_mounts(facts)
        self._mark_members(facts)
        self._mark_doubles()

    def _read_lsblk(self, facts, wanted):
        quarantine = wanted.get("quarantine")
        for disk in facts.get("disks") or []:
            if quarantined(disk, quarantine):
                self.quarantined.append(dict(disk, path="/dev/" + disk["name"]))
        for row in (facts.get("lsblk") or {}).get("blockdevices") or []:
            # Every row of the top is taken for a drive first, so that the root is found wherever it is.
            drive = self._drive(row)
            if quarantined(drive, quarantine):
                if drive["path"] not in [disk["path"] for disk in self.quarantined]:
                    self.quarantined.append(drive)
                continue
            if drive["path"] not in self.drives:  # lsblk may print one drive twice
                self.drives[drive["path"]] = drive
            self._walk(row, self.drives[drive["path"]], depth=0)
            self._mark_kind(row, self.drives[drive["path"]], wanted)

    def _drive(self, row):
        name = row.get("kname") or row.get("name") or ""
        path = row.get("path") or "/dev/" + name
        more = self.sysfs.get(name, {})
        return {
            "name": name,
            "path": path,
            "serial": str(row.get("serial") or more.get("serial") or "").strip(),
            "model": str(row.get("model") or more.get("model") or "").strip(),
            "firmware": str(more.get("firmware") or "").strip(),
            "address": more.get("address") or "",
            "wwn": str(row.get("wwn") or "").strip(),
            "size": int(row.get("size") or 0),
            "alias": best_alias(self.by_id, path),
            "signatures": [],
            "partitions": [],
            "zfs": [],
            "used": [],
        }

    def _walk(self, row, drive, depth):
        name, path = row.get("name") or "", row.get("path") or ""
        for key in (name, row.get("kname"), path, row.get("maj:min")):
            if key:
                self._owners.setdefault(key, set()).add(drive["path"])
        fstype, kind = row.get("fstype") or "", row.get("type") or ""
        for mountpoint in _mountpoints(row):
            _add(drive["used"], "swap" if mountpoint == "[SWAP]" else f"mounted at {mountpoint}")
        if fstype in MEMBERS:
            _add(drive["used"], f"{MEMBERS[fstype]} ({path or name})")
        elif fstype:
            label = row.get("label")
            _add(drive["signatures"], f"{fstype} {label}" if label else fstype)
            if fstype == "zfs_member":
                _add(drive["zfs"], path or "/dev/" + name)
        if row.get("pttype") and depth == 0:
            _add(drive["signatures"], f"a {row['pttype']} partition table")
        if depth and kind == "part":
            _add(drive["partitions"], path or "/dev/" + name)
        elif depth:
            _add(drive["used"], f"held by {kind or 'a device'} {name}")
        for child in row.get("children") or []:
            self._walk(child, drive, depth + 1)

    def _mark_kind(self, row, drive, wanted):
        """Why a row at the top of lsblk is no drive that may be asked for."""
        used, transport = drive["used"], row.get("tran") or ""
        allowed = wanted.get("transports") or ["nvme", "sata", "sas"]
        if (row.get("type") or "") != "disk" or NO_DRIVES.match(drive["name"]):
            _add(used, f"a {row.get('type') or 'device'}, not a drive")
        if _true(row.get("ro")):
            _add(used, "read-only")
        if _true(row.get("rm")):
            _add(used, "removable")
        if VIRTUAL_MEDIA.search(drive["model"]):
            _add(used, f"virtual media ({drive['model']})")
        if transport not in allowed:
            _add(used, f"attached by {transport or 'nothing known'}, not by {', '.join(allowed)}")
        if drive["size"] < int(wanted.get("min_bytes") or 0):
            _add(used, f"only {gigabytes(drive['size'])} large")
        if not drive["serial"]:
            _add(used, "without a serial number")

    def owners(self, what):
        """Paths of the drives below a name, a path, a link of /dev/disk/by-id or a device number."""
        what = re.sub(r"\[.*\]$", "", what or "")  # findmnt prints a btrfs subvolume or a bind mount like that
        link = self.by_id.get(what.rsplit("/", 1)[-1]) if "/" not in what or "/by-id/" in what else None
        for key in (what, link, what.rsplit("/", 1)[-1] if what.startswith("/dev/") else None):
            if key in self._owners:
                return self._owners[key]
        return set()

    def lasting(self, drive, path):
        """A drive's partition by the lasting name of the drive, so that a wipe cannot meet another one."""
        for name, target in self.by_id.items():
            if target == path and name.startswith(drive["alias"].rsplit("/", 1)[-1] + "-part"):
                return f"/dev/disk/by-id/{name}"
        return path

    def _use(self, paths, why):
        for path in paths:
            _add(self.drives[path]["used"], why)

    def pool_drives(self, pool):
        """Paths of the drives that a pool stands on, as far as they can be found."""
        found = set()
        for leaf in pool["leaves"]:
            found |= self.leaf_drives(leaf)
        return found

    def leaf_drives(self, leaf):
        """Paths of the drives (one, or none) below one leaf of a pool that is there."""
        if leaf["state"] in ("UNAVAIL", "REMOVED"):
            return set()
        name = leaf["name"]
        # ``zpool import`` prints a whole drive without the number of the partition that ZFS made on it.
        return self.owners(name) or self.owners(_PART.sub("", name))

    def _mark_mounts(self, facts):
        rows = (facts.get("mounts") or {}).get("filesystems") or []
        for row in _flat(rows):
            source, target = row.get("source") or "", row.get("target") or ""
            if row.get("fstype") == "zfs":
                pool = source.split("/")[0]
                paths = set()
                for each in self.pools:
                    if each["name"] == pool:
                        paths = self.pool_drives(each)
            else:
                paths = set(self.owners(source)) | self.owners(row.get("maj:min"))
                self._use(paths, f"mounted at {target}")
            if target == "/":
                self.root |= paths
        for path, drive in self.drives.items():
            if "mounted at /" in drive["used"]:
                self.root.add(path)
        self._use(self.root, "the system's own drive")
        for path in parse_swaps(facts.get("swaps") or ""):
            self._use(self.owners(path), "swap")

    def _mark_members(self, facts):
        for array, members in parse_mdstat(facts.get("mdstat") or "").items():
            for member in members:
                self._use(self.owners(member), f"a member of {array}")
        for path in facts.get("pvs") or []:
            self._use(self.owners(path), f"an LVM member ({path})")
        for name, holders in (facts.get("holders") or {}).items():
            for holder in holders:
                self._use(self.owners(name), f"held by {holder}")
        for pool in self.pools:
            self._use(self.pool_drives(pool), f"in pool {pool['name']}")

    def _mark_doubles(self):
        """A second path to a drive that is in use is that drive, even where no multipath driver says so."""
        for key in ("serial", "wwn"):
            groups = {}
            for drive in self.drives.values():
                if drive[key]:
                    groups.setdefault(drive[key], []).append(drive)
            for group in groups.values():
                busy = [drive["path"] for drive in group if drive["used"]]
                for drive in group:
                    if busy and not drive["used"]:
                        _add(drive["used"], f"the same {key} as {busy[0]}, which is in use")


def best_alias(by_id, path):
    """The one lasting name of a drive in /dev/disk/by-id, or None.

    Its World Wide Name first (``nvme-eui.…``, ``nvme-uuid.…``, ``wwn-…``), else the name with model and serial. udev
    makes a second name with ``_<namespace>`` at its end for each NVMe drive; ZFS refuses a drive named twice.
    """
    names = []
    for name, target in by_id.items():
        if target != path or _PART.search(name) or not name.startswith(("nvme-", "wwn-", "ata-", "scsi-")):
            continue
        if re.search(r"_\d+$", name) and by_id.get(re.sub(r"_\d+$", "", name)) == target:
            continue
        if re.match(r"^(?:nvme-eui\.|wwn-0x)0+$", name):  # a drive that was never given one
            continue
        names.append((not name.startswith(("nvme-eui.", "nvme-uuid.", "wwn-")), name))
    return "/dev/disk/by-id/" + min(names)[1] if names else None


def gigabytes(size):
    """A size for people: ``3841 GB``, ``0 GB``."""
    return f"{size / 1e9:.0f} GB"


def _mountpoints(row):
    # util-linux before 2.37 has one mount point per device.
    many = row.get("mountpoints")
    return [each for each in (many if many is not None else [row.get("mountpoint")]) if each]


def _true(value):
    # util-linux before 2.33 prints numbers as text.
    return value in (True, 1, "1")


def _flat(rows):
    for row in rows:
        yield row
        yield from _flat(row.get("children") or [])


def _add(words, word):
    if word not in words:
        words.append(word)
