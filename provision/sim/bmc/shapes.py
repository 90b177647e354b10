"""Words and shapes that all resources share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

Resource = dict[str, Any]
Build = Callable[[], Resource]

ROOT = "/redfish/v1"
SYSTEM = f"{ROOT}/Systems/System.Embedded.1"
CHASSIS = f"{ROOT}/Chassis/System.Embedded.1"
MANAGER = f"{ROOT}/Managers/iDRAC.Embedded.1"
LOGS = f"{MANAGER}/LogServices"
SWITCHES = f"{SYSTEM}/NetworkPorts/Oem/Dell/DellSwitchConnections"
BIOS_VERSION = "2.2.3"
# iDRACs leave the factory in US Central time, so their stamps carry an offset.
BMC_ZONE = timezone(timedelta(hours=-5))


def link(path: str) -> Resource:
    """A reference to another resource."""
    return {"@odata.id": path}


def links(name: str, paths: Iterable[str]) -> Resource:
    """A list of references and its count, as two properties."""
    listed = [link(path) for path in paths]
    return {name: listed, f"{name}@odata.count": len(listed)}


def resource(path: str, kind: str, version: str, name: str, **properties: Any) -> Resource:
    """The head that every resource has, and its own properties."""
    return {
        "@odata.context": f"{ROOT}/$metadata#{kind}.{kind}",
        "@odata.id": path,
        "@odata.type": f"#{kind}.v{version}.{kind}",
        "Id": path.rsplit("/", 1)[-1],
        "Name": name,
        **properties,
    }


def collection(path: str, kind: str, name: str, members: Sequence[str | Resource]) -> Resource:
    """A collection; members are paths, or whole resources where the BMC gives them inline."""
    return {
        "@odata.context": f"{ROOT}/$metadata#{kind}Collection.{kind}Collection",
        "@odata.id": path,
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": name,
        "Members": [link(member) if isinstance(member, str) else member for member in members],
        "Members@odata.count": len(members),
    }


def status(health: str | None = "OK", state: str = "Enabled") -> Resource:
    """A Status object."""
    return {"Health": health, "HealthRollup": health, "State": state}


def stamp(moment: datetime) -> str:
    """A time as the BMC writes it: its own zone, whole seconds."""
    return moment.astimezone(BMC_ZONE).isoformat(timespec="seconds")
