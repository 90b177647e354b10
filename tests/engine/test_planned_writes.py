"""A plan lists every write that a stage can send; a run by a plan sends what is in it and no more."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from dataclasses import replace
from pathlib import Path

import pytest

import provision.stages
from provision.engine.writes import WRITES, Risk, writes_from
from provision.model.decision import Outcome, Step
from provision.model.site import PowerBy, Site
from provision.stages import BRING_UP
from tests.engine.conftest import MakeBench

STAGES = tuple(stage.name for stage in BRING_UP)
ALL = Site(power_by=PowerBy.PROVISION, may_change_bios=True, may_reset_bmc=True, handover_power=True)


def steps_of_stages() -> set[str]:
    """Every step that provision.stages knows, by the name that attempts carry."""
    for module in pkgutil.iter_modules(provision.stages.__path__):
        importlib.import_module(f"provision.stages.{module.name}")
    return {step.__new__(step).name for step in Step.__subclasses__() if step.__module__.startswith("provision.stages")}


def test_every_step_that_a_stage_can_send_is_in_the_table() -> None:
    assert {write.step for write in WRITES} == steps_of_stages()
    assert {write.stage for write in WRITES} == set(STAGES)


def test_each_stage_knows_the_steps_that_the_table_gives_it() -> None:
    """The words of the stages' ``act`` methods, so that a step is not listed under the wrong stage."""
    for stage in BRING_UP:
        tree = ast.parse(Path(importlib.import_module(type(stage).__module__).__file__ or "").read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for write in WRITES:
            if write.stage == stage.name and write.step not in {"press", "set-network-boot"}:
                assert "".join(part.title() for part in write.step.split("-")) in names, write


def test_what_a_site_does_not_allow_is_in_no_plan() -> None:
    assert set(writes_from("discover", STAGES, ALL)) == set(WRITES)
    plain = set(writes_from("discover", STAGES, Site()))
    assert {write.step for write in set(WRITES) - plain} == {
        "reset-bmc", "enable-network-device", "start-for-bios", "set-network-boot", "press", "hand-over",
    }  # fmt: skip
    assert {write.stage for write in writes_from("deploy", STAGES, ALL)} == {"deploy", "configure", "accept"}
    assert not [write for write in WRITES if write.risk is Risk.INSTALL and write.stage != "deploy"]


@pytest.mark.parametrize("power_by", list(PowerBy))
async def test_a_bring_up_sends_nothing_that_its_plan_does_not_list(bench: MakeBench, power_by: PowerBy) -> None:
    lab = bench(3, site=replace(ALL, power_by=power_by), power_by=power_by)
    lab.world.metal["gpu-12-01"].offset_s = -7200
    lab.world.metal["gpu-12-02"].deploy_fails = 1
    listed = frozenset(f"{write.stage}/{write.step}" for write in writes_from("discover", STAGES, lab.site))
    lab.plan = {node.name: listed for node in lab.nodes}
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    sent = {f"{a.stage}/{a.step}" for a in lab.journal.all_attempts if a.result == "sent"}
    assert sent <= listed
    assert "preflight/set-clock" in sent


async def test_what_is_not_in_the_plan_is_not_sent(bench: MakeBench) -> None:
    lab = bench(2)
    lab.plan = {"gpu-12-01": frozenset({"enlist/create-machine"}), "gpu-12-02": frozenset()}
    ended = await lab.up()
    assert lab.world.writes == [("gpu-12-01", "create")]
    assert ended["gpu-12-01"].why.startswith("commission at commission is not in the plan")
    assert ended["gpu-12-02"].why.startswith("create-machine at enlist is not in the plan")
    assert {end.outcome for end in ended.values()} == {Outcome.NEEDS_US}
