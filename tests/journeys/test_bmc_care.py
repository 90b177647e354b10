"""Looking after BMCs by the command line: restart, clock, sessions, firmware; and what a bring-up may change."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.journeys.conftest import Answer, Site, Start, kill

ONE, TWO = "gpu-12-01", "gpu-12-02"


def _rows(answer: Answer) -> list[dict[str, Any]]:
    return list(json.loads(answer.out))


async def test_a_reset_waits_until_the_bmc_is_really_back(site_of: Start) -> None:
    site: Site = await site_of(nodes=2)
    machine = site.world.by_name(ONE)
    answer = await site.provision("bmc", "reset", ONE, "--output", "json")
    assert answer.status == 0, answer.out + answer.err
    (row,) = _rows(answer)
    assert row["result"].startswith("restarted and is back after")
    assert machine.writes == {"bmc:manager-reset": 1}
    assert not machine.faults
    assert not site.world.by_name(TWO).writes


async def test_a_bmc_that_stays_away_is_reported_with_what_is_missing(site_of: Start) -> None:
    """So slow a world that the BMC's three minutes outlast the command's patience."""
    site: Site = await site_of(nodes=1, speed=30.0, pace=0.001)
    answer = await site.provision("bmc", "reset", ONE, "--output", "json")
    assert answer.status == 1
    (row,) = _rows(answer)
    assert "restarted and is not whole after" in row["result"]
    assert "SYS518" in row["result"]


async def test_clocks_are_shown_and_set_only_when_asked(site_of: Start) -> None:
    site: Site = await site_of(nodes=2, faults=[(ONE, "clock_off")], speed=1.0)
    machine = site.world.by_name(ONE)
    answer = await site.provision("bmc", "clock", "all", "--output", "json")
    assert answer.status == 1
    off, right = _rows(answer)
    assert abs(off["offset_s"]) > 3600
    assert "--set" in off["result"]
    assert right["result"] == "right"
    assert site.writes() == 0
    answer = await site.provision("bmc", "clock", "all", "--set", "--output", "json")
    assert answer.status == 0, answer.out
    assert [row["result"] for row in _rows(answer)] == ["set", "right"]
    assert machine.writes == {"bmc:clock": 1}


async def test_the_session_of_a_killed_command_is_ended_and_others_are_not(site_of: Start) -> None:
    site: Site = await site_of(nodes=1)
    machine = site.world.by_name(ONE)
    machine.bmc_latency_s = 0.2
    process = await site.start("macs", ONE)
    async with asyncio.timeout(30):
        while not machine.sessions["login"]:  # noqa: ASYNC110 - the world of the simulator has no event for it
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)  # the answer has arrived and was written down
    kill(process)
    await process.wait()
    machine.bmc_latency_s = 0.0
    assert (machine.sessions["login"], machine.sessions["logout"]) == (1, 0)
    # Whoever comes next ends it in passing, and shows only itself.
    answer = await site.provision("bmc", "sessions", ONE, "--output", "json")
    assert answer.status == 0, answer.err
    (row,) = _rows(answer)
    assert (row["user"], row["whose"]) == ("provision", "ours")
    assert (machine.sessions["login"], machine.sessions["logout"]) == (2, 2)


async def test_firmware_is_told_beside_what_the_profile_wants(site_of: Start) -> None:
    site: Site = await site_of(nodes=1)
    answer = await site.provision("bmc", "info", ONE, "--output", "json")
    assert answer.status == 0, answer.err
    told = {(row["part"], row["version"]) for row in _rows(answer)}
    assert ("bmc", "7.10.30.00") in told
    assert {part for part, _ in told} == {"bmc", "bios", "nic", "drive"}
    assert site.writes() == 0


async def test_network_boot_is_enabled_in_bios_only_where_the_site_allows_it(site_of: Start) -> None:
    site: Site = await site_of(nodes=1, faults=[(ONE, "pxe_disabled")])
    machine = site.world.by_name(ONE)
    answer = await site.bringup()
    assert answer.status == 1
    assert "no network boot device is enabled in the BIOS" in answer.out
    assert not machine.writes["bmc:bios"]


async def test_network_boot_that_is_off_in_bios_costs_one_start_more(site_of: Start) -> None:
    site: Site = await site_of(nodes=1, faults=[(ONE, "pxe_disabled")], settings={"may_change_bios": True})
    machine = site.world.by_name(ONE)
    answer = await site.bringup()
    assert answer.status == 0, answer.out[-3000:] + answer.err
    assert machine.writes["bmc:bios"] == 1
    assert machine.bios["PxeDev1EnDis"] == "Enabled"
    assert [job.state for job in machine.jobs] == ["Completed"]
    before = site.writes()
    assert (await site.bringup()).status == 0
    assert site.writes() == before
