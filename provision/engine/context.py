"""What the nodes of one run share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from provision.engine.admission import Admission
from provision.model.event import Event
from provision.model.run import NodeState, Run
from provision.model.site import Site
from provision.ports import Clock, Journal


@dataclass
class Context:
    """One run: who may write, where its history goes, whether it is asked to stop.

    ``plan`` are the only acts that may be sent to each node, as ``stage/step``; None: whatever the stages decide.
    """

    run: Run
    journal: Journal
    clock: Clock
    site: Site
    admission: Admission
    emit: Callable[[Event], None]
    stopping: bool = False
    plan: Mapping[str, frozenset[str]] | None = None
    tickets: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def now(self) -> datetime:
        """UTC."""
        return self.clock.now()

    async def record(self, event: Event) -> None:
        """History first, then the screen: what is shown was written down."""
        await self.journal.record(event)
        self.emit(event)

    async def stands(self, state: NodeState) -> None:
        """Where a node is, for ``provision status``."""
        await self.journal.set_state(state)
