"""`provision bringup` and `provision plan`: begin a run, watch the one that does the same already, or follow a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from provision.app import operators, plans, runs, workers
from provision.app.runs import Sink
from provision.app.wiring import Wiring
from provision.errors import MisconfiguredError, RefusedError
from provision.model.decision import Outcome
from provision.model.node import Node


async def bring_up(
    wiring: Wiring,
    target: str | None,
    *,
    sinks: Sequence[Sink],
    say: Callable[[str], None],
    plan_file: Path | None,
    take_over: bool,
) -> tuple[int, str, tuple[Node, ...], dict[str, Outcome]]:
    """Exit status, target, nodes, and how each ended.

    Raises:
        MisconfiguredError: a plan that is none, or that the world has outrun.
        RefusedError: somebody does something else with one of the nodes.
    """
    plan = plans.read(plan_file) if plan_file is not None else None
    target, nodes = _what(wiring, target, plan, plan_file)
    await make_room(wiring, nodes, say, take_over=take_over)
    if plan is None and (done := await workers.by_workers(wiring, nodes, target, sinks, say)) is not None:
        return done[0], target, nodes, done[1]
    run = await operators.attach_to(wiring, nodes, "bringup")
    if run is not None and plan is None:
        say(f"run {run.id} of {run.who} brings them up already: this only watches it (Ctrl-C ends the watching)")
        status, ended = await operators.watch(wiring, run.id, sinks)
        return status, target, nodes, {n.name: ended[n.name].outcome for n in nodes if n.name in ended}
    if run is not None:
        raise RefusedError("store", "start the run", f"run {run.id} of {run.who} brings them up without this plan")
    allowed = None
    if plan is not None and plan_file is not None:
        plans.refuse(plan_file, target, await plans.differences(wiring, plan, nodes, await runs.plan(wiring, nodes)))
        allowed = plans.allowed(plan)
    status, outcomes = await runs.bring_up(
        wiring, nodes, verb="bringup", target=target, sinks=sinks, site_checked=plan is not None, plan=allowed
    )
    return status, target, nodes, outcomes


def _what(
    wiring: Wiring, target: str | None, plan: dict[str, Any] | None, plan_file: Path | None
) -> tuple[str, tuple[Node, ...]]:
    if plan is None:
        if target is None:
            raise MisconfiguredError("give a TARGET (a node, a rack), or --plan FILE")
        return target, wiring.select(target)
    if target not in {None, plan["target"]}:
        raise MisconfiguredError(f"{plan_file} is a plan for {plan['target']!r}, not for {target!r}; leave TARGET out")
    names = [item["node"] for item in plan["nodes"]]
    if gone := [name for name in names if name not in wiring.site.nodes]:
        raise MisconfiguredError(f"{plan_file} is outrun: {gone[0]} is not in the inventory any more; plan again")
    return plan["target"], tuple(wiring.site.nodes[name] for name in names)


async def make_room(wiring: Wiring, nodes: Sequence[Node], say: Callable[[str], None], *, take_over: bool) -> None:
    """With ``take_over``: end whoever holds the nodes."""
    if take_over:
        for sentence in await operators.take_over(wiring, nodes):
            say(sentence)


async def plan(wiring: Wiring, target: str, out: Path | None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What a bring-up would do: rows, and the plan with every write; kept in ``out`` if that is given."""
    nodes = wiring.select(target)
    seen = await runs.plan(wiring, nodes)
    whole = await plans.as_file(wiring, target, nodes, seen)
    if out is not None:
        plans.write(whole, out)
    return runs.plan_rows(seen), whole
