"""Work that any worker may do: who wants it, who is there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Want:
    """A node that is to be brought up. ``run`` has it in hand, or had; an ``outcome`` says that it is over."""

    node: str
    run: str = ""
    outcome: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """A worker that gave a sign of life."""

    id: str
    host: str
    pid: int
    started_at: datetime
