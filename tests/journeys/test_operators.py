"""Several operators at one rack: attaching, refusing, taking over, ending, resuming; plans; who holds what."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.conftest import DEADLINE_S, Site, Start, kill

pytestmark = pytest.mark.timeout(300)
ONE, TWO, THREE = "gpu-12-01", "gpu-12-02", "gpu-12-03"


async def begin(site: Site, *argv: str) -> tuple[asyncio.subprocess.Process, str, asyncio.Task[bytes]]:
    """Start a run that is held up by a busy BMC; its process, its id, and its further output."""
    process = await site.start(*argv, "--output", "json")
    assert process.stdout is not None
    assert process.stderr is not None
    line = await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
    assert line, (await process.stderr.read()).decode()
    run = json.loads(line)["run"]
    return process, run, asyncio.create_task(process.stdout.read())


def hold_up(site: Site, name: str) -> None:
    """A BMC that is busy until it is repaired, and a run that waits so long."""
    settings = site.fleet.inventory / "group_vars" / "all" / "provision.yml"
    text = settings.read_text()
    if "stages:" not in text:
        settings.write_text(text.replace("provision:\n", "provision:\n  stages: {discover: {deadline_s: 100000}}\n", 1))
    site.world.inject(name, "bmc_busy", "100000")


def events(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw.decode().splitlines()]


async def test_two_want_the_same_and_a_third_something_else(site_of: Start) -> None:
    site: Site = await site_of(nodes=2)
    hold_up(site, ONE)
    first, run, reading = await begin(site, "bringup", "rack-12")
    try:
        # Something else: refused by name, and no wish is raised for it.
        third = await site.provision("reimage", ONE, "--yes-erase", ONE)
        assert third.status == 2
        for word in (f"{ONE} is held by bringup rack-12 of ", f"process {first.pid}", run, "--take-over"):
            assert word in third.err
        # The same goal: attached, and the second terminal tells the same story.
        second, watched_run, watching = await begin(site, "bringup", TWO)
        assert watched_run == run
        (row,) = [r for r in (await site.provision("runs", "--output", "json")).json if r["run"] == run]
        assert (row["status"], row["verb"], row["target"], row["nodes"]) == ("running", "bringup", "rack-12", 2)
        assert "@" in row["who"]
        site.world.repair(ONE)
        assert second.stderr is not None
        err = (await asyncio.wait_for(second.stderr.read(), DEADLINE_S)).decode()
        assert f"run {run} of " in err
        assert "only watches it" in err
        assert (await first.wait(), await second.wait()) == (0, 0)
        assert events(await watching) == events(await reading), "both saw the same"
    finally:
        kill(first)
        await first.wait()
    again = await site.provision("watch", run)
    assert again.status == 0
    assert f"{TWO}: READY" in again.err
    assert {machine.deployed_count for machine in site.world.machines.values()} == {1}
    # Who, when, from where: in the node's history and in the list of commands.
    history = (await site.provision("history", ONE, "--output", "json")).json
    assert history[0]["text"].startswith("bringup rack-12 by ")
    assert "@" in history[0]["text"]
    typed = [row["command"] for row in (await site.provision("runs", "--commands", "--output", "json")).json]
    assert typed == [f"bringup {TWO}", f"reimage {ONE} --yes-erase {ONE}", "bringup rack-12"]


@pytest.mark.soak
async def test_ending_a_run_from_elsewhere_and_taking_over_one_that_hangs(site_of: Start) -> None:
    site: Site = await site_of(nodes=1)
    hold_up(site, ONE)
    first, run, reading = await begin(site, "bringup", "rack-12")
    said = await site.provision("cancel", run)
    assert f"run {run} of " in said.err
    assert "has ended" in said.err
    assert await first.wait() == 130
    assert any("asks this run to end" in line.get("text", "") for line in events(await reading))
    nothing = await site.provision("cancel", run)
    assert (nothing.status, "is not at work any more" in nothing.err) == (2, True)
    assert "there is no run nope" in (await site.provision("watch", "nope")).err

    # One that hangs does not answer: it is taken out of its hands, and writes nothing when it wakes.
    second, run, reading = await begin(site, "bringup", "rack-12")
    os.kill(second.pid, signal.SIGSTOP)
    try:
        refused = await site.provision("power", "cycle", ONE)
        assert run in refused.err
        site.world.repair(ONE)
        third = await site.provision("bringup", "rack-12", "--take-over", "--output", "json")
        assert third.status == 0
        assert f"run {run} of " in third.err
        writes = site.writes()
    finally:
        os.kill(second.pid, signal.SIGCONT)
    assert await asyncio.wait_for(second.wait(), DEADLINE_S) == 130
    assert any("taken over" in line.get("text", "") for line in events(await reading))
    assert site.writes() == writes, "what woke up wrote nothing"
    assert [r["status"] for r in (await site.provision("runs", "--output", "json")).json] == [
        "exit 0",
        "taken over",
        "exit 130",
    ]


async def test_a_plan_is_carried_out_and_no_more_and_refused_when_outrun(site_of: Start, tmp_path: Path) -> None:
    site: Site = await site_of(nodes=2)
    file = tmp_path / "plan.json"
    planned = await site.provision("plan", "rack-12", "--out", str(file), "--output", "json")
    assert planned.status == 1
    assert site.writes() == 0
    plan = json.loads(file.read_text())
    assert planned.json == plan
    (first,) = [w for w in plan["nodes"][0]["writes"] if w["next"]]
    assert (first["stage"], first["step"], first["risk"]) == ("enlist", "create-machine", "record")
    assert any(w["risk"] == "install" for w in plan["nodes"][0]["writes"])

    done = await site.provision("bringup", "--plan", str(file), "--output", "json")
    assert done.status == 0
    listed = {f"{w['stage']}/{w['step']}" for w in plan["nodes"][0]["writes"]}
    assert {f"{line['stage']}/{line['step']}" for line in done.lines if line["event"] == "acted"} <= listed
    writes = site.writes()
    outrun = await site.provision("bringup", "--plan", str(file))
    assert outrun.status == 2
    assert f"{ONE}: the plan says create-machine at enlist, at this moment it is ready" in outrun.err
    assert site.writes() == writes


@pytest.mark.soak
async def test_limits_tell_who_holds_what_and_a_stopped_rack_goes_on_by_resume(site_of: Start) -> None:
    site: Site = await site_of(nodes=3, speed=60.0)
    settings = site.fleet.inventory / "group_vars" / "all" / "provision.yml"
    text = settings.read_text()
    assert "provision:" in text
    settings.write_text(
        text.replace("provision:\n", "provision:\n  breaker: {max_fail: 1}\n  limits: {in_flight: 2}\n", 1)
    )
    for name in (ONE, TWO, THREE):
        site.world.inject(name, "commissioning_fails")
    first = await site.start("bringup", "rack-12", "--output", "json")
    assert first.stdout is not None
    seen: list[dict[str, Any]] = []

    async def until(event: str, word: str) -> None:
        assert first.stdout is not None
        while line := await asyncio.wait_for(first.stdout.readline(), DEADLINE_S):
            seen.append(json.loads(line))
            if seen[-1]["event"] == event and word in json.dumps(seen[-1]):
                return
        raise AssertionError(f"the run ended before {word!r}: {seen[-3:]}")

    try:
        await until("acted", '"commission"')
        found = (await site.provision("limits", "--output", "json")).json
        held = [slot for slot in found["slots"] if slot["operation"] == "commissioning"]
        assert held
        assert all(slot["run_is_live"] and slot["run"] == seen[0]["run"] and "@" in slot["who"] for slot in held)
        assert {row["limit"]: row["of"] for row in found["limits"]}["in flight"] == 2
        await until("said", "is stopped")
        table = await site.provision("limits")
        assert "is stopped since" in table.err
        for name in (ONE, TWO, THREE):
            site.world.repair(name)
        wrong = await site.provision("resume", "rack-99")
        assert (wrong.status, "rack-99 is not stopped; what is stopped: rack rack-12" in wrong.err) == (2, True)
        assert (await site.provision("resume", "rack-12")).status == 0
        await until("run-ended", "")
    finally:
        kill(first)
        await first.wait()
    outcomes = [line["outcome"] for line in seen if line["event"] == "node-ended"]
    assert sorted(outcomes)[-1] == "ready", "who waited went on"
    assert (await site.provision("limits", "--output", "json")).json["slots"] == []
