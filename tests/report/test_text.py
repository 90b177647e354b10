"""Hostile text is harmless on a terminal and in a spreadsheet."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.model.evidence import PartKind
from provision.model.finding import Action, Category, Dispatch
from provision.model.node import Node
from provision.model.ticket import Ticket, TicketStatus
from provision.report.text import cell, clean, duration
from provision.report.tickets import COLUMNS, rows, to_csv, to_json

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def ticket(number: int, node: str, **changes: object) -> Ticket:
    values: dict[str, object] = {
        "id": f"T-{number:04}",
        "dedupe_key": f"dc1|{node}|psu|PSU 2",
        "status": TicketStatus.OPEN,
        "node": node,
        "category": Category.PSU,
        "component": "power_feed",
        "part_kind": PartKind.PSU,
        "part_name": "PSU.Slot.2",
        "locator": "PSU 2",
        "action": Action.CHECK_POWER_FEED,
        "dispatch": Dispatch.NOW,
        "ask": "Reseat the power cord of PSU 2 at both ends.",
        "rule": "PSU-NO-INPUT",
        "confidence": 0.9,
        "opened_at": NOON,
        "updated_at": NOON,
    }
    return Ticket(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("one\r\ntwo", "one ⏎ two"),
        ("a\u202eb\u2066c\u200b", "abc"),
        ("nul\x00bel\x07", "nulbel"),
        ("plain ↔ text", "plain ↔ text"),
    ],
)
def test_clean(raw: str, want: str) -> None:
    assert clean(raw) == want


@pytest.mark.parametrize(
    "raw", ["=1+1", "+1", "-12V", "@x", "  =cmd|'/c calc'!A0", "\t=1", "＝1", "\r\n=1", "\u200b=1"]
)
def test_a_formula_gets_its_apostrophe(raw: str) -> None:
    assert cell(raw).startswith("'")


@given(st.text())
def test_no_cell_is_ever_a_formula_or_a_control(raw: str) -> None:
    """Whatever a peer says, the first visible character is no formula's and no character is a control."""
    done = cell(raw)
    assert not done.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in done)


def test_duration() -> None:
    assert [duration(s) for s in (0, 59.9, 61, 3720, 90000)] == ["0s", "59s", "1m 01s", "1h 02m", "1d 01h"]


def test_csv_is_sorted_as_one_walks_and_reads_back() -> None:
    nodes = {
        name: Node(name, "h100", "10.0.0.1", rack, unit=unit, site="dc1", room="r1", service_tag=f"TAG{name}")
        for name, rack, unit in (("b", "rack-12", 3), ("a", "rack-12", 1), ("c", "rack-2", 9))
    }
    listed = [ticket(1, "b", evidence=("=HYPERLINK()", 'says "no", twice')), ticket(2, "a"), ticket(3, "c")]
    text = to_csv(rows(listed, nodes, {}))
    assert text.startswith("\ufeff")
    assert "\r\n" in text
    read = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"))))
    assert tuple(read[0]) == COLUMNS
    assert [row["Hostname"] for row in read] == ["c", "a", "b"]
    assert read[2]["Evidence"] == '\'=HYPERLINK() | says "no", twice'
    assert read[2]["Service tag"] == "TAGb"
    assert '"hostname": "c"' in to_json(rows(listed, nodes, {}))


def test_a_ticket_of_a_node_that_left_the_inventory_is_not_lost() -> None:
    read = rows([ticket(7, "gone")], {}, {})
    assert read[0]["Hostname"] == "gone"
    assert read[0]["Rack"] == ""
