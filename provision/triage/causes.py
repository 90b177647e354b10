"""First causes within one node: what is upstream explains what hangs on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from provision.model.evidence import Part, PartKind
from provision.model.finding import Action, Category, Dispatch, Finding
from provision.triage.facts import label
from provision.triage.rules import Role, Rule
from provision.triage.scene import pdu_of

# First-cause order (facts: triage 5.5): power, board, cables inside, devices, links outside, what runs on them.
LEVELS = (
    Category.PSU,
    Category.BMC,
    Category.INTERNAL_CABLE,
    Category.THERMAL,
    Category.MEMORY,
    Category.PCIE_LINK,
    Category.NVME,
    Category.GPU,
    Category.NIC,
    Category.NVLINK,
    Category.CABLING_ETHERNET,
    Category.CABLING_INFINIBAND,
    Category.FIRMWARE,
    Category.WRONG_DISK,
    Category.GDR_PEERMEM,
    Category.CPU_THROTTLE,
    Category.NOT_HARDWARE,
    Category.UNKNOWN,
)
_LEVEL = {category: number for number, category in enumerate(LEVELS)}
# Three of a kind under one parent: the parent is looked at first (facts: triage 5.6).
SHARED = 3


def rank(finding: Finding) -> tuple[int, float]:
    """Sort key: first causes first, the better supported first."""
    return (_LEVEL[finding.category], -finding.confidence)


def first_causes(
    findings: Sequence[Finding], rules: Mapping[str, Rule], feeds: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Findings that nothing else in this node explains; each lists the rules it absorbed.

    ``feeds`` are the node's PDU outlets in the order of its PSUs.
    """
    standing = sorted(
        _one_pdu(_swapped(list(findings)), feeds), key=lambda f: (_role(f, rules) is not Role.ROOT, *rank(f))
    )
    kept: list[Finding] = []
    gone: set[int] = set()
    for cause in standing:
        if id(cause) in gone:
            continue
        explained = [
            other
            for other in standing
            if other is not cause and id(other) not in gone and _explains(cause, other, rules)
        ]
        gone.update(id(other) for other in explained)
        kept = [item for item in kept if all(item is not other for other in explained)]
        kept.append(_with(cause, explained))
    return tuple(sorted(kept, key=lambda f: (_role(f, rules) is Role.NOISE, *rank(f))))


def _role(finding: Finding, rules: Mapping[str, Rule]) -> Role:
    rule = rules.get(finding.rule)
    return rule.role if rule is not None else Role.ROOT


def _explains(cause: Finding, other: Finding, rules: Mapping[str, Rule]) -> bool:
    if not _carries(cause, other):
        return False
    rule = rules.get(cause.rule)
    names = rule.explains if rule is not None else ()
    if any(fnmatchcase(name, pattern) for pattern in names for name in (other.rule, other.category, other.component)):
        return True
    # Consequences open nothing while broken metal stands that can be their cause; a spare supply or fan is not one,
    # and what is only wrong in software explains no more than its rule says.
    can_cause = cause.hardware and cause.category not in {Category.PSU, Category.THERMAL}
    return _role(other, rules) is Role.CASCADE and _role(cause, rules) is Role.ROOT and can_cause


def _carries(cause: Finding, other: Finding) -> bool:
    """False if a cable inside the box cannot have taken the part along: it hangs elsewhere.

    What hangs on what is the BMC's word where it gives one. Else the printed names: risers carry cards, backplanes
    carry bays.
    """
    if cause.category is not Category.INTERNAL_CABLE or cause.part.kind is not PartKind.CABLE:
        return True
    places = {label(cause.part.name), label(cause.part.locator)}
    parent = label(other.part.parent or "")
    if parent in places:
        return True
    in_bay = other.part.kind is PartKind.DRIVE and label(other.part.locator).startswith("bay")
    if any(place.startswith("riser") for place in places):
        return not in_bay and not parent.startswith("riser")
    if any(place.startswith("backplane") for place in places):
        return in_bay or other.part.kind not in {PartKind.GPU, PartKind.NIC, PartKind.PORT}
    return True


def _with(cause: Finding, explained: Sequence[Finding]) -> Finding:
    if not explained:
        return cause
    names = {*cause.absorbed, *(f.rule for f in explained), *(name for f in explained for name in f.absorbed)}
    evidence = (*cause.evidence, *(item for f in explained for item in f.evidence))[:20]
    told = replace(cause, absorbed=tuple(sorted(names - {cause.rule})), evidence=evidence)
    # What explains the sign of one part, and names none itself, is about that part.
    places = {f.part.name: f.part for f in explained if f.part.kind is not PartKind.NODE}
    if cause.dispatch is Dispatch.NEVER and cause.part.kind is PartKind.NODE and len(places) == 1:
        return replace(told, part=next(iter(places.values())))
    return told


def _swapped(findings: list[Finding]) -> list[Finding]:
    """Two cables of one node, each in the other's switch port: one ticket naming both."""
    wrong = [f for f in findings if f.action is Action.RECABLE_PORT and f.evidence]
    for number, one in enumerate(wrong):
        for other in wrong[number + 1 :]:
            if hears(one, other) and hears(other, one):
                rest = [f for f in findings if f is not one and f is not other]
                return [*_swapped(rest), swap(one, other)]
    return findings


def hears(one: Finding, other: Finding) -> bool:
    """True if the port of ``one`` is connected where ``other`` should be."""
    heard, planned = one.evidence[0].values, other.evidence[0].values
    same_port = heard.get("heard_port") == planned.get("port") and planned.get("port") is not None
    named = str(heard.get("heard_switch") or "").lower() == str(planned.get("switch") or "").lower()
    # LLDP may tell the switch by its MAC; then both ends must at least be planned on one switch.
    return same_port and (
        named or (":" in str(heard.get("heard_switch")) and heard.get("switch") == planned.get("switch"))
    )


def swap(one: Finding, other: Finding) -> Finding:
    """One finding for two cables that sit in each other's place."""
    here, there = one.evidence[0].values, other.evidence[0].values
    both = (one.node, other.node) if one.node != other.node else ()
    near = [f"{f.node} {v.get('near')}" if both else str(v.get("near")) for f, v in ((one, here), (other, there))]
    ask = (
        f"Swap the two cables at the switch: {near[0]} belongs in {here.get('far')}, "
        f"{near[1]} in {there.get('far')}; they sit in each other's port."
    )
    return replace(
        one,
        rule="CABLES-SWAPPED",
        component="cable_swap",
        part=Part(PartKind.CABLE, f"{one.part.name}+{other.part.name}", f"{near[0]} ↔ {near[1]}"),
        ask=ask,
        why=f"{one.why}; each hears the other's planned switch port",
        confidence=max(one.confidence, other.confidence),
        peer_end=f"{here.get('far')} and {there.get('far')}",
        evidence=(*one.evidence, *other.evidence),
        absorbed=tuple(sorted({one.rule, *one.absorbed, *other.absorbed})),
        nodes=both,
    )


def _one_pdu(findings: list[Finding], feeds: Sequence[str]) -> list[Finding]:
    """Several supplies of one node without input, all fed by one PDU: the PDU is asked about, once."""
    supplies = [f for f in findings if f.part.kind is PartKind.PSU]
    dark = [f for f in supplies if f.component == "power_feed"]
    pdus = {feed_of_finding(f, feeds) for f in dark}
    if len(dark) < 2 or len(pdus) != 1 or "" in pdus:
        return findings
    pdu = pdus.pop()
    # One supply that lives on it proves the PDU: then these are cords or outlets.
    silent = {number_of(f.part.locator) for f in supplies}
    if any(pdu_of(feed) == pdu and number not in silent for number, feed in enumerate(feeds, start=1)):
        return findings
    return [*(f for f in findings if all(f is not d for d in dark)), dark_pdu(dark, pdu, ())]


def dark_pdu(dark: Sequence[Finding], pdu: str, nodes: tuple[str, ...]) -> Finding:
    """One finding for a PDU that left several supplies without input, of one machine or of ``nodes``."""
    first = dark[0]
    supplies = {(i.node, label(i.part.locator)) for f in dark for i in f.evidence if i.part.kind is PartKind.PSU}
    number = len(supplies) or len(dark)
    count = f"{number} supplies of {listed(nodes)}" if nodes else f"all {number} supplies of {first.node}"
    return replace(
        first,
        rule="PDU-DARK",
        component="rack_power",
        part=Part(PartKind.RACK if nodes else PartKind.PSU, pdu, f"PDU {pdu}"),
        action=Action.CHECK_POWER_FEED,
        escalate=None,
        dispatch=Dispatch.NOW,
        ask=f"Check {pdu} itself (inlet, breaker, display): {count} that hang on it have no input.",
        why=f"{number} supplies without input share {pdu}; one cause is likelier than many cords",
        confidence=max(0.9, first.confidence),
        peer_end=pdu,
        evidence=tuple(item for f in dark for item in f.evidence)[:20],
        absorbed=tuple(sorted({f.rule for f in dark})),
        nodes=nodes,
    )


def listed(names: Sequence[str], most: int = 8) -> str:
    """Some names and how many more: tickets name the machines they are about."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def feed_of_finding(finding: Finding, feeds: Sequence[str]) -> str:
    """The PDU of the supply that a finding speaks of, by its printed number; empty if the inventory has none."""
    number = number_of(finding.part.locator)
    return pdu_of(feeds[number - 1]) if 0 < number <= len(feeds) else ""


def number_of(locator: str) -> int:
    """The printed number (``PSU 2``: 2); 0 if there is none, or more than a row of parts can have."""
    digits = "".join(c for c in locator if c.isdigit())
    return int(digits) if 0 < len(digits) < 4 else 0
