"""The shape of one service: which system is the host, which row of oddities holds, where things stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provision.adapters.redfish.answers import Json
from provision.adapters.redfish.quirks import Quirks, ServiceFacts, choose
from provision.adapters.redfish.session import ROOT, RedfishSession
from provision.adapters.redfish.values import dig, last_segment, link, links, mac, text
from provision.adapters.redfish.walk import Expand, Reader
from provision.errors import PeerError, RefusedError, UnavailableError
from provision.model.bmc import BmcIdentity
from provision.model.evidence import Gap
from provision.model.node import MacAddress

# Systems that stand beside the host behind one BMC: accelerator trays, DPUs.
_NOT_HOST = re.compile(r"hgx|baseboard|bluefield|dpu|smartnic|fpga", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Service:
    """What stays the same while we talk to one BMC. ``beside`` are other systems that answered (HGX baseboards).

    ``rivals`` are names of other hosts behind the same BMC (blades of two nodes), while nothing tells which is meant.
    ``first``: no other system is listed before the host.
    """

    root: Json
    quirks: Quirks
    path: str
    system: Json
    beside: tuple[Json, ...] = ()
    gaps: tuple[Gap, ...] = ()
    rivals: tuple[str, ...] = ()
    first: bool = True

    def sole_host(self, peer: str, operation: str) -> None:
        """Before a write.

        Raises:
            RefusedError: several hosts stand behind this BMC and the inventory does not say which one is meant.
        """
        if self.rivals:
            raise RefusedError(peer, operation, f"{self.doubt}; nothing was sent", code="which-host")

    @property
    def doubt(self) -> str:
        """In words, that several hosts stand behind this BMC; empty if there is one."""
        if not self.rivals:
            return ""
        names = ", ".join((text(self.system, "Id") or last_segment(self.path), *self.rivals))
        return (
            f"{len(self.rivals) + 1} hosts stand behind it ({names}); write the service_tag of yours in the inventory"
        )

    @property
    def manager(self) -> str | None:
        """Address of the manager that manages the host."""
        found = links(self.system, "Links", "ManagedBy")
        return found[0] if found else None

    @property
    def chassis(self) -> tuple[str, ...]:
        """Addresses of the chassis that hold the host."""
        return links(self.system, "Links", "Chassis")

    @property
    def settings(self) -> str | None:
        """Address of the host's settings resource, where it has one."""
        return link(self.system, "@Redfish.Settings", "SettingsObject")

    @property
    def own_macs(self) -> frozenset[MacAddress]:
        """Addresses of the BMC itself that the root tells: never a port of the host."""
        found = mac(dig(self.root, "Oem", "Dell", "ManagerMACAddress"))
        return frozenset({found} if found else ())


async def survey(session: RedfishSession, until: float, *, service_tag: str | None = None) -> Service:
    """Find the host system among ``Systems`` and choose the row of oddities.

    ``service_tag`` is the inventory's: behind a BMC with several hosts it tells which of them is meant.

    Raises:
        UnavailableError: no system yet (a BMC fills ``Systems`` up to two minutes after its reset, R7).
        PeerError: root or systems cannot be read.
    """
    await session.open()
    if not session.root:
        session.root = (await session.get(ROOT, until=until)).json(session.peer)
    root = session.root
    early = choose(ServiceFacts.of(root, {}))
    # Only one level: a host may carry thousands of resources below it.
    reader = Reader(session, Expand.offered(root, most=min(early.expand, 1)), until)
    path = link(root, "Systems") or f"{ROOT}Systems"
    listing = await reader.members(path, "redfish/host")
    members = [member for member in listing.members if link(member)]
    if not members:
        raise _no_system(session, path, reader)
    ranked = sorted(members, key=lambda one: (_is_tagged(one, service_tag), _host_likeness(one)), reverse=True)
    host = ranked[0]
    if reader.gaps and _host_likeness(host) < 3:
        # What answered is no host; the host is among those that did not.
        raise UnavailableError(session.peer, f"GET {reader.gaps[0].where}", reader.gaps[0].why, code="not-ready")
    rivals = [] if _is_tagged(host, service_tag) else [one for one in ranked[1:] if is_host(one)]
    names = tuple(text(one, "Id") or last_segment(link(one) or "") for one in rivals)
    quirks = choose(ServiceFacts.of(root, host))
    beside, gaps = tuple(ranked[1:]), tuple(reader.gaps)
    return Service(root, quirks, link(host) or path, host, beside, gaps, names, first=host is members[0])


def _is_tagged(system: Mapping[str, Any], service_tag: str | None) -> bool:
    told = (text(system, key) or "" for key in ("SKU", "SerialNumber", "AssetTag"))
    return bool(service_tag) and (service_tag or "").casefold() in (one.casefold() for one in told)


def is_host(system: Mapping[str, Any]) -> bool:
    """True for a machine that boots by itself, and no tray, DPU or baseboard beside one."""
    named = _NOT_HOST.search(f"{text(system, 'Id')} {text(system, 'Name')}")
    return named is None and _host_likeness(system) >= 3


def _no_system(session: RedfishSession, path: str, reader: Reader) -> PeerError:
    why = "it lists no system: the BMC is still starting"
    if reader.gaps:
        why = f"no system can be read ({reader.gaps[0].where}: {reader.gaps[0].why})"
    return UnavailableError(session.peer, f"GET {path}", why, code="not-ready", retry_after_s=10.0)


def _host_likeness(system: Mapping[str, Any]) -> int:
    """How much a system looks like the machine that boots: a table of signs, 3 and more is a host."""
    signs = (
        (4, dig(system, "Boot", "BootSourceOverrideTarget") is not None or bool(dig(system, "Boot", "BootOptions"))),
        (3, dig(system, "Actions", "#ComputerSystem.Reset") is not None),
        (2, link(system, "EthernetInterfaces") is not None),
        (2, link(system, "Bios") is not None),
        (1, text(system, "BiosVersion") is not None),
        (-4, bool(_NOT_HOST.search(f"{text(system, 'Id')} {text(system, 'Name')}"))),
        (-6, (text(system, "SystemType") or "Physical") not in {"Physical", "PhysicallyPartitioned"}),
    )
    return sum(weight for weight, holds in signs if holds)


def identity(service: Service) -> BmcIdentity:
    """Who the machine says it is. On Dell the service tag is the SKU; SerialNumber is the board's."""
    system = service.system
    dell = service.quirks.family.startswith("dell")
    tag = text(system, "SKU") if dell else None
    firmware = text(service.root, "Oem", "Hpe", "ManagerFirmwareVersion")
    return BmcIdentity(
        maker=text(system, "Manufacturer") or text(service.root, "Vendor") or "",
        model=text(system, "Model") or "",
        service_tag=tag or text(service.root, "Oem", "Dell", "ServiceTag") or text(system, "SerialNumber"),
        uuid=text(system, "UUID"),
        family=service.quirks.family,
        bmc_firmware=firmware,
        bios_version=text(system, "BiosVersion"),
        system_id=None if service.first else last_segment(service.path),
    )
