"""Fetching what is known of the network ports: as few requests as the service's own links allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provision.adapters.redfish.adapters import SOURCE, adapters, adapters_anywhere, physical_ports
from provision.adapters.redfish.boot_port import enabled_devices
from provision.adapters.redfish.cards import Depth, has_mac, read_card
from provision.adapters.redfish.netfacts import Card, NetworkFacts
from provision.adapters.redfish.service import Service
from provision.adapters.redfish.values import link, objects, text
from provision.adapters.redfish.walk import Listing, Reader
from provision.errors import PeerError, RefusedError


async def read_network(reader: Reader, service: Service, *, guids: bool = True) -> NetworkFacts:
    """Read interfaces, cards, boot options, BIOS attributes and LLDP neighbours side by side.

    Without ``guids`` the functions of InfiniBand cards are not read where their ports tell the addresses: half of all
    requests of a GPU server with eight such cards.
    """
    system, quirks = service.system, service.quirks
    lldp = f"{service.path.rstrip('/')}/{quirks.lldp}" if quirks.lldp else None
    interfaces, found, bios, heard, options, hints = await reader.gather(
        reader.members(link(system, "EthernetInterfaces"), SOURCE),
        adapters(reader, service),
        read_bios(reader, service) if quirks.bios_pxe or quirks.bios_mac else _nothing(),
        _lldp(reader, lldp),
        _nothing() if quirks.bios_pxe else _boot_options(reader, service),
        physical_ports(reader, service),
    )
    with_mac = [item for item in interfaces.members if has_mac(item)]
    if quirks.bios_pxe and not (_names_device(bios) and len(with_mac) == len(interfaces.members)):
        options = await _boot_options(reader, service)
    # Where interfaces repeat all that cards have, or HPE's own list names every port, nothing more is to be found.
    if not found.members and not hints and not (quirks.functions_repeat_interfaces and with_mac):
        found = await adapters_anywhere(reader, service)
    known = {text(item, "Id"): item for item in interfaces.members}
    cards = await reader.gather(
        *(read_card(reader, one, Depth.of(quirks, Card(one), known, guids=guids)) for one in found.members)
    )
    return NetworkFacts(
        interfaces=interfaces.members,
        cards=tuple(cards),
        boot_options=options.members if options else (),
        bios=bios,
        lldp=heard.members,
        interfaces_complete=interfaces.complete,
        cards_complete=found.complete,
        hints=hints,
    )


async def _boot_options(reader: Reader, service: Service) -> Listing:
    return await reader.members(link(service.system, "Boot", "BootOptions"), SOURCE)


def _names_device(bios: Mapping[str, Any] | None) -> bool:
    """True if BIOS attributes say by themselves which port boots from the network (Dell's options only repeat it)."""
    return any(enabled_devices(bios or {}, kind) for kind in ("Pxe", "Http"))


async def read_bios(reader: Reader, service: Service) -> Mapping[str, Any] | None:
    """The BIOS attributes, or None with a gap."""
    found = await reader.optional(link(service.system, "Bios"), "redfish/host")
    attributes = found.get("Attributes") if found else None
    return attributes if isinstance(attributes, Mapping) else None


async def _nothing() -> None:
    return None


async def _lldp(reader: Reader, path: str | None) -> Listing:
    if path is None:
        return Listing()
    try:
        first = await reader.resource(path)
    except RefusedError:
        return Listing()  # older firmware has no such list: that is no gap of this machine
    except PeerError as error:
        reader.lost(path, "redfish/lldp", error)
        return Listing((), False)
    # The members stand inside the list on every firmware seen.
    return Listing(tuple(item for item in objects(first, "Members") if len(item) > 1))
