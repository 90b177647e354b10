"""SIGKILL in the middle of a bring-up, then the same command again: the same end, every machine deployed once.

One whole bring-up is watched first. The seeded moments are spread over what was seen of it: over its duration, over
the writes that the simulator received, and over the lines it printed. The process is killed alone; what it started
(Ansible) lives on, and the next run has to cope with it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provision.model.machine import Status
from provision.sim.run import start_fleet
from tests.journeys.brood import Brood
from tests.journeys.conftest import Answer, Site, kill

# A busy machine takes its time; what hangs is found all the same.
pytestmark = pytest.mark.timeout(300)

NODES = 4
FAULTY, FAULT = "gpu-12-03", "psu_cord_out:2"
QUICK, ALL = 12, 40
_WHOLE: list[Whole] = []


@dataclass(frozen=True)
class Whole:
    """What a bring-up without a kill is like."""

    took_s: float
    writes: int
    lines: int
    end: dict[str, Any]


async def _start(folder: Path) -> AsyncIterator[Site]:
    async with start_fleet(folder / "sim", nodes=NODES, speed=600.0, faults=[(FAULTY, FAULT)]) as fleet:
        yield Site(fleet, folder / "state")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A fleet of its own for each kill."""
    async for one in _start(tmp_path):
        yield one


async def end_state(site: Site, last: Answer) -> dict[str, Any]:
    """Everything that must be the same however often the program died on the way."""
    records = {name: site.fleet.maas.record_of(machine) for name, machine in site.world.machines.items()}
    return {
        "outcomes": last.ended,
        "tickets": [
            (t["id"], t["status"], t["node"], t["category"], t["locator"], t["action"])
            for t in await site.tickets(everything=True)
        ],
        "statuses": {name: record and record.status for name, record in records.items()},
        "receipts": {name: record and sorted(record.owner_data.items()) for name, record in records.items()},
        "deployed": {name: machine.deployed_count for name, machine in site.world.machines.items()},
        "deploys": {name: machine.writes["maas:deploy"] for name, machine in site.world.machines.items()},
        "creates": {name: machine.writes["maas:create"] for name, machine in site.world.machines.items()},
        "known to MAAS": len(site.fleet.maas.region.machines),
    }


@pytest.fixture
async def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """One undisturbed bring-up, measured once for each worker process."""
    if not _WHOLE:
        async for site in _start(tmp_path_factory.mktemp("whole")):
            began = time.monotonic()
            answer = await site.bringup()
            took_s = time.monotonic() - began
            assert answer.status == 1
            found = Whole(took_s, site.writes(), len(answer.lines), await end_state(site, answer))
            ready = {name: int(name != FAULTY) for name in site.world.machines}
            assert found.end["deployed"] == found.end["deploys"] == found.end["creates"] == ready
            assert found.end["outcomes"][FAULTY] == "needs-hands"
            assert [ticket[1:4] for ticket in found.end["tickets"]] == [("open", FAULTY, "psu")]
            _WHOLE.append(found)
    return _WHOLE[0]


async def killed_at(site: Site, whole: Whole, seed: int) -> tuple[str, Brood]:
    """Start a bring-up and kill it at the seed's moment; which moment that was, and the processes it had by then."""
    draw = random.Random(seed)
    # Stratified: neighbouring seeds lie in different parts of the run, all of them together cover it.
    share = (seed * 7 % ALL + draw.random()) / ALL
    kind = ("time", "write", "line")[seed % 3]
    process = await site.start("bringup", "all", "--output", "json")
    brood = Brood(process.pid)
    assert process.stdout is not None
    if kind == "time":
        moment = f"{share * whole.took_s:.2f} s"
        reading = asyncio.create_task(process.stdout.read())
        await asyncio.sleep(share * whole.took_s)
    elif kind == "write":
        wanted = max(1, round(share * whole.writes))
        moment = f"write {wanted}"
        reading = asyncio.create_task(process.stdout.read())
        while site.writes() < wanted and process.returncode is None:  # noqa: ASYNC110 - a counter has no event
            await asyncio.sleep(0.001)
    else:
        wanted = max(1, round(share * whole.lines))
        moment = f"line {wanted}"
        for _ in range(wanted):
            if not await process.stdout.readline():
                break
        reading = asyncio.create_task(process.stdout.read())
    brood.look()
    kill(process)
    await process.wait()
    await reading
    return f"seed {seed}, killed at {moment}, status {process.returncode}", brood


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[pytest.mark.soak] if s >= QUICK else [], id=f"seed-{s}") for s in range(ALL)]
)
async def test_killed_once_and_run_again(seed: int, site: Site, whole: Whole) -> None:
    moment, left_behind = await killed_at(site, whole, seed)
    again = await site.bringup()
    assert again.status == 1, (moment, again.err)
    assert await end_state(site, again) == whole.end, moment
    for name, machine in site.world.machines.items():
        assert machine.deployed_count == machine.writes["maas:deploy"] == int(name != FAULTY), (moment, name)
        assert machine.sessions["full"] == 0, f"{moment}: the BMC's sessions were used up"
        assert machine.sessions["login"] - machine.sessions["logout"] <= 1, f"{moment}: only the killed one may be left"
    assert await left_behind.gone() == [], f"{moment}: orphans of the killed run"
    assert site.world.problems == []

    if seed % 5 == 0:
        writes = site.writes()
        assert (await site.bringup()).status == 1
        assert site.writes() == writes, f"{moment}: a third run wrote"


def test_the_statuses_are_those_of_a_ready_rack(whole: Whole) -> None:
    """The end that all the others are compared with is the right one."""
    assert {name: status for name, status in whole.end["statuses"].items() if name != FAULTY} == {
        name: Status.DEPLOYED for name in whole.end["statuses"] if name != FAULTY
    }
    assert whole.end["statuses"][FAULTY] is None, "no write for a machine with a hard fault"
