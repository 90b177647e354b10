"""MAAS installs the operating system, on the one drive that the rule names, once per wish.

The receipt (which wish a deployment answers) is written before the deployment: whatever dies afterwards, the next run
reads from MAAS how far it came. A failed deployment that bears a receipt may be released and repeated without leave:
the receipt was written with leave, or onto a machine that was Ready, that is, given back already; no host ever ran on
it. A failed one without receipt is somebody else's and left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from provision.model.decision import Act, Decision, Done, Seen, Step, Stuck, Wait
from provision.model.machine import DeploySpec, MaasDisk, MaasEvent, Machine, Receipt, ScriptResult, Status
from provision.model.node import Node
from provision.model.profile import Goal
from provision.model.site import PowerBy
from provision.ports import Tools
from provision.stages.boot import Boot, act_boot, began, boot_evidence, forget, heard, next_move, observe_boot
from provision.stages.lookup import (
    count,
    events_evidence,
    failure_reason,
    find_machine,
    narrow,
    results_evidence,
    status_evidence,
)

OPERATION = "deployment"
TRIES = 2


@dataclass(frozen=True, slots=True)
class SetBootDisk(Step):
    """Where the operating system goes."""

    system_id: str
    disk_id: int


@dataclass(frozen=True, slots=True)
class SetLayout(Step):
    """Partitions of that drive: choosing the drive does not move them (measured on 3.6.3)."""

    system_id: str
    layout: str
    disk_id: int


@dataclass(frozen=True, slots=True)
class Allocate(Step):
    """Ready → Allocated: a receipt needs an owner."""

    system_id: str


@dataclass(frozen=True, slots=True)
class WriteReceipt(Step):
    """Which wish the coming deployment answers."""

    system_id: str
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Deploy(Step):
    """Install."""

    system_id: str
    series: str
    kernel: str | None


@dataclass(frozen=True, slots=True)
class Release(Step):
    """Give the machine back."""

    system_id: str


@dataclass(frozen=True, slots=True)
class Deployment(Seen):
    """``sent`` counts this run's deployments of ``tries``; ``boot`` is set where our hand is on the button."""

    machine: Machine | None
    sent: int = 0
    tries: int = TRIES
    boot: Boot | None = None
    reason: str = ""


def decide(goal: Goal, seen: Deployment) -> Decision:  # noqa: PLR0912 - one branch per line of the table
    """Towards a deployed machine whose receipt answers the goal. Pure."""
    machine = seen.machine
    if machine is None:
        return Stuck("MAAS no longer knows this machine: it was deleted while we worked", ours=True)
    name, receipt, epoch = machine.hostname, machine.receipt, goal.image_epoch
    match machine.status:
        case Status.DEPLOYED | Status.FAILED_DEPLOYMENT | Status.DEPLOYING if receipt is None:
            return _by_hand(goal, machine)
        case Status.DEPLOYED if receipt is not None and receipt.epoch >= epoch:
            other = "" if receipt.image == str(goal.profile.image) else f"; the profile wants {goal.profile.image}"
            return Done(f"{receipt.image} of epoch {receipt.epoch}{other}")
        case Status.DEPLOYING:
            move = next_move(seen.boot, OPERATION) if seen.boot is not None else None
            return move or Wait("MAAS installs", pause_s=30, operation=OPERATION)
        case Status.RELEASING | Status.DISK_ERASING:
            return Wait(f"MAAS: {machine.status.label}", pause_s=15)
        case _ if machine.locked:
            return Stuck(f"{name} is locked in MAAS: unlock it", ours=True)
        case Status.DEPLOYED:
            has = f"epoch {receipt.epoch}" if receipt is not None else "no receipt"
            return Act(Release(machine.system_id), f"has {has}, epoch {epoch} is wished", erases=True, pause_s=15)
        case Status.FAILED_DEPLOYMENT if seen.sent >= seen.tries:
            return Stuck(f"deployment failed {seen.sent} times: {seen.reason}")
        case Status.FAILED_DEPLOYMENT:
            return Act(Release(machine.system_id), f"deployment failed: {seen.reason}", pause_s=15)
        case Status.READY:
            return _ready(goal, machine)
        case Status.ALLOCATED:
            return _allocated(goal, machine)
        case Status.NEW:
            return Stuck(
                "MAAS put it back to New, its commissioning no longer counts: run the same command again", True
            )
        case Status.BROKEN:
            why = machine.error_description or "no reason given"
            return Stuck(f"marked broken in MAAS ({why}): mark it fixed there", ours=True)
        case status:
            return Stuck(f"MAAS: {status.label}; this needs a decision in MAAS", ours=True)


def _by_hand(goal: Goal, machine: Machine) -> Decision:
    """No receipt: somebody else's work. Only a wish to erase (an epoch above the first) may end it."""
    name, status = machine.hostname, machine.status
    if goal.image_epoch > 1 and status is not Status.DEPLOYING and not machine.locked:
        why = f"{status.label} by hand, epoch {goal.image_epoch} is wished"
        return Act(Release(machine.system_id), why, erases=True, pause_s=15)
    return Stuck(
        f"{status.label} by hand, without our receipt; to accept what is on it: provision adopt {name}; "
        f"to install it afresh: provision reimage {name} --yes-erase {name}",
        ours=True,
    )


def choose_disk(goal: Goal, machine: Machine) -> MaasDisk | Stuck:
    """The one drive that the profile's rule matches. None or two: nothing is installed, the candidates are listed."""
    rule = goal.profile.boot_disk
    matches = [disk for disk in machine.disks if rule.matches(disk.facts)]
    if len(matches) == 1:
        return matches[0]
    listed = "; ".join(
        f"{disk.facts.model} serial {disk.facts.serial}, {disk.facts.size_bytes / 1e9:.0f} GB"
        for disk in (matches or machine.disks)
    )
    found = f"{len(matches)} drives match" if matches else f"none of {len(machine.disks)} drives matches"
    return Stuck(f"boot disk: {found} the rule ({rule}), exactly one was expected: {listed or 'MAAS lists no drive'}")


def _ready(goal: Goal, machine: Machine) -> Decision:
    disk = choose_disk(goal, machine)
    if isinstance(disk, Stuck):
        return disk
    if machine.boot_disk_id != disk.id:
        return Act(SetBootDisk(machine.system_id, disk.id), f"boot disk is {disk.facts.model} {disk.facts.serial}")
    if machine.root_disk_ids != (disk.id,):
        step = SetLayout(machine.system_id, goal.profile.image.layout, disk.id)
        return Act(step, f"/ is to lie on {disk.facts.serial}")
    return Act(Allocate(machine.system_id), "a receipt needs an owner")


def _allocated(goal: Goal, machine: Machine) -> Decision:
    disk = choose_disk(goal, machine)
    if isinstance(disk, Stuck):
        return disk
    if machine.root_disk_ids != (disk.id,):
        return Stuck(
            f"allocated with / on another drive than {disk.facts.serial}; MAAS moves it in Ready only: release it "
            f"there and run again",
            ours=True,
        )
    image, had = str(goal.profile.image), machine.receipt
    if had is None or had.epoch < goal.image_epoch or had.image != image:
        wish = Receipt(max(goal.image_epoch, had.epoch if had is not None else 0), image)
        return Act(WriteReceipt(machine.system_id, wish), f"epoch {wish.epoch}, {image}")
    step = Deploy(machine.system_id, goal.profile.image.series, goal.profile.image.kernel)
    return Act(step, f"install {image} on {disk.facts.serial}", pause_s=60, operation=OPERATION)


class DeployStage:
    """MAAS: the right disk, the receipt, the installation."""

    name = "deploy"
    # Two installations, each up to MAAS's own hour, and the releases between them.
    deadline_s = 9000.0
    max_acts = 2

    async def observe(self, node: Node, tools: Tools) -> Deployment:
        """Read the machine; BMC, results and events only where the state asks for them."""
        machine = await find_machine(node, tools)
        sent = count(tools, "deploy.sent")
        tries = tools.site.max_acts.get(self.name, TRIES)
        if machine is None:
            return Deployment(None, sent, tries)
        evidence = [status_evidence(node, machine, tools)]
        results: tuple[ScriptResult, ...] = ()
        events: tuple[MaasEvent, ...] = ()
        boot, reason = None, ""
        if machine.status is Status.DEPLOYING and tools.site.power_by is PowerBy.PROVISION:
            if not tools.notes.get(f"{OPERATION}.pressed"):
                results, events = (
                    await tools.maas.results(machine.system_id),
                    await tools.maas.events(machine.system_id),
                )
            start = began(events, "deploying")
            boot = await observe_boot(tools, OPERATION, start, contact=heard(results, events, "installation", start))
            evidence.append(boot_evidence(node, boot, tools))
        if machine.status is Status.FAILED_DEPLOYMENT:
            results, events = await tools.maas.results(machine.system_id), await tools.maas.events(machine.system_id)
            reason = failure_reason("installation", results, events)
            evidence.extend((*results_evidence(node, results, tools), *events_evidence(node, events)))
        return Deployment(machine, sent, tries, boot, reason, evidence=tuple(evidence))

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
            case Deploy(system_id, series, kernel):
                forget(tools, OPERATION)
                tools.notes["deploy.sent"] = count(tools, "deploy.sent") + 1
                user_data = tools.user_data(node, await tools.shell.new_host_key(node.name))
                await maas.deploy(system_id, DeploySpec(series, kernel, user_data))
            case Release(system_id):
                await maas.release(system_id, "released by provision")
            case _:
                if not await act_boot(step, tools, OPERATION):
                    raise TypeError(f"deploy does not know {step.name}")

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        return f"install {goal.profile.image} on the drive with {goal.profile.boot_disk} (epoch {goal.image_epoch})"
