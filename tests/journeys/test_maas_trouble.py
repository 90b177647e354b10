"""What MAAS does to those who depend on it: away, keys and clocks that do not fit, answers that hide what happened."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from provision.model.machine import Status
from tests.journeys.conftest import DEADLINE_S, Answer, Site, Start, kill


def nothing_tried(answer: Answer, *words: str) -> None:
    """Exit 2 and a sentence on stderr with these words; nothing on stdout."""
    assert answer.status == 2, answer.err
    assert answer.out == ""
    assert answer.err.startswith("provision: MAAS http://127.0.0.1:"), answer.err
    assert "Traceback" not in answer.err
    for word in words:
        assert word in answer.err


def key_file(site: Site) -> Path:
    return site.fleet.directory / "secrets" / "maas-key"


# Fifteen commands.
@pytest.mark.timeout(300)
async def test_each_obstacle_before_the_start_is_exit_2_and_a_sentence_of_its_own(site_of: Start) -> None:
    site: Site = await site_of(nodes=1)
    maas, right = site.fleet.maas, key_file(site).read_text().strip()
    consumer, token, secret = right.split(":")

    key_file(site).write_text(f"wrong{consumer}:{token}:{secret}\n")
    nothing_tried(await site.bringup(), "log in", "API key")

    for other in (f"{consumer}:wrong{token}:{secret}", f"{consumer}:{token}:wrong{secret}"):
        key_file(site).write_text(other + "\n")
        answer = await site.bringup()
        nothing_tried(answer, "log in")
        assert secret not in answer.err.replace(f"wrong{secret}", ""), "MAAS tells the true secret; we must not"
        assert f"wrong{secret}" not in answer.err
    key_file(site).write_text(f"{consumer}:{token}\n")
    answer = await site.bringup()
    assert answer.status == 2
    assert "consumer" in answer.err
    assert token not in answer.err
    key_file(site).write_text(right + "\n")

    maas.faults.clock_skew_s = 3600
    nothing_tried(await site.bringup(), "clock")
    maas.faults.clock_skew_s = 0

    maas.region.racks, racks = [], maas.region.racks
    nothing_tried(await site.bringup(), "no rack controller")
    maas.region.racks = racks

    maas.region.series, series = {"noble": "ga-24.04"}, maas.region.series
    nothing_tried(await site.bringup(), "jammy")
    nothing_tried(await site.provision("plan", "all"), "jammy")
    maas.region.series = series

    hosts = site.fleet.inventory / "hosts.yml"
    told = hosts.read_text()
    hosts.write_text(told.replace("bmc_address:", "zone: hall-z\n          pool: gpus\n          bmc_address:"))
    maas.region.importing = {"jammy": 41.5}
    nothing_tried(
        await site.bringup(),
        "there is no zone hall-z, which gpu-12-01 is to be in (there is default): make it in MAAS",
        "there is no pool gpus, which gpu-12-01 is to be in (there is default): make it in MAAS",
        "the image of jammy for amd64 is still being imported (42 %): wait until MAAS shows it as synced",
    )
    hosts.write_text(told)
    maas.region.importing = {}

    maas.faults.down = True
    nothing_tried(await site.bringup(), "nothing was tried")
    nothing_tried(await site.provision("plan", "all"), "nothing was tried")
    assert site.writes() == 0
    assert (await site.provision("status", "--offline")).status == 1, "what needs no MAAS works without"


async def test_maas_is_away_for_a_while_in_mid_run(site_of: Start) -> None:
    """Nobody types anything: the run says that it waits, and goes on by itself when MAAS is back."""
    site: Site = await site_of(nodes=2)
    process = await site.start("bringup", "all", "--output", "json")
    assert process.stdout is not None
    said: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            async for line in process.stdout:
                said.append(json.loads(line))
                if said[-1]["event"] == "acted" and said[-1]["step"] == "commission":
                    site.fleet.maas.faults.down = True
                if said[-1]["event"] == "waited" and "MAAS http" in said[-1]["why"]:
                    await asyncio.sleep(1)
                    site.fleet.maas.faults.down = False
            assert await process.wait() == 0, said[-1]
    finally:
        if process.returncode is None:
            kill(process)
            await process.wait()
    assert [line["why"] for line in said if line["event"] == "waited" and "MAAS http" in line["why"]]
    assert {machine.writes["maas:deploy"] for machine in site.world.machines.values()} == {1}
    assert {machine.deployed_count for machine in site.world.machines.values()} == {1}


async def test_a_create_that_was_carried_out_and_answered_503_is_not_repeated(site_of: Start) -> None:
    site: Site = await site_of(nodes=2)
    site.fleet.maas.faults.create_503_but_created = 2
    answer = await site.bringup()
    assert answer.status == 0, answer.out
    unknown = [line for line in answer.lines if line["event"] == "acted" and line["result"] == "unknown"]
    assert {line["step"] for line in unknown} == {"create-machine"}
    for machine in site.world.machines.values():
        assert (machine.writes["maas:create"], machine.writes["maas:deploy"], machine.deployed_count) == (1, 1, 1)
    assert len(site.fleet.maas.region.machines) == 2


async def test_a_gateway_that_gives_up_on_every_fifth_write_has_no_double_effect(site_of: Start) -> None:
    site: Site = await site_of(nodes=3)
    site.fleet.maas.faults.gateway_504_every_n_writes = 5
    answer = await site.bringup()
    assert answer.status == 0, answer.out
    unknown = [line for line in answer.lines if line["event"] == "acted" and line["result"] == "unknown"]
    assert len(unknown) >= 3
    for machine in site.world.machines.values():
        assert machine.deployed_count == 1
        once = {name: count for name, count in machine.writes.items() if name.startswith("maas:")}
        assert set(once.values()) == {1}, once
    assert {record.status for record in site.fleet.maas.region.machines.values()} == {Status.DEPLOYED}


async def test_no_rack_controller_reaches_the_bmcs(site_of: Start) -> None:
    """MAAS refuses to power machines; that is found on the way, is nobody's walk, and goes on when it is mended."""
    site: Site = await site_of(nodes=1)
    site.fleet.maas.faults.no_rack = True
    answer = await site.bringup()
    assert answer.status == 1
    assert await site.outcomes() == {"gpu-12-01": "needs-us"}
    assert await site.tickets() == []
    site.fleet.maas.faults.no_rack = False
    again = await site.bringup()
    assert again.status == 0, again.out
    assert site.world.by_name("gpu-12-01").deployed_count == 1
