"""One way to run a fleet on the in-memory world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from provision.engine.admission import Over
from provision.engine.fleet import Fleet
from provision.engine.gates import LocalGates
from provision.engine.settle import FleetCauses
from provision.model.decision import Outcome
from provision.model.event import Event, NodeEnded
from provision.model.node import Node
from provision.model.profile import Profile
from provision.model.site import PowerBy, Site
from provision.model.slot import Slot
from provision.ports import Clock, Gates, Judge, Stage
from provision.stages import BRING_UP
from tests.fakes import (
    PROFILE,
    FakeBmc,
    FakeJournal,
    World,
    judge_simply,
    make_run,
    no_causes,
    rack,
    real_desk,
    tools_for,
)


class BookOfAll(LocalGates):
    """The book of slots outlives the processes that write in it, as the store does."""

    def __init__(self, clock: Clock, live: set[str]) -> None:
        super().__init__(clock)
        self._live = live

    async def slots(self) -> tuple[Slot, ...]:
        return tuple(replace(slot, live=slot.run in self._live) for slot in await super().slots())


@dataclass
class Bench:
    """A world, its journal, and runs over it, each as a process of its own."""

    nodes: list[Node]
    world: World
    journal: FakeJournal
    site: Site
    profile: Profile = PROFILE
    stages: Sequence[Stage] = BRING_UP
    judge: Judge = judge_simply
    causes: FleetCauses = no_causes
    runs: int = 0
    events: list[Event] = field(default_factory=list)
    bmcs: list[FakeBmc] = field(default_factory=list)
    watch: Callable[[Fleet, Event], None] = lambda fleet, event: None
    gates: Gates | None = None
    over: Over | None = None
    plan: Mapping[str, frozenset[str]] | None = None

    async def up(self, *nodes: Node, may_erase: frozenset[str] = frozenset()) -> Mapping[str, NodeEnded]:
        """One run over the nodes (all by default)."""
        self.runs += 1
        self.events, self.bmcs = [], []
        chosen = nodes or tuple(self.nodes)

        def emit(event: Event) -> None:
            self.events.append(event)
            self.watch(fleet, event)

        fleet = Fleet(
            stages=self.stages,
            journal=self.journal,
            clock=self.world.clock,
            site=self.site,
            judge=self.judge,
            desk=real_desk(),
            fleet_causes=self.causes,
            tools_for=tools_for(self.world, site=self.site, judge=self.judge, bmcs=self.bmcs),
            emit=emit,
            gates=self.gates,
            over=self.over,
            plan=self.plan,
        )
        run = make_run(self.world, chosen, self.runs)
        ended = await fleet.run(run, chosen, {"h100": self.profile}, may_erase=may_erase)
        assert all(bmc.closed for bmc in self.bmcs)
        return ended

    async def outcomes(self, *nodes: Node) -> dict[str, Outcome]:
        """How a run ends, by node."""
        return {name: ended.outcome for name, ended in (await self.up(*nodes)).items()}

    async def with_beside(self, beside: Coroutine[None, None, None]) -> dict[str, Outcome]:
        """A run while something else goes on, and both to their ends."""
        task = asyncio.ensure_future(beside)
        outcomes = await self.outcomes()
        await task
        return outcomes


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench() -> MakeBench:
    """``bench(size, power_by=…, site=…)``."""

    def make(size: int = 4, *, power_by: PowerBy = PowerBy.MAAS, site: Site | None = None) -> Bench:
        nodes = rack(size)
        world = World(nodes, power_by=power_by)
        return Bench(nodes, world, FakeJournal(world), site or Site(power_by=power_by))

    return make
