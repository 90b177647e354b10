"""Tickets: one open ticket per fault, ids that never come twice, all moves or none."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from provision.errors import RefusedError
from provision.model.evidence import PartKind
from provision.model.finding import Action, Category, Dispatch
from provision.model.ticket import ChangeKind, Ticket, TicketChange, TicketStatus
from provision.store.journal import open_store
from tests.store.conftest import Place

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def ticket(node: str = "a", locator: str = "PSU 2", **changes: object) -> Ticket:
    made = Ticket(
        "", f"ams1|{node}|psu|{locator}", TicketStatus.OPEN, node, Category.PSU, "psu", PartKind.PSU, "PSU.Slot.2",
        locator, Action.RESEAT_CABLE, Dispatch.NOW, "Reseat the cord.", "PSU-NO-INPUT", 0.9, NOW, NOW,
        evidence=("one", "two"), nodes=(node,), steps_done=("looked",), priority="P3",
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def opening(made: Ticket) -> TicketChange:
    return TicketChange(ChangeKind.OPEN, made, "seen")


async def test_a_ticket_lives_from_open_to_verified_and_again(place: Place) -> None:
    store = open_store(place.address)
    first, second = await store.settle("r1", [opening(ticket()), opening(ticket("b"))])
    assert (first.id, second.id) == ("T-0001", "T-0002")
    assert replace(first, id="") == ticket()

    later = NOW + timedelta(hours=1)
    again = replace(first, attempt=2, updated_at=later, evidence=("three",))
    done = replace(second, status=TicketStatus.VERIFIED, updated_at=later)
    assert await store.settle(
        "r2",
        [TicketChange(ChangeKind.SEEN_AGAIN, again, "again"), TicketChange(ChangeKind.VERIFY, done, "looked: well")],
    ) == (again, done)
    assert await store.tickets() == (again, done)
    assert await store.tickets(open_only=True) == (again,)
    assert await store.tickets(node="b") == (done,)

    (third,) = await store.settle("r3", [opening(ticket("b", previous=(second.id,)))])
    assert (third.id, third.previous) == ("T-0003", ("T-0002",))
    await store.close()
    store = open_store(place.address)
    assert [t.id for t in await store.tickets(node="b")] == ["T-0002", "T-0003"]
    moves = place.sql("SELECT ticket, run, kind FROM ticket_moves ORDER BY id")
    assert moves == [
        (1, "r1", "open"),
        (2, "r1", "open"),
        (1, "r2", "seen-again"),
        (2, "r2", "verify"),
        (3, "r3", "open"),
    ]
    await store.close()


async def test_a_second_open_ticket_for_one_fault_is_refused_and_nothing_else_moves(place: Place) -> None:
    store = open_store(place.address)
    (first,) = await store.settle("r1", [opening(ticket())])
    with pytest.raises(RefusedError, match=r"T-0001 is open for ams1\|a\|psu\|PSU 2 already"):
        await store.settle("r1", [opening(ticket("b")), opening(ticket())])
    assert await store.tickets() == (first,)
    (verified,) = await store.settle(
        "r1", [TicketChange(ChangeKind.VERIFY, replace(first, status=TicketStatus.VERIFIED), "")]
    )
    (second,) = await store.settle("r1", [opening(ticket())])
    with pytest.raises(RefusedError, match="T-0002 is open"):
        await store.settle("r1", [TicketChange(ChangeKind.REOPEN, replace(verified, status=TicketStatus.REOPENED), "")])
    assert [t.status for t in await store.tickets()] == [TicketStatus.VERIFIED, TicketStatus.OPEN]
    assert second.id == "T-0002"
    await store.close()


async def test_the_database_itself_refuses_a_second_open_ticket(place: Place) -> None:
    store = open_store(place.address)
    await store.settle("r1", [opening(ticket())])
    await store.close()
    with pytest.raises(Exception, match=r"UNIQUE|uq_tickets_open"):
        place.sql(
            "INSERT INTO tickets SELECT 7, dedupe_key, 'reopened', node, opened_at, updated_at, body FROM tickets"
        )


@pytest.mark.parametrize("ticket_id", ["T-0009", "", "X", "T-", "T-٣"])
async def test_a_move_of_a_ticket_that_is_not_there(place: Place, ticket_id: str) -> None:
    store = open_store(place.address)
    with pytest.raises(RefusedError, match=r"no ticket T-0009|is not a ticket"):
        await store.settle("r1", [TicketChange(ChangeKind.VERIFY, ticket(id=ticket_id), "")])
    await store.close()


async def test_a_ticket_of_a_shared_cause_is_found_under_each_node(place: Place) -> None:
    store = open_store(place.address)
    (shared,) = await store.settle("r1", [opening(ticket("a", "PDU 12a", nodes=("a", "b", "c")))])
    assert await store.tickets(node="c") == (shared,)
    assert await store.tickets(node="d") == ()
    await store.close()


async def test_two_processes_worth_of_tickets_get_different_ids(place: Place) -> None:
    stores = [open_store(place.address) for _ in range(4)]
    made = await asyncio.gather(
        *(
            store.settle("r", [opening(ticket(f"n{place}-{n}"))])
            for n in range(10)
            for place, store in enumerate(stores)
        )
    )
    assert sorted(t.id for (t,) in made) == [f"T-{n:04d}" for n in range(1, 41)]
    for store in stores:
        await store.close()


async def test_hostile_and_secret_texts_in_tickets(place: Place) -> None:
    store = open_store(place.address)
    store.scrub = lambda text: text.replace("hunter2", "***")
    (kept,) = await store.settle(
        "r1",
        [opening(ticket(evidence=("\0\udcffline hunter2", "y" * 1_000_000), ask="=cmd|'/c calc'!A1", why="hunter2"))],
    )
    assert kept.evidence[0] == "\ufffd?line ***"
    assert len(kept.evidence[1]) < 10_000
    assert kept.ask == "=cmd|'/c calc'!A1"
    await store.close()
    assert b"hunter2" not in place.stored()
