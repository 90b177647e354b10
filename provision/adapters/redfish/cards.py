"""Reading one network card: its functions and ports, as far as nothing else tells them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from provision.adapters.redfish.adapters import SOURCE
from provision.adapters.redfish.answers import Json
from provision.adapters.redfish.netfacts import Card
from provision.adapters.redfish.port_words import current_mac, is_infiniband, permanent_mac, port_macs
from provision.adapters.redfish.quirks import Quirks
from provision.adapters.redfish.values import dig, last_segment, link, links, objects, text
from provision.adapters.redfish.walk import Reader


class Depth(Enum):
    """How much of a card has to be read."""

    NOTHING = 0
    PORTS = 1
    ALL = 2

    @classmethod
    def of(cls, quirks: Quirks, card: Card, interfaces: Mapping[str | None, Json], *, guids: bool) -> Depth:
        """What is left to read where ``interfaces`` are known; InfiniBand GUIDs cost a request more."""
        if not quirks.functions_repeat_interfaces:
            return cls.ALL
        if _told(card, interfaces):
            return cls.NOTHING
        # The interfaces leave out InfiniBand; of Ethernet cards that they tell badly (a DPU) everything is wanted.
        outside = card.function_ids and not any(name in interfaces for name in card.function_ids)
        return cls.PORTS if outside and not guids else cls.ALL


def has_mac(holder: Json) -> bool:
    """True if an interface or a function tells an address of its own."""
    ethernet = dig(holder, "Ethernet")
    return any(permanent_mac(one) or current_mac(one) for one in (holder, ethernet))


def _told(card: Card, interfaces: Mapping[str | None, Json]) -> bool:
    """True if the interfaces tell all that the card's own functions and ports would: address and link of each."""
    ids = card.function_ids
    found = [interfaces.get(name) for name in ids]
    return bool(ids) and all(item is not None and has_mac(item) and text(item, "LinkStatus") for item in found)


async def read_card(reader: Reader, adapter: Json, depth: Depth) -> Card:
    """The card with what was asked of it; what cannot be read is a gap."""
    if depth is Depth.NOTHING:
        return Card(adapter)
    if depth is Depth.PORTS:
        lean = _claimed(Card(adapter, ports=await _ports(reader, adapter)))
        if lean is not None:
            return lean
    functions, ports = await reader.gather(_functions(reader, adapter), _ports(reader, adapter))
    functions, linked = await reader.gather(
        _with_interfaces(reader, functions), _linked_ports(reader, functions, ports)
    )
    return Card(adapter, functions, (*ports, *linked))


async def _functions(reader: Reader, adapter: Json) -> tuple[Json, ...]:
    if link(adapter, "NetworkDeviceFunctions") is not None:
        return (await reader.below(adapter, "NetworkDeviceFunctions", SOURCE)).members
    return (await reader.all(_of_controllers(adapter, "NetworkDeviceFunctions"), SOURCE)).members


def _of_controllers(adapter: Json, *kinds: str) -> list[str]:
    return [path for one in objects(adapter, "Controllers") for kind in kinds for path in links(one, "Links", kind)]


async def _with_interfaces(reader: Reader, functions: tuple[Json, ...]) -> tuple[Json, ...]:
    """Functions without an address, filled from the interfaces that stand below them (Redfish 2021 and later)."""
    return tuple(await reader.gather(*(_with_interface(reader, one) for one in functions)))


async def _with_interface(reader: Reader, function: Json) -> Json:
    path = link(function, "Ethernet", "EthernetInterfaces") or link(function, "EthernetInterfaces")
    if path is None or has_mac(function):
        return function
    below = [one for one in (await reader.members(path, SOURCE)).members if has_mac(one)]
    keys = ("MACAddress", "PermanentMACAddress")
    return {**function, **{key: below[0].get(key) for key in keys}} if len(below) == 1 else function


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
    """``Ports`` and, where these tell no address or are not there, the older ``NetworkPorts``."""
    found: tuple[Json, ...] = ()
    for key in ("Ports", "NetworkPorts"):
        if link(adapter, key) is None:
            continue
        found = _merged(found, (await reader.below(adapter, key, SOURCE)).members)
        if any(True for port in found for _ in port_macs(port)):
            return found
    return found or (await reader.all(_of_controllers(adapter, "Ports", "NetworkPorts"), SOURCE)).members


def _merged(first: tuple[Json, ...], second: tuple[Json, ...]) -> tuple[Json, ...]:
    """Both lists as one: ports of the same id are one port, and what the first says of it holds."""
    if not first:
        return second
    older = {text(port, "Id"): port for port in second}
    joined = [{**older.pop(text(port, "Id"), {}), **port} for port in first]
    return (*joined, *older.values())
