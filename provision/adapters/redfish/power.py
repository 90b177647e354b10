"""The power button: by what the service allows, once, and with a look where the answer leaves doubt."""

from __future__ import annotations

from provision.adapters.redfish.answers import Json
from provision.adapters.redfish.problems import NoAnswerError
from provision.adapters.redfish.service import Service
from provision.adapters.redfish.session import RedfishSession
from provision.adapters.redfish.values import dig, link, objects, text, texts
from provision.errors import PeerError, RefusedError, UnavailableError
from provision.model.bmc import Button, Power

_STATES = {
    "on": Power.ON,
    "off": Power.OFF,
    "poweringon": Power.TURNING_ON,
    "poweringoff": Power.TURNING_OFF,
}
# First one that is allowed. A graceful shutdown that is not offered is not replaced by force: that is another wish.
_KINDS = {
    Button.ON: ("On", "ForceOn"),
    Button.OFF: ("GracefulShutdown",),
    Button.FORCE_OFF: ("ForceOff",),
    Button.RESTART: ("ForceRestart", "PowerCycle", "GracefulRestart"),
}
_WANTED = {Button.ON: Power.ON, Button.OFF: Power.OFF, Button.FORCE_OFF: Power.OFF}
_NOT_ALLOWED = {
    "ActionParameterNotSupported", "ActionParameterValueNotInList", "PropertyValueNotInList", "SYS426",
    "ActionParameterUnknown", "ActionParameterValueError", "ActionParameterValueTypeError", "UnsupportedOperation",
}  # fmt: skip


def power_of(system: Json) -> Power:
    """``PowerState`` as a Power; anything unheard of is UNKNOWN."""
    return _STATES.get((text(system, "PowerState") or "").lower(), Power.UNKNOWN)


async def press(session: RedfishSession, service: Service, button: Button) -> None:
    """Press once. Being there already is success; a restart of a machine that is off turns it on.

    Raises:
        RefusedError: no allowed reset type fits, or the BMC says no.
        UnavailableError: no answer, and the state does not show that it was carried out.
    """
    system = (await session.get(service.path)).json(session.peer)
    power = power_of(system)
    if power is _WANTED.get(button):
        return
    if button is Button.RESTART and power is Power.OFF:
        button = Button.ON
    target = link(system, "Actions", "#ComputerSystem.Reset", "target") or _default_target(system, service)
    kinds = await _kinds(session, system, button)
    await _press(session, service, target, kinds, button)


def _default_target(system: Json, service: Service) -> str:
    found = dig(system, "Actions", "#ComputerSystem.Reset", "target")
    return found if isinstance(found, str) and found.startswith("/") else (
        f"{service.path.rstrip('/')}/Actions/ComputerSystem.Reset"
    )  # fmt: skip


async def _kinds(session: RedfishSession, system: Json, button: Button) -> list[str]:
    allowed = await allowed_resets(session, system)
    kinds = [kind for kind in _KINDS[button] if not allowed or kind in allowed]
    if not kinds:
        raise RefusedError(
            session.peer,
            f"press {button}",
            f"it allows only {', '.join(sorted(allowed))}"
            + ("; use force-off instead" if button is Button.OFF and "ForceOff" in allowed else ""),
            code="not-offered",
        )
    return kinds


async def allowed_resets(session: RedfishSession, system: Json) -> frozenset[str]:
    """Reset types from the action or its ActionInfo (Supermicro, OpenBMC, DGX); empty where nobody says."""
    action = dig(system, "Actions", "#ComputerSystem.Reset") or {}
    values = texts(action, "ResetType@Redfish.AllowableValues")
    info = link(action, "@Redfish.ActionInfo")
    if not values and info:
        try:
            found = (await session.get(info)).json(session.peer)
        except (RefusedError, UnavailableError):
            return frozenset()
        values = tuple(
            value
            for parameter in objects(found, "Parameters")
            if text(parameter, "Name") == "ResetType"
            for value in texts(parameter, "AllowableValues")
        )
    return frozenset(values)


async def _press(session: RedfishSession, service: Service, target: str, kinds: list[str], button: Button) -> None:
    end = session.clock.monotonic() + session.limits.conflict_s
    while True:
        try:
            reply = await session.send("POST", target, {"ResetType": kinds[0]})
        except NoAnswerError as error:
            await _looked_up(session, service, button, error)
            return
        if reply.ok:
            return
        refusal = session.error_of(reply)
        if reply.status not in {400, 409}:
            # "Already so" is said in other ways too (403, 405, 500); what holds is no failure.
            if await _is_there(session, service, button):
                return
            raise refusal
        ids = {message.id for message in reply.messages()}
        if ids & _NOT_ALLOWED and len(kinds) > 1:
            kinds = kinds[1:]
            continue
        if await _is_there(session, service, button):
            return
        # After a power-off several BMCs say 409 until everything has settled (R25). A refusal did nothing.
        if reply.status != 409 or session.clock.monotonic() + session.limits.pause_s >= end:
            raise refusal
        await session.clock.sleep(session.limits.pause_s)


async def _is_there(session: RedfishSession, service: Service, button: Button) -> bool:
    wanted = _WANTED.get(button)
    power = power_of((await session.get(service.path)).json(session.peer))
    return power is wanted or (button is Button.ON and power is Power.TURNING_ON)


async def _looked_up(session: RedfishSession, service: Service, button: Button, lost: PeerError) -> None:
    """The answer of a POST was lost: read the state, never press again (R28)."""
    try:
        there = await _is_there(session, service, button)
    except PeerError:
        there = False
    if not there:
        raise lost


def last_reset(system: Json) -> str | None:
    """``LastResetTime`` as written."""
    return text(system, "LastResetTime")


def progress(system: Json) -> str | None:
    """POST progress in the BMC's words: BootProgress, HPE's PostState, Lenovo's SystemStatus."""
    return (
        text(system, "BootProgress", "OemLastState") if text(system, "BootProgress", "LastState") == "OEM" else None
    ) or (
        text(system, "BootProgress", "LastState")
        or text(system, "Oem", "Hpe", "PostState")
        or text(system, "Oem", "Lenovo", "SystemStatus")
    )
