"""Fetching what is known of the network ports: as few requests as the service's own links allow."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from provision.adapters.redfish.answers import Json
from provision.adapters.redfish.boot_port import enabled_devices
from provision.adapters.redfish.netfacts import Card, NetworkFacts
from provision.adapters.redfish.port_words import is_infiniband, port_macs
from provision.adapters.redfish.quirks import Quirks
from provision.adapters.redfish.service import Service
from provision.adapters.redfish.values import last_segment, link, mac, objects, text
from provision.adapters.redfish.walk import Listing, Reader
from provision.errors import PeerError, RefusedError

SOURCE = "redfish/ports"


async def read_network(reader: Reader, service: Service, *, guids: bool = True) -> NetworkFacts:
    """Read interfaces, cards, boot options, BIOS attributes and LLDP neighbours side by side.

    Without ``guids`` the functions of InfiniBand cards are not read where their ports tell the addresses: half of all
    requests of a GPU server with eight such cards.
    """
    system, quirks = service.system, service.quirks
    lldp = f"{service.path.rstrip('/')}/{quirks.lldp}" if quirks.lldp else None
    interfaces, adapters, bios, heard, options = await reader.gather(
        reader.members(link(system, "EthernetInterfaces"), SOURCE),
        _adapters(reader, service),
        read_bios(reader, service) if quirks.bios_pxe or quirks.bios_mac else _nothing(),
        _lldp(reader, lldp),
        _nothing() if quirks.bios_pxe else _boot_options(reader, service),
    )
    if quirks.bios_pxe and not (_names_device(bios) and all(_has_mac(item) for item in interfaces.members)):
        options = await _boot_options(reader, service)
    if not adapters.members and not any(_has_mac(item) for item in interfaces.members):
        adapters = await _adapters_anywhere(reader, service)
    known = {text(item, "Id"): item for item in interfaces.members}
    cards = await reader.gather(
        *(_card(reader, adapter, _depth(quirks, Card(adapter), known, guids=guids)) for adapter in adapters.members)
    )
    return NetworkFacts(
        interfaces=interfaces.members,
        cards=tuple(cards),
        boot_options=options.members if options else (),
        bios=bios,
        lldp=heard.members,
        interfaces_complete=interfaces.complete,
        cards_complete=adapters.complete,
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


async def _adapters(reader: Reader, service: Service) -> Listing:
    below = service.quirks.adapters_below_chassis
    found = await reader.gather(*(_adapters_of(reader, path, guess=below) for path in service.chassis))
    return _joined(found)


async def _adapters_anywhere(reader: Reader, service: Service) -> Listing:
    chassis = await reader.members(link(service.root, "Chassis"), SOURCE)
    paths = [link(item, "NetworkAdapters") for item in chassis.members if link(item) not in service.chassis]
    found = await reader.gather(*(reader.members(path, SOURCE) for path in paths if path))
    return _joined(found)


async def _adapters_of(reader: Reader, chassis: str, *, guess: bool) -> Listing:
    if guess:
        guessed = f"{chassis.rstrip('/')}/NetworkAdapters"
        try:
            await reader.resource(reader.expand.applied(guessed, 1))
        except RefusedError:
            pass
        except PeerError as error:
            reader.lost(guessed, SOURCE, error)
            return Listing((), False)
        else:
            return await reader.members(guessed, SOURCE)
    resource = await reader.optional(chassis, SOURCE)
    path = link(resource, "NetworkAdapters")
    if path is None:
        return Listing((), resource is not None)
    return await reader.members(path, SOURCE)


class _Depth(Enum):
    """How much of a card has to be read."""

    NOTHING = 0
    PORTS = 1
    ALL = 2


def _depth(quirks: Quirks, card: Card, interfaces: Mapping[str | None, Json], *, guids: bool) -> _Depth:
    if not quirks.functions_repeat_interfaces:
        return _Depth.ALL
    if _told(card, interfaces):
        return _Depth.NOTHING
    # The interfaces leave out InfiniBand; of Ethernet cards that they tell badly (a DPU) everything is wanted.
    outside = card.function_ids and not any(name in interfaces for name in card.function_ids)
    return _Depth.PORTS if outside and not guids else _Depth.ALL


async def _card(reader: Reader, adapter: Json, depth: _Depth) -> Card:
    if depth is _Depth.NOTHING:
        return Card(adapter)
    if depth is _Depth.PORTS:
        lean = _claimed(Card(adapter, ports=await _ports(reader, adapter)))
        if lean is not None:
            return lean
    functions, ports = await reader.gather(
        reader.members(link(adapter, "NetworkDeviceFunctions"), SOURCE), _ports(reader, adapter)
    )
    return Card(adapter, functions.members, (*ports, *await _linked_ports(reader, functions.members, ports)))


def _claimed(card: Card) -> Card | None:
    """The card with its functions by name alone, if each has an InfiniBand port that tells its address; else None."""
    for name in card.function_ids:
        own = [port for port in card.ports if (told := text(port, "Id")) and f"{name}-".startswith(f"{told}-")]
        if len(own) != 1 or not is_infiniband({}, own[0], name) or not any(port_macs(own[0])):
            return None
    functions = tuple({"Id": name} for name in card.function_ids)
    return Card(card.adapter, functions, card.ports) if functions else None


async def _linked_ports(reader: Reader, functions: tuple[Json, ...], ports: tuple[Json, ...]) -> tuple[Json, ...]:
    """Ports that functions point to and the list of ports lacks; a dangling link is a gap with its address (R14)."""
    known = {last_segment(path) for port in ports if (path := link(port))} | {text(port, "Id") for port in ports}
    missing = []
    for function in functions:
        name = text(function, "Id") or ""
        path = link(function, "Links", "PhysicalPortAssignment") or link(
            function, "Links", "PhysicalNetworkPortAssignment"
        )
        named = any(own and (name == own or name.startswith(f"{own}-")) for own in known)
        if path and last_segment(path) not in known and not named:
            missing.append(path)
    return (await reader.all(missing, SOURCE)).members


async def _ports(reader: Reader, adapter: Json) -> tuple[Json, ...]:
    paths = [path for path in (link(adapter, "Ports"), link(adapter, "NetworkPorts")) if path]
    for path in paths:
        listing = await reader.members(path, SOURCE)
        if listing.members:
            return listing.members
    return ()


def _joined(listings: list[Listing]) -> Listing:
    members = {link(item) or text(item, "Id"): item for listing in listings for item in listing.members}
    return Listing(tuple(members.values()), bool(listings) and all(listing.complete for listing in listings))


def _has_mac(interface: Json) -> bool:
    return bool(mac(interface.get("PermanentMACAddress")) or mac(interface.get("MACAddress")))


def _told(card: Card, interfaces: Mapping[str | None, Json]) -> bool:
    """True if the interfaces tell all that the card's own functions and ports would: address and link of each."""
    ids = card.function_ids
    found = [interfaces.get(name) for name in ids]
    return bool(ids) and all(item is not None and _has_mac(item) and text(item, "LinkStatus") for item in found)
