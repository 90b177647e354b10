"""One node: observe, decide, act, observe again. ``Walk.advance`` is one pass and returns at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime

from provision.engine.answers import answer_evidence, answer_gap, peer_of
from provision.engine.context import Context
from provision.engine.turns import turns_of
from provision.errors import CredentialRefusedError, GarbledError, PeerError, RefusedError, UnavailableError
from provision.model.decision import Act, Decision, Done, Seen, Stuck, Wait
from provision.model.event import Acted, StageEnded, StageStarted, Waited
from provision.model.node import Node
from provision.model.run import NodeState
from provision.ports import Stage, Tools

# After a write without answer: MAAS goes on for up to a minute behind a proxy that gave up (facts: pains, 2).
UNKNOWN_PAUSE_S = 30.0
# The rack's listing may be older than what was just written: so long, the node is read for itself.
LISTING_S = 30.0
FIRST_RETRY_S, LAST_RETRY_S = 5.0, 60.0
# What is erased to be installed anew waits for its turn to be installed: a bad image must not empty a rack.
DEPLOYMENT = "deployment"
_BEFORE = frozenset({"discover", "preflight", "enlist"})
_BLIND_FOR = {
    "commissioning": _BEFORE,
    "deployment": _BEFORE | {"commission"},
    "erasing": _BEFORE | {"commission"},
}


@dataclass(frozen=True, slots=True)
class Pause:
    """Come back after ``seconds`` (the site's pace is applied); ``slot`` names an operation to be admitted first."""

    seconds: float
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Passed:
    """A stage is done; ``last`` if it was the last one."""

    stage: str
    seen: Seen
    last: bool
    note: str


@dataclass(frozen=True, slots=True)
class Halted:
    """The node cannot go on. ``skip`` names peers that need not be asked again for evidence."""

    stage: str
    seen: Seen
    stuck: Stuck
    skip: frozenset[str] = frozenset()


Pass = Pause | Passed | Halted


class Walk:
    """One node's way through the stages in one run.

    The cursor lives in memory only: every run starts at the first stage and finds by looking how far the node is.
    ``proved``: a peer has answered; ``refused``: the BMC refused our credential; ``going_on``: the operation that goes
    on in the machine, as last seen or begun; ``carried``: the stage in which this run saw or began one.
    """

    def __init__(
        self, node: Node, stages: tuple[Stage, ...], tools: Tools, context: Context, *, may_erase: bool
    ) -> None:
        self.node = node
        self.tools = tools
        self.started_s = context.clock.monotonic()
        self.index = 0
        self.proved = False
        self.refused = False
        self.going_on = ""
        self.carried = ""
        self._ripe: dict[tuple[str, str], float] = {}
        self._stages = stages
        self._context = context
        self._may_erase = may_erase
        self._acts: Counter[tuple[str, str]] = Counter()
        self._entered = False
        self._stage_s = self.started_s
        self._since: datetime = context.now()
        self._why = ""
        self._silent = 0
        self._fresh_until_s = 0.0
        self._error: PeerError | None = None

    @property
    def stage(self) -> Stage:
        """Where the node is."""
        return self._stages[min(self.index, len(self._stages) - 1)]

    @property
    def since(self) -> datetime:
        """When the node came to its stage."""
        return self._since

    def excuse(self, seconds: float) -> None:
        """Time spent in line for a slot does not count against the stage's deadline."""
        self._stage_s += seconds

    async def advance(self) -> Pass:
        """One pass: look, decide, do at most one thing.

        No peer's error leaves; MisconfiguredError of the journal and our own bugs do.
        """
        if not self._entered:
            await self._enter()
        seen, decision = await self._look(fresh=self._context.clock.monotonic() < self._fresh_until_s)
        return await self._follow(seen, decision, may_act=True)

    async def _enter(self) -> None:
        self._entered = True
        self._stage_s, self._since, self._why, self._silent = (
            self._context.clock.monotonic(),
            self._context.now(),
            "",
            0,
        )
        self._error = None
        context = self._context
        await context.record(StageStarted(context.now(), context.run.id, self.node.name, self.stage.name))
        await self._stands("working", "")

    async def _look(self, *, fresh: bool) -> tuple[Seen, Decision]:
        """Observe and decide; what a peer refuses or garbles becomes a decision too."""
        tools = replace(self.tools, fresh=True) if fresh else self.tools
        try:
            seen = await self.stage.observe(self.node, tools)
        except PeerError as error:
            self._error = error
            seen = Seen(evidence=answer_evidence(self.node.name, error, self._context.now()), gaps=(answer_gap(error),))
            return seen, self._blind(error)
        self._silent, self._error, self.proved = 0, None, True
        return seen, self.stage.decide(self.tools.goal, seen)

    def _blind(self, error: PeerError) -> Wait | Stuck:
        match error:
            case UnavailableError():
                self._silent += 1
                pause_s = min(FIRST_RETRY_S * 2.0 ** min(self._silent - 1, 10), LAST_RETRY_S)
                return Wait(str(error), max(pause_s, error.retry_after_s or 0.0), operation=self.going_on)
            case CredentialRefusedError():
                self.refused = peer_of(error) == "bmc"
                return Stuck(str(error), ours=True)
            case GarbledError():
                return Stuck(str(error), ours=True)
            case _:
                return Stuck(str(error))

    async def _follow(self, seen: Seen, decision: Decision, *, may_act: bool) -> Pass:
        """Do what was decided. ``may_act`` is False for what the look before a write decided anew."""
        match decision:
            case Done(note):
                await self._hold("")
                return await self._done(seen, note)
            case Stuck():
                if self._error is None:
                    # The machine was looked at and is in no operation any more; a peer's silence says nothing of it.
                    self.going_on = ""
                return await self._halt(seen, decision)
            case Wait(why, pause_s, operation):
                await self._hold(operation)
                if self._overdue():
                    return await self._halt(seen, Stuck(f"{why} ({self._limit_text()})"))
                await self._waits(why, pause_s)
                return Pause(pause_s)
            case Act():
                return await self._act(seen, decision) if may_act else Pause(0)

    async def _hold(self, operation: str) -> None:
        admission = self._context.admission
        held = admission.held(self.node)
        if not operation and admission.inherited(self.node) and self.stage.name in _BLIND_FOR.get(held, ()):
            # This stage sees nothing of what an earlier run left going on.
            return
        self.going_on = operation
        if operation:
            self.carried = self.stage.name
        await admission.hold(self.node, operation)

    def _deadline_s(self) -> float:
        site, stage = self._context.site, self.stage
        return site.deadlines_s.get(stage.name, stage.deadline_s) * site.pace

    def _overdue(self) -> bool:
        return self._context.clock.monotonic() - self._stage_s >= self._deadline_s()

    def _limit_text(self) -> str:
        minutes = self._deadline_s() / self._context.site.pace / 60
        return f"longer than the {minutes:g} minutes that {self.stage.name} may take"

    async def _done(self, seen: Seen, note: str) -> Passed:
        await self._ends(done=True, why=note)
        passed = Passed(self.stage.name, seen, self.index + 1 == len(self._stages), note)
        self.index += 1
        self._entered = False
        return passed

    async def _halt(self, seen: Seen, stuck: Stuck) -> Halted:
        await self._ends(done=False, why=stuck.why)
        skip = frozenset({peer_of(self._error)}) if self._error is not None else frozenset[str]()
        if any(item.source.startswith("redfish/") for item in seen.evidence):
            skip |= {"bmc"}
        if any(item.source == "ssh/checks" for item in seen.evidence):
            skip |= {"ssh"}
        return Halted(self.stage.name, seen, stuck, skip)

    def _refusal(self, act: Act) -> Stuck | None:
        """Why this act may not be sent at all."""
        stage, site, name = self.stage, self._context.site, self.node.name
        if (plan := self._context.plan) is not None and f"{stage.name}/{act.step.name}" not in plan.get(name, ()):
            return Stuck(f"{act.step.name} at {stage.name} is not in the plan ({act.why}): plan again", ours=True)
        if act.erases and not self._may_erase:
            return Stuck(
                f"{act.step.name} would erase {name} ({act.why}), and this run may not: provision reimage {name} "
                f"--yes-erase {name}, or to keep what is on it: provision adopt {name}",
                ours=True,
            )
        if self._overdue():
            return Stuck(f"{act.step.name}: {act.why} ({self._limit_text()})")
        most = site.max_acts.get(stage.name, stage.max_acts)
        if self._acts[stage.name, act.step.name] >= most:
            times = "once" if most == 1 else f"{most} times"
            return Stuck(f"{act.step.name} was sent {times} and the reason is still there: {act.why}")
        return None

    async def _act(self, seen: Seen, act: Act) -> Pass:
        """Intent, second look, one write, record."""
        context, admission = self._context, self._context.admission
        if (refusal := self._refusal(act)) is not None:
            return await self._halt(seen, refusal)
        slot = act.operation or (DEPLOYMENT if act.erases and self.stage.name == "deploy" else "")
        if not slot:
            await self._hold("")
        elif not context.stopping and (full := await admission.try_hold(self.node, slot)):
            await self._waits(f"{act.step.name} waits for a slot: {full}", 0)
            return Pause(0, slot=slot)
        if not context.stopping and (left_s := await self._turn_in(act)) > 0:
            return Pause(left_s / context.site.pace)
        if context.stopping:
            return Pause(0)
        journal, stage = context.journal, self.stage.name
        attempt = await journal.open_attempt(context.run.id, self.node.name, stage, act.step.name, act.why)
        seen, again = await self._look(fresh=True)
        same = isinstance(again, Act) and (again.step, again.erases) == (act.step, act.erases)
        if not same or context.stopping:
            await journal.close_attempt(
                attempt, "void", "the look before it saw something else" if not same else "stop"
            )
            return await self._follow(seen, again, may_act=False)
        if context.run.lease_s is not None:
            # Others take over what is silent: right before a write the lease is made fresh, or found lost.
            await journal.heartbeat(context.run.id)
        return await self._send(attempt, seen, act)

    async def _turn_in(self, act: Act) -> float:
        """Seconds until this act may be sent: machines start and are erased only so often."""
        site, key, now = self._context.site, (self.stage.name, act.step.name), self._context.clock.monotonic()
        if key not in self._ripe:
            waits = [0.0]
            for place, limit, window_s in turns_of(act, site):
                gates, run = self._context.admission.gates, self._context.run.id
                waits.append(await gates.turn(run, self.node.name, place, limit, window_s * site.pace))
            # A turn that was reserved for another act is lost.
            self._ripe = {key: now + max(waits)}
        left_s = self._ripe[key] - now
        if left_s <= 0.001:
            del self._ripe[key]
            return 0.0
        self.excuse(left_s)
        await self._waits(f"{act.step.name} waits {left_s / site.pace:.0f} s for its turn", left_s)
        return left_s

    async def _send(self, attempt: int, seen: Seen, act: Act) -> Pass:
        result, detail, stuck = "sent", "", None
        self._acts[self.stage.name, act.step.name] += 1
        self._fresh_until_s = self._context.clock.monotonic() + LISTING_S * self._context.site.pace
        try:
            await self.stage.act(act.step, self.node, self.tools)
        except UnavailableError as error:
            result, detail = "unknown", str(error)
        except RefusedError as error:
            result, detail, stuck = "refused", str(error), Stuck(str(error))
            self._error = error
            self.refused = isinstance(error, CredentialRefusedError) and peer_of(error) == "bmc"
        except GarbledError as error:
            result, detail, stuck = "unknown", str(error), Stuck(str(error), ours=True)
            self._error = error
        context = self._context
        await context.journal.close_attempt(attempt, result, detail)
        names = (context.now(), context.run.id, self.node.name, self.stage.name)
        await context.record(Acted(*names, act.step.name, act.why, result, detail))
        if stuck is not None and self._error is not None:
            proof = answer_evidence(self.node.name, self._error, context.now())
            return await self._halt(replace(seen, evidence=(*seen.evidence, *proof)), stuck)
        self._why, self.going_on = "", act.operation
        if act.operation:
            self.carried = self.stage.name
        await self._stands("working", act.why)
        return Pause(max(act.pause_s, UNKNOWN_PAUSE_S) if result == "unknown" else act.pause_s)

    async def _waits(self, why: str, pause_s: float) -> None:
        """Say why, once."""
        if why == self._why:
            return
        self._why = why
        context = self._context
        await context.record(Waited(context.now(), context.run.id, self.node.name, self.stage.name, why, pause_s))
        await self._stands("waiting", why)

    async def _ends(self, *, done: bool, why: str) -> None:
        context = self._context
        took_s = context.clock.monotonic() - self._stage_s
        names = (context.now(), context.run.id, self.node.name, self.stage.name)
        await context.record(StageEnded(*names, done=done, why=why, took_s=took_s))
        if not done:
            await self._stands("stuck", why)

    async def _stands(self, what: str, why: str) -> None:
        run, now = self._context.run.id, self._context.now()
        state = NodeState(self.node.name, run, self.stage.name, self._since, what, why, updated_at=now)
        await self._context.stands(state)
