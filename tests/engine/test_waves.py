"""Tickets wait for the others that may share their cause, so long as the site says and no longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from provision.engine.fleet import Fleet
from provision.errors import UnavailableError
from provision.model.decision import Outcome
from provision.model.event import Event, NodeEnded
from provision.model.evidence import PartKind, Reading
from provision.model.finding import Dispatch, Finding, Verdict
from provision.model.node import Node
from provision.model.site import Site
from provision.model.ticket import TicketStatus
from tests.engine.conftest import Bench, MakeBench
from tests.fakes import reading


def one_parent(verdicts: Mapping[str, Verdict], nodes: Mapping[str, Node]) -> tuple[Finding, ...]:
    """Three supplies without input hang on one PDU."""
    bad = [(n, f) for n, verdict in sorted(verdicts.items()) for f in verdict.findings if f.part.kind is PartKind.PSU]
    if len(bad) < 3:
        return ()
    taken = tuple(f"{name}/{f.rule}/{f.part.locator}" for name, f in bad)
    part = replace(bad[0][1].part, name="pdu-1", locator="PDU pdu-1")
    return (replace(bad[0][1], rule="PDU-DARK", part=part, nodes=tuple(name for name, _ in bad), absorbed=taken),)


def psu(lab: Bench, name: str, state: Reading) -> None:
    lab.world.metal[name].health["PSU 2"] = reading(name, PartKind.PSU, "PSU 2", state)


def one_dead(bench: MakeBench, size: int, **settings: float) -> Bench:
    """The last node's BMC is silent for the ten minutes of its stage."""
    lab = bench(size, site=Site(**settings))  # type: ignore[arg-type]
    lab.world.metal[lab.nodes[-1].name].bmc_error = UnavailableError("BMC x", "log in", "no route to host")
    return lab


def took(lab: Bench, name: str) -> list[float]:
    return [event.took_s for event in lab.events if isinstance(event, NodeEnded) and event.node == name]


async def test_a_silent_bmc_delays_nobodys_ticket_by_its_ten_minutes(bench: MakeBench) -> None:
    lab = one_dead(bench, 4)
    psu(lab, "gpu-12-01", Reading.NO_INPUT)
    ended = await lab.up()
    assert {name: end.outcome for name, end in ended.items()}["gpu-12-01"] is Outcome.NEEDS_HANDS
    (early,) = took(lab, "gpu-12-01")
    assert 120 <= early < 120 + 60
    assert took(lab, "gpu-12-04")[0] >= 600


async def test_the_site_says_how_long(bench: MakeBench) -> None:
    lab = one_dead(bench, 4, tickets_after_s=400.0)
    psu(lab, "gpu-12-01", Reading.NO_INPUT)
    await lab.up()
    assert 400 <= took(lab, "gpu-12-01")[0] < 520


async def test_a_common_cause_that_turns_up_late_takes_the_tickets_over(bench: MakeBench) -> None:
    """Two supplies get a ticket each; then a third tells that it is the PDU."""
    lab = one_dead(bench, 5)
    lab.causes = one_parent
    names = [node.name for node in lab.nodes[:3]]
    for name in names:
        psu(lab, name, Reading.NO_INPUT)
    lab.world.metal[names[2]].bmc_silent_until = lab.world.clock.monotonic() + 300
    ended = await lab.up()
    own, other, shared, _ = await lab.journal.tickets()
    assert sorted((t.node, t.held_by) for t in (own, other)) == [(name, "PDU pdu-1") for name in names[:2]]
    assert (shared.rule, list(shared.nodes), shared.held_by) == ("PDU-DARK", names, "")
    assert [ended[name].tickets for name in names] == [(shared.id,)] * 3
    assert [len(took(lab, name)) for name in names] == [2, 2, 1], "told once more, with the ticket that counts"

    # The same again changes nothing; all bright: every ticket closes by its own look.
    lab.causes = one_parent
    await lab.up()
    assert [t.held_by for t in await lab.journal.tickets(open_only=True)][:2] == ["PDU pdu-1"] * 2
    assert len(await lab.journal.tickets()) == 4
    for name in names:
        psu(lab, name, Reading.OK)
    await lab.up()
    assert {t.status for t in (await lab.journal.tickets())[:3]} == {TicketStatus.VERIFIED}


async def test_what_stays_after_the_common_cause_is_released(bench: MakeBench) -> None:
    lab = one_dead(bench, 5)
    lab.causes = one_parent
    names = [node.name for node in lab.nodes[:3]]
    for name in names:
        psu(lab, name, Reading.NO_INPUT)
    lab.world.metal[names[2]].bmc_silent_until = lab.world.clock.monotonic() + 300
    await lab.up()
    for name in names[1:]:
        psu(lab, name, Reading.OK)
    await lab.up()
    (own,) = [t for t in await lab.journal.tickets() if t.node == names[0] and not t.nodes]
    assert (own.held_by, own.status) == ("", TicketStatus.OPEN)


async def test_a_change_in_common_that_turns_up_late_sends_nobody(bench: MakeBench) -> None:
    lab = one_dead(bench, 5)
    lab.causes = lambda verdicts, nodes: tuple(
        replace(cause, dispatch=Dispatch.NEVER, rule="FLEET-CHANGE") for cause in one_parent(verdicts, nodes)
    )
    names = [node.name for node in lab.nodes[:3]]
    for name in names:
        psu(lab, name, Reading.NO_INPUT)
    lab.world.metal[names[2]].bmc_silent_until = lab.world.clock.monotonic() + 300
    ended = await lab.up()
    assert {ended[name].outcome for name in names} == {Outcome.NEEDS_US}
    assert [t.held_by for t in await lab.journal.tickets()][:2] == ["PDU pdu-1"] * 2


async def test_ctrl_c_settles_nobody_twice(bench: MakeBench) -> None:
    lab = one_dead(bench, 4)
    psu(lab, "gpu-12-01", Reading.NO_INPUT)

    def stop(fleet: Fleet, event: Event) -> None:
        if isinstance(event, NodeEnded) and event.node == "gpu-12-01":
            fleet.request_stop()

    lab.watch = stop
    ended = await lab.up()
    assert ended["gpu-12-04"].outcome is Outcome.INTERRUPTED
    assert len(took(lab, "gpu-12-01")) == 1
