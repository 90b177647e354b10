"""What one resource says of a port: link, speed, kind, GUIDs, neighbour, and whether it is a port of the host. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provision.adapters.redfish.values import dig, link, mac, macs, number, state, text, texts, whole
from provision.model.bmc import Link, Neighbour
from provision.model.node import MacAddress

_INTERNAL_SAID = re.compile(
    r"manager ethernet|over usb|virtual usb|usb[-_ ]?(lan|nic|ethernet)|rndis"
    r"|os[- ]to[- ](bmc|idrac)",
    re.IGNORECASE,
)
_INTERNAL_ID = re.compile(
    rf"^(to[-_ ]?manager|to[-_ ]?host|\w*usb|bmc|idrac|ilo\b|xcc\b|irmc\b|tmfifo)|{_INTERNAL_SAID.pattern}",
    re.IGNORECASE,
)
_VIRTUAL = re.compile(
    r"^(lo$|lo\d|virbr|docker|veth|vlan|bond|team|br-|tap|tun|vnet|dummy)|[._-]vlan[._-]?\d|\.\d{2,4}$", re.IGNORECASE
)
# Pipes of a BMC or a DPU to its host, alike in every machine: BlueField's tmfifo, HPE's virtual NIC, AMI's USB NIC.
_SAME_EVERYWHERE = ("00:1a:ca:ff:ff:", "0a:ca:fe:f0:0d:", "be:3a:f2:")
# The names that EthernetInterface and its Oem relatives give an address; the older ones are iLO 4's and HPE's.
_PERMANENT = ("PermanentMACAddress", "FactoryMacAddress", "PermanentMacAddress")
_CURRENT = ("MACAddress", "MacAddress")
_UP = {"linkup", "up", "starting", "training"}
_DOWN = {"linkdown", "down", "nolink"}
_GUID = re.compile(r"[0-9a-fA-F]{4}(:[0-9a-fA-F]{4}){3}|[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){7}|(0x)?[0-9a-fA-F]{16}")


def card_model(adapter: Mapping[str, Any]) -> str | None:
    name = text(adapter, "Name") or ""
    generic = re.fullmatch(r"network ?adapter( view)?", name, re.IGNORECASE) or name == text(adapter, "Id")
    return text(adapter, "Model") or (None if generic else name or None)


def is_infiniband(function: Mapping[str, Any], port: Mapping[str, Any], name: str) -> bool:
    kind = (text(function, "NetDevFuncType") or "").lower()
    if kind in {"infiniband", "ethernet"}:
        return kind == "infiniband"
    told = (text(port, "LinkNetworkTechnology") or text(port, "ActiveLinkTechnology") or "").lower()
    return told == "infiniband" or (not told and name.lower().startswith("infiniband"))


def permanent_mac(holder: Any) -> MacAddress | None:
    """The burnt-in address that an interface, a function or its ``Ethernet`` tells, under any of its names."""
    return next((found for key in _PERMANENT if (found := mac(dig(holder, key)))), None)


def current_mac(holder: Any) -> MacAddress | None:
    """The address in use that an interface, a function or its ``Ethernet`` tells, under any of its names."""
    return next((found for key in _CURRENT if (found := mac(dig(holder, key)))), None)


def is_pipe(address: MacAddress | None) -> bool:
    """True for the end of a pipe between host and BMC or DPU, which is no port and the same in every machine."""
    return address is not None and str(address).startswith(_SAME_EVERYWHERE)


def bare(address: MacAddress) -> str:
    """Twelve digits, as a name for a port that has no other."""
    return str(address).replace(":", "")


def port_macs(port: Mapping[str, Any]) -> Iterator[MacAddress]:
    """Addresses that a port lists, ``Port`` and the older ``NetworkPort`` alike; GUIDs among them are left out."""
    yield from macs(dig(port, "Ethernet", "AssociatedMACAddresses"))
    yield from macs(port.get("AssociatedNetworkAddresses"))
    yield from macs(port.get("AssociatedMACAddresses"))


def guids_of(function: Mapping[str, Any], port: Mapping[str, Any]) -> Iterator[str]:
    dell = dig(function, "Oem", "Dell", "DellInfiniBand") or {}
    raw = [
        text(function, "InfiniBand", "NodeGUID"),
        text(function, "InfiniBand", "PortGUID"),
        text(dell, "NodeGUID"),
        text(dell, "PermanentPortGUID"),
        *texts(port, "InfiniBand", "AssociatedPortGUIDs"),
        *texts(port, "InfiniBand", "AssociatedNodeGUIDs"),
        *texts(port, "AssociatedNetworkAddresses"),
    ]
    for item in raw:
        if item and _GUID.fullmatch(item) and item.strip("0x:-"):
            yield item


def link_of(item: Mapping[str, Any]) -> Link:
    """Link state; a resource whose own State is null or empty has no data behind its words (BlueField on iDRAC)."""
    said = (text(item, "LinkStatus") or "").lower()
    if not said or ("Status" in item and isinstance(item["Status"], Mapping) and not state(item)):
        return Link.UNKNOWN
    return Link.UP if said in _UP else Link.DOWN if said in _DOWN else Link.UNKNOWN


def speed_of(item: Mapping[str, Any]) -> int | None:
    """Megabits per second; zero is "no link" or "not known", never a speed."""
    gigabits = number(item, "CurrentSpeedGbps")
    megabits = gigabits * 1000 if gigabits else number(item, "CurrentLinkSpeedMbps") or number(item, "SpeedMbps")
    return whole({"it": megabits}, "it") if megabits and megabits > 0 else None


def lldp_of(port: Mapping[str, Any]) -> Neighbour | None:
    heard = dig(port, "Ethernet", "LLDPReceive") or {}
    switch = text(heard, "SystemName") or text(heard, "ChassisId") or text(heard, "ManagementAddressMAC")
    name = text(heard, "PortDescription") if text(heard, "PortIdSubtype") == "LocalAssign" else None
    name = name or text(heard, "PortId")
    return Neighbour(switch, name) if switch and name else None


def found_in(pattern: re.Pattern[str], value: str | None) -> str | None:
    match = pattern.search(value) if value else None
    return match[1] if match else None


def is_internal(interface: Mapping[str, Any]) -> bool:
    """True for an end of the line between BMC and host: the BMC's own interface, or the host's towards it."""
    return (
        _INTERNAL_ID.search(text(interface, "Id") or "") is not None
        or any(_INTERNAL_SAID.search(text(interface, key) or "") for key in ("Name", "Description"))
        or link(interface, "Links", "HostInterface") is not None
        or "USB(" in (text(interface, "UefiDevicePath") or "")
        or is_pipe(permanent_mac(interface) or current_mac(interface))
    )


def is_virtual(interface: Mapping[str, Any]) -> bool:
    """True for bridges, bonds, VLANs and tunnels: addresses without a plug of their own."""
    if (text(interface, "EthernetInterfaceType") or "").lower() == "virtual":
        return True
    if _VIRTUAL.search(text(interface, "Id") or ""):
        return True
    return dig(interface, "VLAN", "VLANEnable") is True and dig(interface, "Links", "RelatedInterfaces") is not None


def interface_label(interface: Mapping[str, Any]) -> str:
    name, said = text(interface, "Id") or "", text(interface, "Description") or text(interface, "Name") or ""
    return f"NIC {name}" if name.isdigit() else said if re.search(r"\d", said) and len(said) < 40 else name


def interface_model(interface: Mapping[str, Any]) -> str | None:
    said = text(interface, "Description") or ""
    found = re.match(r"(.+) #\d+$", said)  # Supermicro: "MCX75310AAS-NEAT #1"
    return found[1] if found else None
