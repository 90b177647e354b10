"""Is the machine whole, and would a network boot get through? Found here, before an hour of time-outs."""

from __future__ import annotations

from dataclasses import dataclass

from provision.errors import CredentialRefusedError, GarbledError, RefusedError
from provision.model.bmc import BmcClock, BootReadiness, Button
from provision.model.decision import Act, Decision, Done, Seen, Step, Stuck, Wait
from provision.model.evidence import Evidence, Gap, Part, PartKind, Reading
from provision.model.finding import Dispatch, Finding
from provision.model.machine import Status
from provision.model.node import Node
from provision.model.profile import BootMethod, Goal
from provision.model.site import PowerBy
from provision.ports import Tools
from provision.stages.lookup import find_machine, holds_wish, narrow, note_drives


@dataclass(frozen=True, slots=True)
class SetClock(Step):
    """Our time into the BMC."""


@dataclass(frozen=True, slots=True)
class EnableNetworkDevice(Step):
    """BIOS settings for the next start: try the network by these methods."""

    methods: tuple[BootMethod, ...]


@dataclass(frozen=True, slots=True)
class StartForBios(Step):
    """One start of the host, in which BIOS takes over the settings that wait."""


@dataclass(frozen=True, slots=True)
class Flight(Seen):
    """``clock`` and ``readiness`` are None where the BMC does not say or it was not asked.

    ``installed``: the machine already holds the wished image, so that no network boot is needed. ``bios_is_ours``: the
    site lets us change BIOS settings, and nobody uses the machine. ``started``: this run started it for them.
    """

    clock: BmcClock | None
    max_offset_s: float
    readiness: BootReadiness | None
    installed: bool
    bios_is_ours: bool = False
    power_by: PowerBy = PowerBy.PROVISION
    started: bool = False


# The finding for a version that the profile wants before anything is begun.
REQUIRED_FIRMWARE = "FIRMWARE-REQUIRED"


def clock_is_off(clock: BmcClock | None, max_offset_s: float) -> bool:
    """True if the BMC's clock is known and further off than the site allows."""
    return clock is not None and abs(clock.offset_s) > max_offset_s


def obstacles(readiness: BootReadiness | None) -> tuple[str, ...]:
    """What would stop a network boot, one sentence each. What the BMC does not say is no obstacle."""
    if readiness is None:
        return ()
    found = []
    if readiness.lockdown:
        found.append("the BMC is in lockdown and refuses changes: switch system lockdown off")
    if readiness.network_device_enabled is False:
        found.append("no network boot device is enabled in the BIOS: enable PXE or HTTP boot on the boot port")
    if readiness.pending_jobs:
        jobs = ", ".join(readiness.pending_jobs)
        found.append(f"configuration jobs wait for the next boot ({jobs}): let them run or delete them")
    return tuple(found)


def worst(findings: tuple[Finding, ...]) -> str:
    """The blocking findings as one sentence, the surest first."""
    ordered = sorted(findings, key=lambda finding: -finding.confidence)
    return "; ".join(f"{f.part.locator}: {f.ask or f.rule}" for f in ordered[:3]) + (
        f"; and {len(ordered) - 3} more" if len(ordered) > 3 else ""
    )


def decide(goal: Goal, seen: Flight) -> Decision:
    """Clock first (log times are judged by it), then broken parts, then what stops a boot that is needed. Pure."""
    if clock_is_off(seen.clock, seen.max_offset_s) and seen.clock is not None:
        off = f"BMC clock is {seen.clock.offset_s:+.0f} s off"
        if not seen.clock.ntp:
            return Act(SetClock(), off, pause_s=5)
        if not seen.installed:
            return Stuck(f"{off} though its NTP is on, so it cannot be set: correct its NTP servers", ours=True)
    blocking = tuple(f for f in seen.findings if f.dispatch is not Dispatch.NEVER)
    if blocking:
        return Stuck(worst(blocking))
    unfit = tuple(f for f in seen.findings if f.rule == REQUIRED_FIRMWARE)
    if unfit:
        return Stuck(worst(unfit), ours=True)
    stops = obstacles(seen.readiness)
    if stops and not seen.installed:
        return _through_bios(goal, seen) or Stuck("; ".join(stops), ours=True)
    return Done("; ".join(stops) or "all parts as the profile wants them")


def _through_bios(goal: Goal, seen: Flight) -> Act | Wait | None:
    """Enable network boot in BIOS and pay the start that it costs; None where that is not ours to do.

    Jobs of others are respected: settings are only added where none wait, and a start is only given to our own.
    """
    ready = seen.readiness
    if ready is None or not seen.bios_is_ours or ready.network_device_enabled is not False or ready.lockdown:
        return None
    if ready.network_device_pending and seen.started:
        return Wait("the host starts to take over its BIOS settings (network boot on)", pause_s=30)
    if ready.network_device_pending:
        return Act(StartForBios(), "BIOS settings wait for a start: network boot on", pause_s=30)
    if ready.pending_jobs:
        return None
    why = "no network boot device is enabled in the BIOS, and the site lets us enable it"
    # MAAS's Redfish driver sets the override to PXE, whatever the profile says (facts: maas).
    pressed = (BootMethod.PXE,) if seen.power_by is PowerBy.MAAS else ()
    methods = tuple(dict.fromkeys((goal.profile.boot_method, *pressed)))
    return Act(EnableNetworkDevice(methods), why, pause_s=10)


# What MAAS does with a machine while nobody works on it or with it.
_IDLE = {
    Status.NEW,
    Status.READY,
    Status.ALLOCATED,
    Status.BROKEN,
    Status.FAILED_COMMISSIONING,
    Status.FAILED_DEPLOYMENT,
    Status.FAILED_TESTING,
}


class Preflight:
    """BMC health against profile and cabling plan, clock, what stops a network boot."""

    name = "preflight"
    deadline_s = 900.0
    max_acts = 2

    async def observe(self, node: Node, tools: Tools) -> Flight:
        """Read clock, health and readiness; MAAS only where an obstacle would stop a boot."""
        clock, gaps = await _clock(tools)
        limit = tools.site.max_clock_offset_s
        evidence = [_answer(node, tools)]
        if clock is not None:
            evidence.append(_offset(node, clock, tools))
        if clock_is_off(clock, limit) and clock is not None and not clock.ntp:
            # With a wrong clock the log's times mean nothing; health is read after it was set.
            return Flight(clock, limit, None, installed=False, evidence=tuple(evidence), gaps=gaps)
        health = await tools.bmc.health()
        readiness = await tools.bmc.readiness()
        installed = ours = False
        if obstacles(readiness) or clock_is_off(clock, limit):
            machine = await find_machine(node, tools)
            installed = holds_wish(machine, tools.goal.image_epoch)
            ours = tools.site.may_change_bios and (machine is None or machine.status in _IDLE)
        evidence.extend(health.evidence)
        note_drives(tools, health.evidence)
        gaps += health.gaps + readiness.gaps
        verdict = tools.judge(node, tools.goal.profile, evidence, gaps, tools.clock.now())
        return Flight(
            clock,
            limit,
            readiness,
            installed,
            bios_is_ours=ours,
            power_by=tools.site.power_by,
            started=bool(tools.notes.get("preflight.started")),
            evidence=tuple(evidence),
            gaps=gaps,
            findings=verdict.findings,
        )

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """See ``decide`` above."""
        return decide(goal, narrow(seen, Flight))

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """Set the clock; enable network boot in BIOS."""
        match step:
            case SetClock():
                await tools.bmc.set_clock()
            case EnableNetworkDevice(methods):
                await tools.bmc.enable_network_device(methods)
            case StartForBios():
                # Noted before it is sent: an answer that never comes must not press twice.
                tools.notes["preflight.started"] = True
                await tools.bmc.press(Button.RESTART)
            case _:
                raise TypeError(f"preflight does not know {step.name}")

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        return "check every part against the profile, and the BMC's clock"


async def _clock(tools: Tools) -> tuple[BmcClock | None, tuple[Gap, ...]]:
    try:
        return await tools.bmc.clock(), ()
    except CredentialRefusedError:
        raise
    except (GarbledError, RefusedError) as error:
        # Some BMCs have no clock to show (or none before a time zone is set): unknown, and no reason to stop.
        return None, (Gap("clock/offset", "BMC clock", str(error)),)


def _answer(node: Node, tools: Tools) -> Evidence:
    port = Part(PartKind.BMC, "BMC", "BMC port")
    return Evidence(node.name, port, Reading.OK, "bmc/answer", tools.clock.now())


def _offset(node: Node, clock: BmcClock, tools: Tools) -> Evidence:
    part = Part(PartKind.CLOCK, "BMC clock", "BMC clock")
    values = {"offset_s": clock.offset_s, "limit_s": tools.site.max_clock_offset_s}
    return Evidence(node.name, part, Reading.FACT, "clock/offset", tools.clock.now(), values=values)
