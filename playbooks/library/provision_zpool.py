#!/usr/bin/python
"""Ansible module: one ZFS pool over every drive that is not the system's own."""

from __future__ import annotations

import json
import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.provision_disks import decide
from ansible.module_utils.provision_disks_read import INTENT, Machine, ProbeError

DOCUMENTATION = r"""
---
module: provision_zpool
short_description: One ZFS pool over every drive that is not the system's own
description:
  - Looks at the drives and pools of the machine, decides, acts on the difference and looks again.
  - A pool that is there is compared and reported; nothing is ever added to it, removed from it or replaced in it.
  - A pool that can be imported is imported by its number, as after a new installation of the system.
  - Otherwise the pool is created, if exactly the expected number of blank drives of one size is there.
  - Everything else is refused with sentences that name the drives by serial number and bay.
author:
  - the provision project (@provision)
options:
  pool:
    description: Name of the pool.
    type: str
    required: true
  expected_drives:
    description: How many drives the pool stands on, spares included.
    type: int
    required: true
  drives:
    description: >-
      What the inventory knows of the drives, so that a missing one can be named: C(serial), C(bay) and C(address),
      the PCI address. Each is optional.
    type: list
    elements: dict
    default: []
    suboptions:
      serial:
        description: Serial number.
        type: str
      bay:
        description: What is printed at the bay.
        type: str
      address:
        description: PCI address of the drive.
        type: str
  wipe_allow:
    description: Serial numbers of drives whose contents may be lost in this run.
    type: list
    elements: str
    default: []
  quarantine:
    description: >-
      Drives that must not be touched. A drive matches an entry if all keys that the entry has are equal.
    type: list
    elements: dict
    default: []
    suboptions:
      serial:
        description: Serial number.
        type: str
      model:
        description: Model as sysfs shows it.
        type: str
      firmware:
        description: Firmware revision as sysfs shows it.
        type: str
  boot_serial:
    description: Serial number of the drive that the system must run from, as MAAS knows it.
    type: str
    default: ""
  hostids:
    description: Host ids (eight hex digits) that this machine had before; a pool last used by one of them is imported.
    type: list
    elements: str
    default: []
  degraded_ok:
    description: How many places of an existing pool may not work.
    type: int
    default: 0
  allow_single:
    description: Whether a pool may stand on a single drive.
    type: bool
    default: false
  spares:
    description: How many of the drives are hot spares; from eight drives on.
    type: int
    default: 0
  min_bytes:
    description: Smaller drives are not looked at.
    type: int
    default: 100000000000
  size_tolerance_percent:
    description: How much the sizes of the drives may differ.
    type: float
    default: 1.0
  groups:
    description: >-
      Which sizes of drives belong to the pool, where a machine has several: C(count) drives of about C(gb) gigabytes
      each. Every group becomes vdevs of its own; drives of other sizes are left alone. Empty means one size.
    type: list
    elements: dict
    default: []
    suboptions:
      gb:
        description: Size in gigabytes, as printed on the drive.
        type: float
        required: true
      count:
        description: How many of them.
        type: int
        required: true
  transports:
    description: How a drive may be attached.
    type: list
    elements: str
    default: [nvme, sata, sas]
  ashift:
    description: Exponent of the sector size. Only for a new pool; a difference is reported.
    type: int
    default: 12
  autotrim:
    description: Whether freed space is trimmed at once.
    type: bool
    default: true
  cachefile:
    description: Where the pool is remembered over a reboot.
    type: path
    default: /etc/zfs/zpool.cache
  compression:
    description: Compression of the pool's file system.
    type: str
    default: lz4
  atime:
    description: Whether reading a file is noted.
    type: bool
    default: false
  xattr:
    description: How extended attributes are kept.
    type: str
    default: sa
  acltype:
    description: Which access lists there are.
    type: str
    default: posix
  mountpoint:
    description: Where the pool is mounted.
    type: str
    required: true
  probe_timeout_s:
    description: How long one look at one drive may take, in seconds.
    type: int
    default: 60
  act_timeout_s:
    description: How long one change may take, in seconds.
    type: int
    default: 600
  root:
    description: Where /sys, /proc, /dev/disk and /etc are. For tests.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Says what would be done. C(zpool create -n) is run, which changes nothing.
"""

EXAMPLES = r"""
- name: A pool over the seven data drives
  provision_zpool:
    pool: scratch
    expected_drives: 7
    mountpoint: /scratch
"""

RETURN = r"""
plan:
  description: What was decided at the first look, with the drives chosen and those excluded and why.
  returned: always, unless a probe failed
  type: dict
commands:
  description: Every command that changed something, in order.
  returned: always
  type: list
  elements: list
reports:
  description: What somebody should know and the module does not mend.
  returned: always
  type: list
  elements: str
degraded:
  description: One sentence for each place of the pool that does not work.
  returned: always
  type: list
  elements: str
"""


# Other spellings of one value: what OpenZFS prints, what people write.
SAME = {"posixacl": "posix", "/etc/zfs/zpool.cache": "-"}


class Job:
    """One run of the module."""

    def __init__(self, module):
        self.module = module
        self.want = module.params
        self.machine = Machine(self.want["root"], self.want["probe_timeout_s"])
        self.commands = []
        self.result = {"changed": False, "commands": self.commands, "reports": [], "degraded": []}

    def refuse(self, sentences):
        """End the run with sentences for an operator."""
        self.module.fail_json(msg="; ".join(sentences), **self.result)

    def look(self):
        """Facts and the plan that follows from them."""
        facts = self.machine.facts(self.want["quarantine"])
        plan = decide(facts, self.want)
        self.result["reports"], self.result["degraded"] = plan["reports"], plan["degraded"]
        return facts, plan

    def act(self, argv, must=True):
        """Run a command that changes something; in check mode only say so. Not all of them must succeed."""
        self.commands.append(argv)
        self.result["changed"] = True
        if self.module.check_mode:
            return
        status, out, err = self.machine.run(argv, self.want["act_timeout_s"])
        if status != 0 and must:
            self.refuse([f"{' '.join(argv[:2])} ended with {status}: {(err or out).strip()[:600]}"])

    def run(self):
        """Look, decide, act, look again."""
        facts, plan = self.look()
        self.result["plan"] = plan
        if plan["action"] == "refuse":
            self.refuse(plan["why"])
        if plan["action"] == "import":
            self.import_pool(plan, facts["devices"])
        elif plan["action"] == "create":
            self.create_pool(plan)
        if plan["action"] != "nothing":
            if self.module.check_mode:
                self.module.exit_json(**self.result)
            again = self.look()[1]
            if again["action"] != "nothing":
                self.refuse([f"after the {plan['action']}, pool {self.want['pool']} is not as expected", *again["why"]])
        self.forget_intent()
        self.settle_properties()
        for sentence in self.result["reports"]:
            self.module.warn(sentence)
        if len(self.result["degraded"]) > self.want["degraded_ok"]:
            self.refuse([f"pool {self.want['pool']} is degraded", *self.result["degraded"], *self.result["reports"]])
        self.module.exit_json(**self.result)

    def import_pool(self, plan, devices):
        """Import by number: two pools may have had one name, and the name may be taken by another."""
        places = [word for device in devices for word in ("-d", device)]
        force = ["-f"] if plan["import"]["force"] else []
        cache = ["-o", f"cachefile={self.want['cachefile']}"]
        self.act(["zpool", "import", *places, *cache, *force, plan["import"]["id"]])

    def create_pool(self, plan):
        """Wipe what may be wiped, try dry, create. Never with ``-f``: what ZFS itself refuses stays refused."""
        argv = ["-o", f"ashift={self.want['ashift']}"]
        for key, value in self.pool_properties().items():
            argv += ["-o", f"{key}={value}"]
        for key, value in self.file_system_properties().items():
            argv += ["-O", f"{key}={value}"]
        argv.append(self.want["pool"])
        for vdev in plan["vdevs"]:
            argv += ([] if vdev["type"] == "stripe" else [vdev["type"]]) + vdev["aliases"]
        argv += ["spare", *plan["spares"]] if plan["spares"] else []
        if not plan["wipe"]:
            self.dry_run(argv)
        self.note_intent(plan)
        for drive in plan["wipe"]:
            self.wipe(drive)
        if plan["wipe"] and not self.module.check_mode:
            if shutil.which("udevadm", path=self.machine.env["PATH"]):
                self.machine.run(["udevadm", "settle", "--timeout=30"], 40)
            self.dry_run(argv)
        self.act(["zpool", "create", *argv])

    def dry_run(self, argv):
        """Let ZFS say whether it would."""
        status, out, err = self.machine.run(["zpool", "create", "-n", *argv], self.want["act_timeout_s"])
        if status != 0:
            self.refuse([f"zpool create -n ended with {status}: {(err or out).strip()[:600]}"])

    def wipe(self, drive):
        """Clear one drive that this run may clear: labels of pools, then partitions, then the table."""
        for path in drive["zfs"]:
            # It refuses where a label is damaged; wipefs and the creation have the last word.
            self.act(["zpool", "labelclear", "-f", path], must=False)
        for path in [*drive["partitions"], drive["path"]]:
            self.act(["wipefs", "-a", path])

    def note_intent(self, plan):
        """A creation that is killed half-way leaves partitions on blank drives; the next run must know them."""
        if self.module.check_mode:
            return
        path = self.machine.path(INTENT)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"pool": self.want["pool"], "serials": [drive["serial"] for drive in plan["drives"]]}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)

    def forget_intent(self):
        """The pool is there, so nothing of it is unfinished."""
        path = self.machine.path(INTENT)
        if not self.module.check_mode and os.path.exists(path):
            os.unlink(path)

    def pool_properties(self):
        """Properties of the pool that may change while it is in use."""
        return {"autotrim": _on(self.want["autotrim"]), "cachefile": self.want["cachefile"]}

    def file_system_properties(self):
        """Properties of the pool's own file system."""
        wanted = {key: self.want[key] for key in ("compression", "xattr", "acltype", "mountpoint")}
        wanted["atime"] = _on(self.want["atime"])
        return wanted

    def settle_properties(self):
        """Set what differs and mount what is not mounted."""
        pool = self.want["pool"]
        seen = self.properties("zpool", ["ashift", *self.pool_properties()])
        if seen.get("ashift") not in (str(self.want["ashift"]), "0", "-"):
            self.result["reports"].append(
                f"pool {pool} has ashift {seen.get('ashift')}, {self.want['ashift']} was expected; it cannot be changed"
            )
        for key, value in self.pool_properties().items():
            if _plain(seen.get(key)) != _plain(value):
                self.act(["zpool", "set", f"{key}={value}", pool])
        seen = self.properties("zfs", [*self.file_system_properties(), "mounted", "canmount", "keystatus"])
        if seen.get("keystatus") == "unavailable":
            self.refuse([f"pool {pool} is encrypted and its key is not loaded; run: zfs load-key {pool}"])
        for key, value in self.file_system_properties().items():
            if _plain(seen.get(key)) != _plain(value):
                self.act(["zfs", "set", f"{key}={value}", pool])
        mountable = self.want["mountpoint"] not in ("none", "legacy") and seen.get("canmount") == "on"
        if mountable and self.properties("zfs", ["mounted"]).get("mounted") == "no":
            self.act(["zfs", "mount", pool])

    def properties(self, program, names):
        """Values as ZFS prints them."""
        argv = [program, "get", "-H", "-o", "property,value", ",".join(names), self.want["pool"]]
        rows = [line.split("\t") for line in self.machine.ask(argv).splitlines()]
        return {row[0]: row[1] for row in rows if len(row) == 2}


def _on(value):
    return "on" if value else "off"


def _plain(value):
    return SAME.get(value, value)


def main():
    """Entry point of the module."""
    drive = {"serial": {"type": "str"}, "bay": {"type": "str"}, "address": {"type": "str"}}
    group = {"gb": {"type": "float", "required": True}, "count": {"type": "int", "required": True}}
    shunned = {"serial": {"type": "str"}, "model": {"type": "str"}, "firmware": {"type": "str"}}
    module = AnsibleModule(
        argument_spec={
            "pool": {"type": "str", "required": True},
            "expected_drives": {"type": "int", "required": True},
            "drives": {"type": "list", "elements": "dict", "default": [], "options": drive},
            "wipe_allow": {"type": "list", "elements": "str", "default": []},
            "quarantine": {"type": "list", "elements": "dict", "default": [], "options": shunned},
            "boot_serial": {"type": "str", "default": ""},
            "hostids": {"type": "list", "elements": "str", "default": []},
            "degraded_ok": {"type": "int", "default": 0},
            "allow_single": {"type": "bool", "default": False},
            "spares": {"type": "int", "default": 0},
            "min_bytes": {"type": "int", "default": 100000000000},
            "size_tolerance_percent": {"type": "float", "default": 1.0},
            "groups": {"type": "list", "elements": "dict", "default": [], "options": group},
            "transports": {"type": "list", "elements": "str", "default": ["nvme", "sata", "sas"]},
            "ashift": {"type": "int", "default": 12},
            "autotrim": {"type": "bool", "default": True},
            "cachefile": {"type": "path", "default": "/etc/zfs/zpool.cache"},
            "compression": {"type": "str", "default": "lz4"},
            "atime": {"type": "bool", "default": False},
            "xattr": {"type": "str", "default": "sa"},
            "acltype": {"type": "str", "default": "posix"},
            "mountpoint": {"type": "str", "required": True},
            "probe_timeout_s": {"type": "int", "default": 60},
            "act_timeout_s": {"type": "int", "default": 600},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    job = Job(module)
    if module.params["expected_drives"] < 1:
        job.refuse(["expected_drives is below 1; at least one drive was expected"])
    try:
        job.run()
    except ProbeError as error:
        job.refuse([str(error)])
    except OSError as error:
        job.refuse([f"{error.filename or 'a file'}: {error.strerror}"])


if __name__ == "__main__":
    main()
