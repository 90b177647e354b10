"""What is wanted is in one worker's hands at a time, and in another's soon after it has fallen silent."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from provision.errors import RefusedError
from provision.model.decision import Outcome
from provision.model.run import NodeState, Run
from provision.store.journal import Store, open_store
from provision.store.wanted import CLAIM_S, wanted_of
from tests.store.conftest import Place

LEASE_S = 20.0
NODES = ("a", "b", "c", "d")


class Wall:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 29, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def later(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def run_of(run_id: str, *nodes: str, host: str = "", lease_s: float | None = LEASE_S) -> Run:
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    return Run(run_id, "bringup", nodes, "anna", host or os.uname().nodename, os.getpid(), now, "", lease_s)


def first(count: int) -> Callable[[Sequence[str], int, int], Sequence[str]]:
    return lambda free, wanted, workers: free[:count]


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(place: Place, wall: Wall) -> Store:
    return open_store(place.address, now=wall)


async def test_each_node_is_claimed_once(store: Store, wall: Wall) -> None:
    book = wanted_of(store)
    assert await book.ask(NODES, "rack-12", "anna@here") == NODES
    assert await book.ask(("a", "e"), "rack-13", "ben@here") == ("e",), "what is wanted already stays as it is"
    told: list[tuple[Sequence[str], int, int]] = []
    await book.alive("w1", "deploy-1", os.getpid(), LEASE_S)

    def choose(free: Sequence[str], wanted: int, workers: int) -> Sequence[str]:
        told.append((free, wanted, workers))
        return free[:2]

    assert await book.claim("r1", choose) == ("a", "b")
    assert await book.claim("r2", choose) == ("c", "d")
    assert told == [(["a", "b", "c", "d", "e"], 5, 1), (["c", "d", "e"], 5, 1)]
    await store.start_run(run_of("r1", "a", "b"))
    await book.settle("r1", {"a": ("ready", "well"), "b": ("", "")})
    await store.end_run("r1", 0)
    wants = await book.standing(["a", "b", "x"])
    assert {n: (w.run, w.outcome) for n, w in wants.items()} == {"a": ("r1", "ready"), "b": ("", "")}
    assert await book.claim("r3", first(9)) == ("b", "e"), "given back; c and d are about to start"
    wall.later(CLAIM_S + 1)
    assert await book.claim("r4", first(9)) == ("b", "c", "d", "e"), "a claim that never became a run"
    assert await book.ask(("a",), "again", "anna@here") == ("a",)
    assert (await book.standing(["a"]))["a"].outcome == ""
    await store.close()


async def test_silence_passes_the_nodes_on_and_the_late_one_changes_nothing(
    store: Store, place: Place, wall: Wall
) -> None:
    """The worker is only stopped: its process is there all the time."""
    other = open_store(place.address, now=wall)
    book, theirs = wanted_of(store), wanted_of(other)
    await book.ask(NODES, "all", "anna@here")
    await book.claim("slow", first(2))
    await store.start_run(run_of("slow", "a", "b"))
    late = await store.open_attempt("slow", "a", "deploy", "deploy", "x")
    wall.later(LEASE_S)
    assert await theirs.claim("quick", first(9)) == ("c", "d")
    await store.heartbeat("slow")
    wall.later(LEASE_S + 1)
    assert await theirs.claim("next", first(9)) == ("a", "b", "c", "d")
    await other.start_run(run_of("hand", "a", lease_s=None, host="deploy-2"))
    with pytest.raises(RefusedError, match="a is held by bringup"):
        await store.start_run(run_of("never", "a"))
    await other.end_run("hand", 0)
    await other.start_run(run_of("next", "a", "b", host="deploy-3"))
    await other.set_state(NodeState("a", "next", "accept", wall(), "ready", "", Outcome.READY, wall()))
    await theirs.settle("next", {"a": ("ready", "well")})

    for refused in (store.heartbeat("slow"), store.open_attempt("slow", "a", "deploy", "deploy", "again")):
        with pytest.raises(RefusedError, match="run slow was silent and is taken over by run"):
            await refused
    await store.close_attempt(late, "unknown", "no answer")
    await store.set_state(NodeState("a", "slow", "deploy", wall(), "stopped", "late", Outcome.INTERRUPTED, wall()))
    await book.settle("slow", {"a": ("needs-us", "late"), "b": ("", "")})
    assert [s.outcome for s in await store.states()] == [Outcome.READY]
    wants = await book.standing(["a", "b"])
    assert [(wants[n].run, wants[n].outcome) for n in "ab"] == [("next", "ready"), ("next", "")]
    await other.close()
    await store.close()


async def test_workers_are_known_as_long_as_they_say_so(store: Store, wall: Wall) -> None:
    book = wanted_of(store)
    assert await book.workers() == ()
    await book.alive("w1", "deploy-1", os.getpid(), LEASE_S)
    await book.alive("w2", "deploy-2", 4711, LEASE_S)
    wall.later(15)
    await book.alive("w1", "deploy-1", os.getpid(), LEASE_S)
    assert [worker.id for worker in await book.workers()] == ["w1", "w2"]
    wall.later(15)
    assert [worker.id for worker in await book.workers()] == ["w1"]
    await book.gone("w1")
    assert await book.workers() == ()
    await store.close()
