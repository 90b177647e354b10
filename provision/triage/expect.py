"""Expected minus found: the profile against the parts, widths against profile and siblings.

Each difference becomes a reading of its own (source ``expect/…``) that rules judge like any other. What could not be
listed is not judged: a count is written only when the whole list was read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from provision.model.evidence import Evidence, Part, PartKind, Reading, Value
from provision.model.node import Node
from provision.model.profile import PartSpec, Profile
from provision.triage.cabling import port_of
from provision.triage.facts import label

_NOUN = {
    PartKind.GPU: "GPU",
    PartKind.NIC: "network card",
    PartKind.DRIVE: "NVMe drive",
    PartKind.PSU: "PSU",
    PartKind.DIMM: "DIMM",
}


def missing(node: Node, profile: Profile, evidence: Sequence[Evidence], now: datetime) -> Iterator[Evidence]:
    """One ABSENT reading for every part that the profile promises and the BMC does not show.

    ``values``: ``expected``, ``found``, ``noun``, ``lost`` (how many of the kind are gone), ``others`` (other places
    it may be, when the place is inferred). A place is named by an ABSENT reading, else by the gap among its siblings.
    """
    specs = {
        PartKind.GPU: profile.gpus,
        PartKind.NIC: profile.nics,
        PartKind.DRIVE: profile.nvme,
        PartKind.PSU: profile.psus,
        PartKind.DIMM: profile.dimms,
    }
    for kind, spec in specs.items():
        if spec is None or (found := _found(kind, spec, evidence)) is None or found >= spec.count:
            continue
        yield from _lost(node, kind, spec, found, evidence, now)


def _of_kind(kind: PartKind, evidence: Sequence[Evidence]) -> list[Evidence]:
    """One reading per part of this kind, from the probe that lists it."""
    source = {PartKind.NIC: "redfish/nics", PartKind.GPU: "redfish/gpus", PartKind.DRIVE: "redfish/drives"}
    wanted = source.get(kind, f"redfish/{kind.value}s")
    return [item for item in evidence if item.source == wanted and item.part.kind is kind]


def _counted(kind: PartKind, evidence: Sequence[Evidence]) -> int | None:
    for item in evidence:
        if item.source == "redfish/count" and item.part.kind is kind:
            count = item.values.get("count")
            return count if isinstance(count, int) and not isinstance(count, bool) else None
    return None


def _found(kind: PartKind, spec: PartSpec, evidence: Sequence[Evidence]) -> int | None:
    """How many of the kind are there; None if nobody could list them.

    A profile may count network cards or ports, as its BMC lists them: the larger count is believed.
    """
    counted = _counted(kind, evidence)
    if counted is None:
        return None
    present = [e for e in _of_kind(kind, evidence) if e.reading is not Reading.ABSENT and _fits(kind, spec, e)]
    found = len(present) if _of_kind(kind, evidence) else counted
    if kind is PartKind.NIC:
        ports = [
            e
            for e in evidence
            if e.source == "redfish/ports" and e.reading is not Reading.ABSENT and _fits(kind, spec, e)
        ]
        found = max(found, len(ports))
    return found


def _fits(kind: PartKind, spec: PartSpec, item: Evidence) -> bool:
    """True unless the part says of itself that it is something else (another model, a SATA drive, too small)."""
    model, protocol, size = (item.values.get(name) for name in ("model", "protocol", "size_bytes"))
    if spec.model is not None and model and spec.model.lower() not in str(model).lower():
        return False
    if kind is PartKind.DRIVE and protocol and "nvme" not in str(protocol).lower():
        return False
    return not (spec.min_bytes and isinstance(size, int) and size < spec.min_bytes)


def _lost(
    node: Node, kind: PartKind, spec: PartSpec, found: int, evidence: Sequence[Evidence], now: datetime
) -> Iterator[Evidence]:
    lost = spec.count - found
    noun = _NOUN[kind]
    base: dict[str, Value] = {"expected": spec.count, "found": found, "noun": noun, "lost": lost}
    text = f"{found} of {spec.count} {noun}s are there"
    parts = _of_kind(kind, evidence)
    absent = [item.part for item in parts if item.reading is Reading.ABSENT]
    here = [e for e in parts if e.reading is not Reading.ABSENT and _fits(kind, spec, e)]
    places = absent or _told_gone(kind, here, evidence, lost) or _inferred(node, kind, here, evidence, lost)
    if len(places) == lost:
        for part in places:
            yield Evidence(node.name, part, Reading.ABSENT, "expect/count", now, text, values=base)
        return
    # More empty places than lost parts: one finding that names them all is better than a wrong bay.
    locator = " or ".join(part.locator for part in places) if 0 < len(places) <= 4 else f"{lost} x {noun}"
    part = Part(kind, f"*{spec.count}", locator)
    yield Evidence(node.name, part, Reading.ABSENT, "expect/count", now, text, values=base)


def _told_gone(kind: PartKind, here: Sequence[Evidence], evidence: Sequence[Evidence], lost: int) -> list[Part]:
    """Parts that a log line names and that are not there, if they are as many as are missing."""
    places = {label(item.part.locator) for item in here}
    told = {
        label(item.part.locator): item.part
        for item in evidence
        if item.reading is Reading.EVENT and item.part.kind is kind and label(item.part.locator) not in places
    }
    return list(told.values()) if len(told) == lost else []


def _inferred(
    node: Node, kind: PartKind, here: Sequence[Evidence], evidence: Sequence[Evidence], lost: int
) -> list[Part]:
    """Places by the gap they leave: in the cabling plan for cards (slots are no row), in the numbering for the rest."""
    if kind is not PartKind.NIC:
        return [Part(kind, place, place) for place in gaps_in([item.part.locator for item in here], lost)]
    if not any(item.source == "redfish/ports" for item in evidence):
        return []
    gone = [cable.nic for cable in node.cabling if port_of(cable, evidence, "redfish/ports") is None]
    slots = [f"Slot {found[1]}" if (found := re.search(r"slot\W?(\d+)", nic, re.IGNORECASE)) else nic for nic in gone]
    return [Part(kind, place, place) for place in dict.fromkeys(slots)]


def gaps_in(labels: Sequence[str], lost: int) -> list[str]:
    """The labels missing from a row: ``Bay 0, Bay 1, Bay 3`` lacks ``Bay 2``; at the end the next ones.

    The longest row of one stem is taken (boot drives may be labelled otherwise); empty if there is none of three.
    """
    rows: dict[str, set[int]] = {}
    for text in labels:
        if found := re.fullmatch(r"(.*?)(\d+)", text):
            rows.setdefault(found[1], set()).add(int(found[2]))
    stem, row = max(rows.items(), key=lambda item: len(item[1]), default=("", set[int]()))
    if len(row) < 3:
        return []
    numbers = sorted(row)
    inside = [n for n in range(numbers[0], numbers[-1]) if n not in row]
    if len(inside) > lost:
        return []
    before = list(range(1, numbers[0]))[-(lost - len(inside)) :] if lost > len(inside) else []
    after = range(numbers[-1] + 1, numbers[-1] + 1 + lost - len(inside) - len(before))
    return [f"{stem}{n}" for n in sorted([*inside, *before, *after])]


def reduced(node: Node, profile: Profile, evidence: Sequence[Evidence], now: datetime) -> Iterator[Evidence]:
    """REDUCED for every link narrower than the profile says (or than its siblings, if it says nothing), else OK.

    Never against what the slot could do: an x4 slot under an x16 card is a design, not a fault (facts: redfish 0.5).
    When every sibling is equally narrow the profile is doubted, not the machine: reading FACT. Speed: see ``slow``.
    """
    groups: dict[str, list[Evidence]] = {}
    for item in evidence:
        if _lanes(item) is None or item.source not in {"redfish/pcie", "redfish/drives"}:
            continue
        kind = "nvme" if item.part.kind is PartKind.DRIVE else str(item.values.get("device_class", "other"))
        groups.setdefault(kind, []).append(item)
    specs = {"gpu": profile.gpus, "nic": profile.nics, "nvme": profile.nvme}
    for kind, spec in specs.items():
        members = [e for e in groups.get(kind, ()) if spec is None or _fits(_part_kind(kind), spec, e)]
        yield from _narrow(node, kind, spec, members, now)


def _part_kind(device_class: str) -> PartKind:
    return {"gpu": PartKind.GPU, "nic": PartKind.NIC, "nvme": PartKind.DRIVE}[device_class]


def _lanes(item: Evidence) -> int | None:
    width = item.values.get("width")
    return width if isinstance(width, int) and not isinstance(width, bool) and width > 0 else None


def _narrow(
    node: Node, kind: str, spec: PartSpec | None, members: Sequence[Evidence], now: datetime
) -> Iterator[Evidence]:
    widths = {id(item): _lanes(item) or 0 for item in members}
    for item in members:
        width = widths[id(item)]
        siblings = [
            widths[id(e)] for e in members if e is not item and e.values.get("model") == item.values.get("model")
        ]
        usual = Counter(siblings).most_common(1)[0][0] if len(siblings) >= 2 else None
        # Boot cards and onboard chips share a class with the cards the profile means; a width that the part cannot
        # reach by its own word is not a fault of this slot.
        limit = item.values.get("max_width")
        want = spec.pcie_width if spec is not None else None
        if want is None:
            want = usual if usual is not None and width < usual else width
        if width >= want or (isinstance(limit, int) and 0 < limit < want and usual == width):
            yield Evidence(node.name, item.part, Reading.OK, "expect/width", now, f"x{width} link, as it should be")
            continue
        designed = usual == width and len(siblings) >= 2
        values: dict[str, Value] = {
            **item.values,
            "width": width,
            "expected": want,
            "device_class": kind,
            "usual": usual,
        }
        reading = Reading.FACT if designed else Reading.REDUCED
        text = f"x{width} link, x{want} expected" + (f", siblings run x{usual}" if usual else "")
        yield Evidence(node.name, item.part, reading, "expect/width", now, text, values=values)


def slow(node: Node, profile: Profile, evidence: Sequence[Evidence], now: datetime) -> Iterator[Evidence]:
    """REDUCED for every link of a lower PCIe generation than the profile says (or its siblings), where that counts.

    An idle GPU trains its link down by itself, and what a BMC shows of a host without power is old: such readings are
    judged only with ``load`` in their values. Cards and drives keep their speed while the host is on. A part that by
    its own word can do no more is well; when all siblings are as slow it is a setting: reading FACT.
    """
    on = any(e.source == "redfish/host" and e.values.get("power") == "on" for e in evidence)
    specs = {"gpu": profile.gpus, "nic": profile.nics, "nvme": profile.nvme}
    for kind, spec in specs.items():
        members = [
            item
            for item in evidence
            if item.values.get("device_class") == kind
            and _generation(item)
            and (item.values.get("load") is True or (on and kind != "gpu"))
            and (spec is None or _fits(_part_kind(kind), spec, item))
        ]
        for item in members:
            yield from _slow(node, kind, spec, item, members, now)


def _generation(item: Evidence, name: str = "gen") -> int:
    value = item.values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _slow(
    node: Node, kind: str, spec: PartSpec | None, item: Evidence, members: Sequence[Evidence], now: datetime
) -> Iterator[Evidence]:
    gen, limit = _generation(item), _generation(item, "max_gen")
    model = item.values.get("model")
    siblings = [_generation(e) for e in members if e is not item and e.values.get("model") == model]
    usual = Counter(siblings).most_common(1)[0][0] if len(siblings) >= 2 else 0
    want = (spec.pcie_gen if spec is not None else None) or max(usual, gen)
    if limit:
        want = min(want, limit)
    if gen >= want:
        return
    values: dict[str, Value] = {**item.values, "gen": gen, "expected": want, "device_class": kind}
    text = f"PCIe {gen}.0 link, {want}.0 expected" + (f", siblings run {usual}.0" if usual else "")
    reading = Reading.FACT if usual == gen else Reading.REDUCED
    yield Evidence(node.name, item.part, reading, "expect/speed", now, text, values=values)


# What a site says that it tolerates stands in the reading; else this (facts: certificates and apt fail on less).
CLOCK_LIMIT_S = 60.0


def clock(node: Node, evidence: Sequence[Evidence], now: datetime) -> Iterator[Evidence]:
    """The BMC's clock against what the site tolerates: FAILED or OK. ``values``: ``offset_s``, ``limit_s``."""
    for item in evidence:
        offset, limit = item.values.get("offset_s"), item.values.get("limit_s", CLOCK_LIMIT_S)
        known = isinstance(offset, int | float) and isinstance(limit, int | float)
        if item.source != "clock/offset" or not known or item.reading is not Reading.FACT:
            continue
        off = abs(float(offset or 0)) > float(limit or CLOCK_LIMIT_S)
        values: dict[str, Value] = {"offset_s": offset, "limit_s": limit}
        reading = Reading.FAILED if off else Reading.OK
        yield Evidence(node.name, item.part, reading, "expect/clock", now, f"{offset} s off", values=values)


def subtree(node: Node, evidence: Sequence[Evidence], now: datetime) -> Iterator[Evidence]:
    """An ABSENT reading for a riser, backplane or switch of which everything that hung on it is gone."""
    under: dict[str, list[Evidence]] = {}
    for item in evidence:
        if item.part.parent and item.source.startswith("redfish/"):
            under.setdefault(item.part.parent, []).append(item)
    for parent, items in under.items():
        gone = [e for e in items if e.reading is Reading.ABSENT]
        if len({e.part.name for e in gone}) >= 2 and len(gone) == len(items):
            names = ", ".join(sorted({e.part.locator for e in gone}))
            part = Part(PartKind.CABLE, parent, parent)
            values: dict[str, Value] = {"lost": len(gone), "gone": names}
            yield Evidence(
                node.name, part, Reading.ABSENT, "expect/subtree", now, f"gone with it: {names}", values=values
            )
