"""What people and remote steps do to tickets. Pure; only the machine closes one (desk.py)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from provision.model.finding import Action
from provision.model.ticket import ChangeKind, Ticket, TicketChange, TicketStatus, Told

_ORDER = (
    TicketStatus.OPEN,
    TicketStatus.REOPENED,
    TicketStatus.SENT,
    TicketStatus.IN_WORK,
    TicketStatus.DONE_BY_TECHNICIAN,
)
REMOTE = frozenset(action for action in Action if action.remote)
"""Actions that need nobody in the cage (an AC cycle by a switched PDU outlet)."""


def tell(ticket: Ticket, told: Told, now: datetime) -> tuple[TicketChange | None, str]:
    """The move that a filled-in row asks for (None if it says nothing that is not known), and a complaint or ``""``.

    A row of an earlier attempt, or a step backwards, moves nothing; its note is kept all the same.
    """
    complaint = ""
    status = ticket.status
    if told.status is not None and told.status is not ticket.status:
        if told.status is TicketStatus.VERIFIED:
            complaint = f"{ticket.id} is closed by the machine when it looks again, not by hand; say done-by-technician"
        elif not ticket.status.is_open:
            complaint = f"{ticket.id} was verified meanwhile; its status stays"
        elif told.attempt and told.attempt < ticket.attempt:
            complaint = (
                f"{ticket.id} is at attempt {ticket.attempt}, the row is of attempt {told.attempt}: export again"
            )
        elif told.status in _ORDER and _ORDER.index(told.status) > _ORDER.index(ticket.status):
            status = told.status
        elif told.status not in {TicketStatus.OPEN, TicketStatus.REOPENED}:
            complaint = f"{ticket.id} is {ticket.status.value} already; {told.status.value} would be a step back"
    after = replace(
        ticket,
        status=status,
        technician_note=_added(ticket.technician_note, told.note),
        found=told.found.value if told.found is not None else ticket.found,
        part_swapped=told.part_swapped or ticket.part_swapped,
        new_serial=told.new_serial or ticket.new_serial,
    )
    if after == ticket:
        return None, complaint
    said = ", ".join(part for part in (after.status.value, after.found, told.note[:80]) if part)
    return TicketChange(ChangeKind.TOLD, replace(after, updated_at=now), f"a technician says: {said}"), complaint


def _added(before: str, note: str) -> str:
    """Notes are added, never replaced; one that stands there already is not written twice."""
    if not note or note in before:
        return before
    return f"{before} | {note}" if before else note


def done_remotely(ticket: Ticket, step: Action, now: datetime) -> TicketChange | None:
    """The move that counts a remote step; None if the ticket is over or has it already.

    The next look decides: if the fault is gone the ticket closes, if it is still there somebody goes (desk.py).
    """
    if not ticket.status.is_open or step.value in ticket.steps_done or step not in REMOTE:
        return None
    steps = (*ticket.steps_done, step.value)
    return TicketChange(
        ChangeKind.REMOTE, replace(ticket, steps_done=steps, updated_at=now), f"done remotely: {step.value}"
    )


def proposed(ticket: Ticket) -> str:
    """The remote step that should be tried before anybody goes; empty if somebody should go."""
    return ticket.remote_first
