"""A node that waits for a repair is kept out of MAAS's pool: marked broken, with its ticket as the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provision.app.wiring import Wiring
from provision.errors import PeerError
from provision.model.decision import Outcome
from provision.model.event import Acted, NodeEnded
from provision.model.machine import Machine, Status
from provision.model.node import Node
from provision.model.run import Run
from provision.stages.lookup import OUR_MARK

# Marking a deployed machine would release it, and nobody owns New and Failed commissioning (403, measured): these
# are kept out of the pool by their status already.
_MARKABLE = {Status.READY, Status.ALLOCATED, Status.FAILED_DEPLOYMENT}


async def mark_broken(wiring: Wiring, run: Run, nodes: Sequence[Node], ended: Mapping[str, NodeEnded]) -> None:
    """Mark the machines of nodes that ended with tickets. A machine that MAAS does not show is left as it is.

    A failure to mark is written into the history and changes nothing else: the tickets are what counts.
    """
    for node in nodes:
        end = ended.get(node.name)
        if end is None or end.outcome is not Outcome.NEEDS_HANDS or not end.tickets:
            continue
        try:
            machine = await wiring.maas().fresh(node, node.macs)
            if machine is not None and _ours(node, machine):
                await _mark(wiring, run, node, machine, end.tickets)
        except PeerError as error:
            why = f"tickets {', '.join(end.tickets)}"
            event = Acted(wiring.clock.now(), run.id, node.name, end.stage, "mark-broken", why, "refused", str(error))
            await wiring.store.record(event)


def _ours(node: Node, machine: Machine) -> bool:
    """Owned by nobody, or by us: a receipt says so. Somebody else's machine is not ours to mark."""
    if machine.locked or not machine.is_named(node.name) or machine.status not in _MARKABLE:
        return False
    return machine.status is Status.READY or machine.receipt is not None


async def _mark(wiring: Wiring, run: Run, node: Node, machine: Machine, tickets: Sequence[str]) -> None:
    why = f"{OUR_MARK}{', '.join(tickets)}"
    maas, store = wiring.maas(), wiring.store
    attempt = await store.open_attempt(run.id, node.name, "broken", "mark-broken", why)
    try:
        if machine.status is Status.READY:
            # MAAS takes the mark from an owner only.
            await maas.allocate(machine.system_id)
        await maas.mark_broken(machine.system_id, why)
    except PeerError as error:
        await store.close_attempt(attempt, "unknown", str(error))
        raise
    await store.close_attempt(attempt, "sent")
    await store.record(Acted(wiring.clock.now(), run.id, node.name, "broken", "mark-broken", why, "sent"))
