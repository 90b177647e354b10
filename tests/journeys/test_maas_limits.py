"""What takes too long, too much at once or too far off: installations without an end, images, clocks, wiping, trays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provision.engine.fleet import Fleet
from provision.model.decision import Outcome
from provision.model.event import Event
from provision.model.machine import Status
from provision.sim.maas.state import COMMISSIONING
from provision.sim.maas.statuses import ScriptStatus
from provision.stages import BRING_UP
from tests.journeys.maas_floor import Floor, Open, floors

ONE, TWO = "gpu-12-01", "gpu-12-02"
TO_COMMISSIONED = BRING_UP[:4]


@pytest.fixture
async def floor(tmp_path: Path) -> AsyncIterator[Open]:
    """Start a fleet for this test."""
    async with floors(tmp_path) as start:
        yield start


async def test_an_installation_without_an_end_is_looked_at_repeated_once_and_triaged(floor: Open) -> None:
    """MAAS itself never gives up here; its machine hears nothing from DHCP once it is told to install."""
    here = await floor(pace=0.002)
    here.region.config["node_timeout"] = 10_000
    await here.up(stages=TO_COMMISSIONED)
    here.world.inject(ONE, "no_dhcp", "")
    ended = await here.up(ONE)
    assert ended[ONE].outcome is not Outcome.READY
    assert "without an end, 2 times" in ended[ONE].why
    assert (here.writes(ONE)["deploy"], here.writes(ONE)["abort"]) == (2, 1)
    why = [event["why"] for event in here.said("acted") if event["step"] == "abort-deployment"]
    assert len(why) == 1
    assert "longer than its own limit" in why[0]
    assert here.said("finding-made"), "triage has judged what was gathered"


async def deploying_at_once(here: Floor) -> list[int]:
    """How many machines the region had in Deploying, every few milliseconds, for as long as this is not cancelled."""
    seen: list[int] = []
    try:
        while True:
            seen.append(sum(record.status is Status.DEPLOYING for record in here.region.machines.values()))
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        return seen


async def test_few_images_at_once_a_wrong_clock_and_a_bmc_that_lists_its_tray_first(floor: Open) -> None:
    # A rack controller that sends 0.22 Gbit/s has time for two images of 4 GB within five minutes.
    limits = {"image_gbps": 0.22, "image_gb": 4}
    here = await floor(nodes=5, family=["idrac9", "openbmc"], settings={"power_by": "maas", "limits": limits})
    names = list(here.world.machines)
    late = names[4]

    def watch(fleet: Fleet, event: Event) -> None:
        told = event.as_dict()
        if (told.get("node"), told.get("step")) == (late, "commission"):
            # A clock that was right a minute ago: preflight has seen nothing.
            here.world.inject(late, "clock_off", "3")

    counting = asyncio.create_task(deploying_at_once(here))
    ended = await here.up(watch=watch)
    counting.cancel()
    counts = await counting
    assert max(counts) == 2
    assert {name for name, end in ended.items() if end.outcome is Outcome.READY} == set(names) - {late}, {
        name: end.why for name, end in ended.items()
    }
    assert "the machine's clock is wrong: 20-maas-01-install-lldpd failed" in ended[late].why
    for name in names:
        tray = here.world.by_name(name).family.tray
        assert here.record(name).power_parameters.get("node_id", "") == ("System_0" if tray else "")
    before = {name: here.writes(name) for name in names if name != late}
    here.world.repair(late, None)
    again = await here.up()
    assert {end.outcome for end in again.values()} == {Outcome.READY}, {name: end.why for name, end in again.items()}
    assert {name: here.writes(name) for name in before} == before


async def test_drives_are_wiped_by_our_own_hand_on_the_button(floor: Open) -> None:
    here = await floor(power_by="provision")
    assert (await here.up())[ONE].outcome is Outcome.READY
    machine, record = here.world.by_name(ONE), here.record(ONE)
    pressed = machine.writes.copy()
    ended = await here.up(erase=True, erase_data=True)
    assert ended[ONE].outcome is Outcome.READY, ended[ONE].why
    assert record.power_type == "manual"
    assert len([event for event in record.events if event.type == "Disks erased"]) == 1
    assert (machine.deployed_count, here.writes(ONE)["release"]) == (2, 1)
    assert machine.writes - pressed


@pytest.mark.parametrize("power_by", ["maas", pytest.param("provision", marks=pytest.mark.soak)])
async def test_what_somebody_released_to_new_in_mid_run_is_commissioned_and_deployed(
    floor: Open, power_by: str
) -> None:
    here = await floor(power_by=power_by)
    await here.up(stages=TO_COMMISSIONED)
    record = here.record(ONE)
    taken: list[str] = []

    def watch(fleet: Fleet, event: Event) -> None:
        if event.as_dict().get("step") == "allocate" and not taken:
            # A hand in the web page: the last commissioning does not count, so the release ends in New.
            taken.append(event.kind)
            for run in record.current[COMMISSIONING].runs:
                run.status = ScriptStatus.TIMED_OUT
            here.sim.maas.lifecycle.release(record, here.region.users["admin"], erase=False)

    ended = await here.up(watch=watch)
    assert taken
    assert ended[ONE].outcome is Outcome.READY, ended[ONE].why
    assert (here.writes(ONE)["commission"], here.world.by_name(ONE).deployed_count) == (2, 1)
