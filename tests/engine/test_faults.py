"""What goes wrong on the way, and how each node ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provision.errors import GarbledError, RefusedError, UnavailableError
from provision.model.bmc import BootReadiness
from provision.model.decision import Decision, Outcome, Seen
from provision.model.event import Said, TicketMoved, Waited
from provision.model.evidence import PartKind, Reading
from provision.model.machine import Status
from provision.model.node import Node
from provision.model.profile import DiskRule, Goal
from provision.model.site import PowerBy, Site
from provision.model.ticket import TicketStatus
from provision.ports import Tools
from provision.stages import BRING_UP
from provision.stages.discover import Discover
from tests.engine.conftest import Bench, MakeBench
from tests.fakes import reading

ONE = "gpu-12-01"


def break_psu(lab: Bench, name: str) -> None:
    lab.world.metal[name].health["PSU 2"] = reading(name, PartKind.PSU, "PSU 2", Reading.NO_INPUT)


async def test_a_broken_part_needs_hands_and_the_others_go_on(bench: MakeBench) -> None:
    lab = bench(4)
    break_psu(lab, ONE)
    ended = await lab.up()
    assert ended[ONE].outcome is Outcome.NEEDS_HANDS
    assert ended[ONE].stage == "preflight"
    assert lab.world.written(ONE) == []
    assert [t.locator for t in await lab.journal.tickets(open_only=True)] == ["PSU 2"]
    assert ended[ONE].tickets == ("T-0001",)
    assert {end.outcome for name, end in ended.items() if name != ONE} == {Outcome.READY}


async def test_repaired_and_run_again_the_ticket_closes(bench: MakeBench) -> None:
    lab = bench(2)
    break_psu(lab, ONE)
    await lab.up()
    await lab.up()
    assert len(lab.journal.standing) == 1
    lab.world.metal[ONE].health["PSU 2"] = reading(ONE, PartKind.PSU, "PSU 2", Reading.OK)
    before = lab.world.written("gpu-12-02")
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert [t.status for t in lab.journal.standing.values()] == [TicketStatus.VERIFIED]
    assert lab.world.written("gpu-12-02") == before
    assert [e.change for e in lab.events if isinstance(e, TicketMoved)] == ["verify"]


async def test_a_silent_bmc_is_waited_for_and_then_gone_to(bench: MakeBench) -> None:
    lab = bench(2)
    metal = lab.world.metal[ONE]
    metal.bmc_error = UnavailableError("BMC 10.1.12.1", "log in", "no answer in 30 s")
    ended = await lab.up()
    assert ended[ONE].outcome is Outcome.NEEDS_HANDS
    assert "no answer in 30 s" in ended[ONE].why
    assert ended[ONE].took_s == pytest.approx(600, abs=70)
    waits = [e for e in lab.events if isinstance(e, Waited) and e.node == ONE]
    assert len(waits) == 1
    assert ended["gpu-12-02"].outcome is Outcome.READY


async def test_a_bmc_that_is_busy_for_a_while_costs_only_time(bench: MakeBench) -> None:
    lab = bench(1)
    lab.world.metal[ONE].bmc_silent_until = 200
    assert await lab.outcomes() == {ONE: Outcome.READY}


async def test_garbled_answers_are_ours_and_the_payload_is_kept(bench: MakeBench) -> None:
    lab = bench(1)
    lab.world.metal[ONE].bmc_error = GarbledError("BMC 10.1.12.1", "GET /", "not JSON", payload=b"<html>login")
    ended = (await lab.up())[ONE]
    assert ended.outcome is Outcome.NEEDS_US
    assert any("<html>login" in item.text for item in lab.journal.evidence)


async def test_refused_acts_end_the_node_with_the_peers_own_words(bench: MakeBench) -> None:
    lab = bench(1)
    await lab.up()
    metal = lab.world.metal[ONE]
    metal.machine = replace(metal.machine, status=Status.FAILED_DEPLOYMENT, locked=True)  # type: ignore[type-var]
    ended = (await lab.up())[ONE]
    assert "locked" in ended.why
    assert ended.outcome is Outcome.NEEDS_US


class Buggy(Discover):
    """A stage with a mistake of ours for one node."""

    async def observe(self, node: Node, tools: Tools):  # type: ignore[no-untyped-def]
        if node.name == ONE:
            raise ZeroDivisionError("ours")
        return await super().observe(node, tools)


async def test_our_own_bug_ends_one_node_and_leaves_a_trace(bench: MakeBench) -> None:
    lab = bench(3)
    lab.stages = (Buggy(), *BRING_UP[1:])
    ended = await lab.up()
    assert [e.outcome for e in ended.values()].count(Outcome.READY) == 2
    assert ended[ONE].outcome is Outcome.NEEDS_US
    traces = [e for e in lab.journal.events if isinstance(e, Said) and e.level == "bug"]
    assert len(traces) == 1
    assert "ZeroDivisionError: ours" in traces[0].text


class Restless(Discover):
    """A stage that is never content with what it did."""

    max_acts = 2

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        from provision.model.decision import Act
        from provision.stages.preflight import SetClock

        return Act(SetClock(), "clock is off")

    async def act(self, step: object, node: Node, tools: Tools) -> None:
        await tools.bmc.set_clock()


async def test_a_step_is_sent_no_more_often_than_allowed(bench: MakeBench) -> None:
    lab = bench(1)
    lab.stages = (Restless(),)
    ended = (await lab.up())[ONE]
    assert lab.world.written(ONE) == ["set-clock", "set-clock"]
    assert "sent 2 times" in ended.why
    lab = bench(1, site=Site(max_acts={"discover": 5}))
    lab.stages = (Restless(),)
    await lab.up()
    assert len(lab.world.writes) == 5


async def test_a_wrong_clock_is_set_before_parts_are_judged(bench: MakeBench) -> None:
    lab = bench(1)
    lab.world.metal[ONE].offset_s = -7200
    assert await lab.outcomes() == {ONE: Outcome.READY}
    assert lab.world.written(ONE)[0] == "set-clock"


async def test_lockdown_stops_a_fresh_node_and_not_a_ready_one(bench: MakeBench) -> None:
    lab = bench(1)
    locked = BootReadiness(True, True)
    lab.world.metal[ONE].readiness = locked
    ended = (await lab.up())[ONE]
    assert (ended.outcome, ended.stage) == (Outcome.NEEDS_US, "preflight")
    lab.world.metal[ONE].readiness = BootReadiness(True, False)
    await lab.up()
    lab.world.metal[ONE].readiness = locked
    assert await lab.outcomes() == {ONE: Outcome.READY}


async def test_no_dhcp_is_found_by_silence_and_retried_once(bench: MakeBench) -> None:
    lab = bench(1)
    lab.world.metal[ONE].no_dhcp = True
    ended = (await lab.up())[ONE]
    assert ended.stage == "commission"
    assert lab.world.written(ONE) == ["create", "commission", "abort", "commission"]
    (contact,) = [item for item in lab.journal.evidence if item.source == "maas/contact"]
    assert contact.part.locator == "Slot 3 Port 1"
    assert contact.values["waited_s"] == pytest.approx(1200, abs=60)
    lab.world.metal[ONE].no_dhcp = False
    assert await lab.outcomes() == {ONE: Outcome.READY}


async def test_a_bmc_that_stores_nothing_is_found_by_reading_back(bench: MakeBench) -> None:
    lab = bench(1, power_by=PowerBy.PROVISION)
    lab.world.metal[ONE].forgets_boot = True
    ended = (await lab.up())[ONE]
    assert "does not store it" in ended.why
    assert lab.world.written(ONE) == ["create", "commission", "network-boot", "network-boot"]
    assert [i.reading for i in lab.journal.evidence if i.source == "bmc/boot"] == [Reading.FAILED]


async def test_a_failed_script_is_named(bench: MakeBench) -> None:
    lab = bench(1)
    lab.world.metal[ONE].commission_fails = 1
    ended = (await lab.up())[ONE]
    assert "50-maas-01-commissioning failed with exit status 1" in ended.why
    assert "no such device" in ended.why
    assert await lab.outcomes() == {ONE: Outcome.READY}


async def test_a_deployment_that_fails_once_is_repeated_and_no_more(bench: MakeBench) -> None:
    lab = bench(1)
    lab.world.metal[ONE].deploy_fails = 1
    assert await lab.outcomes() == {ONE: Outcome.READY}
    lab = bench(1)
    lab.world.metal[ONE].deploy_fails = 9
    ended = (await lab.up())[ONE]
    assert "failed 2 times: curtin" in ended.why
    assert lab.world.written(ONE).count("deploy") == 2
    assert lab.world.status(ONE) is Status.FAILED_DEPLOYMENT


@pytest.mark.parametrize(("rule", "found"), [(DiskRule(model="PM9"), "none of 2"), (DiskRule(), "2 drives match")])
async def test_no_disk_or_two_stop_with_the_candidates(bench: MakeBench, rule: DiskRule, found: str) -> None:
    lab = bench(1)
    lab.profile = replace(lab.profile, boot_disk=rule)
    ended = (await lab.up())[ONE]
    assert found in ended.why
    assert "serial S0-0" in ended.why
    assert "set-boot-disk" not in lab.world.written(ONE)


async def test_failing_playbooks_are_repeated_and_then_named(bench: MakeBench) -> None:
    lab = bench(1)
    lab.world.metal[ONE].playbook_fails = 9
    ended = (await lab.up())[ONE]
    assert ended.stage == "configure"
    assert "'gpu : driver' failed: no such package" in ended.why
    assert lab.world.written(ONE).count("join") == 2


@pytest.mark.parametrize(("answer", "outcome"), [(False, Outcome.NEEDS_HANDS), (None, Outcome.NEEDS_US)])
async def test_no_and_unknown_are_both_not_healthy(bench: MakeBench, answer: bool | None, outcome: Outcome) -> None:
    lab = bench(1)
    lab.world.metal[ONE].checks.append(
        {"name": "ecc", "ok": answer, "why": "GPU 3", "part": {"kind": "gpu", "name": "GPU 3", "locator": "GPU 3"}}
    )
    ended = (await lab.up())[ONE]
    assert (ended.outcome, ended.stage) == (outcome, "accept")
    assert "ecc: GPU 3" in ended.why


async def test_maas_that_is_away_for_ten_minutes_is_waited_for(bench: MakeBench) -> None:
    lab = bench(2, site=Site(deadlines_s={"enlist": 3600}))
    lab.world.maas_error = UnavailableError("MAAS http://fake", "GET machines", "503")
    lab.world.later(lab.world.metal[ONE], 600, lambda: setattr(lab.world, "maas_error", None))
    assert set((await lab.outcomes()).values()) == {Outcome.READY}


async def test_a_refused_key_of_maas_is_no_wrong_password_of_bmcs(bench: MakeBench) -> None:
    lab = bench(5)
    lab.world.maas_error = RefusedError("MAAS http://fake", "GET machines", "401 invalid API key")
    ended = await lab.up()
    assert {end.stage for end in ended.values()} == {"enlist"}
    assert len(lab.world.bmc_logins) == 5


async def test_boards_swapped_between_two_nodes_stop_with_both_names(bench: MakeBench) -> None:
    lab = bench(2)
    one, two = lab.world.metal[ONE], lab.world.metal["gpu-12-02"]
    one.tag, two.tag = two.tag, one.tag
    ended = await lab.up()
    assert "TAG2, which the inventory gives to gpu-12-02" in ended[ONE].why
    assert {end.outcome for end in ended.values()} == {Outcome.NEEDS_US}
    assert lab.world.writes == []
