"""The store is looked after: counted, checked, pruned, moved."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from provision.errors import MisconfiguredError, RefusedError
from provision.model.decision import Outcome
from provision.model.event import Acted, Said
from provision.model.evidence import Evidence, Gap, Part, PartKind, Reading, Severity
from provision.model.run import NodeState, Run
from provision.model.ticket import ChangeKind, TicketChange, TicketStatus
from provision.store import moving, upkeep
from provision.store.journal import Store, open_store
from tests.postgres import Server
from tests.store.conftest import Place
from tests.store.test_store_tickets import opening, ticket

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def readings(node: str, at: datetime, count: int = 3) -> list[Evidence]:
    part = Part(PartKind.PSU, "PSU.Slot.2", "PSU 2", parent="board")
    return [
        Evidence(node, part, Reading.FAILED, "redfish/psus", at, f"reading {n}", "PSU0003", Severity.CRITICAL, {"n": n})
        for n in range(count)
    ]


class Life:
    """Runs that come and go, on a clock that the test moves."""

    def __init__(self, place: Place) -> None:
        self.time = NOW
        self.store: Store = open_store(place.address, now=lambda: self.time)

    @property
    def database(self) -> upkeep.Database:
        return self.store._database

    async def run(self, run_id: str, at: datetime, *nodes: str, ticket_for: str = "", ends: bool = True) -> None:
        """One run over the nodes: events, an attempt, evidence, a gap and the state of each."""
        self.time = at
        run = Run(run_id, "bringup", nodes, "anna", os.uname().nodename, os.getpid(), at, "rack-12")
        await self.store.start_run(run)
        for node in nodes:
            attempt = await self.store.open_attempt(run_id, node, "deploy", "deploy", "install")
            await self.store.close_attempt(attempt, "sent")
            for n in range(4):
                await self.store.record(Acted(at, run_id, node, "deploy", str(n), "why", "sent"))
            await self.store.keep_evidence(run_id, readings(node, at), [Gap("redfish/x", "/x", "404")])
            await self.store.set_state(NodeState(node, run_id, "deploy", at, "stuck", "x", Outcome.NEEDS_HANDS, at))
        await self.store.record(Said(at, run_id, "of no node"))
        if ticket_for:
            await self.store.settle(run_id, [opening(ticket(ticket_for))])
        if ends:
            await self.store.end_run(run_id, 1)

    def rows(self) -> dict[str, int]:
        return dict(upkeep.info(self.database, self.time).rows)


async def test_what_is_old_goes_and_what_is_needed_stays(place: Place) -> None:
    life = Life(place)
    await life.run("r1", NOW - 300 * DAY, "a", "b", "c", ticket_for="b")
    await life.run("r2", NOW - 200 * DAY, "a", "b")
    await life.run("r3", NOW - 10 * DAY, "a", "b")
    before = life.rows()
    assert (before["events"], before["evidence"], before["gaps"], before["attempts"]) == (7 * 4 + 3, 21, 7, 7)
    told = upkeep.prune(life.database, before=NOW - 100 * DAY, dry_run=True)
    assert life.rows() == before
    gone = upkeep.prune(life.database, before=NOW - 100 * DAY)
    assert {name: told[name] for name in ("events", "evidence", "gaps")} == {"events": 14, "evidence": 9, "gaps": 3}
    assert {name: gone[name] for name in told if name != "runs"} == {n: told[n] for n in told if n != "runs"}

    # Of a: only the last run. Of b: the last run, and the one that opened its ticket. Of c: its last run is an old one.
    kept = {n: sorted({str(e["run"]) for e in await life.store.history(n)}) for n in "abc"}
    assert kept == {"a": ["r3"], "b": ["r1", "r3"], "c": ["r1"]}
    assert [len(await life.store.evidence(n)) for n in "abc"] == [3, 6, 3]
    assert life.rows()["attempts"] == before["attempts"] - gone["attempts"] == 3
    assert {run.id for run, _ in await life.store.runs()} == {"r1", "r3"}

    # The ticket is closed: nothing holds its evidence any more.
    (found,) = await life.store.tickets()
    await life.store.settle(
        "r3", [TicketChange(ChangeKind.VERIFY, replace(found, status=TicketStatus.VERIFIED), "well")]
    )
    upkeep.prune(life.database, before=NOW - 100 * DAY)
    assert sorted({str(e["run"]) for e in await life.store.history("b")}) == ["r3"]
    assert upkeep.check(life.database) == ()
    await life.store.close()


async def test_of_each_node_the_newest_rows_stay(place: Place) -> None:
    life = Life(place)
    for n in range(5):
        await life.run(f"r{n}", NOW - DAY + n * timedelta(hours=1), "a", "b")
    gone = upkeep.prune(life.database, keep=6)
    # Six events reach back into the last run but one; its three readings and more stay whole within six.
    assert gone == {"events": 2 * (20 - 6), "evidence": 2 * (15 - 6), "gaps": 0}
    assert [str(e["run"]) for e in await life.store.history("a")] == ["r3", "r3", "r4", "r4", "r4", "r4"]
    assert upkeep.prune(life.database, keep=6) == {"events": 0, "evidence": 0, "gaps": 0}
    assert upkeep.prune(life.database, keep=1)["events"] == 4  # the last run stays whole
    await life.store.close()


async def test_a_run_at_work_loses_nothing(place: Place) -> None:
    life = Life(place)
    await life.run("long", NOW - 400 * DAY, "a", ends=False)
    gone = upkeep.prune(life.database, before=NOW, keep=1)
    assert not any(gone.values())
    info = upkeep.info(life.database, life.time)
    assert [line.startswith("bringup rack-12 of anna@") for line in info.live_runs] == [True]
    assert (info.kind, info.rows["runs"]) == (place.kind, 1)
    assert info.bytes > 50_000
    await life.store.close()


async def test_a_check_finds_what_is_wrong(place: Place) -> None:
    life = Life(place)
    await life.run("r1", NOW, "a", ticket_for="a")
    assert upkeep.check(life.database) == ()
    await life.store.close()
    place.sql("UPDATE events SET payload = 'no json' WHERE id = 2")
    place.sql("INSERT INTO leases (node, run) VALUES ('a', 'r1')")
    if place.server is not None:
        place.sql("INSERT INTO gaps (id, run, kept_at, source, place, why) VALUES (99, 'r1', now(), '', '', '')")
    else:
        place.sql("DROP INDEX ix_gaps_run")
    store = open_store(place.address)
    complaints = upkeep.check(store._database)
    wanted = [
        "the next number of gaps would be 2, and 99 is there already"
        if place.server is not None
        else "the tables are not as version",
        "payload of row 2 of events cannot be read",
        "a is still leased to run r1, which is over",
    ]
    assert [found[: len(want)] for found, want in zip(complaints, wanted, strict=True)] == wanted
    await store.close()


async def _everything(store: Store) -> list[object]:
    return [
        await store.runs(),
        await store.states(),
        await store.tickets(),
        await store.epoch("a"),
        store.get_pin("bmc-certificate", "a"),
        *[await read(n) for n in "ab" for read in (store.attempts, store.history, store.evidence)],
    ]


async def test_a_store_moves_to_a_server_and_goes_on_there(tmp_path: Path, empty_server_place: Place) -> None:
    life = Life(Place("sqlite", str(tmp_path / "state")))
    for n in range(3):
        await life.run(f"r{n}", NOW + n * DAY, "a", "b", ticket_for=f"n{n}")
    await life.store.raise_epoch("a", why="wish")
    life.store.set_pin("bmc-certificate", "a", "11")
    before = life.rows()
    there = open_store(empty_server_place.address)
    assert moving.move(life.database, there._database, lambda: NOW) == before
    assert await _everything(there) == await _everything(life.store)
    assert life.rows() == before

    # Numbers go on where they were.
    newest = (await there.attempts("b"))[0].id
    await there.start_run(Run("r9", "bringup", ("b",), "ben", os.uname().nodename, os.getpid(), NOW, ""))
    assert await there.open_attempt("r9", "b", "deploy", "deploy", "x") == newest + 1
    assert [t.id for t in await there.settle("r9", [opening(ticket("z"))])] == ["T-0004"]
    assert upkeep.check(there._database) == ()
    with pytest.raises(
        MisconfiguredError, match=r"is not empty \(27 events, .* 4 runs, .*; name an empty database with --to"
    ):
        moving.move(life.database, there._database, lambda: NOW)
    await there.close()
    await life.store.close()


async def test_a_move_that_fails_leaves_nothing_there(tmp_path: Path, empty_server_place: Place) -> None:
    life = Life(Place("sqlite", str(tmp_path / "state")))
    await life.run("r1", NOW, "a")
    await life.run("r2", NOW, "b", ends=False)
    there = open_store(empty_server_place.address)
    with pytest.raises(RefusedError, match=r"bringup rack-12 of anna@.* \(run r2\) is at work; wait for it or stop it"):
        moving.move(life.database, there._database, lambda: NOW)
    await life.store.end_run("r2", 0)
    # PostgreSQL keeps to the length of a name, SQLite does not.
    await life.store.set_state(NodeState("n" * 300, "r1", "deploy", NOW, "x", "x"))
    with pytest.raises(Exception, match="too long"):
        moving.move(life.database, there._database, lambda: NOW)
    assert not any(upkeep.info(there._database, NOW).rows.values())
    with pytest.raises(MisconfiguredError, match="cannot be moved onto itself"):
        moving.move(life.database, life.database, lambda: NOW)
    await there.close()
    await life.store.close()


def provision(inventory: Path, state: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "provision", *words, "-i", str(inventory), "--state", str(state)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment},
    )  # fmt: skip


async def test_the_verbs(server: Server, empty_server_place: Place, tmp_path: Path) -> None:
    life = Life(Place("sqlite", str(tmp_path / "state")))
    await life.run("r1", NOW - 300 * DAY, "a")
    await life.run("r2", NOW, "a")
    await life.store.close()
    inventory = Path(__file__).parents[2] / "inventory"
    state = tmp_path / "state"

    def verb(*words: str, **environment: str) -> str:
        done = provision(inventory, state, "store", *words, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "2026-02-02 to 2026-11-29" in verb("info")
    assert "events    5\n" in verb("prune", "--older-than", "100")
    server.sql("CREATE ROLE mover LOGIN SUPERUSER PASSWORD 'hunter2-hunter2'")
    to = ("move", "--to", server.tcp_address(empty_server_place.database, "mover"), "--to-password")
    refused = provision(inventory, state, "store", *to, "hunter2-hunter2")
    assert (refused.returncode, "expected env:NAME" in refused.stderr) == (2, True)
    assert "events        5\n" in verb(*to, "env:DB_PASSWORD", DB_PASSWORD="hunter2-hunter2")
    assert empty_server_place.sql("SELECT count(*) FROM events") == [(5,)]
