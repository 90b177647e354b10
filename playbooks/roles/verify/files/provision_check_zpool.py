"""The check of ZFS pools, for provision-check: which pool is not well, and which drive of which bay is the reason.

Standard library of Python 3.8 and later. It only reads; zpool itself is asked, and sysfs for serial numbers.
"""

import re

from provision_zpool_text import parse_pools

GOOD = ("ONLINE", "AVAIL", "INUSE")


def check_zpools(node):
    """ZFS pools that must be here are here and healthy; a place of one that does not work is a drive of its own."""
    want = node.told.get("zpools") or []
    if not want:
        return
    status, out, err = node.run("zpool", "list", "-H", "-o", "name,health")
    if status != 0:
        raise node.CannotLook(f"zpool: {err.strip()[:200] or status}")
    health = dict(line.split("\t")[:2] for line in out.splitlines() if "\t" in line)
    for name in want:
        state = health.get(name, "not imported")
        yield state == "ONLINE", f"{name} is {state}", ("software", name, name), {"pool": name, "state": state}
        if name in health and state != "ONLINE":
            yield from bad_places(node, name)


def bad_places(node, name):
    """One answer per place of the pool that does not work, with the drive that is or was there."""
    _, out, _ = node.run("zpool", "status", "-P", name)
    leaves = [leaf for pool in parse_pools(out) if pool["name"] == name for leaf in pool["leaves"]]
    bad = [leaf for leaf in leaves if leaf["state"] not in GOOD]
    drives = [found(node, leaf["was"] or leaf["name"]) for leaf in bad]
    gone = missing(node, [drive.get("serial") for drive in drives])
    if len(gone) == 1 and drives.count({}) == 1:
        # The only place nobody knows, and the only drive nobody sees.
        drives[drives.index({})] = gone[0]
    for number, leaf in enumerate(bad):
        drive, device = drives[number], (leaf["was"] or leaf["name"]).rsplit("/", 1)[-1]
        serial, bay = drive.get("serial") or "", drive.get("bay") or ""
        bays = [f"Bay {each['bay']}" for each in gone if not drive and each.get("bay")]
        locator = f"Bay {bay}" if bay else " or ".join(bays) or serial or device
        why = f"{name}: drive {serial or device}{f' in bay {bay}' if bay else ''} is {leaf['state']}"
        values = {"pool": name, "state": leaf["state"], "serial": serial or None, "device": device}
        yield False, why, ("drive", serial or device, locator), values


def found(node, path):
    """What is known of the drive that ZFS calls ``path``: serial and bay; empty if nothing."""
    link, serial = node.path(path), ""
    if path.startswith("/dev/") and link.exists():
        device = link.resolve().name
        drive = re.sub(r"p\d+$" if device.startswith("nvme") else r"\d+$", "", device)
        serial = node.text(node.path(f"/sys/block/{drive}/device/serial"), "")
    for each in node.told.get("drives") or []:
        own = each.get("serial") or ""
        # A link's name ends with the serial number: nvme-MODEL_SERIAL, perhaps with the namespace and a partition.
        if own and (own == serial or re.search(rf"[_-]{re.escape(own)}(?:_\d+)?(?:-part\d+)?$", path)):
            return each
    return {"serial": serial} if serial else {}


def missing(node, named):
    """Drives that are known, that the kernel does not see, and whose place is not ``named`` already."""
    known = [each for each in node.told.get("drives") or [] if each.get("serial")]
    return [each for each in known if each["serial"] not in present(node) | set(named)]


def present(node):
    """Serial numbers of all drives that the kernel sees."""
    return {node.text(path, "") for path in node.path("/sys/block").glob("*/device/serial")} - {""}
