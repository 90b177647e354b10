"""Many nodes at once: limits, breaker, Ctrl-C, shared causes, leases."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from provision.engine.fleet import Fleet
from provision.errors import MisconfiguredError, RefusedError, UnavailableError
from provision.model.decision import Outcome
from provision.model.event import Acted, Event, NodeEnded, RunEnded, Said, StageEnded
from provision.model.evidence import PartKind, Reading
from provision.model.finding import Finding, Verdict
from provision.model.machine import Status
from provision.model.node import Node
from provision.model.site import Limits, Site
from provision.model.ticket import TicketStatus
from provision.triage.fleet import fleet as triage_fleet
from tests.engine.conftest import MakeBench
from tests.fakes import reading, refused_login


async def test_limits_hold(bench: MakeBench) -> None:
    lab = bench(12, site=Site(limits=Limits(in_flight=5, deployments=2)))
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert lab.world.most[Status.COMMISSIONING] == 5
    assert lab.world.most[Status.DEPLOYING] == 2


async def test_a_power_feed_carries_only_so_many(bench: MakeBench) -> None:
    lab = bench(6, site=Site(limits=Limits(per_power_feed=3)))
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert lab.world.most[Status.COMMISSIONING] == 3


async def test_one_rack_full_does_not_keep_another_out(bench: MakeBench) -> None:
    lab = bench(6, site=Site(limits=Limits(per_rack=1)))
    other = replace(lab.nodes[5], rack="rack-13")
    ended = await lab.up(*lab.nodes[:5], other)
    assert {end.outcome for end in ended.values()} == {Outcome.READY}
    assert lab.world.most[Status.COMMISSIONING] == 2
    assert ended[other.name].took_s < min(end.took_s for name, end in ended.items() if name != other.name) + 60


async def test_a_deployment_begun_by_a_dead_run_still_counts(bench: MakeBench) -> None:
    lab = bench(3, site=Site(limits=Limits(deployments=1)))

    def stop_at_first_deploy(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Acted) and event.step == "deploy":
            fleet.request_stop()

    lab.watch = stop_at_first_deploy
    await lab.up()
    lab.watch = lambda fleet, event: None
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert lab.world.most[Status.DEPLOYING] == 1


async def test_a_wrong_password_stops_after_three(bench: MakeBench) -> None:
    lab = bench(12)
    for metal in lab.world.metal.values():
        metal.bmc_error = refused_login(metal.node)
    ended = await lab.up()
    assert len(lab.world.bmc_logins) == 3
    assert len(set(lab.world.bmc_logins)) == 3
    assert {end.outcome for end in ended.values()} == {Outcome.NEEDS_US}
    assert sum("not tried" in end.why for end in ended.values()) == 9
    said = [e.text for e in lab.events if isinstance(e, Said)]
    assert len(said) == 1
    assert "3 BMCs refused credential 'bmc'" in said[0]


async def test_one_wrong_password_is_one_nodes_trouble(bench: MakeBench) -> None:
    lab = bench(12)
    for name in ("gpu-12-02", "gpu-12-07"):
        lab.world.metal[name].bmc_error = refused_login(lab.world.metal[name].node)
    outcomes = await lab.outcomes()
    assert list(outcomes.values()).count(Outcome.READY) == 10
    assert sorted(lab.world.bmc_logins).count("gpu-12-02") == 1


async def test_three_dead_bmcs_do_not_hold_up_the_rest(bench: MakeBench) -> None:
    lab = bench(8)
    for name in ("gpu-12-01", "gpu-12-02", "gpu-12-03"):
        lab.world.metal[name].bmc_error = UnavailableError("BMC x", "log in", "no route to host")
    outcomes = await lab.outcomes()
    assert list(outcomes.values()).count(Outcome.READY) == 5


async def test_ctrl_c_ends_passes_and_says_what_goes_on(bench: MakeBench) -> None:
    lab = bench(12)
    deployed: list[str] = []

    def stop(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Acted) and event.step == "deploy":
            deployed.append(event.node)
            if len(deployed) == 12:
                fleet.request_stop()
                fleet.request_stop()

    lab.watch = stop
    outcomes = await lab.outcomes()
    assert set(outcomes.values()) == {Outcome.INTERRUPTED}
    (said,) = [e.text for e in lab.events if isinstance(e, Said)]
    assert said == "12 machines keep deploying in MAAS; the same command goes on from here"
    (end,) = [e for e in lab.events if isinstance(e, RunEnded)]
    assert end.exit_status == 130
    lab.watch = lambda fleet, event: None
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert [metal.deployments for metal in lab.world.metal.values()] == [1] * 12


@pytest.mark.parametrize("moment", range(1, 40, 4))
async def test_no_act_begins_after_ctrl_c(bench: MakeBench, moment: int) -> None:
    lab = bench(3, site=Site(limits=Limits(in_flight=2)))
    seen = 0
    writes_then = -1

    def stop(fleet: Fleet, event: Event) -> None:
        nonlocal seen, writes_then
        seen += 1
        if seen == moment:
            fleet.request_stop()
            writes_then = len(lab.world.writes)

    lab.watch = stop
    ended = await lab.up()
    assert len(lab.world.writes) == writes_then
    assert set(ended) == {node.name for node in lab.nodes}
    assert not lab.journal.open


async def test_a_hard_cancel_closes_every_session(bench: MakeBench) -> None:
    lab = bench(3)
    began = asyncio.Event()
    lab.watch = lambda fleet, event: began.set() if isinstance(event, Acted) else None
    running = asyncio.ensure_future(lab.up())
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert all(bmc.closed for bmc in lab.bmcs)
    assert lab.journal.all_runs["run-1"][1] is not None


async def test_what_three_nodes_share_is_one_ticket(bench: MakeBench) -> None:
    lab = bench(5)

    def share(verdicts: Mapping[str, Verdict], nodes: Mapping[str, Node]) -> tuple[Finding, ...]:
        bad = [(name, f) for name, verdict in verdicts.items() for f in verdict.findings]
        if len(bad) < 3:
            return ()
        taken = tuple(f"{name}/{f.rule}/{f.part.locator}" for name, f in bad)
        return (replace(bad[0][1], rule="PDU-DARK", nodes=tuple(name for name, _ in bad), absorbed=taken),)

    lab.causes = share
    dark = [node.name for node in lab.nodes[:4]]
    for name in dark:
        lab.world.metal[name].health["PSU 2"] = reading(name, PartKind.PSU, "PSU 2", Reading.NO_INPUT)
    ended = await lab.up()
    (ticket,) = await lab.journal.tickets()
    assert (ticket.rule, set(ticket.nodes)) == ("PDU-DARK", set(dark))
    assert [ended[name].tickets for name in dark] == [("T-0001",)] * 4
    assert {ended[name].outcome for name in dark} == {Outcome.NEEDS_HANDS}

    # Three of four are bright again: the shared ticket stays open; all four: it closes.
    for name in dark[:3]:
        lab.world.metal[name].health["PSU 2"] = reading(name, PartKind.PSU, "PSU 2", Reading.OK)
    await lab.up()
    assert lab.journal.standing["T-0001"].status.is_open
    lab.world.metal[dark[3]].health["PSU 2"] = reading(dark[3], PartKind.PSU, "PSU 2", Reading.OK)
    await lab.up()
    assert lab.journal.standing["T-0001"].status is TicketStatus.VERIFIED


async def test_tickets_come_when_no_other_node_can_share_the_cause(bench: MakeBench) -> None:
    """Not at the end of the run: the technician may walk while the others install."""
    lab = bench(4)
    lab.causes = triage_fleet
    lab.world.metal["gpu-12-01"].health["PSU 2"] = reading("gpu-12-01", PartKind.PSU, "PSU 2", Reading.NO_INPUT)
    await lab.up()
    ended = next(e for e in lab.events if isinstance(e, NodeEnded) and e.node == "gpu-12-01")
    installed = next(e for e in lab.events if isinstance(e, StageEnded) and e.stage == "deploy")
    assert ended.at < installed.at


async def test_two_runs_of_one_rack(bench: MakeBench) -> None:
    lab = bench(2)
    began = asyncio.Event()
    lab.watch = lambda fleet, event: began.set() if isinstance(event, Acted) else None
    first = asyncio.ensure_future(lab.up())
    await began.wait()
    with pytest.raises(RefusedError, match="run-1"):
        await lab.up()
    assert set((await first).values())


async def test_a_store_that_cannot_be_written_ends_the_run(bench: MakeBench) -> None:
    lab = bench(3)

    def break_store(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Acted) and event.step == "commission":
            lab.journal.error = MisconfiguredError("/var/lib/provision/state.db: disk full")

    lab.watch = break_store
    with pytest.raises(MisconfiguredError, match="disk full"):
        await lab.up()
    assert all(bmc.closed for bmc in lab.bmcs)
    writes = len(lab.world.writes)
    lab.journal.error = None
    lab.watch = lambda fleet, event: None
    lab.world.clock.jump(60)
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert writes < len(lab.world.writes)
    assert [metal.deployments for metal in lab.world.metal.values()] == [1, 1, 1]


async def test_the_stages_time_limits_stretch_with_the_sites_pace(bench: MakeBench) -> None:
    for pace in (0.5, 2.0):
        lab = bench(1, site=Site(pace=pace))
        lab.world.metal["gpu-12-01"].bmc_error = UnavailableError("BMC x", "log in", "no route to host")
        ended = await lab.up()
        assert ended["gpu-12-01"].took_s == pytest.approx(600 * pace, rel=0.15)
