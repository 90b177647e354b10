"""What a bring-up would do: looks, and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provision.engine.fleet import ToolsFor
from provision.model.node import Node
from provision.model.profile import Profile
from provision.ports import Journal, Stage


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What a bring-up would do with one node.

    ``stage`` is where it stands; ``verdict`` is ``ready``, ``act``, ``wait`` or ``stuck``; ``what`` the step or reason
    in one sentence; ``erases`` whether that step erases disks; ``then`` what is expected after it, one line each.
    """

    node: str
    stage: str
    verdict: str
    what: str
    erases: bool = False
    then: tuple[str, ...] = ()


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
    raise NotImplementedError
