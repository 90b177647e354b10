"""One journey per fault of the simulator: the ticket it must give, or that nobody goes; then the repair.

The faults strike one machine each of one fleet, which is brought up once for all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from provision.sim.run import start_fleet
from tests.journeys.conftest import Answer, Site, Start

# A busy machine takes minutes for the fleet that all tests of this file share.
pytestmark = pytest.mark.timeout(400)
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
    Must("gpu_missing:5", "needs-hands", (("gpu", "GPU", "ac_power_cycle"),)),
    Must("nic_missing", "needs-hands", (("nic", "Slot", "ac_power_cycle"),)),
    Must("riser_loose", "needs-hands", (("internal_cable", "Riser", "reseat_cable"),)),
    Must("dimm_errors:A3", "needs-hands", (("memory", "DIMM", "replace_dimm"),)),
    Must("bmc_dead", "needs-hands", (("bmc", "BMC", "reseat_cable"),)),
]
NOBODY = [
    Must("bmc_busy:120", "ready"),
    Must("clock_off:3", "ready"),
    Must("disk_order", "ready"),
    Must("deploy_fails_once", "ready"),
    Must("deploy_fails", "needs-us"),
    Must("commissioning_fails", "needs-us"),
]


Tickets = dict[str, list[tuple[str, str, str, str]]]


@dataclass
class Story:
    """What was seen at each act of the story. Tickets by node: (id, category, locator, action)."""

    nodes: dict[str, str]
    first: Answer
    tickets: Tickets
    again: Tickets
    repaired: Answer
    closed: dict[str, list[str]]
    ready_at_last: dict[str, str]
    writes_of_the_last_run: dict[str, int] = field(default_factory=dict)


def moved(run: Answer) -> Tickets:
    """Open tickets that a run moved, from its own lines. Every command costs a process, so none is asked for them."""
    found: Tickets = {}
    for line in run.lines:
        if line["event"] == "ticket-moved" and line["change"] != "verify":
            row = (line["ticket"], line["category"], line["locator"], line["action"])
            found.setdefault(line["node"], []).append(row)
    return found


def counted(site: Site) -> dict[str, int]:
    return {name: sum(machine.writes.values()) for name, machine in site.world.machines.items()}


def placed(rows: list[Must]) -> dict[str, str]:
    """Which fault strikes which machine."""
    return {must.fault: f"gpu-12-{index + 1:02}" for index, must in enumerate(rows)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    place = tmp_path_factory.mktemp("faults")
    nodes = placed(HANDS)
    faults = [(node, fault) for fault, node in nodes.items()]
    async with start_fleet(place / "sim", nodes=len(nodes), racks=1, faults=faults, speed=600) as fleet:
        site = Site(fleet, place / "state")
        first = await site.bringup()
        again = moved(await site.bringup())
        for node in nodes.values():
            site.world.repair(node, None)
        repaired = await site.bringup()
        closed: dict[str, list[str]] = {}
        for ticket in await site.tickets(everything=True):
            closed.setdefault(ticket["node"], []).append(ticket["status"])
        before = counted(site)
        last = (await site.bringup()).ended
        after = counted(site)
        writes = {name: after[name] - before[name] for name in after}
        yield Story(nodes, first, moved(first), again, repaired, closed, last, writes)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("must", HANDS, ids=lambda must: must.fault.partition(":")[0])
async def test_a_fault_in_metal_becomes_one_ticket_and_the_repair_closes_it(must: Must, story: Story) -> None:
    node = story.nodes[must.fault]
    assert story.first.status == 1
    assert story.first.ended[node] == must.outcome
    found = story.tickets.get(node, [])
    assert len(found) == len(must.tickets), found
    for (_, category, locator, action), (want_category, want_part, want_action) in zip(
        found, must.tickets, strict=True
    ):
        assert (category, action) == (want_category, want_action)
        assert want_part in locator
    assert story.again.get(node) == found, "seen again, the fault keeps its ticket"
    assert story.closed[node] == ["verified"] * len(found)
    assert story.ready_at_last[node] == "ready", story.repaired.err
    assert story.writes_of_the_last_run[node] == 0, "a node that is ready got a write"


@dataclass
class Quiet:
    """The fleet whose faults send nobody."""

    site: Site
    nodes: dict[str, str]
    outcomes: dict[str, str]
    tickets: Tickets
    writes_of_the_second_run: dict[str, int]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quiet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Quiet]:
    place = tmp_path_factory.mktemp("quiet")
    nodes = placed(NOBODY)
    faults = [(node, fault) for fault, node in nodes.items()]
    async with start_fleet(place / "sim", nodes=len(nodes), racks=1, faults=faults, speed=600) as fleet:
        site = Site(fleet, place / "state")
        first = await site.bringup()
        before = counted(site)
        await site.bringup()
        after = counted(site)
        yield Quiet(site, nodes, first.ended, moved(first), {name: after[name] - before[name] for name in after})


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("must", NOBODY, ids=lambda must: must.fault.partition(":")[0])
async def test_nobody_goes_for(must: Must, quiet: Quiet) -> None:
    node = quiet.nodes[must.fault]
    assert quiet.outcomes[node] == must.outcome
    assert quiet.tickets.get(node, []) == []
    if must.outcome == "ready":
        machine = quiet.site.world.by_name(node)
        boot = next(drive for drive in machine.drives if drive.boot)
        assert machine.installed is not None
        assert machine.installed.disk_serial == boot.serial
        assert quiet.writes_of_the_second_run[node] == 0


async def test_a_rack_without_dhcp_is_one_sentence_and_nobody_goes(site_of: Start) -> None:
    site = await site_of(nodes=3, faults=[(NODE, "no_dhcp")])
    answer = await site.bringup()
    assert answer.status == 1
    assert set(answer.ended.values()) == {"needs-us"}
    assert moved(answer) == {}
    assert any("DHCP" in line["ask"] for line in answer.lines if line["event"] == "finding-made")


async def test_a_bmc_that_stores_nothing_is_named_and_nobody_goes(site_of: Start) -> None:
    """Power is in our hand here, so the read-back after setting network boot tells on it."""
    site = await site_of(faults=[(NODE, "bmc_stores_nothing")], power_by="provision")
    answer = await site.bringup()
    assert answer.status == 1
    assert answer.ended == {NODE: "needs-us"}
    assert moved(answer) == {}
    why = next(row["why"] for row in (await site.provision("status", "--output", "json")).json)
    assert "boot" in why.lower()
    assert site.world.by_name(NODE).writes["bmc:boot"] <= 2, "what did not hold is asked for once more, no oftener"
