"""Trees of all makers but Dell: network ports, in the places and spellings of each. What differs is in ``families``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provision.sim.bmc.plain_parts import Pair, listed
from provision.sim.bmc.shapes import link, links, status
from provision.sim.families import Family, spelled
from provision.sim.machine import SimMachine
from provision.sim.parts import SimNic


def fixed(machine: SimMachine) -> Iterator[Pair]:
    """Ethernet interfaces and network adapters."""
    row = machine.family
    numbered = [(number, nic) for number, nic in enumerate(machine.nics, start=1) if nic.present]
    if row.interfaces:
        shown = [
            (row.interfaces.format(n=number), _interface(row, number, nic))
            for number, nic in numbered
            if row.all_interfaces or nic.kind == "ethernet"
        ]
        if row.to_manager:
            shown.append(("ToManager", _to_manager(machine)))
        yield from listed(f"{row.system}/EthernetInterfaces", "EthernetInterface", "Interfaces", "1_8_0", shown)
    if row.cards:
        yield from _cards(machine)


def _interface(row: Family, number: int, nic: SimNic) -> dict[str, Any]:
    told: dict[str, Any] = {
        "MACAddress": spelled(row, nic.mac),
        "InterfaceEnabled": True,
        "Status": status(),
    }
    if row.link_told:
        told |= {"LinkStatus": "LinkUp" if nic.link_up else "LinkDown", "SpeedMbps": nic.speed_mbps}
    if row.all_interfaces:
        # Names repeat here: only the number behind them differs.
        told["Description"] = f"AOC_NIC #{number}"
    if row.oem != "Supermicro":
        told["PermanentMACAddress"] = spelled(row, nic.mac)
    return told


def _to_manager(machine: SimMachine) -> dict[str, Any]:
    """The BMC's own USB interface as the host sees it: nothing that carries a network."""
    tail = machine.boot_nic.mac[-8:].upper()
    return {"MACAddress": f"BE:3A:F2:{tail}", "name": "Manager Ethernet Interface", "Status": status()}


def _cards(machine: SimMachine) -> Iterator[Pair]:
    row = machine.family
    top = f"{row.chassis}/NetworkAdapters"
    adapters = list(dict.fromkeys(nic.adapter for nic in machine.nics if nic.present))
    cards = []
    inner: list[Iterator[Pair]] = []
    for number, adapter in enumerate(adapters, start=1):
        nics = [nic for nic in machine.nics if nic.adapter == adapter and nic.present]
        own = row.cards.format(n=nics[0].slot if row.oem == "Lenovo" else number)
        path = f"{top}/{own}"
        cards.append((own, _card(row, path, nics)))
        inner.append(_functions(row, path, nics))
        inner.append(_ports(row, path, nics))
    yield from listed(top, "NetworkAdapter", "Network Adapters", "1_9_0", cards)
    for pairs in inner:
        yield from pairs


def _card(row: Family, path: str, nics: list[SimNic]) -> dict[str, Any]:
    count = range(len(nics))
    return {
        "Controllers": [
            {
                "Links": {
                    **links("NetworkDeviceFunctions", (f"{path}/NetworkDeviceFunctions/{n}" for n in count)),
                    **links(row.ports, (f"{path}/{row.ports}/{n}" for n in count)),
                },
                "Location": {"PartLocation": {"ServiceLabel": f"Slot {nics[0].slot}"}},
            }
        ],
        "Model": nics[0].model,
        "NetworkDeviceFunctions": link(f"{path}/NetworkDeviceFunctions"),
        row.ports: link(f"{path}/{row.ports}"),
        "SerialNumber": f"SN{nics[0].mac.replace(':', '').upper()}",
        "Status": status(),
    }


def _functions(row: Family, path: str, nics: list[SimNic]) -> Iterator[Pair]:
    members = []
    for number, nic in enumerate(nics):
        infiniband = nic.kind == "infiniband"
        told: dict[str, Any] = {
            "Ethernet": {"MACAddress": spelled(row, nic.mac), "PermanentMACAddress": spelled(row, nic.mac)},
            "Links": {"PhysicalPortAssignment": link(f"{path}/{row.ports}/{number}")},
            "NetDevFuncType": "InfiniBand" if infiniband else "Ethernet",
            "Status": status(),
        }
        if infiniband:
            told["InfiniBand"] = {"NodeGUID": _guid(nic), "PortGUID": _guid(nic)}
        members.append((str(number), told))
    yield from listed(f"{path}/NetworkDeviceFunctions", "NetworkDeviceFunction", "Device Functions", "1_8_0", members)


def _guid(nic: SimNic) -> str:
    digits = nic.guid.removeprefix("0x")
    return ":".join(digits[n : n + 4] for n in range(0, 16, 4))


def _ports(row: Family, path: str, nics: list[SimNic]) -> Iterator[Pair]:
    members = []
    for number, nic in enumerate(nics):
        infiniband = nic.kind == "infiniband"
        told: dict[str, Any] = {"Status": status()}
        if row.ports == "Ports":
            told |= {
                "CurrentSpeedGbps": nic.speed_mbps / 1000 if nic.link_up else None,
                "Ethernet": {"AssociatedMACAddresses": [spelled(row, nic.mac)]},
                "LinkNetworkTechnology": "InfiniBand" if infiniband else "Ethernet",
                "LinkStatus": "LinkUp" if nic.link_up else "LinkDown",
                "PortId": str(number + 1),
            }
        else:
            # HPE and Lenovo put GUIDs where addresses belong, and a row of zeros beside them.
            addresses = [_guid(nic), "0000:0000:0000:0000"] if infiniband else [spelled(row, nic.mac)]
            told |= {
                "ActiveLinkTechnology": "InfiniBand" if infiniband else "Ethernet",
                "AssociatedNetworkAddresses": addresses,
                "CurrentLinkSpeedMbps": nic.speed_mbps if nic.link_up else None,
                "LinkStatus": "Up" if nic.link_up else "Down",
                "PhysicalPortNumber": str(number + 1),
            }
        members.append((str(number), told))
    kind = row.ports.removesuffix("s")
    yield from listed(f"{path}/{row.ports}", kind, row.ports, "1_4_0", members)
