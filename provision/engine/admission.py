"""How much may go on at once, and who is next.

A slot belongs to the operation that goes on in a machine (a commissioning, a deployment, a wave of playbooks). It is
taken before the act that begins the operation, held while the machine is seen to be in it, also when another run began
it, and free again when a look shows that it is over. The book of slots is shared by all processes of a site; the line
of those who wait is this run's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from provision.engine.brakes import Brakes
from provision.engine.canary import Canary
from provision.model.node import Node
from provision.model.site import Limits
from provision.model.slot import Ask
from provision.ports import Clock, Gates
from provision.triage.scene import pdu_of

Over = Callable[[str, str], Awaitable[bool]]
"""(node, operation): a look shows that it is over. For slots that a run left behind; raises nothing."""

POLL_S, SWEEP_S, SHORTEST_S = 5.0, 60.0, 0.2
# So many of those who ask for the very same room are looked at in one transaction.
BATCH = 8
_ON = "in flight on "


def places_of(limits: Limits, node: Node, operation: str) -> Iterator[str]:
    """Everything of which the operation takes room, for this node."""
    yield "in flight"
    if operation == "deployment":
        yield "deployments"
        if limits.per_rack_controller is not None:
            yield f"images on {node.rack_controller or 'the rack controller'}"
    if operation == "playbooks" and limits.installations is not None:
        yield "installations from the mirror"
    yield f"{_ON}rack {node.rack}"
    for feed in dict.fromkeys(pdu_of(feed) for feed in node.power_feeds):
        yield f"{_ON}feed {feed}"


def limit_of(limits: Limits, place: str) -> int:
    """How much the place carries."""
    if place.startswith(f"{_ON}rack "):
        return limits.per_rack
    if place.startswith(f"{_ON}feed "):
        return limits.per_power_feed
    if place.startswith("images on "):
        return limits.per_rack_controller or limits.deployments
    if place.startswith("installations "):
        return limits.installations or limits.in_flight
    return limits.deployments if place == "deployments" else limits.in_flight


@dataclass
class _Waiter:
    node: Node
    operation: str
    future: asyncio.Future[str]
    stopped_s: float | None = None


class Admission:
    """Takes slots for the nodes of one run and lets them through in the order in which they came."""

    def __init__(
        self,
        limits: Limits,
        *,
        gates: Gates,
        run: str,
        clock: Clock,
        pace: float,
        canary: Canary,
        brakes: Brakes,
        wait_s: float,
        over: Over | None = None,
    ) -> None:
        self._limits = limits
        self.gates = gates
        self.brakes = brakes
        self._run = run
        self._clock = clock
        self._pace = pace
        self._canary = canary
        self._wait_s = wait_s * pace
        self._over = over
        self._held: dict[str, str] = {}
        self._inherited: set[str] = set()
        self._queue: dict[str, _Waiter] = {}
        self._dirty = asyncio.Event()
        self._granter: asyncio.Task[None] | None = None
        self._swept_s = clock.monotonic()
        self._ended = False

    async def inherit(self, nodes: Sequence[Node]) -> None:
        """Take over the slots in which earlier runs left these nodes; each is free when it is seen to be over."""
        found = await self.gates.inherit(self._run, [node.name for node in nodes])
        for node in nodes:
            operation = found.get(node.name, "")
            if operation == "playbooks":
                # Waves end with their process.
                await self.gates.free(node.name)
            elif operation:
                self._held[node.name] = operation
                self._inherited.add(node.name)
                self._canary.began(node, operation)

    def held(self, node: Node) -> str:
        """The operation for which the node holds a slot, or empty."""
        return self._held.get(node.name, "")

    def inherited(self, node: Node) -> bool:
        """True while the node's slot is one that an earlier run took and this one has seen nothing of."""
        return node.name in self._inherited

    async def hold(self, node: Node, operation: str) -> None:
        """The machine is seen in this operation; that is a fact, so limits are not asked. Empty frees the slot."""
        self._inherited.discard(node.name)
        if self.held(node) == operation:
            return
        if operation:
            await self.gates.hold(self._run, self._ask(node, operation))
            self._took(node, operation)
            return
        del self._held[node.name]
        await self.gates.free(node.name, self._run)
        self._dirty.set()

    async def leave(self, node: Node, *, goes_on: bool) -> None:
        """The run is over for the node. What goes on in the machine keeps its slot if somebody can look later."""
        self._queue.pop(node.name, None)
        if self._canary.left(node):
            self._dirty.set()
        if goes_on and self._over is not None:
            self._held.pop(node.name, None)
        elif self.held(node):
            await self.hold(node, "")

    def passed(self, node: Node, stage: str) -> None:
        """The node is past a stage: those who waited for the first one may follow."""
        if self._canary.passed(node, stage):
            self._dirty.set()

    async def try_hold(self, node: Node, operation: str) -> str:
        """Take a slot if there is room and nobody waits for it longer; empty, or what keeps the node out."""
        if self.held(node) == operation:
            return ""
        if kept_out := self._canary.shut(node, operation):
            return kept_out
        if self._queue:
            return "others wait longer"
        # Marked before anything is awaited: two nodes must not both be the first.
        self._canary.began(node, operation)
        (kept_out,) = await self.gates.take(self._run, [self._ask(node, operation)])
        if kept_out:
            self._canary.left(node)
            return kept_out
        self._took(node, operation)
        return ""

    async def turn(self, node: Node, operation: str) -> str:
        """Wait in line until the slot is held; then empty, also when the run stops. Otherwise why the wait ended."""
        if self._ended:
            return ""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._queue[node.name] = _Waiter(node, operation, future)
        self._dirty.set()
        if self._granter is None or self._granter.done():
            self._granter = asyncio.create_task(self._grant())
        try:
            return await future
        finally:
            self._queue.pop(node.name, None)

    def release_all(self) -> None:
        """The run stops: nobody waits any longer."""
        self._ended = True
        for waiter in self._queue.values():
            if not waiter.future.done():
                waiter.future.set_result("")
        self._queue.clear()
        self._dirty.set()

    async def _grant(self) -> None:
        """Runs while somebody waits."""
        try:
            while self._queue:
                self._dirty.clear()
                while await self._let_in():
                    pass
                if self._queue and not self._dirty.is_set():
                    await self._pause()
        except Exception as error:
            for waiter in self._queue.values():
                if not waiter.future.done():
                    waiter.future.set_exception(error)
            self._queue.clear()

    async def _pause(self) -> None:
        """Until a slot of ours is free; others' are looked for now and then."""
        poll = asyncio.ensure_future(self._clock.sleep(max(POLL_S * self._pace, SHORTEST_S)))
        news = asyncio.ensure_future(self._dirty.wait())
        try:
            await asyncio.wait({poll, news}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            poll.cancel()
            news.cancel()
        if self.brakes.open:
            await self.brakes.look()
        if self._over is not None and self._clock.monotonic() - self._swept_s >= SWEEP_S * self._pace:
            self._swept_s = self._clock.monotonic()
            await self._sweep(self._over)

    async def _let_in(self) -> bool:
        """Grant in order of arrival; a node kept out by its rack's limit lets those of other racks pass."""
        seen: Counter[tuple[object, ...]] = Counter()
        chosen: list[tuple[_Waiter, Ask]] = []
        for waiter in list(self._queue.values()):
            kind = (waiter.operation, waiter.node.rack, waiter.node.power_feeds, waiter.node.profile)
            if seen[kind] >= BATCH or self._canary.shut(waiter.node, waiter.operation):
                continue
            seen[kind] += 1
            self._canary.began(waiter.node, waiter.operation)
            chosen.append((waiter, self._ask(waiter.node, waiter.operation)))
        if not chosen:
            return False
        answers = await self.gates.take(self._run, [ask for _, ask in chosen])
        granted = False
        for (waiter, _), kept_out in zip(chosen, answers, strict=True):
            if kept_out:
                self._canary.left(waiter.node)
                self._out_of_patience(waiter, kept_out)
                continue
            granted = True
            self._took(waiter.node, waiter.operation)
            self._queue.pop(waiter.node.name, None)
            if not waiter.future.done():
                waiter.future.set_result("")
        return granted

    def _out_of_patience(self, waiter: _Waiter, kept_out: str) -> None:
        """A place that is stopped is waited for so long and no longer; limits are waited for without end."""
        if "provision resume" not in kept_out:
            waiter.stopped_s = None
            return
        now = self._clock.monotonic()
        waiter.stopped_s = now if waiter.stopped_s is None else waiter.stopped_s
        if now - waiter.stopped_s >= self._wait_s:
            self._queue.pop(waiter.node.name, None)
            if not waiter.future.done():
                waiter.future.set_result(kept_out)

    async def _sweep(self, over: Over) -> None:
        """Look whether what runs have left behind is over by this time."""
        for slot in await self.gates.slots():
            left = not slot.live or (slot.run == self._run and slot.node not in self._held)
            if left and slot.node not in self._held and await over(slot.node, slot.operation):
                await self.gates.free(slot.node, slot.run)

    def _took(self, node: Node, operation: str) -> None:
        self._held[node.name] = operation
        self._canary.began(node, operation)

    def _ask(self, node: Node, operation: str) -> Ask:
        places = tuple((name, self._room(name)) for name in places_of(self._limits, node, operation))
        return Ask(node.name, operation, places, self.brakes.places(node))

    def _room(self, place: str) -> int:
        """The place's limit, less those who failed there of late: nobody else walks into the same fault."""
        failed = self.brakes.failures(place.removeprefix(_ON)) if place.startswith(_ON) else 0
        return max(1, limit_of(self._limits, place) - failed)
