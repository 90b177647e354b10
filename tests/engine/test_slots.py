"""A slot outlives the process that took it; turns are kept; a store that is away is waited for."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from provision.engine.fleet import Fleet
from provision.errors import MisconfiguredError, RefusedError, UnavailableError
from provision.model.decision import Outcome
from provision.model.event import Acted, Event, Said
from provision.model.machine import Status
from provision.model.site import Limits, Site
from tests.engine.conftest import Bench, BookOfAll, MakeBench
from tests.fakes import Killed

ONE, TWO = "gpu-12-01", "gpu-12-02"
FULL = UnavailableError("store /var/lib/provision/store.db", "record an event", "the disk is full; free some space")


async def over(lab: Bench, name: str, operation: str) -> bool:
    """As the app asks: does MAAS still show the machine in it?"""
    return lab.world.status(name) not in {Status.COMMISSIONING, Status.DEPLOYING}


def shared(lab: Bench, live: set[str]) -> BookOfAll:
    lab.over = lambda name, operation: over(lab, name, operation)
    return BookOfAll(lab.world.clock, live)


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_what_a_run_left_going_on_keeps_its_slot_until_it_is_seen_to_be_over(bench: MakeBench, how: str) -> None:
    lab = bench(2, site=Site(limits=Limits(deployments=1)))
    lab.gates = shared(lab, set())
    one, two = lab.nodes

    def end_it(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Acted) and event.step == "deploy":
            if how == "stopped":
                fleet.request_stop()
            else:
                lab.world.die_at = lab.world.points + 1

    lab.watch = end_it
    try:
        await lab.up(one)
    except (Killed, BaseExceptionGroup):
        assert how == "killed"
        lab.world.revive()
    lab.watch = lambda fleet, event: None
    assert lab.world.status(ONE) is Status.DEPLOYING
    assert [slot.node for slot in await lab.gates.slots()] == [ONE]
    # Another run, of another node: it has to wait for a machine that nobody watches.
    assert await lab.outcomes(two) == {TWO: Outcome.READY}
    assert lab.world.most[Status.DEPLOYING] == 1
    assert lab.world.status(ONE) is Status.DEPLOYED
    assert await lab.gates.slots() == ()


async def test_the_next_run_of_the_same_node_goes_on_with_its_slot(bench: MakeBench) -> None:
    """Its early stages see nothing of a deployment, and do not give the slot away."""
    lab = bench(3, site=Site(limits=Limits(deployments=1)))
    lab.gates = shared(lab, set())
    lab.watch = lambda fleet, event: (
        fleet.request_stop() if isinstance(event, Acted) and event.step == "deploy" else None
    )
    await lab.up(lab.nodes[0])
    lab.watch = lambda fleet, event: None
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert lab.world.most[Status.DEPLOYING] == 1


async def test_a_slot_of_before_is_free_when_its_machine_is_found_done(bench: MakeBench) -> None:
    lab = bench(1)
    lab.gates = shared(lab, set())
    lab.watch = lambda fleet, event: (
        fleet.request_stop() if isinstance(event, Acted) and event.step == "deploy" else None
    )
    await lab.up()
    lab.world.clock.jump(2000)
    lab.watch = lambda fleet, event: None
    assert len(await lab.gates.slots()) == 1
    assert await lab.outcomes() == {ONE: Outcome.READY}
    assert await lab.gates.slots() == ()


async def test_machines_start_only_so_often(bench: MakeBench) -> None:
    lab = bench(7, site=Site(limits=Limits(reboots_per_minute=2)))
    started: list[float] = []

    def note(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Acted) and event.step in {"commission", "deploy"}:
            started.append(lab.world.clock.monotonic())

    lab.watch = note
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert len(started) == 14
    assert all(third - first >= 60 for first, third in zip(started, started[2:], strict=False))


async def test_erasures_wait_for_the_hour_and_not_against_the_deadline(bench: MakeBench) -> None:
    lab = bench(2)
    await lab.up()
    lab.site = replace(lab.site, limits=Limits(erasures_per_hour=1), deadlines_s={"deploy": 3000})
    for name in (ONE, TWO):
        await lab.journal.raise_epoch(name, why="asked")
    erased: list[float] = []

    def note(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Acted) and event.step == "release":
            erased.append(lab.world.clock.monotonic())

    lab.watch = note
    ended = await lab.up(may_erase=frozenset({ONE, TWO}))
    assert {end.outcome for end in ended.values()} == {Outcome.READY}
    first, second = erased
    assert second - first >= 3600


async def test_a_full_disk_in_the_middle_is_waited_for(bench: MakeBench) -> None:
    """It is no bug of ours, nothing is begun meanwhile, and no node ends for it."""
    lab = bench(3)

    def fill(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Acted) and event.step == "commission" and lab.journal.error is None:
            lab.journal.error = FULL
            writes.append(len(lab.world.writes))
            lab.world.later(lab.world.metal[ONE], 120, mend)

    def mend() -> None:
        lab.journal.error = None
        writes.append(len(lab.world.writes))
        lab.watch = lambda fleet, event: None

    async def tick() -> None:
        # The world stands still while nobody looks at it; somebody frees the disk at any rate.
        while lab.journal.error is None:
            await lab.world.clock.sleep(10)
        await lab.world.clock.sleep(150)
        mend()

    writes: list[int] = []
    lab.watch = fill
    assert set((await lab.with_beside(tick())).values()) == {Outcome.READY}
    assert writes[1] - writes[0] <= 2, "what was under way when the disk filled, and no more"
    said = [event.text for event in lab.events if isinstance(event, Said)]
    assert any("the disk is full; free some space; nothing is begun until" in text for text in said)
    assert any("can be written again, after" in text for text in said)
    assert not [event for event in lab.journal.events if isinstance(event, Said) and event.level == "bug"]
    assert [metal.deployments for metal in lab.world.metal.values()] == [1, 1, 1]


async def test_a_disk_that_stays_full_ends_the_run_with_what_to_do(bench: MakeBench) -> None:
    lab = bench(2)

    def fill(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Acted) and event.step == "commission":
            lab.journal.error = FULL

    lab.watch = fill
    with pytest.raises(MisconfiguredError, match=r"disk is full.*stayed so for 15 minutes.*run the same command again"):
        await lab.up()
    assert all(bmc.closed for bmc in lab.bmcs)
    lab.journal.error, lab.watch = None, lambda fleet, event: None
    lab.world.clock.jump(60)
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert [metal.deployments for metal in lab.world.metal.values()] == [1, 1]


async def test_a_run_that_was_taken_over_stops_and_is_no_bug(bench: MakeBench) -> None:
    lab = bench(3)
    taken = RefusedError("store", "open an attempt", "run run-1 is taken over by run run-2")
    refusals = itertools.count()

    async def refuse(run: str, node: str, stage: str, step: str, why: str) -> int:
        if stage != "enlist":
            next(refusals)
            raise taken
        return await allowed(run, node, stage, step, why)

    allowed = lab.journal.open_attempt
    lab.journal.open_attempt = refuse  # type: ignore[method-assign]
    outcomes = await lab.outcomes()
    assert set(outcomes.values()) == {Outcome.INTERRUPTED}
    assert next(refusals) >= 1
    assert {operation for _, operation in lab.world.writes} == {"create"}
    said = [event.text for event in lab.events if isinstance(event, Said) and "taken over" in event.text]
    assert len(said) == 1
    assert not [event for event in lab.journal.events if isinstance(event, Said) and event.level == "bug"]
