"""One machine list per rack and interval, shared by the rack's nodes: never one poll per node, never the region.

MAAS joins the values of one filter by OR and different filters by AND (recorded: an unknown hostname beside a known
one finds the known one; ``pool=`` beside ``hostname=`` finds only what satisfies both; no filter for the hardware UUID
exists, an unknown filter is a 400). So the three ways to find a machine are three requests, and the cheap one is
asked alone as soon as it can be:

1. ``id=`` of every machine of the rack that is known: the poll.
2. ``hostname=`` of the nodes without a known machine.
3. ``mac_address=`` of the nodes whose machine by name, if any, has none of their addresses. Lower case with colons:
   MAAS compares as text (recorded).

A machine with one of the node's addresses wins over one that has only its name.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from provision.adapters.maas import parse
from provision.adapters.maas.transport import Transport
from provision.errors import GarbledError
from provision.model.machine import Machine
from provision.model.node import MacAddress, Node
from provision.ports import Clock

T = TypeVar("T")

# Nodes of a rack ask within a few milliseconds of one another: the first one waits for the others.
_GATHER_S = 0.01
# nginx in front of a region takes request lines up to 8 kB.
_QUERY_CHARS = 6000
_UNFINISHED = ("new", "commissioning", "failed_commissioning")


@dataclass
class _Known:
    """What is known of one node's machine. Marks count this client's looks and writes, seconds are the clock's."""

    node: Node
    macs: tuple[MacAddress, ...] = ()
    uuid: str | None = None
    system_id: str | None = None
    asked_mark: int = -1
    asked_at: float = float("-inf")
    asked_macs: frozenset[MacAddress] = frozenset()
    written_mark: int = -1
    wanted_at: float = float("-inf")

    def owns(self, machine: Machine) -> bool:
        """True if an address of the node is on the machine."""
        return not set(self.macs).isdisjoint(machine.macs)

    def is_named(self, machine: Machine) -> bool:
        """True if the machine has the node's name."""
        return machine.is_named(self.node.name)


@dataclass
class _Rack:
    nodes: dict[str, _Known] = field(default_factory=dict)
    machines: dict[str, tuple[int, Machine]] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    round: asyncio.Task[None] | None = None


class Listing:
    """The newest look at each machine. ``interval_s`` is in the clock's seconds, pace included."""

    def __init__(self, transport: Transport, nodes: Iterable[Node], clock: Clock, *, interval_s: float) -> None:
        self._transport = transport
        self._clock = clock
        self._interval_s = interval_s
        # Requests for lists so far: polls that a rack shares, and looks at one node before a write.
        self.asked: Counter[str] = Counter()
        self._mark = 0
        self._racks: dict[str, _Rack] = {}
        self._unfinished: tuple[float, list[Machine]] = (float("-inf"), [])
        for node in nodes:
            self._racks.setdefault(node.rack, _Rack()).nodes[node.name] = _Known(node, macs=node.macs)

    async def shared(self, node: Node, macs: Sequence[MacAddress], uuid: str | None = None) -> Machine | None:
        """The machine from a listing that is young enough and was asked for after our last write to the machine."""
        rack, known = self._known(node, macs, uuid)
        arrived = self._clock.monotonic()
        while not self._stands(known, arrived):
            rack.waiting.add(node.name)
            if rack.round is None or rack.round.done():
                rack.round = asyncio.create_task(self._round(rack))
                rack.round.add_done_callback(_seen)
            # One caller that gives up does not end the round of the others.
            await asyncio.shield(rack.round)
        return self._machine(rack, known)

    async def fresh(self, node: Node, macs: Sequence[MacAddress], uuid: str | None = None) -> Machine | None:
        """The machine, asked for just now and for this node alone."""
        rack, known = self._known(node, macs, uuid)
        await self._look(rack, [known], "look")
        if known.system_id is None and known.uuid is not None:
            await self._look_by_uuid(rack, known)
        return self._machine(rack, known)

    async def any_machine(self, hostnames: Sequence[str], macs: Sequence[str]) -> bool:
        """True if MAAS lists a machine with one of these names or addresses: names and addresses are shared by devices
        and controllers, which no machine list shows."""
        found: dict[str, Machine] = {}
        await self._ask(found, "hostname", hostnames, "look")
        if not found:
            await self._ask(found, "mac_address", macs, "look")
        return bool(found)

    def written(self, *, system_id: str | None = None, hostname: str | None = None) -> None:
        """What was seen of this machine before this moment no longer counts."""
        self._mark += 1
        for rack in self._racks.values():
            for known in rack.nodes.values():
                named = hostname is not None and known.node.name.casefold() == hostname.casefold()
                if named or (system_id is not None and known.system_id == system_id):
                    known.written_mark = self._mark

    def last_seen(self, system_id: str) -> Machine | None:
        """The newest look at this machine, however old; for names in sentences."""
        looks = [rack.machines[system_id] for rack in self._racks.values() if system_id in rack.machines]
        return max(looks, key=lambda look: look[0])[1] if looks else None

    def close(self) -> None:
        """End the looks that go on."""
        for rack in self._racks.values():
            if rack.round is not None:
                rack.round.cancel()

    def _known(self, node: Node, macs: Sequence[MacAddress], uuid: str | None) -> tuple[_Rack, _Known]:
        rack = self._racks.setdefault(node.rack, _Rack())
        known = rack.nodes.setdefault(node.name, _Known(node))
        if macs:
            known.macs = tuple(macs)
        known.uuid = uuid.lower() if uuid else known.uuid
        known.wanted_at = self._clock.monotonic()
        return rack, known

    def _stands(self, known: _Known, arrived: float) -> bool:
        if known.asked_at < arrived - self._interval_s or known.asked_mark <= known.written_mark:
            return False
        return known.asked_macs.issuperset(known.macs)

    def _machine(self, rack: _Rack, known: _Known) -> Machine | None:
        look = rack.machines.get(known.system_id) if known.system_id is not None else None
        return None if look is None else look[1]

    async def _round(self, rack: _Rack) -> None:
        await asyncio.sleep(_GATHER_S)
        asked, rack.waiting = rack.waiting, set()
        now = self._clock.monotonic()
        if any(rack.nodes[name].asked_at < now - self._interval_s for name in asked):
            # The poll is due: whoever polls at all gets an answer from it, and the others need not ask for a while.
            asked |= {name for name, known in rack.nodes.items() if known.wanted_at >= now - 3 * self._interval_s}
        await self._look(rack, [rack.nodes[name] for name in sorted(asked)], "poll")

    async def _look(self, rack: _Rack, nodes: Sequence[_Known], kind: str) -> None:
        self._mark += 1
        mark, now = self._mark, self._clock.monotonic()
        macs = {known.node.name: frozenset(known.macs) for known in nodes}
        found: dict[str, Machine] = {}
        ids = sorted({known.system_id for known in nodes if known.system_id is not None})
        await self._ask(found, "id", ids, kind)
        nameless = [known for known in nodes if known.system_id not in found]
        await self._ask(found, "hostname", sorted({name for known in nameless for name in _names(known.node)}), kind)
        strange = [known for known in nodes if known.macs and not any(map(known.owns, found.values()))]
        await self._ask(found, "mac_address", sorted({mac.text for known in strange for mac in known.macs}), kind)
        for machine in found.values():
            self._keep(rack, machine, mark)
        for known in nodes:
            if known.asked_mark < mark:
                known.system_id = _chosen(known, found.values())
                known.asked_mark, known.asked_at, known.asked_macs = mark, now, macs[known.node.name]

    async def _look_by_uuid(self, rack: _Rack, known: _Known) -> None:
        """Among the machines that nobody has finished: all NICs may have been exchanged since it enlisted itself."""
        at, machines = self._unfinished
        if at < self._clock.monotonic() - self._interval_s:
            at, found = self._clock.monotonic(), dict[str, Machine]()
            await self._ask(found, "status", _UNFINISHED, "look")
            machines = list(found.values())
            self._unfinished = at, machines
        for machine in machines:
            if same_uuid(machine.hardware_uuid, known.uuid):
                self._keep(rack, machine, known.asked_mark)
                known.system_id = machine.system_id

    def _keep(self, rack: _Rack, machine: Machine, mark: int) -> None:
        # A look that was asked for earlier may arrive later.
        if mark >= rack.machines.get(machine.system_id, (-1,))[0]:
            rack.machines[machine.system_id] = mark, machine

    async def _ask(self, found: dict[str, Machine], filter_: str, values: Sequence[str], kind: str) -> None:
        for some in _chunks(values):
            operation = f"list machines by {filter_}"
            self.asked[kind] += 1
            bodies = await self._transport.read("Machines.read", operation, [(filter_, value) for value in some])
            for body in bodies if isinstance(bodies, list) else [bodies]:
                machine = parsed(self._transport, operation, parse.machine, body)
                found[machine.system_id] = machine


def parsed(transport: Transport, operation: str, reader: Callable[[Any], T], body: Any) -> T:
    """Read a body that MAAS sent.

    Raises:
        GarbledError: it is not of the shape that was expected.
    """
    try:
        return reader(body)
    except ValueError as error:
        raise GarbledError(transport.peer, operation, str(error), payload=repr(body)[:200].encode()) from None


def _chosen(known: _Known, machines: Iterable[Machine]) -> str | None:
    """A machine with an address of the node, best the one of its name, then of its boot port; else by UUID or name."""
    every = list({machine.system_id: machine for machine in machines}.values())
    ours = (
        [machine for machine in every if known.owns(machine)]
        or [machine for machine in every if same_uuid(machine.hardware_uuid, known.uuid)]
        or [machine for machine in every if known.is_named(machine)]
    )
    first = known.macs[0] if known.macs else None
    ours.sort(key=lambda machine: (not known.is_named(machine), first not in machine.macs, machine.system_id))
    return ours[0].system_id if ours else None


def same_uuid(one: str | None, other: str | None) -> bool:
    """True for one hardware UUID, also where one side shows its first three fields with their bytes turned round.

    SMBIOS 2.6 made them little-endian; BMCs and kernels differ in whether they obey.
    """
    if not one or not other:
        return False
    try:
        a, b = UUID(one), UUID(other)
    except ValueError:
        return one.lower() == other.lower()
    return a == b or a.bytes_le == b.bytes


def _names(node: Node) -> set[str]:
    """What to ask for: MAAS compares as text, and keeps the domain of a name with dots elsewhere."""
    short = node.name.partition(".")[0]
    return {node.name, node.name.lower(), short, short.lower()}


def _chunks(values: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    size = 0
    for value in values:
        if some and size + len(value) + 16 > _QUERY_CHARS:
            yield some
            some, size = [], 0
        some.append(value)
        size += len(value) + 16
    if some:
        yield some


def _seen(task: asyncio.Task[None]) -> None:
    """Take the error of a round whose callers have all gone."""
    if not task.cancelled():
        task.exception()
