"""Verbs that take something away: reimage and release. Each needs the node or the rack named twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from provision.app.looks import each
from provision.app.runs import Sink, bring_up, check_site
from provision.app.wiring import Wiring, whoami
from provision.errors import MisconfiguredError, PeerError, UnavailableError
from provision.model.decision import Outcome
from provision.model.machine import Machine, Status
from provision.model.node import Node
from provision.stages.discover import Discover
from provision.stages.release import ReleaseStage

_WITH_SYSTEM = {Status.DEPLOYED, Status.FAILED_DEPLOYMENT, Status.DEPLOYING}


class Say(Protocol):
    """Takes a sentence for the operator."""

    def __call__(self, sentence: str) -> None:
        """Show it."""


@dataclass(frozen=True)
class Wish:
    """What became of one node's wish: raised to ``epoch``, or why not. ``locked`` nodes take no part."""

    node: Node
    epoch: int
    note: str = ""
    locked: bool = False


async def reimage(
    wiring: Wiring,
    nodes: Sequence[Node],
    target: str,
    sinks: Sequence[Sink],
    say: Say,
    *,
    erase_data: bool = False,
    despite_ticket: bool = False,
) -> tuple[int, dict[str, Outcome]]:
    """Raise the image epochs of these nodes, then bring them up with leave to erase them.

    A wish that still waits, and a reimage that was killed or stopped in the middle, are not raised a second time: the
    same command goes on with them. Locked machines are left alone and named.

    Raises:
        MisconfiguredError: an open ticket, a region that wipes data drives unasked, nothing to be erased.
    """
    await check_site(wiring, nodes)
    await _check_tickets(wiring, nodes, "reimage", despite_ticket=despite_ticket)
    await _check_wiping(wiring, erase_data=erase_data)
    unfinished = await _unfinished(wiring, nodes)
    wishes = await each(nodes, lambda node: _wish(wiring, node, unfinished.get(node.name)))
    for wish in wishes:
        if wish.note:
            say(f"{wish.node.name}: {wish.note}")
    chosen = [wish.node for wish in wishes if not wish.locked]
    if not chosen:
        raise MisconfiguredError(f"{target}: locked in MAAS, left alone; unlock it there first")
    status, outcomes = await bring_up(
        wiring,
        chosen,
        verb="reimage",
        target=target,
        sinks=sinks,
        may_erase=frozenset(node.name for node in chosen),
        erase_data=erase_data,
    )
    return (status or 1 if len(chosen) < len(nodes) else status), outcomes


async def release(
    wiring: Wiring, node: Node, sinks: Sequence[Sink], *, erase_data: bool = False, despite_ticket: bool = False
) -> tuple[int, dict[str, Outcome]]:
    """Give one machine back to MAAS. What is on its system disk is lost; with ``erase_data`` every drive is wiped.

    Raises:
        MisconfiguredError: an open ticket, a region that wipes data drives unasked.
    """
    await _check_tickets(wiring, [node], "release", despite_ticket=despite_ticket)
    await _check_wiping(wiring, erase_data=erase_data)
    return await bring_up(
        wiring,
        [node],
        verb="release",
        target=node.name,
        sinks=sinks,
        may_erase=frozenset({node.name}),
        erase_data=erase_data,
        stages=(Discover(), ReleaseStage()),
        site_checked=True,
    )


async def _check_tickets(wiring: Wiring, nodes: Sequence[Node], verb: str, *, despite_ticket: bool) -> None:
    names = {node.name for node in nodes}
    held: dict[str, list[str]] = {}
    for ticket in await wiring.store.tickets(open_only=True):
        for name in {ticket.node, *ticket.nodes} & names:
            held.setdefault(name, []).append(f"{ticket.id} ({ticket.locator}: {ticket.action.value})")
    if held and not despite_ticket:
        listed = "; ".join(f"{name} holds {', '.join(tickets)}" for name, tickets in sorted(held.items()))
        raise MisconfiguredError(
            f"{verb} of a node that waits for a repair: {listed}; have it repaired first, leave it out "
            f"('TARGET:!NODE'), or add --despite-ticket; nothing was touched"
        )


async def _check_wiping(wiring: Wiring, *, erase_data: bool) -> None:
    if erase_data:
        return
    try:
        wipes = await wiring.maas().erases_on_release()
    except PeerError as error:
        raise MisconfiguredError(f"{error}; nothing was touched") from error
    if wipes:
        raise MisconfiguredError(
            "this MAAS wipes ALL drives of a released machine, data drives too (setting "
            "enable_disk_erasing_on_release): switch that off in MAAS, or add --erase-data; nothing was touched"
        )


async def _unfinished(wiring: Wiring, nodes: Sequence[Node]) -> dict[str, str]:
    """Run ids of reimages that ended for a node in the middle: killed, or stopped by Ctrl-C."""
    reimages = {run.id: ended for run, ended in await wiring.store.runs(limit=500) if run.verb == "reimage"}
    return {
        state.node: state.run
        for state in await wiring.store.states([node.name for node in nodes])
        if state.run in reimages and (reimages[state.run] is None or state.outcome in {None, Outcome.INTERRUPTED})
    }


async def _wish(wiring: Wiring, node: Node, unfinished: str | None) -> Wish:
    """Raise the node's epoch above what its machine has, unless it is above it already or a reimage waits to go on."""
    epoch = await wiring.store.epoch(node.name)
    machine = await _machine(wiring, node)
    if machine is not None and machine.locked:
        return Wish(node, epoch, "locked in MAAS: left alone", locked=True)
    if machine is not None and machine.receipt is not None:
        has = machine.receipt.epoch
    else:
        # Installed by hand it counts as the first image; not installed at all, there is nothing to erase.
        has = 1 if machine is not None and machine.status in _WITH_SYSTEM else 0
    if epoch > has:
        return Wish(node, epoch, f"epoch {epoch} is wished already" if has else "")
    if unfinished is not None:
        return Wish(node, epoch, f"goes on with the reimage of run {unfinished} (epoch {epoch})")
    user, host, _ = whoami()
    while epoch <= has:
        # A store that was lost counts from one again; the machine's receipt remembers better.
        epoch = await wiring.store.raise_epoch(node.name, why=f"reimage asked for by {user}@{host}")
    return Wish(node, epoch)


async def _machine(wiring: Wiring, node: Node) -> Machine | None:
    """The node's machine by its BMC's MACs; by name alone where the BMC does not answer."""
    tools = await wiring.tools_of(node)
    try:
        try:
            harvest = await tools.bmc.harvest()
            macs = [port.mac for port in harvest.ports if port.mac is not None]
        except PeerError:
            macs = list(node.macs)
        return await tools.maas.machine(node, macs)
    except UnavailableError as error:
        raise MisconfiguredError(f"{error}; nothing was erased: run the same command again") from error
    finally:
        await asyncio.shield(tools.bmc.close())
