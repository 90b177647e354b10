"""Five hundred SIGKILLs over bring-ups of 64 machines, on each store: each machine is deployed once all the same.

A bring-up is killed at seeded moments again and again, and then left alone; the simulator counts what reached its
machines. In `make test` test_kill.py does the same with few machines.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from provision.sim.run import start_fleet
from tests.journeys.conftest import Answer, Site, kill
from tests.postgres import Server, server

__all__ = ["server"]
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

NODES, FLEETS, KILLS = 64, 20, 25
# Slow enough for that many kills before the end.
SPEED = 30.0
PATIENCE_S = 1200
FAULTS = [("gpu-12-03", "psu_cord_out:2"), ("gpu-12-40", "nvme_missing:4")]


def use_store(site: Site, address: str) -> None:
    """Name the store in the site's settings, as an operator would."""
    file = site.fleet.inventory / "group_vars" / "all" / "provision.yml"
    text = file.read_text()
    assert "\nprovision:\n" in text
    file.write_text(text.replace("\nprovision:\n", f"\nprovision:\n  store: {address}\n", 1))


async def whole(site: Site) -> Answer:
    """A bring-up to its end, however long that is."""
    process = await site.start("bringup", "all", "--output", "json")
    try:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    finally:
        if process.returncode is None:
            kill(process)
            await process.wait()
    return Answer(process.returncode or 0, out.decode(), err.decode())


@pytest.mark.parametrize("seed", range(FLEETS))
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_killed_again_and_again(store: str, seed: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    draw = random.Random(f"{store} {seed}")
    faulty = {name for name, _ in FAULTS if int(name[-2:]) <= NODES}
    async with start_fleet(
        tmp_path / "sim", nodes=NODES, speed=SPEED, faults=[one for one in FAULTS if one[0] in faulty]
    ) as fleet:
        site = Site(fleet, tmp_path / "state")
        if store == "postgresql":
            database: Server = request.getfixturevalue("server")
            use_store(site, database.address(database.database()))
        killed = 0
        while killed < KILLS:
            process = await site.start("bringup", "all", "--output", "json")
            assert process.stdout is not None
            reading = asyncio.create_task(process.stdout.read())
            # Most moments lie in the run, some in the start of the program.
            await asyncio.sleep(draw.choice([draw.uniform(0.2, 2.0), draw.uniform(2.0, 12.0)]))
            ended = process.returncode is not None
            kill(process)
            await process.wait()
            await reading
            killed += 1
            if ended:
                break
        last = await whole(site)
        assert last.status == (1 if faulty else 0), last.err
        assert {name for name, outcome in last.ended.items() if outcome != "ready"} == faulty
        for name, machine in site.world.machines.items():
            times = int(name not in faulty)
            assert machine.deployed_count == machine.writes["maas:deploy"] == times, (store, seed, killed, name)
            assert machine.writes["maas:create"] == times, (store, seed, killed, name)
            assert machine.writes["maas:release"] == 0, (store, seed, killed, name)
        held = (await site.provision("limits", "--output", "json")).json["slots"]
        assert held == [], "all slots are free at the end"
        writes = site.writes()
        await whole(site)
        assert site.writes() == writes, "a run over what is right wrote"
        assert site.world.problems == []
