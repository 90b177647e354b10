"""A finding with a life."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from provision.model.evidence import PartKind
from provision.model.finding import Action, Category, Dispatch


class TicketStatus(StrEnum):
    """Open until its verify step passed, by machine."""

    OPEN = "open"
    SENT = "sent"
    IN_WORK = "in-work"
    DONE_BY_TECHNICIAN = "done-by-technician"
    VERIFIED = "verified"
    REOPENED = "reopened"

    @property
    def is_open(self) -> bool:
        """True while somebody still has to do or check something."""
        return self is not TicketStatus.VERIFIED


@dataclass(frozen=True, slots=True)
class Ticket:
    """One repair order. Field meanings are the CSV's columns (facts: triage 4.1).

    ``dedupe_key`` is ``site|asset|category|locator``; there is never a second open ticket with the same key.
    ``attempt`` counts the visits asked for, starting at 1. ``evidence`` holds at most three lines.
    """

    id: str
    dedupe_key: str
    status: TicketStatus
    node: str
    category: Category
    component: str
    part_kind: PartKind
    part_name: str
    locator: str
    action: Action
    dispatch: Dispatch
    ask: str
    rule: str
    confidence: float
    opened_at: datetime
    updated_at: datetime
    attempt: int = 1
    peer_end: str = ""
    evidence: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    steps_done: tuple[str, ...] = ()
    priority: str = "P2"
    verify: str = ""
    why: str = ""
    technician_note: str = ""
    # What a person found, what was swapped for what; and which part it is about (model and serial as the BMC prints).
    found: str = ""
    part_swapped: str = ""
    new_serial: str = ""
    part_number: str = ""
    serial: str = ""
    # What several machines share, in words, when that explains this one: nobody is sent for it meanwhile.
    held_by: str = ""

    @property
    def remote_first(self) -> str:
        """The remote step that is to be tried before anybody goes; empty if somebody should go."""
        waits = self.dispatch is Dispatch.AFTER_REPEAT and self.action.remote
        return self.action.value if waits and self.action.value not in self.steps_done else ""


class Found(StrEnum):
    """What a technician says of a visit. NO_FAULT lowers the weight of the rule that asked for it."""

    FIXED = "fixed"
    NO_FAULT = "no-fault-found"
    OTHER_PART = "other-part"
    NOT_DONE = "not-done"


@dataclass(frozen=True, slots=True)
class Told:
    """What somebody filled in for one ticket. Empty: left alone. ``attempt`` as it stood in the row, 0 if unknown."""

    ticket: str
    status: TicketStatus | None = None
    note: str = ""
    found: Found | None = None
    part_swapped: str = ""
    new_serial: str = ""
    attempt: int = 0


class ChangeKind(StrEnum):
    """What the desk does to a ticket."""

    OPEN = "open"
    SEEN_AGAIN = "seen-again"
    REOPEN = "reopen"
    VERIFY = "verify"
    TOLD = "told"
    REMOTE = "remote-step"


@dataclass(frozen=True, slots=True)
class TicketChange:
    """One move on the desk: the ticket as it is to be afterwards, and why."""

    kind: ChangeKind
    ticket: Ticket
    why: str
