"""Seeded repair stories of 512 nodes with a tenth broken: no ticket twice, none closed unseen, none lost by kills."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from provision.model.ticket import Ticket
from provision.store.journal import open_store
from tests.triage.repairs import ROUNDS, Fault, broken_at, faults_of, play


async def test_a_small_story_ends_well(tmp_path: Path) -> None:
    """48 nodes, in this process, nobody killed."""
    for now in range(ROUNDS):
        await play(tmp_path, 5, 48, now)
        await _check(tmp_path, 5, 48, now)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(30))
def test_repairs_over_kills(tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """512 nodes; a third of the rounds is killed in the middle, at seeded moments, and run again."""
    dice = random.Random(seed)
    kills = 0
    for now in range(ROUNDS):
        while not _round(tmp_path, seed, 512, now, dice.uniform(0.4, 2.0) if dice.random() < 0.35 else None):
            kills += 1
        asyncio.run(_check(tmp_path, seed, 512, now))
    moves = asyncio.run(_check(tmp_path, seed, 512, ROUNDS - 1))
    with capsys.disabled():
        told = ", ".join(f"{kind} {count}" for kind, count in sorted(moves.items()))
        sys.stdout.write(f"\nseed {seed:2d}: {len(faults_of(seed, 512)):3d} faults, {kills} kills; {told}\n")


def _round(state: Path, seed: int, nodes: int, now: int, kill_after_s: float | None) -> bool:
    """True if the round came to its end."""
    argv = [sys.executable, "-m", "tests.triage.repairs", str(state), str(seed), str(nodes), str(now)]
    process = subprocess.Popen(argv, cwd=Path(__file__).parents[2])
    begun = time.monotonic()
    while process.poll() is None:
        if kill_after_s is not None and time.monotonic() - begun > kill_after_s:
            process.kill()
            process.wait()
            return False
        time.sleep(0.02)
    assert process.returncode == 0
    return True


async def _check(state: Path, seed: int, nodes: int, now: int) -> Counter[str]:
    """What must hold after every round; the moves so far, counted."""
    store = open_store(state)
    tickets = await store.tickets()
    await store.close()
    faults = faults_of(seed, nodes)
    open_keys = Counter(ticket.dedupe_key for ticket in tickets if ticket.status.is_open)
    twice = [key for key, count in open_keys.items() if count > 1]
    assert twice == [], "a fault has two open tickets"
    for number in sorted({fault.node for fault in faults}):
        mine = [ticket for ticket in tickets if ticket.node == f"n{number:03d}"]
        wanted = {_category(kind) for kind in broken_at(faults, number, now)}
        standing = {ticket.category.value for ticket in mine if ticket.status.is_open}
        assert standing == wanted, f"round {now}, n{number:03d}: open {standing}, broken {wanted}: {_told(mine)}"
    healthy = {f"n{n:03d}" for n in range(nodes)} - {f"n{fault.node:03d}" for fault in faults}
    assert not [ticket for ticket in tickets if ticket.node in healthy], "a ticket for a healthy machine"
    # Closed at once: a connection that lingers in this process would share its file locks with the next opening.
    with closing(sqlite3.connect(state / "store.db")) as database:
        moves = list(database.execute("SELECT kind, ticket, run FROM ticket_moves"))
    kinds = Counter(kind for kind, _, _ in moves)
    assert kinds["open"] == len(tickets), "a ticket was lost"
    unseen = [move for move in moves if move[0] == "verify" and not _looked(move[1], move[2], tickets, faults)]
    assert unseen == [], "a ticket was closed by somebody's word, or while its part was broken"
    seen = {(fault.node, _category(fault.kind)) for fault in faults if any(fault.there(n) for n in range(now + 1))}
    have = {(int(ticket.node[1:]), ticket.category.value) for ticket in tickets}
    assert seen == have, "a fault that was seen has no ticket, or a ticket no fault"
    kinds.update({"tickets twice": len(twice), "closed unseen": len(unseen), "tickets lost": len(seen - have)})
    return kinds


def _looked(number: int, run: str, tickets: Sequence[Ticket], faults: tuple[Fault, ...]) -> bool:
    """True if it was closed in a round of looking, in which nothing of its kind was broken on its node."""
    ticket = next(ticket for ticket in tickets if ticket.id == f"T-{number:04d}")
    what, _, count = run.partition("-")
    if what != "round":
        return False
    broken = {_category(kind) for kind in broken_at(faults, int(ticket.node[1:]), int(count))}
    same_kind = {_category(f.kind) for f in faults if f.node == int(ticket.node[1:])} & {ticket.category.value}
    return bool(same_kind) and (ticket.category.value not in broken or _other_place(ticket, faults, int(count)))


def _other_place(ticket: Ticket, faults: tuple[Fault, ...], now: int) -> bool:
    """Two faults of one category at two places of a node have a ticket each."""
    node = int(ticket.node[1:])
    return len([f for f in faults if f.node == node and _category(f.kind) == ticket.category.value]) > 1


def _category(kind: str) -> str:
    return {
        "cord": "psu",
        "psu": "psu",
        "drive": "nvme",
        "drive_gone": "nvme",
        "gpu_gone": "gpu",
        "cable": "cabling_ethernet",
        "swap": "cabling_ethernet",
    }[kind]


def _told(tickets: list[Ticket]) -> list[str]:
    return [f"{t.id} {t.locator} {t.status.value} {t.action.value}" for t in tickets]
