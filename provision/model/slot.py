"""Room for operations: what a node asks for, what it holds, and what is stopped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Ask:
    """A node wants to begin an operation.

    ``places`` are what it would take room of, each with the most that it carries (``("deployments", 32)``,
    ``("in flight on rack rack-12", 64)``); ``brakes`` are the names under which it may be stopped (``rack-12``).
    """

    node: str
    operation: str
    places: tuple[tuple[str, int], ...]
    brakes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """A node holds room. ``live``: its run is still at work; if not, somebody must look whether it is over."""

    node: str
    operation: str
    places: tuple[str, ...]
    run: str
    since: datetime
    user: str = ""
    host: str = ""
    live: bool = True


@dataclass(frozen=True, slots=True)
class Tally:
    """How an operation ended for one node, counted under the name of one of its places."""

    place: str
    node: str
    stage: str
    ok: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Brake:
    """A rack, feed, profile or image where nothing more is begun until somebody says ``provision resume``."""

    place: str
    why: str
    run: str
    at: datetime
