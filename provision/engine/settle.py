"""Findings meet tickets: after every look at parts, and for nodes that are stuck together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from provision.engine.context import Context
from provision.model.decision import Outcome, Seen, Stuck
from provision.model.event import FindingMade, TicketMoved
from provision.model.evidence import Evidence, Gap, PartKind, Reading
from provision.model.finding import Dispatch, Finding, Verdict
from provision.model.node import Node
from provision.model.ticket import ChangeKind, Ticket, TicketChange
from provision.ports import Desk
from provision.triage.causes import SHARED
from provision.triage.fleet import without

FleetCauses = Callable[[Mapping[str, Verdict], Mapping[str, Node]], tuple[Finding, ...]]
"""Triage over nodes that are stuck together: verdicts by node and all nodes of the run in; shared causes out."""

# So long a change in common is held against what one of its machines says alone.
LATELY = timedelta(days=1)
# A healthy node's readings are worth nothing tomorrow; what was odd about it may be.
_PLAIN = frozenset({Reading.OK, Reading.UP, Reading.FACT})


@dataclass(frozen=True, slots=True)
class StuckNode:
    """A node that cannot go on, with everything that was seen of it."""

    node: Node
    stage: str
    stuck: Stuck
    evidence: tuple[Evidence, ...]
    gaps: tuple[Gap, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ends for a stuck node."""

    outcome: Outcome
    why: str
    tickets: tuple[str, ...]


class Settlement:
    """The ticket desk of one run."""

    def __init__(self, context: Context, desk: Desk, causes: FleetCauses, nodes: Mapping[str, Node]) -> None:
        self._context = context
        self._desk = desk
        self._causes = causes
        self._nodes = nodes
        self._findings: dict[str, tuple[Finding, ...]] = {}
        self._shared: tuple[Ticket, ...] = ()
        self._serials: tuple[Ticket, ...] = ()
        self._watched: dict[str, tuple[Evidence, ...]] = {}
        self._halted: dict[str, StuckNode] = {}
        self._facts: dict[str, tuple[tuple[str, str], ...]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def begin(self) -> None:
        """Remember which tickets several nodes share: they close only when all of these were seen well in this run."""
        tickets = await self._context.journal.tickets()
        self._shared = tuple(ticket for ticket in tickets if len(ticket.nodes) > 1 and ticket.status.is_open)
        self._serials = tuple(ticket for ticket in tickets if ticket.serial)
        self._watched = {name: () for ticket in self._shared for name in ticket.nodes}

    async def passed(self, node: Node, seen: Seen) -> None:
        """A stage is done: tickets of parts that it found well are closed."""
        if not any(item.part.kind not in {PartKind.NODE, PartKind.BOOT} for item in seen.evidence):
            return
        await self._say(node, seen.findings)
        self._findings[node.name] = _joined(self._findings.get(node.name, ()), seen.findings)
        self._watch(node, seen.evidence)
        if facts := _facts(seen.evidence):
            self._facts[node.name] = facts
        await self._keep([item for item in seen.evidence if item.reading not in _PLAIN], seen.gaps)
        await self._settle(node, self._findings[node.name], seen.evidence)

    async def stuck(self, wave: Sequence[StuckNode]) -> Mapping[str, Ending]:
        """Nodes that are stuck together: what they share becomes one ticket, the rest one per node.

        Those that were settled earlier in this run are looked at again with them: a common cause takes over what was
        written for one node alone. The endings of such nodes are among the answers.
        """
        async with self._one_at_a_time:
            return await self._stuck(wave)

    async def _stuck(self, wave: Sequence[StuckNode]) -> Mapping[str, Ending]:
        fresh = {one.node.name for one in wave}
        self._halted |= {one.node.name: one for one in wave}
        well = {name: Verdict((), facts=facts) for name, facts in self._facts.items()}
        verdicts = {name: replace(one.verdict, facts=_facts(one.evidence)) for name, one in self._halted.items()}
        everywhere = self._causes(well | verdicts, self._nodes)
        shared = tuple(cause for cause in everywhere if fresh & set(cause.nodes))
        concerned = {**dict.fromkeys(fresh), **dict.fromkeys(name for cause in shared for name in cause.nodes)}
        tickets: dict[str, list[str]] = {name: [] for name in concerned if name in self._halted}
        own: dict[str, tuple[Finding, ...]] = {}
        # Whoever stands first for a shared cause opens its ticket, before the others say that it explains theirs.
        for name in sorted(tickets, key=lambda name: all(cause.node != name for cause in shared)):
            one = self._halted[name]
            own[name] = await self._remembered(name, without(name, one.verdict, everywhere).findings)
            theirs = tuple(cause for cause in shared if name in cause.nodes)
            first_of = tuple(cause for cause in theirs if cause.node == name)
            told = tuple(replace(cause, dispatch=Dispatch.NEVER) for cause in theirs if cause.node != name)
            self._findings[name] = (*own[name], *first_of)
            if name in fresh:
                self._watch(one.node, one.evidence)
                await self._keep(one.evidence, one.gaps)
            await self._say(one.node, self._findings[name] if name in fresh else first_of)
            await self._note(one.node, [c for c in theirs if c.node != name and c.dispatch is Dispatch.NEVER])
            seen = tuple(e for n in self._halted.values() for e in n.evidence) if first_of else one.evidence
            for ticket in await self._settle(one.node, (*self._findings[name], *told), seen):
                for holder in {name, *ticket.nodes} & tickets.keys():
                    tickets[holder].append(ticket.id)
        return {name: self._ending(name, own[name], shared, tickets[name]) for name in tickets}

    async def _remembered(self, name: str, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """A change that many had in common lately is not forgotten when one of them is looked at alone."""
        if len(self._nodes) >= SHARED or all(finding.dispatch is Dispatch.NEVER for finding in findings):
            return tuple(findings)
        now, lately = self._context.now(), {}
        for event in await self._context.journal.history(name, limit=200):
            if event.get("rule") == "FLEET-CHANGE" and now - datetime.fromisoformat(str(event["at"])) < LATELY:
                lately[event.get("locator")] = event
        return tuple(
            replace(
                finding,
                dispatch=Dispatch.NEVER,
                ask=f"{told['ask']} (That was {str(told['at'])[:16]}; bring up several of them to judge it anew.)",
            )
            if (told := lately.get(finding.part.locator)) is not None and finding.dispatch is not Dispatch.NEVER
            else finding
            for finding in findings
        )

    def _ending(self, name: str, own: Sequence[Finding], shared: Sequence[Finding], tickets: Sequence[str]) -> Ending:
        stuck = self._halted[name].stuck
        causes = [cause for cause in shared if name in cause.nodes]
        why = stuck.why
        if causes:
            # The stage saw this node alone and told what it would ask of a technician there.
            told = [*causes, *(finding for finding in own if finding.dispatch is not Dispatch.NEVER)]
            why = "; ".join(f"{finding.part.locator}: {finding.ask}" for finding in told)
        return Ending(_outcome(stuck, (*own, *causes)), why, tuple(dict.fromkeys(tickets)))

    async def finish(self) -> None:
        """All nodes are over: tickets that several of them share may close."""
        for ticket in self._shared:
            node = self._nodes.get(ticket.node)
            if node is None or not all(self._watched.get(name) for name in ticket.nodes):
                continue
            seen = tuple(item for name in ticket.nodes for item in self._watched[name])
            findings = tuple(f for name in ticket.nodes for f in self._findings.get(name, ()))
            changes = self._desk(node, findings, seen, [ticket], self._context.now())
            await self._apply([change for change in changes if change.ticket.dedupe_key == ticket.dedupe_key])

    def _watch(self, node: Node, evidence: tuple[Evidence, ...]) -> None:
        if node.name in self._watched:
            self._watched[node.name] += evidence

    async def _keep(self, evidence: Sequence[Evidence], gaps: Sequence[Gap]) -> None:
        if evidence or gaps:
            await self._context.journal.keep_evidence(self._context.run.id, evidence, gaps)

    async def _settle(self, node: Node, findings: Sequence[Finding], seen: Sequence[Evidence]) -> tuple[Ticket, ...]:
        """Move the node's tickets; those that are open afterwards."""
        standing = await self._context.journal.tickets(node=node.name)
        known = {ticket.id for ticket in standing}
        serials = {str(item.values.get("serial")) for finding in findings for item in finding.evidence}
        standing += tuple(
            t
            for t in dict.fromkeys((*self._shared, *self._serials))
            if t.id not in known and (node.name in t.nodes or t.serial in serials)
        )
        changes = self._desk(node, findings, seen, standing, self._context.now())
        return await self._apply(changes)

    async def _apply(self, changes: Sequence[TicketChange]) -> tuple[Ticket, ...]:
        if not changes:
            return ()
        context = self._context
        moved = {ticket.dedupe_key: ticket for ticket in await context.journal.settle(context.run.id, changes)}
        still_open: list[Ticket] = []
        for change in changes:
            ticket = moved.get(change.ticket.dedupe_key, change.ticket)
            await context.record(
                TicketMoved(
                    context.now(),
                    context.run.id,
                    ticket.node,
                    ticket=ticket.id,
                    change=change.kind.value,
                    category=ticket.category.value,
                    locator=ticket.locator,
                    action=ticket.action.value,
                    ask=ticket.ask,
                )
            )
            if change.kind is not ChangeKind.VERIFY and not ticket.held_by:
                still_open.append(ticket)
        return tuple(still_open)

    async def _say(self, node: Node, findings: Iterable[Finding]) -> None:
        """Findings for which nobody goes have no ticket to be read in."""
        context = self._context
        for finding in findings:
            if finding.dispatch is Dispatch.NEVER:
                await context.record(self._made(node, finding))

    async def _note(self, node: Node, shared: Iterable[Finding]) -> None:
        """What the first of several nodes was told stands in the history of the others too; it is shown once."""
        for cause in shared:
            await self._context.journal.record(self._made(node, cause))

    def _made(self, node: Node, finding: Finding) -> FindingMade:
        return FindingMade(
            self._context.now(),
            self._context.run.id,
            node.name,
            rule=finding.rule,
            category=finding.category.value,
            locator=finding.part.locator,
            action=finding.action.value,
            dispatch=finding.dispatch.value,
            ask=finding.ask,
        )


def _facts(evidence: Sequence[Evidence]) -> tuple[tuple[str, str], ...]:
    """Versions and model of a node, as its BMC says them."""
    for item in evidence:
        if item.source == "redfish/host":
            said = ((name, item.values.get(name)) for name in ("model", "bmc_firmware", "bios_version"))
            return tuple((name, str(value)) for name, value in said if value)
    return ()


def merged(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """The verdict with what the stage itself had found beside it, each once."""
    return replace(verdict, findings=_joined(verdict.findings, findings))


def _joined(base: Sequence[Finding], more: Sequence[Finding]) -> tuple[Finding, ...]:
    """``base``, and of ``more`` what is neither in it (same rule, same part) nor explained by it."""
    explained = {rule for finding in base for rule in finding.absorbed}
    known = {(finding.rule, finding.part) for finding in base}
    new = (f for f in more if f.rule not in explained and (f.rule, f.part) not in known)
    return (*base, *new)


def _outcome(stuck: Stuck, findings: Iterable[Finding]) -> Outcome:
    """Hands, if somebody must go to the machine; a stage that knows that nobody must says so."""
    if not stuck.ours and any(finding.dispatch is not Dispatch.NEVER for finding in findings):
        return Outcome.NEEDS_HANDS
    return Outcome.NEEDS_US
