"""The BIOS's network-boot device: what must change for it, written as settings for the next start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from provision.adapters.redfish.answers import Json
from provision.adapters.redfish.boot_port import BIOS_KINDS, enabled_devices
from provision.adapters.redfish.etag import patch_with_tag
from provision.adapters.redfish.service import Service
from provision.adapters.redfish.session import RedfishSession
from provision.adapters.redfish.values import link, text, texts
from provision.adapters.redfish.walk import Reader
from provision.errors import RefusedError
from provision.model.profile import BootMethod

_SUPPORT = {"Pxe": ("ipv4pxe", "ipv4pxesupport"), "Http": ("ipv4http", "ipv4httpsupport")}
_SIX = {"Pxe": ("ipv6pxe", "ipv6pxesupport"), "Http": ("ipv6http", "ipv6httpsupport")}


def network_device_enabled(bios: Mapping[str, Any], method: BootMethod | None) -> bool | None:
    """True if BIOS will try the network at all; None if its attributes do not tell.

    Dell: ``PxeDevNEnDis``, ``HttpDevNEnDis``. AMI, Supermicro and Lenovo: a network stack and PXE or HTTP support.
    """
    kinds = BIOS_KINDS[method]
    if any(f"{kind}Dev1EnDis" in bios for kind in ("Pxe", "Http")):
        return any(enabled_devices(bios, kind) for kind in kinds)
    flags = {_bare(name): text(bios, str(name)) or "" for name in bios}
    stack = flags.get("networkstack")
    said = [flags[name] for kind in kinds for name in (*_SUPPORT[kind], *_SIX[kind]) if name in flags]
    if stack is None and not said:
        return None
    on = stack is None or _is_on(stack)
    return on and (not said or any(_is_on(value) for value in said))


def changes(bios: Mapping[str, Any], method: BootMethod, port: str | None) -> dict[str, str]:
    """Attributes that let BIOS boot from the network, in its own names and words; empty where it does not say how.

    ``port`` is the network-boot port by the BMC's id: on Dell the device is pointed at it, other devices are left as
    they are.
    """
    (kind,) = BIOS_KINDS[method]
    if f"{kind}Dev1EnDis" in bios:
        numbers = [n for n in range(1, 17) if f"{kind}Dev{n}EnDis" in bios]
        mine = next((n for n in numbers if port and text(bios, f"{kind}Dev{n}Interface") == port), 1)
        wanted = {f"{kind}Dev{mine}EnDis": "Enabled"}
        if port and f"{kind}Dev{mine}Interface" in bios:
            wanted[f"{kind}Dev{mine}Interface"] = port
    else:
        names = {"networkstack", *_SUPPORT[kind]}
        wanted = {
            str(name): re.sub(r"(?i)disable", "Enable", value)
            for name in bios
            if _bare(name) in names and (value := text(bios, str(name)))
        }
    return {name: value for name, value in wanted.items() if bios.get(name) != value}


async def pending_enabled(
    reader: Reader, service: Service, bios: Mapping[str, Any], method: BootMethod | None
) -> bool | None:
    """True if the settings that wait for the next start would enable a device; None where nothing waits or is shown."""
    path = await _settings_path(reader, service)
    if path is None:
        return None
    waiting = await reader.optional(path, "redfish/host")
    attributes = waiting.get("Attributes") if waiting else None
    if not isinstance(attributes, Mapping) or not attributes:
        return None
    return network_device_enabled({**bios, **attributes}, method)


async def enable_network_device(
    session: RedfishSession, reader: Reader, service: Service, methods: Sequence[BootMethod], port: str | None
) -> None:
    """Write: let BIOS try the network by each method, from its next start on. Nothing is sent if that is set or waits.

    All methods go into one write: a second one would meet the job of the first (SYS011).

    Raises:
        RefusedError: BIOS does not say how, lockdown, or settings of somebody else wait already.
    """
    found = await reader.resource(link(service.system, "Bios") or f"{service.path.rstrip('/')}/Bios")
    bios = found.get("Attributes")
    bios = bios if isinstance(bios, Mapping) else {}
    wanted = {name: value for method in methods for name, value in changes(bios, method, port).items()}
    if not wanted:
        if all(network_device_enabled(bios, method) for method in methods):
            return
        raise RefusedError(
            session.peer,
            "enable network boot in BIOS",
            f"its attributes do not say how {' and '.join(methods)} is enabled; enable it in the BIOS setup",
            code="not-offered",
        )
    path = await _settings_path(reader, service) or f"{link(service.system, 'Bios')}/Settings"
    seen = await session.get(path)
    waiting = seen.json(session.peer).get("Attributes")
    if isinstance(waiting, Mapping) and all(waiting.get(name) == value for name, value in wanted.items()):
        return
    body: Json = {"Attributes": wanted}
    # Without a moment Dell keeps the values and makes no job of them: they would wait for ever.
    if service.quirks.jobs or "OnReset" in texts(found, "@Redfish.Settings", "SupportedApplyTimes"):
        body["@Redfish.SettingsApplyTime"] = {"ApplyTime": "OnReset"}
    reply = await patch_with_tag(session, path, seen, body)
    if not reply.ok:
        raise session.error_of(reply)


async def _settings_path(reader: Reader, service: Service) -> str | None:
    bios = await reader.optional(link(service.system, "Bios"), "redfish/host")
    return link(bios or {}, "@Redfish.Settings", "SettingsObject")


def _bare(name: object) -> str:
    """``IPv4PXESupport_0F3A`` of an AMI BIOS is ``ipv4pxesupport``."""
    return re.sub(r"_[0-9A-F]{4}$", "", str(name)).lower()


def _is_on(value: str) -> bool:
    return value.lower().startswith("enable")
