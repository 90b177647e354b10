"""Pasted logs and command output as evidence: one piece a line, joined to the thing it speaks of.

Lines that begin with ``# `` are facts from other collectors, not log text: they become ``text/context``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from provision.model.evidence import Evidence, Part, PartKind, Reading, Value
from provision.triage.facts import label
from provision.triage.grammar import said
from provision.triage.patterns import MAX_LINE
from provision.triage.places import BDF as _BDF
from provision.triage.places import place

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)|[\x00-\x08\x0b-\x1f\x7f]")
_CODE = re.compile(r"(?:^|[\s.:\[])((?:PDR|VDR|ENC|BAT|PR)\d{1,4}|[A-Z]{2,4}\d{3,4})\b")

# Where a line is an event of the machine. Elsewhere only a line that names a part is read as one: software speaks of
# memory, drives and power too.
_SPOKEN = frozenset({"lclog", "sel", "iml", "redfish", "sensors", "log"})
_PROSE = frozenset({"console", "healthcheck", "maas"})
# A table of sensors shows one moment: a line that is well says nothing of the line before it.
_SNAPSHOTS = frozenset({"sensors", "zpool", "smart"})
_METAL = frozenset({PartKind.PSU, PartKind.FAN, PartKind.DIMM, PartKind.DRIVE})

# A heading names the thing that the following lines speak of, until the next heading.
_HEADINGS: tuple[tuple[PartKind, re.Pattern[str]], ...] = (
    (PartKind.NIC, re.compile(r"^(?:CA|Infiniband device) '(?P<name>[\w.-]+)'")),
    (PartKind.NIC, re.compile(r"^\W{0,3}(?:perfquery|ibportstate|ibstatus?)\b.{0,20}\b(?P<name>mlx5_\w+)")),
    (PartKind.GPU, re.compile(rf"NVRM: The NVIDIA GPU (?P<name>{_BDF})")),
    (PartKind.NIC, re.compile(r"\bmlxlink\b.*\s-d\s*(?P<name>[\w./-]+)")),
    (PartKind.PORT, re.compile(r"^Settings for (?P<name>[\w.-]+):")),
    (PartKind.PORT, re.compile(r"^(?P<name>net\d+|eth\d+): (?:[0-9a-f]{2}:){5}")),
    (PartKind.PORT, re.compile(r"^\d+: (?P<name>[\w.@-]+): <")),
    (PartKind.GPU, re.compile(rf"^GPU (?P<name>\d+|{_BDF})\s*(?::|$)")),
    (PartKind.PCIE, re.compile(rf"^(?P<name>{_BDF})\s+(?!-)\S")),
    (
        PartKind.DRIVE,
        re.compile(r"(?i)^(?:smart log for nvme device:\s*|device:\s*|=+ ?)?(?:/dev/)?(?P<name>nvme\d+(?:n\d+)?)\b"),
    ),
)


def clean(raw: str) -> str:
    """A line without escape sequences and control characters."""
    return _ESCAPES.sub("", raw.replace("\t", "    ")).rstrip()


def read(text: str, kind: str, node: str, now: datetime) -> tuple[Evidence, ...]:
    """Every line of ``text`` as evidence with source ``text/<kind>``.

    The part is what the line names, else what the heading above it names, else the node. ``values``: ``under`` (the
    heading's name), ``line`` (its number from 1), and what ``decode`` reads.
    """
    lines = tuple(_lines(text, kind, node, now))
    if kind not in _SNAPSHOTS:
        lines = _ended(lines)
    return (*lines, *_against_plan(lines, node, now))


def _lines(text: str, kind: str, node: str, now: datetime) -> Iterator[Evidence]:
    whole = Part(PartKind.NODE, node, node)
    heading: Part | None = None
    smi: dict[str, float] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = clean(raw[: 4 * MAX_LINE])[:MAX_LINE]
        if not line.strip():
            continue
        if line.startswith("# "):
            yield Evidence(node, whole, Reading.FACT, "text/context", now, line[2:])
            continue
        heading = _heading(line) or heading
        values: dict[str, Value] = {"line": number}
        if heading is not None:
            values["under"] = heading.name
        named = place(line)
        part = named or heading or whole
        code = found[1] if (found := _CODE.search(line)) else None
        if kind in _SPOKEN or (kind in _PROSE and named is not None and named.kind in _METAL):
            values |= said(line, named.kind if named is not None else None)
        values |= decode(line) | _smi_link(line, smi)
        # Undated lines keep their order, so that a later "restored" ends an earlier "lost" and not the other way.
        at = now + timedelta(microseconds=number)
        yield Evidence(node, part, Reading.EVENT, f"text/{kind}", at, line, code, values=values)


def _ended(lines: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The lines, with the state ``over`` where a later line calls the same thing of the same part well again."""
    told: list[Evidence] = []
    well: set[tuple[object, str]] = set()
    for item in reversed(lines):
        thing, state = item.values.get("thing"), item.values.get("state")
        key = (thing, label(item.part.locator))
        if state == "clear":
            well.add(key)
        over = state not in {None, "clear"} and key in well
        told.append(replace(item, values={**item.values, "state": "over"}) if over else item)
    return tuple(reversed(told))


def _heading(line: str) -> Part | None:
    for kind, pattern in _HEADINGS:
        if found := pattern.search(line):
            name = found["name"]
            shown = f"GPU {name}" if kind is PartKind.GPU and name.isdigit() else name
            return Part(kind, name, shown)
    return None


_SMI = re.compile(r"^ *(?P<name>PCIe Generation|Link Width|Max|Current)(?: *: (?P<value>\d{1,2})x? *)?$")


def _smi_link(line: str, kept: dict[str, float]) -> dict[str, Value]:
    """``slow`` and ``narrow`` of nvidia-smi's block on the PCIe link, told at its line ``Current``."""
    found = _SMI.search(line)
    if found is None:
        return {}
    name, value = found["name"], found["value"]
    if value is None:
        kept.clear()
        kept["width"] = float(name == "Link Width")
    elif name == "Max" and "width" in kept:
        kept["max"] = float(value)
    elif name == "Current" and "max" in kept:
        less = float(value) < kept["max"]
        return {"narrow": less} if kept["width"] else {"slow": less}
    return {}


_LIMITED = re.compile(
    r"limited by (?P<speed>[\d.]+) GT/s PCIe x(?P<width>\d+) link.{0,80}"
    r"capable of [\d.]+ Gb/s with (?P<top>[\d.]+) GT/s PCIe x(?P<most>\d+)"
)
_LINK_STATE = re.compile(
    r"LnkSta:\s*Speed [\d.]+GT/s(?P<slow> \(downgraded\))?[^,]*, Width x(?P<width>\d+)(?P<thin> \(downgraded\))?"
)
_NVLINK_BITS = re.compile(r"NVLink: \w+ error detected on link \d+ ?\((?P<bits>0x[0-9a-fA-F]+)")
# Meaning of Xid 74's first register, by bit (facts: triage 2.1).
_BITS = {"seat": (8, 9, 12, 16, 17, 24, 28), "signal": (21, 22), "ecc": (4, 5), "peer": (1, 20), "ignore": (0, 23, 30)}


# How many are there and how many should be: people and tools write it in either order.
_WANTED = r"(?:expect\w*|want\w*|profile\w*|should (?:be|have|see)|inventory|plan\w*)"
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_COUNTS = (
    re.compile(
        rf"(?i)(?<![\w.])(?P<found>\d{{1,5}})(?: \w+){{0,4}}[,;] (?:but )?(?P<wanted>\d{{1,5}})(?: \w+)? {_WANTED}\b"
    ),
    re.compile(
        r"(?<![\w/.:-])(?P<found>\d{1,5}) ?(?:of|/|out of|instead of) ?(?P<wanted>\d{1,5})\b"
        r"(?![.:/]\d| ?\w{1,2}/s| ?(?:MHz|RPM|W)\b)"
    ),
    re.compile(
        rf"(?i)\b{_WANTED}[^\d\n]{{1,40}}(?P<wanted>\d{{1,5}})\b.{{0,24}}?"
        r"\b(?:found|sees?|lists?|shows?|has|only|got)[^\d\n]{1,16}(?P<found>\d{1,5})\b"
    ),
    re.compile(rf"(?i)(?<![\w.])(?P<found>\d{{1,5}})(?: \w+)?[ ,;(]{{1,3}}{_WANTED}\W{{1,3}}(?P<wanted>\d{{1,5}})\b"),
    re.compile(
        r"(?i)(?<![\w.])(?P<found>\d{1,5}) [A-Za-z][^.|]{0,60}?"
        rf"\b{_WANTED}[^\d\n]{{1,16}}(?P<wanted>\d{{1,5}})\b"
    ),
)


def decode(line: str) -> dict[str, Value]:
    """Figures that a regular expression of a rule cannot compare.

    ``narrow``/``slow`` of a PCIe link against its own capability; ``width`` in lanes; ``nvlink`` for Xid 74:
    ``seat``, ``signal``, ``ecc``, ``peer`` or ``ignore``, the gravest of its bits; ``found``, ``wanted`` and ``short``
    where a line counts parts against what should be there.
    """
    if found := _LIMITED.search(line):
        width, most = int(found["width"]), int(found["most"])
        return {"width": width, "narrow": width < most, "slow": float(found["speed"]) < float(found["top"])}
    if found := _LINK_STATE.search(line):
        return {"width": int(found["width"]), "narrow": bool(found["thin"]), "slow": bool(found["slow"])}
    if found := _NVLINK_BITS.search(line):
        bits = int(found["bits"][:18], 16)
        for meaning, places in _BITS.items():
            if any(bits >> place & 1 for place in places):
                return {"nvlink": meaning}
    plain = _THOUSANDS.sub("", line)
    for pattern in _COUNTS:
        if found := pattern.search(plain):
            here, wanted = int(found["found"]), int(found["wanted"])
            return {"found": here, "wanted": wanted, "short": here < wanted}
    return {}


# One line of iblinkinfo: the switch port and what hangs on it; and what a plan wants there.
_FABRIC = re.compile(r'^ *\d+ +(?P<number>\d+)\[.{0,4}\] ==\(.{0,60}\)==> .{0,24}"(?P<far>[\w.-]+(?: [\w.-]+)?)"')
_FABRIC_PLAN = re.compile(r"\bport (?P<number>\d+) -> (?P<far>[\w.-]+(?: [\w.-]+)?)")
_PLANNED = re.compile(r"(?P<port>[\w.-]+) -> (?P<far>[\w.-]+(?: port |[ :])[\w/.-]+)")


def _against_fabric(lines: Sequence[Evidence], node: str, now: datetime) -> Iterator[Evidence]:
    """A FAILED cable (source ``text/fabric``) for a switch port on which iblinkinfo sees another host than the plan."""
    wanted = {m["number"]: m["far"] for e in lines if e.source == "text/context" for m in _FABRIC_PLAN.finditer(e.text)}
    for item in lines:
        if (found := _FABRIC.search(item.text)) and wanted.get(found["number"], found["far"]) != found["far"]:
            where = f"port {found['number']}"
            sentence = f"{where} leads to {found['far']} and belongs to {wanted[found['number']]}"
            yield Evidence(node, Part(PartKind.CABLE, where, where), Reading.FAILED, "text/fabric", now, sentence)


def _against_plan(lines: Sequence[Evidence], node: str, now: datetime) -> Iterator[Evidence]:
    """A FAILED cable (source ``text/cabling``) for ports that a ``plan:`` and a ``lldp:`` line connect differently."""
    told: dict[str, dict[str, str]] = {"plan": {}, "lldp": {}}
    for item in lines:
        head = item.text.partition(":")[0].strip().lower()
        if head in told:
            told[head] |= {m["port"]: m["far"] for m in _PLANNED.finditer(item.text)}
    yield from _against_fabric(lines, node, now)
    plan, heard = told["plan"], told["lldp"]
    wrong = [port for port, far in heard.items() if port in plan and plan[port] != far]
    if not wrong:
        return
    crossed = len(wrong) == 2 and heard[wrong[0]] == plan[wrong[1]] and heard[wrong[1]] == plan[wrong[0]]
    for where in ["<->".join(wrong)] if crossed else wrong:
        told_apart = "; ".join(f"{port} sits in {heard[port]} and belongs in {plan[port]}" for port in wrong)
        yield Evidence(node, Part(PartKind.CABLE, where, where), Reading.FAILED, "text/cabling", now, told_apart)
