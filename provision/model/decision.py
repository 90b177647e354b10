"""What a stage decides, and how a node's run ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from provision.model.evidence import Evidence, Gap
from provision.model.finding import Finding


@dataclass(frozen=True, slots=True)
class Step:
    """One intention. Stages subclass it with the values that the act needs; ``name`` goes into the history."""

    @property
    def name(self) -> str:
        """``SetBootDisk`` is shown as ``set-boot-disk``."""
        letters = type(self).__name__
        return "".join(f"-{c.lower()}" if c.isupper() else c for c in letters).lstrip("-")


@dataclass(frozen=True, slots=True)
class Done:
    """The world is as this stage wants it. ``note`` says what was seen, for the history."""

    note: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Something goes on by itself; look again after ``pause_s`` seconds. ``operation`` as in Act."""

    why: str
    pause_s: float
    operation: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """Send ``step`` once, then look again after ``pause_s`` seconds. ``erases`` needs leave for this very node.

    ``operation`` names the long work in the machine that begins or goes on (``commissioning``, ``deployment``):
    admission counts it, and its slot is free again when a decision names none.
    """

    step: Step
    why: str
    erases: bool = False
    pause_s: float = 1.0
    operation: str = ""


@dataclass(frozen=True, slots=True)
class Stuck:
    """This stage cannot go on by itself. ``ours`` says that nobody has to go to the machine for it."""

    why: str
    ours: bool = False


Decision = Done | Wait | Act | Stuck


@dataclass(frozen=True, slots=True)
class Seen:
    """Base of what stages see. ``evidence``, ``gaps`` and ``findings`` travel on to tickets and history."""

    evidence: tuple[Evidence, ...] = field(default=(), kw_only=True)
    gaps: tuple[Gap, ...] = field(default=(), kw_only=True)
    findings: tuple[Finding, ...] = field(default=(), kw_only=True)


class Outcome(StrEnum):
    """How a run ends for one node."""

    READY = "ready"
    NEEDS_HANDS = "needs-hands"
    NEEDS_US = "needs-us"
    INTERRUPTED = "interrupted"
