"""Was the part of a ticket looked at again, and is it well? A gap or an unknown reading never says so."""

from __future__ import annotations

from collections.abc import Sequence

from provision.model.evidence import Evidence, PartKind, Reading
from provision.model.finding import Action, Category
from provision.model.node import Cable, Node
from provision.model.ticket import Ticket
from provision.triage.cabling import as_planned, cable_locator, port_of
from provision.triage.facts import WELL, label, live

_BAD = frozenset(
    {
        *(Reading.FAILED, Reading.FAILING, Reading.NO_INPUT, Reading.ABSENT),
        *(Reading.DEGRADED, Reading.REDUCED, Reading.DOWN, Reading.OFF),
    }
)
# What hangs on cables inside the box: lists of these must have been read to call such a cable well.
_INSIDE = (PartKind.GPU, PartKind.NIC, PartKind.DRIVE, PartKind.PCIE)


def looked_well(ticket: Ticket, node: Node, looked_at: Sequence[Evidence]) -> str | None:
    """The reading that shows the part well, in words; None if it was not looked at or is not well.

    Called when no finding speaks of the part any more; this asks for the positive sign.
    """
    seen = live(looked_at)
    if len(ticket.nodes) > 1:
        if ticket.part_kind is PartKind.CABLE and "+" in ticket.part_name:
            return _swapped(ticket, seen)
        return _shared(ticket, seen)
    mine = [item for item in seen if item.node == node.name]
    if ticket.part_kind is PartKind.CABLE:
        if ticket.category is Category.INTERNAL_CABLE:
            return _inside(ticket, mine)
        return _cable(ticket, node, mine)
    if ticket.part_name.startswith("*") and ticket.part_name[1:].isdigit():
        return _counted(ticket, mine, int(ticket.part_name[1:]))
    return _part(ticket, mine)


def _about(ticket: Ticket, seen: Sequence[Evidence]) -> list[Evidence]:
    places = {label(ticket.locator), label(ticket.part_name)}
    return [
        item
        for item in seen
        if item.part.kind is ticket.part_kind
        and (item.part.name == ticket.part_name or label(item.part.locator) in places)
    ]


def _part(ticket: Ticket, seen: Sequence[Evidence]) -> str | None:
    about = [item for item in _about(ticket, seen) if item.reading is not Reading.EVENT]
    if any(item.reading in _BAD for item in about):
        return None
    for item in about:
        if item.reading in WELL:
            return f"{item.source} {item.reading.value}"
        if item.source == "redfish/pcie" and isinstance(width := item.values.get("width"), int) and width > 0:
            return f"{item.source} x{width}"
    return None


def _counted(ticket: Ticket, seen: Sequence[Evidence], expected: int) -> str | None:
    for item in seen:
        count = item.values.get("count")
        if item.source == "redfish/count" and item.part.kind is ticket.part_kind and isinstance(count, int):
            return f"{count} of {expected} listed" if count >= expected else None
    return None


def _cable(ticket: Ticket, node: Node, seen: Sequence[Evidence]) -> str | None:
    """A cable between two ports of one node (``a+b``) is well when both are."""
    said = []
    for name in ticket.part_name.split("+"):
        port = next((e for e in seen if e.source == "redfish/ports" and e.part.name == name), None)
        if port is None:
            port = next((e for e in seen if e.source == "redfish/ports" and label(e.part.locator) == label(name)), None)
        if port is None or port.reading is not Reading.UP:
            return None
        plan = next((c for c in node.cabling if port_of(c, [port], "redfish/ports") is not None), None)
        heard = next((e for e in seen if e.source == "redfish/lldp" and e.part.name == port.part.name), None)
        fits = as_planned(plan, heard) if plan is not None and heard is not None else None
        if fits is False or (fits is None and ticket.action is Action.RECABLE_PORT):
            return None
        said.append(f"{cable_locator(plan, port.part) if plan else port.part.locator} up")
    return "; ".join(said) or None


def _swapped(ticket: Ticket, seen: Sequence[Evidence]) -> str | None:
    """Two cables of two machines: both have a link, and LLDP hears on each what the ticket says belongs there.

    Links alone prove nothing, they were up while the cables were in each other's place.
    """
    said = []
    names, ends = ticket.part_name.split("+"), ticket.peer_end.split(" and ")
    if not len(names) == len(ends) == len(ticket.nodes):
        return None
    for node, name, far in zip(ticket.nodes, names, ends, strict=True):
        switch, _, port = far.partition(" ")
        plan = Cable(name, switch, port.removeprefix("port "))
        mine = [item for item in seen if item.node == node]
        link, heard = port_of(plan, mine, "redfish/ports"), port_of(plan, mine, "redfish/lldp")
        if link is None or link.reading is not Reading.UP or heard is None or as_planned(plan, heard) is not True:
            return None
        said.append(f"{node} {heard.part.locator} hears {far}")
    return "; ".join(said)


def _inside(ticket: Ticket, seen: Sequence[Evidence]) -> str | None:
    under = [item for item in seen if item.part.parent == ticket.part_name]
    if under:
        well = all(item.reading not in _BAD for item in under) and any(
            item.reading is not Reading.UNKNOWN for item in under
        )
        return f"{len(under)} parts behind it are there" if well else None
    lists = {item.part.kind for item in seen if item.source == "redfish/count"} & set(_INSIDE)
    bad = any(item.part.kind in _INSIDE and item.reading in _BAD - {Reading.ABSENT} for item in seen)
    return "all parts behind it are listed" if lists and not bad else None


def _shared(ticket: Ticket, seen: Sequence[Evidence]) -> str | None:
    """Every machine of the ticket must have been looked at, and each show a well part of the kind in question."""
    kinds = {
        Category.PSU: {PartKind.PSU},
        Category.BMC: {PartKind.BMC},
        Category.CABLING_ETHERNET: {PartKind.PORT},
        Category.CABLING_INFINIBAND: {PartKind.PORT},
    }.get(ticket.category, {ticket.part_kind})
    for name in ticket.nodes:
        mine = [item for item in seen if item.node == name and item.part.kind in kinds]
        bad = _BAD - ({Reading.DOWN} if PartKind.PORT in kinds else set())
        if ticket.rule == "PDU-DARK":
            bad = frozenset({Reading.NO_INPUT})
        if not any(item.reading in WELL for item in mine) or any(item.reading in bad for item in mine):
            return None
    return f"all {len(ticket.nodes)} machines looked at"
