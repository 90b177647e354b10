"""Rules over evidence: the verdict on one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from provision.model.evidence import Evidence, Gap, Part, PartKind, Reading, Severity
from provision.model.finding import Action, Category, Dispatch, Finding, Verdict
from provision.model.node import Node
from provision.model.profile import Profile
from provision.triage import cabling, expect, firmware
from provision.triage.causes import first_causes
from provision.triage.facts import LOGS, direct_well, label, live, word
from provision.triage.grammar import said
from provision.triage.patterns import fill
from provision.triage.rules import Role, Rule, packaged_rules
from provision.triage.scene import Hit, Scene, matches

# Readings that are bad by themselves; a port without a link or an empty slot may be meant so.
_BAD = frozenset({Reading.FAILED, Reading.FAILING, Reading.NO_INPUT})
_KEPT_EVIDENCE = 20


def judge(node: Node, profile: Profile, evidence: Sequence[Evidence], gaps: Sequence[Gap], now: datetime) -> Verdict:
    """Judge one node by the packaged rules (ports.Judge)."""
    return judge_by(packaged_rules(), node, profile, evidence, gaps, now)


def judge_by(
    rules: Sequence[Rule],
    node: Node,
    profile: Profile,
    evidence: Sequence[Evidence],
    gaps: Sequence[Gap],
    now: datetime,
) -> Verdict:
    """Judge one node by these rules: first causes only, best supported first; gaps are handed on.

    What no rule explains becomes one UNKNOWN finding with all its evidence, for the operator and never the cage.
    """
    mine = tuple(_read(item) for item in live([item for item in evidence if item.node == node.name]))
    seen = (*mine, *derived(node, profile, mine, now))
    findings = first_causes(weigh(node, seen, rules), {rule.id: rule for rule in rules}, node.power_feeds)
    heard = [f for f in findings if not _is_noise(f, rules)]
    if (strange := unexplained(node, seen, rules)) is not None:
        heard.append(strange)
    return Verdict(tuple(heard), tuple(gaps))


def _read(item: Evidence) -> Evidence:
    """A grave log entry, with ``thing`` and ``state`` of its sentence for the rules on kinds.

    Without a rule it would be an unknown; what only warns is left to the sensors.
    """
    if word(item.source) not in LOGS - {"events"} or item.severity is not Severity.CRITICAL or not item.text:
        return item
    told = said(f"{item.code or ''} {item.text}".strip(), item.part.kind)
    return replace(item, values={**told, **item.values}) if told else item


def derived(node: Node, profile: Profile, evidence: Sequence[Evidence], now: datetime) -> tuple[Evidence, ...]:
    """What follows from plan and profile: parts that are missing, narrow links, cables that are not as planned."""
    return (
        *expect.missing(node, profile, evidence, now),
        *expect.reduced(node, profile, evidence, now),
        *expect.slow(node, profile, evidence, now),
        *expect.clock(node, evidence, now),
        *expect.subtree(node, evidence, now),
        *firmware.against_profile(node, profile, evidence, now),
        *cabling.against_plan(node, evidence, now),
        *cabling.silent_boot(node, evidence, now),
    )


def weigh(node: Node, evidence: Sequence[Evidence], rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """One finding per category and place, carried by its strongest rule; each further source adds weight."""
    scene = Scene(node, evidence)
    groups: dict[tuple[Category, str], list[Hit]] = {}
    places: dict[tuple[Category, str], str] = {}
    first = [rule for rule in rules if not rule.last]
    spoken: dict[int, bool] = {}
    for rule in sorted(rules, key=lambda rule: rule.last):
        for hit in scene.hits(rule):
            if rule.last:
                # Asked for the few lines that such a rule hits, not for all: it is every rule against every line.
                item = hit.evidence
                if id(item) not in spoken:
                    spoken[id(item)] = any(scene.speaks(other, item) for other in first)
                if spoken[id(item)]:
                    continue
            place = fill(rule.locator, hit.words)
            key = (rule.category, label(place))
            groups.setdefault(key, []).append(hit)
            places.setdefault(key, place)
    _give_place(node, groups)
    return tuple(_finding(node, places[key], hits) for key, hits in groups.items() if _stands(hits))


def _give_place(node: Node, groups: dict[tuple[Category, str], list[Hit]]) -> None:
    """Hits that name no part join the one group of their rule that does: two lines of one fault are one finding."""
    for category, place in [key for key in groups if key[1] in {label(node.name), ""}]:
        rules = {hit.rule.id for hit in groups[category, place]}
        named = [
            key
            for key, hits in groups.items()
            if key[0] is category and key[1] != place and rules & {hit.rule.id for hit in hits}
        ]
        if len(named) == 1:
            groups[named[0]].extend(groups.pop((category, place)))


def _stands(hits: Sequence[Hit]) -> bool:
    return any(hit.rule.role is not Role.CONFIRM for hit in hits)


def _finding(node: Node, place: str, hits: Sequence[Hit]) -> Finding:
    leaders = [hit for hit in hits if hit.rule.role is not Role.CONFIRM]
    best = max(leaders, key=lambda hit: (hit.rule.role is Role.ROOT, hit.rule.weight))
    rule, item = best.rule, best.evidence
    carried: dict[str, float] = {}
    for hit in hits:
        carried[hit.evidence.source] = max(carried.get(hit.evidence.source, 0.0), hit.rule.weight)
    doubt = 1.0
    for weight in carried.values():
        doubt *= 1 - weight
    place = place or item.part.locator
    if rule.part_kind is PartKind.CABLE and place.startswith(("riser ", "backplane ")):
        place = place.capitalize()  # a log writes it in a sentence, the board in capitals
    moved = place != item.part.locator
    part = Part(rule.part_kind or item.part.kind, place if moved else item.part.name, place, item.part.parent)
    others = {hit.rule.id for hit in hits} - {rule.id}
    return Finding(
        rule=rule.id,
        node=node.name,
        category=rule.category,
        component=rule.component,
        part=part,
        action=rule.action,
        dispatch=rule.dispatch,
        ask=fill(rule.ask, {**best.words, "locator": place}),
        why=_why(rule, [hit.evidence for hit in hits]),
        escalate=rule.escalate,
        confidence=round(1 - doubt, 2),
        peer_end=fill(rule.peer_end, best.words),
        evidence=_distinct(hits, item),
        absorbed=tuple(sorted(others)),
        in_metal=rule.hardware,
    )


def _distinct(hits: Sequence[Hit], first: Evidence) -> tuple[Evidence, ...]:
    """The evidence once each, the carrying one first."""
    kept = [first]
    for hit in hits:
        if all(hit.evidence is not item for item in kept):
            kept.append(hit.evidence)
    return tuple(kept[:_KEPT_EVIDENCE])


def _why(rule: Rule, evidence: Sequence[Evidence]) -> str:
    sources = ", ".join(sorted({item.source for item in evidence}))
    return f"{rule.because} (seen by {sources})"


def _is_noise(finding: Finding, rules: Sequence[Rule]) -> bool:
    return any(rule.id == finding.rule and rule.role is Role.NOISE for rule in rules)


def unexplained(node: Node, evidence: Sequence[Evidence], rules: Sequence[Rule]) -> Finding | None:
    """Everything bad that no rule speaks of, as one finding for the operator's queue; None if there is nothing."""
    strange = [item for item in _bad(evidence) if not _spoken_of(item, rules)]
    if not strange:
        return None
    first = strange[0]
    said = first.text or f"{first.part.locator}: {first.reading.value}"
    return Finding(
        rule="UNKNOWN",
        node=node.name,
        category=Category.UNKNOWN,
        component=first.part.kind.value,
        part=first.part if len(strange) == 1 else Part(PartKind.NODE, node.name, node.name),
        action=Action.COLLECT_MORE,
        dispatch=Dispatch.NEVER,
        ask=f"No rule explains this; an operator must read it: {said[:200]}",
        why=f"{len(strange)} readings that no rule speaks of",
        confidence=0.3,
        evidence=tuple(strange[:_KEPT_EVIDENCE]),
    )


def _bad(evidence: Sequence[Evidence]) -> Iterator[Evidence]:
    for item in evidence:
        # MAAS shouts at every failure; its status and its scripts say what failed.
        active = word(item.source) in LOGS - {"events"} and item.severity is Severity.CRITICAL
        denied = active and direct_well(item, evidence, _DIRECT)
        if (item.reading in _BAD or active) and not denied:
            yield item


_DIRECT = ("psus", "drives", "dimms", "gpus", "nics", "ports", "fans", "temperatures", "cpus", "pcie")


def _spoken_of(item: Evidence, rules: Sequence[Rule]) -> bool:
    """True if a rule knows the sign, even if its conditions spoke against it: then it was judged to be nothing."""
    return any(matches(rule.match, item) is not None for rule in rules)
