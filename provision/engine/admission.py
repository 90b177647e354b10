"""How much may go on at once, and who is next.

A slot belongs to the operation that goes on in a machine (a commissioning, a deployment, a wave of playbooks). It is
taken before the act that begins the operation, held while the machine is seen to be in it, also when another run began
it, and free again when a look shows that it is over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from provision.model.node import Node
from provision.model.site import Limits
from provision.triage.scene import pdu_of

Key = tuple[str, str]


class Admission:
    """Counts slots and lets nodes through in the order in which they came."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: dict[str, tuple[str, tuple[Key, ...]]] = {}
        self._counts: Counter[Key] = Counter()
        self._queue: dict[str, tuple[Node, str, asyncio.Future[None]]] = {}

    def held(self, node: Node) -> str:
        """The operation for which the node holds a slot, or empty."""
        return self._held.get(node.name, ("", ()))[0]

    def full(self, node: Node, operation: str) -> str:
        """Which limit keeps this node out at the moment, in words; empty if none does."""
        for key in self._keys(node, operation):
            limit = self._limit(key)
            if self._counts[key] >= limit:
                what, name = key
                return f"{self._counts[key]} of {limit} {what}{f' on {name}' if name else ''}"
        return ""

    def hold(self, node: Node, operation: str) -> None:
        """The machine is seen in this operation; that is a fact, so limits are not asked. Empty frees the slot."""
        if self.held(node) == operation:
            return
        _, old = self._held.pop(node.name, ("", ()))
        self._counts.subtract(old)
        if operation:
            keys = tuple(self._keys(node, operation))
            self._held[node.name] = (operation, keys)
            self._counts.update(keys)
        if old:
            self._let_in()

    def try_hold(self, node: Node, operation: str) -> bool:
        """Take a slot if there is room and nobody waits for it longer; True if the node holds one now."""
        if self.held(node) == operation:
            return True
        if self._queue or self.full(node, operation):
            return False
        self.hold(node, operation)
        return True

    async def turn(self, node: Node, operation: str) -> None:
        """Wait in line until the slot is held. Returns without one if ``release_all`` is called."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue[node.name] = (node, operation, future)
        self._let_in()
        try:
            await future
        finally:
            self._queue.pop(node.name, None)

    def release_all(self) -> None:
        """The run stops: nobody waits any longer."""
        for _, _, future in self._queue.values():
            if not future.done():
                future.set_result(None)
        self._queue.clear()

    def _let_in(self) -> None:
        """Grant slots in order of arrival; a node kept out by its rack's limit lets those of other racks pass."""
        shut: set[Key] = set()
        for name, (node, operation, future) in list(self._queue.items()):
            keys = tuple(self._keys(node, operation))
            if shut.intersection(keys):
                continue
            full = next((key for key in keys if self._counts[key] >= self._limit(key)), None)
            if full is not None:
                shut.add(full)
                if full == ("in flight", ""):
                    return
                continue
            del self._queue[name]
            self.hold(node, operation)
            if not future.done():
                future.set_result(None)

    def _keys(self, node: Node, operation: str) -> Iterator[Key]:
        yield ("in flight", "")
        if operation == "deployment":
            yield ("deployments", "")
            if self._limits.per_rack_controller is not None:
                yield ("images", node.rack_controller)
        yield ("in flight", f"rack {node.rack}")
        for feed in dict.fromkeys(pdu_of(feed) for feed in node.power_feeds):
            yield ("in flight", f"feed {feed}")

    def _limit(self, key: Key) -> int:
        what, name = key
        if what == "deployments":
            return self._limits.deployments
        if what == "images":
            return self._limits.per_rack_controller or self._limits.deployments
        if name.startswith("rack "):
            return self._limits.per_rack
        if name.startswith("feed "):
            return self._limits.per_power_feed
        return self._limits.in_flight
