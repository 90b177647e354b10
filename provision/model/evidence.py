"""What was seen: one dated reading of one part by one probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

Value = str | int | float | bool | None


class PartKind(StrEnum):
    """Kinds of parts that evidence and tickets speak of."""

    NODE = "node"
    BMC = "bmc"
    PSU = "psu"
    FAN = "fan"
    DRIVE = "drive"
    PCIE = "pcie"
    GPU = "gpu"
    NVSWITCH = "nvswitch"
    NIC = "nic"
    PORT = "port"
    DIMM = "dimm"
    CPU = "cpu"
    CABLE = "cable"
    SENSOR = "sensor"
    BOOT = "boot"
    CLOCK = "clock"
    SOFTWARE = "software"
    RACK = "rack"


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """One part of a node.

    ``name`` is stable between readings (``PSU.Slot.2``, ``Disk.Bay.4``, ``NIC.Slot.3-1-1``); ``locator`` is what
    is printed on the metal (``PSU 2``, ``Bay 4``, ``Slot 3 Port 1``); ``parent`` is the part it hangs on
    (``Riser 2``, a backplane, a PCIe switch), where that is known.
    """

    kind: PartKind
    name: str
    locator: str
    parent: str | None = None


class Reading(StrEnum):
    """What a probe says of a part. UNKNOWN is never "healthy" and never "down"."""

    OK = "ok"
    ABSENT = "absent"
    FAILED = "failed"
    FAILING = "failing"
    NO_INPUT = "no-input"
    DEGRADED = "degraded"
    REDUCED = "reduced"
    UP = "up"
    DOWN = "down"
    OFF = "off"
    UNKNOWN = "unknown"
    EVENT = "event"
    FACT = "fact"


class Severity(StrEnum):
    """How loud the peer itself was."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One dated reading of one part by one probe.

    ``source`` is ``probe/what``: ``redfish/power``, ``redfish/lclog``, ``redfish/faults``, ``redfish/lldp``,
    ``maas/results``, ``maas/events``, ``ssh/dmesg``, ``ssh/checks``, ``playbook``. ``code`` is the peer's message
    id without its registry version (``PSU0003``, not ``IDRAC.2.9.PSU0003``). ``text`` is the peer's own words,
    hostile until escaped. ``values`` are named figures with the unit in the name (``width``, ``max_width``,
    ``speed_mbps``, ``switch``, ``port``, ``offset_s``). ``cleared`` marks a log entry that ends an earlier one.
    """

    node: str
    part: Part
    reading: Reading
    source: str
    seen_at: datetime
    text: str = ""
    code: str | None = None
    severity: Severity = Severity.INFO
    values: Mapping[str, Value] = field(default_factory=dict)
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that could not be looked at. The part behind it is unknown, not healthy."""

    source: str
    where: str
    why: str
