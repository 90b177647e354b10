"""Where MAAS's record of a machine no longer agrees with the inventory."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence

from provision.app.looks import each
from provision.app.wiring import Wiring
from provision.errors import PeerError
from provision.model.machine import Machine
from provision.model.node import MacAddress, Node
from provision.model.profile import Goal
from provision.model.site import PowerBy
from provision.ports import Tools
from provision.stages.enlist import differences, hand_of
from provision.stages.lookup import macs_of, spec_for

# `status` is asked often and by people: a region that takes longer is named, not waited for.
PATIENCE_S = 10.0


async def drift(
    wiring: Wiring, nodes: Sequence[Node], *, look: bool, ready: Container[str] = frozenset()
) -> tuple[dict[str, list[str]], str]:
    """What differs, by node name (nothing for nodes that agree or that MAAS was never told of), and a complaint.

    MAC addresses are compared with the inventory's, or with ``look`` with what the BMCs show at this moment. ``ready``
    are nodes that MAAS must know: one that it does not find by name was renamed or deleted there.
    """
    if wiring.settings.maas is None:
        return {}, ""
    found: dict[str, list[str]] = {}

    async def one(node: Node) -> None:
        said = await _of_node(wiring, node, look=look)
        if said is None:
            said = ["MAAS knows no such machine any more: renamed or deleted there"] if node.name in ready else []
        if said:
            found[node.name] = said

    try:
        async with asyncio.timeout(PATIENCE_S if not look else None):
            await each(nodes, one)
    except TimeoutError:
        return found, f"MAAS did not answer within {PATIENCE_S:g} s: its records were not compared"
    except PeerError as error:
        return found, f"{error}: its records were not compared"
    return found, ""


async def _of_node(wiring: Wiring, node: Node, *, look: bool) -> list[str] | None:
    tools = await wiring.tools_of(node)
    try:
        macs: tuple[MacAddress, ...] = node.macs
        if look:
            macs = macs_of(node, tools.goal.profile, await tools.bmc.harvest())
        machine = await tools.maas.machine(node, macs)
        return None if machine is None else await compare(node, tools.goal, tools, machine, macs)
    finally:
        await tools.bmc.close()


async def compare(node: Node, goal: Goal, tools: Tools, machine: Machine, macs: Sequence[MacAddress]) -> list[str]:
    """Every difference in words: those that enlist mends, and the MAC addresses that MAAS does not have."""
    spec = spec_for(node, tools, hand_of(goal, tools.site, machine), tuple(macs))
    by_maas = spec.power_by is PowerBy.MAAS and machine.power_type == "redfish"
    powers = await tools.maas.power_drift(machine.system_id, spec) if by_maas else ""
    found = list(differences(machine, spec, powers))
    missing = [f"MAC {mac} is missing" for mac in macs if mac not in machine.macs]
    if macs and not set(macs) & set(machine.macs):
        others = ", ".join(map(str, machine.macs)) or "none"
        missing = [f"MAC addresses are others: MAAS has {others}, the machine {', '.join(map(str, macs))}"]
    return list(dict.fromkeys((*found, *missing)))
