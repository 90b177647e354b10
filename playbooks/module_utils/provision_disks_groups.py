"""Drives of several sizes in one machine: which size belongs to the pool, and how each becomes vdevs. Pure.

Python 3.8 and later: it runs on the nodes. ``groups`` is ``[{"gb", "count"}]``: so many drives of about so many
gigabytes (of 10^9 bytes, as printed on the drive), ``size_tolerance_percent`` up or down.
"""

from ansible.module_utils.provision_disks_seen import gigabytes


def split(free, wanted):
    """``(chosen, others)``: for each group the free drives of its size, and those of no group's size."""
    tolerance = float(wanted.get("size_tolerance_percent", 1)) / 100
    chosen, others = [[] for _ in wanted["groups"]], []
    for drive in free:
        for number, group in enumerate(wanted["groups"]):
            size = float(group["gb"]) * 1e9
            if abs(drive["size"] - size) <= size * tolerance:
                chosen[number].append(drive)
                break
        else:
            others.append(drive)
    return chosen, others


def refuse_groups(why, wanted):
    """What the groups themselves get wrong, whatever drives are there."""
    groups = wanted["groups"]
    if any(float(group["gb"]) <= 0 or int(group["count"]) < 1 for group in groups):
        why.append("zfs_groups: a size above 0 and a count of at least 1 were expected in each")
    total = sum(int(group["count"]) for group in groups)
    if total != wanted["expected_drives"]:
        why.append(
            f"zfs_groups names {total} drives, zfs_expected_drives says {wanted['expected_drives']}; correct one"
        )
    if len(groups) > 1 and wanted.get("spares"):
        why.append("zfs_spares with several zfs_groups: nobody knows which size they would stand in for; use no spares")


def refuse_members(why, chosen, others, wanted, name):
    """Each group has exactly its drives. ``name`` tells a drive in an operator's words."""
    for number, members in enumerate(chosen):
        group = wanted["groups"][number]
        if len(members) != int(group["count"]):
            found = "; ".join(name(drive) for drive in members) or "none"
            why.append(
                f"{len(members)} drives of {group['gb']:g} GB could be used, {group['count']} were expected: {found}"
            )
    if why and others:
        sizes = "; ".join(f"{name(drive)} has {gigabytes(drive['size'])}" for drive in others)
        why.append(f"of no size in zfs_groups: {sizes}")


def refuse_shapes(shapes):
    """ZFS refuses vdevs of different kind or width in one pool, and this never forces it. A sentence or None."""
    kinds = sorted({vdev for groups in shapes for vdev in groups})
    if len(kinds) < 2:
        return None
    said = " and ".join(f"{kind} over {width}" for kind, width in kinds)
    return f"zfs_groups would give vdevs of different shape ({said}); ZFS refuses that: give each size as many drives"
