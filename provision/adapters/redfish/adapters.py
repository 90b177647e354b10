"""Finding the network cards: below the host's chassis, below any other chassis, or by the system's own list."""

from __future__ import annotations

from collections.abc import Iterable

from provision.adapters.redfish.answers import Json
from provision.adapters.redfish.service import Service, is_host
from provision.adapters.redfish.values import last_segment, link, links, text
from provision.adapters.redfish.walk import Listing, Reader
from provision.errors import PeerError, RefusedError

SOURCE = "redfish/ports"
_TO_PORTS = 3  # card, collection of its ports, port
_CONTENT = ("NetworkDeviceFunctions", "Ports", "NetworkPorts")


async def adapters(reader: Reader, service: Service) -> Listing:
    """Cards below the chassis that the system links and, where the row cannot promise that these are all, the others.

    ``complete`` is True if every list of cards was read in full.
    """
    below = service.quirks.adapters_below_chassis
    own = [_below(reader, path, _depth(reader), guess=below) for path in service.chassis]
    if service.quirks.one_chassis:
        return _joined(await reader.gather(*own))
    found = await reader.gather(*own, _elsewhere(reader, service))
    return _joined([*found[:-1], *found[-1]])


async def adapters_anywhere(reader: Reader, service: Service) -> Listing:
    """Cards by the system's NetworkInterfaces, else below any other chassis: for a host whose own chassis has none."""
    by_system = await _by_system(reader, service)
    if by_system.members or not service.quirks.one_chassis:
        return by_system
    return _joined(await _elsewhere(reader, service))


def _depth(reader: Reader) -> int:
    """How deep a list of cards is expanded: to the functions and ports of each, or to the cards; between is no gain."""
    return _TO_PORTS if reader.expand.levels >= _TO_PORTS else 1


async def _below(reader: Reader, chassis: str, levels: int, *, guess: bool) -> Listing:
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
    return await reader.members(path, SOURCE, levels=levels)


async def _elsewhere(reader: Reader, service: Service) -> list[Listing]:
    """Cards below chassis that the system does not link (GB200: its I/O boards), another host's left out."""
    chassis = await reader.members(link(service.root, "Chassis"), SOURCE)
    known = {path.rstrip("/") for path in service.chassis}
    others = {link(one) for one in service.beside if is_host(one)}
    paths = [
        link(item, "NetworkAdapters")
        for item in chassis.members
        if (link(item) or "").rstrip("/") not in known and not _of_another(item, service.path, others)
    ]
    unique = [path for path in dict.fromkeys(paths) if path]
    return list(await reader.gather(*(reader.members(path, SOURCE, levels=_depth(reader)) for path in unique)))


def _of_another(chassis: Json, mine: str, others: set[str | None]) -> bool:
    holds = set(links(chassis, "Links", "ComputerSystems"))
    return mine not in holds and bool(holds & others)


async def _by_system(reader: Reader, service: Service) -> Listing:
    """``NetworkInterfaces`` names the card of each; one whose card is not to be had tells its functions itself."""
    listed = await reader.members(link(service.system, "NetworkInterfaces"), SOURCE)
    cards = await reader.gather(
        *(reader.optional(link(one, "Links", "NetworkAdapter"), SOURCE) for one in listed.members)
    )
    found = [
        card if card is not None and any(link(card, key) for key in _CONTENT) else one
        for card, one in zip(cards, listed.members, strict=True)
    ]
    return _joined([Listing(tuple(found), listed.complete)])


def _joined(listings: Iterable[Listing]) -> Listing:
    listings = list(listings)
    members = {link(item) or text(item, "Id"): item for listing in listings for item in listing.members}
    return Listing(tuple(members.values()), bool(listings) and all(listing.complete for listing in listings))


async def physical_ports(reader: Reader, service: Service) -> tuple[Json, ...]:
    """HPE's own list of adapters, which alone knows the slot of each and, on older iLOs, the address of each port."""
    oem = service.system.get("Oem")
    path = next((at for key in ("Hpe", "Hp") if (at := link(oem, key, "Links", "NetworkAdapters"))), None)
    if path is None or last_segment(path) == "NetworkInterfaces":
        return ()
    return (await reader.members(path, SOURCE)).members
