"""The repair desk of the command line: what people report, remote steps, what many tickets say together."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from provision.app.runs import new_run
from provision.app.wiring import Wiring
from provision.config.inventory import load
from provision.errors import MisconfiguredError
from provision.model.finding import Action
from provision.model.node import Node
from provision.model.ticket import Ticket, TicketChange, Told
from provision.report.filled import decoded, read_filled
from provision.report.text import clean
from provision.triage.moves import REMOTE, done_remotely, proposed, tell
from provision.triage.review import bad_lots, lemons, moved_parts, visits, weighed
from provision.triage.rules import packaged_rules

__all__ = ["count_remote", "count_step", "import_filled", "one", "report", "review", "why", "wiring_of"]


async def import_filled(wiring: Wiring, raw: bytes) -> tuple[list[Ticket], list[str]]:
    """Take back what the staff filled in; tickets that moved, and complaints that begin with their line.

    Rows that are right are taken even if others are not; the same file twice changes nothing the second time.
    """
    filled = read_filled(decoded(raw))
    complaints = list(filled.complaints)
    by_id = {ticket.id: ticket for ticket in await wiring.store.tickets()}
    changes: dict[str, TicketChange] = {}
    for line, told in filled.rows:
        standing = changes[told.ticket].ticket if told.ticket in changes else by_id.get(told.ticket)
        if standing is None:
            complaints.append(f"line {line}: there is no ticket {told.ticket}")
            continue
        change, complaint = tell(standing, told, wiring.clock.now())
        if complaint:
            complaints.append(f"line {line}: {complaint}")
        if change is not None:
            changes[told.ticket] = change
    moved = await _settle(wiring, "tickets import", list(changes.values()))
    return list(moved), complaints


async def report(wiring: Wiring, told: Told) -> tuple[Ticket, str]:
    """What somebody says of one ticket; the ticket afterwards, and a complaint or ``""``."""
    standing = await _ticket(wiring, told.ticket)
    change, complaint = tell(standing, told, wiring.clock.now())
    if change is None:
        return standing, complaint
    (ticket,) = await _settle(wiring, "tickets set", [change])
    return ticket, complaint


async def count_remote(wiring: Wiring, ticket_id: str, step: str) -> Ticket:
    """Count a remote step on a ticket.

    Raises:
        MisconfiguredError: no such ticket, no such step, a step that needs hands, or one that is counted already.
    """
    known = ", ".join(sorted(action.value for action in REMOTE))
    try:
        action = Action(step.lower().replace("-", "_"))
    except ValueError:
        raise MisconfiguredError(f"there is no step {step!r}; expected one of {known}") from None
    if action not in REMOTE:
        raise MisconfiguredError(f"{action.value} needs somebody at the machine; remote steps are {known}")
    standing = await _ticket(wiring, ticket_id)
    change = done_remotely(standing, action, wiring.clock.now())
    if change is None:
        why = "is verified" if not standing.status.is_open else f"has {action.value} counted already"
        raise MisconfiguredError(f"{standing.id} {why}; nothing was changed")
    (ticket,) = await _settle(wiring, "tickets done-remotely", [change])
    return ticket


async def count_step(wiring: Wiring, run: str, node: str, step: Action) -> None:
    """A remote step that we did ourselves counts on the node's tickets that asked for it."""
    tickets = await wiring.store.tickets(node=node, open_only=True)
    asked = [ticket for ticket in tickets if ticket.action is step]
    changes = [done_remotely(ticket, step, wiring.clock.now()) for ticket in asked]
    await wiring.store.settle(run, [change for change in changes if change is not None])


async def _ticket(wiring: Wiring, ticket_id: str) -> Ticket:
    for ticket in await wiring.store.tickets():
        if ticket.id.lower() == ticket_id.lower():
            return ticket
    raise MisconfiguredError(f"there is no ticket {ticket_id!r}; `provision tickets list --all` lists them")


async def _settle(wiring: Wiring, verb: str, changes: Sequence[TicketChange]) -> tuple[Ticket, ...]:
    """No lease is taken: a report may come in while a run works on the node, and neither loses what it wrote."""
    if not changes:
        return ()
    return await wiring.store.settle(new_run(wiring, verb, "", ()).id, changes)


def installed_from(raw: bytes) -> Mapping[str, int]:
    """Model → how many are installed, from a CSV with the columns ``model`` and ``count``.

    Raises:
        MisconfiguredError: no such columns, or a count that is no number; it names the line.
    """
    reader = csv.DictReader(io.StringIO(decoded(raw)))
    if not {"model", "count"} <= set(reader.fieldnames or ()):
        raise MisconfiguredError("the list of installed parts needs the columns model and count in its first line")
    counted: dict[str, int] = {}
    for row in reader:
        count = (row["count"] or "").strip()
        if not count.isascii() or not count.isdigit() or len(count) > 9:
            raise MisconfiguredError(f"line {reader.line_num} of the installed parts: {clean(count)!r} is no number")
        counted[(row["model"] or "").strip()] = int(count)
    return counted


async def review(wiring: Wiring, installed: Mapping[str, int]) -> dict[str, Any]:
    """Lemons, parts that took their fault along, bad lots, and how often each rule sent somebody for nothing."""
    tickets = await wiring.store.tickets()
    weights = {rule.id: rule.weight for rule in packaged_rules()}
    return {
        "lemons": [
            {"name": one.name, "why": one.why, "tickets": list(one.tickets)}
            for one in (*lemons(tickets, wiring.clock.now()), *moved_parts(tickets))
        ],
        "bad_lots": [
            {"model": lot.model, "category": lot.category, "failed": lot.failed, "of": lot.installed, "odds": lot.odds}
            for lot in bad_lots(tickets, installed)
        ],
        "rules": [
            {
                "rule": rule,
                "visits": both[0],
                "no_fault_found": both[1],
                "weight": weighed(weights.get(rule, 0.7), both),
            }
            for rule, both in sorted(visits(tickets).items())
        ],
    }


async def why(wiring: Wiring, node: str, *, limit: int = 500) -> list[str]:
    """The reasoning about one node in plain words, from what is stored: no peer is asked."""
    states = await wiring.store.states([node])
    lines = [f"{node} was never looked at; `provision triage {node}` looks now"] if not states else []
    for state in states:
        ended = state.outcome.value if state.outcome else state.what
        lines.append(
            f"{node}: {ended} at {state.stage or 'the start'} since {state.since:%Y-%m-%d %H:%M} UTC: {state.why}"
        )
    reported = visits(await wiring.store.tickets())
    tickets = await wiring.store.tickets(node=node, open_only=True)
    for ticket in tickets:
        lines += _reasons(ticket, reported)
    if not tickets:
        lines.append("No ticket is open: nobody is asked to go there.")
    seen: dict[str, str] = {}
    for event in await wiring.store.history(node, limit=limit):
        if event.get("event") == "finding-made":
            seen[f"{event.get('rule')} {event.get('locator')}"] = f"{event.get('rule')}: {event.get('ask')}"
    if seen:
        lines.append("Nobody goes for these, and this is why:")
        lines += [f"  {said}" for said in list(seen.values())[-10:]]
    return [clean(line) for line in lines]


def _reasons(ticket: Ticket, reported: Mapping[str, tuple[int, int]]) -> list[str]:
    trust = weighed(ticket.confidence, reported.get(ticket.rule, (0, 0)))
    lines = [
        f"{ticket.id} ({ticket.status.value}, {ticket.priority}, attempt {ticket.attempt}): "
        f"{ticket.locator}: {ticket.ask}",
        f"  because: {ticket.why}",
        f"  rule {ticket.rule}, confidence {trust:.2f}; `provision rules show {ticket.rule}` tells the rule",
    ]
    if ticket.rule in reported:
        lines.append(
            f"  this rule sent somebody {reported[ticket.rule][0]} times, {reported[ticket.rule][1]} for nothing"
        )
    lines += [f"  seen: {said}" for said in ticket.evidence]
    if step := proposed(ticket):
        lines.append(
            f"  before anybody goes: {step}; then `provision tickets done-remotely {ticket.id} {step}`, and bring it up"
        )
    elif ticket.steps_done:
        lines.append(f"  done remotely, and it was still there: {', '.join(ticket.steps_done)}")
    if ticket.held_by:
        lines.append(f"  nobody is sent for this one: {ticket.held_by} explains it")
    if ticket.nodes:
        lines.append(f"  shared by {', '.join(ticket.nodes)}")
    if ticket.technician_note or ticket.found:
        lines.append(f"  a technician says: {ticket.found} {ticket.technician_note}")
    return [*lines, f"  what would change it: {ticket.verify}"]


def wiring_of(app: Any) -> Wiring:
    """What the app is built on; the verbs of this file need no more of it."""
    wiring: Wiring = app._wiring
    return wiring


def one(wiring: Wiring, name: str) -> Node:
    """The node of that name.

    Raises:
        MisconfiguredError: it is not the name of one node.
    """
    nodes = wiring.select(name)
    if len(nodes) != 1 or nodes[0].name != name:
        raise MisconfiguredError(f"{name} is not the name of one node; this verb takes exactly one node")
    return nodes[0]


def nodes_of(inventory: Path) -> tuple[Node, ...]:
    """Every node of the site, for the picture of a rack."""
    return tuple(load(inventory).nodes.values())
