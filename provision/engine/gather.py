"""Evidence from every probe that still answers."""

from __future__ import annotations

from dataclasses import dataclass

from provision.model.evidence import Evidence, Gap
from provision.model.node import Node
from provision.ports import Tools


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the probes said, and which of them could not say."""

    evidence: tuple[Evidence, ...]
    gaps: tuple[Gap, ...] = ()


async def gather(node: Node, tools: Tools, *, skip: frozenset[str] = frozenset()) -> Gathered:
    """Ask BMC (health, readiness, clock), MAAS (status, results, events) and host (checks) about one node.

    ``skip`` names peers not to be asked: ``bmc``, ``maas``, ``ssh``. Only reads; a peer that does not answer becomes
    a Gap (and for BMC and host evidence ``bmc/answer``, ``ssh/answer``); no error leaves. Does not close ``tools``.
    """
    raise NotImplementedError
