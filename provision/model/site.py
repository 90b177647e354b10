"""Settings of a site that the core may know. Secrets and addresses of services stay in config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# Fifteen installations of an 8 GB image at once broke down (discourse.maas.io/t/11707): an image that
# takes more than five minutes to arrive is too many at once.
IMAGE_PATIENCE_S = 300.0


class PowerBy(StrEnum):
    """Whose hand is on the power button. Never both: two hands on one button race."""

    MAAS = "maas"
    PROVISION = "provision"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may go on at once. Counts are nodes.

    ``image_gbps`` is what one rack controller can send (Gbit/s), ``image_gb`` the size of an image (GB): so many nodes
    may install behind one rack controller that each still gets its image within ``IMAGE_PATIENCE_S``.
    ``installations`` are hosts in waves of playbooks, which all install from one mirror. Machines that start at once
    draw their inrush current at once and flood fabric managers: ``reboots_per_minute`` counts those that we or MAAS
    start. None: no limit.
    """

    in_flight: int = 512
    per_rack: int = 64
    per_power_feed: int = 64
    deployments: int = 32
    image_gbps: float | None = None
    image_gb: float = 4.0
    installations: int | None = None
    reboots_per_minute: int | None = 240
    erasures_per_hour: int | None = None

    @property
    def per_rack_controller(self) -> int | None:
        """Deployments at once behind one rack controller; None without a bandwidth. At least one."""
        if self.image_gbps is None:
            return None
        return max(1, int(self.image_gbps * IMAGE_PATIENCE_S / (self.image_gb * 8)))


@dataclass(frozen=True, slots=True)
class CanaryRule:
    """In a rack, profile and image with more than ``above`` nodes, ``nodes`` are commissioned and deployed first.

    ``nodes`` 0: none goes ahead.
    """

    nodes: int = 1
    above: int = 16


@dataclass(frozen=True, slots=True)
class BreakerRule:
    """More than ``max_fail`` nodes of a rack, power feed, profile or image that fail within ``within_s`` stop it.

    ``wait_s`` is how long a run waits there for ``provision resume`` before its nodes end.
    """

    max_fail: int = 3
    within_s: float = 7200.0
    wait_s: float = 14400.0


@dataclass(frozen=True, slots=True)
class Site:
    """``handover_power``: with ``power_by: provision``, a node that is accepted goes to MAAS's own power driver.

    ``pace`` multiplies every pause and deadline (1.0 is a real site; a simulated fleet may run faster).

    ``deadlines_s`` and ``max_acts`` override a stage's own figures, by stage name.

    ``tickets_after_s``: so long (real seconds, whatever the pace) a stuck node waits for others that may share its
    cause, before its ticket is written.

    ``may_change_bios``: network boot is enabled in BIOS where it is off. ``may_reset_bmc``: a BMC that answers nonsense
    or shows no host is restarted, once a run.
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
    handover_power: bool = False
    may_reset_bmc: bool = False
    canary: CanaryRule = field(default_factory=CanaryRule)
    breaker: BreakerRule = field(default_factory=BreakerRule)
    tickets_after_s: float = 120.0
