"""Does MAAS know this machine, and does it know it as ours?"""

from __future__ import annotations

from dataclasses import dataclass

from provision.model.decision import Act, Decision, Done, Seen, Step, Stuck
from provision.model.evidence import Part, PartKind
from provision.model.finding import Action, Category, Dispatch, Finding
from provision.model.machine import Machine, MachineSpec, Status
from provision.model.node import Node
from provision.model.profile import Goal
from provision.model.site import PowerBy, Site
from provision.ports import Tools
from provision.stages.lookup import find_machine, holds_wish, narrow, spec_of


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
    """``owner`` is the other node of the inventory whose name the machine bears, or empty; ``drift`` how MAAS's power
    parameters differ, in words; ``same_board``: the machine has this node's hardware UUID, whatever its cards say."""

    machine: Machine | None
    spec: MachineSpec
    owner: str
    drift: str = ""
    same_board: bool = False


def differences(machine: Machine, spec: MachineSpec, drift: str = "") -> tuple[str, ...]:
    """What MAAS has other than the inventory, each as ``what has → wants``; goes into the history as it is.

    MAC addresses are completed before a commissioning only: afterwards MAAS has looked at the cards itself, and what a
    BMC lists beyond that (a port of the BMC's own, a card switched off) would be asked for again for ever.
    """
    power = "redfish" if spec.power_by is PowerBy.MAAS else "manual"
    pairs = (
        ("hostname", spec.hostname if machine.is_named(spec.hostname) else machine.hostname, spec.hostname),
        ("power type", machine.power_type, power),
        ("zone", machine.zone, spec.zone or machine.zone),
        ("pool", machine.pool, spec.pool or machine.pool),
        ("architecture", machine.architecture or spec.architecture, spec.architecture),
    )
    found = [f"{what} {has or 'empty'} → {wants}" for what, has, wants in pairs if has != wants]
    found += [drift] if drift and machine.power_type == power else []
    found += [f"tag {tag} is missing" for tag in spec.tags if tag not in machine.tags]
    if machine.status is Status.NEW:
        found += [f"MAC {mac} is missing" for mac in spec.macs if mac not in machine.macs]
    return tuple(found)


def decide(goal: Goal, seen: Enlisted) -> Decision:
    """Create what is missing, adopt what is half there, leave alone what is somebody else's. Pure."""
    machine, spec = seen.machine, seen.spec
    if machine is None:
        return Act(CreateMachine(spec), f"MAAS has no machine with {spec.macs[0]}", pause_s=2)
    if seen.owner:
        return Stuck(swapped(machine, spec, seen.owner), ours=True)
    if not (set(machine.macs) & set(spec.macs) or seen.same_board or not machine.macs):
        return Stuck(
            f"MAAS knows {machine.hostname} ({machine.system_id}) with other MAC addresses: it has "
            f"{', '.join(map(str, machine.macs))}, the BMC shows {', '.join(map(str, spec.macs))}; if "
            f"the board was exchanged, delete the machine in MAAS and run again",
            ours=True,
        )
    changes = differences(machine, spec, seen.drift)
    if changes and machine.locked:
        return Stuck(f"{machine.hostname} is locked in MAAS and differs ({'; '.join(changes)}): unlock it", ours=True)
    if changes:
        return Act(AdoptMachine(machine.system_id, spec), "; ".join(changes), pause_s=2)
    return Done(f"{machine.system_id} in MAAS")


def swapped(machine: Machine, spec: MachineSpec, owner: str) -> str:
    """The sentence about a MAC that MAAS has under another of our nodes."""
    shared = set(machine.macs) & set(spec.macs)
    what = f"MAC {min(shared)}" if shared else "the hardware UUID"
    return (
        f"{what} of {spec.hostname} belongs to {owner} in MAAS ({machine.system_id}): boards or cards were swapped "
        f"between {spec.hostname} and {owner}, or one of the two has the other's bmc_address; swap them back, correct "
        f"the inventory, or delete both machines in MAAS to have them enlisted anew"
    )


def hand_of(goal: Goal, site: Site, machine: Machine | None) -> PowerBy:
    """Whose hand MAAS is to believe in. A node that was handed over stays so until it has to be installed again."""
    handed = site.handover_power and machine is not None and machine.power_type == "redfish"
    return PowerBy.MAAS if handed and holds_wish(machine, goal.image_epoch) else site.power_by


class Enlist:
    """MAAS: a machine with these MACs, under this name."""

    name = "enlist"
    deadline_s = 600.0
    max_acts = 3

    async def observe(self, node: Node, tools: Tools) -> Enlisted:
        """Look for the machine by MAC, hardware UUID and name, and at what MAAS knows of its BMC."""
        machine = await find_machine(node, tools)
        spec = await spec_of(node, tools, hand_of(tools.goal, tools.site, machine))
        if machine is None:
            return Enlisted(None, spec, owner="")
        owner = "" if machine.is_named(node.name) else next(filter(machine.is_named, sorted(tools.names)), "")
        if owner:
            return Enlisted(machine, spec, owner=owner, findings=(_swap_finding(node, machine, spec, owner),))
        drift = ""
        if spec.power_by is PowerBy.MAAS and machine.power_type == "redfish":
            drift = await tools.maas.power_drift(machine.system_id, spec)
        # Without a common MAC and under another name, only the hardware UUID can have found it.
        alien = not set(machine.macs) & set(spec.macs) and not machine.is_named(node.name)
        return Enlisted(machine, spec, owner="", drift=drift, same_board=alien)

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


def _swap_finding(node: Node, machine: Machine, spec: MachineSpec, owner: str) -> Finding:
    return Finding(
        rule="MAAS-SWAPPED",
        node=node.name,
        category=Category.NOT_HARDWARE,
        component="identity",
        part=Part(PartKind.NODE, node.name, node.name),
        action=Action.FIX_CONFIG,
        dispatch=Dispatch.NEVER,
        ask=f"Nobody goes yet. {swapped(machine, spec, owner)}",
        confidence=0.9,
        nodes=(node.name, owner),
    )
