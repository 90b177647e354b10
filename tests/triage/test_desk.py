"""The life of a ticket: opened once, kept, reopened with its history, closed only by looking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from provision.model.evidence import Evidence
from provision.model.finding import Action, Dispatch
from provision.model.ticket import ChangeKind, Ticket, TicketChange, TicketStatus
from provision.triage.desk import desk
from provision.triage.judge import judge
from tests.triage.healthy import healthy, with_reading, without
from tests.triage.makers import NODE, NOW, PROFILE, seen

LATER = NOW + timedelta(hours=2)


def moves(evidence: Sequence[Evidence], tickets: Sequence[Ticket] = (), at=NOW) -> tuple[TicketChange, ...]:  # type: ignore[no-untyped-def]
    """Judge the evidence and ask the desk."""
    verdict = judge(NODE, PROFILE, evidence, (), at)
    return desk(NODE, verdict.findings, evidence, tickets, at)


def opened(evidence: Sequence[Evidence]) -> Ticket:
    """The one ticket that this evidence opens, with an id as the store would give it."""
    (change,) = moves(evidence)
    assert change.kind is ChangeKind.OPEN
    return replace(change.ticket, id="T-0001")


def cord_out() -> list[Evidence]:
    return with_reading(healthy(), "redfish/psus", "PSU.Slot.2", "no-input")


def test_a_ticket_says_what_staff_need() -> None:
    ticket = opened(cord_out())
    assert ticket.dedupe_key == "fra1|A-1203|psu|PSU 2"
    assert (ticket.locator, ticket.action, ticket.peer_end) == ("PSU 2", Action.CHECK_POWER_FEED, "pdu-12b/3")
    assert (ticket.priority, ticket.attempt, ticket.status) == ("P3", 1, TicketStatus.OPEN)
    assert ticket.verify == "provision triage gpu-12-03: PSU 2 has input voltage"
    assert 1 <= len(ticket.evidence) <= 3


def test_the_same_evidence_again_changes_nothing() -> None:
    ticket = opened(cord_out())
    (change,) = moves(cord_out(), [ticket], LATER)
    assert change.kind is ChangeKind.SEEN_AGAIN
    assert change.ticket == ticket


def test_a_fault_that_shows_more_updates_its_ticket_without_a_second_visit() -> None:
    dark = with_reading(healthy(), "redfish/ports", "NIC.Slot.3-1-1", "down")
    ticket = opened([e for e in dark if e.source != "redfish/lldp"])
    wrong = with_reading(healthy(), "redfish/lldp", "NIC.Slot.3-1-1", "fact", port="31")
    (change,) = moves(wrong, [ticket], LATER)
    assert (change.kind, change.ticket.id, change.ticket.attempt) == (ChangeKind.SEEN_AGAIN, "T-0001", 1)
    assert change.ticket.action is Action.RECABLE_PORT


@pytest.mark.parametrize("status", [TicketStatus.DONE_BY_TECHNICIAN, TicketStatus.VERIFIED])
def test_a_repair_that_did_not_help_is_reopened_with_its_history(status: TicketStatus) -> None:
    ticket = replace(opened(cord_out()), status=status)
    (change,) = moves(cord_out(), [ticket], LATER)
    assert change.kind is ChangeKind.REOPEN
    assert (change.ticket.status, change.ticket.attempt) == (TicketStatus.REOPENED, 2)
    assert change.ticket.previous == ("T-0001#1",)
    assert change.ticket.opened_at == NOW


@pytest.mark.parametrize(
    "broken",
    [
        cord_out(),
        with_reading(healthy(), "redfish/ports", "NIC.Slot.3-1-1", "down"),
        with_reading(healthy(), "redfish/lldp", "NIC.Slot.3-1-1", "fact", port="31"),
        without(healthy(), "drive", "Disk.Bay.4"),
        without(healthy(), "gpu", "GPU.3"),
        with_reading(healthy(), "redfish/drives", "Disk.Bay.3", "failing"),
        with_reading(healthy(), "redfish/pcie", "GPU.8", "fact", width=8),
        with_reading(healthy(), "redfish/dimms", "DIMM.Socket.A2", "failed"),
        [
            *without(healthy(), "gpu", "GPU.3"),
            seen("pcie", "Riser.2", "event", "redfish/faults", locator="Riser 2", code="HWC2011"),
        ],
        [seen("bmc", "BMC", "down", "bmc/answer", locator="BMC port", values={"error": "unavailable"})],
    ],
    ids=["cord", "cable", "port", "drive-missing", "gpu-missing", "drive", "width", "dimm", "riser", "bmc"],
)
def test_a_repaired_part_closes_its_ticket_and_silence_does_not(broken: list[Evidence]) -> None:
    ticket = opened(broken)
    assert moves([], [ticket], LATER) == ()
    blind = [e for e in healthy() if not e.source.startswith(("redfish/", "bmc/"))]
    assert moves(blind, [ticket], LATER) == ()
    (change,) = moves(healthy(), [ticket], LATER)
    assert change.kind is ChangeKind.VERIFY
    assert change.ticket.status is TicketStatus.VERIFIED


def test_an_unknown_reading_closes_nothing() -> None:
    ticket = opened(cord_out())
    assert moves(with_reading(healthy(), "redfish/psus", "PSU.Slot.2", "unknown"), [ticket], LATER) == ()


def test_a_recabled_port_needs_its_neighbour_to_close() -> None:
    ticket = opened(with_reading(healthy(), "redfish/lldp", "NIC.Slot.3-1-1", "fact", port="31"))
    deaf = [e for e in healthy() if e.source != "redfish/lldp"]
    assert moves(deaf, [ticket], LATER) == ()


def test_another_part_does_not_close_it() -> None:
    ticket = opened(cord_out())
    other = [e for e in healthy() if e.part.name != "PSU.Slot.2"]
    assert [c for c in moves(other, [ticket], LATER) if c.kind is ChangeKind.VERIFY] == []


def test_the_next_step_follows_when_the_remote_one_is_done() -> None:
    ticket = opened(without(healthy(), "gpu", "GPU.3"))
    assert (ticket.action, ticket.dispatch) == (Action.AC_POWER_CYCLE, Dispatch.AFTER_REPEAT)
    cycled = replace(ticket, steps_done=("ac_power_cycle",))
    (change,) = moves(without(healthy(), "gpu", "GPU.3"), [cycled], LATER)
    assert (change.ticket.action, change.ticket.dispatch) == (Action.RESEAT_DEVICE, Dispatch.NOW)


def test_what_sends_nobody_opens_nothing() -> None:
    late = with_reading(healthy(), "clock/offset", "BMC clock", "fact", offset_s=7200.0)
    assert moves(late) == ()


def test_hostile_text_is_cleaned() -> None:
    evil = seen(
        *("dimm", "DIMM.Socket.B1", "event", "redfish/faults"),
        locator="DIMM B1",
        code="MEM0805",
        text="\x1b[31mred\u202egnp\x00\r\n=cmd|' /C calc'!A0" + "x" * 5000,
    )
    ticket = opened([*healthy(), evil])
    for text in (ticket.ask, ticket.why, *ticket.evidence):
        assert all(ord(c) >= 32 and c != "\u202e" for c in text)
        assert len(text) <= 1000
