"""From what was read to one answer per network port. Pure.

A port may be told of in four places (EthernetInterfaces, NetworkDeviceFunctions, Ports or NetworkPorts, boot
options); each may lack it, spell its address otherwise, or leave it empty (cases R11, R13, R14). The union is merged
by MAC, then by id. Excluded: the BMC's own interfaces (``ToManager``, USB), virtual ones, zero, multicast, EUI-64.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from provision.adapters.redfish.boot_port import Choice
from provision.adapters.redfish.netfacts import Card, NetworkFacts
from provision.adapters.redfish.places import card_label, fqdd_label, port_label, port_number
from provision.adapters.redfish.port_words import (
    bare,
    card_model,
    current_mac,
    found_in,
    guids_of,
    interface_label,
    interface_model,
    is_infiniband,
    is_internal,
    is_pipe,
    is_virtual,
    link_of,
    lldp_of,
    permanent_mac,
    port_macs,
    speed_of,
)
from provision.adapters.redfish.quirks import Quirks
from provision.adapters.redfish.values import (
    dig,
    last_segment,
    link,
    mac,
    natural,
    objects,
    text,
)
from provision.model.bmc import Link, Neighbour, NicPort
from provision.model.node import MacAddress
from provision.model.profile import BootMethod

_PATH_MAC = re.compile(r"MAC\(([0-9A-Fa-f]{12})\b")
_NAME_MAC = re.compile(r"\b((?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}|[0-9A-Fa-f]{12})\b")


@dataclass(slots=True)
class Draft:
    """One port while its pieces are found. ``ids`` are all names that some place gives it."""

    name: str
    mac: MacAddress | None = None
    current: MacAddress | None = None
    ids: list[str] = field(default_factory=list)
    locator: str = ""
    links: list[Link] = field(default_factory=list)
    speed: int | None = None
    model: str | None = None
    infiniband: bool = False
    guids: list[str] = field(default_factory=list)
    path: str = ""
    card: str = ""
    neighbour: Neighbour | None = None
    unplugged: bool = False
    further: bool = False
    number: str = ""
    slot: str = ""

    @property
    def link(self) -> Link:
        """UP if any place says so (one port is up or not), DOWN if all that speak say so."""
        if Link.UP in self.links:
            return Link.UP
        return Link.DOWN if Link.DOWN in self.links else Link.UNKNOWN


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports, and which place was named for the network boot and could not be matched.

    ``unplugged`` are names of ports on which LLDP heard that nothing is plugged in.
    """

    ports: tuple[NicPort, ...]
    complaints: tuple[str, ...] = ()
    unplugged: frozenset[str] = frozenset()


def network_ports(
    facts: NetworkFacts,
    quirks: Quirks,
    *,
    boot_order: Iterable[str] = (),
    own: Iterable[MacAddress] = (),
    profile_boot_nic: str | None = None,
    boot_method: BootMethod | None = None,
) -> Ports:
    """Merge everything into ports, sorted by printed place.

    ``own`` are the BMC's addresses; ``profile_boot_nic`` and ``boot_method`` what the profile wants.
    """
    drafts: list[Draft] = []
    internal = set(own)
    for card in facts.cards:
        for draft in _of_card(card, facts.cards):
            _add_draft(drafts, draft)
    for interface in facts.interfaces:
        _add_interface(drafts, interface, internal)
    for adapter in facts.hints:
        _add_hint(drafts, adapter, internal)
    _add_lldp(drafts, facts.lldp)
    _add_boot_options(drafts, facts.boot_options, internal)
    if facts.bios and quirks.bios_mac:
        _add_bios_macs(drafts, facts.bios, quirks.bios_mac)
    for card in facts.cards:
        _add_further(drafts, card)
    _share_slots(drafts)
    kept = [draft for draft in drafts if draft.mac is None or (draft.mac not in internal and not is_pipe(draft.mac))]
    _place(kept)
    kept.sort(key=lambda draft: (natural(draft.locator), natural(draft.name)))
    choice = Choice.of([draft for draft in kept if not draft.further], facts, boot_order, profile_boot_nic, boot_method)
    return Ports(
        tuple(_finished(draft, choice) for draft in kept),
        choice.complaints,
        frozenset(draft.name for draft in kept if draft.unplugged),
    )


def _finished(draft: Draft, choice: Choice) -> NicPort:
    return NicPort(
        name=draft.name,
        locator=draft.locator,
        mac=draft.mac,
        current_mac=draft.current,
        link=draft.link,
        speed_mbps=draft.speed,
        model=draft.model,
        kind="other" if draft.further else "infiniband" if draft.infiniband else "ethernet",
        guids=tuple(dict.fromkeys(draft.guids)),
        neighbour=draft.neighbour,
        network_boot=choice.name == draft.name,
        network_boot_why=choice.why if choice.name == draft.name else "",
    )


def _of_card(card: Card, cards: tuple[Card, ...]) -> Iterator[Draft]:
    label, model = card_label(card.adapter), card_model(card.adapter)
    taken: set[int] = set()
    for index, function in enumerate(card.functions):
        number_of_port = _port_of(function, index, card)
        port = card.ports[number_of_port] if number_of_port is not None else {}
        if number_of_port is not None:
            taken.add(number_of_port)
        yield _draft(card, cards, function, port, label, model)
    for index, port in enumerate(card.ports):
        if index not in taken:
            draft = _draft(card, cards, {}, port, label, model)
            # A port that no function claims counts if it has an address of its own or guides InfiniBand.
            if draft.mac or draft.guids or (not card.functions and draft.infiniband):
                yield draft


def _draft(
    card: Card,
    cards: tuple[Card, ...],
    function: Mapping[str, Any],
    port: Mapping[str, Any],
    label: str,
    model: str | None,
) -> Draft:
    ethernet = dig(function, "Ethernet") or {}
    addresses = list(port_macs(port))
    current = current_mac(ethernet) or current_mac(function)
    permanent = permanent_mac(ethernet) or permanent_mac(function) or current or (addresses[0] if addresses else None)
    own = text(function, "Id") or text(port, "Id") or ""
    name = own if _unique(own, cards) else f"{text(card.adapter, 'Id') or card.adapter.get('Name')}/{own}"
    draft = Draft(
        name=name,
        mac=permanent,
        current=current if current != permanent else None,
        ids=[own] if name == own else [],
        links=[item for item in (link_of(port), link_of(function)) if item is not Link.UNKNOWN],
        speed=speed_of(port),
        model=model,
        infiniband=is_infiniband(function, port, own),
        guids=list(guids_of(function, port)),
        card=text(card.adapter, "Id") or "",
        neighbour=lldp_of(port),
        number=port_number(function, port),
    )
    draft.locator = fqdd_label(own) or port_label(label, function, port)
    return draft


def _add_draft(drafts: list[Draft], draft: Draft) -> None:
    """One card may be listed below two chassis, and one port by two of its functions: one address is one port."""
    same = next((one for one in drafts if draft.mac is not None and draft.mac in (one.mac, one.current)), None)
    if same is None:
        drafts.append(draft)
        return
    same.ids += [name for name in draft.ids if name not in same.ids]
    same.links += draft.links
    same.speed = same.speed or draft.speed
    same.model = same.model or draft.model
    same.guids += draft.guids
    same.neighbour = same.neighbour or draft.neighbour


def _add_further(drafts: list[Draft], card: Card) -> None:
    """Addresses that a port lists beside its own and nothing else tells: a DPU's other side, the uplink of a VIC.

    They are no ports: nothing is counted, cabled or booted by them.
    """
    told = {one for draft in drafts for one in (draft.mac, draft.current)}
    for port in card.ports:
        for address in dict.fromkeys(port_macs(port)):
            if address not in told and not is_pipe(address):
                told.add(address)
                draft = _draft(card, (), {}, port, card_label(card.adapter), card_model(card.adapter))
                drafts.append(replace(draft, name=bare(address), mac=address, current=None, ids=[], further=True))


def _share_slots(drafts: list[Draft]) -> None:
    """A card's ports sit where one of them is known to sit; what is no port says so."""
    slots = {draft.card: draft.slot for draft in drafts if draft.card and draft.slot}
    for draft in drafts:
        slot = slots.get(draft.card, "")
        if slot and not draft.slot and draft.number:
            draft.locator = f"{slot} Port {draft.number}"
        if draft.further:
            draft.locator = f"{draft.locator}, further address"


def _add_hint(drafts: list[Draft], adapter: Mapping[str, Any], internal: set[MacAddress]) -> None:
    """HPE's own words for an adapter: the slot of its ports, and ports that nothing else tells."""
    place = text(adapter, "Location") or text(adapter, "StructuredName") or ""
    ports = objects(adapter, "PhysicalPorts")
    for number, port in enumerate(ports, start=1):
        address = current_mac(port)
        if address is None or address in internal or is_internal(port):
            continue
        draft = next((one for one in drafts if address in (one.mac, one.current)), None)
        if draft is None:
            draft = Draft(name=f"{text(adapter, 'Id') or place}/{number}", mac=address)
            drafts.append(draft)
        draft.slot = place
        draft.locator = f"{place} Port {number}" if place else draft.locator
        draft.model = draft.model or text(adapter, "Name")
        draft.speed = draft.speed or speed_of(port)
        if not draft.links and (found := link_of(port)) is not Link.UNKNOWN:
            draft.links.append(found)


def _unique(name: str, cards: tuple[Card, ...]) -> bool:
    if not name:
        return False
    holders = [card for card in cards if any(text(item, "Id") == name for item in (*card.functions, *card.ports))]
    return len(holders) <= 1 and not name.replace(".", "").isdigit()


def _port_of(function: Mapping[str, Any], index: int, card: Card) -> int | None:
    """Which port of the card a function uses: by link, by address, by name, by the same place in equal lists."""
    wanted = [
        link(function, "Links", "PhysicalPortAssignment"),
        link(function, "Links", "PhysicalNetworkPortAssignment"),
        link(function, "PhysicalPortAssignment"),
    ]
    ends = {last_segment(path) for path in wanted if path}
    ethernet = dig(function, "Ethernet")
    address = permanent_mac(ethernet) or current_mac(ethernet)
    name = text(function, "Id") or ""
    for number_of_port, port in enumerate(card.ports):
        place = link(port)
        if (place and last_segment(place) in ends) or text(port, "Id") in ends:
            return number_of_port
    for number_of_port, port in enumerate(card.ports):
        told = list(port_macs(port))
        own = text(port, "Id") or ""
        if address in told or (own and (name == own or name.startswith(f"{own}-"))):
            return number_of_port
    return index if len(card.ports) == len(card.functions) else None


def _add_interface(drafts: list[Draft], interface: Mapping[str, Any], internal: set[MacAddress]) -> None:
    permanent, current = permanent_mac(interface), current_mac(interface)
    address = permanent or current or mac(found_in(_PATH_MAC, text(interface, "UefiDevicePath")))
    if is_internal(interface):
        internal.update(item for item in (permanent, current) if item)
        return
    name = text(interface, "Id") or (str(address) if address else "")
    if is_virtual(interface) or not name:
        return
    draft = next((item for item in drafts if address and address in (item.mac, item.current)), None)
    draft = draft or next((item for item in drafts if name in item.ids), None)
    if draft is None:
        draft = Draft(name=name)
        drafts.append(draft)
    elif not draft.ids:
        draft.name = name
    draft.ids.append(name)
    draft.mac = draft.mac or address
    if current and current != draft.mac:
        draft.current = current
    if (found := link_of(interface)) is not Link.UNKNOWN:
        draft.links.append(found)
    draft.speed = draft.speed or speed_of(interface)
    draft.model = draft.model or interface_model(interface)
    draft.path = text(interface, "UefiDevicePath") or draft.path
    draft.locator = fqdd_label(name) or draft.locator or interface_label(interface)
    draft.infiniband = draft.infiniband or name.lower().startswith("infiniband")


def _add_lldp(drafts: list[Draft], heard: tuple[Mapping[str, Any], ...]) -> None:
    for item in heard:
        name = text(item, "FQDD") or text(item, "Id") or ""
        switch, port = text(item, "SwitchConnectionID"), text(item, "SwitchPortConnectionID")
        fresh = (text(item, "StaleData") or "NotStale").lower() == "notstale"
        for draft in drafts:
            # Partitions of one port carry the same neighbour: NIC.Slot.3-1 and NIC.Slot.3-1-1.
            if not fresh or not any(own == name or own.startswith(f"{name}-") for own in (*draft.ids, draft.name)):
                continue
            if switch and switch.lower() == "no link":
                draft.unplugged = True
            elif switch and port and switch.lower() != "not supported":
                draft.neighbour = Neighbour(switch, port)


def _add_boot_options(drafts: list[Draft], options: tuple[Mapping[str, Any], ...], internal: set[MacAddress]) -> None:
    for option in options:
        address = boot_option_mac(option)
        path = text(option, "UefiDevicePath") or ""
        if address is None or address in internal:
            continue
        if "USB(" in path:
            internal.add(address)
            continue
        if any(address in (draft.mac, draft.current) for draft in drafts):
            continue
        draft = _nameless(drafts, path)
        if draft is None:
            said = text(option, "DisplayName") or text(option, "Id") or str(address)
            draft = Draft(name=bare(address), locator=re.sub(r"^.*IPv[46]\s+", "", said))
            drafts.append(draft)
        draft.mac = address


def boot_option_mac(option: Mapping[str, Any]) -> MacAddress | None:
    """The MAC of a network boot option: ``MAC(…)`` of its device path, else the one in its name."""
    found = found_in(_PATH_MAC, text(option, "UefiDevicePath"))
    if found:
        return mac(found)
    shown = text(option, "DisplayName") or ""
    about_network = re.search(r"pxe|http|network|ipv[46]|\bnic\b", shown, re.IGNORECASE)
    return mac(found_in(_NAME_MAC, shown)) if about_network else None


def _nameless(drafts: list[Draft], path: str) -> Draft | None:
    """The port without address that stands where this device path leads: same path, or same card as its sibling."""
    place = path.partition("/MAC(")[0]
    empty = [draft for draft in drafts if draft.mac is None]
    exact = [draft for draft in empty if draft.path and draft.path == place]
    if exact:
        return exact[0]
    parent = place.rpartition("/")[0]
    cards = {draft.card for draft in drafts if parent and draft.card and draft.path.rpartition("/")[0] == parent}
    beside = [draft for draft in empty if draft.card in cards]
    return beside[0] if len(beside) == 1 and len(cards) == 1 else None


def _add_bios_macs(drafts: list[Draft], bios: Mapping[str, Any], pattern: str) -> None:
    for name in bios:
        found = re.search(pattern, str(name))
        address = mac(found[1]) if found else None
        if found is None or address is None or any(address in (draft.mac, draft.current) for draft in drafts):
            continue
        slot = found[2] if found.re.groups > 1 else ""
        drafts.append(Draft(name=f"{slot and f'slot-{slot}-'}{bare(address)}", mac=address, locator=f"Slot {slot}"))


def _place(drafts: list[Draft]) -> None:
    """Make names and locators tell the ports apart."""
    names: set[str] = set()
    for number, draft in enumerate(drafts):
        if draft.name in names:  # functions without an id of their own
            draft.name = f"{draft.name}/{bare(draft.mac) if draft.mac else number}"
        names.add(draft.name)
        draft.locator = draft.locator or draft.name
    seen: dict[str, int] = {}
    for draft in drafts:
        seen[draft.locator] = seen.get(draft.locator, 0) + 1
    for draft in drafts:
        if seen[draft.locator] > 1:
            draft.locator = f"{draft.locator} ({draft.name})"


def nic_cards(cards: tuple[Card, ...]) -> Iterator[tuple[str, str, Mapping[str, Any], str | None]]:
    """Id, locator, resource and model of every card, for evidence."""
    for card in cards:
        name = text(card.adapter, "Id") or text(card.adapter, "Name") or ""
        if name:
            yield name, fqdd_label(name) or card_label(card.adapter) or name, card.adapter, card_model(card.adapter)
