"""Who is stuck and who may still get stuck: tickets wait for the others of a wave, and not for ever."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from provision.engine.reconcile import Walk
from provision.engine.settle import StuckNode
from provision.model.node import Node
from provision.ports import Clock

# How often somebody looks whether a ticket waits too long, as a part of the patience.
LOOKS = 4


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stuck node whose tickets are not written yet; ``since_s`` is the clock's."""

    place: int
    walk: Walk
    one: StuckNode
    since_s: float


class Waves:
    """The stuck nodes of one run.

    A wave is ready where no other node can get stuck any more: a cause that several share needs them all. When one has
    waited ``patience_s`` (real seconds: people wait for its ticket) everybody who is stuck makes a wave.
    """

    def __init__(self, stages: int, clock: Clock, patience_s: float) -> None:
        self._stages = stages
        self._clock = clock
        self.patience_s = patience_s
        self._places: Counter[int] = Counter()
        self._place_of: dict[str, int] = {}
        self._waiting: list[Waiting] = []
        self.known: dict[str, Waiting] = {}

    def move(self, node: Node, place: int | None) -> None:
        """The node is in another stage, or over (None): nobody who is stuck further back waits for it."""
        if node.name in self._place_of:
            self._places[self._place_of.pop(node.name)] -= 1
        if place is not None:
            self._place_of[node.name] = place
            self._places[place] += 1

    def add(self, walk: Walk, one: StuckNode) -> None:
        """The node cannot go on."""
        waiting = Waiting(walk.index, walk, one, self._clock.monotonic())
        self._waiting.append(waiting)
        self.known[one.node.name] = waiting

    def ready(self) -> list[StuckNode]:
        """Take those for whom nobody needs to be waited for."""
        floor = min((index for index, count in self._places.items() if count > 0), default=self._stages)
        return self._take([item for item in self._waiting if item.place < floor])

    def overdue(self) -> list[StuckNode]:
        """Take all, if one of them has waited too long."""
        now = self._clock.monotonic()
        late = any(now - item.since_s >= self.patience_s for item in self._waiting)
        return self._take(list(self._waiting) if late else [])

    def _take(self, wave: list[Waiting]) -> list[StuckNode]:
        taken = {id(item) for item in wave}
        self._waiting = [item for item in self._waiting if id(item) not in taken]
        return [item.one for item in wave]
