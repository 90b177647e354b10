"""The live display of a long run: racks × stages with counts, elapsed, ETA, the newest failures (rich, 2 Hz)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from provision.model.decision import Outcome
from provision.model.event import Event, RunEnded, RunStarted
from provision.report.board import Board
from provision.report.plain import OUTCOME_WORDS
from provision.report.text import clean, duration

_COLOURS = {
    Outcome.READY: "green",
    Outcome.NEEDS_HANDS: "red",
    Outcome.NEEDS_US: "yellow",
    Outcome.INTERRUPTED: "magenta",
}


class Screen:
    """A sink that redraws the board at most twice a second; 500 nodes need no 500 rows."""

    def __init__(self, console: Console, now: Callable[[], datetime]) -> None:
        self._now = now
        self._board = Board()
        self._live = Live(console=console, refresh_per_second=2, get_renderable=self._draw, transient=False)
        self._on = False

    def __call__(self, event: Event) -> None:
        """Take one event in; the display starts with the run and ends with it."""
        self._board(event)
        if isinstance(event, RunStarted) and not self._on:
            self._live.start()
            self._on = True
        if isinstance(event, RunEnded):
            self.close()

    def close(self) -> None:
        """Leave the last state on the screen."""
        if self._on:
            self._on = False
            self._live.stop()

    def _draw(self) -> Group:
        board, now = self._board, self._now()
        tallies = {rack: board.counts(rack) for rack in board.racks()}
        # Every stage keeps its column; what holds nobody at all (queued, interrupted) takes no room of 80 columns.
        shown = [outcome for outcome in Outcome if any(tally[outcome.value] for tally in tallies.values())]
        queued = any(tally[""] for tally in tallies.values())
        table = Table(box=SIMPLE_HEAD, expand=False, padding=(0, 1, 0, 0))
        table.add_column("rack")
        for name in (["queued"] if queued else []) + list(board.stages):
            table.add_column(name, justify="right")
        for outcome in shown:
            table.add_column(Text(OUTCOME_WORDS[outcome], style=_COLOURS[outcome]), justify="right")
        for rack, tally in tallies.items():
            cells = [Text(_count(tally[stage])) for stage in ([""] if queued else []) + list(board.stages)]
            cells += [Text(_count(tally[o.value]), style=_COLOURS[o]) for o in shown]
            table.add_row(clean(rack) or "–", *cells)
        return Group(self._head(now), table, *self._tail())

    def _head(self, now: datetime) -> Text:
        board = self._board
        elapsed = (now - board.started).total_seconds() if board.started else 0.0
        eta = None if board.ended else board.eta_s(now)
        left = (
            ""
            if board.ended
            else f"   about {duration(eta)} left"
            if eta is not None
            else "   time left: not known yet"
        )
        return Text(f"{board.verb} {clean(board.target)}   {duration(elapsed)} elapsed{left}", style="bold")

    def _tail(self) -> list[Text]:
        lines = [Text(f"{clean(text)}", style="cyan") for text in self._board.said]
        return lines + [Text(f"{node}: {clean(why, limit=160)}", style="red") for node, why in self._board.failures]


def _count(number: int) -> str:
    return str(number) if number else "·"
