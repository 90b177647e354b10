"""Several processes at one store at once: no number twice, no wish lost, no slot too many, no late write."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from provision.errors import RefusedError
from provision.model.run import Run
from provision.store import leases
from provision.store.journal import open_store
from provision.store.leases import SILENT_AFTER
from provision.store.schema import attempts
from tests.store.conftest import Place

# Each process does the same at once, in the order that its number gives.
CROWD = """
import asyncio, json, os, sys
from datetime import UTC, datetime
from provision.errors import RefusedError
from provision.model.run import NodeState, Run
from provision.model.slot import Ask
from provision.store.gates import Gates
from provision.store.journal import open_store
from provision.store.texts import keep_all
from tests.store.test_store_tickets import opening, ticket

async def main(address, number):
    store, now = open_store(address), datetime.now(UTC)
    gates = Gates(store._database, lambda: datetime.now(UTC), lambda: keep_all)
    me = f"run-{number}"
    print("ready", flush=True)
    sys.stdin.readline()
    await store.start_run(Run(me, "bringup", (f"own-{number}",), "anna", os.uname().nodename, os.getpid(), now))
    said = {"tickets": [], "epochs": [], "held": [], "slots": 0}
    for n in range(6):
        (made,) = await store.settle(me, [opening(ticket(f"n{number}-{n}"))])
        said["tickets"].append(made.id)
        said["epochs"].append(await store.raise_epoch("shared", why="x"))
        await store.set_state(NodeState("shared", me, "deploy", now, "x", str(n)))
        store.set_pin("kind", "shared", me)
        try:
            await store.start_run(Run(f"{me}-{n}", "x", (f"gpu-{n}",), "u", os.uname().nodename, os.getpid(), now))
            said["held"].append(n)
        except RefusedError:
            pass
        (kept_out,) = await gates.take(me, [Ask(f"{me}-{n}", "deployment", (("all", 5),))])
        said["slots"] += not kept_out
    print(json.dumps(said), flush=True)
    sys.stdin.readline()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def test_a_crowd_decides_as_if_one_after_the_other(place: Place) -> None:
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, place.address, str(n)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for n in range(2)
    ]  # fmt: skip
    try:
        said = []
        for process in crowd:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in crowd:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = [json.loads(process.stdout.readline()) for process in crowd if process.stdout is not None]
    finally:
        for process in crowd:
            process.kill()
            process.communicate()
    assert sorted(t for one in said for t in one["tickets"]) == [f"T-{n:04d}" for n in range(1, 13)]
    assert sorted(e for one in said for e in one["epochs"]) == list(range(2, 14))
    # Each node was won by one process, and whoever won it holds it to its end.
    assert sorted(n for one in said for n in one["held"]) == list(range(6))
    assert sum(one["slots"] for one in said) == 5
    assert place.sql("SELECT count(*) FROM states WHERE node = 'shared'") == [(1,)]
    assert place.sql("SELECT count(*) FROM pins") == [(1,)]


@pytest.mark.parametrize("first", ["the write", "the takeover"])
async def test_a_takeover_and_a_late_write_do_not_pass_each_other(place: Place, first: str) -> None:
    """Whoever takes a run over has seen every intent of it: none is written down afterwards."""
    wall = [datetime(2026, 11, 29, 12, tzinfo=UTC)]
    far, near = (open_store(place.address, now=lambda: wall[0]) for _ in range(2))
    await far.start_run(Run("far", "bringup", ("gpu-1",), "ben", "deploy-2", 4711, wall[0]))
    wall[0] += SILENT_AFTER + timedelta(seconds=1)
    inside, order = threading.Event(), []

    def slow_intent(connection: Any) -> None:
        leases.must_hold(connection, "far", "open an attempt", "gpu-1")
        inside.set()
        time.sleep(0.3)
        row = {"run": "far", "node": "gpu-1", "stage": "s", "step": "t", "why": "", "opened_at": wall[0], "detail": ""}
        connection.execute(insert(attempts).values(row))
        order.append("the write")

    def write() -> None:
        far._database.call("open an attempt", slow_intent, writes=True)

    if first == "the write":
        thread = threading.Thread(target=write)
        thread.start()
        assert inside.wait(10)
        await near.start_run(Run("near", "bringup", ("gpu-1",), "eve", "deploy-3", 1, wall[0]))
        order.append("the takeover")
        thread.join()
        assert order == ["the write", "the takeover"]
        assert [a.run for a in await near.attempts("gpu-1")] == ["far"]
    else:
        await near.start_run(Run("near", "bringup", ("gpu-1",), "eve", "deploy-3", 1, wall[0]))
        with pytest.raises(RefusedError, match="taken over by run near"):
            write()
        assert await near.attempts("gpu-1") == ()
    await far.close()
    await near.close()
