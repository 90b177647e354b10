"""A bad image and a bad PDU stop after the one that goes first plus those in flight; other racks go on."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from provision.engine.brakes import Brakes
from provision.engine.fleet import Fleet
from provision.engine.gates import LocalGates
from provision.model.decision import Outcome
from provision.model.event import Acted, Event, Said
from provision.model.node import Node
from provision.model.site import BreakerRule, CanaryRule, Limits, Site
from provision.stages import BRING_UP
from tests.engine.conftest import Bench
from tests.fakes import PROFILE, FakeClock, FakeJournal, World, rack

SEEDS = 100
WAIT_S = 60.0
# A quarter of the seeds in every test run: each costs a tenth of a second.
CHUNKS = pytest.mark.parametrize("chunk", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2, 3))])


def hall(draw: random.Random, racks: int, size: int) -> list[Node]:
    """Racks of nodes; within a rack even units hang on one PDU and odd ones on another."""
    nodes = []
    for number in range(racks):
        name = f"rack-{number:02d}"
        for node in rack(size, name):
            feeds = (f"pdu-{number:02d}{'ab'[node.unit % 2]}/{node.unit}",)  # type: ignore[operator]
            tag = f"TAG-{number}-{node.unit}"
            address = f"10.1.{number}.{node.unit}"
            nodes.append(
                replace(
                    node,
                    name=f"n{number:02d}-{node.unit:02d}",
                    bmc_address=address,
                    power_feeds=feeds,
                    service_tag=tag,
                )
            )
    draw.shuffle(nodes)
    return nodes


def bench_of(nodes: list[Node], limits: Limits, *, max_fail: int) -> Bench:
    world = World(nodes)
    site = Site(limits=limits, canary=CanaryRule(1, 4), breaker=BreakerRule(max_fail, 7200, WAIT_S))
    return Bench(nodes, world, FakeJournal(world), site)


def begun(lab: Bench, step: str, names: set[str]) -> set[str]:
    return {e.node for e in lab.events if isinstance(e, Acted) and e.step == step and e.node in names}


@CHUNKS
async def test_a_bad_image_stops_after_the_first_and_those_in_flight(chunk: int) -> None:
    for seed in range(chunk, SEEDS, 4):
        draw = random.Random(seed)
        k = draw.randint(3, 8)
        nodes = hall(draw, 2, 6)
        lab = bench_of(nodes, Limits(in_flight=draw.randint(k, 16), deployments=k), max_fail=draw.randint(1, 3))
        lab.stages = BRING_UP[:5]
        for metal in lab.world.metal.values():
            metal.deploy_fails = 9
        ended = await lab.up()
        tried = begun(lab, "deploy", {node.name for node in nodes})
        # One goes first in each of the two racks.
        assert len(tried) <= 2 + k, (seed, k, tried)
        assert {end.outcome for end in ended.values()} == {Outcome.NEEDS_US}
        waited = [end for name, end in ended.items() if name not in tried]
        assert all("provision resume" in end.why for end in waited), seed
        assert any("is stopped" in e.text for e in lab.events if isinstance(e, Said)), seed


@CHUNKS
async def test_a_bad_pdu_stops_its_feed_and_nothing_else(chunk: int) -> None:
    for seed in range(chunk, SEEDS, 4):
        draw = random.Random(seed)
        k = draw.randint(3, 6)
        nodes = hall(draw, 2, 10)
        lab = bench_of(nodes, Limits(per_power_feed=k), max_fail=draw.randint(1, min(3, k - 1)))
        lab.stages = BRING_UP[:4]
        bad = {node.name for node in nodes if node.power_feeds[0].startswith("pdu-00a")}
        for name in bad:
            lab.world.metal[name].commission_fails = 9
        ended = await lab.up()
        tried = begun(lab, "commission", bad)
        assert len(tried) <= 1 + k, (seed, k, tried)
        good = {name: end.outcome for name, end in ended.items() if name not in bad}
        assert set(good.values()) == {Outcome.READY}, seed
        assert all(ended[name].outcome is not Outcome.READY for name in bad)
        stopped = [e.text for e in lab.events if isinstance(e, Said) and "is stopped" in e.text]
        assert len(stopped) == 1, (seed, stopped)
        assert stopped[0].startswith("feed pdu-00a is stopped"), seed


async def test_a_bad_image_does_not_empty_a_rack() -> None:
    """A reimage erases no machine before the one that goes first has come through, and none where it is stopped."""
    nodes = hall(random.Random(5), 1, 10)
    lab = bench_of(nodes, Limits(deployments=4), max_fail=2)
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    for node in nodes:
        await lab.journal.raise_epoch(node.name, why="asked")
        lab.world.metal[node.name].deploy_fails = 9
    ended = await lab.up(may_erase=frozenset(node.name for node in nodes))
    erased = [name for name, metal in lab.world.metal.items() if metal.erasures]
    assert len(erased) == 3, "one after another went first, until the rack was stopped"
    kept = [end for name, end in ended.items() if name not in erased]
    assert all("provision resume" in end.why for end in kept)

    for metal in lab.world.metal.values():
        metal.deploy_fails = 0
    again = await lab.up(may_erase=frozenset(node.name for node in nodes))
    assert {end.outcome for end in again.values()} == {Outcome.READY}, "a bench's book is its run's own"
    assert all(metal.erasures == 1 for metal in lab.world.metal.values())


async def test_what_the_failed_ones_share_is_said_and_a_resume_forgets_them() -> None:
    """Resumed after the repair: the rest goes on, and the old failures stop nobody a second time."""
    nodes = hall(random.Random(7), 1, 10)
    lab = bench_of(nodes, Limits(in_flight=4), max_fail=3)
    lab.site = replace(lab.site, canary=CanaryRule(0), breaker=replace(lab.site.breaker, wait_s=600))
    gates = LocalGates(lab.world.clock)
    lab.gates = gates
    for metal in lab.world.metal.values():
        metal.commission_fails = 9
    repaired = []

    def watch(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Said) and "is stopped" in event.text:
            repaired.append(event.text)
            for metal in lab.world.metal.values():
                metal.commission_fails = 0
            lab.world.later(lab.world.metal[nodes[0].name], 300, lambda: None)

    lab.watch = watch

    async def resume() -> None:
        while not await gates.brakes():
            await lab.world.clock.sleep(10)
        await lab.world.clock.sleep(120)
        await gates.resume([brake.place for brake in await gates.brakes()])

    outcomes = await lab.with_beside(resume())
    assert len(repaired) == 1
    assert "4 of 4 failed on rack rack-00, all of them on profile h100, image jammy" in repaired[0]
    assert Counter(outcomes.values()) == {Outcome.READY: 6, Outcome.NEEDS_US: 4}


async def test_one_place_per_fault_and_the_narrowest() -> None:
    """Feeds before racks, racks before what they share; a node counts once."""
    nodes = hall(random.Random(1), 3, 8)
    gates = LocalGates(FakeClock())
    brakes = Brakes(BreakerRule(2, 100, 100), nodes, {"h100": PROFILE}, gates, "run-1", 1.0)
    by_name = {node.name: node for node in nodes}
    # One node that fails three times is one node.
    for _ in range(3):
        assert await brakes.tell(by_name["n00-01"], "deploy", ok=False, why="x") == []
    assert await brakes.tell(by_name["n01-02"], "deploy", ok=False, why="x") == []
    # The third of three racks: it is what all racks share.
    (said,) = await brakes.tell(by_name["n02-03"], "deploy", ok=False, why="curtin: no such file")
    assert said.startswith("profile h100 is stopped: 3 of 3 failed on profile h100, all of them on image jammy")
    assert said.endswith("to go on there: provision resume 'profile h100'")
    assert "curtin: no such file" in said


async def test_scattered_faults_stop_nothing() -> None:
    nodes = hall(random.Random(2), 4, 16)
    gates = LocalGates(FakeClock())
    brakes = Brakes(BreakerRule(3, 1e6, 100), nodes, {"h100": PROFILE}, gates, "run-1", 1.0)
    for number, node in enumerate(nodes):
        assert await brakes.tell(node, "commission", ok=number % 10 != 0, why="x") == []
