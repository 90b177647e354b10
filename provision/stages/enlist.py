"""Does MAAS know this machine, and does it know it as ours?"""

from __future__ import annotations

from dataclasses import dataclass

from provision.model.decision import Act, Decision, Done, Seen, Step, Stuck
from provision.model.machine import Machine, MachineSpec
from provision.model.node import Node
from provision.model.profile import Goal
from provision.model.site import PowerBy
from provision.ports import Tools
from provision.stages.lookup import find_machine, macs_of, narrow


@dataclass(frozen=True, slots=True)
class CreateMachine(Step):
    """A machine in MAAS, boot MAC first, without commissioning."""

    spec: MachineSpec


@dataclass(frozen=True, slots=True)
class AdoptMachine(Step):
    """Make a machine that MAAS knows already ours."""

    system_id: str
    spec: MachineSpec


@dataclass(frozen=True, slots=True)
class Enlisted(Seen):
    """``owner`` is the other node of the inventory whose name the machine bears, or empty."""

    machine: Machine | None
    spec: MachineSpec
    owner: str


def differences(machine: Machine, spec: MachineSpec) -> tuple[str, ...]:
    """What MAAS has other than the inventory: hostname, power type, zone, pool."""
    power = "redfish" if spec.power_by is PowerBy.MAAS else "manual"
    pairs = (
        ("hostname", machine.hostname, spec.hostname),
        ("power type", machine.power_type, power),
        ("zone", machine.zone, spec.zone or machine.zone),
        ("pool", machine.pool, spec.pool or machine.pool),
    )
    return tuple(f"{what} {has or 'empty'} → {wants}" for what, has, wants in pairs if has != wants)


def decide(goal: Goal, seen: Enlisted) -> Decision:
    """Create what is missing, adopt what is half there, leave alone what is somebody else's. Pure."""
    machine, spec = seen.machine, seen.spec
    if machine is None:
        return Act(CreateMachine(spec), f"MAAS has no machine with {spec.macs[0]}", pause_s=2)
    shared = set(machine.macs) & set(spec.macs)
    if seen.owner:
        mac = min(shared) if shared else spec.macs[0]
        return Stuck(
            f"MAC {mac} of {spec.hostname} belongs to {seen.owner} in MAAS ({machine.system_id}): boards swapped, or "
            f"one of the two has the other's bmc_address",
            ours=True,
        )
    if not shared:
        return Stuck(
            f"MAAS knows {machine.hostname} ({machine.system_id}) with other MAC addresses: it has "
            f"{', '.join(map(str, machine.macs)) or 'none'}, the BMC shows {', '.join(map(str, spec.macs))}; if "
            f"the board was exchanged, delete the machine in MAAS and run again",
            ours=True,
        )
    changes = differences(machine, spec)
    if changes and machine.locked:
        return Stuck(f"{machine.hostname} is locked in MAAS and differs ({'; '.join(changes)}): unlock it", ours=True)
    if changes:
        return Act(AdoptMachine(machine.system_id, spec), "; ".join(changes), pause_s=2)
    return Done(f"{machine.system_id} in MAAS")


class Enlist:
    """MAAS: a machine with these MACs, under this name."""

    name = "enlist"
    deadline_s = 600.0
    max_acts = 3

    async def observe(self, node: Node, tools: Tools) -> Enlisted:
        """Look for the machine by MAC."""
        machine = await find_machine(node, tools)
        by_maas = tools.site.power_by is PowerBy.MAAS
        spec = MachineSpec(
            hostname=node.name,
            architecture=tools.goal.profile.architecture,
            macs=macs_of(node, tools.goal.profile, await tools.bmc.harvest()),
            power_by=tools.site.power_by,
            bmc_address=node.bmc_address,
            credential=tools.credential if by_maas else None,
            zone=node.zone,
            pool=node.pool,
            tags=node.tags,
        )
        theirs = machine is not None and machine.hostname != node.name and machine.hostname in tools.names
        return Enlisted(machine, spec, owner=machine.hostname if machine is not None and theirs else "")

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """See ``decide`` above."""
        return decide(goal, narrow(seen, Enlisted))

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """Create or adopt."""
        match step:
            case CreateMachine(spec):
                await tools.maas.create(spec)
            case AdoptMachine(system_id, spec):
                await tools.maas.adopt(system_id, spec)
            case _:
                raise TypeError(f"enlist does not know {step.name}")

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        return "create the machine in MAAS"
