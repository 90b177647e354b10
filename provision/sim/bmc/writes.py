"""What may be written to a BMC, and how it refuses. Every write is counted when it arrives, refused ones too."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from provision.sim.bmc.answers import AnswerError, success
from provision.sim.bmc.manager import ATTRIBUTES, JOBS
from provision.sim.bmc.shapes import MANAGER, Resource
from provision.sim.bmc.system import BOOT_ENABLED, BOOT_MODES, BOOT_TARGETS
from provision.sim.machine import PressRefusedError, SimMachine

MANAGER_RESTART_S = 180  # an iDRAC takes two to seven minutes until Redfish is complete again


def reset_path(machine: SimMachine) -> str:
    """Where the power button is pressed."""
    return f"{machine.family.system}/Actions/ComputerSystem.Reset"


def manager_reset_path(machine: SimMachine) -> str:
    """Where the BMC is restarted."""
    return f"{machine.family.manager}/Actions/Manager.Reset"


def name_of(machine: SimMachine, method: str, path: str, body: Mapping[str, Any]) -> str:
    """Under which name a write is counted."""
    row = machine.family
    if path == reset_path(machine):
        return f"bmc:reset:{body.get('ResetType')}"
    if path in {row.system, row.settings}:
        return "bmc:boot" if "Boot" in body else "bmc:system"
    names = {
        row.manager: "bmc:clock",
        manager_reset_path(machine): "bmc:manager-reset",
        f"{row.system}/Bios/Settings": "bmc:bios",
        JOBS: "bmc:job",
        ATTRIBUTES: "bmc:attributes",
        f"{MANAGER}/Attributes": "bmc:attributes",
    }
    return names.get(path, f"bmc:other:{method}")


async def write(machine: SimMachine, method: str, path: str, body: Mapping[str, Any]) -> tuple[int, Resource | None]:
    """Carry out a write. Returns status and body of the answer. Raises AnswerError."""
    row = machine.family
    match method, path:
        case "POST", _ if path == reset_path(machine):
            return await _reset(machine, body)
        case "POST", _ if path == manager_reset_path(machine):
            _one_of("ResetType", body.get("ResetType"), ("GracefulRestart",))
            machine.inject("bmc_busy", str(MANAGER_RESTART_S))
            return 204, None
        case "POST", _ if path == JOBS and row.dell:
            text = "The pending values are committed already."
            raise AnswerError(400, "SYS011", text)
        case "PATCH", _ if path in {row.system, row.settings}:
            _lockdown(machine)
            return _boot(machine, path, body)
        case "PATCH", _ if path == row.manager:
            return _clock(machine, body)
        case "PATCH", _ if path == f"{row.system}/Bios/Settings":
            _lockdown(machine)
            return _bios(machine, body)
        case "PATCH", _ if path in {ATTRIBUTES, f"{MANAGER}/Attributes"}:
            return _attributes(machine, body)
    raise AnswerError(405, "SYS402", "This method is not allowed here.", severity="Informational")


def _lockdown(machine: SimMachine) -> None:
    if machine.has_fault("lockdown"):
        text = "The System Lockdown mode is on, so the configuration cannot be changed."
        raise AnswerError(400, "SYS406", text, severity="Informational")


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if value is None:
        raise AnswerError(400, "SYS428", f"The property {name} is required.", name)
    if value not in allowed:
        text = f"The value {value} of the property {name} is not in the list of acceptable values."
        raise AnswerError(400, "SYS426", text, str(value), name)
    return str(value)


async def _reset(machine: SimMachine, body: Mapping[str, Any]) -> tuple[int, Resource | None]:
    kind = _one_of("ResetType", body.get("ResetType"), machine.family.resets)
    try:
        await machine.press(kind)
    except PressRefusedError as error:
        code = error.code if machine.family.dell else "iLO.2.14.InvalidOperationForSystemState"
        raise AnswerError(machine.family.already, code, str(error), severity="Informational") from None
    return 204, None


def _boot(machine: SimMachine, path: str, body: Mapping[str, Any]) -> tuple[int, Resource | None]:
    row = machine.family
    boot = body.get("Boot")
    if not isinstance(boot, dict) or not boot or set(body) - {"Boot"}:
        unknown = next(iter(set(body) - {"Boot"}), "Boot")
        raise AnswerError(400, "SYS429", f"The property {unknown} is not valid here.", unknown)
    known = {
        "BootSourceOverrideTarget": BOOT_TARGETS,
        "BootSourceOverrideEnabled": BOOT_ENABLED,
        "BootSourceOverrideMode": BOOT_MODES,
    }
    for name, value in boot.items():
        if name not in known:
            raise AnswerError(400, "SYS429", f"The property {name} is not valid here.", name)
        _one_of(name, value, known[name])
    if (path == row.settings) != row.override_in_settings:
        name = next(iter(boot))
        code = row.elsewhere if path == row.system else "SYS427"
        where = row.settings if path == row.system else row.system
        raise AnswerError(400, code, f"The property {name} is not written here but at {where}.", name)
    override = machine.boot_override
    if row.whole_boot:
        # What is left out of the object falls back: Supermicro answers 200 and shows Legacy, Disabled (R17).
        boot = {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideMode": "Legacy", **boot}
    override.target = boot.get("BootSourceOverrideTarget", override.target)
    override.enabled = boot.get("BootSourceOverrideEnabled", override.enabled)
    if override.enabled == "Disabled":
        override.target = "None"
    if "BootSourceOverrideMode" in boot and not row.mode_makes_job:
        override.mode = boot["BootSourceOverrideMode"]
    elif "BootSourceOverrideMode" in boot:
        # Naming the mode, also the one it has, queues a BIOS job and costs a second boot (R660, iDRAC 7.10.30.05).
        override.mode = boot["BootSourceOverrideMode"]
        machine.queue_job({})
    return (200, success()) if row.dell else (204, None)


def _clock(machine: SimMachine, body: Mapping[str, Any]) -> tuple[int, Resource | None]:
    if set(body) != {"DateTime"}:
        name = next(iter(set(body) - {"DateTime"}), "DateTime")
        raise AnswerError(400, "SYS429", f"The property {name} is not valid here.", name)
    if machine.ntp:
        raise AnswerError(400, "RAC059", "The time cannot be set while NTP is on.")
    try:
        wanted = datetime.fromisoformat(str(body["DateTime"]))
    except ValueError:
        wanted = None
    if wanted is None or wanted.tzinfo is None or wanted.microsecond:
        text = f"The value {body['DateTime']} of the property DateTime is not a time with zone and whole seconds."
        raise AnswerError(400, "SYS409", text, str(body["DateTime"]), "DateTime")
    machine.set_bmc_clock((wanted - machine.world.clock.now()).total_seconds())
    return 200, success()


def _bios(machine: SimMachine, body: Mapping[str, Any]) -> tuple[int, Resource | None]:
    attributes = body.get("Attributes")
    if not isinstance(attributes, dict) or not attributes:
        raise AnswerError(400, "SYS428", "The property Attributes is required.", "Attributes")
    for name in attributes:
        if name not in machine.bios:
            raise AnswerError(400, "SYS429", f"The property {name} is not valid here.", name)
    if any(job.state == "Scheduled" for job in machine.jobs):
        raise AnswerError(400, "SYS011", "The pending values are committed already.")
    job = machine.queue_job({name: str(value) for name, value in attributes.items()})
    return 202, {"@odata.id": f"{JOBS}/{job.name}"}


def _attributes(machine: SimMachine, body: Mapping[str, Any]) -> tuple[int, Resource | None]:
    attributes = body.get("Attributes")
    if not isinstance(attributes, dict) or not attributes:
        raise AnswerError(400, "SYS428", "The property Attributes is required.", "Attributes")
    for name, value in attributes.items():
        if name != "NTPConfigGroup.1.NTPEnable":
            raise AnswerError(400, "SYS427", f"The property {name} is read-only.", name)
        machine.ntp = _one_of(name, value, ("Enabled", "Disabled")) == "Enabled"
    return 200, success()
