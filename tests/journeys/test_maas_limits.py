"""What takes too long, too much at once or too far off: installations without an end, images, clocks, wiping, trays."""

from __future__ import annotations

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
