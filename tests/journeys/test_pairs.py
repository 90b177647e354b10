"""Two faults of one machine at once, through the whole command: the first cause gets a ticket, what it explains none.

All pairs strike machines of one fleet, which is brought up once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from provision.sim.run import start_fleet
from tests.journeys.conftest import Site

# A busy machine takes minutes for the fleet that all tests of this file share.
pytestmark = pytest.mark.timeout(400)
RACKS, PER_RACK = 4, 8


@dataclass(frozen=True)
class Pair:
    """Two faults, and what a person would write of them: (category, printed place, action) a ticket; empty: nobody."""

    one: str
    other: str
    tickets: frozenset[tuple[str, str, str]]
    outcome: str = "needs-hands"

    def __str__(self) -> str:
        return f"{self.one}+{self.other}"


def pair(one: str, other: str, *tickets: tuple[str, str, str], outcome: str = "needs-hands") -> Pair:
    return Pair(one, other, frozenset(tickets), outcome)


def cord(number: int) -> tuple[str, str, str]:
    return ("psu", f"PSU {number}", "check_power_feed")


def supply(number: int) -> tuple[str, str, str]:
    return ("psu", f"PSU {number}", "replace_psu")


def riser(number: int) -> tuple[str, str, str]:
    return ("internal_cable", f"Riser {number}", "reseat_cable")


def missing(bay: int) -> tuple[str, str, str]:
    return ("nvme", f"Bay {bay}", "reseat_drive")


def dying(bay: int) -> tuple[str, str, str]:
    return ("nvme", f"Bay {bay}", "replace_drive")


# {n} is the machine's number in its rack, {r} the rack's.
CABLE = "leaf-{r}a swp{n} ↔ Slot 35 Port 1, cable C-{r}-{n:02}-01"
OUT = ("cabling_ethernet", CABLE, "reseat_cable")
ELSEWHERE = ("cabling_ethernet", CABLE, "recable_port")
PAIRS = [
    # Supplies are independent of each other and of everything else that one of six does not starve.
    pair("psu_failed:3", "psu_cord_out:2", supply(3), cord(2)),
    pair("psu_failed:2", "nvme_missing:4", supply(2), missing(4)),
    # Cords 1 and 3 hang on one PDU; supply 5 lives on it too, so the PDU is well.
    pair("psu_cord_out:1", "psu_cord_out:3", cord(1), cord(3)),
    pair("dimm_errors:A3", "psu_failed:1", supply(1), ("memory", "DIMM A3", "replace_dimm")),
    # A riser takes along what hangs on it, and no drive in a bay.
    pair("riser_loose:2", "nic_missing:InfiniBand.Slot.33", riser(2)),
    pair("riser_loose:1", "gpu_missing:1", riser(1)),
    pair("riser_loose:3", "pcie_width:37", riser(3)),
    pair("riser_loose:4", "nvme_missing:4", riser(4), missing(4)),
    # The BMC tells no risers of GPUs and cards: what stays away after the riser gets its own ticket then.
    pair("riser_loose:2", "gpu_missing:7", riser(2)),
    pair("riser_loose:1", "nic_missing:InfiniBand.Slot.40", riser(1)),
    # Two of four on a riser are gone: the parts, not the riser.
    pair(
        "gpu_missing:2",
        "nic_missing:InfiniBand.Slot.31",
        ("gpu", "GPU 2", "ac_power_cycle"),
        ("nic", "Slot 31", "ac_power_cycle"),
    ),
    pair(
        "gpu_missing:5", "pcie_width:38", ("gpu", "GPU 5", "ac_power_cycle"), ("pcie_link", "Slot 38", "reseat_device")
    ),
    pair(
        "pcie_width:31",
        "pcie_width:40",
        ("pcie_link", "Slot 31", "reseat_device"),
        ("pcie_link", "Slot 40", "reseat_device"),
    ),
    pair("nvme_failing:2", "nvme_missing:5", dying(2), missing(5)),
    # A cable that is out tells nothing of where it would end; a card that is gone takes its ports along.
    pair("cable_unplugged", "cable_wrong_port", OUT),
    pair("cable_unplugged", "psu_cord_out:1", OUT, cord(1)),
    pair("cable_unplugged:NIC.Slot.35-2-1", "nic_missing:NIC.Slot.35", ("nic", "Slot 35", "ac_power_cycle")),
    # No DHCP with a cable fault: the cable is seen before anybody boots.
    pair("cable_wrong_port", "no_dhcp", ELSEWHERE),
    pair("cable_unplugged", "no_dhcp", OUT),
    # Through a BMC that is dead nothing is seen; through one that is busy or sick everything, later.
    pair("bmc_dead", "psu_failed", ("bmc", "BMC port", "reseat_cable")),
    pair("bmc_busy:60", "psu_failed:4", supply(4)),
    pair("bmc_busy:120", "cable_unplugged", OUT),
    pair("bmc_sick:root_busy", "riser_loose:3", riser(3)),
    pair("bmc_sick:links_null", "psu_cord_out:5", cord(5)),
    pair("bmc_stores_nothing", "psu_cord_out:6", cord(6)),
    # What is wrong in software or settings waits for the metal, and nobody goes for it.
    pair("clock_off:7", "nvme_missing:6", missing(6)),
    pair("clock_off:7", "dimm_errors:B2", ("memory", "DIMM B2", "replace_dimm")),
    pair("pxe_disabled", "cable_unplugged", OUT),
    pair("lockdown", "psu_failed:5", supply(5)),
    pair("disk_order", "nvme_failing:3", dying(3)),
    pair("deploy_fails", "commissioning_fails", outcome="needs-us"),
    pair("deploy_fails_once", "clock_off:3", outcome="ready"),
]


@dataclass
class Seen:
    """What one run over all pairs left behind: outcomes, and open tickets by machine."""

    outcomes: dict[str, str]
    tickets: dict[str, Counter[tuple[str, str, str]]] = field(default_factory=dict)


def machine_of(number: int) -> tuple[str, int, int]:
    """Name, rack and number of the machine that the pair strikes."""
    rack, place = 12 + number // PER_RACK, number % PER_RACK + 1
    return f"gpu-{rack}-{place:02}", rack, place


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Seen]:
    place = tmp_path_factory.mktemp("pairs")
    assert len(PAIRS) == RACKS * PER_RACK
    faults = [(machine_of(n)[0], fault) for n, both in enumerate(PAIRS) for fault in (both.one, both.other)]
    async with start_fleet(place / "sim", nodes=len(PAIRS), racks=RACKS, faults=faults, speed=600) as fleet:
        site = Site(fleet, place / "state")
        story = Seen((await site.bringup()).ended)
        for ticket in await site.tickets():
            assert ticket["nodes"] == [], "these machines share nothing"
            row = (ticket["category"], ticket["locator"], ticket["action"])
            story.tickets.setdefault(ticket["node"], Counter())[row] += 1
        yield story


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("number", range(len(PAIRS)), ids=[str(both) for both in PAIRS])
async def test_the_first_cause_of_two_faults(number: int, seen: Seen) -> None:
    both, (name, rack, place) = PAIRS[number], machine_of(number)
    wanted = Counter((kind, where.format(r=rack, n=place), action) for kind, where, action in both.tickets)
    assert seen.tickets.get(name, Counter()) == wanted
    assert seen.outcomes[name] == both.outcome
