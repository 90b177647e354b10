"""One of several processes that bring up whatever is wanted: the same fleets as a single one, a share for each."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from provision.engine.fleet import Fleet
from provision.errors import MisconfiguredError, RefusedError, UnavailableError
from provision.model.decision import Outcome
from provision.model.event import NodeEnded
from provision.model.node import Node
from provision.model.profile import Profile
from provision.model.run import Run
from provision.ports import Clock, Journal, Wanted

SWEEP_S = 2.0
# Two signs of life may be lost before others take over.
BEATS = 4

Asked = Callable[[str], Awaitable[str]]
"""Who asked a run to end; empty if nobody did."""

NewRun = Callable[[], Run]
"""A run of this process; its nodes are filled in here."""

FleetOf = Callable[[Run, Sequence[Node]], Awaitable[Fleet]]
"""The fleet of one run. MisconfiguredError: nothing can be done for these nodes, and why."""


class Worker:
    """Sweeps what is wanted and in nobody's hands, takes its share, and carries it in runs of its own.

    A run of a worker has a lease of ``lease_s``: it gives a sign of life four times as often, and every write asks for
    the lease first. One that dies, hangs or loses the store is silent for so long; then the next sweep of another
    worker takes its nodes, and whatever it still wants to write is refused.
    """

    def __init__(
        self,
        *,
        name: str,
        host: str,
        pid: int,
        book: Wanted,
        journal: Journal,
        clock: Clock,
        nodes: Mapping[str, Node],
        profiles: Mapping[str, Profile],
        new_run: NewRun,
        fleet_of: FleetOf,
        tell: Callable[[str], None],
        asked: Asked | None = None,
        most: int = 256,
        lease_s: float = 20.0,
    ) -> None:
        self._name, self._host, self._pid = name, host, pid
        self._book, self._journal, self._clock = book, journal, clock
        self._nodes, self._profiles = nodes, profiles
        self._new_run, self._fleet_of, self._tell = new_run, fleet_of, tell
        self._asked = asked
        self._most, self._lease_s = most, lease_s
        self._cancelled: dict[str, str] = {}
        self._stopping = asyncio.Event()
        self._fleets: dict[str, Fleet] = {}
        self._in_hand = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def request_stop(self) -> None:
        """Begin nothing any more; unfinished nodes go back and another worker takes them. May be called twice."""
        self._stopping.set()
        for fleet in list(self._fleets.values()):
            fleet.request_stop()

    async def serve(self, *, once: bool = False) -> None:
        """Work until asked to stop; with ``once`` until nothing is wanted any more.

        Raises:
            MisconfiguredError: the store cannot be used.
        """
        heart = asyncio.create_task(self._beat())
        try:
            while not self._stopping.is_set():
                idle = await self._sweep()
                if once and idle and not self._tasks:
                    return
                if heart.done():
                    heart.result()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), SWEEP_S)
        finally:
            self.request_stop()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)
            with suppress(UnavailableError, MisconfiguredError):
                await self._book.gone(self._name)

    async def _sweep(self) -> bool:
        """Take a share of what is free; True if nothing was to be had."""
        run = self._new_run()
        try:
            names = await self._book.claim(run.id, self._choose)
        except UnavailableError as error:
            self._tell(f"{error}; looking again in {SWEEP_S:g} s")
            return False
        if not names:
            return True
        nodes = [self._nodes[name] for name in names]
        self._in_hand += len(nodes)
        task = asyncio.create_task(self._carry(replace(run, nodes=tuple(names), lease_s=self._lease_s), nodes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return False

    def _choose(self, free: Sequence[str], wanted: int, workers: int) -> Sequence[str]:
        """An even share of all that is wanted, rack by rack: neighbours share their causes and their first one."""
        known = sorted((node for name in free if (node := self._nodes.get(name))), key=lambda n: (n.rack, n.name))
        # What is left over by an even share goes one by one to whoever sweeps next.
        share = wanted // max(workers, 1)
        room = min(self._most - self._in_hand, max(share - self._in_hand, 1))
        return [node.name for node in known[: max(room, 0)]]

    async def _carry(self, run: Run, nodes: Sequence[Node]) -> None:
        """One run over a share, to its end."""
        endings: dict[str, tuple[str, str]] = {node.name: ("", "") for node in nodes}
        try:
            fleet = await self._fleet_of(run, nodes)
            self._fleets[run.id] = fleet
            if self._stopping.is_set():
                fleet.request_stop()
            ended = await fleet.run(run, nodes, self._profiles)
            by = self._cancelled.pop(run.id, "")
            endings |= {name: _ending(end, by) for name, end in ended.items()}
        except MisconfiguredError as error:
            self._tell(f"run {run.id}: {error}")
            endings = {node.name: (Outcome.NEEDS_US.value, str(error)) for node in nodes}
        except (RefusedError, UnavailableError) as error:
            # Somebody was faster, or the store went away: whoever sweeps next takes them.
            self._tell(f"run {run.id}: {error}")
        except Exception as error:
            self._tell(traceback.format_exc())
            why = f"a bug of ours: {type(error).__name__}: {error}"
            endings = {node.name: (Outcome.NEEDS_US.value, why) for node in nodes}
        finally:
            self._fleets.pop(run.id, None)
            self._in_hand -= len(nodes)
        await self._settle(run.id, endings)

    async def _settle(self, run: str, endings: Mapping[str, tuple[str, str]]) -> None:
        """Tell how it ended. A store that is away for good leaves the nodes to others, who will find them done."""
        for _ in range(BEATS):
            try:
                await self._book.settle(run, endings)
            except UnavailableError as error:
                self._tell(str(error))
                await self._clock.sleep(self._lease_s / BEATS)
            except MisconfiguredError as error:
                self._tell(str(error))
                return
            else:
                return

    async def _beat(self) -> None:
        """Signs of life, of the worker and of its runs."""
        while True:
            with suppress(UnavailableError):
                await self._book.alive(self._name, self._host, self._pid, self._lease_s)
            for run, fleet in list(self._fleets.items()):
                # Refused before the run has begun, and after it was taken over: that the fleet learns by itself.
                with suppress(RefusedError, UnavailableError):
                    await self._journal.heartbeat(run)
                with suppress(UnavailableError):
                    await self._look_whether_to_end(run, fleet)
            await self._clock.sleep(self._lease_s / BEATS)

    async def _look_whether_to_end(self, run: str, fleet: Fleet) -> None:
        """An operator may ask a run to end; what it has not finished is then wanted no more."""
        if self._asked is not None and run not in self._cancelled and (by := await self._asked(run)):
            self._tell(f"run {run}: {by} asks this run to end")
            self._cancelled[run] = by
            fleet.request_stop()


def _ending(ended: NodeEnded, cancelled_by: str) -> tuple[str, str]:
    if ended.outcome is not Outcome.INTERRUPTED:
        return ended.outcome.value, ended.why
    # Unfinished: somebody else goes on with it, unless a person wants it no more.
    return (ended.outcome.value, f"{ended.why}; ended by {cancelled_by}") if cancelled_by else ("", "")
