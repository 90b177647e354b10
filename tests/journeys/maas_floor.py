"""Bring-ups up to the deployed machine, in the test's own process: real BMCs, real MAAS API, no playbooks.

Quicker than the command line, and a test may stop between the stages; everything below the command line is the real
thing: inventory, store, adapters, engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from provision.app.broken import mark_broken
from provision.app.runs import new_run
from provision.app.wiring import Wiring
from provision.engine.fleet import Fleet
from provision.model.event import Event, NodeEnded
from provision.model.node import Node
from provision.model.profile import Profile
from provision.ports import Stage
from provision.sim.run import Fleet as SimFleet
from provision.sim.run import start_fleet
from provision.stages import BRING_UP
from provision.triage.desk import desk
from provision.triage.fleet import fleet as fleet_causes
from provision.triage.judge import judge

TO_DEPLOYED = BRING_UP[:5]


class Floor:
    """A simulated fleet and runs over it."""

    def __init__(self, sim: SimFleet, state: Path) -> None:
        self.sim = sim
        self.world = sim.world
        self.region = sim.maas.region
        self._state = state
        self.events: list[Event] = []

    async def up(
        self,
        *names: str,
        stages: Sequence[Stage] = TO_DEPLOYED,
        profile: Callable[[Profile], Profile] = lambda profile: profile,
        node: Callable[[Node], Node] = lambda node: node,
        erase: bool = False,
        again: bool = False,
        erase_data: bool = False,
        watch: Callable[[Fleet, Event], None] = lambda fleet, event: None,
    ) -> Mapping[str, NodeEnded]:
        """One run as a process of its own would do it. ``erase`` raises the epochs first unless ``again``."""
        wiring = Wiring(self.sim.inventory, self._state)
        try:
            chosen = [node(one) for one in wiring.site.nodes.values() if not names or one.name in names]
            if erase and not again:
                for one in chosen:
                    await wiring.store.raise_epoch(one.name, why="test")
            self.events = []

            def emit(event: Event) -> None:
                self.events.append(event)
                watch(fleet, event)

            fleet = Fleet(
                stages=stages, journal=wiring.store, clock=wiring.clock, site=wiring.settings.site, judge=judge,
                desk=desk, fleet_causes=fleet_causes, emit=emit,
                tools_for=lambda node, goal: wiring.tools(node, replace(goal, erase_data=erase_data)),
                closing=lambda ended: mark_broken(wiring, run, chosen, ended),
            )  # fmt: skip
            run = new_run(wiring, "reimage" if erase else "bringup", "test", chosen)
            profiles = {name: profile(one) for name, one in wiring.site.profiles.items()}
            allowed = frozenset(one.name for one in chosen) if erase else frozenset[str]()
            return await fleet.run(run, chosen, profiles, may_erase=allowed)
        finally:
            await wiring.close()

    def record(self, name: str) -> Any:
        """What MAAS has of a machine."""
        return self.region.named(name)

    def said(self, kind: str) -> list[dict[str, Any]]:
        """Events of the last run, as plain data."""
        return [event.as_dict() for event in self.events if event.kind == kind]

    def writes(self, name: str) -> dict[str, int]:
        """Writes to MAAS that a machine got so far."""
        found = self.world.by_name(name).writes
        return {key.removeprefix("maas:"): count for key, count in found.items() if key.startswith("maas:")}

    def replace_boot_drive(self, name: str, serial: str) -> None:
        """A technician puts another drive in."""
        machine = self.world.by_name(name)
        for drive in machine._healthy.drives:
            if drive.boot:
                drive.serial = serial
        machine._derive()

    def swap_cards(self, one: str, other: str) -> None:
        """Two machines have each other's network cards."""
        a, b = self.world.by_name(one), self.world.by_name(other)
        for mine, theirs in zip(a._healthy.nics, b._healthy.nics, strict=True):
            mine.mac, theirs.mac = theirs.mac, mine.mac
        a._derive()
        b._derive()


def on_memory(profile: Profile) -> Profile:
    """The same, run from memory."""
    return replace(profile, image=replace(profile.image, ephemeral=True))


Open = Callable[..., Awaitable[Floor]]


@asynccontextmanager
async def floors(folder: Path) -> AsyncIterator[Open]:
    """Starts fleets that end with the block: ``here = await floor(nodes=2)``."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> Floor:
            options = {"nodes": 1, "speed": 600.0} | options
            return Floor(await stack.enter_async_context(start_fleet(folder / "sim", **options)), folder / "state")

        yield start
