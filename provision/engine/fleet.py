"""Many nodes on one asyncio loop."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from provision.engine.admission import Admission, Over
from provision.engine.brakes import Brakes
from provision.engine.breaker import CredentialBreaker
from provision.engine.canary import Canary
from provision.engine.context import Context
from provision.engine.gates import LocalGates
from provision.engine.gather import gather
from provision.engine.patience import Patience
from provision.engine.pauses import Pauses
from provision.engine.reconcile import Halted, Pass, Passed, Pause, Walk
from provision.engine.settle import FleetCauses, Settlement, StuckNode, merged
from provision.engine.waves import LOOKS, Waves
from provision.errors import MisconfiguredError, RefusedError
from provision.model.decision import Outcome
from provision.model.event import Event, NodeEnded, RunEnded, RunStarted, Said
from provision.model.node import Node
from provision.model.profile import Goal, Profile
from provision.model.run import NodeState, Run
from provision.model.site import Site
from provision.ports import Clock, Desk, Gates, Journal, Judge, Stage, Tools

ToolsFor = Callable[[Node, Goal], Tools]
"""Builds the tools of one node for one run.

The engine sets ``fresh`` and ``claims`` itself, adds the run's nodes to ``names`` and closes ``bmc`` on every path;
``maas``, ``playbooks`` and ``shell`` are shared by the nodes and closed by whoever built them."""

Closing = Callable[[Mapping[str, NodeEnded]], Awaitable[None]]
"""What is left to be done when every node has ended and the run still holds them; not after Ctrl-C."""

HEARTBEAT_S = 10.0
_GOES_ON = {"deployment": "deploying", "commissioning": "commissioning"}


class Fleet:
    """Runs the passes of all nodes of one run, within the site's limits. One Fleet per run.

    Takes the leases (``journal.start_run``), keeps the heartbeat, records every event in the journal and hands it to
    ``emit``, gives the leases back. ``fleet_causes`` is ``provision.triage.fleet.fleet``. ``gates`` is the book of
    slots that all processes of the site share (by default one of this run alone), ``over`` looks whether an operation
    that a run left behind has ended, ``plan`` are the only acts that may be sent (``stage/step`` by node).
    """

    def __init__(
        self,
        *,
        stages: Sequence[Stage],
        journal: Journal,
        clock: Clock,
        site: Site,
        judge: Judge,
        desk: Desk,
        fleet_causes: FleetCauses,
        tools_for: ToolsFor,
        emit: Callable[[Event], None],
        closing: Closing | None = None,
        gates: Gates | None = None,
        over: Over | None = None,
        plan: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self._closing = closing
        self._stages = tuple(stages)
        patience = Patience(clock, self._tell)
        self._journal = patience.journal(journal)
        self._gates = patience.gates(gates or LocalGates(clock))
        self._over = over
        self._plan = plan
        self._clock = clock
        self._site = site
        self._judge = judge
        self._desk = desk
        self._causes = fleet_causes
        self._tools_for = tools_for
        self._emit = emit
        self._breaker = CredentialBreaker()
        self._pauses = Pauses(clock)
        # Passes are short; this keeps the sockets of a whole site from being open at one moment.
        self._passes = asyncio.Semaphore(site.limits.in_flight)
        self._stopping = False
        self._context: Context | None = None
        self._ended: dict[str, NodeEnded] = {}
        self._waves = Waves(len(self._stages), clock, site.tickets_after_s)
        self._settling = asyncio.Lock()
        self._said: set[str] = set()
        self._fatal: MisconfiguredError | None = None

    async def run(
        self,
        run: Run,
        nodes: Sequence[Node],
        profiles: Mapping[str, Profile],
        *,
        may_erase: frozenset[str] = frozenset(),
    ) -> Mapping[str, NodeEnded]:
        """Bring all nodes as far as they go; how it ended for each, by node name.

        ``profiles`` are by name (``node.profile``); ``may_erase`` are the nodes whose disks this run may erase.

        Raises:
            RefusedError: another live run holds one of the nodes.
            MisconfiguredError: the store cannot be written; what goes on in MAAS does so by itself.
        """
        admission = self._admission_of(run, nodes, profiles)
        context = Context(
            run, self._journal, self._clock, self._site, admission, self._emit, self._stopping, self._plan
        )
        self._context = context
        started_s, status = self._clock.monotonic(), 1
        await self._journal.start_run(run)
        heart = asyncio.create_task(self._beat(context))
        try:
            await admission.inherit(nodes)
            await self._bring_up(context, nodes, profiles, may_erase)
            if self._closing is not None and not context.stopping:
                await self._closing(self._ended)
            status = self._exit_status()
            if self._fatal is not None:
                raise self._fatal
            counts = Counter(ended.outcome.value for ended in self._ended.values())
            took_s = self._clock.monotonic() - started_s
            await context.record(RunEnded(context.now(), run.id, tuple(sorted(counts.items())), took_s, status))
            return dict(self._ended)
        finally:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)
            with suppress(MisconfiguredError):
                await self._journal.end_run(run.id, status)

    def request_stop(self) -> None:
        """Ctrl-C: no act is begun any more, passes end, unfinished nodes end as INTERRUPTED. May be called twice."""
        self._stopping = True
        if self._context is not None:
            self._context.stopping = True
            self._context.admission.release_all()
        self._breaker.close()
        self._pauses.end()

    def _admission_of(self, run: Run, nodes: Sequence[Node], profiles: Mapping[str, Profile]) -> Admission:
        site = self._site
        return Admission(
            site.limits,
            gates=self._gates,
            run=run.id,
            clock=self._clock,
            pace=site.pace,
            canary=Canary(site.canary, nodes, profiles),
            brakes=Brakes(site.breaker, nodes, profiles, self._gates, run.id, site.pace),
            wait_s=site.breaker.wait_s,
            over=self._over,
        )

    async def _bring_up(
        self, context: Context, nodes: Sequence[Node], profiles: Mapping[str, Profile], may_erase: frozenset[str]
    ) -> None:
        run = context.run
        names = frozenset(node.name for node in nodes)
        claims = {f"mac {mac}": node.name for node in nodes for mac in node.macs}
        claims |= {f"tag {node.service_tag.strip().upper()}": node.name for node in nodes if node.service_tag}
        settlement = Settlement(context, self._desk, self._causes, {node.name: node for node in nodes})
        racks = tuple((node.name, node.rack) for node in nodes)
        stages = tuple(stage.name for stage in self._stages)
        await context.record(
            RunStarted(context.now(), run.id, run.verb, run.target, tuple(n.name for n in nodes), racks, stages)
        )
        await settlement.begin()
        for node in nodes:
            self._waves.move(node, 0)
        impatient = asyncio.create_task(self._impatient(context, settlement))
        try:
            async with asyncio.TaskGroup() as group:
                for node in nodes:
                    erase = node.name in may_erase
                    one = self._one(context, settlement, node, profiles[node.profile], names, claims, erase)
                    group.create_task(one)
            # Whoever is being settled is settled to the end.
            async with self._settling:
                impatient.cancel()
        finally:
            impatient.cancel()
        await self._settle_waves(context, settlement)
        if self._fatal is None:
            await settlement.finish()
            if context.stopping:
                await self._say_what_goes_on(context)

    async def _one(
        self,
        context: Context,
        settlement: Settlement,
        node: Node,
        profile: Profile,
        names: frozenset[str],
        claims: dict[str, str],
        may_erase: bool,
    ) -> None:
        """One node, to its end; the store's errors end the run, our own bugs this node."""
        walk: Walk | None = None
        try:
            goal = Goal(profile, await self._journal.epoch(node.name))
            tools = self._tools_for(node, goal)
            tools = replace(tools, names=tools.names | names, claims=claims)
            walk = Walk(node, self._stages, tools, context, may_erase=may_erase)
            await self._walk(context, settlement, walk)
        except MisconfiguredError as error:
            self._fatal = self._fatal or error
            self.request_stop()
        except RefusedError as error:
            # The store refuses only a run that was taken over: whoever holds the node goes on with it.
            self._taken_over(error)
            with suppress(MisconfiguredError):
                await self._ends(context, node, self._stage_of(walk), Outcome.INTERRUPTED, str(error), (), walk)
        except Exception:
            await self._bug(context, node, walk, traceback.format_exc())
        finally:
            self._waves.move(node, None)
            with suppress(MisconfiguredError, RefusedError):
                await context.admission.leave(node, goes_on=walk is not None and walk.going_on not in {"", "playbooks"})
            if walk is not None:
                await walk.tools.bmc.close()
        if self._fatal is None:
            await self._settle_waves(context, settlement)

    async def _walk(self, context: Context, settlement: Settlement, walk: Walk) -> None:
        while not context.stopping:
            match await self._pass(context, walk):
                case Pause() as pause:
                    if stopped := await self._rest(context, walk, pause):
                        return await self._end(context, walk, Outcome.NEEDS_US, stopped)
                case Passed() as passed:
                    await settlement.passed(walk.node, passed.seen)
                    await self._tally(context, walk, passed.stage, ok=True, why="")
                    context.admission.passed(walk.node, passed.stage)
                    if passed.last:
                        return await self._end(context, walk, Outcome.READY, passed.note)
                    self._waves.move(walk.node, walk.index)
                    await self._settle_waves(context, settlement)
                case Halted() as halted:
                    await self._tally(context, walk, halted.stage, ok=False, why=halted.stuck.why)
                    return await self._halted(context, walk, halted)
                case None:
                    if not context.stopping:
                        refused = ", ".join(self._breaker.refused[walk.tools.credential.name])
                        why = f"not tried: credential {walk.tools.credential.name!r} was refused by {refused}"
                        return await self._end(context, walk, Outcome.NEEDS_US, why)
        goes_on = _GOES_ON.get(walk.going_on)
        why = f"stopped; it keeps {goes_on} in MAAS" if goes_on else "stopped"
        return await self._end(context, walk, Outcome.INTERRUPTED, why)

    async def _pass(self, context: Context, walk: Walk) -> Pass | None:
        """One pass; None if the node's credential is not to be tried any more."""
        if walk.proved:
            async with self._passes:
                return await walk.advance()
        credential = walk.tools.credential.name
        if not await self._breaker.may_try(credential):
            return None
        try:
            async with self._passes:
                return await walk.advance()
        finally:
            self._breaker.tried(credential, walk.node.name, accepted=walk.proved, refused=walk.refused)
            if self._breaker.is_open(credential) and credential not in self._said:
                self._said.add(credential)
                refused = self._breaker.refused[credential]
                text = (
                    f"{len(refused)} BMCs refused credential {credential!r} ({', '.join(refused)}): no other BMC is "
                    f"tried with it; correct user and password, then run the same command again"
                )
                await context.record(Said(context.now(), context.run.id, text, level="error"))

    async def _tally(self, context: Context, walk: Walk, stage: str, *, ok: bool, why: str) -> None:
        """Operations that end are counted; where too many fail, nothing more is begun."""
        if walk.carried != stage or context.stopping:
            return
        for text in await context.admission.brakes.tell(walk.node, stage, ok=ok, why=why):
            await context.record(Said(context.now(), context.run.id, text, level="error"))

    async def _rest(self, context: Context, walk: Walk, pause: Pause) -> str:
        """Wait; empty, or why the node waited in vain."""
        if pause.slot and not context.stopping:
            began = self._clock.monotonic()
            why = await context.admission.turn(walk.node, pause.slot)
            walk.excuse(self._clock.monotonic() - began)
            return why
        if pause.seconds > 0:
            await self._pauses.sleep(pause.seconds * self._site.pace)
        else:
            await asyncio.sleep(0)
        return ""

    async def _halted(self, context: Context, walk: Walk, halted: Halted) -> None:
        """Ask every probe that still answers; judge; wait for the others of the wave."""
        node, seen = walk.node, halted.seen
        more = await gather(node, walk.tools, skip=halted.skip)
        evidence, gaps = (*seen.evidence, *more.evidence), (*seen.gaps, *more.gaps)
        verdict = self._judge(node, walk.tools.goal.profile, evidence, gaps, context.now())
        verdict = merged(verdict, seen.findings)
        self._waves.add(walk, StuckNode(node, halted.stage, halted.stuck, evidence, gaps, verdict))

    async def _settle_waves(self, context: Context, settlement: Settlement, *, overdue: bool = False) -> None:
        """Settle the nodes that are stuck, and once more those who turn out to share a cause with them."""
        wave = self._waves.overdue() if overdue else self._waves.ready()
        if not wave:
            return
        for name, end in (await settlement.stuck(wave)).items():
            told, waited = self._ended.get(name), self._waves.known[name]
            if told is None or (told.outcome, set(told.tickets)) != (end.outcome, set(end.tickets)):
                await self._end(context, waited.walk, end.outcome, end.why, end.tickets, stage=waited.one.stage)

    async def _impatient(self, context: Context, settlement: Settlement) -> None:
        """Write tickets that have waited long enough for a cause that others share: it may take them over later."""
        while True:
            await self._clock.sleep(self._waves.patience_s / LOOKS)
            async with self._settling:
                try:
                    await self._settle_waves(context, settlement, overdue=True)
                except MisconfiguredError as error:
                    self._fatal = self._fatal or error
                    self.request_stop()
                except RefusedError as error:
                    self._taken_over(error)

    async def _end(
        self,
        context: Context,
        walk: Walk,
        outcome: Outcome,
        why: str,
        tickets: tuple[str, ...] = (),
        *,
        stage: str | None = None,
    ) -> None:
        await self._ends(context, walk.node, stage or walk.stage.name, outcome, why, tickets, walk)

    async def _ends(
        self,
        context: Context,
        node: Node,
        stage: str,
        outcome: Outcome,
        why: str,
        tickets: tuple[str, ...],
        walk: Walk | None,
    ) -> None:
        now, run = context.now(), context.run.id
        took_s = self._clock.monotonic() - walk.started_s if walk is not None else 0.0
        ended = NodeEnded(now, run, node.name, outcome, stage, why, took_s, tickets)
        self._ended[node.name] = ended
        since = walk.since if walk is not None else now
        what = {Outcome.READY: "ready", Outcome.INTERRUPTED: "stopped"}.get(outcome, "stuck")
        await context.stands(NodeState(node.name, run, stage, since, what, why, outcome, now))
        await context.record(ended)

    async def _bug(self, context: Context, node: Node, walk: Walk | None, trace: str) -> None:
        """Our own fault: this node ends, the trace is in the journal, the others go on."""
        stage = self._stage_of(walk)
        why = f"a bug of ours in {stage}: {trace.strip().splitlines()[-1]}"
        with suppress(MisconfiguredError):
            await context.record(Said(context.now(), context.run.id, trace, node=node.name, level="bug"))
            await self._ends(context, node, stage, Outcome.NEEDS_US, why, (), walk)

    def _stage_of(self, walk: Walk | None) -> str:
        return walk.stage.name if walk is not None else self._stages[0].name

    def _taken_over(self, error: RefusedError) -> None:
        if "taken over" not in self._said:
            self._said.add("taken over")
            self._tell(f"{error}; this run stops")
        self.request_stop()

    def _tell(self, text: str) -> None:
        """Show what cannot be written down at this moment."""
        if self._context is not None:
            self._emit(Said(self._context.now(), self._context.run.id, text, level="error"))

    async def _beat(self, context: Context) -> None:
        """Say that the run is alive; without its lease it may write no longer."""
        while True:
            await self._clock.sleep(HEARTBEAT_S)
            try:
                await self._journal.heartbeat(context.run.id)
            except MisconfiguredError as error:
                self._fatal = self._fatal or error
                self.request_stop()
            except RefusedError as error:
                self._taken_over(error)

    async def _say_what_goes_on(self, context: Context) -> None:
        text = ", ".join(
            f"{count} machine{'s keep' if count > 1 else ' keeps'} {verb} in MAAS"
            for verb in dict.fromkeys(_GOES_ON.values())
            if (count := sum(f"keeps {verb} " in ended.why for ended in self._ended.values()))
        )
        text = f"{text}; the same command goes on from here" if text else "stopped; the same command goes on from here"
        await context.record(Said(context.now(), context.run.id, text))

    def _exit_status(self) -> int:
        outcomes = {ended.outcome for ended in self._ended.values()}
        if Outcome.INTERRUPTED in outcomes:
            return 130
        return 0 if outcomes <= {Outcome.READY} else 1
