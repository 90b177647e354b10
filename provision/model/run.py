"""One invocation of the program over some nodes, and the attempts it makes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from provision.model.decision import Outcome


@dataclass(frozen=True, slots=True)
class Run:
    """Who runs what over which nodes, since when. ``id`` sorts by time (``20261129-190501-7f3a``).

    ``lease_s``: after so much silence others take its nodes over, also from a process that is only stopped or hangs;
    None for a run that a person watches.
    """

    id: str
    verb: str
    nodes: tuple[str, ...]
    user: str
    host: str
    pid: int
    started_at: datetime
    target: str = ""
    lease_s: float | None = None

    @property
    def who(self) -> str:
        """``anna@deploy-1, process 4711`` for sentences that name another run."""
        return f"{self.user}@{self.host}, process {self.pid}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A write that is about to be sent, was sent, or was seen to be over.

    ``result`` is None while nobody knows; ``sent``, ``unknown`` (no answer), ``refused`` or ``void`` otherwise.
    """

    id: int
    run: str
    node: str
    stage: str
    step: str
    why: str
    opened_at: datetime
    result: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NodeState:
    """Where a node stood when it was last looked at, for ``provision status``."""

    node: str
    run: str
    stage: str
    since: datetime
    what: str
    why: str
    outcome: Outcome | None = None
    updated_at: datetime | None = None
