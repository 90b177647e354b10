"""What the looking verbs do: read peers or the store, judge, and answer with plain rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from provision.app.wiring import Wiring
from provision.engine.gather import Gathered, gather
from provision.errors import PeerError, ProvisionError
from provision.model.bmc import Harvest
from provision.model.decision import Outcome
from provision.model.event import read_event
from provision.model.evidence import Evidence, Reading
from provision.model.finding import Finding, Verdict
from provision.model.node import Node
from provision.model.run import NodeState, Run
from provision.model.ticket import Ticket
from provision.report.plain import sentence
from provision.report.text import duration
from provision.store.operators import operators_of

Result = TypeVar("Result")
WIDTH = 64  # BMCs looked at side by side


async def each(nodes: Sequence[Node], work: Callable[[Node], Awaitable[Result]], width: int = WIDTH) -> list[Result]:
    """Run ``work`` for every node, ``width`` at a time; answers in the nodes' order."""
    gate = asyncio.Semaphore(width)

    async def one(node: Node) -> Result:
        async with gate:
            return await work(node)

    return list(await asyncio.gather(*(one(node) for node in nodes)))


async def macs(wiring: Wiring, nodes: Sequence[Node]) -> tuple[list[dict[str, Any]], list[str]]:
    """One row per port of each node, and a sentence for each BMC or place that could not be read."""

    async def one(node: Node) -> tuple[Node, Harvest | None, str]:
        bmc = wiring.redfish(node, guids=True)
        try:
            return node, await bmc.harvest(), ""
        except PeerError as error:
            return node, None, f"{node.name}: {error}"
        finally:
            await bmc.close()

    rows: list[dict[str, Any]] = []
    complaints: list[str] = []
    for node, harvest, complaint in await each(nodes, one):
        if harvest is None:
            complaints.append(complaint)
            continue
        complaints += [f"{node.name}: could not read {gap.where}: {gap.why}" for gap in harvest.gaps]
        if not any(port.mac for port in harvest.ports):
            complaints.append(f"{node.name}: no MAC address on the BMC; has the machine ever been switched on?")
        rows += [
            {
                "node": node.name,
                "port": port.name,
                "locator": port.locator,
                "mac": str(port.mac) if port.mac else None,
                "current_mac": str(port.current_mac) if port.current_mac else None,
                "link": port.link.value,
                "speed_mbps": port.speed_mbps,
                "kind": port.kind,
                "model": port.model,
                "guids": list(port.guids),
                "boot": port.network_boot,
                "boot_why": port.network_boot_why,
                "switch": port.neighbour.switch if port.neighbour else None,
                "switch_port": port.neighbour.port if port.neighbour else None,
            }
            for port in harvest.ports
        ]
    return rows, complaints


async def look(wiring: Wiring, node: Node) -> tuple[Gathered, Verdict]:
    """Ask every probe about one node, and judge."""
    tools = await wiring.tools_of(node)
    try:
        seen = await gather(node, tools, skip=wiring.absent_peers(node))
    finally:
        await tools.bmc.close()
    return seen, wiring.judge(node, wiring.profile(node), seen.evidence, seen.gaps, wiring.clock.now())


async def triage(wiring: Wiring, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """Findings and gaps of each node."""

    async def one(node: Node) -> dict[str, Any]:
        seen, verdict = await look(wiring, node)
        gaps = sorted({f"{gap.source} {gap.where}: {gap.why}" for gap in (*seen.gaps, *verdict.gaps)})
        return {"node": node.name, "findings": [finding_row(f) for f in verdict.findings], "gaps": gaps}

    return await each(nodes, one)


def finding_row(finding: Finding) -> dict[str, Any]:
    """A finding as plain values."""
    return {
        "rule": finding.rule,
        "category": finding.category.value,
        "component": finding.component,
        "part": finding.part.name,
        "locator": finding.part.locator,
        "peer_end": finding.peer_end,
        "action": finding.action.value,
        "escalate": finding.escalate.value if finding.escalate else None,
        "dispatch": finding.dispatch.value,
        "hardware": finding.hardware,
        "confidence": round(finding.confidence, 3),
        "ask": finding.ask,
        "why": finding.why,
        "absorbed": list(finding.absorbed),
        "nodes": list(finding.nodes),
        "evidence": [evidence_row(item) for item in finding.evidence],
    }


def evidence_row(item: Evidence) -> dict[str, Any]:
    """A reading as plain values."""
    return {
        "part": item.part.name,
        "locator": item.part.locator,
        "reading": item.reading.value,
        "source": item.source,
        "seen_at": item.seen_at.isoformat(),
        "code": item.code,
        "text": item.text,
        "values": dict(item.values),
    }


async def check(wiring: Wiring, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """``yes``, ``no`` or ``unknown`` per host, with its evidence. Unknown is never healthy."""

    async def one(node: Node) -> dict[str, Any]:
        seen, verdict = await look(wiring, node)
        failed = [item for item in seen.evidence if item.source == "ssh/checks" and item.reading is Reading.FAILED]
        blind = [item for item in seen.evidence if item.source == "ssh/checks" and item.reading is Reading.UNKNOWN]
        answered = any(item.source == "ssh/checks" for item in seen.evidence)
        nos = [f"{f.part.locator}: {f.why or f.ask}" for f in verdict.findings if not only_silent(f)]
        nos += [f"{item.values.get('check', item.part.name)}: {item.text}" for item in failed]
        unknowns = [f"could not look at {gap.source} {gap.where}: {gap.why}" for gap in seen.gaps]
        unknowns += [f"{item.values.get('check', item.part.name)}: could not look: {item.text}" for item in blind]
        if not answered:
            unknowns.append("the host's own checks gave no answer")
        healthy = "no" if nos else "unknown" if unknowns else "yes"
        return {"node": node.name, "healthy": healthy, "evidence": list(dict.fromkeys(nos + unknowns))}

    return await each(nodes, one)


def only_silent(finding: Finding) -> bool:
    """True if all it says is that a peer did not answer: then nobody looked, and the gap beside it says so."""
    return not finding.hardware and all(item.source.endswith("/answer") for item in finding.evidence)


async def status(wiring: Wiring, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """Where every node stood when it was last looked at."""
    states = {state.node: state for state in await wiring.store.states([node.name for node in nodes])}
    tickets: dict[str, list[Ticket]] = {}
    for ticket in await wiring.store.tickets(open_only=True):
        for name in {ticket.node, *ticket.nodes} if not ticket.held_by else ():
            tickets.setdefault(name, []).append(ticket)
    at_work = await operators_of(wiring.store).holders([node.name for node in nodes])
    holders = {name: run for run in at_work.values() for name in run.nodes}
    now = wiring.clock.now()
    rows = []
    for node in nodes:
        state, open_ones, holder = states.get(node.name), tickets.get(node.name, []), holders.get(node.name)
        rows.append(
            {
                "node": node.name,
                "rack": node.rack,
                "outcome": _outcome(state, holder),
                "stage": state.stage if state else "",
                "since": f"{duration((now - state.since).total_seconds())} ago" if state else "",
                "since_utc": state.since.isoformat() if state else None,
                "why": state.why if state else "never looked at",
                "next": _next(node, state, holder, open_ones),
                "tickets": [ticket.id for ticket in open_ones],
            }
        )
    return rows


def _outcome(state: NodeState | None, holder: Run | None) -> str:
    if state is None:
        return "unknown"
    if state.outcome is not None:
        return state.outcome.value
    return state.what if holder is not None and holder.id == state.run else Outcome.INTERRUPTED.value


def _next(node: Node, state: NodeState | None, holder: Run | None, tickets: Sequence[Ticket]) -> str:
    """``holder`` is the run that is at work and has the node, also before it has come to it."""
    again = f"provision bringup {node.name}"
    if holder is not None and (state is None or state.outcome is None or state.since < holder.started_at):
        return f"goes on in run {holder.id} of {holder.who}"
    if state is None:
        return again
    if state.outcome is None:
        return f"the run ended in the middle: {again}"
    if state.outcome is Outcome.READY:
        return f"given back to MAAS: {again}" if state.stage == "release" else "nothing"
    if state.outcome is Outcome.NEEDS_HANDS and tickets:
        return f"repair {', '.join(ticket.id for ticket in tickets)}, then: {again}"
    if state.outcome is Outcome.INTERRUPTED:
        return again
    return f"look: provision triage {node.name}; then: {again}"


async def history(wiring: Wiring, node: Node, limit: int) -> list[dict[str, Any]]:
    """The node's events as sentences and as data, oldest first; before a run's first one, who began it and where."""
    rows: list[dict[str, Any]] = []
    whose = {run.id: run for run, _ in await wiring.store.runs(limit=limit)}
    for data in await wiring.store.history(node.name, limit=limit):
        if (run := whose.pop(str(data.get("run")), None)) is not None:
            began = f"{run.verb} {run.target} by {run.who}"
            at = run.started_at.isoformat()
            rows.append({"at": at[:19], "run": run.id, "text": began, "event": "run-begun", "user": run.user})
        event = read_event(data)
        text = sentence(event) if event is not None else str(data)
        if text is not None:
            rows.append({"at": str(data.get("at", ""))[:19], "run": data.get("run", ""), "text": text, **data})
    return rows


def complaint(error: ProvisionError) -> str:
    """One line of an error."""
    return " ".join(str(error).splitlines())
