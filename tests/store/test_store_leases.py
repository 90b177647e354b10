"""Two hands on one node: the second is refused by the first one's name; a dead first is taken over at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from provision.errors import RefusedError
from provision.model.run import Run
from provision.store.journal import Store, open_store
from provision.store.leases import SILENT_AFTER, process_identity
from tests.store.conftest import Place

HOLDER = """
import asyncio, os, sys, time
from datetime import UTC, datetime
from provision.errors import RefusedError
from provision.model.run import Run
from provision.store.journal import open_store

async def main(state, name, *nodes):
    store = open_store(state)
    run = Run(name, "bringup", nodes, "anna", os.uname().nodename, os.getpid(), datetime.now(UTC), "rack-12")
    sys.stdin.readline()
    try:
        await store.start_run(run)
        await store.open_attempt(name, nodes[0], "deploy", "deploy", "install jammy")
    except RefusedError as error:
        print("refused", error, flush=True)
        return
    print("holds", flush=True)
    sys.stdin.readline()
    await store.end_run(name, 0)
    print("ended", flush=True)
    sys.stdin.readline()

asyncio.run(main(*sys.argv[1:]))
"""


class Holder:
    """Another process that holds nodes, told what to do line by line."""

    def __init__(self, place: Place, name: str, *nodes: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, place.address, name, *nodes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def holder(place: Place, name: str, *nodes: str) -> Iterator[Holder]:
    other = Holder(place, name, *nodes)
    try:
        yield other
    finally:
        other.process.kill()
        other.process.communicate()


def our_run(name: str, *nodes: str, host: str = "", pid: int = 0, at: datetime | None = None) -> Run:
    return Run(
        name, "reimage", nodes, "ben", host or os.uname().nodename, pid or os.getpid(), at or datetime.now(UTC), "gpu-1"
    )


async def test_a_live_run_is_named_and_a_killed_one_is_taken_over_at_once(place: Place) -> None:
    store = open_store(place.address)
    with holder(place, "first", "gpu-1", "gpu-2") as other:
        other.go_on()
        assert other.says() == "holds"

        with pytest.raises(RefusedError) as caught:
            await store.start_run(our_run("second", "gpu-2", "gpu-3"))
        assert (
            f"gpu-2 is held by bringup rack-12 of anna@{os.uname().nodename}, process {other.process.pid}, since 20"
            in (str(caught.value))
        )
        assert caught.value.code == "first"
        assert [run.id for run, _ in await store.runs()] == ["first"]
        await store.start_run(our_run("elsewhere", "gpu-3"))

        os.kill(other.process.pid, signal.SIGSTOP)
        with pytest.raises(RefusedError):
            await store.start_run(our_run("second", "gpu-2"))

        os.kill(other.process.pid, signal.SIGKILL)
        other.process.wait()
        await store.start_run(our_run("second", "gpu-2"))

    # What the dead one was about to send is still to be seen, and its other node is free.
    (attempt,) = await store.attempts("gpu-1")
    assert (attempt.run, attempt.step, attempt.result) == ("first", "deploy", None)
    await store.start_run(our_run("third", "gpu-1"))
    assert {run.id: status for run, status in await store.runs()} == dict.fromkeys(
        ("first", "elsewhere", "second", "third")
    )
    await store.close()


def test_a_killed_zombie_is_dead(place: Place) -> None:
    """Killed, and its parent has not noticed yet."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert process_identity(child.pid)
    child.kill()
    deadline = time.monotonic() + 10
    while process_identity(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process_identity(child.pid) == ""
    child.wait()


async def test_an_ended_run_leaves_nothing_behind(place: Place) -> None:
    store = open_store(place.address)
    with holder(place, "first", "gpu-1") as other:
        other.go_on()
        other.says()
        other.go_on()
        assert other.says() == "ended"
        await store.start_run(our_run("second", "gpu-1"))
    assert [(run.id, status) for run, status in await store.runs()] == [("second", None), ("first", 0)]
    await store.close()


def test_of_many_that_grab_one_node_at_once_exactly_one_gets_it(place: Place) -> None:
    store = open_store(place.address)
    others = [Holder(place, f"run-{n}", "gpu-1", f"own-{n}") for n in range(3)]
    try:
        for other in others:
            other.go_on()
        answers = [other.says() for other in others]
    finally:
        for other in others:
            other.process.kill()
            other.process.communicate()
    assert sorted(answer.partition(" ")[0] for answer in answers) == ["holds", "refused", "refused"]
    store._database.close()


class Wall:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 29, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


async def test_a_run_on_another_machine_is_judged_by_its_last_sign_of_life(place: Place) -> None:
    wall = Wall()
    far, near = open_store(place.address, now=wall), open_store(place.address, now=wall)
    await far.start_run(our_run("far", "gpu-1", host="deploy-2", pid=4711, at=wall()))
    attempt = await far.open_attempt("far", "gpu-1", "deploy", "deploy", "x")

    wall.time += SILENT_AFTER
    with pytest.raises(
        RefusedError, match=r"gpu-1 is held by reimage gpu-1 of ben@deploy-2, process 4711, since 2026-11-29 12:00:00"
    ):
        await near.start_run(our_run("near", "gpu-1", at=wall()))
    await far.heartbeat("far")
    wall.time += SILENT_AFTER
    with pytest.raises(RefusedError):
        await near.start_run(our_run("near", "gpu-1", at=wall()))
    wall.time += timedelta(seconds=1)
    await near.start_run(our_run("near", "gpu-1", at=wall()))

    # It was only slow. It must not write any more; what it knows of its last write is still welcome.
    with pytest.raises(RefusedError, match="run far was silent and is taken over by run near"):
        await far.heartbeat("far")
    with pytest.raises(RefusedError, match="taken over by run near"):
        await far.open_attempt("far", "gpu-1", "deploy", "deploy", "again")
    await far.close_attempt(attempt, "unknown", "no answer")
    await far.end_run("far", 1)
    assert await near.open_attempt("near", "gpu-1", "deploy", "deploy", "x") > attempt
    await far.close()
    await near.close()


async def test_a_run_from_before_a_reboot_is_dead(place: Place) -> None:
    store = open_store(place.address)
    await store.start_run(our_run("old", "gpu-1"))
    await store.close()
    store = open_store(place.address)
    store._database.call(
        "pretend a reboot",
        lambda c: c.exec_driver_sql("UPDATE runs SET process = 'another-boot/1/1', pid = 1"),
        writes=True,
    )
    await store.start_run(our_run("new", "gpu-1"))
    await store.close()


async def test_one_process_does_not_run_a_node_twice(place: Place) -> None:
    store = open_store(place.address)
    await store.start_run(our_run("one", "gpu-1"))
    with pytest.raises(RefusedError, match="gpu-1 is held"):
        await store.start_run(our_run("two", "gpu-1"))
    await store.end_run("one", 0)
    await store.start_run(our_run("two", "gpu-1"))
    with pytest.raises(RefusedError, match="run one is over"):
        await store.open_attempt("one", "gpu-1", "deploy", "deploy", "late")
    with pytest.raises(RefusedError, match="run never was never started"):
        await store.open_attempt("never", "gpu-1", "deploy", "deploy", "late")
    await store.close()


async def test_a_whole_site_in_one_run(place: Place) -> None:
    store: Store = open_store(place.address)
    nodes = tuple(f"gpu-{n}" for n in range(10_000))
    began = time.monotonic()
    await store.start_run(our_run("all", *nodes))
    with pytest.raises(RefusedError, match="gpu-9999 is held"):
        await store.start_run(our_run("two", "gpu-9999"))
    await store.end_run("all", 0)
    assert time.monotonic() - began < 5
    assert (await store.runs())[0][0].nodes == nodes
    await store.close()
