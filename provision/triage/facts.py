"""From raw readings to what may be judged: dated, without what was cleared, without what a sensor denies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from provision.model.evidence import Evidence, Reading

LOGS = frozenset({"faults", "lclog", "sel", "iml", "log", "events"})
WELL = frozenset({Reading.OK, Reading.UP})
# Message ids that end an earlier one of the same part (message registry 2.9 of an iDRAC9 7.10.30).
_CODED = re.compile(r"[A-Z]{2,4}\d+")
_PSU = ("PSU0001", "PSU0002", "PSU0003", "PSU0004", "PSU0005", "PSU0908", "PSU1000")
_DRIVE = ("PDR1001", "PDR1002", "PDR1016", "PDR1101", "PDR1102", "PDR1116", "PDR5", "PDR6", "PDR65")
_FAN = ("FAN0001", "FAN0009", "FAN0029")
CLEARS = {
    **dict.fromkeys(("PSU0017", "PSU0019", "PSU0909", "PSU0913"), _PSU),
    **dict.fromkeys(("PSU0046", "PSU0918", "PSU0916"), ("PSU0001", "PSU0031", "PSU0915", "PSU0917")),
    "PSU0090": ("PSU0076",),
    "PSU0038": ("PSU0037",),
    "RDU0011": ("RDU0012", "RDU0013"),
    "RDU0001": ("RDU0002", "RDU0005"),
    "NIC101": ("NIC100",),
    "LNK2701": ("LNK2700",),
    "HWC9012": ("HWC9011",),
    "HWC9054": ("HWC9053",),
    "HWC9000": ("HWC9001", "HWC9002"),
    "HWC2000": ("HWC2001",),
    "HWC2002": ("HWC2003",),
    "HWC2004": ("HWC2005",),
    "HWC2007": ("HWC2006",),
    "HWC2010": ("HWC2011",),
    "PR7": ("PR8",),
    **dict.fromkeys(("PDR8", "PDR1000", "PDR1017", "PDR1100", "PDR1117"), _DRIVE),
    **dict.fromkeys(("FAN0005", "FAN0007", "FAN0008", "FAN0010", "FAN0017", "FAN0028"), _FAN),
    "MEM0006": ("MEM0001", "MEM0004", "MEM0005", "MEM0702", "MEM0805", "MEM9072"),
    **dict.fromkeys(("TMP0123", "TMP0117", "TMP0143", "TMP0150"), ("TMP0120", "TMP0121", "TMP0103")),
}


def word(source: str) -> str:
    """The last word of a source: ``redfish/lclog`` is ``lclog`` from whichever probe."""
    return source.rsplit("/", 1)[-1]


def same_place(one: Evidence, other: Evidence) -> bool:
    """True if both speak of one part, by the peer's name or by the printed label."""
    same = one.node == other.node and one.part.kind is other.part.kind
    return same and (one.part.name == other.part.name or label(one.part.locator) == label(other.part.locator))


def label(text: str) -> str:
    """A printed label for comparing: ``PSU.Slot.2``, ``PSU 2`` and ``psu2`` are one."""
    return re.sub(r"^pcie(?=\d|slot)|slot(?=\d)", "", re.sub(r"[\s._:-]+", "", text.lower()))


def live(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """What still stands: the newest reading of a part by each probe, log lines since power-on that nothing ended."""
    booted = {e.node: at for e in evidence if (at := _powered_on_at(e)) is not None}
    logs = [e for e in evidence if word(e.source) in LOGS]
    # A SEL repeats what the Lclog says, under a raw number instead of the message id: one sign, not two.
    told = {(e.node, e.text) for e in logs if e.text and word(e.source) != "sel" and _CODED.fullmatch(e.code or "")}
    kept: list[Evidence] = []
    newest: dict[tuple[str, ...], int] = {}
    for item in evidence:
        if word(item.source) in LOGS:
            since = booted.get(item.node)
            old = since is not None and item.seen_at < since and word(item.source) != "faults"
            twin = word(item.source) == "sel" and (item.node, item.text) in told
            if not (old or twin or item.cleared or item.code in CLEARS or _ended(item, logs)):
                kept.append(item)
            continue
        if item.reading is Reading.EVENT or word(item.source) in {"results", "contact"}:
            kept.append(item)
            continue
        # One probe may write several facts of a part (a check each); they differ by their check.
        key = (item.node, item.source, item.part.kind, item.part.name, str(item.values.get("check", "")))
        if key in newest:
            if item.seen_at >= kept[newest[key]].seen_at:
                kept[newest[key]] = item
            continue
        newest[key] = len(kept)
        kept.append(item)
    return tuple(kept)


def _powered_on_at(item: Evidence) -> datetime | None:
    raw = item.values.get("powered_on_at")
    if item.source != "redfish/host" or not isinstance(raw, str):
        return None
    try:
        at = datetime.fromisoformat(raw)
    except ValueError:
        return None
    return at if at.tzinfo else None


def _ended(entry: Evidence, logs: Sequence[Evidence]) -> bool:
    """True if a later entry says that this one is over: by its id, or as a clear of the same family of ids."""
    return any(
        (other.cleared and _family(other) == _family(entry)) or entry.code in CLEARS.get(other.code or "", ())
        for other in logs
        if other is not entry and other.seen_at >= entry.seen_at and same_place(other, entry)
    )


def _family(entry: Evidence) -> str:
    return (entry.code or "").rstrip("0123456789")


def direct_well(entry: Evidence, evidence: Sequence[Evidence], sources: Sequence[str]) -> bool:
    """True if one of ``sources`` (last words, such as ``psus``) looked at the entry's part and found it well."""
    return any(
        item.reading in WELL and word(item.source) in sources and same_place(item, entry)
        for item in evidence
        if item is not entry
    )
