"""Judging pasted evidence without a machine: a log, the output of a command, a support bundle's file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from provision.model.evidence import Evidence, PartKind, Reading
from provision.model.finding import Action, Category, Dispatch, Finding
from provision.model.node import Node
from provision.triage.causes import first_causes
from provision.triage.facts import CLEARS, label, live
from provision.triage.judge import weigh
from provision.triage.patterns import MAX_LINE, compile_pattern
from provision.triage.rules import Role, Rule, packaged_rules
from provision.triage.text import read

# The remote step was done and did not help: the next step is a visit.
_TRIED = compile_pattern(
    r"\b(?:persist\w*|still|again|unchanged|same|no change|came back|returned)\b.{0,80}"
    r"\b(?:after|since|following|despite)\b.{0,40}\b(?:ac|power|outlet|reboots?|resets?|restarts?|cycles?)\b"
    r"|\b(?:second|third|fourth|2nd|3rd) (?:time|occurrence|reset|reboot)\b.{0,60}\b(?:same|again|failed|fails)\b"
)
KINDS = (
    *("dmesg", "nvidia-smi", "sel", "lclog", "redfish", "console", "pxe", "maas", "ufm", "lspci", "smart", "zpool"),
    *("ibstat", "iblinkinfo", "lldp", "netdev", "sensors", "cloud-init", "healthcheck", "log"),
)


def pasted(text: str, kind: str, node: str, now: datetime) -> tuple[Evidence, ...]:
    """Text as evidence that still stands, with the lines that ended others kept apart as ``text/cleared``."""
    lines = read(text, kind, node, now)
    ended = tuple(
        replace(e, source="text/cleared", reading=Reading.FACT) for e in lines if e.code in CLEARS or e.cleared
    )
    return (*live(lines), *ended)


def judge_text(
    text: str, kind: str, node: Node, now: datetime, rules: Sequence[Rule] | None = None
) -> tuple[Finding, ...]:
    """What pasted text says, first cause first, harmless signs too; one UNKNOWN finding if no rule speaks of it."""
    known = packaged_rules() if rules is None else rules
    evidence = pasted(text, kind, node.name, now)
    by_id = {rule.id: rule for rule in known}
    found = first_causes(weigh(node, evidence, known), by_id, node.power_feeds)
    if not found:
        return (_unknown(node, evidence),) if evidence else ()
    tried = any(_TRIED.search(item.text) for item in evidence if item.source == "text/context")
    ordered = sorted((_next_step(f) if tried else f for f in found), key=lambda f: _place(f, by_id))
    return tuple(_about_the_one_part(ordered, evidence))


def _about_the_one_part(findings: Sequence[Finding], evidence: Sequence[Evidence]) -> list[Finding]:
    """The findings, the first with a place as the text prints it.

    It lacks one where no rule named a part: then the one part that all lines together name. And a name that we made
    (``PSU 1`` of "power supply 1") gives way to the same part's name in another line (``PSU.Slot.1``).
    """
    named = {label(e.part.locator): e.part for e in evidence if e.part.kind is not PartKind.NODE}
    first = findings[0]
    if first.part.kind is PartKind.NODE and len(named) == 1:
        return [replace(first, part=next(iter(named.values()))), *findings[1:]]
    if first.part.kind is PartKind.PSU and not any(first.part.locator in e.text for e in evidence):
        same = [e.part for e in evidence if label(e.part.locator) == label(first.part.locator)]
        printed = [part for part in same if any(part.locator in e.text for e in evidence if e.source != "text/context")]
        return [replace(first, part=printed[0]) if printed else first, *findings[1:]]
    return list(findings)


def _place(finding: Finding, rules: dict[str, Rule]) -> tuple[bool, bool, bool]:
    """Causes before consequences before noise; a named part before the whole node."""
    role = rules[finding.rule].role if finding.rule in rules else Role.ROOT
    return (role is Role.NOISE, role is Role.CASCADE, False)


def _next_step(finding: Finding) -> Finding:
    if finding.dispatch is not Dispatch.AFTER_REPEAT or finding.escalate is None or not finding.hardware:
        return finding
    why = f"{finding.why}; the remote step was tried and did not help"
    return replace(finding, action=finding.escalate, dispatch=Dispatch.NOW, why=why)


def _unknown(node: Node, evidence: Sequence[Evidence]) -> Finding:
    first = evidence[0]
    return Finding(
        rule="UNKNOWN",
        node=node.name,
        category=Category.UNKNOWN,
        component=PartKind.NODE.value,
        part=first.part,
        action=Action.COLLECT_MORE,
        dispatch=Dispatch.NEVER,
        ask=f"No rule explains this; an operator must read it: {first.text[:200]}",
        why="no rule speaks of any line",
        confidence=0.1,
        evidence=tuple(evidence[:20]),
    )


# How file names of support bundles and their contents tell what they hold, the most telling first.
_BY_NAME = (
    ("dmesg", r"dmesg|kern(?:el)?\.log|messages|syslog|journal"),
    ("nvidia-smi", r"nvidia-smi|nvidia-bug-report|nvsmi"),
    ("lclog", r"lclog|lifecycle|lc-?log"),
    ("sel", r"\bsel\b|ipmi|iml"),
    ("ibstat", r"ibstat"),
    ("iblinkinfo", r"iblinkinfo|iblink"),
    ("ufm", r"ufm"),
    ("lspci", r"lspci"),
    ("smart", r"smart|nvme"),
    ("zpool", r"zpool|zfs"),
    ("lldp", r"lldp"),
    ("cloud-init", r"cloud-?init|apt|curtin"),
    ("maas", r"maas"),
    ("sensors", r"sensor|turbostat|cpupower"),
    ("netdev", r"ethtool|netdev|ip-link|ifconfig"),
    ("redfish", r"redfish|\.json$"),
    ("console", r"console|sol\b|screen"),
)
_BY_TEXT = (
    ("dmesg", r"NVRM:|^\[ *\d+\.\d+\] |mlx5_core|EDAC MC\d|pcieport|^\w{3} +\d+ [\d:]+ \S+ kernel:"),
    ("pxe", r"PXE-E\d|Start PXE|iPXE|BdsDxe"),
    ("lclog", r"^(?:[A-Z]{3}\d{3,4}|PDR\d+)\b"),
    ("smart", r"SMART|critical_warning"),
    ("zpool", r"^ *pool: "),
    ("ibstat", r"^CA '"),
    ("lspci", r"LnkSta:"),
    ("nvidia-smi", r"NVIDIA-SMI|Remapped Rows|Clocks (?:Event|Throttle) Reasons"),
    ("cloud-init", r"cloud-init|^(?:Err|Get|Hit):\d|^[EW]: "),
    ("redfish", r'^\s*\{.{0,200}"(?:@odata|Status|Id)"'),
    ("sel", r"\| (?:A|Dea)sserted"),
)


def kind_of(name: str, text: str) -> str:
    """The kind of a file by its name, else by its first lines; ``log`` if neither tells."""
    short = name.rsplit("/", 1)[-1]
    for kind, pattern in _BY_NAME:
        if re.search(pattern, short, re.IGNORECASE):
            return kind
    head = text[:20_000]
    return next((kind for kind, pattern in _BY_TEXT if re.search(pattern, head, re.MULTILINE)), "log")


_STAMP = re.compile(r"^(?:\[[^\]]{1,40}\] ?|<\d+>|\w{3} [ \d]\d [\d:]{8} |\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+ )")
_FIGURES = re.compile(r"\d+")
_SAME, _ALIKE, _MOST_LINES = 5, 200, 20_000


def thinned(text: str) -> str:
    """A log without the bulk of its repetitions: five equal lines, 200 that differ only in figures, the newest 20,000.

    Rules count to three at most; a million equal lines say no more than five.
    """
    kept: list[str] = []
    seen: dict[str, int] = {}
    for line in text.splitlines():
        said = _STAMP.sub("", line[:MAX_LINE], count=1)
        shape = "#" + _FIGURES.sub("#", said)
        if seen.get(said, 0) < _SAME and seen.get(shape, 0) < _ALIKE:
            kept.append(line[: 4 * MAX_LINE])
        seen[said] = seen.get(said, 0) + 1
        seen[shape] = seen.get(shape, 0) + 1
    return "\n".join(kept[-_MOST_LINES:])
