"""The ticket desk: what moves when findings and readings meet the tickets that stand. Pure (ports.Desk).

Same key, same ticket. A fault seen again changes nothing but what is known of it: SEEN_AGAIN carries the stored ticket
unchanged when there is nothing to add, and a store may then write nothing. A visit counts only when somebody had
reported it done, or the ticket was closed. A ticket closes only when its part was looked at again and found well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from provision.model.evidence import Evidence, PartKind
from provision.model.finding import Action, Category, Dispatch, Finding
from provision.model.node import Node
from provision.model.ticket import ChangeKind, Ticket, TicketChange, TicketStatus
from provision.triage.fleet import FEEDS, explains, takes
from provision.triage.verify import looked_well

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")
# What a later run does by itself when it comes by again; so long after the ticket it is a later one.
_BY_LOOKING = frozenset({Action.RETRY, Action.COLLECT_MORE})
LATER = timedelta(minutes=5)
_SPARE = frozenset({"psu", "power_feed", "fan"})


def desk(
    node: Node,
    findings: Sequence[Finding],
    looked_at: Sequence[Evidence],
    tickets: Sequence[Ticket],
    now: datetime,
) -> tuple[TicketChange, ...]:
    """Moves for one node. Findings for which nobody goes open nothing; they still keep a ticket from closing.

    What several machines share takes over: a ticket of one of them that it explains is held, nobody is sent for it.
    """
    changes: list[TicketChange] = []
    held = {key_of(node, finding) for finding in findings}
    for finding in findings:
        if finding.dispatch is Dispatch.NEVER:
            continue
        key = key_of(node, finding)
        mine = [t for t in tickets if t.dedupe_key == key]
        standing = next((t for t in reversed(mine) if t.status.is_open), mine[-1] if mine else None)
        over = next((t for t in tickets if takes(t, node, finding)), None) if len(finding.nodes) < 2 else None
        if over is not None and (standing is None or not standing.status.is_open):
            changes.append(TicketChange(ChangeKind.SEEN_AGAIN, over, f"seen again on {node.name}: {finding.why}"))
        elif standing is None:
            change = _open(node, finding, key, now)
            changes.append(replace(change, ticket=_moved(change.ticket, tickets)))
        else:
            here = replace(standing, held_by=over.locator if over else "")
            changes.append(_again(node, finding, here, standing, tickets, now))
    changes += _holding(node, findings, tickets, now)
    for ticket in tickets:
        mine_too = ticket.node == node.name or node.name in ticket.nodes
        if not ticket.status.is_open or not mine_too or ticket.dedupe_key in held:
            continue
        if any(_speaks_of(ticket, finding) for finding in findings):
            continue
        if (seen := looked_well(ticket, node, looked_at)) is not None:
            closed = replace(ticket, status=TicketStatus.VERIFIED, updated_at=now)
            changes.append(
                TicketChange(ChangeKind.VERIFY, closed, f"{ticket.locator} was looked at and is well: {seen}")
            )
    return tuple(changes)


def _holding(
    node: Node, findings: Sequence[Finding], tickets: Sequence[Ticket], now: datetime
) -> Sequence[TicketChange]:
    """Open tickets of this node that a cause of several machines explains: they wait for its repair."""
    shared = [finding for finding in findings if len(finding.nodes) > 1]
    mine = [t for t in tickets if t.node == node.name and len(t.nodes) < 2 and t.status.is_open and not t.held_by]
    found = [(ticket, cause) for ticket in mine for cause in shared if explains(cause, ticket)]
    return [
        TicketChange(
            ChangeKind.SEEN_AGAIN,
            replace(ticket, held_by=_clean(cause.part.locator, 200), updated_at=now),
            f"{cause.part.locator} explains it, seen on {len(cause.nodes)} machines: nobody is sent for this one",
        )
        for ticket, cause in found
    ]


def key_of(node: Node, finding: Finding) -> str:
    """``site|asset|category|locator``; a shared cause belongs to the rack, not to one of its machines."""
    asset = node.rack if len(finding.nodes) > 1 else node.asset_tag or node.service_tag or node.name
    return finding.key(node.site, asset)


def _speaks_of(ticket: Ticket, finding: Finding) -> bool:
    """The part itself, or for what several machines share, anything of the kind on one of them."""
    if len(finding.nodes) > 1 and explains(finding, ticket):
        return True
    if len(ticket.nodes) > 1 and finding.node in ticket.nodes and finding.category is ticket.category:
        # A supply that is broken itself says nothing of the PDU before it.
        return ticket.rule != "PDU-DARK" or finding.component in FEEDS
    return finding.part.kind is ticket.part_kind and finding.part.name == ticket.part_name


def _open(node: Node, finding: Finding, key: str, now: datetime) -> TicketChange:
    ticket = _written(
        Ticket(
            id="",
            dedupe_key=key,
            status=TicketStatus.OPEN,
            node=node.name,
            category=finding.category,
            component=finding.component,
            part_kind=finding.part.kind,
            part_name=finding.part.name,
            locator=finding.part.locator,
            action=finding.action,
            dispatch=finding.dispatch,
            ask=finding.ask,
            rule=finding.rule,
            confidence=finding.confidence,
            opened_at=now,
            updated_at=now,
            evidence=_lines(finding),
            why=_clean(finding.why, 1000),
        ),
        node,
        finding,
        now,
    )
    return TicketChange(ChangeKind.OPEN, ticket, finding.why)


def _written(ticket: Ticket, node: Node, finding: Finding, now: datetime) -> Ticket:
    """The ticket with what the finding says; life and history are left alone."""
    action, dispatch = finding.action, finding.dispatch
    if ticket.id and dispatch is Dispatch.AFTER_REPEAT and action in _BY_LOOKING and now - ticket.opened_at >= LATER:
        # The run that sees it again is the step: it booted once more, or read everything again.
        ticket = replace(ticket, steps_done=tuple(dict.fromkeys((*ticket.steps_done, action.value))))
    # The remote step was done and the fault is still there: somebody goes, with the next step.
    if dispatch is Dispatch.AFTER_REPEAT and finding.escalate is not None and finding.action in ticket.steps_done:
        action, dispatch = finding.escalate, Dispatch.NOW
    return replace(
        ticket,
        component=finding.component,
        part_name=finding.part.name,
        action=action,
        dispatch=dispatch,
        ask=_clean(finding.ask, 500),
        rule=finding.rule,
        peer_end=_clean(finding.peer_end, 200),
        nodes=tuple(sorted({*ticket.nodes, *finding.nodes})) if ticket.status.is_open else finding.nodes,
        priority=priority(finding),
        verify=verify_step(node, finding),
        part_number=_said(finding, "model") or ticket.part_number,
        serial=_said(finding, "serial") or ticket.serial,
    )


def _moved(ticket: Ticket, others: Sequence[Ticket]) -> Ticket:
    """The same part failed in another place before: it is the part, wherever it is put."""
    before = [
        t
        for t in others
        if ticket.serial and t.serial == ticket.serial and t.category is ticket.category
        if (t.node, t.locator) != (ticket.node, ticket.locator)
    ]
    if not before:
        return ticket
    where = ", ".join(dict.fromkeys(f"{t.node} {t.locator}" for t in before))
    said = f"Replace this part (serial {ticket.serial}): it failed in {where} before, so moving it does not help. "
    return replace(
        ticket,
        action=_REPLACE.get(ticket.category, Action.REPLACE_PART),
        dispatch=Dispatch.NOW,
        ask=_clean(said + ticket.ask, 500),
        previous=tuple(dict.fromkeys((*ticket.previous, *(f"{t.id}#{t.attempt}" for t in before)))),
    )


_REPLACE = {
    Category.NVME: Action.REPLACE_DRIVE,
    Category.GPU: Action.REPLACE_GPU,
    Category.MEMORY: Action.REPLACE_DIMM,
    Category.PSU: Action.REPLACE_PSU,
}


def _said(finding: Finding, name: str) -> str:
    """A figure of the part itself (model, serial) from the evidence that carried the finding."""
    for item in finding.evidence:
        value = item.values.get(name)
        if value not in (None, "") and item.part.kind is finding.part.kind:
            return _clean(str(value), 100)
    return ""


def _again(
    node: Node, finding: Finding, released: Ticket, standing: Ticket, others: Sequence[Ticket], now: datetime
) -> TicketChange:
    """``released`` is the standing ticket, held as it is to be from here on."""
    written = _moved(_written(released, node, finding, now), others)
    if standing.status in {TicketStatus.VERIFIED, TicketStatus.DONE_BY_TECHNICIAN}:
        said = "closed" if standing.status is TicketStatus.VERIFIED else "reported done"
        reopened = replace(
            written,
            status=TicketStatus.REOPENED,
            attempt=standing.attempt + 1,
            previous=(*standing.previous, f"{standing.id}#{standing.attempt}"),
            updated_at=now,
            confidence=finding.confidence,
            evidence=_lines(finding),
            why=_clean(finding.why, 1000),
        )
        return TicketChange(ChangeKind.REOPEN, reopened, f"seen again after it was {said}: {finding.why}")
    if written == standing:
        return TicketChange(ChangeKind.SEEN_AGAIN, standing, "seen again, nothing to add")
    told = replace(written, updated_at=now, confidence=finding.confidence, evidence=_lines(finding))
    return TicketChange(ChangeKind.SEEN_AGAIN, told, f"seen again: {finding.why}")


def priority(finding: Finding) -> str:
    """P1 what several machines share, P2 a machine out of service, P3 a spare part of it (facts: triage 4.1)."""
    if len(finding.nodes) > 1 or finding.part.kind is PartKind.RACK:
        return "P1"
    if finding.category is Category.PSU or finding.component in _SPARE:
        return "P3"
    return "P2"


def verify_step(node: Node, finding: Finding) -> str:
    """The command that must pass before the ticket closes, and what it must show."""
    shown = {
        Action.RECABLE_PORT: f"LLDP hears {finding.peer_end or 'the planned switch port'} on this port",
        Action.CHECK_POWER_FEED: f"{finding.part.locator} has input voltage",
    }.get(finding.action)
    if shown is None and finding.category in {Category.CABLING_ETHERNET, Category.CABLING_INFINIBAND}:
        shown = "the port has a link"
    return f"provision triage {' '.join(finding.nodes) or node.name}: {shown or f'{finding.part.locator} reads ok'}"


def _lines(finding: Finding) -> tuple[str, ...]:
    """At most three lines of evidence, free of control characters: log text is hostile until escaped."""
    lines: list[str] = []
    for item in finding.evidence:
        said = item.text or f"{item.part.locator} {item.reading.value}"
        code = f"{item.code} " if item.code and item.code not in said else ""
        line = _clean(f"{item.seen_at:%Y-%m-%d %H:%M} {item.source}: {code}{said}", 200)
        if line not in lines:
            lines.append(line)
    return tuple(lines[:3])


def _clean(text: str, size: int) -> str:
    return _CONTROL.sub(" ", text).strip()[:size]
