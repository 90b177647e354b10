"""Log entries as evidence: ids without registry versions, the part that is meant, the BMC's clock corrected. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from provision.adapters.redfish.answers import bare_id
from provision.adapters.redfish.parts import label, part_at, part_named
from provision.adapters.redfish.values import dig, link, moment, text, texts
from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity, Value

_SEVERITIES = {"ok": Severity.INFO, "informational": Severity.INFO, "warning": Severity.WARNING,
               "critical": Severity.CRITICAL, "fatal": Severity.CRITICAL}  # fmt: skip
# Dell ids that end an earlier fault (facts: "clears").
_CLEARS = {"PSU0017", "PSU0019", "PSU0046", "RDU0011", "NIC101", "LNK2701", "HWC9012"}
# Calm entries that only tell who did what.
_CHATTER = re.compile(r"^(USR|LOG|SYS|JCP|RED|SUP|PR\d|SA-|ROT|RAC|CTL|SRV|LC\d|SWU|SWC4|IPA)")
_TAG = re.compile(r"^\s*\[([A-Z]{2,4}-\d{4})\]\s*")  # Supermicro: "[PWR-0003] PS5 Status, Power Supply input lost"
_IN_TEXT = (
    (PartKind.PSU, re.compile(r"\b(?:PSU|PS|Power Supply(?: Unit \(PSU\))?(?: Bay)?)[ #]?(\d{1,2})\b", re.IGNORECASE)),
    (PartKind.FAN, re.compile(r"\bFan ?(\d{1,2}\w?)\b", re.IGNORECASE)),
    (PartKind.GPU, re.compile(r"\bGPU(?:_SXM_|[ #])?(\d{1,2})\b")),
    (PartKind.DIMM, re.compile(r"\bDIMM[ _]?([A-P]\d{1,2})\b")),
    (PartKind.CPU, re.compile(r"\bCPU ?(\d)\b")),
)
# Dell ids whose first argument is the number of the part ("Drive 3 is removed from disk drive bay 1").
_NUMBERED = (
    (re.compile(r"^PSU\d"), PartKind.PSU, "PSU.Slot.{}"),
    (re.compile(r"^CPU\d"), PartKind.CPU, "CPU.Socket.{}"),
    (re.compile(r"^PDR1\d"), PartKind.DRIVE, "Disk.Bay.{}"),
)
_SLOT = re.compile(r"(?:PCIe )?Slot \d{1,3}")


@dataclass(frozen=True, slots=True)
class Window:
    """Which entries count. ``floor`` is a moment of the BMC's clock, ``offset_s`` how far that clock is ahead."""

    node: str
    now: datetime
    floor: datetime | None
    offset_s: float | None


def log_evidence(entries: Iterable[Mapping[str, Any]], source: str, window: Window) -> Iterator[Evidence]:
    """Entries as events, each id once. Calm entries are kept only if they end a fault or are about hardware."""
    seen: set[str] = set()
    found: list[Evidence] = []
    for entry in entries:
        own = text(entry, "Id") or link(entry) or ""
        created = moment(text(entry, "EventTimestamp") or text(entry, "Created"))
        if own and own in seen:
            continue
        seen.add(own)
        if source != "redfish/faults" and window.floor and created and created < window.floor:
            continue
        event = _event(entry, source, window, created)
        if event is not None:
            found.append(event)
    loud = {(event.code, event.part) for event in found if event.severity is not Severity.INFO}
    for event in found:
        # A calm "deasserted" says something only beside the fault that it ends (drive presence toggles at each boot).
        paired = event.code in _CLEARS or (event.code, event.part) in loud
        if source == "redfish/faults" or event.severity is not Severity.INFO or not event.cleared or paired:
            yield event


def _event(entry: Mapping[str, Any], source: str, window: Window, created: datetime | None) -> Evidence | None:
    message = text(entry, "Message") or text(entry, "Description") or ""
    code = code_of(entry, message)
    severity = _SEVERITIES.get((text(entry, "Severity") or "").lower(), Severity.INFO)
    cleared = is_clearing(entry, code)
    active = source == "redfish/faults"
    if severity is Severity.INFO and not active and not cleared and not _about_hardware(entry, code):
        return None
    arguments = texts(entry, "MessageArgs")
    values: dict[str, Value] = {f"arg{number}": value for number, value in enumerate(arguments[:6], 1)}
    if window.offset_s is not None:
        values["offset_s"] = round(window.offset_s, 1)
    if own := text(entry, "Id"):
        values["entry"] = own
    seen_at = created - timedelta(seconds=window.offset_s or 0.0) if created else window.now
    return Evidence(
        node=window.node,
        part=part_of(entry, code, arguments, message, window.node),
        reading=Reading.EVENT,
        source=source,
        seen_at=seen_at,
        text=" ".join(message.split())[:500],
        code=code,
        severity=severity,
        values=values,
        cleared=cleared,
    )


def code_of(entry: Mapping[str, Any], message: str) -> str | None:
    """The most telling id: Supermicro's tag in the text, Lenovo's event id, HPE's class and code, else MessageId."""
    tag = _TAG.match(message)
    if tag:
        return tag[1]
    lenovo = text(entry, "Oem", "Lenovo", "CommonEventID")
    if lenovo:
        return lenovo
    hpe = dig(entry, "Oem", "Hpe") or dig(entry, "Oem", "Hp") or {}
    if text(hpe, "Class") and text(hpe, "Code"):
        return f"{text(hpe, 'Class')}/{text(hpe, 'Code')}"
    raw = text(entry, "MessageId")
    return bare_id(raw)[1] if raw else None


def is_clearing(entry: Mapping[str, Any], code: str | None) -> bool:
    """True if the entry ends a fault: deasserted, resolved, repaired, or one of Dell's clearing ids."""
    return (
        (text(entry, "EntryCode") or "").lower().startswith("deassert")
        or entry.get("Resolved") is True
        or dig(entry, "Oem", "Hpe", "Repaired") is True
        or code in _CLEARS
    )


def _about_hardware(entry: Mapping[str, Any], code: str | None) -> bool:
    category = (text(entry, "Oem", "Dell", "Category") or "").lower()
    if category:
        return category in {"system health", "storage"} and not _CHATTER.match(code or "")
    return False


def part_of(entry: Mapping[str, Any], code: str | None, arguments: tuple[str, ...], message: str, node: str) -> Part:
    """What the entry is about: FQDD, origin, numbered argument, a name in arguments or text; else the node."""
    named = part_named(text(entry, "Oem", "Dell", "FQDD") or "")
    origin = link(entry, "Links", "OriginOfCondition")
    if named is None and origin:
        named = part_at(origin)
        if named is not None and named.kind is PartKind.BMC:
            named = None  # the manager is the origin of every entry that AMI and Dell write
    if named is not None:
        return named
    for pattern, kind, name in _NUMBERED:
        if code and pattern.match(code) and arguments and arguments[0].isdigit():
            own = name.format(arguments[0])
            return Part(kind, own, label(kind, own))
    for argument in arguments:
        found = part_named(argument.split(" ")[0])
        if found is not None:
            return found
        if _SLOT.fullmatch(argument):
            return Part(PartKind.PCIE, argument, argument)
    for kind, pattern in _IN_TEXT:
        match = pattern.search(message)
        if match:
            word = {PartKind.PSU: "PSU", PartKind.FAN: "Fan", PartKind.GPU: "GPU", PartKind.DIMM: "DIMM"}.get(
                kind, "CPU"
            )
            return Part(kind, f"{word}{match[1]}", f"{word} {match[1]}")
    return Part(PartKind.NODE, node, node)
