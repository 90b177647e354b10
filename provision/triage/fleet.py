"""Causes that several nodes share: a PDU, a switch, a rack's DHCP, an update, two cables in each other's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from provision.model.evidence import Part, PartKind, Reading
from provision.model.finding import Action, Category, Dispatch, Finding, Verdict
from provision.model.node import Node
from provision.model.ticket import Ticket
from provision.triage.causes import SHARED, dark_pdu, feed_of_finding, hears, listed, swap
from provision.triage.facts import LOGS, word

# Signs that mean something else when many hosts show them at once: a change, not so many broken parts.
_CHANGE = frozenset({Category.INTERNAL_CABLE, Category.FIRMWARE, Category.THERMAL, Category.CPU_THROTTLE})
# Whose common parent is looked for by name (PDU, switch, rack), or who are nobody's parts.
_OWN_PARENT = frozenset({Category.BMC, Category.CABLING_ETHERNET, Category.CABLING_INFINIBAND, Category.UNKNOWN})
FEEDS = frozenset({"power_feed", "rack_power"})
# Nothing that breaks by itself breaks in the same place of so many hosts, and of half of all.
_NO_CHANCE = 8
_CONTACT = frozenset({"BOOT-NO-CONTACT-LINK-UP", "BOOT-NO-CONTACT-LINK-UNKNOWN"})
_NO_LINK = frozenset({"CABLE-UNPLUGGED", "IB-CABLE-UNPLUGGED"})
_FACTS = {"bmc_firmware": "BMC firmware", "bios_version": "BIOS"}
Owned = tuple[str, Finding]
Look = Callable[[Sequence[Owned], Mapping[str, Node], Mapping[str, Verdict]], Iterator[Finding]]


def fleet(verdicts: Mapping[str, Verdict], nodes: Mapping[str, Node]) -> tuple[Finding, ...]:
    """One finding for every cause that several nodes share; its ``nodes`` lists the hosts, ``node`` is the first.

    ``absorbed`` holds ``node/rule/locator`` of each finding it replaces; ``without`` takes those out of a verdict.
    ``nodes`` are all of the run; a verdict without findings says by its facts what a well node is like.
    """
    owned = [(name, f) for name, verdict in sorted(verdicts.items()) if name in nodes for f in verdict.findings]
    shared: list[Finding] = []
    looks: tuple[Look, ...] = (_swaps, _dark_pdus, _dark_switches, _silent_racks, _silent_bmcs, _changes)
    for look in looks:
        taken = {name for f in shared for name in f.absorbed}
        left = [(name, f) for name, f in owned if _tag(name, f) not in taken]
        shared.extend(look(left, nodes, verdicts))
    return tuple(shared)


def without(node: str, verdict: Verdict, shared: Sequence[Finding]) -> Verdict:
    """The verdict of one node without what a shared cause explains."""
    taken = {name for f in shared for name in f.absorbed}
    return replace(verdict, findings=tuple(f for f in verdict.findings if _tag(node, f) not in taken))


def explains(cause: Finding, ticket: Ticket) -> bool:
    """True if this cause that several nodes share is what the ticket of one of them is about."""
    return f"{ticket.node}/{ticket.rule}/{ticket.locator}" in cause.absorbed


def takes(shared: Ticket, node: Node, finding: Finding) -> bool:
    """True if an open ticket of several nodes speaks of this finding: nobody needs a second one.

    Asked when a node is looked at without the others, so that their common cause cannot be seen again.
    """
    if len(shared.nodes) < 2 or not shared.status.is_open or node.name not in shared.nodes:
        return False
    if finding.category is not shared.category:
        return False
    said = finding.evidence[0].values if finding.evidence else {}
    return {
        "PDU-DARK": shared.part_name in {finding.part.name, feed_of_finding(finding, node.power_feeds)}
        and finding.component in FEEDS,
        "CABLES-SWAPPED": finding.action is Action.RECABLE_PORT and finding.part.name in shared.part_name.split("+"),
        "SWITCH-DARK": finding.rule in _NO_LINK and said.get("switch") == shared.part_name,
        "RACK-BMCS-SILENT": finding.part.kind is PartKind.BMC,
    }.get(shared.rule, False)


def _tag(name: str, finding: Finding) -> str:
    return f"{name}/{finding.rule}/{finding.part.locator}"


def _tags(members: Sequence[Owned]) -> tuple[str, ...]:
    return tuple(sorted({_tag(name, f) for name, f in members}))


def _hosts(members: Sequence[Owned]) -> tuple[str, ...]:
    return tuple(sorted({name for name, _ in members}))


def _grouped(members: Sequence[tuple[str, Owned]]) -> Iterator[tuple[str, list[Owned]]]:
    """Groups of at least SHARED hosts."""
    groups: dict[str, list[Owned]] = {}
    for key, owned in members:
        if key:
            groups.setdefault(key, []).append(owned)
    yield from ((key, group) for key, group in groups.items() if len(_hosts(group)) >= SHARED)


def _swaps(owned: Sequence[Owned], nodes: Mapping[str, Node], verdicts: Mapping[str, Verdict]) -> Iterator[Finding]:
    wrong = [(n, f) for n, f in owned if f.action is Action.RECABLE_PORT and f.rule != "CABLES-SWAPPED" and f.evidence]
    used: set[int] = set()
    for number, (name, one) in enumerate(wrong):
        for other_name, other in wrong[number + 1 :]:
            if name == other_name or used & {id(one), id(other)} or not (hears(one, other) and hears(other, one)):
                continue
            used |= {id(one), id(other)}
            yield replace(swap(one, other), absorbed=_tags([(name, one), (other_name, other)]))


def _dark_pdus(owned: Sequence[Owned], nodes: Mapping[str, Node], verdicts: Mapping[str, Verdict]) -> Iterator[Finding]:
    dark = [(n, f) for n, f in owned if f.component in FEEDS]
    keyed = [
        (f.part.name if f.rule == "PDU-DARK" else feed_of_finding(f, nodes[n].power_feeds), (n, f)) for n, f in dark
    ]
    for pdu, group in _grouped(keyed):
        finding = dark_pdu([f for _, f in group], pdu, _hosts(group))
        yield replace(finding, absorbed=_tags(group))


def _dark_switches(
    owned: Sequence[Owned], nodes: Mapping[str, Node], verdicts: Mapping[str, Verdict]
) -> Iterator[Finding]:
    """Every host that is cabled to a switch lost its link there: the switch, not the cables."""
    down = [(str(f.evidence[0].values.get("switch") or ""), (n, f)) for n, f in owned if f.rule in _NO_LINK]
    for switch, group in _grouped(down):
        planned = {name for name, node in nodes.items() if any(c.switch == switch for c in node.cabling)}
        if set(_hosts(group)) != planned:
            continue
        first = group[0][1]
        yield replace(
            first,
            rule="SWITCH-DARK",
            component="switch",
            part=Part(PartKind.RACK, switch, f"switch {switch}"),
            action=Action.CHECK_POWER_FEED,
            escalate=None,
            ask=f"Look at switch {switch}: power, lights, uplinks. {listed(_hosts(group))} have no link there.",
            why=f"every machine that is cabled to {switch} has no link there",
            peer_end=switch,
            nodes=_hosts(group),
            absorbed=_tags(group),
        )


def _silent_racks(
    owned: Sequence[Owned], nodes: Mapping[str, Node], verdicts: Mapping[str, Verdict]
) -> Iterator[Finding]:
    silent = [(nodes[n].rack, (n, f)) for n, f in owned if f.rule in _CONTACT]
    for rack, group in _grouped(silent):
        first = group[0][1]
        yield replace(
            first,
            rule="RACK-NO-DHCP",
            category=Category.NOT_HARDWARE,
            component="dhcp",
            part=Part(PartKind.RACK, rack, rack),
            action=Action.FIX_CONFIG,
            escalate=None,
            dispatch=Dispatch.NEVER,
            ask=f"Nobody goes. Check DHCP for {rack}: MAAS's DHCP on the VLAN, the relay, the switch ports' VLAN.",
            why=f"{len(_hosts(group))} machines of {rack} boot from the network and MAAS hears none",
            confidence=0.9,
            nodes=_hosts(group),
            absorbed=_tags(group),
        )


def _silent_bmcs(
    owned: Sequence[Owned], nodes: Mapping[str, Node], verdicts: Mapping[str, Verdict]
) -> Iterator[Finding]:
    """At least half of a rack's BMCs: if most of them answer, so does their switch."""
    silent = [(nodes[n].rack, (n, f)) for n, f in owned if f.category is Category.BMC and f.part.kind is PartKind.BMC]
    for rack, group in _grouped(silent):
        if len(_hosts(group)) * 2 < sum(node.rack == rack for node in nodes.values()):
            continue
        first = group[0][1]
        yield replace(
            first,
            rule="RACK-BMCS-SILENT",
            component="management_switch",
            part=Part(PartKind.RACK, rack, f"management switch of {rack}"),
            action=Action.CHECK_POWER_FEED,
            dispatch=Dispatch.NOW,
            ask=f"Look at the management switch of {rack}: power, uplink. No BMC answers of {listed(_hosts(group))}.",
            why=f"{len(_hosts(group))} BMCs of {rack} are silent at once",
            confidence=0.9,
            nodes=_hosts(group),
            absorbed=_tags(group),
        )


def _changes(owned: Sequence[Owned], nodes: Mapping[str, Node], verdicts: Mapping[str, Verdict]) -> Iterator[Finding]:
    """One sign at one place on many hosts: look for what was changed before anybody opens a box."""
    alike = [
        (f"{f.rule} {f.part.locator.replace(n, '')}", (n, f))
        for n, f in owned
        if f.category in _CHANGE
        or not (f.category in _OWN_PARENT or f.component in FEEDS or f.dispatch is Dispatch.NEVER)
    ]
    for _, group in _grouped(alike):
        count, first = len(_hosts(group)), group[0][1]
        told = first.category in _CHANGE and not any(_gone(f) for _, f in group)
        if not (told and count * 5 >= len(nodes)) and not (count >= _NO_CHANCE and count * 2 >= len(nodes)):
            continue
        common = in_common(_hosts(group), verdicts)
        yield replace(
            first,
            rule="FLEET-CHANGE",
            category=Category.FIRMWARE,
            component="change",
            action=Action.COLLECT_MORE,
            escalate=first.action,
            dispatch=Dispatch.NEVER,
            ask=f"Nobody goes yet. {count} machines report {first.part.locator} at once: look for a change. {common}",
            why=f"{count} of {len(nodes)} machines show the same sign ({first.rule}) at the same place. {common}",
            nodes=_hosts(group),
            absorbed=_tags(group),
            in_metal=None,
        )


def _gone(finding: Finding) -> bool:
    """True if a part is really away, which no log line can only claim."""
    return any(item.reading is Reading.ABSENT and word(item.source) not in LOGS for item in finding.evidence)


def in_common(hosts: Sequence[str], verdicts: Mapping[str, Verdict]) -> str:
    """The versions that these hosts and no other has; else those that all of them have. A sentence."""
    facts = {name: dict(verdict.facts) for name, verdict in verdicts.items()}
    theirs, everybodys = [], []
    for key, words in _FACTS.items():
        mine = {facts.get(name, {}).get(key, "") for name in hosts}
        if len(mine) != 1 or "" in mine:
            continue
        value = mine.pop()
        others = [known[key] for name, known in facts.items() if name not in hosts and known.get(key)]
        if others and value not in others:
            theirs.append(f"{words} {value} (the others: {', '.join(sorted(set(others))[:3])})")
        else:
            everybodys.append(f"{words} {value}")
    if theirs:
        return f"These and no others run {' and '.join(theirs)}."
    if everybodys:
        return f"All of them run {' and '.join(everybodys)}."
    return "Nobody knows what they have in common: compare firmware, image and what was done to them."
