"""What many tickets say together: lemons, faults that moved with a part, bad lots, rules that send for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from provision.model.ticket import Found, Ticket

# Three different faults in thirty days are no accident any more (facts: triage 5.7; Meta's "lemon" nodes).
KEYS, WINDOW = 3, timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Lemon:
    """A node, or a part, that keeps failing."""

    name: str
    why: str
    tickets: tuple[str, ...]


def lemons(tickets: Sequence[Ticket], now: datetime) -> tuple[Lemon, ...]:
    """Nodes with three different faults in thirty days. A cause that several nodes share counts for none of them."""
    found = []
    mine: dict[str, list[Ticket]] = {}
    for ticket in tickets:
        if len(ticket.nodes) <= 1 and now - ticket.updated_at <= WINDOW:
            mine.setdefault(ticket.node, []).append(ticket)
    for node, theirs in sorted(mine.items()):
        keys = {ticket.dedupe_key for ticket in theirs}
        visits = sum(ticket.attempt for ticket in theirs)
        if len(keys) >= KEYS or max(ticket.attempt for ticket in theirs) >= KEYS:
            why = f"{len(keys)} different faults, {visits} visits asked for in {WINDOW.days} days"
            found.append(Lemon(node, why, tuple(ticket.id for ticket in theirs)))
    return tuple(found)


def moved_parts(tickets: Sequence[Ticket]) -> tuple[Lemon, ...]:
    """Parts whose fault went with them to another place: the same serial number in tickets of different places."""
    by_serial: dict[tuple[str, str], list[Ticket]] = {}
    for ticket in tickets:
        if ticket.serial:
            by_serial.setdefault((ticket.category.value, ticket.serial), []).append(ticket)
    return tuple(
        Lemon(
            f"{category} {serial}",
            f"failed in {' and in '.join(dict.fromkeys(f'{t.node} {t.locator}' for t in theirs))}: replace the part",
            tuple(t.id for t in theirs),
        )
        for (category, serial), theirs in sorted(by_serial.items())
        if len({(t.node, t.locator) for t in theirs}) > 1
    )


@dataclass(frozen=True, slots=True)
class Lot:
    """A model that fails more often than its kind. ``odds`` against all other models of the same category."""

    category: str
    model: str
    failed: int
    installed: int
    odds: float


def bad_lots(tickets: Iterable[Ticket], installed: Mapping[str, int]) -> tuple[Lot, ...]:
    """Models with three or more failed parts and odds of three or more against the other models of their kind.

    ``installed`` says how many of each model there are; a model that it does not name is not judged. Odds ratio with
    half a part added to each cell (Haldane), so that nought of many is no division by nought.
    """
    failed: dict[tuple[str, str], set[str]] = {}
    for ticket in tickets:
        if ticket.part_number in installed:
            failed.setdefault((ticket.category.value, ticket.part_number), set()).add(ticket.dedupe_key)
    lots = []
    for (category, model), keys in sorted(failed.items()):
        others = {name for (other, name) in failed if other == category} - {model}
        here, total = len(keys), installed[model]
        there = sum(len(failed[category, name]) for name in others)
        rest = sum(installed[name] for name in others)
        odds = ((here + 0.5) / (max(0, total - here) + 0.5)) / ((there + 0.5) / (max(0, rest - there) + 0.5))
        if here >= KEYS and rest and odds >= 3:
            lots.append(Lot(category, model, here, total, round(odds, 1)))
    return tuple(lots)


def visits(tickets: Iterable[Ticket]) -> dict[str, tuple[int, int]]:
    """Per rule: visits that somebody reported on, and how many of them found no fault."""
    counted: dict[str, tuple[int, int]] = {}
    for ticket in tickets:
        if ticket.found and ticket.found != Found.NOT_DONE.value:
            all_of, none = counted.get(ticket.rule, (0, 0))
            counted[ticket.rule] = (all_of + 1, none + (ticket.found == Found.NO_FAULT.value))
    return counted


def weighed(confidence: float, reported: tuple[int, int]) -> float:
    """A rule's confidence after what technicians found: each visit for nothing counts, two are taken as good."""
    all_of, none = reported
    return round(confidence * (1 - none / (all_of + 2)), 2)
