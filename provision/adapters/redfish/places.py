"""What is printed on the metal: labels of slots, cards, ports, drives, supplies and fans. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from provision.adapters.redfish.values import dig, objects, text, whole

_SLOT = re.compile(
    r"^(?:NIC|InfiniBand|FC|Video|GPU|RAID|NonRAID)\.(Slot|Mezzanine|Integrated)\.(\w+?)(?:-(\d+))?(?:-(\d+))?$"
)
_EMBEDDED = re.compile(r"^(?:NIC|FC)\.Embedded\.(\d+)(?:-(\d+))?(?:-(\d+))?$")


def fqdd_label(name: str) -> str:
    """A Dell FQDD as printed: ``NIC.Slot.3-1-1`` is ``Slot 3 Port 1``; empty for other names.

    Embedded ports count in the first number (``NIC.Embedded.2-1-1`` is port 2 of the board), partitions after the
    first are named. Source: descriptions in the R750 trees.
    """
    found = _SLOT.match(name)
    if found:
        place, slot, port, partition = found.groups()
        label = f"Integrated NIC {slot}" if place == "Integrated" else f"{place} {slot}"
        if port and not name.startswith(("Video", "GPU", "RAID", "NonRAID")):
            label += f" Port {port}"
        return f"{label} Partition {partition}" if partition and partition != "1" else label
    found = _EMBEDDED.match(name)
    if found:
        port, second, partition = found.groups()
        label = f"Embedded NIC 1 Port {port}" if second else f"Embedded NIC {port}"
        return f"{label} Partition {partition}" if partition and partition != "1" else label
    return ""


def part_location(item: Mapping[str, Any], *keys: str) -> str:
    """A ``PartLocation`` as printed: its ServiceLabel, else type and number (``Slot 7``); empty if it says nothing."""
    place = dig(item, *keys, "PartLocation") or {}
    label = text(place, "ServiceLabel")
    if label:
        return label
    kind, number = text(place, "LocationType"), whole(place, "LocationOrdinalValue")
    return f"{kind} {number}" if kind and number is not None else ""


def card_label(adapter: Mapping[str, Any]) -> str:
    """Where a card sits: its location, its controller's, or its id when that names a slot."""
    for holder in (adapter, *objects(adapter, "Controllers")):
        label = part_location(holder, "Location") or text(holder, "Location", "Info") or ""
        if label:
            return label
    name = text(adapter, "Id") or ""
    found = re.fullmatch(r"slot[-_ ]?(\w+)", name, re.IGNORECASE)
    return f"Slot {found[1]}" if found else fqdd_label(name)


def port_label(card: str, function: Mapping[str, Any], port: Mapping[str, Any]) -> str:
    """``Slot 3 Port 1``: the card's label and the number printed beside the port, as far as either is known."""
    number = port_number(function, port)
    if not card:
        return text(port, "Id") or text(function, "Id") or ""
    return f"{card} Port {number}" if number else card


def port_number(function: Mapping[str, Any], port: Mapping[str, Any]) -> str:
    """The number printed beside a port, as far as port or function tell it; empty if they do not."""
    number = text(port, "PhysicalPortNumber") or text(port, "PortId") or _digits(text(port, "Id"))
    number = number or _digits(text(function, "Id"))
    return number if len(number) < 4 else ""


def _digits(name: str | None) -> str:
    found = re.fullmatch(r"(\d{1,3})(?:\.\d+)?", name or "")
    return found[1] if found else ""
