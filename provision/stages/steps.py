"""What the deploy stage may ask of MAAS, one intention each."""

from __future__ import annotations

from dataclasses import dataclass

from provision.model.decision import Step
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
