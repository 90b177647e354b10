"""MAAS boots the machine from the network and takes its inventory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from provision.errors import UnavailableError
from provision.model.bmc import BmcStatus, Power
from provision.model.decision import Act, Decision, Done, Seen, Step, Stuck, Wait
from provision.model.evidence import Evidence, Gap, Part, PartKind, Reading
from provision.model.machine import MaasEvent, Machine, ScriptResult, Status
from provision.model.node import Node
from provision.model.profile import Goal
from provision.model.site import PowerBy
from provision.ports import Tools
from provision.stages.boot import Boot, act_boot, began, boot_evidence, forget, heard, next_move, observe_boot
from provision.stages.disk import stale
from provision.stages.lookup import (
    boot_port,
    count,
    events_evidence,
    failure_reason,
    find_machine,
    marked_by_us,
    narrow,
    noted_drives,
    port_mac,
    results_evidence,
    status_evidence,
)

OPERATION = "commissioning"
# POST of a machine with eight GPUs and a full set of DIMMs may take ten minutes; MAAS itself gives up after thirty.
CONTACT_S = 1200.0
MAAS_GIVES_UP_S = 1800.0
# MAAS takes the machine back to New when its own power command fails; that is worth one repetition (facts: pains, 1).
TRIES = 2


@dataclass(frozen=True, slots=True)
class Commission(Step):
    """Start commissioning with the site's scripts."""

    system_id: str
    scripts: tuple[str, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Abort(Step):
    """Stop a commissioning of which MAAS never heard."""

    system_id: str


@dataclass(frozen=True, slots=True)
class MarkFixed(Step):
    """Take away the broken mark that we set: what it was for is repaired, or is to be tried again."""

    system_id: str


@dataclass(frozen=True, slots=True)
class Commissioning(Seen):
    """``sent`` and ``aborted`` count this run's writes; ``contact`` is None while nobody looked whether MAAS heard of
    the booted machine; ``silent_s`` counts from when this run saw it commissioning, paces removed; ``stale`` is why
    what MAAS knows of the machine's drives is not true any more, or empty."""

    machine: Machine | None
    scripts: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    sent: int = 0
    aborted: int = 0
    contact: bool | None = None
    silent_s: float = 0.0
    boot: Boot | None = None
    bmc: BmcStatus | None = None
    reason: str = ""
    stale: str = ""


def decide(goal: Goal, seen: Commissioning) -> Decision:  # noqa: PLR0912 - one branch per line of the table
    """Towards Ready. Pure."""
    machine = seen.machine
    if machine is None:
        return Stuck("MAAS no longer knows this machine: it was deleted while we worked", ours=True)
    match machine.status:
        case Status.READY if seen.stale and seen.sent == 0 and not machine.locked:
            return _commission(machine, seen, seen.stale)
        case Status.READY | Status.ALLOCATED | Status.DEPLOYING | Status.DEPLOYED | Status.FAILED_DEPLOYMENT:
            return Done(f"MAAS: {machine.status.label}")
        case Status.NEW | Status.FAILED_COMMISSIONING if machine.locked:
            return Stuck(f"{machine.hostname} is locked in MAAS: unlock it", ours=True)
        case Status.NEW if power_failed(machine) and seen.sent >= TRIES:
            return Stuck(f"MAAS cannot press the power button over the BMC: {machine.status_message}")
        case Status.NEW:
            return _commission(machine, seen, "MAAS: New")
        case Status.COMMISSIONING | Status.TESTING:
            return _going_on(machine, seen)
        case Status.FAILED_COMMISSIONING if seen.sent == 0:
            # The failure is older than this run: since then somebody may have repaired what it was.
            return _commission(machine, seen, "an earlier commissioning failed")
        case Status.FAILED_COMMISSIONING:
            return Stuck(f"commissioning failed: {seen.reason}")
        case Status.FAILED_TESTING:
            return Stuck(f"MAAS's hardware tests failed: {seen.reason}; override or repeat them in MAAS")
        case Status.RELEASING | Status.DISK_ERASING:
            return Wait(f"MAAS: {machine.status.label}", pause_s=15)
        case Status.BROKEN if marked_by_us(machine) and not machine.locked:
            # Whoever comes here has passed every check of its parts since.
            return Act(MarkFixed(machine.system_id), f"marked broken by us ({machine.error_description})", pause_s=5)
        case Status.BROKEN:
            why = machine.error_description or "no reason given"
            return Stuck(f"marked broken in MAAS ({why}): mark it fixed there", ours=True)
        case status:
            return Stuck(f"MAAS: {status.label}; this needs a decision in MAAS", ours=True)


def power_failed(machine: Machine) -> bool:
    """New with this message means that MAAS's power command failed (facts: commissioning, failure)."""
    message = machine.status_message.lower()
    return "query node's bmc" in message or "reverting to new" in message


# DSP0268 "BootProgress": what comes before the firmware has found its boot devices.
_IN_POST = ("processor", "businit", "memory", "pciresource", "hardwareinit", "post")


def silence(bmc: BmcStatus | None) -> str:
    """What a silent machine is, by the BMC: off, hanging in POST (a dead boot), or up without a way to MAAS."""
    if bmc is not None and bmc.power is Power.OFF:
        return "the BMC says it is off: it lost power or never came on"
    progress = bmc.progress if bmc is not None else None
    if not progress or progress == "None":
        return "the BMC does not say how far it booted; link, VLAN or DHCP, or a dead boot"
    word = progress.lower().replace(" ", "")
    if any(sign in word for sign in _IN_POST) and "complete" not in word:
        return f"it hangs in POST ({progress}): a dead boot, the network has not been asked yet"
    return f"POST is over ({progress}): link, VLAN, DHCP, or the way to MAAS's metadata"


def _commission(machine: Machine, seen: Commissioning, why: str) -> Act:
    return Act(Commission(machine.system_id, seen.scripts, seen.tests), why, pause_s=30, operation=OPERATION)


def _going_on(machine: Machine, seen: Commissioning) -> Decision:
    if seen.contact:
        return Wait(f"MAAS: {machine.status.label}", pause_s=30, operation=OPERATION)
    if seen.boot is not None and (move := next_move(seen.boot, OPERATION)) is not None:
        return move
    if seen.silent_s > CONTACT_S:
        minutes = round(seen.silent_s / 60)
        if seen.aborted == 0:
            why = f"MAAS heard nothing of it for {minutes} minutes: {silence(seen.bmc)}"
            return Act(Abort(machine.system_id), why, pause_s=10)
        return Stuck(
            f"booted from the network twice and MAAS never heard of it ({minutes} minutes): {silence(seen.bmc)}"
        )
    progress = f"; BMC: {seen.bmc.progress}" if seen.bmc is not None and seen.bmc.progress else ""
    return Wait(f"MAAS: {machine.status.label}{progress}", pause_s=30, operation=OPERATION)


class CommissionStage:
    """MAAS: New → Ready, with a network boot by whoever has the button."""

    name = "commission"
    # Twice the wait for contact, twice POST, scripts, and MAAS's own half hour.
    deadline_s = 7200.0
    max_acts = 3

    async def observe(self, node: Node, tools: Tools) -> Commissioning:
        """Read the machine; BMC, results and events only where the state asks for them."""
        machine = await find_machine(node, tools)
        sent, aborted = count(tools, "commission.sent"), count(tools, "commission.aborted")
        site = tools.site
        seen = Commissioning(machine, site.commissioning_scripts, site.testing_scripts, sent, aborted)
        if machine is None:
            return seen
        match machine.status:
            case Status.COMMISSIONING | Status.TESTING:
                return await _observe_going_on(node, machine, tools, seen)
            case Status.FAILED_COMMISSIONING | Status.FAILED_TESTING if sent or machine.status is Status.FAILED_TESTING:
                return await _observe_failed(node, machine, tools, seen)
            case Status.READY:
                port = boot_port(tools.goal.profile, await tools.bmc.harvest())
                mac = port_mac(port) if port is not None else None
                return replace(seen, stale=stale(tools.goal, machine, noted_drives(tools), mac))
            case _:
                return seen

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """See ``decide`` above."""
        return decide(goal, narrow(seen, Commissioning))

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """Commission, abort, or a move of the network boot."""
        match step:
            case Commission(system_id, scripts, tests):
                forget(tools, OPERATION)
                tools.notes["commission.sent"] = count(tools, "commission.sent") + 1
                await tools.maas.commission(system_id, scripts=scripts, tests=tests)
            case Abort(system_id):
                forget(tools, OPERATION)
                tools.notes["commission.aborted"] = count(tools, "commission.aborted") + 1
                await tools.maas.abort(system_id, "no contact after a network boot; started again by provision")
            case MarkFixed(system_id):
                await tools.maas.mark_fixed(system_id, "tried again by provision")
            case _:
                if not await act_boot(step, tools, OPERATION):
                    raise TypeError(f"commission does not know {step.name}")

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        return "commission it in MAAS (boots from the network)"


async def _observe_going_on(node: Node, machine: Machine, tools: Tools, seen: Commissioning) -> Commissioning:
    since = tools.notes.setdefault(f"{OPERATION}.silent", tools.clock.monotonic())
    silent_s = (tools.clock.monotonic() - (since if isinstance(since, float) else 0.0)) / tools.site.pace
    ours = tools.site.power_by is PowerBy.PROVISION
    contact: bool | None = True if tools.notes.get(f"{OPERATION}.contact") else None
    results: tuple[ScriptResult, ...] = ()
    events: tuple[MaasEvent, ...] = ()
    unsure = ours and not tools.notes.get(f"{OPERATION}.pressed")
    # Results are a request per node: asked for only when the answer decides something.
    if contact is None and (silent_s > CONTACT_S or unsure):
        results, events = await tools.maas.results(machine.system_id), await tools.maas.events(machine.system_id)
        run = "testing" if machine.status is Status.TESTING else OPERATION
        contact = heard(results, events, run, began(events, OPERATION))
        if contact:
            tools.notes[f"{OPERATION}.contact"] = True
    boot, bmc, gaps = None, None, seen.gaps
    if ours and not contact:
        boot = await observe_boot(tools, OPERATION, began(events, OPERATION), contact=bool(contact))
        bmc = boot.status
    elif not contact:
        try:
            bmc = await tools.bmc.status()
        except UnavailableError as error:
            # MAAS has the button here: a BMC that is busy in POST is no reason to stop watching MAAS.
            gaps = (*gaps, Gap("redfish/host", "POST progress", str(error)))
    evidence = [status_evidence(node, machine, tools)]
    if boot is not None:
        evidence.append(boot_evidence(node, boot, tools))
    if contact is False and silent_s > CONTACT_S:
        evidence.append(await _no_contact(node, bmc, silent_s, tools))
        evidence.extend(events_evidence(node, events))
    return Commissioning(
        machine, seen.scripts, seen.tests, seen.sent, seen.aborted, contact, silent_s, boot, bmc,
        evidence=tuple(evidence), gaps=gaps,
    )  # fmt: skip


async def _observe_failed(node: Node, machine: Machine, tools: Tools, seen: Commissioning) -> Commissioning:
    results, events = await tools.maas.results(machine.system_id), await tools.maas.events(machine.system_id)
    run = "testing" if machine.status is Status.FAILED_TESTING else OPERATION
    evidence = [
        status_evidence(node, machine, tools),
        *results_evidence(node, results, tools),
        *events_evidence(node, events),
    ]
    reason = failure_reason(run, results, events)
    if run == OPERATION and not heard(results, events, run, began(events, OPERATION)):
        # MAAS gave up before our own patience ended: the same silence, seen from the other side.
        status = await tools.bmc.status()
        evidence.append(await _no_contact(node, status, MAAS_GIVES_UP_S, tools))
        reason = f"MAAS never heard of the machine after its network boot, and {silence(status)} ({reason})"
    return Commissioning(
        machine,
        seen.scripts,
        seen.tests,
        seen.sent,
        seen.aborted,
        reason=reason,
        evidence=tuple(evidence),
        gaps=seen.gaps,
    )


async def _no_contact(node: Node, bmc: BmcStatus | None, silent_s: float, tools: Tools) -> Evidence:
    """``maas/contact``: the machine was started and MAAS never heard of it."""
    port = boot_port(tools.goal.profile, await tools.bmc.harvest())
    return Evidence(
        node=node.name,
        part=Part(PartKind.BOOT, "network boot", port.locator if port is not None else node.name),
        reading=Reading.DOWN,
        source="maas/contact",
        seen_at=tools.clock.now(),
        values={
            "power": str(bmc.power) if bmc is not None else None,
            "progress": bmc.progress if bmc is not None else None,
            "link": str(port.link) if port is not None else None,
            "waited_s": round(silent_s),
            "mac": str(port_mac(port)) if port is not None else None,
        },
    )
