"""A reimage is killed at seeded moments and the same command is typed again: erased once, and nobody else."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from provision.model.machine import Status
from provision.sim.run import start_fleet
from tests.journeys.conftest import Site, kill

ONE, TWO = "gpu-12-01", "gpu-12-02"
QUICK, ALL = 12, 40
SEEDS = [pytest.param(s, marks=[pytest.mark.soak] if s >= QUICK else [], id=f"seed-{s}") for s in range(ALL)]
COMMAND = ("reimage", ONE, "--yes-erase", ONE, "--output", "json")


@dataclass
class Bench:
    """A rack that is up, and what one undisturbed reimage of it is like."""

    site: Site
    took_s: float = 0.0
    lines: int = 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    folder = tmp_path_factory.mktemp("reimage")
    async with start_fleet(folder / "sim", nodes=2, speed=600.0) as fleet:
        bench = Bench(Site(fleet, folder / "state"))
        assert (await bench.site.bringup()).status == 0
        bench.site.world.reset_writes()
        began = time.monotonic()
        whole = await bench.site.provision(*COMMAND)
        assert whole.status == 0, whole.err
        bench.took_s, bench.lines = time.monotonic() - began, len(whole.lines)
        yield bench


async def killed(bench: Bench, seed: int) -> tuple[str, bool]:
    """Kill a reimage at the seed's moment; which moment that was, and whether it had come to its end by then."""
    # Stratified: neighbouring seeds lie in different parts of the run, all of them together cover it.
    share = (seed * 7 % ALL + random.Random(seed).random()) / ALL
    process = await bench.site.start(*COMMAND)
    assert process.stdout is not None
    seen: list[bytes] = []
    if seed % 2:
        moment = f"{share * bench.took_s:.2f} s"
        reading = asyncio.create_task(process.stdout.read())
        await asyncio.sleep(share * bench.took_s)
    else:
        wanted = max(1, round(share * bench.lines))
        moment = f"line {wanted} of {bench.lines}"
        for _ in range(wanted):
            if not (line := await process.stdout.readline()):
                break
            seen.append(line)
        reading = asyncio.create_task(process.stdout.read())
    kill(process)
    await process.wait()
    seen += (await reading).splitlines()
    complete = [line for line in seen if line.endswith((b"}\n", b"}"))]
    over = any(json.loads(line)["event"] == "run-ended" for line in complete)
    return f"seed {seed}, killed at {moment}, status {process.returncode}", over


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("seed", SEEDS)
async def test_killed_and_typed_again(seed: int, bench: Bench) -> None:
    one, two = bench.site.world.by_name(ONE), bench.site.world.by_name(TWO)
    deployed, released = one.deployed_count, one.writes["maas:release"]
    moment, over = await killed(bench, seed)
    if not over:
        again = await bench.site.provision(*COMMAND)
        assert again.status == 0, (moment, again.out, again.err)
    assert (one.deployed_count, one.writes["maas:release"]) == (deployed + 1, released + 1), moment
    assert (two.deployed_count, two.writes) == (1, {}), moment
    record = bench.site.fleet.maas.record_of(one)
    assert record.status is Status.DEPLOYED, moment
    assert bench.site.world.problems == []
