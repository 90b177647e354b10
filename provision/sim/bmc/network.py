"""Network cards as an iDRAC9 shows them, in the three places where clients look, and the LLDP neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from provision.sim.bmc.shapes import (
    CHASSIS,
    SWITCHES,
    SYSTEM,
    Build,
    Resource,
    collection,
    link,
    links,
    resource,
    status,
)
from provision.sim.machine import SimMachine
from provision.sim.parts import SimNic

ADAPTERS = f"{CHASSIS}/NetworkAdapters"


def fixed(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    """Ethernet interfaces, adapters with functions and ports, switch connections."""
    nics = [nic for nic in machine.nics if nic.present]
    # InfiniBand cards are absent from EthernetInterfaces (R750, iDRAC9 6.00.30 and 7.10.30).
    ethernet = [nic for nic in nics if nic.kind == "ethernet"]
    top = f"{SYSTEM}/EthernetInterfaces"
    yield (
        top,
        lambda: collection(
            top, "EthernetInterface", "System Ethernet Interface Collection", [f"{top}/{nic.name}" for nic in ethernet]
        ),
    )
    for nic in ethernet:
        yield f"{top}/{nic.name}", partial(_interface, f"{top}/{nic.name}", nic)
    adapters = list(dict.fromkeys(nic.adapter for nic in nics))
    yield (
        ADAPTERS,
        lambda: collection(
            ADAPTERS, "NetworkAdapter", "Network Adapter Collection", [f"{ADAPTERS}/{name}" for name in adapters]
        ),
    )
    for adapter in adapters:
        yield from _adapter(adapter, [nic for nic in nics if nic.adapter == adapter])
    yield SWITCHES, partial(_switches, ethernet)


def port_id(nic: SimNic) -> str:
    """The port's id: the FQDD without its partition (``NIC.Slot.35-1``)."""
    return "-".join(nic.name.split("-")[:2])


def _interface(path: str, nic: SimNic) -> Resource:
    return resource(
        path,
        "EthernetInterface",
        "1_10_0",
        "System Ethernet Interface",
        Description=f"NIC in {nic.slot_label} Partition 1",
        EthernetInterfaceType="Physical",
        InterfaceEnabled=True,
        LinkStatus="LinkUp" if nic.link_up else "LinkDown",
        Links={"Chassis": link(CHASSIS)},
        MACAddress=nic.mac.upper(),
        PermanentMACAddress=nic.mac.upper(),
        SpeedMbps=nic.speed_mbps if nic.link_up else 0,
        Status=status(),
        UefiDevicePath="PciRoot(0x2)/Pci(0x1,0x0)/Pci(0x0,0x0)",
    )


def _adapter(name: str, nics: list[SimNic]) -> Iterator[tuple[str, Build]]:
    top = f"{ADAPTERS}/{name}"
    functions, ports, old = f"{top}/NetworkDeviceFunctions", f"{top}/Ports", f"{top}/NetworkPorts"
    yield top, partial(_card, top, nics)
    yield (
        functions,
        lambda: collection(
            functions, "NetworkDeviceFunction", "Device Functions", [f"{functions}/{nic.name}" for nic in nics]
        ),
    )
    yield ports, lambda: collection(ports, "Port", "Ports", [f"{ports}/{port_id(nic)}" for nic in nics])
    yield old, lambda: collection(old, "NetworkPort", "Network Ports", [f"{old}/{port_id(nic)}" for nic in nics])
    for nic in nics:
        yield f"{functions}/{nic.name}", partial(_function, f"{functions}/{nic.name}", top, nic)
        yield f"{ports}/{port_id(nic)}", partial(_port, f"{ports}/{port_id(nic)}", nic)
        yield f"{old}/{port_id(nic)}", partial(_network_port, f"{old}/{port_id(nic)}", nic)


def _card(path: str, nics: list[SimNic]) -> Resource:
    first = nics[0]
    return resource(
        path,
        "NetworkAdapter",
        "1_9_0",
        "Network Adapter View",
        Controllers=[
            {
                "FirmwarePackageVersion": "28.39.1002" if first.kind == "infiniband" else "22.31.6",
                "Links": {
                    **links("NetworkDeviceFunctions", (f"{path}/NetworkDeviceFunctions/{nic.name}" for nic in nics)),
                    **links("Ports", (f"{path}/Ports/{port_id(nic)}" for nic in nics)),
                },
                "Location": {"PartLocation": {"LocationOrdinalValue": first.slot, "LocationType": "Slot"}},
            }
        ],
        Manufacturer="Mellanox Technologies" if first.kind == "infiniband" else "Broadcom Corp",
        Model=first.model,
        NetworkDeviceFunctions=link(f"{path}/NetworkDeviceFunctions"),
        NetworkPorts=link(f"{path}/NetworkPorts"),
        Ports=link(f"{path}/Ports"),
        SerialNumber=f"SN{first.mac.replace(':', '').upper()}",
        Status=status(),
    )


def _function(path: str, adapter: str, nic: SimNic) -> Resource:
    infiniband = nic.kind == "infiniband"
    oem = {
        "Description": f"{'InfiniBand' if infiniband else 'NIC'} in {nic.slot_label}",
        "FQDD": nic.name,
        "Id": nic.name,
        "VendorName": "Mellanox Technologies" if infiniband else "Broadcom Corp",
        "ProductName": nic.model,
    }
    if infiniband:
        oem |= {"NodeGUID": nic.guid, "PermanentPortGUID": nic.guid}
    return resource(
        path,
        "NetworkDeviceFunction",
        "1_9_0",
        "NetworkDeviceFunction",
        Ethernet={"MACAddress": nic.mac.upper(), "PermanentMACAddress": nic.mac.upper(), "VLAN": {}},
        Links={
            "PhysicalNetworkPortAssignment": link(f"{adapter}/Ports/{port_id(nic)}"),
            "PhysicalPortAssignment": link(f"{adapter}/NetworkPorts/{port_id(nic)}"),
        },
        # An InfiniBand function has no type on an iDRAC9, and its MAC stands under Ethernet all the same.
        NetDevFuncType=None if infiniband else "Ethernet",
        NetDevFuncCapabilities=[] if infiniband else ["Disabled", "Ethernet"],
        Oem={
            "Dell": {
                "@odata.type": "#DellOem.v1_3_0.DellOemResources",
                "DellNIC": None if infiniband else oem,
                "DellInfiniBand": oem if infiniband else None,
            }
        },
    )


def _port(path: str, nic: SimNic) -> Resource:
    infiniband = nic.kind == "infiniband"
    # An InfiniBand port that is up shows no speed here.
    speed = None if infiniband else nic.speed_mbps / 1000 if nic.link_up else 0
    return resource(
        path,
        "Port",
        "1_9_0",
        "Network Port View",
        CurrentSpeedGbps=speed,
        Ethernet={"AssociatedMACAddresses": [nic.mac.upper()]},
        LinkNetworkTechnology="InfiniBand" if infiniband else "Ethernet",
        LinkStatus="LinkUp" if nic.link_up else "LinkDown",
        PortId=port_id(nic).rsplit("-", 1)[-1],
        Status=status(),
    )


def _network_port(path: str, nic: SimNic) -> Resource:
    infiniband = nic.kind == "infiniband"
    return resource(
        path,
        "NetworkPort",
        "1_4_1",
        "Network Port View",
        ActiveLinkTechnology="InfiniBand" if infiniband else "Ethernet",
        AssociatedNetworkAddresses=[nic.mac.upper()],
        CurrentLinkSpeedMbps=None if infiniband else nic.speed_mbps if nic.link_up else 0,
        LinkStatus="Up" if nic.link_up else "Down",
        PhysicalPortNumber=port_id(nic).rsplit("-", 1)[-1],
        Status=status(),
    )


def _switches(nics: list[SimNic]) -> Resource:
    seen = [("iDRAC.Embedded.1", "mgmt-1", "ge-0/0/1")]
    for nic in nics:
        seen.append((nic.name, nic.actual_switch, nic.actual_port) if nic.link_up else (nic.name, "No Link", "No Link"))
    members = [
        resource(
            f"{SWITCHES}/{name}",
            "DellSwitchConnection",
            "1_1_0",
            "DellSwitchConnection",
            FQDD=name,
            InstanceID=name,
            StaleData="NotStale",
            SwitchConnectionID=switch,
            SwitchPortConnectionID=port,
        )
        for name, switch, port in seen
    ]
    return collection(SWITCHES, "DellSwitchConnection", "DellSwitchConnectionCollection", members)
