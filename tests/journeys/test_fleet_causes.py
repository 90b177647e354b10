"""What several machines share is one ticket, or one note to us: a PDU, cables in each other's place, a BMC update.

One fleet of three racks: rack-12 lost a PDU, two machines of rack-13 are cabled into each other's ports, and a dozen
machines (rack-14, half of rack-13) name one cable since their BMCs were updated. Whoever would be well gets a failing
drive, so that nothing is installed and the fleet costs little.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from provision.model.ticket import Ticket
from provision.sim.run import start_fleet
from provision.store.journal import open_store
from tests.journeys.conftest import Answer, Site

# A busy machine takes minutes for the fleet that all tests of this file share.
pytestmark = pytest.mark.timeout(400)
DARK = [f"gpu-12-{n:02}" for n in range(1, 9)]
SWAPPED = ["gpu-13-01", "gpu-13-02"]
UPDATED = [*(f"gpu-13-{n:02}" for n in range(5, 9)), *(f"gpu-14-{n:02}" for n in range(1, 9))]
FAULTS = [
    (DARK[0], "pdu_dead"),
    (DARK[6], "psu_failed:2"),
    (SWAPPED[0], f"cables_swapped:{SWAPPED[1]}"),
    *((name, "bmc_updated") for name in UPDATED),
    *((f"gpu-13-{n:02}", f"nvme_failing:{n}") for n in range(1, 5)),
    *((name, f"nvme_failing:{n}") for n, name in enumerate((*DARK[:6], DARK[7]))),
]


@dataclass
class Story:
    """The run over everything, one over single machines of it, and one after the repairs."""

    first: Answer
    tickets: tuple[Ticket, ...]
    remembered: list[dict[str, Any]]
    alone: Answer
    half_mended: dict[str, str]
    mended: dict[str, str]


def moves(run: Answer) -> dict[str, str]:
    """What a run did to tickets, by locator."""
    return {line["locator"]: line["change"] for line in run.lines if line["event"] == "ticket-moved"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    place = tmp_path_factory.mktemp("shared")
    async with start_fleet(place / "sim", nodes=24, racks=3, faults=FAULTS, speed=600) as fleet:
        site = Site(fleet, place / "state")
        first = await site.bringup()
        store = open_store(site.state)
        tickets, remembered = await store.tickets(), list(await store.history(UPDATED[3], limit=50))
        await store.close()
        # Somebody looks at single machines: their common cause cannot be seen from there.
        alone = await site.bringup(f"{DARK[2]}:{UPDATED[0]}")
        # Both have a link again, and one of them still in the wrong port.
        site.world.repair(SWAPPED[0], "cables_swapped")
        fault = site.world.inject(SWAPPED[1], "cable_wrong_port")
        half_mended = moves(await site.bringup("gpu-13-01:gpu-13-02"))
        site.world.by_name(SWAPPED[1]).repair(fault)
        # With a supply that is broken itself the PDU's ticket closes all the same.
        site.world.repair(DARK[0], "pdu_dead")
        mended = moves(await site.bringup("rack-12:gpu-13-01:gpu-13-02"))
        yield Story(first, tickets, remembered, alone, half_mended, mended)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_dead_pdu_is_one_ticket_that_names_it_and_the_machines(story: Story) -> None:
    (pdu,) = [t for t in story.tickets if t.action == "check_power_feed"]
    assert (pdu.locator, pdu.category, list(pdu.nodes), pdu.priority) == ("PDU pdu-12a", "psu", DARK, "P1")
    assert pdu.ask.startswith("Check pdu-12a itself")
    assert "24 supplies of gpu-12-01, gpu-12-02" in pdu.ask
    assert {story.first.ended[name] for name in DARK} == {"needs-hands"}
    told = {line["node"]: line["tickets"] for line in story.first.lines if line["event"] == "node-ended"}
    assert all(pdu.id in told[name] for name in DARK)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_supply_that_is_broken_beside_it_keeps_its_own_ticket(story: Story) -> None:
    (own,) = [t for t in story.tickets if t.locator == "PSU 2"]
    assert (own.node, own.action, own.nodes) == (DARK[6], "replace_psu", ())


@pytest.mark.asyncio(loop_scope="module")
async def test_swapped_cables_of_two_machines_are_one_ticket_naming_both_ends(story: Story) -> None:
    (swap,) = [t for t in story.tickets if t.category == "cabling_ethernet"]
    assert list(swap.nodes) == SWAPPED
    assert swap.locator == "gpu-13-01 Slot 35 Port 1 ↔ gpu-13-02 Slot 35 Port 1"
    assert swap.peer_end == "leaf-13a swp1 and leaf-13a swp2"
    for words in ("gpu-13-01 Slot 35 Port 1 belongs in leaf-13a swp1", "gpu-13-02 Slot 35 Port 1 in leaf-13a swp2"):
        assert words in swap.ask


@pytest.mark.asyncio(loop_scope="module")
async def test_an_update_that_makes_a_dozen_name_one_cable_is_one_note_with_the_change(story: Story) -> None:
    assert {story.first.ended[name] for name in UPDATED} == {"needs-us"}
    assert not [t for t in story.tickets if {t.node, *t.nodes} & set(UPDATED)]
    (note,) = [line for line in story.first.lines if line["event"] == "finding-made"]
    assert (note["rule"], note["dispatch"]) == ("FLEET-CHANGE", "never")
    assert "12 machines report PLANAR_SL1<->BP_DST_SB1 at once" in note["ask"]
    assert "These and no others run BMC firmware 7.20.30.00 (the others: 7.10.30.00)" in note["ask"]
    assert [e["ask"] for e in story.remembered if e["event"] == "finding-made"] == [note["ask"]], "each can tell it"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_machine_looked_at_alone_opens_no_second_ticket(story: Story) -> None:
    assert moves(story.alone) == dict.fromkeys(("PDU pdu-12a", "Bay 2"), "seen-again")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_change_in_common_is_not_forgotten_when_one_of_them_is_looked_at_alone(story: Story) -> None:
    assert story.alone.ended[UPDATED[0]] == "needs-us"
    (note,) = [line for line in story.alone.lines if line["event"] == "finding-made"]
    assert note["node"] == UPDATED[0]
    assert "12 machines report PLANAR_SL1<->BP_DST_SB1 at once" in note["ask"]
    assert "bring up several of them to judge it anew" in note["ask"]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_swap_closes_when_lldp_hears_the_plan_on_both_and_not_when_both_are_up(story: Story) -> None:
    swap = "gpu-13-01 Slot 35 Port 1 ↔ gpu-13-02 Slot 35 Port 1"
    assert story.half_mended[swap] == "seen-again"
    assert story.mended[swap] == "verify"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_pdu_closes_when_all_its_machines_have_input(story: Story) -> None:
    assert story.mended["PDU pdu-12a"] == "verify"
    assert story.mended["PSU 2"] == "seen-again"
