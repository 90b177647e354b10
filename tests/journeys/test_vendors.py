"""One machine of each maker through the whole bring-up: found, set to network boot, pressed, installed, ready."""

from __future__ import annotations

import pytest

from provision.sim.families import FAMILIES
from tests.journeys.conftest import Start

NODE = "gpu-12-01"


@pytest.mark.parametrize(
    "family", [*list(FAMILIES)[:3], *(pytest.param(name, marks=pytest.mark.soak) for name in list(FAMILIES)[3:])]
)
async def test_a_machine_of_each_maker_becomes_ready(family: str, site_of: Start) -> None:
    """Power is in our hand, so that the boot override and the button of each maker are used."""
    site = await site_of(family=family, power_by="provision")
    answer = await site.bringup()
    rows = (await site.provision("status", "--output", "json")).json
    assert await site.outcomes() == {NODE: "ready"}, rows
    assert answer.status == 0
    assert await site.tickets() == []
    machine = site.world.by_name(NODE)
    assert machine.installed is not None
    assert machine.installed.disk_serial == next(drive.serial for drive in machine.drives if drive.boot)
    # Commissioning and deployment: one override and one press each, and no job beside them.
    assert machine.writes["bmc:boot"] == 2, machine.writes
    presses = sum(count for name, count in machine.writes.items() if name.startswith("bmc:reset:"))
    assert presses == 2, machine.writes
    assert machine.jobs == []
    assert machine.sessions["login"] == machine.sessions["logout"]

    writes = site.writes()
    assert (await site.bringup()).status == 0
    assert site.writes() == writes, "a node that is ready got a write"


@pytest.mark.soak
async def test_the_job_that_a_bmc_makes_of_the_override_costs_a_start_and_no_repair(site_of: Start) -> None:
    """R16: said in the history, never cleared; every boot has its own."""
    site = await site_of(power_by="provision", faults=[(NODE, "bmc_sick:override_makes_job")])
    assert (await site.bringup()).status == 0
    assert await site.outcomes() == {NODE: "ready"}
    machine = site.world.by_name(NODE)
    assert [job.state for job in machine.jobs] == ["Completed", "Completed"]
    assert machine.writes["bmc:job"] == 0
    told = (await site.provision("history", NODE)).out
    assert "the BMC made a job of the override (JID_" in told
    assert "the host starts once more for it" in told
