"""Limits, turns and brakes in the store: held by all who share it, and by the same rules as in one process."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from provision.engine.gates import LocalGates
from provision.errors import RefusedError
from provision.model.run import Run
from provision.model.slot import Ask
from provision.ports import Gates
from provision.store.gates import gates_of
from provision.store.journal import Store, open_store
from provision.store.operators import operators_of
from tests.store.conftest import Place


class Time:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 29, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def run_of(run_id: str, *nodes: str, user: str = "anna") -> Run:
    started = datetime(2026, 11, 29, 12, tzinfo=UTC)
    return Run(run_id, "bringup", nodes, user, os.uname().nodename, os.getpid(), started, "rack-12")


def ask(node: str, *places: tuple[str, int], operation: str = "deployment", brakes: tuple[str, ...] = ()) -> Ask:
    return Ask(node, operation, places or (("in flight", 2),), brakes)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def store(place: Place, time: Time) -> AsyncIterator[Store]:
    one = open_store(place.address, now=time.now)
    await one.start_run(run_of("r1", *(f"n{number}" for number in range(20))))
    yield one
    await one.close()


@pytest.fixture(params=["store", "process"])
def gates(request: pytest.FixtureRequest, store: Store, time: Time) -> Gates:
    """The same tests for the book of all and for the one of a single run."""
    return gates_of(store) if request.param == "store" else LocalGates(time)


async def test_room_is_given_in_order_and_named_where_there_is_none(gates: Gates) -> None:
    rack = ("in flight on rack r", 1)
    answers = await gates.take("r1", [ask("n1", ("in flight", 3), rack), ask("n2", ("in flight", 3), rack), ask("n3")])
    assert answers == ("", "1 of 1 in flight on rack r", "")
    assert await gates.take("r1", [ask("n4")]) == ("2 of 2 in flight",)
    await gates.free("n1", "r1")
    assert await gates.take("r1", [ask("n2", ("in flight", 3), rack)]) == ("",)
    # A fact is held over every limit, and a node has one slot.
    await gates.hold("r1", ask("n9"))
    await gates.hold("r1", ask("n9", operation="commissioning"))
    held = {slot.node: slot.operation for slot in await gates.slots()}
    assert held == {"n2": "deployment", "n3": "deployment", "n9": "commissioning"}
    assert await gates.inherit("r1", ["n9", "n8"]) == {"n9": "commissioning"}


async def test_turns_are_reserved_so_that_no_window_holds_more(gates: Gates, time: Time) -> None:
    draw = random.Random(3)
    moments = []
    for number in range(40):
        moments.append(time.monotonic() + await gates.turn("r1", f"n{number}", "reboots", 4, 60))
        time.at += timedelta(seconds=draw.choice([0, 0, 1, 7]))
    assert moments == sorted(moments)
    assert all(later - first >= 60 for first, later in zip(moments, moments[4:], strict=False))
    assert moments[3] - moments[0] < 60, "no more waiting than is needed"


async def test_a_stopped_place_lets_nobody_in_until_it_is_resumed(gates: Gates) -> None:
    assert await gates.brake("r1", "rack r", "4 of 4 failed")
    assert not await gates.brake("r1", "rack r", "again")
    (kept_out,) = await gates.take("r1", [ask("n1", brakes=("feed p", "rack r"))])
    assert kept_out == "rack r is stopped (4 of 4 failed); to go on there: provision resume rack r"
    assert await gates.take("r1", [ask("n2", brakes=("rack s",))]) == ("",)
    await gates.tally("r1", "n1", "deploy", ["rack r", "image i"], ok=False, within_s=100)
    await gates.resume(["rack r"])
    assert await gates.brakes() == ()
    assert await gates.take("r1", [ask("n1", brakes=("rack r",))]) == ("",)
    # Failures of before are forgotten in all of their places.
    counted = await gates.tally("r1", "n3", "deploy", ["rack r", "image i"], ok=True, within_s=100)
    assert {item.node for item in counted} == {"n3"}


async def test_old_outcomes_are_not_told(gates: Gates, time: Time) -> None:
    await gates.tally("r1", "n1", "deploy", ["rack r"], ok=False, within_s=100)
    time.at += timedelta(seconds=101)
    counted = await gates.tally("r1", "n2", "deploy", ["rack r"], ok=False, within_s=100)
    assert [item.node for item in counted] == ["n2"]


async def test_a_clock_that_is_set_back_keeps_nobody_waiting_for_a_year(store: Store, time: Time) -> None:
    gates = gates_of(store)
    time.at += timedelta(days=365)
    for number in range(4):
        await gates.turn("r1", f"n{number}", "reboots", 4, 60)
    time.at -= timedelta(days=365)
    assert await gates.turn("r1", "n5", "reboots", 4, 60) == 0


async def test_many_at_once_never_take_more_than_there_is(place: Place) -> None:
    """Four processes' worth of connections race for seven slots, giving back and taking again."""
    stores = [open_store(place.address) for _ in range(4)]
    most, limit = 0, 7
    for number, one in enumerate(stores):
        await one.start_run(run_of(f"r{number}", *(f"n{number}-{i}" for i in range(6))))

    async def work(number: int) -> None:
        nonlocal most
        gates, draw = gates_of(stores[number]), random.Random(number)
        for _ in range(25):
            node = f"n{number}-{draw.randrange(6)}"
            if draw.random() < 0.7:
                await gates.take(f"r{number}", [ask(node, ("in flight", limit))])
            else:
                await gates.free(node, f"r{number}")
            most = max(most, len(await gates.slots()))

    await asyncio.gather(*(work(number) for number in range(4)))
    assert most == limit, "the race was for more than there is"
    for one in stores:
        await one.close()


async def test_a_slot_outlives_its_run_and_says_so(store: Store, time: Time) -> None:
    gates = gates_of(store)
    await gates.take("r1", [ask("n1")])
    await store.end_run("r1", 130)
    (slot,) = await gates.slots()
    assert (slot.node, slot.user, slot.live) == ("n1", "anna", False)
    with pytest.raises(RefusedError, match="over"):
        await gates.hold("r1", ask("n2"))
    await store.start_run(run_of("r2", "n1"))
    assert await gates.inherit("r2", ["n1"]) == {"n1": "deployment"}
    await gates.free("n1", "r1")
    assert [slot.run for slot in await gates.slots()] == ["r2"], "the dead run's late free counts for nothing"


async def test_who_typed_what_and_who_asks_whom_to_end(store: Store, time: Time) -> None:
    operators = operators_of(store)
    await operators.typed("anna", "deploy-1", 7, "bringup", "bringup rack-12")
    (typed,) = await operators.commands()
    assert (typed.user, typed.host, typed.words, typed.at) == ("anna", "deploy-1", "bringup rack-12", time.at)
    assert await operators.asked_to_end("r1") == ""
    await operators.ask_to_end("r1", "bob@deploy-2")
    assert await operators.asked_to_end("r1") == "bob@deploy-2"
    with pytest.raises(RefusedError, match="no run nope"):
        await operators.ask_to_end("nope", "bob")
    (standing,) = await operators.standing()
    assert (standing.status, standing.asked) == ("running", "bob@deploy-2")


async def test_a_run_that_is_taken_over_writes_no_more_and_its_intents_are_void(store: Store) -> None:
    operators = operators_of(store)
    attempt = await store.open_attempt("r1", "n1", "deploy", "deploy", "why")
    assert set(await operators.holders(["n1", "x"])) == {"r1"}
    assert await operators.void("r1", "bob@deploy-2") == 1
    assert await operators.holders(["n1"]) == {}
    (kept,) = await store.attempts("n1")
    assert (kept.id, kept.result, kept.detail) == (attempt, "void", "taken over by bob@deploy-2")
    with pytest.raises(RefusedError, match="taken over by"):
        await store.open_attempt("r1", "n2", "deploy", "deploy", "why")
    await store.start_run(run_of("r2", "n1", user="bob"))
    assert [item.status for item in await operators.standing()] == ["running", "taken over"]
