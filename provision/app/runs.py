"""Runs that may write: bringup, reimage, adopt, power; and plan, which only says what they would do."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from provision.app.broken import mark_broken
from provision.app.wiring import Wiring, whoami
from provision.engine.fleet import Fleet
from provision.engine.plan import NodePlan
from provision.engine.plan import plan as make_plan
from provision.errors import MisconfiguredError, PeerError, RefusedError, UnavailableError
from provision.model.decision import Outcome
from provision.model.event import Event, Said
from provision.model.machine import Machine, Receipt, Status
from provision.model.node import Node
from provision.model.profile import Goal
from provision.model.run import Run
from provision.ports import Stage
from provision.stages import BRING_UP
from provision.stages.lookup import address_of
from provision.store.gates import gates_of
from provision.store.operators import operators_of
from provision.triage.desk import desk
from provision.triage.fleet import fleet as fleet_causes

ASKED_EVERY_S = 2.0
_STILL = {
    "commissioning": {Status.COMMISSIONING, Status.TESTING},
    "deployment": {Status.DEPLOYING},
    "erasing": {Status.RELEASING, Status.DISK_ERASING},
}


class Sink(Protocol):
    """Takes events; a screen, a log, JSON lines."""

    def __call__(self, event: Event) -> None:
        """Take one event."""

    def close(self) -> None:
        """Flush and leave."""


def new_run(wiring: Wiring, verb: str, target: str, nodes: Sequence[Node]) -> Run:
    """A run of this process over these nodes."""
    now = wiring.clock.now()
    user, host, pid = whoami()
    return Run(
        id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        verb=verb,
        nodes=tuple(node.name for node in nodes),
        user=user,
        host=host,
        pid=pid,
        started_at=now,
        target=target,
    )


async def bring_up(
    wiring: Wiring,
    nodes: Sequence[Node],
    *,
    verb: str,
    target: str,
    sinks: Sequence[Sink],
    may_erase: frozenset[str] = frozenset(),
    erase_data: bool = False,
    stages: Sequence[Stage] = BRING_UP,
    site_checked: bool = False,
    plan: Mapping[str, frozenset[str]] | None = None,
) -> tuple[int, dict[str, Outcome]]:
    """Run the stages over the nodes; exit status and outcome of each node.

    ``erase_data``: a release that this run may send wipes every drive. ``site_checked``: MAAS need not be asked what
    would stop a deployment. ``plan``: the only acts that may be sent.
    """
    if not site_checked:
        await check_site(wiring, nodes)
    for node in nodes:
        wiring.credential(node)
    run = new_run(wiring, verb, target, nodes)

    def emit(event: Event) -> None:
        for sink in sinks:
            sink(event)

    fleet = fleet_of(wiring, run, nodes, emit, erase_data=erase_data, stages=stages, plan=plan)
    asked = asyncio.create_task(_asked_to_end(wiring, run, fleet, emit))
    try:
        with stopping(fleet.request_stop):
            ended = await fleet.run(run, nodes, wiring.site.profiles, may_erase=may_erase)
    finally:
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        for sink in sinks:
            sink.close()
    outcomes = {name: end.outcome for name, end in ended.items()}
    return exit_status(outcomes), outcomes


def fleet_of(
    wiring: Wiring,
    run: Run,
    nodes: Sequence[Node],
    emit: Callable[[Event], None],
    *,
    erase_data: bool = False,
    stages: Sequence[Stage] = BRING_UP,
    plan: Mapping[str, frozenset[str]] | None = None,
) -> Fleet:
    """The fleet of one run, on the site's adapters and store."""
    return Fleet(
        stages=stages,
        journal=wiring.store,
        clock=wiring.clock,
        site=wiring.settings.site,
        judge=wiring.judge,
        desk=desk,
        fleet_causes=fleet_causes,
        tools_for=lambda node, goal: wiring.tools(node, replace(goal, erase_data=erase_data)),
        emit=emit,
        closing=lambda ended: mark_broken(wiring, run, nodes, ended),
        gates=gates_of(wiring.store),
        over=lambda name, operation: seen_over(wiring, name, operation),
        plan=plan,
    )


async def _asked_to_end(wiring: Wiring, run: Run, fleet: Fleet, emit: Callable[[Event], None]) -> None:
    """Another operator may ask this run to end; it does so as with Ctrl-C."""
    while True:
        await wiring.clock.sleep(ASKED_EVERY_S)
        # A store that is away for a while is the fleet's affair; this look is made again.
        with suppress(UnavailableError):
            if by := await operators_of(wiring.store).asked_to_end(run.id):
                emit(Said(wiring.clock.now(), run.id, f"{by} asks this run to end", level="error"))
                fleet.request_stop()
                return


async def seen_over(wiring: Wiring, name: str, operation: str) -> bool:
    """A look at MAAS shows that the operation is over; False while it goes on or nobody can know."""
    node = wiring.site.nodes.get(name)
    if node is None or operation not in _STILL:
        return True
    try:
        machine = await wiring.maas().machine(node, node.macs)
    except (PeerError, MisconfiguredError):
        return False
    return machine is None or machine.status not in _STILL[operation]


def exit_status(outcomes: dict[str, Outcome]) -> int:
    """0 all ready, 130 interrupted, 1 somebody must look."""
    kinds = set(outcomes.values())
    if kinds <= {Outcome.READY}:
        return 0
    return 130 if Outcome.INTERRUPTED in kinds else 1


async def check_site(wiring: Wiring, nodes: Sequence[Node]) -> None:
    """Ask MAAS what would stop every deployment, before anything is written.

    Raises:
        MisconfiguredError: MAAS refuses us, does not answer, or lacks something that the profiles need.
    """
    used = {node.profile for node in nodes}
    profiles = [profile for name, profile in wiring.site.profiles.items() if name in used]
    try:
        complaints = await wiring.maas().check_site(profiles)
    except PeerError as error:
        raise MisconfiguredError(f"{error}; nothing was tried") from error
    if complaints:
        raise MisconfiguredError("\n".join(complaints))


@contextmanager
def stopping(request_stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C (or SIGTERM) once: begin no new act. Twice: leave at once; the next run looks what became of it."""
    loop = asyncio.get_running_loop()
    asked = 0

    def interrupt() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            os._exit(130)
        request_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def plan(wiring: Wiring, nodes: Sequence[Node]) -> tuple[NodePlan, ...]:
    """What a bring-up would do with each node, by looking."""
    await check_site(wiring, nodes)
    return await make_plan(nodes, wiring.site.profiles, stages=BRING_UP, journal=wiring.store, tools_for=wiring.tools)


def plan_rows(plans: Sequence[NodePlan]) -> list[dict[str, Any]]:
    """A plan as rows."""
    return [
        {
            "node": item.node,
            "next": {"ready": "nothing", "act": "act", "wait": "wait", "stuck": "stuck"}[item.verdict],
            "stage": item.stage,
            "why": item.what,
            "erases": item.erases,
            "then": list(item.then),
        }
        for item in plans
    ]


async def adopt(wiring: Wiring, node: Node) -> str:
    """Write the receipt for a machine that was deployed by hand. Installs and erases nothing.

    Raises:
        MisconfiguredError: the machine is not deployed, is locked, or has its receipt already.
    """
    profile = wiring.profile(node)
    tools = wiring.tools(node, Goal(profile, await wiring.store.epoch(node.name)))
    run = new_run(wiring, "adopt", node.name, [node])
    try:
        harvest = await tools.bmc.harvest()
        macs = [port.mac for port in harvest.ports if port.mac is not None]
        machine = await tools.maas.fresh(node, macs)
        if machine is None:
            raise MisconfiguredError(f"MAAS knows no machine with a MAC of {node.name}; `provision bringup` enlists it")
        if machine.status is not Status.DEPLOYED:
            raise MisconfiguredError(
                f"{node.name} is {machine.status.label} in MAAS, not Deployed: there is nothing to adopt"
            )
        if machine.locked:
            raise MisconfiguredError(f"{node.name} is locked in MAAS; unlock it there first")
        if machine.receipt is not None:
            return f"{node.name} has its receipt already (epoch {machine.receipt.epoch}, {machine.receipt.image})"
        receipt = Receipt(tools.goal.image_epoch, str(profile.image))
        await wiring.store.start_run(run)
        try:
            attempt = await wiring.store.open_attempt(
                run.id, node.name, "adopt", "write-receipt", "asked by an operator"
            )
            await tools.maas.write_receipt(machine.system_id, receipt)
            await wiring.store.close_attempt(attempt, "sent")
        finally:
            await wiring.store.end_run(run.id, 0)
        found = await tools.maas.fresh(node, macs)
        if found is None or found.receipt != receipt:
            raise RefusedError("MAAS", f"receipt of {node.name}", "it accepted the receipt but does not show it")
        trusted = await _trust_host(wiring, node, found)
        return f"{node.name} is adopted as epoch {receipt.epoch}{trusted}; go on with: provision bringup {node.name}"
    finally:
        await tools.bmc.close()


async def _trust_host(wiring: Wiring, node: Node, machine: Machine) -> str:
    """Pin the SSH key that the host shows at this moment, in place of one that we made; says what came of it."""
    address = address_of(node, machine)
    if address is None:
        return ", but MAAS gives it no address for SSH"
    wiring.store.drop_pin("ssh-host-key", node.name)
    try:
        await wiring.shell().run(node, address, "true", deadline_s=30)
    except PeerError as error:
        return f", but its SSH key could not be pinned ({error.detail})"
    return ", its SSH key is pinned"


def write_csv(text: str, file: Path) -> None:
    """Write a ticket CSV beside a run.

    Raises:
        MisconfiguredError: the place cannot be written.
    """
    try:
        file.write_bytes(text.encode())
    except OSError as error:
        raise MisconfiguredError(f"cannot write {file}: {error.strerror}; give another path") from error
