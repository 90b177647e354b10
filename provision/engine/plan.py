"""What a bring-up would do: looks, and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from provision.engine.fleet import ToolsFor
from provision.errors import PeerError, UnavailableError
from provision.model.decision import Act, Done, Stuck, Wait
from provision.model.node import Node
from provision.model.profile import Goal, Profile
from provision.ports import Journal, Stage, Tools


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What a bring-up would do with one node.

    ``stage`` is where it stands; ``verdict`` is ``ready``, ``act``, ``wait`` or ``stuck``; ``what`` the step or reason
    in one sentence; ``erases`` whether that step erases disks; ``then`` what is expected after it, one line each;
    ``step`` is the step's name where it would act.
    """

    node: str
    stage: str
    verdict: str
    what: str
    erases: bool = False
    then: tuple[str, ...] = ()
    step: str = ""


async def plan(
    nodes: Sequence[Node],
    profiles: Mapping[str, Profile],
    *,
    stages: Sequence[Stage],
    journal: Journal,
    tools_for: ToolsFor,
    width: int = 64,
) -> tuple[NodePlan, ...]:
    """Walk the stages of each node by reading only, ``width`` nodes at a time; answers in the order of ``nodes``.

    No peer's error leaves: it becomes ``stuck`` (or ``wait``) with its sentence. Every ``tools.bmc`` is closed.
    """
    gate = asyncio.Semaphore(width)
    names = frozenset(node.name for node in nodes)
    claims = {f"tag {node.service_tag.strip().upper()}": node.name for node in nodes if node.service_tag}

    async def one(node: Node) -> NodePlan:
        async with gate:
            goal = Goal(profiles[node.profile], await journal.epoch(node.name))
            tools = tools_for(node, goal)
            try:
                return await _walk(node, stages, replace(tools, names=tools.names | names, claims=claims), goal)
            finally:
                await tools.bmc.close()

    return tuple(await asyncio.gather(*(one(node) for node in nodes)))


async def _walk(node: Node, stages: Sequence[Stage], tools: Tools, goal: Goal) -> NodePlan:
    for index, stage in enumerate(stages):
        try:
            decision = stage.decide(goal, await stage.observe(node, tools))
        except PeerError as error:
            verdict = "wait" if isinstance(error, UnavailableError) else "stuck"
            return NodePlan(node.name, stage.name, verdict, str(error))
        then = tuple(_forecast(later, goal) for later in stages[index + 1 :])
        match decision:
            case Done():
                continue
            case Act(step, why, erases):
                return NodePlan(node.name, stage.name, "act", f"{step.name}: {why}", erases, then, step.name)
            case Wait(why):
                return NodePlan(node.name, stage.name, "wait", why, then=then)
            case Stuck(why):
                return NodePlan(node.name, stage.name, "stuck", why)
    return NodePlan(node.name, stages[-1].name, "ready", "nothing to do")


def _forecast(stage: Stage, goal: Goal) -> str:
    """What a later stage is expected to do; it cannot be looked at before the earlier ones are done."""
    tell = getattr(stage, "forecast", None)
    return f"then {stage.name}: {tell(goal)}" if callable(tell) else f"then {stage.name}"
