"""Workers: processes on any machine that share a store and bring up what is wanted; and wanting it of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from provision.app import runs
from provision.app.runs import Sink
from provision.app.wiring import Wiring, whoami
from provision.engine.fleet import Fleet
from provision.engine.worker import Worker
from provision.errors import UnavailableError
from provision.model.decision import Outcome
from provision.model.event import Event, NodeEnded, RunEnded, RunStarted, Said, read_event
from provision.model.node import Node
from provision.model.run import Run
from provision.model.work import Want
from provision.report.text import clean
from provision.stages import BRING_UP
from provision.store.operators import operators_of
from provision.store.wanted import WantedBook, wanted_of

POLL_S = 1.0


async def serve(inventory: Path, state: Path, *, most: int, lease_s: float, once: bool) -> None:
    """Be a worker until SIGTERM or Ctrl-C; with ``once`` until nothing is wanted any more.

    Raises:
        MisconfiguredError: inventory or store cannot be used.
    """
    wiring = Wiring(inventory, state)
    try:
        _, host, pid = whoami()
        name = runs.new_run(wiring, "worker", "", ()).id
        worker = Worker(
            name=name,
            host=host,
            pid=pid,
            book=wanted_of(wiring.store),
            journal=wiring.store,
            clock=wiring.clock,
            nodes=wiring.site.nodes,
            profiles=wiring.site.profiles,
            new_run=lambda: runs.new_run(wiring, "bringup", "by worker", ()),
            fleet_of=lambda run, nodes: _fleet(wiring, run, nodes),
            tell=_tell,
            asked=operators_of(wiring.store).asked_to_end,
            most=most,
            lease_s=lease_s,
        )
        _tell(f"worker {name} of {host}, process {pid}, at store {wiring.store.name}")
        with runs.stopping(worker.request_stop):
            await worker.serve(once=once)
    finally:
        await wiring.close()


async def _fleet(wiring: Wiring, run: Run, nodes: Sequence[Node]) -> Fleet:
    await runs.check_site(wiring, nodes)
    for node in nodes:
        wiring.credential(node)
    _tell(f"run {run.id}: {len(nodes)} nodes, {nodes[0].name} to {nodes[-1].name}")
    return runs.fleet_of(wiring, run, nodes, _show)


def _show(event: Event) -> None:
    if isinstance(event, NodeEnded):
        _tell(f"{event.node}: {event.outcome.value} at {event.stage}: {event.why}")
    elif isinstance(event, Said):
        _tell(event.text)


def _tell(text: str) -> None:
    from sys import stderr

    stderr.write(clean(text) + "\n")
    stderr.flush()


async def by_workers(
    wiring: Wiring, nodes: Sequence[Node], target: str, sinks: Sequence[Sink], say: Callable[[str], None]
) -> tuple[int, dict[str, Outcome]] | None:
    """Want the nodes of the site's workers and watch them; None if there is no worker.

    Ctrl-C ends the watching; the workers go on.
    """
    book = wanted_of(wiring.store)
    there = await book.workers()
    if not there:
        return None
    await runs.check_site(wiring, nodes)
    user, host, _ = whoami()
    names = [node.name for node in nodes]
    fresh = await book.ask(names, target, f"{user}@{host}")
    hosts = ", ".join(sorted({worker.host for worker in there}))
    say(f"{len(there)} worker(s) on {hosts} bring them up: this only watches (Ctrl-C ends the watching)")
    if len(fresh) < len(names):
        say(f"{len(names) - len(fresh)} of {len(names)} were wanted already")
    try:
        wants = await _Watch(wiring, nodes, target, sinks, say).until_done()
    finally:
        for sink in sinks:
            sink.close()
    outcomes = {name: Outcome(want.outcome) for name, want in wants.items()}
    return runs.exit_status(outcomes), outcomes


class _Watch:
    """Shows what the runs of all workers tell of these nodes, as if it were one run."""

    def __init__(
        self, wiring: Wiring, nodes: Sequence[Node], target: str, sinks: Sequence[Sink], say: Callable[[str], None]
    ) -> None:
        self._wiring = wiring
        self._nodes = {node.name: node for node in nodes}
        self._target = target
        self._sinks = sinks
        self._say = say
        self._seen: dict[str, int] = {}
        self._alone = False

    async def until_done(self) -> Mapping[str, Want]:
        """What became of each."""
        book, clock, names = wanted_of(self._wiring.store), self._wiring.clock, tuple(self._nodes)
        began, run = clock.monotonic(), runs.new_run(self._wiring, "bringup", self._target, ()).id
        racks = tuple((node.name, node.rack) for node in self._nodes.values())
        stages = tuple(stage.name for stage in BRING_UP)
        self._emit(RunStarted(clock.now(), run, "bringup", self._target, names, racks, stages))
        while not (wants := await self._look(book, names)):
            await clock.sleep(POLL_S)
        counts = Counter(want.outcome for want in wants.values())
        status = runs.exit_status({name: Outcome(want.outcome) for name, want in wants.items()})
        self._emit(RunEnded(clock.now(), run, tuple(sorted(counts.items())), clock.monotonic() - began, status))
        return wants

    async def _look(self, book: WantedBook, names: Sequence[str]) -> Mapping[str, Want] | None:
        """What became of each, once it is over for all; a store that is away is waited for."""
        try:
            wants = await book.standing(names)
            # Looked at after the wishes: what ended has told everything by then.
            await self._tell(wants)
            if all(want.outcome for want in wants.values()):
                return wants
            await self._look_for_workers(len(await book.workers()))
        except UnavailableError as error:
            self._say(f"{error}; the workers wait for it, and so does this")
        return None

    async def _tell(self, wants: Mapping[str, Want]) -> None:
        for want in wants.values():
            if want.run:
                self._seen.setdefault(want.run, 0)
        for run in self._seen:
            self._seen[run], rows = await operators_of(self._wiring.store).events(run, after=self._seen[run])
            for event in filter(None, map(read_event, rows)):
                theirs = getattr(event, "node", None)
                if isinstance(event, RunStarted | RunEnded) or (theirs and theirs not in self._nodes):
                    continue
                # A worker that stopped or lost its lease: somebody else goes on with the node.
                if isinstance(event, NodeEnded) and event.outcome is Outcome.INTERRUPTED:
                    continue
                self._emit(event)

    async def _look_for_workers(self, alive: int) -> None:
        if not alive and not self._alone:
            self._say("no worker is alive any more; it goes on as soon as one is started: provision worker")
        self._alone = not alive

    def _emit(self, event: Event) -> None:
        for sink in self._sinks:
            sink(event)
