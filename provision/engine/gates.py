"""Room, turns and brakes of one process: what a run counts by when it shares no store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from provision.model.slot import Ask, Brake, Slot, Tally
from provision.ports import Clock


class LocalGates:
    """Fulfils ports.Gates in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[str, Slot] = {}
        self._counts: Counter[str] = Counter()
        self._turns: dict[str, list[datetime]] = {}
        self._tallies: list[Tally] = []
        self._brakes: dict[str, Brake] = {}

    async def take(self, run: str, asks: Sequence[Ask]) -> tuple[str, ...]:
        """See ports.Gates."""
        return tuple(self._take(run, ask) for ask in asks)

    def _take(self, run: str, ask: Ask) -> str:
        for name in ask.brakes:
            if name in self._brakes:
                return f"{name} is stopped ({self._brakes[name].why}); to go on there: provision resume {name}"
        for place, limit in ask.places:
            if self._counts[place] >= limit:
                return f"{self._counts[place]} of {limit} {place}"
        self._put(run, ask)
        return ""

    async def hold(self, run: str, ask: Ask) -> None:
        """See ports.Gates."""
        self._put(run, ask)

    def _put(self, run: str, ask: Ask) -> None:
        self._drop(ask.node)
        places = tuple(place for place, _ in ask.places)
        self._slots[ask.node] = Slot(ask.node, ask.operation, places, run, self._clock.now())
        self._counts.update(places)

    async def free(self, node: str, run: str | None = None) -> None:
        """See ports.Gates."""
        if run is None or (node in self._slots and self._slots[node].run == run):
            self._drop(node)

    def _drop(self, node: str) -> None:
        slot = self._slots.pop(node, None)
        if slot is not None:
            self._counts.subtract(slot.places)

    async def inherit(self, run: str, nodes: Sequence[str]) -> Mapping[str, str]:
        """See ports.Gates."""
        return {node: self._slots[node].operation for node in nodes if node in self._slots}

    async def slots(self) -> tuple[Slot, ...]:
        """See ports.Gates."""
        return tuple(self._slots.values())

    async def turn(self, run: str, node: str, place: str, limit: int, window_s: float) -> float:
        """See ports.Gates."""
        now, window, taken = self._clock.now(), timedelta(seconds=window_s), self._turns.setdefault(place, [])
        at = now if len(taken) < limit else max(now, sorted(taken)[-limit] + window)
        taken.append(at)
        del taken[: -10 * limit]
        return (at - now).total_seconds()

    async def tally(
        self, run: str, node: str, stage: str, places: Sequence[str], *, ok: bool, within_s: float
    ) -> tuple[Tally, ...]:
        """See ports.Gates."""
        now = self._clock.now()
        since = now - timedelta(seconds=within_s)
        self._tallies = [item for item in self._tallies if item.at >= since]
        self._tallies += [Tally(place, node, stage, ok, now) for place in places]
        return tuple(item for item in self._tallies if item.place in places)

    async def brake(self, run: str, place: str, why: str) -> bool:
        """See ports.Gates."""
        if place in self._brakes:
            return False
        self._brakes[place] = Brake(place, why, run, self._clock.now())
        return True

    async def brakes(self) -> tuple[Brake, ...]:
        """See ports.Gates."""
        return tuple(self._brakes.values())

    async def resume(self, places: Sequence[str]) -> None:
        """See ports.Gates."""
        nodes = {item.node for item in self._tallies if item.place in places}
        self._tallies = [item for item in self._tallies if item.node not in nodes]
        for place in places:
            self._brakes.pop(place, None)
