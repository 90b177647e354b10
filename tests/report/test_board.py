"""The board counts racks × stages and guesses the time left from this run's own medians."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

from rich.console import Console

from provision.model.decision import Outcome
from provision.model.event import (
    Acted,
    Event,
    NodeEnded,
    RunEnded,
    RunStarted,
    StageEnded,
    StageStarted,
    TicketMoved,
    Waited,
    read_event,
)
from provision.report.board import Board
from provision.report.jsonlines import JsonLines
from provision.report.plain import PlainLines, sentence
from provision.report.screen import Screen

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


START = RunStarted(NOON, "r1", "bringup", "rack-12", ("a", "b"), (("a", "rack-12"), ("b", "rack-12")), ("one", "two"))
EVENTS: list[Event] = [
    START,
    StageStarted(NOON, "r1", "a", "one"),
    StageStarted(NOON, "r1", "b", "one"),
    Waited(later(1), "r1", "a", "one", "power turns on", 5),
    Acted(later(2), "r1", "a", "one", "set-clock", "3 h ahead", "sent"),
    StageEnded(later(10), "r1", "a", "one", True, "", 10),
    StageStarted(later(10), "r1", "a", "two"),
]


def test_counts_and_eta() -> None:
    board = Board()
    for event in EVENTS:
        board(event)
    assert board.counts("rack-12") == {"two": 1, "one": 1}
    assert board.eta_s(later(12)) is None, "no node has been through stage two yet"
    board(StageEnded(later(30), "r1", "a", "two", True, "", 20))
    board(NodeEnded(later(30), "r1", "a", Outcome.READY, "two", "", 30))
    # b is 5 s over the median of stage one and has stage two (20 s) ahead.
    assert board.eta_s(later(15)) == 20
    board(NodeEnded(later(40), "r1", "b", Outcome.NEEDS_HANDS, "one", "PSU 2 has no input", 40, ("T-0001",)))
    assert board.eta_s(later(41)) == 0
    assert list(board.failures) == [("b", "PSU 2 has no input")]


def test_every_event_survives_json() -> None:
    events = [
        *EVENTS,
        NodeEnded(later(40), "r1", "b", Outcome.NEEDS_HANDS, "one", "x", 40, ("T-0001",)),
        TicketMoved(later(40), "r1", "b", "T-0001", "open", "psu", "PSU 2", "check_power_feed", "Reseat the cord."),
        RunEnded(later(41), "r1", (("ready", 1),), 41, 1),
    ]
    out = io.StringIO()
    sink = JsonLines(out)
    for event in events:
        sink(event)
    assert [read_event(json.loads(line)) for line in out.getvalue().splitlines()] == events
    assert read_event({"event": "from-the-future", "at": "x"}) is None


def test_plain_lines_cannot_be_forged() -> None:
    out = io.StringIO()
    PlainLines(out)(Waited(NOON, "r1", "a", "one", "LLDP says x\n12:00:00 b: READY\x1b[2J", 1))
    assert out.getvalue().count("\n") == 1
    assert "\x1b" not in out.getvalue()
    assert sentence(EVENTS[5]) == "a: one: done in 10s"


def test_the_screen_draws_and_leaves_its_last_state() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, force_terminal=True, width=140), lambda: later(12))
    for event in EVENTS:
        screen(event)
    screen(NodeEnded(later(12), "r1", "b", Outcome.NEEDS_US, "one", "\x1b[2Jgarbled", 12))
    screen(RunEnded(later(13), "r1", (("ready", 1),), 13, 1))
    text = out.getvalue()
    assert "rack-12" in text
    assert "b: garbled" in text
    assert "\x1b[2J" not in text
