"""python -m tests.triage.repairs STATE SEED NODES ROUND: one round of a seeded repair story, settled into a real store.

The world is a function of seed and round, so that a killed round can be run again. Every fault has a life: it appears,
is reported repaired (sometimes wrongly), is repaired, and a part of them comes back. Evidence goes through the judge
and the desk as in a run; technicians' reports through the same moves as the command line's.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from provision.model.evidence import Evidence, Part, PartKind, Reading
from provision.model.finding import Action
from provision.model.node import Cable, Node
from provision.model.profile import DiskRule, Image, PartSpec, Profile
from provision.model.ticket import Found, TicketStatus, Told
from provision.store.journal import open_store
from provision.triage.desk import desk
from provision.triage.judge import judge
from provision.triage.moves import done_remotely, tell

ROUNDS = 8
START = datetime(2026, 1, 1, tzinfo=UTC)
PROFILE = Profile(
    "h100", Image("jammy"), DiskRule(), gpus=PartSpec(8), nvme=PartSpec(8), psus=PartSpec(4), nics=PartSpec(2)
)
KINDS = ("cord", "psu", "drive", "drive_gone", "gpu_gone", "cable", "swap")


@dataclass(frozen=True)
class Fault:
    """One fault of one node: present from ``since`` until ``until``, and again from ``back`` on (0: never).

    ``claimed`` is the round in which somebody says that it is done, right or wrong.
    """

    node: int
    kind: str
    place: int
    since: int
    claimed: int
    until: int
    back: int

    def there(self, now: int) -> bool:
        """True if the metal is broken in this round."""
        return self.since <= now < self.until or 0 < self.back <= now


def faults_of(seed: int, nodes: int) -> tuple[Fault, ...]:
    """A tenth of the nodes has a fault, some of them two."""
    dice = random.Random(seed)
    made = []
    for node in range(nodes):
        if dice.random() >= 0.1:
            continue
        for kind in dice.sample(KINDS, 2 if dice.random() < 0.2 else 1):
            since = dice.randint(1, 3)
            claimed = since + dice.randint(1, 2)
            until = claimed + (dice.randint(1, 2) if dice.random() < 0.3 else 0)
            back = until + 1 if dice.random() < 0.15 else 0
            made.append(Fault(node, kind, dice.randint(1, 4), since, claimed, until, back))
    return tuple(made)


def node_of(number: int) -> Node:
    """A node with two planned cables and four PSUs."""
    rack = f"rack-{number // 32}"
    cables = (
        Cable("Slot 3 Port 1", "leaf-a", str(number), f"C-{number}a"),
        Cable("Slot 3 Port 2", "leaf-b", str(number)),
    )
    feeds = tuple(f"{rack}-pdu-{'ab'[n % 2]}/{number}{n}" for n in range(4))
    return Node(f"n{number:03d}", "h100", "", rack, number % 32 + 1, "fra", asset_tag=f"A{number}", power_feeds=feeds,
                cabling=cables)  # fmt: skip


def evidence_of(node: Node, broken: dict[str, int], at: datetime) -> Iterator[Evidence]:
    """What a BMC would say of a node with these faults."""

    def one(of: PartKind, name: str, place: str, reading: Reading, source: str, **values: object) -> Evidence:
        return Evidence(node.name, Part(of, name, place), reading, source, at, values=values)  # type: ignore[arg-type]

    for n in range(1, 5):
        bad = {"cord": Reading.NO_INPUT, "psu": Reading.FAILED}
        state = next((bad[kind] for kind in bad if broken.get(kind) == n), Reading.OK)
        yield one(PartKind.PSU, f"PSU.Slot.{n}", f"PSU {n}", state, "redfish/psus")
    gone = broken.get("drive_gone", -1)
    for n in range(8):
        state = Reading.FAILED if broken.get("drive") == n else Reading.OK
        if n == gone:
            state = Reading.ABSENT
        yield one(PartKind.DRIVE, f"Disk.Bay.{n}", f"Bay {n}", state, "redfish/drives", serial=f"S{node.name}{n}")
    gpus = 7 if "gpu_gone" in broken else 8
    for n in range(gpus):
        yield one(PartKind.GPU, f"GPU.{n}", f"GPU {n}", Reading.OK, "redfish/gpus")
    for kind, count in ((PartKind.GPU, gpus), (PartKind.DRIVE, 8 - (gone >= 0)), (PartKind.PSU, 4)):
        yield one(kind, "*", f"all {kind.value}s", Reading.FACT, "redfish/count", count=count)
    yield one(PartKind.NODE, node.name, node.name, Reading.FACT, "redfish/host", power="on")
    for n in (1, 2):
        name, place = f"NIC.Slot.3-{n}-1", f"Slot 3 Port {n}"
        dark = "cable" in broken and n == 1
        yield one(PartKind.PORT, name, place, Reading.DOWN if dark else Reading.UP, "redfish/ports", kind="ethernet")
        if not dark:
            other = n % 2 if "swap" in broken and "cable" not in broken else n - 1
            switch, port = node.cabling[other].switch, node.cabling[other].port
            yield one(PartKind.PORT, name, place, Reading.FACT, "redfish/lldp", switch=switch, port=port)


def broken_at(faults: tuple[Fault, ...], node: int, now: int) -> dict[str, int]:
    """Faults of a node in a round, by kind."""
    return {fault.kind: fault.place for fault in faults if fault.node == node and fault.there(now)}


async def play(state: Path, seed: int, nodes: int, now: int) -> None:
    """One round: people report, then every node that ever had a fault (and a few others) is looked at."""
    store, at, faults = open_store(state), START + timedelta(days=now), faults_of(seed, nodes)
    try:
        dice = random.Random(seed * 1000 + now)
        for ticket in await store.tickets(open_only=True):
            number = int(ticket.node[1:])
            if any(fault.node == number and fault.claimed == now for fault in faults):
                told = Told(
                    ticket.id, TicketStatus.DONE_BY_TECHNICIAN, f"round {now}", Found.FIXED, attempt=ticket.attempt
                )
                change, _ = tell(ticket, told, at)
                remote = done_remotely(ticket, Action(ticket.action), at)
                await store.settle(f"people-{now}", [one for one in (change, remote) if one is not None])
        looked = sorted({fault.node for fault in faults} | set(dice.sample(range(nodes), 8)))
        dice.shuffle(looked)
        for number in looked:
            node = node_of(number)
            evidence = tuple(evidence_of(node, broken_at(faults, number, now), at))
            verdict = judge(node, PROFILE, evidence, (), at)
            changes = desk(node, verdict.findings, evidence, await store.tickets(node=node.name), at)
            await store.settle(f"round-{now}", changes)
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
