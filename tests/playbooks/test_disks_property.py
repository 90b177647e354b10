"""In ten thousand generated machines no drive that carries something in use is ever chosen or wiped.

The generator knows which drives are in use because it makes them so. It tells each use by one random witness of those
that could tell it (lsblk, findmnt, /proc/swaps, /proc/mdstat, pvs, sysfs, zpool). Half of the machines ask for exactly
the free drives, with all of them allowed to be wiped; the other half ask for drives in use as well and allow to wipe
them: nothing but the exclusions stands between such a drive and the pool.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.playbooks.disk_machines import Box, by_eui, disks, drive, member, node, part, plain_os, status, wanted

MACHINES = 10_000
MEMBERS = ["linux_raid_member", "LVM2_member", "crypto_LUKS", "mpath_member", "ceph_bluestore", "bcache"]


@dataclass
class World:
    """A machine in the making, and the serial numbers of the drives in use."""

    draw: random.Random
    box: Box
    busy: set[str] = field(default_factory=set)
    facts: dict[str, Any] = field(default_factory=lambda: {"holders": {}, "pvs": []})
    texts: dict[str, str] = field(
        default_factory=lambda: {"mdstat": "", "swaps": "Filename Type\n", "zpool_status": ""}
    )


def mounted(world: World, name: str, serial: str) -> dict[str, Any]:
    """A mounted file system on the drive, a partition, or something stacked on it."""
    where = world.draw.choice(["/data", "/boot", "/var/lib/docker", "/mnt/a b"])
    seen_by = world.draw.choice(["lsblk", "findmnt", "number"])
    on = where if seen_by == "lsblk" else None
    number = f"259:{world.draw.randrange(100, 10**6)}"
    if world.draw.random() < 0.3:
        row = drive(name, serial, fstype="xfs", mountpoints=[on], **{"maj:min": number})
        source = row["path"]
    else:
        child = part(f"{name}p1", fstype="ext4", on=on, **{"maj:min": number})
        row, source = drive(name, serial, part(f"{name}p2"), child), child["path"]
    if seen_by != "lsblk":
        told = {"source": source, "maj:min": "0:50"} if seen_by == "findmnt" else {"source": "dev", "maj:min": number}
        world.box.mounts.append({"target": where, "fstype": "ext4", **told})
    return row


def swap(world: World, name: str, serial: str) -> dict[str, Any]:
    """An active swap partition."""
    if world.draw.random() < 0.5:
        return drive(name, serial, part(f"{name}p1", fstype="swap", on="[SWAP]"))
    world.texts["swaps"] += f"/dev/{name}p1 partition 8388604 0 -2\n"
    return drive(name, serial, part(f"{name}p1", fstype=world.draw.choice(["swap", None])))


def joined(world: World, name: str, serial: str) -> dict[str, Any]:
    """A member of something, told by its signature, by what stands on it, or by the program that knows."""
    at = world.draw.choice([name, f"{name}p1"])
    witness = world.draw.choice(["signature", "stacked", "mdstat", "pvs", "holders"])
    fstype = world.draw.choice(MEMBERS) if witness == "signature" else None
    kind = world.draw.choice(["lvm", "crypt", "raid1", "mpath", "dm"])
    above = [node(f"{kind}-{serial}", kind, node(f"top-{serial}", "lvm"))] if witness == "stacked" else []
    if witness == "mdstat":
        world.texts["mdstat"] += f"md{world.draw.randrange(9)}{serial} : active raid5 {at}[3](F) sdz1[0]\n"
    elif witness == "pvs":
        world.facts["pvs"].append(f"/dev/{at}")
    elif witness == "holders":
        world.facts["holders"][at] = ["dm-7"]
    if at == name:
        return drive(name, serial, *above, fstype=fstype)
    return drive(name, serial, part(f"{name}p1", *above, fstype=fstype), part(f"{name}p2"))


def pooled(world: World, name: str, serial: str) -> dict[str, Any]:
    """A member of an imported pool of another name."""
    world.texts["zpool_status"] += status(by_eui(serial), name=f"p{serial}", kind=world.draw.choice(["", "mirror-0"]))
    return member(name, serial, pool=f"p{serial}")


def second_path(world: World, name: str, serial: str) -> dict[str, Any]:
    """Another path to the system's own drive, with no multipath driver in between."""
    own = next(row for row in world.box.rows if row["serial"] == "OS0")
    return drive(name, "OS0" if world.draw.random() < 0.5 else serial, wwn=own["wwn"])


def no_drive(world: World, name: str, serial: str) -> dict[str, Any]:
    """A device that is no data drive."""
    odd = world.draw.choice(
        [{"ro": True}, {"rm": True}, {"tran": "usb"}, {"size": 10**9}, {"model": "Virtual HD"}, {"type": "rom"}]
    )
    return drive(name, serial, **odd)


BUSY = [mounted, swap, joined, joined, pooled, second_path, no_drive]


def free(world: World, name: str, serial: str) -> dict[str, Any]:
    """A blank drive, or one with contents that nobody uses."""
    kind = world.draw.randrange(4)
    if kind == 0:
        return drive(name, serial, part(f"{name}p1", fstype=world.draw.choice(["ext4", "ntfs", "swap"])))
    return member(name, serial, pool="old") if kind == 1 else drive(name, serial)


def system(world: World) -> None:
    """The system's own drive (or two), somewhere among the others."""
    name, box = f"nvme{world.draw.randrange(40)}n1", world.box
    kind = world.draw.choice(["plain", "lvm", "md", "luks", "btrfs"])
    box.rows = [plain_os(name, "OS0")]
    box.root(f"/dev/{name}p2")
    if kind == "btrfs":
        box.root(f"/dev/{name}p2[/@root]", fstype="btrfs")
    elif kind != "plain":
        told = world.draw.random() < 0.5
        types = {"lvm": "LVM2_member", "md": "linux_raid_member", "luks": "crypto_LUKS"}
        top = node("top", {"lvm": "lvm", "md": "raid1", "luks": "crypt"}[kind], on="/" if told else None)
        below = part(f"{name}p3", top, fstype=world.draw.choice([types[kind], None]))
        box.rows = [drive(name, "OS0", part(f"{name}p1", fstype="vfat"), below)]
        box.root(top["path"])
    world.busy.add("OS0")


def machine(draw: random.Random) -> tuple[dict[str, Any], dict[str, Any], World]:
    """Facts, wishes and the truth about one machine."""
    world = World(draw, Box(0))
    system(world)
    taken, number = world.box.rows[0]["name"], draw.randint(1, 14)
    names = [name for n in draw.sample(range(40), number) if (name := f"nvme{n}n1") != taken]
    idle = []
    for number, name in enumerate(names):
        serial = f"X{number}"
        if draw.random() < 0.35:
            row = draw.choice(BUSY)(world, name, serial)
            world.busy.add(row["serial"])
        else:
            row = free(world, name, serial)
            idle.append(serial)
        world.box.put(row)
    shunned = draw.choice(idle) if idle and draw.random() < 0.1 else "none"
    world.busy.add(shunned)
    draw.shuffle(world.box.rows)
    facts = world.box.tell(**world.facts, **world.texts).told()
    rows = [row["serial"] for row in world.box.rows]
    asked = [serial for serial in rows if serial not in world.busy]
    if draw.random() < 0.5:  # tempt: ask for drives in use as well, and allow to wipe them
        busy = [serial for serial in rows if serial in world.busy]
        asked += draw.sample(busy, min(len(busy), draw.choice([1, 1, 1, 2, 14])))
    want = wanted(max(len(asked), 1), wipe_allow=asked, quarantine=[{"serial": shunned}], allow_single=True)
    return facts, want, world


def touched(plan: dict[str, Any]) -> set[str]:
    """Serial numbers of the drives that the plan writes to."""
    found = {serial for vdev in plan["vdevs"] for serial in vdev["serials"]}
    return found | {each["serial"] for each in plan["wipe"]} | {each["serial"] for each in plan["drives"]}


def paths(plan: dict[str, Any], by_id: dict[str, str]) -> set[str]:
    """Devices that the plan writes to, behind their lasting names."""
    names = [name for each in plan["wipe"] for name in [each["path"], *each["partitions"], *each["zfs"]]]
    names += [name for vdev in plan["vdevs"] for name in vdev["aliases"]]
    return {by_id[name.rsplit("/", 1)[-1]] for name in names}


def check(draw: random.Random) -> str:
    """One machine; the action that was decided."""
    facts, want, world = machine(draw)
    plan = disks.decide(facts, want)
    assert not touched(plan) & world.busy, (plan, sorted(world.busy))
    owned = {row["path"] for row in world.box.rows if row["serial"] in world.busy}
    assert not {path for path in paths(plan, facts["by_id"]) if any(path.startswith(own) for own in owned)}
    assert plan["action"] in {"create", "refuse"}
    return str(plan["action"])


def test_no_drive_in_use_is_ever_chosen() -> None:
    tally = Counter(check(random.Random(seed)) for seed in range(MACHINES))
    # The promise would be empty if every machine were refused.
    assert sum(tally.values()) == MACHINES
    assert tally["create"] > MACHINES // 4, tally


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_no_drive_in_use_is_ever_chosen_shrunk(draw: random.Random) -> None:
    """The same promise, with a small machine to look at where it fails."""
    check(draw)
