"""Which drive carries the operating system, and whether MAAS's layout puts it there. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from provision.model.decision import Act, Stuck
from provision.model.machine import MaasDisk, Machine
from provision.model.node import MacAddress
from provision.model.profile import DiskFacts, Goal
from provision.stages.lookup import same_serial
from provision.stages.steps import SetBootDisk, SetLayout

# Layouts that can be told apart by what carries ``/``; others (custom, bcache) are believed once they are set.
_TOLD_APART = {"flat", "lvm"}


def placed(machine: Machine, drives: Iterable[DiskFacts]) -> Machine:
    """The machine with the BMC's slots beside MAAS's drives, joined by serial number: MAAS knows no slots."""
    known = tuple(drives)

    def at(disk: MaasDisk) -> MaasDisk:
        found = next((drive for drive in known if same_serial(drive.serial, disk.facts.serial)), None)
        if found is None:
            return disk
        return replace(disk, facts=replace(disk.facts, slot=found.slot, bus=disk.facts.bus or found.bus))

    return replace(machine, disks=tuple(map(at, machine.disks)))


def choose_disk(goal: Goal, machine: Machine) -> MaasDisk | Stuck:
    """The one drive that the profile's rule matches. None or two: nothing is installed, the candidates are listed."""
    rule = goal.profile.boot_disk
    matches = [disk for disk in machine.disks if rule.matches(disk.facts)]
    if len(matches) == 1:
        return matches[0]
    listed = "; ".join(map(_line, matches or machine.disks))
    found = f"{len(matches)} drives match" if matches else f"none of {len(machine.disks)} drives matches"
    return Stuck(f"boot disk: {found} the rule ({rule}), exactly one was expected: {listed or 'MAAS lists no drive'}")


def _line(disk: MaasDisk) -> str:
    facts = disk.facts
    place = f", {facts.slot}" if facts.slot else ""
    bus = f", {facts.bus}" if facts.bus else ""
    return f"{facts.model} serial {facts.serial}, {facts.size_bytes / 1e9:.0f} GB{bus}{place}"


def next_layout(goal: Goal, machine: Machine, disk: MaasDisk) -> Act | None:
    """What is missing until ``/`` and the EFI partition lie on this drive and nowhere else; None when they do.

    Choosing the boot disk moves no layout (measured on 3.6.3), so the layout is set after it, and read again.
    """
    if machine.boot_disk_id != disk.id:
        return Act(SetBootDisk(machine.system_id, disk.id), f"boot disk is {disk.facts.model} {disk.facts.serial}")
    wanted = goal.profile.image.layout
    if machine.root_disk_ids != (disk.id,):
        return Act(SetLayout(machine.system_id, wanted, disk.id), f"/ is to lie on {disk.facts.serial}")
    if machine.layout != wanted and {machine.layout, wanted} <= _TOLD_APART:
        return Act(SetLayout(machine.system_id, wanted, disk.id), f"layout {machine.layout} → {wanted}")
    return None


def stale(goal: Goal, machine: Machine, drives: tuple[DiskFacts, ...], boot_mac: MacAddress | None) -> str:
    """Why MAAS must look at the machine again: a part that matters was replaced since. Empty if not or not known."""
    if boot_mac is not None and machine.macs and boot_mac not in machine.macs:
        return f"the boot card was replaced: it has {boot_mac}, which MAAS has not seen on this machine"
    matches = [drive for drive in drives if goal.profile.boot_disk.matches(drive)]
    if len(matches) != 1 or not machine.disks or goal.profile.image.ephemeral:
        return ""
    drive = matches[0]
    if any(same_serial(drive.serial, disk.facts.serial) for disk in machine.disks):
        return ""
    return f"the boot drive was replaced: the BMC shows serial {drive.serial} in {drive.slot}, which MAAS has not seen"
