"""What people and remote steps do to tickets, and what many tickets say together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from provision.model.evidence import PartKind
from provision.model.finding import Action, Category, Dispatch
from provision.model.ticket import ChangeKind, Found, Ticket, TicketChange, TicketStatus, Told
from provision.report.filled import decoded, read_filled
from provision.store.journal import open_store
from provision.triage.moves import done_remotely, proposed, tell
from provision.triage.review import bad_lots, lemons, moved_parts, visits, weighed

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TICKET = Ticket(
    "T-0001", "s|a|gpu|GPU 3", TicketStatus.OPEN, "n1", Category.GPU, "gpu", PartKind.GPU, "g", "GPU 3",
    Action.AC_POWER_CYCLE, Dispatch.AFTER_REPEAT, "AC cycle.", "GPU-X", 0.8, NOW, NOW,
)  # fmt: skip


def test_people_move_a_ticket_forward_only_and_never_close_it() -> None:
    """sent → in-work → done; a step back and "verified" are complained about, and the note is kept."""
    change, complaint = tell(TICKET, Told("T-0001", TicketStatus.IN_WORK, "on my way"), NOW)
    assert change is not None
    assert (change.ticket.status, complaint) == (TicketStatus.IN_WORK, "")
    back, complaint = tell(change.ticket, Told("T-0001", TicketStatus.SENT, "again"), NOW)
    assert back is not None
    assert (back.ticket.status, back.ticket.technician_note) == (TicketStatus.IN_WORK, "on my way | again")
    assert "step back" in complaint
    closed, complaint = tell(TICKET, Told("T-0001", TicketStatus.VERIFIED), NOW)
    assert (closed, "closed by the machine" in complaint) == (None, True)
    assert tell(change.ticket, Told("T-0001", TicketStatus.IN_WORK, "on my way"), NOW) == (None, "")


def test_a_remote_step_counts_once() -> None:
    """Proposed until it is counted; hands are no remote step."""
    assert proposed(TICKET) == "ac_power_cycle"
    change = done_remotely(TICKET, Action.AC_POWER_CYCLE, NOW)
    assert change is not None
    assert proposed(change.ticket) == ""
    assert done_remotely(change.ticket, Action.AC_POWER_CYCLE, NOW) is None
    assert done_remotely(TICKET, Action.REPLACE_GPU, NOW) is None


async def test_neither_a_run_nor_a_person_loses_what_it_wrote(tmp_path: Path) -> None:
    """Both start from the same row; whoever settles second keeps what the first one wrote."""
    store = open_store(tmp_path)
    (row,) = await store.settle("r1", [TicketChange(ChangeKind.OPEN, replace(TICKET, id=""), "seen")])
    told, _ = tell(row, Told(row.id, TicketStatus.IN_WORK, "opened the lid", Found.OTHER_PART), NOW)
    step = done_remotely(row, Action.REBOOT, NOW)
    assert told is not None
    assert step is not None
    await store.settle("people", [told])
    await store.settle("operator", [step])
    (after,) = await store.settle("r2", [TicketChange(ChangeKind.SEEN_AGAIN, replace(row, confidence=0.9), "again")])
    assert (after.status, after.technician_note, after.steps_done, after.confidence) == (
        TicketStatus.IN_WORK,
        "opened the lid",
        ("reboot",),
        0.9,
    )
    late, _ = tell(row, Told(row.id, note="typed from an old list"), NOW)
    assert late is not None
    (both,) = await store.settle("people", [late])
    assert both.technician_note == "opened the lid | typed from an old list"
    assert (both.status, both.found) == (TicketStatus.IN_WORK, "other-part")
    await store.close()


def test_a_filled_list_is_read_from_any_spreadsheet_and_complaints_have_lines() -> None:
    """Semicolons, Windows letters, the mark before a formula, and what is wrong with which line."""
    raw = "Ticket ID;Status;Finding;Technician note\r\nT-1;done;NFF;'-12V gemessen, Lüfter\r\n"
    raw += ";sent;;\r\nT-2;gone;maybe;x\r\n"
    filled = read_filled(decoded(raw.encode("cp1252")))
    (_, first), (line, second) = filled.rows
    assert first == Told("T-1", TicketStatus.DONE_BY_TECHNICIAN, "-12V gemessen, Lüfter", Found.NO_FAULT)
    assert (line, second.status) == (4, None)
    assert [said.split(":")[0] for said in filled.complaints] == ["line 3", "line 4", "line 4"]
    assert read_filled("a,b\n1,2\n").complaints == ("line 1: the header has no column 'Ticket ID'",)
    assert "empty" in read_filled("").complaints[0]


def test_three_faults_in_thirty_days_are_a_lemon_and_a_moved_fault_names_its_part() -> None:
    """By node, and by serial number."""
    three = [replace(TICKET, id=f"T-{n}", dedupe_key=f"k{n}") for n in range(3)]
    assert [one.name for one in lemons(three, NOW)] == ["n1"]
    assert lemons(three, NOW + timedelta(days=31)) == ()
    assert lemons(three[:2], NOW) == ()
    here, there = replace(TICKET, serial="S1"), replace(TICKET, id="T-2", node="n2", serial="S1")
    assert [one.name for one in moved_parts([here, there])] == ["gpu S1"]
    assert moved_parts([here, replace(here, id="T-9")]) == ()


def test_a_bad_lot_has_odds_and_a_rule_that_sends_for_nothing_loses_weight() -> None:
    """Four of forty against one of four hundred; two of two visits for nothing halve a rule."""
    failed = [replace(TICKET, dedupe_key=f"a{n}", part_number="A") for n in range(4)]
    failed.append(replace(TICKET, dedupe_key="b", part_number="B"))
    (lot,) = bad_lots(failed, {"A": 40, "B": 400})
    assert (lot.model, lot.failed, lot.installed) == ("A", 4, 40)
    assert 20 < lot.odds < 50
    assert bad_lots(failed, {"A": 40}) == ()
    told = [replace(TICKET, found=Found.NO_FAULT.value), replace(TICKET, found=Found.NO_FAULT.value), TICKET]
    assert visits(told) == {"GPU-X": (2, 2)}
    assert weighed(0.8, (2, 2)) == 0.4
    assert weighed(0.8, (0, 0)) == 0.8
