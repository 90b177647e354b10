"""Causes that several nodes share: a PDU, a switch, a rack's DHCP, an update, two cables in each other's place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from provision.model.evidence import Part, PartKind
from provision.model.finding import Action, Category, Dispatch, Finding, Verdict
from provision.model.node import Node
from provision.triage.causes import SHARED, dark_pdu, feed_of_finding, hears, swap

# Signs that mean something else when many hosts show them at once: a change, not so many broken parts.
_CHANGE = frozenset({Category.INTERNAL_CABLE, Category.FIRMWARE, Category.THERMAL, Category.CPU_THROTTLE})
_CONTACT = frozenset({"BOOT-NO-CONTACT-LINK-UP", "BOOT-NO-CONTACT-LINK-UNKNOWN"})
Owned = tuple[str, Finding]


def fleet(verdicts: Mapping[str, Verdict], nodes: Mapping[str, Node]) -> tuple[Finding, ...]:
    """One finding for every cause that several nodes share; its ``nodes`` lists the hosts, ``node`` is the first.

    ``absorbed`` holds ``node/rule/locator`` of each finding it replaces; ``without`` takes those out of a verdict.
    """
    owned = [(name, f) for name, verdict in sorted(verdicts.items()) if name in nodes for f in verdict.findings]
    shared: list[Finding] = []
    for look in (_swaps, _dark_pdus, _dark_switches, _silent_racks, _silent_bmcs, _changes):
        taken = {name for f in shared for name in f.absorbed}
        left = [(name, f) for name, f in owned if _tag(name, f) not in taken]
        shared.extend(look(left, nodes))
    return tuple(shared)


def without(node: str, verdict: Verdict, shared: Sequence[Finding]) -> Verdict:
    """The verdict of one node without what a shared cause explains."""
    taken = {name for f in shared for name in f.absorbed}
    return replace(verdict, findings=tuple(f for f in verdict.findings if _tag(node, f) not in taken))


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


def _swaps(owned: Sequence[Owned], nodes: Mapping[str, Node]) -> Iterator[Finding]:
    wrong = [(n, f) for n, f in owned if f.action is Action.RECABLE_PORT and f.rule != "CABLES-SWAPPED" and f.evidence]
    used: set[int] = set()
    for number, (name, one) in enumerate(wrong):
        for other_name, other in wrong[number + 1 :]:
            if name == other_name or used & {id(one), id(other)} or not (hears(one, other) and hears(other, one)):
                continue
            used |= {id(one), id(other)}
            yield replace(swap(one, other), absorbed=_tags([(name, one), (other_name, other)]))


def _dark_pdus(owned: Sequence[Owned], nodes: Mapping[str, Node]) -> Iterator[Finding]:
    dark = [(n, f) for n, f in owned if f.component == "power_feed"]
    keyed = [
        (f.part.name if f.rule == "PDU-DARK" else feed_of_finding(f, nodes[n].power_feeds), (n, f)) for n, f in dark
    ]
    for pdu, group in _grouped(keyed):
        finding = dark_pdu([f for _, f in group], pdu, _hosts(group))
        yield replace(finding, absorbed=_tags(group))


def _dark_switches(owned: Sequence[Owned], nodes: Mapping[str, Node]) -> Iterator[Finding]:
    """Every host that is cabled to a switch lost its link there: the switch, not the cables."""
    down = [(str(f.evidence[0].values.get("switch") or ""), (n, f)) for n, f in owned if f.rule == "CABLE-UNPLUGGED"]
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
            ask=f"Look at switch {switch}: power, lights, uplinks. All {len(planned)} machines on it have no link.",
            why=f"every machine that is cabled to {switch} has no link there",
            peer_end=switch,
            nodes=_hosts(group),
            absorbed=_tags(group),
        )


def _silent_racks(owned: Sequence[Owned], nodes: Mapping[str, Node]) -> Iterator[Finding]:
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


def _silent_bmcs(owned: Sequence[Owned], nodes: Mapping[str, Node]) -> Iterator[Finding]:
    silent = [(nodes[n].rack, (n, f)) for n, f in owned if f.category is Category.BMC and f.part.kind is PartKind.BMC]
    for rack, group in _grouped(silent):
        first = group[0][1]
        yield replace(
            first,
            rule="RACK-BMCS-SILENT",
            component="management_switch",
            part=Part(PartKind.RACK, rack, f"management switch of {rack}"),
            action=Action.CHECK_POWER_FEED,
            dispatch=Dispatch.NOW,
            ask=f"Look at the management switch of {rack}: power, uplink. {len(_hosts(group))} BMCs do not answer.",
            why=f"{len(_hosts(group))} BMCs of {rack} are silent at once",
            confidence=0.9,
            nodes=_hosts(group),
            absorbed=_tags(group),
        )


def _changes(owned: Sequence[Owned], nodes: Mapping[str, Node]) -> Iterator[Finding]:
    """One sign at one place on many hosts: look for what was changed before anybody opens a box."""
    alike = [(f"{f.rule} {f.part.locator}", (n, f)) for n, f in owned if f.category in _CHANGE]
    for _, group in _grouped(alike):
        if len(_hosts(group)) * 5 < len(nodes):
            continue
        first = group[0][1]
        count = len(_hosts(group))
        yield replace(
            first,
            rule="FLEET-CHANGE",
            category=Category.FIRMWARE,
            component="change",
            action=Action.COLLECT_MORE,
            escalate=first.action,
            dispatch=Dispatch.NEVER,
            ask=f"Nobody goes yet. {count} machines report {first.part.locator} at once: look for a change.",
            why=f"{count} of {len(nodes)} machines show the same sign at the same place",
            nodes=_hosts(group),
            absorbed=_tags(group),
            in_metal=None,
        )
