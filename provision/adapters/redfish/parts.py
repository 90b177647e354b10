"""Building evidence: one place that knows node, moment and how parts are named. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from provision.adapters.redfish.places import fqdd_label, part_location
from provision.adapters.redfish.values import health, state, text
from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity, Value

_LOUD = {"warning": Severity.WARNING, "critical": Severity.CRITICAL}


@dataclass(frozen=True, slots=True)
class Scribe:
    """Writes evidence about one node at one moment."""

    node: str
    now: datetime

    def note(
        self,
        kind: PartKind,
        name: str,
        locator: str,
        reading: Reading,
        source: str,
        *,
        item: Mapping[str, Any] | None = None,
        why: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> Evidence:
        """One reading; severity and text come from the item's Status unless ``why`` says more."""
        said = health(item) if item is not None else ""
        calm = reading in {Reading.OK, Reading.FACT, Reading.UP, Reading.ABSENT, Reading.UNKNOWN, Reading.DOWN}
        return Evidence(
            node=self.node,
            part=Part(kind, name, locator or name),
            reading=reading,
            source=source,
            seen_at=self.now,
            text=why or ("" if calm else _status_text(item)),
            severity=Severity.INFO if calm else _LOUD.get(said, Severity.CRITICAL),
            values={key: value for key, value in (values or {}).items() if value is not None},
        )

    def count(self, kind: PartKind, label: str, found: Iterable[Evidence]) -> Evidence:
        """How many parts of a kind are there; only for a list that was read in full."""
        names = {item.part.name for item in found if item.part.kind is kind and item.reading is not Reading.ABSENT}
        return self.note(kind, "*", f"all {label}", Reading.FACT, "redfish/count", values={"count": len(names)})


def _status_text(item: Mapping[str, Any] | None) -> str:
    if item is None:
        return ""
    told = [text(item, "Status", "State"), text(item, "Status", "Health")]
    return "State {}, Health {}".format(*(word or "not said" for word in told))


def judged(item: Mapping[str, Any], *, warning: Reading = Reading.DEGRADED) -> Reading:
    """A part's Status as a reading. Absent places, parts without a word (UNKNOWN) and loud ones; nothing is guessed.

    A sensor that shouts while its part is absent or switched off is not believed (nine on a healthy GB200).
    """
    where, said = state(item), health(item)
    if where == "absent":
        return Reading.ABSENT
    if said == "critical" and where in {"enabled", "starting", "updating", "unavailableoffline", "quiesced", ""}:
        return Reading.FAILED
    if said == "warning" and where in {"enabled", "starting", "updating", "quiesced", ""}:
        return warning
    if said == "ok":
        return Reading.OK
    return Reading.UNKNOWN


_FQDD_KINDS = (
    ("psu", PartKind.PSU),
    ("disk", PartKind.DRIVE),
    ("nic", PartKind.PORT),
    ("infiniband", PartKind.PORT),
    ("video", PartKind.GPU),
    ("gpu", PartKind.GPU),
    ("dimm", PartKind.DIMM),
    ("cpu", PartKind.CPU),
    ("fan", PartKind.FAN),
    ("idrac", PartKind.BMC),
    ("ahci", PartKind.PCIE),
    ("raid", PartKind.PCIE),
    ("pciessd", PartKind.DRIVE),
)
_COLLECTIONS = {
    "powersupplies": PartKind.PSU,
    "drives": PartKind.DRIVE,
    "pciedevices": PartKind.PCIE,
    "memory": PartKind.DIMM,
    "processors": PartKind.CPU,
    "fans": PartKind.FAN,
    "networkadapters": PartKind.NIC,
    "networkports": PartKind.PORT,
    "ports": PartKind.PORT,
    "ethernetinterfaces": PartKind.PORT,
    "temperatures": PartKind.SENSOR,
    "sensors": PartKind.SENSOR,
    "managers": PartKind.BMC,
}


def part_named(name: str) -> Part | None:
    """The part behind a Dell FQDD (``PSU.Slot.2``, ``Disk.Bay.4:Enclosure…``) or NVIDIA's ``GPU_SXM_3``."""
    head = re.split(r"[._ ]", name.strip())[0].lower()
    kind = next((kind for prefix, kind in _FQDD_KINDS if head == prefix), None)
    return Part(kind, name.strip(), label(kind, name)) if kind else None


def part_at(path: str) -> Part | None:
    """The part behind an address (``…/PowerSupplies/PSU.Slot.2``, ``…/Power#/PowerSupplies/0``)."""
    pieces = [piece for piece in re.split(r"[/#]", path) if piece]
    if len(pieces) < 2:
        return None
    named = part_named(pieces[-1])
    if named:
        return named
    if re.match(r"(HGX_)?GPU_", pieces[-1]):
        return Part(PartKind.GPU, pieces[-1].removeprefix("HGX_"), label(PartKind.GPU, pieces[-1]))
    kind = _COLLECTIONS.get(pieces[-2].lower())
    return Part(kind, pieces[-1], label(kind, pieces[-1])) if kind else None


def label(kind: PartKind, name: str, item: Mapping[str, Any] | None = None) -> str:
    """The printed place of a part, from its id and, where there is one, its location."""
    place = part_location(item, "Location") if item else ""
    last = re.findall(r"\d+", name.partition(":")[0])
    if kind is PartKind.PSU:
        return f"PSU {last[-1]}" if last else place or name
    if kind is PartKind.DRIVE:
        place = place or (part_location(item, "PhysicalLocation") if item else "")
        bay = re.search(r"Bay[._ ]?(\d+)", name)
        return f"Bay {bay[1]}" if bay and not re.search(r"M\.?2", name) else place or name
    if kind is PartKind.GPU:
        # "Video.Slot.2-1" is the GPU in slot 2; the last number is Dell's function.
        slot = re.match(r"(?:Video|GPU)\.Slot\.(\d+)", name)
        return f"GPU {slot[1]}" if slot else f"GPU {last[-1]}" if last else name
    if kind is PartKind.DIMM:
        socket = re.fullmatch(r"DIMM[._ ](?:Socket\.)?(\w+)", name)
        return f"DIMM {socket[1]}" if socket else name
    if kind is PartKind.CPU:
        return f"CPU {last[-1]}" if last else name
    if kind is PartKind.BMC:
        return "BMC"
    return fqdd_label(name) or place or name
