"""Giving a machine back to MAAS, by an operator's word alone: no bring-up has this stage."""

from __future__ import annotations

from dataclasses import dataclass

from provision.model.decision import Decision, Done, Seen, Step, Stuck, Wait
from provision.model.machine import Machine, Status
from provision.model.node import Node
from provision.model.profile import Goal
from provision.model.site import PowerBy
from provision.ports import Tools
from provision.stages.boot import Boot, act_boot, forget, next_move, observe_boot
from provision.stages.lookup import count, find_machine, narrow
from provision.stages.steps import Release, release_act

ERASING = "erasing"
_FREE = {
    Status.NEW,
    Status.COMMISSIONING,
    Status.FAILED_COMMISSIONING,
    Status.READY,
    Status.TESTING,
    Status.FAILED_TESTING,
}
# MAAS takes a release in these (facts: op × status).
_TAKES = {
    Status.RESERVED,
    Status.DEPLOYED,
    Status.DEPLOYING,
    Status.ALLOCATED,
    Status.FAILED_DEPLOYMENT,
    Status.FAILED_RELEASING,
    Status.FAILED_DISK_ERASING,
}


@dataclass(frozen=True, slots=True)
class Releasing(Seen):
    """``sent`` counts this run's releases; ``wipes``: the region wipes all drives of whatever is released."""

    machine: Machine | None
    sent: int = 0
    wipes: bool = False
    boot: Boot | None = None


def decide(goal: Goal, seen: Releasing) -> Decision:
    """Towards a machine that nobody owns. Pure."""
    machine = seen.machine
    if machine is None:
        return Done("MAAS does not know this machine: there is nothing to release")
    match machine.status:
        case status if status in _FREE:
            return Done(f"MAAS: {status.label}, nobody owns it")
        case Status.RELEASING:
            return Wait("MAAS: Releasing", pause_s=10)
        case Status.DISK_ERASING:
            move = next_move(seen.boot, ERASING) if seen.boot is not None else None
            return move or Wait("MAAS wipes every drive", pause_s=30, operation=ERASING)
        case _ if machine.locked:
            return Stuck(f"{machine.hostname} is locked in MAAS: somebody wants it left alone; unlock it there", True)
        case status if status in _TAKES and seen.sent:
            return Stuck(f"MAAS: {status.label} after the release: look at its events there")
        case status if status in _TAKES:
            why = f"MAAS: {status.label}, its release was asked for"
            return release_act(machine.system_id, why, wipes=seen.wipes, erases=True, erase_data=goal.erase_data)
        case status:
            return Stuck(f"MAAS: {status.label}; this needs a decision in MAAS", ours=True)


class ReleaseStage:
    """MAAS: whatever is owned → Ready (New, if its last commissioning did not pass)."""

    name = "release"
    # MAAS gives a release five minutes; wiping has no limit of its own.
    deadline_s = 7200.0
    max_acts = 1

    async def observe(self, node: Node, tools: Tools) -> Releasing:
        """Read the machine, and whether the region wipes by itself."""
        machine = await find_machine(node, tools)
        sent = count(tools, "release.sent")
        if machine is None:
            return Releasing(None, sent)
        boot = None
        if machine.status is Status.DISK_ERASING and tools.site.power_by is PowerBy.PROVISION:
            boot = await observe_boot(tools, ERASING, None, contact=False)
        wipes = machine.status in _TAKES and await tools.maas.erases_on_release()
        return Releasing(machine, sent, wipes, boot)

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """See ``decide`` above."""
        return decide(goal, narrow(seen, Releasing))

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """Release, or a move of the network boot that wiping needs."""
        match step:
            case Release(system_id, erase_data):
                forget(tools, ERASING)
                tools.notes["release.sent"] = count(tools, "release.sent") + 1
                await tools.maas.release(system_id, "released by provision", erase=erase_data)
            case _:
                if not await act_boot(step, tools, ERASING):
                    raise TypeError(f"release does not know {step.name}")

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        return "give it back to MAAS"
