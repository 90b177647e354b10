"""Killed at any point and run again: the same end, every machine deployed once, nothing erased without leave."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from provision.model.decision import Outcome
from provision.model.machine import Status
from provision.model.site import PowerBy
from tests.engine.conftest import Bench, MakeBench
from tests.fakes import Killed


async def run_until_killed(lab: Bench, die_at: int, may_erase: frozenset[str] = frozenset()) -> bool:
    """One process that dies at its n-th point; False if it came to its end first."""
    lab.world.points, lab.world.die_at = 0, die_at
    try:
        await lab.up(may_erase=may_erase)
    except BaseExceptionGroup as group:
        if group.split(Killed)[1] is not None:
            raise
    except Killed:
        pass
    killed = lab.world.dead
    lab.world.revive()
    return killed


@pytest.mark.parametrize("power_by", list(PowerBy))
async def test_killed_at_every_point_of_a_bring_up(bench: MakeBench, power_by: PowerBy) -> None:
    whole = bench(1, power_by=power_by)
    await whole.up()
    for die_at in range(1, whole.world.points + 1):
        lab = bench(1, power_by=power_by)
        assert await run_until_killed(lab, die_at)
        ended = await lab.up()
        metal = lab.world.metal["gpu-12-01"]
        assert ended["gpu-12-01"].outcome is Outcome.READY, (die_at, ended)
        assert (metal.deployments, metal.erasures) == (1, 0), die_at
        assert lab.world.written("gpu-12-01").count("deploy") == 1, die_at
        assert lab.world.written("gpu-12-01").count("create") == 1, die_at


@pytest.mark.parametrize("shows_reset", [True, False])
async def test_an_installation_is_not_restarted_by_the_next_process(bench: MakeBench, shows_reset: bool) -> None:
    """With our hand on the button: a crash while MAAS installs must not press it again."""
    for die_at in range(2, 200, 5):
        lab = bench(1, power_by=PowerBy.PROVISION)
        lab.world.metal["gpu-12-01"].shows_reset = shows_reset
        if not await run_until_killed(lab, die_at):
            break
        # The process is away for six minutes: the machine has reached MAAS by then, if it was started.
        lab.world.clock.jump(300)
        await lab.up()
        metal = lab.world.metal["gpu-12-01"]
        assert metal.deployments == 1
        assert metal.presses == 2, (die_at, lab.world.written("gpu-12-01"))


async def test_a_reimage_killed_at_every_point_erases_once(bench: MakeBench) -> None:
    async def deployed() -> Bench:
        lab = bench(2)
        await lab.up()
        await lab.journal.raise_epoch("gpu-12-01", why="asked")
        return lab

    lab = await deployed()
    lab.world.points = 0
    await lab.up(may_erase=frozenset({"gpu-12-01"}))
    points = lab.world.points
    assert lab.world.metal["gpu-12-01"].erasures == 1
    for die_at in range(1, points + 1, 4):
        lab = await deployed()
        await run_until_killed(lab, die_at, frozenset({"gpu-12-01"}))
        ended = await lab.up(may_erase=frozenset({"gpu-12-01"}))
        assert {end.outcome for end in ended.values()} == {Outcome.READY}
        one, other = lab.world.metal["gpu-12-01"], lab.world.metal["gpu-12-02"]
        assert (one.erasures, one.deployments) == (1, 2), die_at
        assert (other.erasures, other.deployments) == (0, 1), die_at


async def test_twice_killed_in_one_bring_up(bench: MakeBench) -> None:
    for first in range(5, 90, 9):
        lab = bench(3)
        await run_until_killed(lab, first)
        await run_until_killed(lab, first // 2 + 7)
        ended = await lab.up()
        assert {end.outcome for end in ended.values()} == {Outcome.READY}
        assert [metal.deployments for metal in lab.world.metal.values()] == [1, 1, 1]


@pytest.mark.parametrize(
    "operation", ["create", "commission", "set-boot-disk", "set-layout", "allocate", "write-receipt", "deploy"]
)
async def test_a_write_without_answer_is_looked_for_and_not_repeated(bench: MakeBench, operation: str) -> None:
    lab = bench(1)
    lab.world.lost_answers = {operation}
    ended = await lab.up()
    assert ended["gpu-12-01"].outcome is Outcome.READY
    assert lab.world.written("gpu-12-01").count(operation) == 1
    assert [a.result for a in lab.journal.all_attempts if a.result == "unknown"] == ["unknown"]


async def test_without_leave_a_deployed_machine_of_an_older_epoch_is_left_alone(bench: MakeBench) -> None:
    lab = bench(1)
    await lab.up()
    await lab.journal.raise_epoch("gpu-12-01", why="asked")
    before = list(lab.world.writes)
    ended = (await lab.up())["gpu-12-01"]
    assert ended.outcome is Outcome.NEEDS_US
    assert "--yes-erase gpu-12-01" in ended.why
    assert lab.world.writes == before
    assert not [a for a in lab.journal.all_attempts if a.step == "release"]


async def test_a_lost_store_erases_nothing(bench: MakeBench) -> None:
    lab = bench(1)
    await lab.up()
    lab.journal.epochs.clear()
    lab.journal.all_attempts.clear()
    before = list(lab.world.writes)
    assert (await lab.outcomes()) == {"gpu-12-01": Outcome.READY}
    assert lab.world.writes == before


async def test_by_hand_deployed_is_left_alone_and_named(bench: MakeBench) -> None:
    lab = bench(1)
    await lab.up()
    metal = lab.world.metal["gpu-12-01"]
    assert metal.machine is not None
    metal.machine = replace(metal.machine, receipt=None)
    ended = (await lab.up())["gpu-12-01"]
    assert "provision adopt gpu-12-01" in ended.why
    assert lab.world.status("gpu-12-01") is Status.DEPLOYED
    with contextlib.suppress(IndexError):
        assert lab.world.writes[-1] != ("gpu-12-01", "release")
