"""Plans write nothing; gathering asks everybody who still answers."""

from __future__ import annotations

from dataclasses import replace

from provision.engine.gather import gather
from provision.engine.plan import NodePlan, plan
from provision.errors import GarbledError, UnavailableError
from provision.model.evidence import PartKind, Reading
from provision.model.profile import Goal
from provision.stages import BRING_UP
from tests.engine.conftest import Bench, MakeBench
from tests.fakes import PROFILE, reading, refused_login, tools_for


async def planned(lab: Bench) -> dict[str, NodePlan]:
    before, points = list(lab.world.writes), lab.world.points
    bmcs: list = []
    plans = await plan(
        lab.nodes,
        {"h100": PROFILE},
        stages=BRING_UP,
        journal=lab.journal,
        tools_for=tools_for(lab.world, site=lab.site, bmcs=bmcs),
    )
    assert (lab.world.writes, lab.world.points) == (before, points), "a plan wrote something"
    assert all(bmc.closed for bmc in bmcs)
    return {item.node: item for item in plans}


async def test_a_plan_names_the_next_step_and_what_follows(bench: MakeBench) -> None:
    lab = bench(3)
    lab.world.metal["gpu-12-02"].health["PSU 2"] = reading("gpu-12-02", PartKind.PSU, "PSU 2", Reading.NO_INPUT)
    lab.world.metal["gpu-12-03"].bmc_error = UnavailableError("BMC 10.1.12.3", "log in", "no answer")
    plans = await planned(lab)
    first = plans["gpu-12-01"]
    assert (first.stage, first.verdict) == ("enlist", "act")
    assert first.what.startswith("create-machine: ")
    assert [line.split(":")[0] for line in first.then] == [
        "then commission",
        "then deploy",
        "then configure",
        "then accept",
    ]
    assert "BOSS" in first.then[1]
    assert (plans["gpu-12-02"].stage, plans["gpu-12-02"].verdict) == ("preflight", "stuck")
    assert (plans["gpu-12-03"].stage, plans["gpu-12-03"].verdict) == ("discover", "wait")


async def test_a_ready_node_has_nothing_to_do_and_a_reimage_says_that_it_erases(bench: MakeBench) -> None:
    lab = bench(2)
    await lab.up()
    assert {item.verdict for item in (await planned(lab)).values()} == {"ready"}
    await lab.journal.raise_epoch("gpu-12-01", why="asked")
    plans = await planned(lab)
    assert (plans["gpu-12-01"].what.split(":")[0], plans["gpu-12-01"].erases) == ("release", True)
    assert plans["gpu-12-02"].verdict == "ready"


async def test_gathering_asks_all_three_peers(bench: MakeBench) -> None:
    lab = bench(1)
    await lab.up()
    tools = tools_for(lab.world)(lab.nodes[0], Goal(PROFILE, 1))
    seen = await gather(lab.nodes[0], tools)
    sources = {item.source for item in seen.evidence}
    assert {"redfish/psus", "bmc/answer", "bmc/readiness", "clock/offset", "maas/status", "maas/events"} <= sources
    assert {"ssh/checks", "ssh/answer"} <= sources
    assert seen.gaps == ()


async def test_a_peer_that_does_not_answer_is_a_gap_and_the_others_are_asked(bench: MakeBench) -> None:
    lab = bench(1)
    await lab.up()
    metal = lab.world.metal["gpu-12-01"]
    metal.bmc_error = GarbledError("BMC 10.1.12.1", "GET Chassis", "not JSON", payload=b"<html>")
    metal.host_up_at = float("inf")
    tools = tools_for(lab.world)(lab.nodes[0], Goal(PROFILE, 1))
    seen = await gather(lab.nodes[0], tools)
    answers = {item.source: item for item in seen.evidence if item.source.endswith("/answer")}
    assert (answers["bmc/answer"].reading, answers["bmc/answer"].values["error"]) == (Reading.FAILED, "garbled")
    assert (answers["ssh/answer"].reading, answers["ssh/answer"].values["error"]) == (Reading.DOWN, "unavailable")
    assert {gap.source for gap in seen.gaps} == {"bmc", "ssh"}
    assert "maas/status" in {item.source for item in seen.evidence}


async def test_skipped_peers_are_not_asked(bench: MakeBench) -> None:
    lab = bench(1)
    lab.world.metal["gpu-12-01"].bmc_error = refused_login(lab.nodes[0])
    node = replace(lab.nodes[0])
    seen = await gather(node, tools_for(lab.world)(node, Goal(PROFILE, 1)), skip=frozenset({"bmc", "maas"}))
    assert (seen.evidence, seen.gaps, lab.world.bmc_logins) == ((), (), [])
