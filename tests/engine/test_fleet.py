"""Whole bring-ups on the in-memory world."""

from __future__ import annotations

import pytest

from provision.model.decision import Outcome
from provision.model.machine import Status
from provision.model.site import PowerBy
from tests.engine.conftest import MakeBench

READY = [
    "create", "commission", "set-boot-disk", "set-layout", "allocate", "write-receipt", "deploy", "join",
]  # fmt: skip


async def test_a_rack_comes_up(bench: MakeBench) -> None:
    lab = bench(4)
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    for node in lab.nodes:
        assert lab.world.written(node.name) == READY
        assert lab.world.status(node.name) is Status.DEPLOYED


async def test_with_our_hand_on_the_button_every_boot_gets_its_override(bench: MakeBench) -> None:
    lab = bench(2, power_by=PowerBy.PROVISION)
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    boots = ["network-boot", "press-on"]
    expected = [*READY[:2], *boots, *READY[2:7], *boots, READY[7]]
    assert lab.world.written("gpu-12-01") == expected


@pytest.mark.parametrize("power_by", list(PowerBy))
async def test_the_second_run_writes_nothing(bench: MakeBench, power_by: PowerBy) -> None:
    lab = bench(3, power_by=power_by)
    await lab.up()
    before = list(lab.world.writes)
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert lab.world.writes == before
    assert {attempt.run for attempt in lab.journal.all_attempts} == {"run-1"}
