"""Workers share a site: one dies, one hangs and wakes; every machine is deployed once, by whoever is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.sim.run import Fleet, start_fleet
from tests.journeys.conftest import Answer, Site, kill
from tests.postgres import Server, server
from tests.store.wire import Wire

__all__ = ["server"]
pytestmark = [pytest.mark.timeout(300)]
LEASE_S = 4


@dataclass
class Crew:
    """Workers and operators, each with a state directory of its own as if it stood on a machine of its own."""

    fleet: Fleet
    folder: Path
    rows: Callable[[str], list[tuple[Any, ...]]]
    people: list[asyncio.subprocess.Process] = field(default_factory=list)
    said: dict[int, list[str]] = field(default_factory=dict)
    watching: list[asyncio.Task[None]] = field(default_factory=list)

    def site(self, name: str) -> Site:
        return Site(self.fleet, self.folder / name)

    async def worker(self, *options: str, store: str = "") -> asyncio.subprocess.Process:
        """Start one and wait until the others know it; ``store``: by another address than the others."""
        known = self.rows("SELECT count(*) FROM workers")[0][0] if self.people else 0
        number = len(self.people)
        site = self.site(f"state-{number}")
        if store:
            own = self.fleet.inventory.with_name(f"inventory-{number}")
            shutil.copytree(self.fleet.inventory, own)
            name_store(own, store)
            site.fleet = replace(self.fleet, inventory=own)
        process = await site.start("worker", *(options or ("--lease", str(LEASE_S))))
        self.people.append(process)
        self.said[process.pid] = []
        self.watching.append(asyncio.create_task(self._listen(process)))
        await until(lambda: self.told(process, "worker "))
        await until(lambda: self.rows("SELECT count(*) FROM workers")[0][0] == known + 1)
        return process

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while line := await process.stderr.readline():
            self.said[process.pid].append(line.decode())

    def told(self, process: asyncio.subprocess.Process, text: str) -> bool:
        return any(text in line for line in self.said[process.pid])

    def runs_of(self, process: asyncio.subprocess.Process) -> set[str]:
        return {run for (run,) in self.rows(f"SELECT id FROM runs WHERE pid = {process.pid} AND verb = 'bringup'")}  # noqa: S608

    def in_hand(self, process: asyncio.subprocess.Process) -> set[str]:
        return {node for node, run in self.rows("SELECT node, run FROM leases") if run in self.runs_of(process)}

    def acted(self, process: asyncio.subprocess.Process) -> int:
        return sum(run in self.runs_of(process) for (run,) in self.rows("SELECT run FROM attempts"))

    async def end(self) -> None:
        for process in self.people:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            kill(process)
            await process.wait()
        await asyncio.gather(*self.watching)


async def until(seen: Callable[[], bool], patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while not seen():
        assert time.monotonic() < deadline, "it did not come"
        await asyncio.sleep(0.05)


def name_store(inventory: Path, store: str) -> None:
    settings = inventory / "group_vars" / "all" / "provision.yml"
    told = yaml.safe_load(settings.read_text())
    told["provision"]["store"] = store
    settings.write_text(yaml.safe_dump(told))


@asynccontextmanager
async def crew_at(
    folder: Path, store: str, rows: Callable[[str], list[tuple[Any, ...]]], nodes: int, speed: float = 600.0
) -> AsyncIterator[Crew]:
    async with start_fleet(folder / "sim", nodes=nodes, speed=speed) as fleet:
        name_store(fleet.inventory, store)
        crew = Crew(fleet, folder, rows)
        try:
            yield crew
        finally:
            await crew.end()


@pytest.fixture
async def crew(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Crew]:
    """On the store that the test names: ``sqlite`` or ``postgresql``."""
    kind, nodes, *pace = getattr(request, "param", ("postgresql", 4))
    if kind == "postgresql":
        host: Server = request.getfixturevalue("server")
        name = host.database()
        address, rows = host.address(name), lambda sql: host.sql(sql, name)
    else:
        address = str(tmp_path / "shared")

        def rows(sql: str) -> list[tuple[Any, ...]]:
            with sqlite3.connect(tmp_path / "shared" / "store.db") as other:
                return other.execute(sql).fetchall()

    async with crew_at(tmp_path, address, rows, nodes, *pace) as made:
        yield made


def deployed_once(crew: Crew) -> None:
    for name, machine in crew.fleet.world.machines.items():
        counted = (machine.deployed_count, machine.writes["maas:deploy"], machine.writes["maas:create"])
        assert counted == (1, 1, 1), (name, counted)
    assert crew.fleet.world.problems == []


async def watched(crew: Crew) -> asyncio.Task[Answer]:
    return asyncio.create_task(crew.site("state-operator").bringup())


async def all_ready(crew: Crew, answer: Answer) -> None:
    assert answer.status == 0, answer.err
    assert "worker(s) on" in answer.err
    assert answer.ended == dict.fromkeys(crew.fleet.world.machines, "ready")
    assert dict(crew.rows("SELECT node, outcome FROM states")) == answer.ended
    # Everything was given back: no lease, no slot, no wish without an outcome.
    assert crew.rows("SELECT count(*) FROM leases") == [(0,)]
    assert crew.rows("SELECT count(*) FROM slots") == [(0,)]
    assert crew.rows("SELECT count(*) FROM wanted WHERE outcome IS NULL OR outcome <> 'ready'") == [(0,)]
    deployed_once(crew)


BOTH = [pytest.param(("postgresql", 8), id="postgresql-8"), pytest.param(("sqlite", 8), id="sqlite-8")]
QUICK = pytest.param(("postgresql", 4), id="postgresql-4")


@pytest.mark.parametrize(
    "crew", [QUICK, *(pytest.param(*p.values, id=p.id, marks=pytest.mark.soak) for p in BOTH)], indirect=True
)
async def test_one_worker_hangs_another_is_killed_and_the_third_goes_on(crew: Crew) -> None:
    """Every machine is deployed once, whoever began it; what wakes up too late may write nothing."""
    hangs, dies, stays = [await crew.worker() for _ in range(3)]
    operator = await watched(crew)
    await until(lambda: crew.acted(hangs) > 1 and crew.acted(dies) > 1)
    shares = [crew.in_hand(one) for one in (hangs, dies, stays)]
    assert all(shares), "each has a share"
    assert set().union(*shares) == set(crew.fleet.world.machines)
    hangs.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    kill(dies)
    await dies.wait()
    await until(lambda: shares[0] <= crew.in_hand(stays))
    assert time.monotonic() - began < 30, "a worker that hangs is replaced within half a minute"
    await all_ready(crew, await operator)
    assert all(crew.told(stays, f"{name}: ready") for share in shares for name in share)

    acted, writes = crew.acted(hangs), crew.site("x").writes()
    hangs.send_signal(signal.SIGCONT)
    await until(lambda: crew.told(hangs, "was silent and is taken over by run"))
    # Leaving: a worker that was told to go says so with its exit status, and that it is gone.
    for one in (hangs, stays):
        os.kill(one.pid, signal.SIGTERM)
        assert await one.wait() == 0
    assert crew.rows("SELECT count(*) FROM workers") in ([(0,)], [(1,)]), "only the killed one may still be listed"
    assert (crew.acted(hangs), crew.site("x").writes()) == (acted, writes)
    states = crew.rows("SELECT DISTINCT outcome FROM states")
    assert states == [("ready",)], "the late one has not told its own story over the right one"
    deployed_once(crew)


@pytest.mark.soak
@pytest.mark.parametrize("crew", BOTH, indirect=True)
async def test_workers_are_exchanged_one_after_the_other_in_mid_run(crew: Crew) -> None:
    """A rolling upgrade: each leaves with SIGTERM while another takes its place."""
    people = [await crew.worker(), await crew.worker()]
    operator = await watched(crew)
    for number in range(2):
        await until(lambda: crew.acted(people[number]) > 1)  # noqa: B023
        people.append(await crew.worker())
        os.kill(people[number].pid, signal.SIGTERM)
        assert await people[number].wait() == 0
    await all_ready(crew, await operator)


@pytest.mark.soak
@pytest.mark.parametrize("crew", BOTH[:1], indirect=True)
async def test_asked_again_nothing_is_written(crew: Crew) -> None:
    await crew.worker()
    await all_ready(crew, await (await watched(crew)))
    writes = crew.site("x").writes()
    again = await crew.site("state-operator").bringup()
    assert (again.status, crew.site("x").writes()) == (0, writes)


@pytest.mark.soak
@pytest.mark.parametrize("crew", BOTH[:1], indirect=True)
async def test_the_server_is_restarted_in_mid_run(crew: Crew, server: Server) -> None:
    one, _ = await crew.worker(), await crew.worker()
    operator = await watched(crew)
    for crash in (False, True):
        acted = crew.acted(one)
        await until(lambda: crew.acted(one) > acted)  # noqa: B023
        await asyncio.to_thread(server.stop, crash=crash)
        await asyncio.sleep(3)
        await asyncio.to_thread(server.start)
    await all_ready(crew, await operator)


SITE_NODES = int(os.environ.get("PROVISION_SOAK_NODES", "32"))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("crew", [("postgresql", SITE_NODES, 30.0)], indirect=True)
async def test_four_workers_and_everything_that_can_happen_to_them(crew: Crew, server: Server) -> None:
    """At once one is killed, one stopped, one cut off from the store; then the server crashes: nothing twice.

    The one that is cut off still reaches BMCs and MAAS: the dangerous case. Leases are those of a real site (20 s);
    ``PROVISION_SOAK_NODES`` says how many machines. Prints how long each took to be replaced.
    """
    ((database,),) = crew.rows("SELECT current_database()")
    wire = Wire(server.folder / f".s.PGSQL.{server.port}")
    lease = ("--lease", "20")
    dies, stops, _ = [await crew.worker(*lease) for _ in range(3)]
    cut = await crew.worker(*lease, store=f"postgresql://test@127.0.0.1:{wire.port}/{database}")
    bringup = await crew.site("state-operator").start("bringup", "all", "--output", "json")
    operator = asyncio.create_task(bringup.communicate())
    await until(lambda: all(crew.acted(one) > 1 for one in (dies, stops, cut)), 300)
    happens = {"killed": dies, "stopped": stops, "cut off": cut}
    shares = {what: (crew.in_hand(one), crew.runs_of(one)) for what, one in happens.items()}
    assert all(share for share, _ in shares.values())

    def elsewhere(what: str) -> bool:
        share, theirs = shares[what]
        held = dict(crew.rows("SELECT node, run FROM leases"))
        return all(held.get(node, next(iter(theirs))) not in theirs for node in share)

    kill(dies)
    stops.send_signal(signal.SIGSTOP)
    wire.freeze()
    began, took_s = time.monotonic(), dict[str, float]()
    while len(took_s) < len(happens):
        for what in happens.keys() - took_s.keys():
            if elsewhere(what):
                took_s[what] = time.monotonic() - began
        assert time.monotonic() - began < 120, took_s
        await asyncio.sleep(0.2)

    def intents() -> int:
        """What the runs wrote down that others have taken over."""
        gone = set().union(*(theirs for _, theirs in shares.values()))
        return sum(run in gone for (run,) in crew.rows("SELECT run FROM attempts"))

    before = intents()
    await asyncio.to_thread(server.stop, crash=True)
    await asyncio.sleep(3)
    await asyncio.to_thread(server.start)
    stops.send_signal(signal.SIGCONT)
    wire.thaw()
    for one in (stops, cut):
        await until(lambda: crew.told(one, "is taken over by run"), 120)  # noqa: B023
    out, err = await operator
    print("\n| what happened | replaced after |\n|---|---|")  # noqa: T201
    for what, seconds in took_s.items():
        print(f"| {what} | {seconds:.1f} s |")  # noqa: T201
    answer = Answer(bringup.returncode or 0, out.decode(), err.decode())
    wire.close()
    await all_ready(crew, answer)
    assert intents() == before, "what woke up too late has written nothing down"
    assert all(seconds < 30 for seconds in took_s.values()), took_s
