"""Which drives become the pool, or why none does. Pure: the whole policy is here; Python 3.8 and later.

``decide(facts, wanted)`` answers with a plan, plain data::

    {"action": "nothing" | "import" | "create" | "refuse",
     "why": [sentence, …],        # why it is refused, or what was decided
     "reports": [sentence, …],    # what somebody should know and the module will not mend
     "degraded": [sentence, …],   # places of the pool that do not work, one sentence each
     "import": {"id", "force"},   # action import
     "vdevs": [{"type", "aliases", "serials"}], "spares": [alias, …],   # action create
     "wipe": [{"path", "serial", "partitions", "zfs"}],                # action create
     "drives": [{"serial", "path", "alias", "bay"}],   # chosen, or found in the pool
     "excluded": [{"serial", "path", "why"}]}

``facts`` are those of ``provision_disks_seen`` and: ``zpool_import`` (text of ``zpool import``), ``labels`` (texts of
``zdb -l``), ``hostid`` (of this system, eight hex digits), ``intent`` (``{"pool", "serials"}`` of a creation that was
not finished), ``zpool_guids`` (``{name: GUID}`` of the imported pools).

``wanted``: ``pool``, ``expected_drives``, ``drives`` (``[{"serial", "bay", "address"}]``, what the inventory knows),
``boot_serial``, ``quarantine``, ``wipe_allow``, ``hostids``, ``allow_single``, ``spares``, ``min_bytes``,
``size_tolerance_percent``, ``transports``, ``groups`` (see provision_disks_groups; empty: all drives are of one size).

A drive with a descendant that is mounted, swapped on, a member of something or the system's own is never chosen,
whatever ``wipe_allow`` says. Nothing is ever added to a pool, removed from it or replaced in it.
"""

from ansible.module_utils.provision_disks_groups import refuse_groups, refuse_members, refuse_shapes, split
from ansible.module_utils.provision_disks_seen import Seen, gigabytes, quarantined
from ansible.module_utils.provision_zpool_text import parse_label, parse_pools

__all__ = ["decide", "layout", "quarantined"]

_GOOD = ("ONLINE", "AVAIL", "INUSE")


def decide(facts, wanted):
    """The plan for this machine. See the module's text for the shapes."""
    seen = Seen(facts, wanted)
    plan = {"action": "refuse", "why": [], "reports": [], "degraded": [], "import": None, "vdevs": [], "spares": []}
    plan.update({"wipe": [], "drives": [], "excluded": _excluded(seen, wanted)})
    name = wanted["pool"]
    here = [pool for pool in seen.pools if pool["name"] == name]
    ids = _guids(facts, here)
    found = parse_pools(facts.get("zpool_import") or "")
    importable = [pool for pool in found if pool["name"] == name and pool["id"] not in ids]
    if len(here) + len(importable) > 1:
        which = ", ".join(pool["id"] or "the imported one" for pool in here + importable)
        plan["why"].append(f"{len(here) + len(importable)} pools are named {name} ({which}); export or rename one")
    elif here:
        _keep(plan, seen, here[0], wanted)
    elif importable:
        _import(plan, seen, importable[0], facts, wanted)
    else:
        _create(plan, seen, facts, wanted, [pool for pool in found if pool["name"] != name])
    return plan


def _guids(facts, here):
    """GUIDs of the imported pools of that name: a drive pulled from one and put back still carries its label."""
    return {facts.get("zpool_guids", {}).get(pool["name"]) for pool in here} - {None}


def _keep(plan, seen, pool, wanted):
    """The pool is imported: compare, report, change nothing."""
    if pool["state"] not in ("ONLINE", "DEGRADED"):
        plan["why"].append(f"pool {pool['name']} is {pool['state']}: {pool['status'] or 'no reason given'}")
        return
    _compare(plan, seen, pool, wanted)
    if not plan["why"]:
        plan["action"] = "nothing"


def _import(plan, seen, pool, facts, wanted):
    """A pool of that name can be imported: by its number, with force only if it was this machine's own."""
    name, number = pool["name"], pool["id"]
    if pool["state"] not in ("ONLINE", "DEGRADED"):
        plan["why"].append(
            f"pool {name} ({number}) is {pool['state']} and cannot be imported: {pool['status'] or pool['action']}"
        )
        _missing(plan["why"], seen, wanted)
        return
    _compare(plan, seen, pool, wanted)
    force = False
    if _elsewhere(pool):
        plan["why"].append(f"pool {name} ({number}) is imported by another system; it is never forced")
    elif "another system" in pool["status"] or "'-f'" in pool["action"]:
        force = True
        plan["why"].extend(_strange_hosts(pool, facts, wanted))
    if plan["why"]:
        return
    plan["action"], plan["import"] = "import", {"id": number, "force": force}


def _elsewhere(pool):
    text = (pool["status"] + " " + pool["action"]).lower()
    return "currently imported" in text or "multihost" in text or "in use" in text


def _strange_hosts(pool, facts, wanted):
    """Why a pool may not be taken by force: its last host is not known to be this machine."""
    own = {_hostid(each) for each in [*(wanted.get("hostids") or []), facts.get("hostid")] if each}
    labels = [label for label in map(parse_label, facts.get("labels") or []) if label]
    labels = [label for label in labels if label["pool_guid"] == pool["id"]]
    what = f"pool {pool['name']} ({pool['id']}) was last used by another system"
    if not labels:
        return [f"{what}, and no label says which; if it was this machine, import it by hand once"]
    strange = {(label["hostid"], label["hostname"]) for label in labels if _hostid(label["hostid"] or "0") not in own}
    return [
        f"{what}: host id {hostid or 'unknown'} ({host or 'no name'}); if that was this machine, "
        f"add the host id to zfs_hostids"
        for hostid, host in sorted(strange)
    ]


def _hostid(text):
    try:
        return int(str(text), 16)
    except ValueError:
        return None


def _compare(plan, seen, pool, wanted):
    """Places that do not work, drives that are missing, and drives that stand beside the pool."""
    places = {}
    for leaf in pool["leaves"]:
        if leaf["section"] in ("", "spares"):
            places.setdefault((leaf["section"], leaf["slot"]), []).append(leaf)
        elif leaf["state"] not in _GOOD:
            plan["degraded"].append(_bad(seen, leaf, wanted))
    inside = set()
    for leaves in places.values():
        bad = [leaf for leaf in leaves if leaf["state"] not in _GOOD]
        plan["degraded"].extend(_bad(seen, leaf, wanted) for leaf in bad)
        for leaf in leaves:
            inside |= seen.leaf_drives(leaf)
    if pool["state"] != "ONLINE" and not plan["degraded"]:
        plan["degraded"].append(f"pool {pool['name']} is {pool['state']}: {pool['status']}")
    # A spare that stands in for a drive is printed twice: in the place of that drive and among the spares.
    count, expected = len(places), wanted["expected_drives"]
    if count != expected:
        plan["why"].append(
            f"pool {pool['name']} stands on {count} drives, {expected} were expected; "
            "a pool is never grown or shrunk here: correct zfs_expected_drives or rebuild the pool by hand"
        )
    if plan["degraded"]:
        _missing(plan["reports"], seen, wanted)
    for path in sorted(inside):
        plan["drives"].append(_short(seen.drives[path], wanted))
    for path, drive in sorted(seen.drives.items()):
        if path not in inside and not drive["used"] and not _of_no_group(drive, wanted):
            plan["reports"].append(f"{_name(drive, wanted)} is not in pool {pool['name']}")


def _bad(seen, leaf, wanted):
    """One place of a pool, with the drive that is or was there."""
    paths = seen.leaf_drives(leaf)
    what = leaf["was"] or leaf["name"]
    for path in paths:
        what = _name(seen.drives[path], wanted)
    if not paths:
        known = [each for each in wanted.get("drives") or [] if each.get("serial") and each["serial"] in what]
        what += "".join(f" (bay {each['bay']})" for each in known[:1] if each.get("bay"))
    return f"{what} is {leaf['state']}"


def _create(plan, seen, facts, wanted, others):
    """No such pool: choose the drives, or say every reason why not."""
    why = plan["why"]
    free = [drive for _, drive in sorted(seen.drives.items()) if not drive["used"]]
    grouped, others_free = split(free, wanted) if wanted.get("groups") else ([free], [])
    for drive in others_free:
        plan["excluded"].append({"serial": drive["serial"], "path": drive["path"], "why": "of no size in zfs_groups"})
    free = [drive for members in grouped for drive in members]
    if not seen.root:
        why.append("no drive was found below /, so no drive may be taken; look at findmnt / and lsblk")
    boot = str(wanted.get("boot_serial") or "")
    if seen.root and boot and boot not in [seen.drives[path]["serial"] for path in seen.root]:
        serials = ", ".join(sorted(seen.drives[path]["serial"] or path for path in seen.root))
        why.append(f"the system runs from {serials}, MAAS says its boot drive is {boot}")
    _refuse_used(why, seen, wanted)
    _refuse_doubles(why, free)
    _refuse_strange(why, free, facts, wanted, others)
    if wanted.get("groups"):
        refuse_groups(why, wanted)
        refuse_members(why, grouped, others_free, wanted, lambda drive: _name(drive, wanted))
        if len(free) < wanted["expected_drives"]:
            _missing(why, seen, wanted)
    else:
        _refuse_count(why, seen, free, wanted)
        _refuse_sizes(why, free, wanted)
    why.extend(f"{_name(drive, wanted)} has no name in /dev/disk/by-id" for drive in free if not drive["alias"])
    if why:
        return
    if not _lay_out(plan, grouped, wanted):
        return
    plan["action"] = "create"
    free.sort(key=lambda drive: drive["alias"])
    plan["drives"] = [_short(drive, wanted) for drive in free]
    plan["wipe"] = [
        {
            "path": drive["alias"],
            "serial": drive["serial"],
            "partitions": [seen.lasting(drive, path) for path in drive["partitions"]],
            "zfs": [drive["alias"] if path == drive["path"] else seen.lasting(drive, path) for path in drive["zfs"]],
        }
        for drive in free
        if drive["signatures"] or drive["partitions"]
    ]


def _lay_out(plan, grouped, wanted):
    """Vdevs and spares of the plan, drives of one size together. False if there is no layout; the plan says why."""
    shapes = [
        layout(len(members), bool(wanted.get("allow_single")), int(wanted.get("spares") or 0)) for members in grouped
    ]
    problems = [problem for _, _, problem in shapes if problem] or [refuse_shapes([vdevs for vdevs, _, _ in shapes])]
    if problems[0]:
        plan["why"].append(problems[0])
        return False
    for number, members in enumerate(grouped):
        vdevs, spares, _ = shapes[number]
        left = sorted(members, key=lambda drive: drive["alias"])
        for kind, width in vdevs:
            part, left = left[:width], left[width:]
            vdev = {"type": kind, "aliases": [drive["alias"] for drive in part]}
            plan["vdevs"].append(dict(vdev, serials=[drive["serial"] for drive in part]))
        plan["spares"] += [drive["alias"] for drive in left[:spares]]
    return True


def _of_no_group(drive, wanted):
    return bool(wanted.get("groups")) and split([drive], wanted)[1] == [drive]


def _refuse_used(why, seen, wanted):
    """A drive that somebody wants wiped and that is in use is a mistake about to happen."""
    for serial in wanted.get("wipe_allow") or []:
        for drive in seen.drives.values():
            if drive["serial"] == serial and drive["used"]:
                why.append(f"zfs_wipe_allow names {_name(drive, wanted)}, which is {', '.join(drive['used'])}")


def _refuse_doubles(why, free):
    """One drive that shows up as several devices: two paths without multipath, or two namespaces."""
    for key in ("serial", "wwn"):
        groups = {}
        for drive in free:
            if drive[key]:
                groups.setdefault(drive[key], []).append(drive["path"])
        for value, paths in sorted(groups.items()):
            if len(paths) > 1:
                why.append(f"{', '.join(paths)} have the same {key} {value}: two paths or parts of one drive")


def _refuse_strange(why, free, facts, wanted, others):
    """Drives that carry something, unless this run may wipe them or an interrupted creation left it."""
    named = {each for pool in others for each in [pool["name"]]}
    for drive in free:
        marks = drive["signatures"] or (["partitions"] if drive["partitions"] else [])
        if not marks or drive["serial"] in (wanted.get("wipe_allow") or []) or _ours(drive, facts, wanted):
            continue
        pools = sorted(name for name in named if f"zfs_member {name}" in marks)
        more = f" (pool {pools[0]} could be imported)" if pools else ""
        why.append(
            f"{_name(drive, wanted)} is not blank: {', '.join(marks)}{more}; if that may be lost, "
            f"add {drive['serial']} to zfs_wipe_allow for one run"
        )


def _ours(drive, facts, wanted):
    """Whether all that a drive carries was left by a creation of this pool that did not finish."""
    intent = facts.get("intent") or {}
    if intent.get("pool") != wanted["pool"] or drive["serial"] not in (intent.get("serials") or []):
        return False
    return set(drive["signatures"]) <= {"a gpt partition table", "zfs_member", f"zfs_member {wanted['pool']}"}


def _refuse_count(why, seen, free, wanted):
    expected = wanted["expected_drives"]
    if len(free) == expected:
        return
    why.append(f"{len(free)} drives could be used, {expected} were expected")
    if len(free) > expected:
        why.append("they are: " + "; ".join(_name(drive, wanted) for drive in free))
    else:
        _missing(why, seen, wanted)


def _missing(sentences, seen, wanted):
    """What the inventory knows and the machine does not show, or does not give."""
    serials = {drive["serial"]: drive for drive in seen.drives.values()}
    addresses = {drive["address"]: drive for drive in seen.drives.values() if drive["address"]}
    quarantine = {disk["serial"] for disk in seen.quarantined} | {disk.get("address") for disk in seen.quarantined}
    for each in wanted.get("drives") or []:
        serial, address = each.get("serial") or "", each.get("address") or ""
        what = f"drive {serial}" if serial else "the drive"
        what += f" of bay {each['bay']}" if each.get("bay") else (f" at {address}" if address else "")
        drive = serials.get(serial) if serial else addresses.get(address)
        if serial in quarantine - {""} or address in quarantine - {""}:
            sentences.append(f"{what} is in quarantine")
        elif drive is None:
            sentences.append(f"{what} is missing")
        elif drive["used"] and drive["path"] not in seen.root and not _in_pool(drive, wanted):
            sentences.append(f"{what} ({drive['path']}) is {', '.join(drive['used'])}")
    listed = {each.get("serial") for each in wanted.get("drives") or []}
    for disk in seen.quarantined:
        if disk["serial"] not in listed:
            sentences.append(f"drive {disk['serial'] or disk['path']} ({disk['path']}) is in quarantine")


def _in_pool(drive, wanted):
    return f"in pool {wanted['pool']}" in drive["used"]


def _refuse_sizes(why, free, wanted):
    """Drives of one pool are of one size; the smallest would set the size of all."""
    tolerance = float(wanted.get("size_tolerance_percent", 1))
    sizes = sorted(drive["size"] for drive in free)
    if sizes and sizes[-1] > sizes[0] * (1 + tolerance / 100):
        why.append(
            "the drives are not of one size: "
            + "; ".join(f"{_name(drive, wanted)} has {gigabytes(drive['size'])}" for drive in free)
            + "; say in zfs_groups which sizes belong to the pool"
        )


def layout(count, allow_single, spares=0):
    """``(groups, spares, problem)`` for a number of drives; a group is ``(type, width)``, ``stripe`` is no vdev type.

    1 a single drive, if allowed · 2 a mirror · 3–7 raidz1 · 8–11 raidz2 · 12 and more raidz2 of equal width, 6 to 11
    drives each, as wide as possible. ZFS refuses vdevs of different width in one pool.
    """
    if spares and count < 8:
        return [], 0, f"spares make sense from 8 drives on; there are {count}"
    count -= spares
    if count < 1:
        return [], 0, "there are no drives"
    if count == 1:
        return ([("stripe", 1)], 0, None) if allow_single else ([], 0, "one drive has no redundancy; not allowed here")
    if count == 2:
        return [("mirror", 2)], spares, None
    if count <= 11:
        return [("raidz1" if count <= 7 else "raidz2", count)], spares, None
    for width in range(11, 5, -1):
        if count % width == 0:
            return [("raidz2", width)] * (count // width), spares, None
    return [], 0, f"{count} drives cannot be split into vdevs of 6 to 11 drives each; keep some as zfs_spares"


def _excluded(seen, wanted):
    """Every device that is out of question, with the reason; what is no drive at all is left out."""
    rows = [
        {"serial": drive["serial"], "path": path, "why": ", ".join(drive["used"])}
        for path, drive in sorted(seen.drives.items())
        if drive["used"] and not _in_pool(drive, wanted)
    ]
    rows.extend({"serial": disk["serial"], "path": disk["path"], "why": "in quarantine"} for disk in seen.quarantined)
    return rows


def _bay(drive, wanted):
    for each in wanted.get("drives") or []:
        if (each.get("serial") or "") == drive["serial"] or (each.get("address") or "-") == drive["address"]:
            return each.get("bay") or ""
    return ""


def _name(drive, wanted):
    """A drive in an operator's words: ``drive S64A (/dev/nvme3n1, bay 4)``."""
    bay = _bay(drive, wanted)
    return f"drive {drive['serial'] or 'without serial'} ({drive['path']}{f', bay {bay}' if bay else ''})"


def _short(drive, wanted):
    return {
        "serial": drive["serial"],
        "path": drive["path"],
        "alias": drive["alias"],
        "bay": _bay(drive, wanted),
    }
