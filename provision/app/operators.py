"""Several operators at one site: who runs what, watching and ending it, limits and what is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provision.app.runs import Sink
from provision.app.wiring import Wiring, whoami
from provision.engine.admission import limit_of
from provision.engine.turns import ERASURES, HOUR_S, MINUTE_S, REBOOTS
from provision.errors import MisconfiguredError, RefusedError
from provision.model.event import NodeEnded, RunEnded, Said, read_event
from provision.model.node import Node
from provision.model.run import Run
from provision.store.gates import gates_of
from provision.store.operators import Standing, operators_of

POLL_S = 0.5
# A run looks every two seconds whether somebody asks it to end, and then ends its passes.
ENDS_WITHIN_S = 20.0


async def attach_to(wiring: Wiring, nodes: Sequence[Node], verb: str) -> Run | None:
    """The live run that does for all these nodes what is asked; None if nobody holds any of them.

    Raises:
        RefusedError: somebody does something else with one of them; the sentence names who.
    """
    holders = await operators_of(wiring.store).holders([node.name for node in nodes])
    names = {node.name for node in nodes}
    for run in holders.values():
        if run.verb == verb == "bringup" and names <= set(run.nodes):
            return run
        held = sorted(names & set(run.nodes))
        raise RefusedError(
            "store",
            "start the run",
            f"{held[0]}{f' and {len(held) - 1} more' if len(held) > 1 else ''} is held by {run.verb} {run.target} of "
            f"{run.who}, since {run.started_at:%Y-%m-%d %H:%M:%S} UTC (run {run.id}); wait for it "
            f"(provision watch {run.id}), end it (provision cancel {run.id}), or add --take-over",
            code=run.id,
        )
    return None


async def take_over(wiring: Wiring, nodes: Sequence[Node]) -> list[str]:
    """End the runs that hold these nodes: asked first, then taken out of their hands. Sentences about it."""
    operators, said = operators_of(wiring.store), []
    user, host, _ = whoami()
    names = [node.name for node in nodes]
    holders = await operators.holders(names)
    for run in holders.values():
        await operators.ask_to_end(run.id, f"{user}@{host}")
    deadline = wiring.clock.monotonic() + ENDS_WITHIN_S
    while holders and await operators.holders(names) and wiring.clock.monotonic() < deadline:
        await wiring.clock.sleep(POLL_S)
    hanging = await operators.holders(names)
    for run in holders.values():
        voided = await operators.void(run.id, f"{user}@{host}"[:64]) if run.id in hanging else 0
        how = f"did not end by itself: it may write no more, {voided} intent(s) are void" if voided else "ended"
        said.append(f"run {run.id} of {run.who} ({run.verb} {run.target}) {how}")
    return said


async def watch(wiring: Wiring, run_id: str, sinks: Sequence[Sink]) -> tuple[int, dict[str, NodeEnded]]:
    """Show a run's events from its beginning until it ends; its exit status, and how each node ended.

    Raises:
        MisconfiguredError: there is no such run.
    """
    operators, after, ended = operators_of(wiring.store), 0, {}
    await one(wiring, run_id)
    try:
        while True:
            standing = await one(wiring, run_id)
            after, rows = await operators.events(run_id, after=after)
            for row in rows:
                event = read_event(row)
                if event is None:
                    continue
                for sink in sinks:
                    sink(event)
                if isinstance(event, NodeEnded):
                    ended[event.node] = event
                if isinstance(event, RunEnded):
                    return event.exit_status, ended
            if rows:
                continue
            if standing.status != "running":
                _say_how_it_stands(wiring, standing, sinks)
                return (standing.exit_status if standing.exit_status is not None else 1), ended
            await wiring.clock.sleep(POLL_S)
    finally:
        for sink in sinks:
            sink.close()


def _say_how_it_stands(wiring: Wiring, standing: Standing, sinks: Sequence[Sink]) -> None:
    run = standing.run
    how = f"was taken over by {standing.taken_over_by}" if standing.taken_over_by else "is not at work any more"
    text = f"run {run.id} of {run.who} {how}; to go on: provision {run.verb} '{run.target}'"
    for sink in sinks:
        sink(Said(wiring.clock.now(), run.id, text, level="error"))


async def one(wiring: Wiring, run_id: str) -> Standing:
    """How one run stands.

    Raises:
        MisconfiguredError: there is no such run.
    """
    found = await operators_of(wiring.store).standing(run=run_id)
    if not found:
        raise MisconfiguredError(f"there is no run {run_id}; provision runs lists them")
    return found[0]


async def runs(wiring: Wiring, limit: int) -> list[dict[str, Any]]:
    """Runs, newest first: who, when, from where, over what, how it stands."""
    return [
        {
            "run": item.run.id,
            "status": item.status if item.status != "ended" else f"exit {item.exit_status}",
            "verb": item.run.verb,
            "target": item.run.target,
            "nodes": len(item.run.nodes),
            "who": f"{item.run.user}@{item.run.host}",
            "pid": item.run.pid,
            "started": item.run.started_at.isoformat(timespec="seconds"),
            "ended": item.ended_at.isoformat(timespec="seconds") if item.ended_at else "",
            "note": (f"asked to end by {item.asked}" if item.asked else "")
            or (f"taken over by {item.taken_over_by}" if item.taken_over_by else ""),
        }
        for item in await operators_of(wiring.store).standing(limit=limit)
    ]


async def commands(wiring: Wiring, limit: int) -> list[dict[str, Any]]:
    """Commands that were typed, newest first."""
    return [
        {
            "at": item.at.isoformat(timespec="seconds"),
            "who": f"{item.user}@{item.host}",
            "pid": item.pid,
            "command": item.words,
        }
        for item in await operators_of(wiring.store).commands(limit=limit)
    ]


async def cancel(wiring: Wiring, run_id: str) -> str:
    """Ask a run to begin no new act and to end; a sentence once it has.

    Raises:
        RefusedError: it is not at work, or there is none.
    """
    user, host, _ = whoami()
    operators = operators_of(wiring.store)
    await operators.ask_to_end(run_id, f"{user}@{host}")
    deadline = wiring.clock.monotonic() + ENDS_WITHIN_S
    while (standing := await one(wiring, run_id)).status == "running":
        if wiring.clock.monotonic() >= deadline:
            return (
                f"run {run_id} of {standing.run.who} is asked to end, and has not ended yet: provision watch {run_id}"
            )
        await wiring.clock.sleep(POLL_S)
    return f"run {run_id} of {standing.run.who} has ended; what MAAS has begun goes on by itself"


async def resume(wiring: Wiring, names: Sequence[str]) -> list[str]:
    """Go on in places that are stopped, named whole (``rack rack-12``) or by their last word; ``all`` for all.

    Raises:
        MisconfiguredError: nothing of that name is stopped; what is, is named.
    """
    gates = gates_of(wiring.store)
    stopped = await gates.brakes()
    chosen = []
    for name in names:
        found = [b.place for b in stopped if name in {"all", b.place, b.place.partition(" ")[2]}]
        if not found:
            there = ", ".join(b.place for b in stopped) or "nothing"
            raise MisconfiguredError(f"{name} is not stopped; what is stopped: {there}")
        chosen += found
    chosen = list(dict.fromkeys(chosen))
    await gates.resume(chosen)
    return chosen


async def limits(wiring: Wiring) -> dict[str, Any]:
    """Each limit with its use, who holds what, and what is stopped."""
    site, gates = wiring.settings.site, gates_of(wiring.store)
    slots = await gates.slots()
    used: dict[str, list[str]] = {"in flight": [], "deployments": []}
    for slot in slots:
        for place in slot.places:
            used.setdefault(place, []).append(slot.node)
    rows = [
        {"limit": place, "use": len(nodes), "of": limit_of(site.limits, place), "nodes": nodes}
        for place, nodes in sorted(used.items(), key=lambda item: (item[0].startswith("in flight on"), item[0]))
    ]
    for name, limit, window_s, words in (
        (REBOOTS, site.limits.reboots_per_minute, MINUTE_S, "reboots per minute"),
        (ERASURES, site.limits.erasures_per_hour, HOUR_S, "erasures per hour"),
    ):
        if limit is not None:
            done = await gates.turns(name, window_s * site.pace)
            now = wiring.clock.now()
            past = [node for node, _, at in done if at <= now]
            rows.append({"limit": words, "use": len(past), "of": limit, "nodes": past})
    return {
        "limits": rows,
        "slots": [
            {
                "node": slot.node,
                "operation": slot.operation,
                "who": f"{slot.user}@{slot.host}",
                "run": slot.run,
                "since": slot.since.isoformat(timespec="seconds"),
                "run_is_live": slot.live,
                "places": list(slot.places),
            }
            for slot in slots
        ],
        "stopped": [
            {"place": b.place, "why": b.why, "run": b.run, "since": b.at.isoformat(timespec="seconds")}
            for b in await gates.brakes()
        ],
    }
