"""What simulated machines are made of. Plain mutable values; ``SimMachine`` derives them from its faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


class SimError(Exception):
    """Something asked of the simulator cannot be done; the text is one sentence for an operator."""


@dataclass
class SimNic:
    """One network port and its cable.

    ``name`` is the Dell FQDD (``NIC.Slot.35-1-1``), ``slot_label`` what is printed (``Slot 35 Port 1``), ``kind``
    ``ethernet`` or ``infiniband``. ``planned_*`` is the cabling plan, ``actual_*`` where the cable really ends.
    ``device`` is the name that an operating system gives the port.
    """

    mac: str
    slot_label: str
    name: str
    kind: str
    planned_switch: str
    planned_port: str
    actual_switch: str
    actual_port: str
    cable_label: str
    present: bool = True
    cabled: bool = True
    boot: bool = False
    slot: int = 0
    riser: int | None = None
    model: str = ""
    speed_mbps: int = 25_000
    guid: str = ""
    device: str = ""

    @property
    def adapter(self) -> str:
        """The card's FQDD: ``NIC.Slot.35`` for ``NIC.Slot.35-1-1``."""
        return self.name.split("-")[0]

    @property
    def link_up(self) -> bool:
        """True if light arrives, in whatever switch port the cable ends."""
        return self.present and self.cabled

    @property
    def as_planned(self) -> bool:
        """True if the cable ends where the plan says, so that the port lies in the right VLAN."""
        return (self.actual_switch, self.actual_port) == (self.planned_switch, self.planned_port)


@dataclass
class SimDrive:
    """One NVMe drive. ``boot`` marks the small M.2 drive that is meant for the operating system."""

    serial: str
    model: str
    size_bytes: int
    bay: int
    boot: bool = False
    present: bool = True
    failing: bool = False
    width: int = 4
    max_width: int = 4
    gen: int = 4
    riser: int | None = None
    id_path: str = ""

    @property
    def name(self) -> str:
        """The Dell FQDD."""
        return (
            f"Disk.Direct.{self.bay}-{self.bay}:BOSS.SL.14-1"
            if self.boot
            else f"Disk.Bay.{self.bay}:Enclosure.Internal.0-1"
        )

    @property
    def locator(self) -> str:
        """What is printed beside it."""
        return f"M.2 {self.bay}" if self.boot else f"Bay {self.bay}"


@dataclass
class SimPsu:
    """One power supply. ``cord`` is False when no line voltage arrives; ``feed`` names the PDU outlet."""

    number: int
    present: bool = True
    cord: bool = True
    failed: bool = False
    serial: str = ""
    feed: str = ""

    @property
    def name(self) -> str:
        """The Dell FQDD."""
        return f"PSU.Slot.{self.number}"

    @property
    def giving(self) -> bool:
        """True if it feeds the machine."""
        return self.present and self.cord and not self.failed


@dataclass
class SimGpu:
    """One GPU of the baseboard."""

    number: int
    serial: str
    model: str
    present: bool = True
    riser: int | None = None
    width: int = 16
    max_width: int = 16
    gen: int = 5

    @property
    def name(self) -> str:
        """The Dell FQDD of the processor."""
        return f"Video.Slot.{self.number}-1"


@dataclass
class SimDimm:
    """One memory module. ``label`` is the socket (``A1``); ``errors`` marks uncorrectable errors."""

    label: str
    serial: str
    size_bytes: int
    present: bool = True
    errors: bool = False

    @property
    def name(self) -> str:
        """The Dell FQDD."""
        return f"DIMM.Socket.{self.label}"


@dataclass
class SimPcieSlot:
    """One PCIe slot and the link that its card trained."""

    number: int
    width: int = 16
    max_width: int = 16
    gen: int = 5
    max_gen: int = 5
    riser: int | None = None
    present: bool = True


@dataclass(frozen=True)
class Fault:
    """One fault of one machine: a row of the table in ``faults`` and its argument."""

    kind: str
    arg: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.arg}" if self.arg else self.kind


@dataclass(frozen=True)
class LogEntry:
    """One line of the BMC's logs. ``message_id`` is Dell's (``PSU0003``); ``clears`` ends an earlier one."""

    number: int
    created: datetime
    message_id: str
    text: str
    severity: str
    args: tuple[str, ...] = ()
    fqdd: str = ""
    clears: bool = False


@dataclass
class BootOverride:
    """The BMC's one-time boot setting, as Redfish spells it."""

    target: str = "None"
    enabled: str = "Disabled"
    mode: str = "UEFI"

    @property
    def network(self) -> bool:
        """True if the next boot goes to the network."""
        return self.target in {"Pxe", "UefiHttp"} and self.enabled in {"Once", "Continuous"}


@dataclass
class SimHost:
    """An operating system that runs on a machine, or lies on its disk.

    ``kind`` is ``ephemeral`` (commissioning, from the network) or ``installed``. ``files`` are paths and texts,
    ``host_private_key`` the SSH host key (OpenSSH text), ``authorized_keys`` the public keys that may log in.
    ``disk_serial`` is the drive that it was installed on.
    """

    kind: str
    hostname: str = ""
    files: dict[str, str] = field(default_factory=dict)
    host_private_key: str = ""
    authorized_keys: tuple[str, ...] = ()
    user: str = "root"
    image: str = ""
    epoch: int = 0
    disk_serial: str = ""
    installed_at: datetime | None = None
