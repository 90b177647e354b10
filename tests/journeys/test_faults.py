"""One journey per fault of the simulator: the ticket it must give, or that nobody goes; then the repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.journeys.conftest import Start

NODE = "gpu-12-01"


@dataclass(frozen=True)
class Must:
    """What must come of a fault: outcome, and per ticket (category, part of the locator, action)."""

    fault: str
    outcome: str
    tickets: tuple[tuple[str, str, str], ...] = ()


HANDS = [
    Must("cable_unplugged", "needs-hands", (("cabling_ethernet", "Slot 35 Port 1", "reseat_cable"),)),
    Must("cable_wrong_port", "needs-hands", (("cabling_ethernet", "Slot 35 Port 1", "recable_port"),)),
    Must("psu_cord_out:2", "needs-hands", (("psu", "PSU 2", "check_power_feed"),)),
    Must("psu_failed:3", "needs-hands", (("psu", "PSU 3", "replace_psu"),)),
    Must("nvme_missing:4", "needs-hands", (("nvme", "Bay 4", "reseat_drive"),)),
    Must("nvme_failing:2", "needs-hands", (("nvme", "Bay 2", "replace_drive"),)),
    Must("pcie_width:38", "needs-hands", (("pcie_link", "Slot 38", "reseat_device"),)),
    Must("gpu_missing:5", "needs-hands", (("gpu", "GPU", "reseat_device"),)),
    Must("nic_missing", "needs-hands", (("nic", "Slot", "reseat_device"),)),
    Must("riser_loose", "needs-hands", (("internal_cable", "Riser", "reseat_cable"),)),
    Must("dimm_errors:3", "needs-hands", (("memory", "DIMM", "replace_dimm"),)),
    Must("bmc_dead", "needs-hands", (("bmc", "BMC", "reseat_cable"),)),
]
NOBODY = [
    Must("bmc_busy:120", "ready"),
    Must("clock_off:3", "ready"),
    Must("disk_order", "ready"),
    Must("deploy_fails_once", "ready"),
    Must("deploy_fails", "needs-us"),
    Must("commissioning_fails", "needs-us"),
    Must("no_dhcp", "needs-us"),
]


def brief(tickets: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(ticket["category"], ticket["locator"], ticket["action"]) for ticket in tickets]


@pytest.mark.parametrize("must", HANDS, ids=lambda must: must.fault.partition(":")[0])
async def test_a_fault_in_metal_becomes_one_ticket_and_the_repair_closes_it(must: Must, site_of: Start) -> None:
    site = await site_of(faults=[(NODE, must.fault)])
    first = await site.bringup()
    assert first.status == 1
    assert await site.outcomes() == {NODE: must.outcome}
    tickets = await site.tickets()
    found = brief(tickets)
    assert len(found) == len(must.tickets), found
    for (category, locator, action), (want_category, want_part, want_action) in zip(found, must.tickets, strict=True):
        assert (category, action) == (want_category, want_action)
        assert want_part in locator

    await site.bringup()
    assert [ticket["id"] for ticket in await site.tickets()] == [ticket["id"] for ticket in tickets]

    site.world.repair(NODE, None)
    after = await site.bringup()
    assert after.status == 0, after.err
    assert await site.tickets() == []
    assert [ticket["status"] for ticket in await site.tickets(everything=True)] == ["verified"] * len(tickets)

    writes = site.writes()
    again = await site.bringup()
    assert again.status == 0
    assert site.writes() == writes, "a node that is ready got a write"


@pytest.mark.parametrize("must", NOBODY, ids=lambda must: must.fault.partition(":")[0])
async def test_nobody_goes_for(must: Must, site_of: Start) -> None:
    site = await site_of(faults=[(NODE, must.fault)])
    answer = await site.bringup()
    assert await site.outcomes() == {NODE: must.outcome}, answer.out
    assert answer.status == (0 if must.outcome == "ready" else 1)
    assert await site.tickets() == []
    if must.outcome == "ready":
        machine = site.world.by_name(NODE)
        boot = next(drive for drive in machine.drives if drive.boot)
        assert machine.os_serial == boot.serial
        writes = site.writes()
        assert (await site.bringup()).status == 0
        assert site.writes() == writes


async def test_a_bmc_that_stores_nothing_is_named_and_nobody_goes(site_of: Start) -> None:
    """Power is in our hand here, so the read-back after setting network boot tells on it."""
    site = await site_of(faults=[(NODE, "bmc_stores_nothing")], power_by="provision")
    answer = await site.bringup()
    assert answer.status == 1
    assert await site.outcomes() == {NODE: "needs-us"}
    assert await site.tickets() == []
    why = next(row["why"] for row in (await site.provision("status", "--output", "json")).json)
    assert "boot" in why.lower()
    assert site.world.by_name(NODE).writes["bmc:boot"] == 1, "a write that did not hold is not sent again and again"
