"""Network boot by our own hand, for sites with ``power_by: provision``: a table shared by commission and deploy.

The order is: MAAS is told first (it answers the boot), then the override is set and read back, then the button is
pressed. Every boot that needs the network gets its own override: it is spent by the first boot, and an installer may
put itself first in the boot order (facts: redfish, boot and power).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from provision.model.bmc import BmcStatus, Button, Power
from provision.model.decision import Act, Step, Stuck, Wait
from provision.model.evidence import Evidence, Part, PartKind, Reading
from provision.model.machine import MaasEvent, ScriptResult
from provision.model.node import Node
from provision.model.profile import BootMethod
from provision.ports import Tools
from provision.stages.lookup import count, script_began

# BMC and MAAS clocks may differ by as much as preflight lets pass.
CLOCKS_DIFFER = timedelta(seconds=90)
# Times of one clock, MAAS's own, to the second.
_ROUNDED = timedelta(seconds=2)
# A BMC may need a moment to show what it stored; one repetition tells forgetting from slowness.
ASKS = 2
_TARGETS = {BootMethod.PXE: "Pxe", BootMethod.UEFI_HTTP: "UefiHttp"}
_SIGNS_OF_LIFE = (
    "pxe",
    "http boot",
    "tftp",
    "loading",
    "installing",
    "configuring",
    "rebooting",
    "gathering",
    "running",
)


@dataclass(frozen=True, slots=True)
class SetNetworkBoot(Step):
    """The next boot goes to the network."""

    method: BootMethod


@dataclass(frozen=True, slots=True)
class Press(Step):
    """The power button."""

    button: Button


@dataclass(frozen=True, slots=True)
class Boot:
    """How far the network boot of one operation is. ``asks`` and ``pressed`` are of this operation."""

    status: BmcStatus
    method: BootMethod
    asks: int
    pressed: bool

    @property
    def stored(self) -> bool:
        """True if the BMC reads back the very method that is wanted: some accept UEFI HTTP and stay with PXE."""
        return self.status.network_boot_set and self.status.boot_target == _TARGETS[self.method]


def next_move(boot: Boot, operation: str) -> Act | Wait | Stuck | None:
    """The next move towards a network boot; None when the button was pressed for it. Pure."""
    if boot.pressed:
        return None
    if not boot.stored:
        if boot.asks >= ASKS:
            return Stuck(
                f"BMC accepts the network boot and does not store it: asked for {boot.method}, "
                f"reads back {boot.status.boot_target or 'nothing'}/{boot.status.boot_enabled or 'nothing'}"
            )
        return Act(SetNetworkBoot(boot.method), "next boot goes to the network", pause_s=5, operation=operation)
    why = f"boot from the network{once_more(boot.status)}"
    match boot.status.power:
        case Power.OFF:
            return Act(Press(Button.ON), why, pause_s=20, operation=operation)
        case Power.ON:
            return Act(Press(Button.RESTART), why, pause_s=20, operation=operation)
        case power:
            return Wait(f"power is {power}", pause_s=5, operation=operation)


def once_more(status: BmcStatus) -> str:
    """What the BMC's own jobs add to a boot, to be said behind it; empty if it made none of the override (R16)."""
    jobs = ", ".join(status.boot_jobs)
    return f"; the BMC made a job of the override ({jobs}): the host starts once more for it" if jobs else ""


def forget(tools: Tools, operation: str) -> None:
    """A new operation begins: what was asked and pressed for the last one does not count."""
    for key in ("asks", "pressed", "silent", "contact"):
        tools.notes.pop(f"{operation}.{key}", None)
    tools.notes[f"{operation}.ours"] = True


async def observe_boot(tools: Tools, operation: str, began: datetime | None, *, contact: bool) -> Boot:
    """Read power and override. The button counts as pressed if this run pressed it, the BMC reset since, or MAAS heard.

    Without the second and third sign a crash after the press would press again in the middle of an installation. An
    operation that this run began is told by this run's own press alone: the reset of the operation before it may lie
    within what the clocks differ.
    """
    status = await tools.bmc.status()
    if status.boot_jobs:
        # The start that the job takes is none of the silence that a dead boot is told by.
        tools.notes[f"{operation}.silent"] = tools.clock.monotonic()
    tolerance = CLOCKS_DIFFER * tools.site.pace
    reset = status.last_reset is not None and began is not None and status.last_reset >= began - tolerance
    reset = reset and not tools.notes.get(f"{operation}.ours")
    return Boot(
        status=status,
        method=tools.goal.profile.boot_method,
        asks=count(tools, f"{operation}.asks"),
        pressed=contact or (reset and status.power is not Power.OFF) or bool(tools.notes.get(f"{operation}.pressed")),
    )


async def act_boot(step: Step, tools: Tools, operation: str) -> bool:
    """Send one of this table's steps; False if it is none of them."""
    match step:
        case SetNetworkBoot(method):
            tools.notes[f"{operation}.asks"] = count(tools, f"{operation}.asks") + 1
            await tools.bmc.set_network_boot_once(method)
        case Press(button):
            # Noted before it is sent: an answer that never comes must not press twice.
            tools.notes[f"{operation}.pressed"] = True
            await tools.bmc.press(button)
        case _:
            return False
    return True


def boot_evidence(node: Node, boot: Boot, tools: Tools) -> Evidence:
    """``bmc/boot``: what was asked for against what the BMC reads back."""
    failed = not boot.pressed and boot.asks >= ASKS and not boot.stored
    return Evidence(
        node=node.name,
        part=Part(PartKind.BMC, "boot override", "BMC"),
        reading=Reading.FAILED if failed else Reading.OK,
        source="bmc/boot",
        seen_at=tools.clock.now(),
        values={
            "asked": str(boot.method),
            "read_back": f"{boot.status.boot_target or ''}/{boot.status.boot_enabled or ''}",
            **({"jobs": ", ".join(boot.status.boot_jobs)} if boot.status.boot_jobs else {}),
        },
    )


def began(events: tuple[MaasEvent, ...], word: str) -> datetime | None:
    """When MAAS wrote that the newest ``commissioning`` or ``deploying`` began; None if its log does not say."""
    return next(
        (e.at for e in events if e.type.lower().startswith(word) or f"to '{word}" in e.description.lower()), None
    )


def heard(results: tuple[ScriptResult, ...], events: tuple[MaasEvent, ...], run: str, since: datetime | None) -> bool:
    """True if the booted machine has reached MAAS: a script of this run began, or its log shows a boot since.

    Results of the operation before this one stay in MAAS's lists.
    """
    for result in results:
        old = since is not None and result.started_at is not None and result.started_at < since - _ROUNDED
        if result.run == run and script_began(result) and not old:
            return True
    return since is not None and any(
        event.at >= since and any(sign in event.type.lower() for sign in _SIGNS_OF_LIFE) for event in events
    )
