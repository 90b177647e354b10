"""Evidence from every probe that still answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from provision.engine.answers import answer_evidence, answer_gap, well
from provision.errors import PeerError
from provision.model.evidence import Evidence, Gap, Part, PartKind, Reading
from provision.model.machine import Machine, Status
from provision.model.node import Address, Node
from provision.ports import Tools
from provision.stages.accept import run_checks
from provision.stages.lookup import address_of, events_evidence, find_machine, results_evidence, status_evidence


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the probes said, and which of them could not say."""

    evidence: tuple[Evidence, ...]
    gaps: tuple[Gap, ...] = ()


@dataclass
class _Notebook:
    """Collects what each probe says; a probe that raises leaves a gap and no hole."""

    node: Node
    tools: Tools
    evidence: list[Evidence] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    async def ask(self, probe: Callable[[], Awaitable[None]]) -> bool:
        try:
            await probe()
        except PeerError as error:
            self.gaps.append(answer_gap(error))
            self.evidence.extend(answer_evidence(self.node.name, error, self.tools.clock.now()))
            return False
        return True


async def gather(node: Node, tools: Tools, *, skip: frozenset[str] = frozenset()) -> Gathered:
    """Ask BMC (health, readiness, clock), MAAS (status, results, events) and host (checks) about one node.

    ``skip`` names peers not to be asked: ``bmc``, ``maas``, ``ssh``. Only reads; a peer that does not answer becomes
    a Gap (and for BMC and host evidence ``bmc/answer``, ``ssh/answer``); no error leaves. Does not close ``tools``.
    """
    book = _Notebook(node, tools)
    if "bmc" not in skip and await book.ask(lambda: _health(book)):
        book.evidence.append(well(node.name, "bmc", tools.clock.now()))
        await book.ask(lambda: _readiness(book))
        await book.ask(lambda: _clock(book))
    machine: Machine | None = None
    installed = node.ssh is not None
    if "maas" not in skip:
        machine = await _machine(book, skip)
        if machine is not None:
            book.evidence.append(status_evidence(node, machine, tools))
            system_id = machine.system_id
            await book.ask(lambda: _results(book, system_id))
            await book.ask(lambda: _events(book, system_id))
            installed = machine.status is Status.DEPLOYED
        elif not any(gap.source == "maas" for gap in book.gaps):
            # MAAS answered and knows no such machine: nothing of ours was ever installed there.
            installed = False
    address = address_of(node, machine)
    if "ssh" not in skip and installed and address is not None and await book.ask(lambda: _checks(book, address)):
        book.evidence.append(well(node.name, "ssh", tools.clock.now()))
    return Gathered(tuple(book.evidence), tuple(book.gaps))


async def _health(book: _Notebook) -> None:
    health = await book.tools.bmc.health()
    book.evidence.extend(health.evidence)
    book.gaps.extend(health.gaps)


async def _readiness(book: _Notebook) -> None:
    ready = await book.tools.bmc.readiness()
    book.gaps.extend(ready.gaps)
    book.evidence.append(
        Evidence(
            node=book.node.name,
            part=Part(PartKind.BOOT, "network boot", "BIOS"),
            reading=Reading.FACT,
            source="bmc/readiness",
            seen_at=book.tools.clock.now(),
            values={
                "network_device_enabled": ready.network_device_enabled,
                "lockdown": ready.lockdown,
                "pending_jobs": ", ".join(ready.pending_jobs),
                "mode": ready.mode,
            },
        )
    )


async def _clock(book: _Notebook) -> None:
    clock = await book.tools.bmc.clock()
    part = Part(PartKind.CLOCK, "BMC clock", "BMC clock")
    values = {"offset_s": clock.offset_s, "limit_s": book.tools.site.max_clock_offset_s}
    now = book.tools.clock.now()
    book.evidence.append(Evidence(book.node.name, part, Reading.FACT, "clock/offset", now, values=values))


async def _machine(book: _Notebook, skip: frozenset[str]) -> Machine | None:
    """The node's machine; by the inventory's own MACs and its name where the BMC is not to be asked or is silent."""
    found: list[Machine | None] = []

    async def by_bmc() -> None:
        found.append(await find_machine(book.node, book.tools))

    async def by_name() -> None:
        found.append(await book.tools.maas.machine(book.node, book.node.macs))

    if "bmc" in skip or any(item.source == "bmc/answer" and item.reading is not Reading.OK for item in book.evidence):
        await book.ask(by_name)
    else:
        await book.ask(by_bmc)
    return found[0] if found else None


async def _results(book: _Notebook, system_id: str) -> None:
    book.evidence.extend(results_evidence(book.node, await book.tools.maas.results(system_id), book.tools))


async def _events(book: _Notebook, system_id: str) -> None:
    book.evidence.extend(events_evidence(book.node, await book.tools.maas.events(system_id)))


async def _checks(book: _Notebook, address: Address) -> None:
    book.evidence.extend(await run_checks(book.node, address, book.tools))
