"""Looks at the drives of this machine for ``provision_disks``. It only reads; Python 3.8 and later.

Every probe has a limit of time, one drive is asked at a time, and a drive in quarantine is never asked: what is known
about it comes from sysfs, which the kernel answers without the drive.
"""

import json
import os
import shutil
import subprocess

from ansible.module_utils.provision_disks import quarantined
from ansible.module_utils.provision_disks_seen import NO_DRIVES, best_alias
from ansible.module_utils.provision_zpool_text import parse_list

COLUMNS = "NAME,KNAME,PATH,MAJ:MIN,TYPE,SIZE,RO,RM,TRAN,SERIAL,WWN,MODEL,PTTYPE,FSTYPE,LABEL,UUID,MOUNTPOINTS,PKNAME"
INTENT = "etc/provision/zfs-create.json"


class ProbeError(Exception):
    """A probe that gave no answer to build on; the text is a sentence for an operator."""


class Machine:
    """This machine as programs and files show it. ``root`` is ``/`` but for tests."""

    def __init__(self, root, timeout_s):
        self.root = root
        self.timeout_s = timeout_s
        self.env = dict(os.environ, LC_ALL="C")
        self.env["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"

    def run(self, argv, timeout_s=None, about=""):
        """Status, output and error text of a program."""
        limit = timeout_s or self.timeout_s
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self.env,
                start_new_session=True,
            )
        except OSError as error:
            raise ProbeError(f"{argv[0]} cannot be run: {error.strerror}") from None
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            # A process that waits for a dead drive cannot be killed, so nobody waits for it.
            process.kill()
            raise ProbeError(f"{' '.join(argv[:3])} did not answer in {limit} s{about}") from None
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def ask(self, argv, about=""):
        """Output of a program that must succeed."""
        status, out, err = self.run(argv, about=about)
        if status != 0:
            raise ProbeError(f"{' '.join(argv[:3])} ended with {status}: {_last(err or out)}")
        return out

    def path(self, name):
        """Where a file of the system is."""
        return os.path.join(self.root, name.lstrip("/"))

    def text(self, name):
        """Text of a small file, empty if it cannot be read."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def names(self, folder):
        """What is in a folder, sorted."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except OSError:
            return []

    def facts(self, quarantine):
        """The facts that ``provision_disks.decide`` wants.

        Raises:
            ProbeError: a program is not there, failed, hung or printed nothing readable.
        """
        disks = [self._disk(name) for name in self.names("sys/block") if self._is_drive(name)]
        asked = [disk["name"] for disk in disks if not quarantined(disk, quarantine)]
        shunned = [disk["name"] for disk in disks if quarantined(disk, quarantine)]
        by_id = self._links("dev/disk/by-id")
        rows = [row for name in asked for row in self._lsblk(name)]
        listed = parse_list(self.ask(["zpool", "list", "-H", "-o", "name,guid,health"]))
        places = [path for row in rows for path in _places(row)]
        devices = [best_alias(by_id, path) or _link(by_id, path) or path for path, _ in places]
        return {
            "disks": disks,
            "lsblk": {"blockdevices": rows},
            "by_id": by_id,
            "mounts": self._json(["findmnt", "-J", "-l", "-o", "TARGET,SOURCE,FSTYPE,MAJ:MIN"]),
            "swaps": self.text("proc/swaps"),
            "mdstat": self.text("proc/mdstat"),
            "pvs": self._pvs(shunned),
            "holders": {name: self.names(f"sys/class/block/{name}/holders") for name in self.names("sys/class/block")},
            "zpool_status": self.ask(["zpool", "status", "-P"]),
            "zpool_guids": {name: pool["guid"] for name, pool in listed.items()},
            "zpool_import": self._importable(devices),
            "labels": [self._label(path) for path, fstype in places if fstype == "zfs_member"],
            "hostid": self.hostid(),
            "intent": self.intent(),
            "devices": devices,
        }

    def _is_drive(self, name):
        return not NO_DRIVES.match(name) and self.text(f"sys/block/{name}/hidden").strip() != "1"

    def _disk(self, name):
        """What sysfs knows of a drive. NVMe drives have their own files, SCSI ones a page of vital product data."""
        device = f"sys/block/{name}/device"
        controllers = [each for each in self.names(device) if each.startswith("nvme") and "n" not in each[4:]]
        address = self.text(f"{device}/address").strip()
        for controller in controllers:  # with multipath on, the device is the subsystem of some controllers
            address = address or self.text(f"{device}/{controller}/address").strip()
        return {
            "name": name,
            "serial": self.text(f"{device}/serial").strip() or self._page80(device),
            "model": self.text(f"{device}/model").strip(),
            "firmware": (self.text(f"{device}/firmware_rev") or self.text(f"{device}/rev")).strip(),
            "address": address,
        }

    def _page80(self, device):
        try:
            with open(self.path(f"{device}/vpd_pg80"), "rb") as file:
                return file.read()[4:].decode("ascii", "replace").strip("\0 ")
        except OSError:
            return ""

    def _links(self, folder):
        base = os.path.realpath(self.root)
        links = {}
        for name in self.names(folder):
            target = os.path.realpath(os.path.join(self.path(folder), name))
            links[name] = "/" + os.path.relpath(target, base) if base != "/" else target
        return links

    def _lsblk(self, name):
        about = f"; if the drive {name} hangs, put its serial number into zfs_quarantine"
        return self._json(["lsblk", "-J", "-b", "-o", COLUMNS, f"/dev/{name}"], about).get("blockdevices") or []

    def _json(self, argv, about=""):
        try:
            found = json.loads(self.ask(argv, about))
        except ValueError:
            raise ProbeError(f"{argv[0]} printed no JSON; util-linux 2.37 or later was expected") from None
        if not isinstance(found, dict):
            raise ProbeError(f"{argv[0]} printed a {type(found).__name__}; an object was expected")
        return found

    def _pvs(self, shunned):
        if not shutil.which("pvs", path=self.env["PATH"]):
            return []
        argv = ["pvs", "--reportformat", "json", "-o", "pv_name"]
        if shunned:
            refused = ", ".join(f'"r|^/dev/{name}|"' for name in shunned)
            argv += ["--config", f"devices {{ global_filter = [ {refused} ] }}"]
        report = self._json(argv).get("report") or []
        return [row.get("pv_name", "") for part in report for row in part.get("pv") or []]

    def _importable(self, devices):
        """``zpool import`` over the drives that may be asked, not over all of /dev/disk/by-id."""
        if not devices:
            return ""
        argv = ["zpool", "import"] + [word for device in devices for word in ("-d", device)]
        status, out, err = self.run(argv)
        # Some versions end with 1 where there is nothing to import.
        if status != 0 and "no pools available" not in out + err:
            raise ProbeError(f"zpool import ended with {status}: {_last(err or out)}")
        return out

    def _label(self, path):
        # zdb ends with an error where one of the four labels is damaged; what it printed still counts.
        return self.run(["zdb", "-l", path], about=f" for {path}")[1]

    def hostid(self):
        """The host id of ZFS, eight hex digits, or None where /etc/hostid is missing: ZFS then uses none."""
        try:
            with open(self.path("etc/hostid"), "rb") as file:
                raw = file.read(4)
        except OSError:
            return None
        return f"{int.from_bytes(raw, 'little'):08x}" if len(raw) == 4 else None

    def intent(self):
        """The creation that was begun and not finished, or None."""
        try:
            found = json.loads(self.text(INTENT))
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


def _places(row):
    """``(path, fstype)`` of a drive and its partitions; nothing that is made of several drives."""
    yield row.get("path") or "/dev/" + row["name"], row.get("fstype")
    for child in row.get("children") or []:
        if child.get("type") == "part":
            yield child.get("path") or "/dev/" + child["name"], child.get("fstype")


def _link(by_id, path):
    """The lasting name of a partition: that of the drive, so that a pool remembers names that last."""
    base = sorted(name for name, target in by_id.items() if target == path)
    best = [name for name in base if name.startswith(("nvme-eui.", "nvme-uuid.", "wwn-"))] or base
    return f"/dev/disk/by-id/{best[0]}" if best else None


def _last(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[-3:])[:400] or "no output"
