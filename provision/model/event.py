"""What happened, as records. Sinks make the sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import Enum
from typing import Any

from provision.model.decision import Outcome


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events. ``at`` is UTC."""

    at: datetime
    run: str

    @property
    def kind(self) -> str:
        """``StageEnded`` is ``stage-ended`` in JSON and in the store."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", type(self).__name__).lower()

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; ``event`` names the kind."""
        plain: dict[str, Any] = {"event": self.kind}
        for item in fields(self):
            plain[item.name] = _plain(getattr(self, item.name))
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {key: _plain(item) for key, item in asdict(value).items()}
    return value


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A run begins. ``racks`` maps each node to its rack, for displays."""

    verb: str
    target: str
    nodes: tuple[str, ...]
    racks: tuple[tuple[str, str], ...]
    stages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeEvent(Event):
    """Base of events about one node."""

    node: str


@dataclass(frozen=True, slots=True)
class StageStarted(NodeEvent):
    """The node's pass arrives at a stage."""

    stage: str


@dataclass(frozen=True, slots=True)
class Waited(NodeEvent):
    """The reason for waiting changed (the same reason is not repeated)."""

    stage: str
    why: str
    pause_s: float


@dataclass(frozen=True, slots=True)
class Acted(NodeEvent):
    """A write was sent. ``result`` is ``sent``, ``unknown`` or ``refused``."""

    stage: str
    step: str
    why: str
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StageEnded(NodeEvent):
    """A stage is over for this node."""

    stage: str
    done: bool
    why: str
    took_s: float


@dataclass(frozen=True, slots=True)
class NodeEnded(NodeEvent):
    """The run is over for this node."""

    outcome: Outcome
    stage: str
    why: str
    took_s: float
    tickets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TicketMoved(NodeEvent):
    """A ticket was opened, seen again, reopened or verified."""

    ticket: str
    change: str
    category: str
    locator: str
    action: str
    ask: str


@dataclass(frozen=True, slots=True)
class FindingMade(NodeEvent):
    """Triage judged something for which nobody goes."""

    rule: str
    category: str
    locator: str
    action: str
    dispatch: str
    ask: str


@dataclass(frozen=True, slots=True)
class Said(Event):
    """A sentence for the operator that belongs to no stage (a breaker opened, Ctrl-C, a drift)."""

    text: str
    node: str = ""
    level: str = "info"


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """The run is over. ``counts`` are (outcome, number)."""

    counts: tuple[tuple[str, int], ...]
    took_s: float
    exit_status: int


def read_event(data: Mapping[str, Any]) -> Event | None:
    """Undo ``as_dict``. None for a kind or a shape that this version does not know (a newer one wrote it)."""
    kind = _KINDS.get(str(data.get("event")))
    if kind is None:
        return None
    values: dict[str, Any] = {}
    for item in fields(kind):
        if item.name not in data:
            continue
        value = data[item.name]
        if item.name == "at":
            value = datetime.fromisoformat(str(value))
        elif item.name == "outcome":
            value = Outcome(value)
        elif isinstance(value, list):
            value = tuple(tuple(part) if isinstance(part, list) else part for part in value)
        values[item.name] = value
    try:
        return kind(**values)
    except TypeError:
        return None


_KINDS: dict[str, type[Event]] = {
    kind.__name__[0].lower() + re.sub(r"([A-Z])", lambda m: "-" + m.group(1).lower(), kind.__name__[1:]): kind
    for kind in (
        RunStarted,
        StageStarted,
        Waited,
        Acted,
        StageEnded,
        NodeEnded,
        TicketMoved,
        FindingMade,
        Said,
        RunEnded,
    )
}
