"""What deploy and release may ask of MAAS, one intention each."""

from __future__ import annotations

from dataclasses import dataclass

from provision.model.decision import Act, Step, Stuck
from provision.model.machine import Receipt


@dataclass(frozen=True, slots=True)
class SetBootDisk(Step):
    """Where the operating system goes."""

    system_id: str
    disk_id: int


@dataclass(frozen=True, slots=True)
class SetLayout(Step):
    """Partitions of that drive: choosing the drive does not move them (measured on 3.6.3)."""

    system_id: str
    layout: str
    disk_id: int


@dataclass(frozen=True, slots=True)
class Allocate(Step):
    """Ready → Allocated: a receipt needs an owner."""

    system_id: str


@dataclass(frozen=True, slots=True)
class WriteReceipt(Step):
    """Which wish the coming deployment answers."""

    system_id: str
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Deploy(Step):
    """Install, or boot into memory."""

    system_id: str
    series: str
    kernel: str | None
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class AbortDeployment(Step):
    """Stop an installation that MAAS itself should have given up."""

    system_id: str


@dataclass(frozen=True, slots=True)
class Release(Step):
    """Give the machine back; with ``erase_data`` every drive is wiped."""

    system_id: str
    erase_data: bool = False


def release_act(system_id: str, why: str, *, wipes: bool, erases: bool, erase_data: bool) -> Act | Stuck:
    """Release a machine with its data drives left alone, unless ``erase_data``; stuck where the region wipes unasked.

    Pure. ``erases``: something is lost by it, so that leave for this very node is needed.
    """
    step = Release(system_id, erase_data=erases and erase_data)
    if wipes and not step.erase_data:
        return Stuck(
            f"{why}; but this MAAS wipes ALL drives of a released machine, data drives too (setting "
            f"enable_disk_erasing_on_release): switch that off in MAAS, or say --erase-data if you want that",
            ours=True,
        )
    return Act(step, f"{why}; all drives are wiped" if step.erase_data else why, erases=erases, pause_s=15)
