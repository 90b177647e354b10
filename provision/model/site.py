"""Settings of a site that the core may know. Secrets and addresses of services stay in config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class PowerBy(StrEnum):
    """Whose hand is on the power button. Never both: two hands on one button race."""

    MAAS = "maas"
    PROVISION = "provision"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may go on at once. Counts are nodes."""

    in_flight: int = 512
    per_rack: int = 64
    per_power_feed: int = 64
    deployments: int = 32


@dataclass(frozen=True, slots=True)
class Site:
    """``pace`` multiplies every pause and deadline (1.0 is a real site; a simulated fleet may run faster).

    ``deadlines_s`` and ``max_acts`` override a stage's own figures, by stage name.
    """

    power_by: PowerBy = PowerBy.MAAS
    limits: Limits = field(default_factory=Limits)
    pace: float = 1.0
    deadlines_s: Mapping[str, float] = field(default_factory=dict)
    max_acts: Mapping[str, int] = field(default_factory=dict)
    max_clock_offset_s: float = 60.0
    may_change_bios: bool = False
    commissioning_scripts: tuple[str, ...] = ()
    testing_scripts: tuple[str, ...] = ()
