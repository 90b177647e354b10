"""What a screen needs to know of a run, gathered from its events: racks × stages, medians, the newest failures."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from provision.model.decision import Outcome
from provision.model.event import (
    Event,
    NodeEnded,
    RunEnded,
    RunStarted,
    Said,
    StageEnded,
    StageStarted,
    Waited,
)


@dataclass
class _Line:
    stage: str = ""
    since: datetime | None = None
    why: str = ""
    outcome: Outcome | None = None


class Board:
    """Fold events into counts. No time is read here: ``now`` comes from the caller."""

    def __init__(self, *, failures: int = 6) -> None:
        self.verb = ""
        self.target = ""
        self.started: datetime | None = None
        self.stages: tuple[str, ...] = ()
        self.failures: deque[tuple[str, str]] = deque(maxlen=failures)
        self.said: deque[str] = deque(maxlen=3)
        self.ended: RunEnded | None = None
        self._racks: dict[str, str] = {}
        self._lines: dict[str, _Line] = {}
        self._took: dict[str, list[float]] = {}

    def __call__(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case RunStarted():
                self.verb, self.target, self.started = event.verb, event.target, event.at
                self.stages = event.stages
                self._racks = dict(event.racks)
                self._lines = {node: _Line() for node in event.nodes}
            case StageStarted():
                line = self._line(event.node)
                line.stage, line.since, line.why = event.stage, event.at, ""
            case Waited():
                self._line(event.node).why = event.why
            case StageEnded(done=True):
                self._took.setdefault(event.stage, []).append(event.took_s)
            case NodeEnded():
                line = self._line(event.node)
                line.outcome, line.why = event.outcome, event.why
                if event.outcome is not Outcome.READY:
                    self.failures.append((event.node, event.why))
            case Said():
                self.said.append(event.text)
            case RunEnded():
                self.ended = event
            case _:
                pass

    def _line(self, node: str) -> _Line:
        return self._lines.setdefault(node, _Line())

    def racks(self) -> list[str]:
        """Racks in order."""
        return sorted({self._racks.get(node, "") for node in self._lines})

    def counts(self, rack: str) -> Counter[str]:
        """How many nodes of a rack stand in each stage or outcome; ``waiting to start`` under the empty name."""
        tally: Counter[str] = Counter()
        for node, line in self._lines.items():
            if self._racks.get(node, "") == rack:
                tally[line.outcome.value if line.outcome else line.stage] += 1
        return tally

    def eta_s(self, now: datetime) -> float | None:
        """Seconds until the slowest unfinished node is through, by this run's stage medians.

        None as long as a stage that is still ahead of somebody has no median in this run.
        """
        medians = {stage: median(times) for stage, times in self._took.items()}
        worst = 0.0
        for line in self._lines.values():
            if line.outcome is not None:
                continue
            ahead = self.stages[self.stages.index(line.stage) :] if line.stage in self.stages else self.stages
            if any(stage not in medians for stage in ahead):
                return None
            spent = (now - line.since).total_seconds() if line.since and line.stage in self.stages else 0.0
            first = max(0.0, medians[ahead[0]] - spent) if ahead else 0.0
            worst = max(worst, first + sum(medians[stage] for stage in ahead[1:]))
        return worst
