"""What a BMC says of its machine, vendor oddities removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from provision.model.evidence import Evidence, Gap
from provision.model.node import MacAddress


class Power(StrEnum):
    """Power state of the host. UNKNOWN when the BMC does not say."""

    ON = "on"
    OFF = "off"
    TURNING_ON = "turning-on"
    TURNING_OFF = "turning-off"
    UNKNOWN = "unknown"


class Button(StrEnum):
    """What may be asked of the power button."""

    ON = "on"
    OFF = "off"
    FORCE_OFF = "force-off"
    RESTART = "restart"


class Link(StrEnum):
    """Link state of one port. Empty, null and missing are UNKNOWN, never DOWN."""

    UP = "up"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BmcIdentity:
    """Who the machine says it is. ``family`` names the row of quirks that was chosen.

    ``system_id`` is the host's id among the BMC's systems where it is not the first one listed, else None.
    """

    maker: str
    model: str
    service_tag: str | None
    uuid: str | None
    family: str
    bmc_firmware: str | None = None
    bios_version: str | None = None
    system_id: str | None = None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What LLDP heard on a port: the switch (name or MAC) and its port."""

    switch: str
    port: str


@dataclass(frozen=True, slots=True)
class NicPort:
    """One port that can carry a network.

    ``name`` is the BMC's id (``NIC.Slot.3-1-1``), ``locator`` the printed place (``Slot 3 Port 1``). ``mac`` is the
    permanent address, ``current_mac`` what the port uses at the moment (they differ with virtual addresses).
    ``kind`` is ``ethernet``, ``infiniband``, or ``other`` for an address that a port lists beside its own (the other
    side of a DPU) and that is no port to count, cable or boot; ``guids`` are InfiniBand GUIDs and never MACs.
    """

    name: str
    locator: str
    mac: MacAddress | None
    current_mac: MacAddress | None = None
    link: Link = Link.UNKNOWN
    speed_mbps: int | None = None
    model: str | None = None
    kind: str = "ethernet"
    guids: tuple[str, ...] = ()
    neighbour: Neighbour | None = None
    network_boot: bool = False
    network_boot_why: str = ""


@dataclass(frozen=True, slots=True)
class Harvest:
    """Everything that identifies a machine to the network, and what could not be read on the way."""

    identity: BmcIdentity
    ports: tuple[NicPort, ...]
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class BmcStatus:
    """The cheap reading before and after an act.

    ``boot_target`` and ``boot_enabled`` are the override as the BMC reads it back (``Pxe``, ``Once``); ``progress``
    is the POST state in the BMC's words, ``progress_at`` when it changed, where the BMC says so. ``boot_jobs`` are open
    jobs that the BMC made of this run's override: the host starts once more for them.
    """

    power: Power
    boot_target: str | None = None
    boot_enabled: str | None = None
    boot_mode: str | None = None
    progress: str | None = None
    progress_at: datetime | None = None
    last_reset: datetime | None = None
    healthy: bool | None = None
    boot_jobs: tuple[str, ...] = ()

    @property
    def network_boot_set(self) -> bool:
        """True if the next boot goes to the network, by the BMC's own read-back."""
        return self.boot_target in {"Pxe", "UefiHttp"} and self.boot_enabled in {"Once", "Continuous"}


@dataclass(frozen=True, slots=True)
class BootReadiness:
    """What would stop a network boot. None means the BMC does not say.

    ``network_device_pending``: settings that wait for the next start would enable the device.
    """

    network_device_enabled: bool | None = None
    lockdown: bool | None = None
    pending_jobs: tuple[str, ...] = ()
    mode: str | None = None
    gaps: tuple[Gap, ...] = ()
    network_device_pending: bool | None = None


@dataclass(frozen=True, slots=True)
class BmcClock:
    """The BMC's clock against ours: positive when the BMC is ahead. ``ntp`` is None when it does not say."""

    offset_s: float
    ntp: bool | None = None


@dataclass(frozen=True, slots=True)
class BmcSession:
    """One login in the BMC's table. ``created`` and ``client`` are the BMC's words, empty where it does not say.

    ``ours``: this program wrote it down; ``stale``: and the process that made it is gone.
    """

    name: str
    path: str
    user: str
    created: str = ""
    client: str = ""
    ours: bool = False
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Firmware:
    """One part's firmware. ``part`` is bmc, bios, nic, drive, gpu or gpu-baseboard, ``version`` the BMC's own word."""

    part: str
    locator: str
    model: str | None
    version: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """Readings of every part the BMC knows, and the places it would not show."""

    evidence: tuple[Evidence, ...]
    gaps: tuple[Gap, ...] = ()
