"""Tickets in the database: ids, the one open ticket per fault, moves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, or_, select, update

from provision.errors import RefusedError
from provision.model.evidence import PartKind
from provision.model.finding import Action, Category, Dispatch
from provision.model.ticket import ChangeKind, Ticket, TicketChange, TicketStatus
from provision.store import locks
from provision.store.schema import ticket_moves, tickets
from provision.store.texts import Scrub, clean, plain, to_json

_COLUMNS = {"id", "dedupe_key", "status", "node", "opened_at", "updated_at"}
_LISTS = {"evidence", "previous", "nodes", "steps_done"}
_ENUMS = {"category": Category, "part_kind": PartKind, "action": Action, "dispatch": Dispatch}


def find(connection: Connection, *, node: str | None, open_only: bool) -> tuple[Ticket, ...]:
    """Tickets, oldest first. A ticket of several nodes is found under each of them."""
    query = select(tickets).order_by(tickets.c.number)
    if open_only:
        query = query.where(tickets.c.status != TicketStatus.VERIFIED.value)
    if node is not None:
        # The body names all nodes of a shared cause; reading it as text is far cheaper than as JSON.
        query = query.where(or_(tickets.c.node == node, tickets.c.body.contains(to_json(node), autoescape=True)))
    found = (_ticket(row) for row in connection.execute(query))
    return tuple(t for t in found if node is None or t.node == node or node in t.nodes)


def settle(
    connection: Connection, run: str, changes: Sequence[TicketChange], *, scrub: Scrub, now: datetime
) -> tuple[Ticket, ...]:
    """Apply the moves, all or none.

    Raises:
        RefusedError: an open ticket has the same dedupe key already, or a ticket to be moved does not exist.
    """
    # Numbers are counted up without gaps, and a move stands on what it has read.
    locks.alone(connection, "tickets")
    return tuple(_apply(connection, run, change, scrub, now) for change in changes)


def _apply(connection: Connection, run: str, change: TicketChange, scrub: Scrub, now: datetime) -> Ticket:
    ticket = change.ticket
    if change.kind is ChangeKind.OPEN:
        number = int(connection.execute(select(func.coalesce(func.max(tickets.c.number), 0))).scalar_one()) + 1
        ticket = replace(ticket, id=_id(number))
    else:
        number = _number(ticket.id)
        ticket = _over(connection, number, change)
    _refuse_second(connection, ticket, number)
    values = _values(ticket, scrub)
    if change.kind is ChangeKind.OPEN:
        connection.execute(insert(tickets).values(number=number, **values))
    elif connection.execute(update(tickets).where(tickets.c.number == number).values(values)).rowcount != 1:
        raise RefusedError("store", "settle tickets", f"there is no ticket {ticket.id}")
    connection.execute(
        insert(ticket_moves).values(
            ticket=number, run=clean(run), at=now, kind=change.kind.value, why=clean(change.why, scrub)
        )
    )
    return _ticket(connection.execute(select(tickets).where(tickets.c.number == number)).one())


def _over(connection: Connection, number: int, change: TicketChange) -> Ticket:
    """The move on top of what stands by this time, so that neither people nor a run lose what they wrote.

    A run that looked before somebody reported keeps the report; a report that was made from an older row keeps what a
    run has found since.
    """
    row = connection.execute(select(tickets).where(tickets.c.number == number)).one_or_none()
    if row is None:
        raise RefusedError("store", "settle tickets", f"there is no ticket {change.ticket.id}")
    stands, wanted = _ticket(row), change.ticket
    theirs = {name: getattr(wanted, name) or getattr(stands, name) for name in _PEOPLES}
    theirs["technician_note"] = _joined(stands.technician_note, wanted.technician_note)
    steps = tuple(dict.fromkeys((*stands.steps_done, *wanted.steps_done)))
    if change.kind is ChangeKind.TOLD:
        moved = wanted.status if stands.status.is_open and wanted.status in _TOLD else stands.status
        return replace(stands, **theirs, status=moved, steps_done=steps, updated_at=wanted.updated_at)
    if change.kind is ChangeKind.REMOTE:
        return replace(stands, steps_done=steps, updated_at=wanted.updated_at)
    kept = {name: getattr(stands, name) or getattr(wanted, name) for name in _PEOPLES}
    told = change.kind is ChangeKind.SEEN_AGAIN and stands.status in _TOLD and wanted.status not in _TOLD
    return replace(wanted, **kept, steps_done=steps, status=stands.status if told else wanted.status)


def _joined(stands: str, told: str) -> str:
    """Both notes, each once: two people may have written from the same list."""
    if stands in told:
        return told
    return stands if told in stands else f"{stands} | {told}"


_PEOPLES = ("technician_note", "found", "part_swapped", "new_serial")
_TOLD = frozenset({TicketStatus.SENT, TicketStatus.IN_WORK, TicketStatus.DONE_BY_TECHNICIAN})


def _refuse_second(connection: Connection, ticket: Ticket, number: int) -> None:
    """The unique index would refuse it too; this names the ticket that is in the way."""
    if not ticket.status.is_open:
        return
    other = connection.execute(
        select(tickets.c.number).where(
            tickets.c.dedupe_key == clean(ticket.dedupe_key),
            tickets.c.status != TicketStatus.VERIFIED.value,
            tickets.c.number != number,
        )
    ).scalar()
    if other is not None:
        raise RefusedError("store", "settle tickets", f"{_id(other)} is open for {ticket.dedupe_key} already")


def _values(ticket: Ticket, scrub: Scrub) -> dict[str, Any]:
    body = {key: value for key, value in asdict(ticket).items() if key not in _COLUMNS}
    return {
        "dedupe_key": clean(ticket.dedupe_key),
        "status": ticket.status.value,
        "node": clean(ticket.node),
        "opened_at": ticket.opened_at,
        "updated_at": ticket.updated_at,
        "body": to_json(plain(body, scrub)),
    }


def _ticket(row: Row[Any]) -> Ticket:
    body = json.loads(row.body)
    # Fields of a later minor version are left in the database and not read.
    known = {key: value for key, value in body.items() if key in Ticket.__dataclass_fields__}
    for key in _LISTS & known.keys():
        known[key] = tuple(known[key])
    for key, kind in _ENUMS.items():
        known[key] = kind(known[key])
    return Ticket(
        id=_id(row.number),
        dedupe_key=row.dedupe_key,
        status=TicketStatus(row.status),
        node=row.node,
        opened_at=row.opened_at,
        updated_at=row.updated_at,
        **known,
    )


def _id(number: int) -> str:
    return f"T-{number:04d}"


def _number(ticket_id: str) -> int:
    digits = ticket_id.removeprefix("T-")
    if not digits.isascii() or not digits.isdigit():
        raise RefusedError("store", "settle tickets", f"{ticket_id!r} is not a ticket: expected such as T-0001")
    return int(digits)
