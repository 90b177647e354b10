"""MAAS installs the operating system, on the one drive that the rule names, once per wish.

The receipt (which wish a deployment answers) is written before the deployment: whatever dies afterwards, the next run
reads from MAAS how far it came. A failed deployment that bears a receipt may be released and repeated without leave:
the receipt was written with leave, or onto a machine that was Ready, that is, given back already; no host ever ran on
it. A failed one without receipt is somebody else's and left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from provision.model.decision import Act, Decision, Done, Seen, Step, Stuck, Wait
from provision.model.machine import DeploySpec, MaasEvent, Machine, Receipt, ScriptResult, Status
from provision.model.node import Node
from provision.model.profile import Goal
from provision.model.site import PowerBy
from provision.ports import Tools
from provision.stages import commission
from provision.stages.boot import Boot, act_boot, began, boot_evidence, forget, heard, next_move, observe_boot
from provision.stages.disk import choose_disk, next_layout, placed
from provision.stages.lookup import (
    count,
    events_evidence,
    failure_reason,
    find_machine,
    holds_wish,
    narrow,
    noted_drives,
    results_evidence,
    status_evidence,
)
from provision.stages.steps import (
    AbortDeployment,
    Allocate,
    Deploy,
    Release,
    SetBootDisk,
    SetLayout,
    WriteReceipt,
    release_act,
)

OPERATION, ERASING = "deployment", "erasing"
TRIES = 2
# MAAS's own deployment workflow ends after 60 minutes (twice its node timeout); what goes on after that, nobody ends.
GIVES_UP_S = 4200.0
# Where a release leaves a machine whose last commissioning did not pass (facts: op × status), ours or another hand's.
# Nobody owns it, so that nothing is lost by commissioning it again.
_BEFORE = {Status.NEW, Status.COMMISSIONING, Status.TESTING, Status.FAILED_COMMISSIONING, Status.FAILED_TESTING}
_COMMISSION = commission.CommissionStage()


@dataclass(frozen=True, slots=True)
class Deployment(Seen):
    """``sent`` counts this run's deployments of ``tries``; ``boot`` is set where our hand is on the button.

    ``wipes``: the region wipes all drives of whatever is released. ``wiped`` counts the wipes that this run asked for.
    ``running_s`` counts from when this run saw it installing, paces removed. ``before`` is what the stage before this
    one sees, while the machine is back in its realm.
    """

    machine: Machine | None
    sent: int = 0
    tries: int = TRIES
    boot: Boot | None = None
    reason: str = ""
    wipes: bool = False
    wiped: int = 0
    running_s: float = 0.0
    before: commission.Commissioning | None = None


def decide(goal: Goal, seen: Deployment) -> Decision:  # noqa: PLR0912 - one branch per line of the table
    """Towards a deployed machine whose receipt answers the goal. Pure."""
    machine = seen.machine
    if machine is None:
        return Stuck("MAAS no longer knows this machine: it was deleted while we worked", ours=True)
    if seen.before is not None:
        again = commission.decide(goal, seen.before)
        return Wait(f"MAAS: {machine.status.label}", pause_s=5) if isinstance(again, Done) else again
    name, receipt, epoch = machine.hostname, machine.receipt, goal.image_epoch
    match machine.status:
        case Status.DEPLOYED | Status.FAILED_DEPLOYMENT | Status.DEPLOYING if receipt is None:
            return _by_hand(goal, seen, machine)
        case Status.DEPLOYED if receipt is not None and receipt.epoch >= epoch:
            other = "" if receipt.image == str(goal.profile.image) else f"; the profile wants {goal.profile.image}"
            return Done(f"{receipt.image} of epoch {receipt.epoch}{other}")
        case Status.DEPLOYING:
            return _installing(seen, machine)
        case Status.RELEASING:
            return Wait(f"MAAS: {machine.status.label}", pause_s=15)
        case Status.DISK_ERASING:
            move = next_move(seen.boot, ERASING) if seen.boot is not None else None
            return move or Wait("MAAS wipes every drive", pause_s=30, operation=ERASING)
        case _ if machine.locked:
            return Stuck(f"{name} is locked in MAAS: unlock it", ours=True)
        case Status.DEPLOYED:
            has = f"epoch {receipt.epoch}" if receipt is not None else "no receipt"
            return _release(goal, seen, machine, f"has {has}, epoch {epoch} is wished", erases=True)
        case Status.FAILED_DEPLOYMENT if seen.sent >= seen.tries:
            return Stuck(f"deployment failed {seen.sent} times: {seen.reason}")
        case Status.FAILED_DEPLOYMENT:
            behind = receipt is not None and receipt.epoch < epoch
            return _release(goal, seen, machine, f"deployment failed: {seen.reason}", erases=behind and goal.erase_data)
        case Status.READY:
            return _ready(goal, machine)
        case Status.ALLOCATED:
            return _allocated(goal, seen, machine)
        case Status.BROKEN:
            why = machine.error_description or "no reason given"
            return Stuck(f"marked broken in MAAS ({why}): mark it fixed there", ours=True)
        case status:
            return Stuck(f"MAAS: {status.label}; this needs a decision in MAAS", ours=True)


def _installing(seen: Deployment, machine: Machine) -> Decision:
    move = next_move(seen.boot, OPERATION) if seen.boot is not None else None
    if move is not None:
        return move
    if seen.running_s <= GIVES_UP_S:
        return Wait("MAAS installs", pause_s=30, operation=OPERATION)
    minutes = round(seen.running_s / 60)
    if machine.locked:
        return Stuck(f"MAAS installs for {minutes} minutes without an end, and {machine.hostname} is locked", ours=True)
    if seen.sent >= seen.tries:
        return Stuck(f"MAAS installs for {minutes} minutes without an end, {seen.sent} times")
    why = f"MAAS installs for {minutes} minutes, longer than its own limit: {seen.reason or 'no event says why'}"
    return Act(AbortDeployment(machine.system_id), why, pause_s=15)


def _release(goal: Goal, seen: Deployment, machine: Machine, why: str, *, erases: bool) -> Decision:
    return release_act(machine.system_id, why, wipes=seen.wipes, erases=erases, erase_data=goal.erase_data)


def _by_hand(goal: Goal, seen: Deployment, machine: Machine) -> Decision:
    """No receipt: somebody else's work. Only a wish to erase (an epoch above the first) may end it."""
    name, status = machine.hostname, machine.status
    if goal.image_epoch > 1 and status is not Status.DEPLOYING and not machine.locked:
        why = f"{status.label} by hand, epoch {goal.image_epoch} is wished"
        return _release(goal, seen, machine, why, erases=True)
    return Stuck(
        f"{status.label} by hand, without our receipt; to accept what is on it: provision adopt {name}; "
        f"to install it afresh: provision reimage {name} --yes-erase {name}",
        ours=True,
    )


def _ready(goal: Goal, machine: Machine) -> Decision:
    if not goal.profile.image.ephemeral:
        disk = choose_disk(goal, machine)
        if isinstance(disk, Stuck):
            return disk
        if (move := next_layout(goal, machine, disk)) is not None:
            return move
    return Act(Allocate(machine.system_id), "a receipt needs an owner")


def _allocated(goal: Goal, seen: Deployment, machine: Machine) -> Decision:
    image, had, target = goal.profile.image, machine.receipt, "into memory"
    behind = had is None or had.epoch < goal.image_epoch
    if goal.erase_data and behind and not seen.wiped:
        # Given back already, so that nothing was wiped yet; MAAS wipes what somebody owns.
        return _release(goal, seen, machine, "given back before with its data", erases=True)
    if not image.ephemeral:
        disk = choose_disk(goal, machine)
        if isinstance(disk, Stuck):
            return disk
        if machine.root_disk_ids != (disk.id,):
            return Stuck(
                f"allocated with / on another drive than {disk.facts.serial}; MAAS moves it in Ready only: release it "
                f"there and run again",
                ours=True,
            )
        target = f"on {disk.facts.serial}"
    if behind or had is None or had.image != str(image):
        wish = Receipt(max(goal.image_epoch, had.epoch if had is not None else 0), str(image))
        return Act(WriteReceipt(machine.system_id, wish), f"epoch {wish.epoch}, {image}")
    step = Deploy(machine.system_id, image.series, image.kernel, image.ephemeral)
    return Act(step, f"install {image} {target}", pause_s=60, operation=OPERATION)


class DeployStage:
    """MAAS: the right disk, the receipt, the installation."""

    name = "deploy"
    # Two installations, each up to where we lose patience, and the releases between them.
    deadline_s = 10800.0
    max_acts = 2

    async def observe(self, node: Node, tools: Tools) -> Deployment:
        """Read the machine; BMC, results, events and the region's settings only where the state asks for them."""
        machine = await find_machine(node, tools)
        sent, tries = count(tools, "deploy.sent"), tools.site.max_acts.get(self.name, TRIES)
        if machine is None:
            return Deployment(None, sent, tries)
        seen = Deployment(
            placed(machine, noted_drives(tools)),
            sent,
            tries,
            wiped=count(tools, "deploy.wiped"),
            evidence=(status_evidence(node, machine, tools),),
        )
        match machine.status:
            case status if status in _BEFORE:
                tools.notes["deploy.booting"] = commission.OPERATION
                before = await _COMMISSION.observe(node, tools)
                return replace(seen, before=before, evidence=before.evidence, gaps=before.gaps)
            case Status.DEPLOYING:
                return await _observe_boot(node, machine, tools, seen, OPERATION)
            case Status.DISK_ERASING if tools.site.power_by is PowerBy.PROVISION:
                return await _observe_boot(node, machine, tools, seen, ERASING)
            case Status.FAILED_DEPLOYMENT:
                seen = await _reasoned(node, machine, tools, seen)
        answered = holds_wish(machine, tools.goal.image_epoch)
        if machine.status in {Status.DEPLOYED, Status.FAILED_DEPLOYMENT} and not answered:
            seen = replace(seen, wipes=await tools.maas.erases_on_release())
        return seen

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """See ``decide`` above."""
        return decide(goal, narrow(seen, Deployment))

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """One write to MAAS, or a move of the network boot."""
        maas = tools.maas
        match step:
            case SetBootDisk(system_id, disk_id):
                await maas.set_boot_disk(system_id, disk_id)
            case SetLayout(system_id, layout, disk_id):
                await maas.set_layout(system_id, layout, disk_id)
            case Allocate(system_id):
                await maas.allocate(system_id)
            case WriteReceipt(system_id, receipt):
                await maas.write_receipt(system_id, receipt)
            case Deploy(system_id, series, kernel, ephemeral):
                forget(tools, OPERATION)
                tools.notes["deploy.sent"] = count(tools, "deploy.sent") + 1
                user_data = tools.user_data(node, await tools.shell.new_host_key(node.name))
                await maas.deploy(system_id, DeploySpec(series, kernel, user_data, ephemeral))
            case AbortDeployment(system_id):
                forget(tools, OPERATION)
                await maas.abort(system_id, "installed without an end; started again by provision")
            case Release(system_id, erase_data):
                if erase_data:
                    forget(tools, ERASING)
                    tools.notes["deploy.wiped"] = count(tools, "deploy.wiped") + 1
                await maas.release(system_id, "released by provision", erase=erase_data)
            case commission.Commission() | commission.Abort():
                await _COMMISSION.act(step, node, tools)
            case _:
                if not await act_boot(step, tools, str(tools.notes.get("deploy.booting", OPERATION))):
                    raise TypeError(f"deploy does not know {step.name}")

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        image = goal.profile.image
        where = "" if image.ephemeral else f" on the drive with {goal.profile.boot_disk}"
        return f"install {image}{where} (epoch {goal.image_epoch})"


async def _observe_boot(node: Node, machine: Machine, tools: Tools, seen: Deployment, operation: str) -> Deployment:
    """How far the network boot is where our hand is on the button, and how long the operation goes on."""
    tools.notes["deploy.booting"] = operation
    since = tools.notes.setdefault(f"{operation}.silent", tools.clock.monotonic())
    running_s = (tools.clock.monotonic() - (since if isinstance(since, float) else 0.0)) / tools.site.pace
    ours, late = tools.site.power_by is PowerBy.PROVISION, running_s > GIVES_UP_S
    events: tuple[MaasEvent, ...] = ()
    results: tuple[ScriptResult, ...] = ()
    installs = operation == OPERATION
    # Wiping leaves no word of its beginning in results or log.
    if late or (ours and installs and not tools.notes.get(f"{operation}.pressed")):
        results, events = await tools.maas.results(machine.system_id), await tools.maas.events(machine.system_id)
    boot, evidence = None, list(seen.evidence)
    if ours:
        start = began(events, "deploying") if installs else None
        contact = installs and heard(results, events, "installation", start)
        boot = await observe_boot(tools, operation, start, contact=contact)
        evidence.append(boot_evidence(node, boot, tools))
    reason = ""
    if late:
        reason = failure_reason("installation", results, events)
        evidence.extend((*results_evidence(node, results, tools), *events_evidence(node, events)))
    return replace(seen, boot=boot, running_s=running_s, reason=reason, evidence=tuple(evidence))


async def _reasoned(node: Node, machine: Machine, tools: Tools, seen: Deployment) -> Deployment:
    results, events = await tools.maas.results(machine.system_id), await tools.maas.events(machine.system_id)
    reason = failure_reason("installation", results, events)
    more = (*results_evidence(node, results, tools), *events_evidence(node, events))
    return replace(seen, reason=reason, evidence=(*seen.evidence, *more))
