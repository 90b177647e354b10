"""Looking after the BMC itself: its restart, its sessions, its firmware and that of the parts it knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from provision.adapters.redfish.answers import Json
from provision.adapters.redfish.login import SESSIONS
from provision.adapters.redfish.own_sessions import OwnSession
from provision.adapters.redfish.service import Service, identity
from provision.adapters.redfish.session import RedfishSession
from provision.adapters.redfish.values import dig, last_segment, link, objects, text, texts
from provision.adapters.redfish.walk import Reader
from provision.errors import PeerError, RefusedError, UnavailableError
from provision.model.bmc import BmcSession, Firmware
from provision.model.evidence import Evidence, PartKind

# Gentle first; the BMC's settings and the host stay as they are with either.
_RESETS = ("GracefulRestart", "ForceRestart")
_KINDS = {PartKind.NIC: "nic", PartKind.DRIVE: "drive", PartKind.GPU: "gpu"}
# NVIDIA's baseboards stand in the inventory of firmware only: HGX_FW_BMC_0, HGX_FW_FPGA_0, HGX_FW_ERoT_…
_BASEBOARD = re.compile(r"hgx|gpu.?tray|gpu.?base.?board|delta.?board", re.IGNORECASE)


async def reset_bmc(session: RedfishSession, service: Service) -> None:
    """Write: restart the BMC. Returns when it has accepted; it is away for minutes afterwards.

    Raises:
        RefusedError: it names no manager, or allows no restart.
        UnavailableError: no answer: it may be on its way down; look.
    """
    path = _manager(session, service)
    manager = (await session.get(path)).json(session.peer)
    allowed = texts(dig(manager, "Actions", "#Manager.Reset") or {}, "ResetType@Redfish.AllowableValues")
    allowed = allowed or await _from_action_info(session, manager)
    kinds = [kind for kind in _RESETS if not allowed or kind in allowed]
    if not kinds:
        raise RefusedError(session.peer, "reset the BMC", f"it allows only {', '.join(allowed)}", code="not-offered")
    target = dig(manager, "Actions", "#Manager.Reset", "target")
    if not isinstance(target, str) or not target.startswith("/"):
        target = f"{path.rstrip('/')}/Actions/Manager.Reset"
    reply = await session.send("POST", target, {"ResetType": kinds[0]})
    if not reply.ok:
        raise session.error_of(reply)


async def _from_action_info(session: RedfishSession, manager: Json) -> tuple[str, ...]:
    info = link(dig(manager, "Actions", "#Manager.Reset") or {}, "@Redfish.ActionInfo")
    if info is None:
        return ()
    try:
        found = (await session.get(info)).json(session.peer)
    except PeerError:
        return ()
    return tuple(
        value
        for parameter in objects(found, "Parameters")
        if text(parameter, "Name") == "ResetType"
        for value in texts(parameter, "AllowableValues")
    )


def _manager(session: RedfishSession, service: Service) -> str:
    if service.manager is None:
        raise RefusedError(session.peer, "reset the BMC", "the host names no manager", code="not-offered")
    return service.manager


async def still_there(session: RedfishSession, service: Service) -> bool:
    """True while the login from before the reset still works: a BMC that restarts forgets its sessions."""
    try:
        return (await session.ask_once(_manager(session, service))).ok
    except UnavailableError:
        return False


async def read_sessions(session: RedfishSession, reader: Reader, service: Service) -> tuple[BmcSession, ...]:
    """Who is logged in; ``ours`` are those that we wrote down, ``stale`` those of them whose process is gone."""
    path = link(service.root, "Links", "Sessions") or SESSIONS
    listing = await reader.members(path, "redfish/sessions")
    own = {item.path.rstrip("/"): item for item in session.own.all()}
    found = []
    for one in listing.members:
        place = (link(one) or "").rstrip("/")
        known = own.get(place)
        mine = known is not None and known.is_it(one)
        found.append(
            BmcSession(
                name=text(one, "Id") or last_segment(place),
                path=place,
                user=text(one, "UserName") or "",
                created=text(one, "CreatedTime") or "",
                client=text(one, "ClientOriginIPAddress") or text(one, "Oem", "Hpe", "UserIP") or "",
                ours=mine,
                stale=mine and known is not None and session.own.is_stale(known),
            )
        )
    return tuple(found)


async def end_stale(session: RedfishSession) -> int:
    """Write: end our own sessions whose process is gone. How many were ended."""
    await session.open()
    stale: tuple[OwnSession, ...] = tuple(item for item in session.own.all() if session.own.is_stale(item))
    return await session.end_sessions(stale)


async def read_firmware(
    reader: Reader, service: Service, evidence: Iterable[Evidence], *, baseboard: bool
) -> tuple[Firmware, ...]:
    """Versions of BMC and BIOS, of every part whose reading names one, and with ``baseboard`` of the GPU baseboard.

    The list of all firmware takes minutes on some BMCs (DGX H100), so it is read only for the baseboard.
    """
    who = identity(service)
    manager = await reader.optional(service.manager, "redfish/firmware")
    found = [
        Firmware(
            "bmc", "BMC", text(manager or {}, "Model"), text(manager or {}, "FirmwareVersion") or who.bmc_firmware
        ),
        Firmware("bios", "BIOS", None, who.bios_version),
    ]
    for item in evidence:
        version = item.values.get("firmware")
        if item.part.kind in _KINDS and isinstance(version, str):
            model = item.values.get("model")
            kind = _KINDS[item.part.kind]
            found.append(Firmware(kind, item.part.locator, model if isinstance(model, str) else None, version))
    if baseboard:
        found += [Firmware("gpu-baseboard", _name(one), None, text(one, "Version")) for one in await _boards(reader)]
    return tuple(found)


async def _boards(reader: Reader) -> list[Mapping[str, Any]]:
    root = await reader.resource("/redfish/v1/")
    service = await reader.optional(link(root, "UpdateService"), "redfish/firmware")
    listing = await reader.members(link(service, "FirmwareInventory"), "redfish/firmware")
    return [one for one in listing.members if _BASEBOARD.search(f"{text(one, 'Id')} {text(one, 'Name')}")]


def _name(one: Mapping[str, Any]) -> str:
    return text(one, "Id") or text(one, "Name") or "?"
