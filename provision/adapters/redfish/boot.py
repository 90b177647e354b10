"""Network boot once, in the resource and shape that the service wants, and what would stand in its way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provision.adapters.redfish.answers import Answer, Json
from provision.adapters.redfish.bios import network_device_enabled, pending_enabled
from provision.adapters.redfish.boot_jobs import Job, read_jobs
from provision.adapters.redfish.etag import patch_with_tag
from provision.adapters.redfish.net import read_bios
from provision.adapters.redfish.service import Service
from provision.adapters.redfish.session import RedfishSession
from provision.adapters.redfish.values import dig, link, text, texts
from provision.adapters.redfish.walk import Reader
from provision.errors import PeerError, RefusedError, UnavailableError
from provision.model.bmc import BootReadiness
from provision.model.profile import BootMethod

TARGETS = {BootMethod.PXE: "Pxe", BootMethod.UEFI_HTTP: "UefiHttp"}
ALLOWED = "BootSourceOverrideTarget@Redfish.AllowableValues"

# "Not in this resource": the override lives in the other one of system and settings (R21).
_ELSEWHERE = {
    "PropertyNotWritable",
    "PropertyUnknown",
    "PropertyNotUpdated",
    "SYS427",
    "SYS429",
    "OperationSupportedInFutureStateURI",
    "PropertyReadOnly",
    "PropertyNotSupported",
    "ActionNotSupported",
}
_NOT_HERE = {404, 405, 501}


async def set_network_boot_once(session: RedfishSession, service: Service, method: BootMethod) -> Answer | None:
    """Write the override once; nothing is sent, and None returned, if the BMC says that it is set already.

    Raises:
        RefusedError: not offered, locked down, or refused in every place and with every tag.
        UnavailableError: no answer: it may be stored or not; look.
    """
    places = [path for path in (service.path, service.settings) if path]
    if service.quirks.boot_in_settings:
        places.reverse()
    read = {path: await _look(session, path, spare=path != service.path) for path in places}
    target = TARGETS[method]
    _check_offer(session, [answer.json(session.peer) for answer in read.values() if answer], target)
    last: PeerError | None = None
    for path in _order(places, read, session):
        answer = read[path]
        if answer is None:
            continue
        boot = _boot(answer.json(session.peer))
        if boot.get("BootSourceOverrideTarget") == target and boot.get("BootSourceOverrideEnabled") == "Once":
            return None
        reply = await patch_with_tag(session, path, answer, {"Boot": _wanted(service, boot, target)})
        if reply.ok:
            return reply
        last = session.error_of(reply)
        if reply.status not in _NOT_HERE and not {message.id for message in reply.messages()} & _ELSEWHERE:
            raise last
    raise last or RefusedError(
        session.peer, "set network boot", "no resource shows a boot override", code="no-override"
    )


async def _look(session: RedfishSession, path: str, *, spare: bool) -> Answer | None:
    try:
        return await session.get(path)
    except RefusedError:
        if spare:
            return None  # a settings object that is linked and not there (seen on iDRAC and AMI)
        raise


def _boot(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    boot = resource.get("Boot")
    return boot if isinstance(boot, Mapping) else {}


def _order(places: list[str], read: Mapping[str, Answer | None], session: RedfishSession) -> list[str]:
    """Resources whose Boot shows the override first; a resource without one only if no other has it."""

    def shows(path: str) -> bool:
        answer = read[path]
        return answer is not None and "BootSourceOverrideTarget" in _boot(answer.json(session.peer))

    return [path for path in places if shows(path)] or places


def _check_offer(session: RedfishSession, resources: list[Json], target: str) -> None:
    offered = {value for resource in resources for value in texts(_boot(resource), ALLOWED)}
    if offered and target not in offered:
        raise RefusedError(
            session.peer,
            "set network boot",
            f"it offers no {target} (but {', '.join(sorted(offered))}); choose another boot_method in the profile",
            code="not-offered",
        )


def _wanted(service: Service, boot: Mapping[str, Any], target: str) -> Json:
    """Target and Enabled; Mode only where the row wants all three, or where it must change.

    An unchanged Mode makes a BIOS job and a second boot on Dell (R16); a missing one is reset on Supermicro (R17).
    """
    wanted: Json = {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Once"}
    mode = text(boot, "BootSourceOverrideMode")
    if service.quirks.boot_whole:
        wanted["BootSourceOverrideMode"] = "UEFI" if target == "UefiHttp" else mode or "UEFI"
    elif target == "UefiHttp" and mode is not None and mode != "UEFI":
        wanted["BootSourceOverrideMode"] = "UEFI"
    return wanted


async def read_readiness(
    reader: Reader, service: Service, method: BootMethod | None = None
) -> tuple[BootReadiness, tuple[Job, ...]]:
    """What would stop a network boot: no device enabled in BIOS, lockdown, jobs of others. None where nobody says."""
    bios, lockdown, jobs = await reader.gather(
        read_bios(reader, service), _lockdown(reader, service), read_jobs(reader, service)
    )
    enabled = network_device_enabled(bios or {}, method)
    pending = await pending_enabled(reader, service, bios, method) if bios and enabled is False else None
    readiness = BootReadiness(
        network_device_enabled=enabled,
        lockdown=lockdown,
        pending_jobs=tuple(str(job) for job in jobs),
        mode=text(_boot(service.system), "BootSourceOverrideMode") or text(bios or {}, "BootMode"),
        gaps=tuple(reader.gaps),
        network_device_pending=pending,
    )
    return readiness, jobs


async def _lockdown(reader: Reader, service: Service) -> bool | None:
    if not service.quirks.attributes or service.manager is None:
        return None
    found = await reader.optional(f"{service.manager.rstrip('/')}/{service.quirks.attributes}", "redfish/host")
    said = text(dig(found or {}, "Attributes") or {}, "Lockdown.1.SystemLockdown")
    return None if said is None else said.lower() == "enabled"


async def read_override(session: RedfishSession, service: Service, system: Json) -> Mapping[str, Any]:
    """The override as it stands: the system's, or the one waiting in the settings resource where rows keep it."""
    now = _boot(system)
    path = link(system, "@Redfish.Settings", "SettingsObject") or service.settings
    if not service.quirks.boot_in_settings or path is None or text(now, "BootSourceOverrideEnabled") == "Once":
        return now
    try:
        waiting = _boot((await session.get(path)).json(session.peer))
    except (RefusedError, UnavailableError):
        return now
    return waiting if text(waiting, "BootSourceOverrideEnabled") in {"Once", "Continuous"} else now
