"""A fault that goes with its part to another place: the part is what is broken, and the ticket says so."""

from __future__ import annotations

from datetime import UTC, datetime

from provision.model.ticket import Ticket
from provision.store.journal import open_store
from provision.triage.review import lemons, moved_parts
from tests.journeys.conftest import Site, Start

HERE, THERE = "gpu-12-01", "gpu-12-02"


async def stored(site: Site) -> tuple[Ticket, ...]:
    """Read here: every command costs a process."""
    store = open_store(site.state)
    tickets = await store.tickets()
    await store.close()
    return tickets


async def test_a_fault_that_moves_with_the_drive_asks_for_a_new_one(site_of: Start) -> None:
    """The cords are out for the whole story, so that nothing is installed."""
    faults = [(HERE, "nvme_failing:2"), (HERE, "psu_cord_out:1"), (THERE, "psu_cord_out:2")]
    site: Site = await site_of(nodes=2, faults=faults)
    await site.bringup()
    first = {t.locator: t for t in await stored(site)}["Bay 2"]
    serial = site.world.by_name(HERE).drives[2].serial
    assert (first.node, first.serial, first.action.value) == (HERE, serial, "replace_drive")

    # No spare at hand: somebody tries the drive in another machine.
    site.world.swap_drives((HERE, "2"), (THERE, "6"))
    await site.bringup()
    tickets = await stored(site)
    by_place = {(t.node, t.locator): t for t in tickets if t.category.value == "nvme"}
    assert by_place[HERE, "Bay 2"].status.value == "verified"
    moved = by_place[THERE, "Bay 6"]
    assert (moved.serial, moved.action.value, moved.dispatch.value) == (serial, "replace_drive", "now")
    assert moved.ask.startswith(f"Replace this part (serial {serial}): it failed in {HERE} Bay 2 before")
    assert moved.previous == (f"{first.id}#1",)

    (lemon,) = moved_parts(tickets)
    assert lemon.name == f"nvme {serial}"
    assert lemon.why == f"failed in {HERE} Bay 2 and in {THERE} Bay 6: replace the part"
    assert lemons(tickets, datetime.now(UTC)) == (), "two faults of a machine are no pattern yet"
