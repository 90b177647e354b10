"""One plain line per event, for logs and for terminals that are none."""

from __future__ import annotations

from typing import TextIO

from provision.model.decision import Outcome
from provision.model.event import (
    Acted,
    Event,
    FindingMade,
    NodeEnded,
    RunEnded,
    RunStarted,
    Said,
    StageEnded,
    StageStarted,
    TicketMoved,
    Waited,
)
from provision.report.text import clean, duration

OUTCOME_WORDS = {
    Outcome.READY: "ready",
    Outcome.NEEDS_HANDS: "needs hands",
    Outcome.NEEDS_US: "needs us",
    Outcome.INTERRUPTED: "interrupted",
}


def sentence(event: Event) -> str | None:
    """The event in words; None for what is noise in a log (a stage that begins)."""
    match event:
        case RunStarted():
            return f"{event.verb} {event.target}: {len(event.nodes)} node(s), run {event.run}"
        case StageStarted():
            return None
        case Waited():
            return f"{event.node}: {event.stage}: waiting, {event.why}"
        case Acted():
            tail = "" if event.result == "sent" else f" ({event.result}: {event.detail})"
            return f"{event.node}: {event.stage}: {event.step}, {event.why}{tail}"
        case StageEnded(done=True):
            return f"{event.node}: {event.stage}: done in {duration(event.took_s)}" + (
                f", {event.why}" if event.why else ""
            )
        case StageEnded():
            return f"{event.node}: {event.stage}: stuck, {event.why}"
        case NodeEnded():
            tickets = f" [{', '.join(event.tickets)}]" if event.tickets else ""
            words = OUTCOME_WORDS[event.outcome]
            return f"{event.node}: {words.upper()} after {duration(event.took_s)}: {event.why}{tickets}"
        case TicketMoved():
            return f"{event.node}: ticket {event.ticket} {event.change}: {event.locator}: {event.ask}"
        case FindingMade():
            return f"{event.node}: found {event.category} at {event.locator}, nobody goes: {event.ask}"
        case Said():
            return f"{event.node}: {event.text}" if event.node else event.text
        case RunEnded():
            counts = ", ".join(f"{number} {name}" for name, number in event.counts) or "no nodes"
            return f"{counts}; took {duration(event.took_s)}"
        case _:
            return None


class PlainLines:
    """A sink that writes ``HH:MM:SS sentence`` for each event."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, event: Event) -> None:
        """Write the event's line, if it has one."""
        text = sentence(event)
        if text is not None:
            self._out.write(f"{event.at:%H:%M:%S} {clean(text)}\n")
            self._out.flush()

    def close(self) -> None:
        """Nothing is held."""
