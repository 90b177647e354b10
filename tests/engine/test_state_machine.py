"""Whatever peers do and whenever the program dies: the promises of the engine, checked at every write and every end.

Hypothesis breaks the world in any order it likes (peers that fail, lie, hang and come late), runs bring-ups over it,
kills them, stops them, starts two at once, and shrinks what it finds to a short story.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from provision.engine.fleet import Fleet
from provision.errors import GarbledError, RefusedError, UnavailableError
from provision.model.event import Event, NodeEnded, Said
from provision.model.machine import Status
from provision.model.node import Node
from provision.model.profile import Goal
from provision.model.site import BreakerRule, CanaryRule, Limits, PowerBy, Site
from provision.ports import Bmc, Tools
from provision.stages import BRING_UP
from tests.engine.conftest import BookOfAll
from tests.fakes import (
    PROFILE,
    FakeJournal,
    Killed,
    World,
    judge_simply,
    make_run,
    no_causes,
    rack,
    real_desk,
    tools_for,
)

NAMES = [node.name for node in rack(4)]
ODD = ("create", "commission", "set-boot-disk", "set-layout", "allocate", "write-receipt", "deploy", "release")
LIMITS = Limits(in_flight=3, per_rack=3, deployments=1, reboots_per_minute=4, erasures_per_hour=2)
name_of = st.sampled_from(NAMES)
faults = st.one_of(
    st.tuples(st.just("silent"), st.sampled_from([100.0, 900.0])),
    st.tuples(st.just("hangs"), st.sampled_from([20.0, 90.0])),
    st.tuples(st.just("nonsense"), st.sampled_from([GarbledError, RefusedError])),
    st.tuples(st.just("lies"), st.tuples(st.booleans(), st.booleans(), st.booleans())),
    st.tuples(st.just("maas away"), st.sampled_from([60.0, 3600.0])),
    st.tuples(st.just("answer lost"), st.sampled_from(ODD)),
    st.tuples(
        st.just("fails"),
        st.tuples(st.sampled_from(["commission_fails", "deploy_fails", "playbook_fails"]), st.integers(1, 3)),
    ),
    st.tuples(st.just("deleted in MAAS"), st.none()),
    st.tuples(st.just("clock"), st.sampled_from([30.0, 4000.0])),
)


class Watched(World):
    """A world that looks, at each write, whether it may be."""

    def __init__(self, nodes: list[Node], power_by: PowerBy) -> None:
        super().__init__(nodes, power_by=power_by)
        self.journal: FakeJournal | None = None
        self.leave: dict[str, frozenset[str]] = {}
        self.used: set[int] = set()
        self.broken: list[str] = []
        self.maas_back_at = 0.0
        self.hangs: dict[str, float] = {}

    def tick(self) -> None:
        if self.maas_error is not None and self.clock.monotonic() >= self.maas_back_at:
            self.maas_error = None
        super().tick()
        statuses = [metal.machine.status for metal in self.metal.values() if metal.machine is not None]
        busy = sum(status in {Status.COMMISSIONING, Status.DEPLOYING} for status in statuses)
        if busy > LIMITS.in_flight or statuses.count(Status.DEPLOYING) > LIMITS.deployments:
            self.broken.append(f"limits: {busy} in flight, {statuses.count(Status.DEPLOYING)} deploy")

    def write(self, name: str, operation: str, effect: Callable[[], None]) -> None:
        assert self.journal is not None
        intents = [a for a in self.journal.open.values() if a.node == name and a.result is None]
        live = [a for a in intents if self.journal.all_runs[a.run][1] is None]
        newest = max((a.id for a in live), default=-1)
        if newest in self.used or newest < 0:
            self.broken.append(f"{operation} of {name} has no intent of its own")
        self.used.add(newest)
        before, metal = self.metal[name].erasures, self.metal[name]
        super().write(name, operation, effect)
        run = self.journal.all_attempts[newest].run
        if metal.erasures != before and name not in self.leave.get(run, frozenset()):
            self.broken.append(f"{name} was erased without leave")


class SlowBmc:
    """A BMC that may hang before each answer; what it answers late may have happened."""

    def __init__(self, bmc: Bmc, world: Watched, name: str) -> None:
        self._bmc, self._world, self._name = bmc, world, name

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._bmc, name)

        async def call(*args: Any, **options: Any) -> Any:
            hang_s = self._world.hangs.get(self._name, 0.0)
            if name == "close" or hang_s <= 0:
                return await method(*args, **options)
            answer = await method(*args, **options)
            await self._world.clock.sleep(min(hang_s, 60))
            self._world.alive()
            if hang_s > 60:
                raise UnavailableError(f"BMC of {self._name}", name, "no answer in 60 s")
            return answer

        return call


class Hall(RuleBasedStateMachine):
    """Four machines, one MAAS, one book of slots, and any number of processes after one another."""

    @initialize(power_by=st.sampled_from(list(PowerBy)), up=st.booleans())
    def begin(self, power_by: PowerBy, up: bool) -> None:
        self.loop = asyncio.new_event_loop()
        self.nodes = rack(len(NAMES))
        self.world = Watched(self.nodes, power_by)
        self.journal = FakeJournal(self.world)
        self.world.journal = self.journal
        self.live: set[str] = set()
        self.gates = BookOfAll(self.world.clock, self.live)
        self.site = Site(
            power_by=power_by,
            limits=LIMITS,
            canary=CanaryRule(1, 2),
            breaker=BreakerRule(2, 3600, 300),
            deadlines_s={"enlist": 1200, "commission": 4000, "deploy": 5000, "configure": 2400, "accept": 900},
        )
        self.number = 0
        if up:
            self._await(self._run(NAMES, set()))

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    # What may go wrong. One rule for all of it, so that most steps are commands.

    @rule(name=name_of, fault=faults)
    def something_breaks(self, name: str, fault: tuple[str, Any]) -> None:
        metal, now = self.world.metal[name], self.world.clock.monotonic()
        match fault:
            case "silent", seconds:
                metal.bmc_silent_until = now + seconds
            case "hangs", seconds:
                self.world.hangs[name] = seconds
            case "nonsense", kind:
                metal.bmc_error = kind(f"BMC of {name}", "GET /", "nonsense")
            case "lies", (forgets, shows, dhcp):
                metal.forgets_boot, metal.shows_reset, metal.no_dhcp = forgets, shows, not dhcp
            case "maas away", seconds:
                self.world.maas_error = UnavailableError("MAAS http://fake", "GET machines", "503")
                self.world.maas_back_at = now + seconds
            case "answer lost", operation:
                self.world.lost_answers.add(operation)
            case "fails", (kind, times):
                setattr(metal, kind, times)
            case "deleted in MAAS", _:
                metal.machine = None
                metal.due.clear()
            case "clock", seconds:
                self.world.clock.jump(seconds)

    @rule()
    def somebody_mends_everything(self) -> None:
        for name, metal in self.world.metal.items():
            metal.bmc_silent_until, metal.bmc_error, self.world.hangs[name] = 0.0, None, 0.0
            metal.forgets_boot, metal.shows_reset, metal.no_dhcp = False, True, False
            metal.commission_fails = metal.deploy_fails = metal.playbook_fails = 0
        self.world.maas_error = None
        self._await(self._resume())

    # What operators do.

    @rule(names=st.sets(name_of, min_size=1), leave=st.booleans(), die_at=st.integers(0, 150))
    def reimage(self, names: set[str], leave: bool, die_at: int) -> None:
        """Wished with or without leave; perhaps killed in the middle, and typed again."""
        for name in names:
            self.journal.epochs[name] = self.journal.epochs.get(name, 1) + 1
        if die_at:
            self.bring_up_and_die(names, names if leave else set(), die_at)
        self.bring_up(names, names if leave else set())

    @rule(names=st.sets(name_of, min_size=1), leave=st.sets(name_of))
    def bring_up(self, names: set[str], leave: set[str]) -> None:
        ended = self._await(self._run(names, leave))
        assert set(ended) == names, "every node ends in an outcome"
        assert not [a for a in self.journal.open.values() if a.run == f"run-{self.number}"], "an intent stayed open"

    @rule(names=st.sets(name_of, min_size=1), leave=st.sets(name_of), die_at=st.integers(20, 150))
    def bring_up_and_die(self, names: set[str], leave: set[str], die_at: int) -> None:
        self.world.points, self.world.die_at = 0, die_at
        try:
            self._await(self._run(names, leave))
        except (Killed, BaseExceptionGroup):
            assert self.world.dead
        self.world.revive()
        # A killed process answers for nothing any more; its intents stay as it left them.
        self.live.clear()

    @rule(names=st.sets(name_of, min_size=1), stop_at=st.integers(1, 60))
    def bring_up_and_stop(self, names: set[str], stop_at: int) -> None:
        ended = self._await(self._run(names, set(), stop_at=stop_at))
        assert set(ended) == names

    @rule(split=st.integers(1, len(NAMES) - 1))
    def two_at_once(self, split: int) -> None:
        async def both() -> list[Mapping[str, NodeEnded]]:
            first = self._run(set(NAMES[:split]), set())
            return list(await asyncio.gather(first, self._run(set(NAMES[split:]), set())))

        one, other = self._await(both())
        assert set(one) | set(other) == set(NAMES)

    # What must hold.

    @invariant()
    def promises(self) -> None:
        if hasattr(self, "world"):
            assert not self.world.broken, self.world.broken
            bugs = [e.text for e in self.journal.events if isinstance(e, Said) and e.level == "bug"]
            assert not bugs, bugs[0]

    async def _run(
        self, names: Collection[str], leave: Collection[str], *, stop_at: int = 0
    ) -> Mapping[str, NodeEnded]:
        self.number += 1
        nodes = [node for node in self.nodes if node.name in names]
        run = make_run(self.world, nodes, self.number)
        self.world.leave[run.id] = frozenset(leave)
        self.live.add(run.id)
        seen = 0

        def emit(event: Event) -> None:
            nonlocal seen
            seen += 1
            if seen == stop_at:
                fleet.request_stop()

        build = tools_for(self.world, site=self.site)

        def tools(node: Node, goal: Goal) -> Tools:
            made = build(node, goal)
            return replace(made, bmc=cast("Bmc", SlowBmc(made.bmc, self.world, node.name)))

        fleet = Fleet(
            stages=BRING_UP,
            journal=self.journal,
            clock=self.world.clock,
            site=self.site,
            judge=judge_simply,
            desk=real_desk(),
            fleet_causes=no_causes,
            tools_for=tools,
            emit=emit,
            gates=self.gates,
            over=self._over,
        )
        try:
            return await fleet.run(run, nodes, {"h100": PROFILE}, may_erase=frozenset(leave))
        finally:
            self.live.discard(run.id)

    async def _over(self, name: str, operation: str) -> bool:
        still = {Status.COMMISSIONING, Status.DEPLOYING, Status.RELEASING}
        return self.world.status(name) not in still

    async def _resume(self) -> None:
        await self.gates.resume([brake.place for brake in await self.gates.brakes()])

    def _await(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def whole() -> Any:
            try:
                return await work
            finally:
                rest = asyncio.all_tasks() - {asyncio.current_task()}
                for task in rest:
                    task.cancel()
                await asyncio.gather(*rest, return_exceptions=True)

        self.world.clock._armed = False
        self.world.clock._sleepers.clear()
        return self.loop.run_until_complete(whole())


QUICK = settings(
    max_examples=20,
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
Hall.TestCase.settings = QUICK
TestPromises = Hall.TestCase


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_engine_keeps_its_promises_for_long() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Hall, settings=settings(QUICK, max_examples=600, stateful_step_count=25, derandomize=False)
    )
