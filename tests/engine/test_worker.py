"""A worker takes its share, gives back what it cannot finish, and asks for its lease before every write."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from provision.engine.fleet import Fleet
from provision.engine.worker import Worker
from provision.errors import MisconfiguredError, RefusedError
from provision.model.node import Node
from provision.model.run import Run
from provision.model.site import Site
from provision.stages import BRING_UP
from provision.store.journal import Store, open_store
from provision.store.wanted import WantedBook, wanted_of
from tests.fakes import (
    PROFILE,
    FakeJournal,
    World,
    judge_simply,
    make_run,
    no_causes,
    rack,
    real_desk,
    tools_for,
)


def fleet_on(world: World, journal: FakeJournal | None = None) -> Fleet:
    return Fleet(
        stages=BRING_UP,
        journal=journal or FakeJournal(world),
        clock=world.clock,
        site=Site(),
        judge=judge_simply,
        desk=real_desk(),
        fleet_causes=no_causes,
        tools_for=tools_for(world, site=Site(), judge=judge_simply, bmcs=[]),
        emit=lambda event: None,
    )


class Shop:
    """A store with wishes, and workers that carry them on a world in memory."""

    def __init__(self, folder: Path, size: int = 4) -> None:
        self.nodes = rack(size)
        self.world = World(self.nodes)
        self.store: Store = open_store(folder)
        self.book: WantedBook = wanted_of(self.store)
        self.told: list[str] = []
        self.runs: list[Run] = []
        self.before: Callable[[Run, Sequence[Node]], None] = lambda run, nodes: None
        self.asked_by = ""

    async def ask(self) -> None:
        await self.book.ask([node.name for node in self.nodes], "rack-12", "anna@here")

    def worker(self, name: str = "w1", *, most: int = 256) -> Worker:
        async def fleet_of(run: Run, nodes: Sequence[Node]) -> Fleet:
            self.runs.append(run)
            self.before(run, nodes)
            return fleet_on(self.world)

        return Worker(
            name=name,
            host=os.uname().nodename,
            pid=os.getpid(),
            book=self.book,
            journal=self.store,
            clock=self.world.clock,
            nodes={node.name: node for node in self.nodes},
            profiles={"h100": PROFILE},
            new_run=lambda: replace(make_run(self.world, (), len(self.runs) + 1), id=f"{name}-{len(self.runs)}"),
            fleet_of=fleet_of,
            tell=self.told.append,
            asked=self.who_asked,
            most=most,
        )

    async def who_asked(self, run: str) -> str:
        return self.asked_by

    async def outcomes(self) -> dict[str, str]:
        return {name: want.outcome for name, want in (await self.book.standing([n.name for n in self.nodes])).items()}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


async def test_what_is_wanted_is_brought_up_and_the_worker_leaves(shop: Shop) -> None:
    await shop.ask()
    await shop.worker(most=3).serve(once=True)
    assert await shop.outcomes() == {node.name: "ready" for node in shop.nodes}
    assert [len(run.nodes) for run in shop.runs] == [3, 1], "no more at once than it was told"
    assert {run.lease_s for run in shop.runs} == {20.0}
    assert all(metal.deployments == 1 for metal in shop.world.metal.values())
    assert await shop.book.workers() == ()
    await shop.store.close()


async def test_two_workers_share_evenly(shop: Shop) -> None:
    await shop.ask()
    one, two = shop.worker("w1"), shop.worker("w2")
    for name in ("w1", "w2"):
        await shop.book.alive(name, os.uname().nodename, os.getpid(), 20.0)
    await asyncio.gather(one.serve(once=True), two.serve(once=True))
    assert sorted(len(run.nodes) for run in shop.runs) == [2, 2]
    assert await shop.outcomes() == {node.name: "ready" for node in shop.nodes}
    await shop.store.close()


async def test_what_cannot_be_done_at_all_is_said_once(shop: Shop) -> None:
    def refuse(run: Run, nodes: Sequence[Node]) -> None:
        raise MisconfiguredError("MAAS has no series jammy; import it")

    shop.before = refuse
    await shop.ask()
    await shop.worker().serve(once=True)
    wants = await shop.book.standing([node.name for node in shop.nodes])
    assert {(want.outcome, want.why) for want in wants.values()} == {
        ("needs-us", "MAAS has no series jammy; import it")
    }
    assert len(shop.runs) == 1
    await shop.store.close()


async def test_a_bug_of_ours_ends_the_share_and_not_the_worker(shop: Shop) -> None:
    def stumble(run: Run, nodes: Sequence[Node]) -> None:
        if len(shop.runs) == 1:
            raise KeyError("x")

    shop.before = stumble
    await shop.ask()
    await shop.worker(most=3).serve(once=True)
    assert sorted((await shop.outcomes()).values()) == ["needs-us"] * 3 + ["ready"]
    assert any("KeyError" in line for line in shop.told)
    await shop.store.close()


async def test_asked_to_stop_it_gives_back_what_is_unfinished(shop: Shop) -> None:
    await shop.ask()
    worker = shop.worker()

    def stop(run: Run, nodes: Sequence[Node]) -> None:
        worker.request_stop()

    shop.before = stop
    await worker.serve()
    assert set((await shop.outcomes()).values()) == {""}
    assert shop.world.writes == []
    shop.before = lambda run, nodes: None
    await shop.worker("w2").serve(once=True)
    assert set((await shop.outcomes()).values()) == {"ready"}
    await shop.store.close()


async def test_a_run_that_a_person_cancels_is_wanted_no_more(shop: Shop) -> None:
    await shop.ask()
    shop.asked_by = "ben@there"
    await shop.worker().serve(once=True)
    wants = await shop.book.standing([node.name for node in shop.nodes])
    assert {want.outcome for want in wants.values()} == {"interrupted"}
    assert all(want.why.endswith("ended by ben@there") for want in wants.values())
    assert len(shop.runs) == 1
    await shop.store.close()


class Fenced(FakeJournal):
    """A store in which somebody takes the run over just before its ``at``-th write."""

    at, asked = 1, 0

    async def heartbeat(self, run: str) -> None:
        # The fleet's own signs of life come between writes; what counts here is asked with an intent written down.
        self.asked += bool(self.open)
        if self.asked >= self.at:
            raise RefusedError("store", "heartbeat", f"run {run} was silent and is taken over by run other")


@pytest.mark.parametrize("at", range(1, 8))
async def test_a_run_that_lost_its_lease_between_look_and_write_sends_nothing(at: int) -> None:
    world = World(nodes := rack(1))
    journal = Fenced(world)
    journal.at = at
    run = replace(make_run(world, nodes), lease_s=1e9)
    (ended,) = (await fleet_on(world, journal).run(run, nodes, {"h100": PROFILE})).values()
    assert len(world.writes) == at - 1
    assert len(journal.all_attempts) == at
    assert (ended.outcome.value, "taken over by run other" in ended.why) == ("interrupted", True)


async def test_a_run_that_a_person_watches_asks_for_nothing() -> None:
    world = World(nodes := rack(1))
    journal = FakeJournal(world)
    (ended,) = (await fleet_on(world, journal).run(make_run(world, nodes), nodes, {"h100": PROFILE})).values()
    assert ended.outcome.value == "ready"
