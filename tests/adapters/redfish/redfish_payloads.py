"""Trees for the scripted BMC, written by ourselves: as little as a BMC of each kind must show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redfish_scripted import CHASSIS, MANAGER, ROOT, SYSTEM

Tree = dict[str, Any]


def ref(path: str) -> dict[str, str]:
    """A link."""
    return {"@odata.id": path}


def collection(path: str, members: Iterable[str]) -> Tree:
    """A collection of links."""
    found = [ref(member) for member in members]
    return {"@odata.id": path, "Name": "Collection", "Members": found, "Members@odata.count": len(found)}


def inline(path: str, members: list[Tree]) -> Tree:
    """A collection with its members inside, as $expand gives it."""
    return {"@odata.id": path, "Name": "Collection", "Members": members, "Members@odata.count": len(members)}


def root(*, expand: bool = False, vendor: str = "Dell", **more: Any) -> Tree:
    """A service root."""
    offer = {"ExpandQuery": {"ExpandAll": True, "NoLinks": True, "Levels": True, "MaxLevels": 1}} if expand else {}
    return {
        "@odata.id": ROOT,
        "RedfishVersion": "1.18.0",
        "Vendor": vendor,
        "Systems": ref(f"{ROOT}/Systems"),
        "Chassis": ref(f"{ROOT}/Chassis"),
        "Managers": ref(f"{ROOT}/Managers"),
        "Links": {"Sessions": ref(f"{ROOT}/SessionService/Sessions")},
        "ProtocolFeaturesSupported": offer,
        **more,
    }


def boot(**more: Any) -> Tree:
    """A Boot object at rest."""
    return {
        "BootSourceOverrideTarget": "None",
        "BootSourceOverrideEnabled": "Disabled",
        "BootSourceOverrideMode": "UEFI",
        "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "UefiHttp"],
        **more,
    }


def system(path: str = SYSTEM, **more: Any) -> Tree:
    """A host system that is on."""
    return {
        "@odata.id": path,
        "Id": path.rpartition("/")[2],
        "Manufacturer": "Dell Inc.",
        "Model": "PowerEdge XE9680",
        "SKU": "ABC1234",
        "SystemType": "Physical",
        "PowerState": "On",
        "BiosVersion": "2.2.3",
        "LastResetTime": "2026-05-01T08:00:00+00:00",
        "Status": {"State": "Enabled", "Health": "OK"},
        "Boot": boot(),
        "EthernetInterfaces": ref(f"{path}/EthernetInterfaces"),
        "Links": {"Chassis": [ref(CHASSIS)], "ManagedBy": [ref(MANAGER)]},
        "Actions": {
            "#ComputerSystem.Reset": {
                "target": f"{path}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "ForceRestart", "GracefulShutdown"],
            }
        },
        **more,
    }


def interface(path: str, mac: str | None, **more: Any) -> Tree:
    """An EthernetInterface with a link."""
    return {
        "@odata.id": path,
        "Id": path.rpartition("/")[2],
        "MACAddress": mac,
        "PermanentMACAddress": mac,
        "LinkStatus": "LinkUp",
        "SpeedMbps": 25000,
        "Status": {"State": "Enabled", "Health": "OK"},
        **more,
    }


def small(*macs: str, **system_more: Any) -> Tree:
    """A Dell without $expand: one system and an interface for every MAC."""
    paths = [f"{SYSTEM}/EthernetInterfaces/NIC.Slot.{number}-1-1" for number, _ in enumerate(macs, 3)]
    return {
        ROOT: root(),
        f"{ROOT}/Systems": collection(f"{ROOT}/Systems", [SYSTEM]),
        SYSTEM: system(**system_more),
        f"{SYSTEM}/EthernetInterfaces": collection(f"{SYSTEM}/EthernetInterfaces", paths),
        **{path: interface(path, mac) for path, mac in zip(paths, macs, strict=True)},
        f"{ROOT}/Chassis": collection(f"{ROOT}/Chassis", [CHASSIS]),
        CHASSIS: {"@odata.id": CHASSIS},
        MANAGER: {"@odata.id": MANAGER, "DateTime": "2026-05-01T10:00:00+00:00"},
    }


def ten_nics() -> Tree:
    """A Dell that expands, with ten cards of one Ethernet port each, PXE on the third, LLDP on all."""
    tree = small(Bios=ref(f"{SYSTEM}/Bios"))
    names = [f"NIC.Slot.{slot}-1-1" for slot in range(1, 11)]
    cards = [f"{CHASSIS}/NetworkAdapters/NIC.Slot.{slot}" for slot in range(1, 11)]
    interfaces = f"{SYSTEM}/EthernetInterfaces"
    switches = f"{SYSTEM}/NetworkPorts/Oem/Dell/DellSwitchConnections"
    return tree | {
        ROOT: root(expand=True),
        f"{ROOT}/Systems": inline(f"{ROOT}/Systems", [system(Bios=ref(f"{SYSTEM}/Bios"))]),
        SYSTEM: system(Bios=ref(f"{SYSTEM}/Bios")),
        interfaces: inline(
            interfaces, [interface(f"{interfaces}/{name}", f"B0:26:28:00:10:{n:02X}") for n, name in enumerate(names)]
        ),
        f"{CHASSIS}/NetworkAdapters": inline(
            f"{CHASSIS}/NetworkAdapters",
            [
                {
                    "@odata.id": card,
                    "Id": card.rpartition("/")[2],
                    "Model": "ConnectX-7",
                    "NetworkDeviceFunctions": ref(f"{card}/NetworkDeviceFunctions"),
                    "Controllers": [
                        {"Links": {"NetworkDeviceFunctions": [ref(f"{card}/NetworkDeviceFunctions/{name}")]}}
                    ],
                }
                for card, name in zip(cards, names, strict=True)
            ],
        ),
        f"{SYSTEM}/Bios": {
            "@odata.id": f"{SYSTEM}/Bios",
            "Attributes": {"PxeDev1EnDis": "Enabled", "PxeDev1Interface": "NIC.Slot.3-1-1"},
        },
        switches: inline(
            switches,
            [
                {
                    "@odata.id": f"{switches}/{name}",
                    "Id": name,
                    "FQDD": name,
                    "StaleData": "NotStale",
                    "SwitchConnectionID": "02:00:00:00:0a:01",
                    "SwitchPortConnectionID": f"swp{n}",
                }
                for n, name in enumerate(names, 1)
            ],
        ),
    }


def _chassis_parts() -> Tree:
    supplies = [
        {
            "Name": f"PS{n} Status",
            "MemberId": str(n - 1),
            "LineInputVoltage": 230,
            "Status": {"State": "Enabled", "Health": "OK"},
        }
        for n in (1, 2)
    ]
    devices = f"{CHASSIS}/PCIeDevices"
    device = {
        "@odata.id": f"{devices}/23-0",
        "Id": "23-0",
        "Model": "NVIDIA H100",
        "PCIeInterface": {"LanesInUse": 16, "MaxLanes": 16, "PCIeType": "Gen5", "MaxPCIeType": "Gen5"},
        "Status": {"State": "Enabled", "Health": "OK"},
    }
    return {
        CHASSIS: {
            "@odata.id": CHASSIS,
            "Power": ref(f"{CHASSIS}/Power"),
            "Thermal": ref(f"{CHASSIS}/Thermal"),
            "PCIeDevices": ref(devices),
            "NetworkAdapters": ref(f"{CHASSIS}/NetworkAdapters"),
        },
        f"{CHASSIS}/Power": {"@odata.id": f"{CHASSIS}/Power", "PowerSupplies": supplies},
        f"{CHASSIS}/Thermal": {
            "@odata.id": f"{CHASSIS}/Thermal",
            "Fans": [{"Name": "Fan 1", "Reading": 9000, "Status": {"State": "Enabled", "Health": "OK"}}],
            "Temperatures": [{"Name": "Inlet", "ReadingCelsius": 24, "Status": {"State": "Enabled", "Health": "OK"}}],
        },
        devices: collection(devices, [f"{devices}/23-0"]),
        f"{devices}/23-0": device,
    }


def whole() -> Tree:
    """Ten NICs and everything that health looks at, nothing of it inline, all of it well."""
    below = ("Storage", "Processors", "Memory", "LogServices")
    tree = ten_nics() | _chassis_parts()
    tree[SYSTEM] |= {name: ref(f"{SYSTEM}/{name}") for name in below}
    tree[f"{ROOT}/Systems"] = collection(f"{ROOT}/Systems", [SYSTEM])
    well = {"Status": {"State": "Enabled", "Health": "OK"}}
    drive, storage = f"{SYSTEM}/Storage/CPU.1/Drives/Disk.Bay.0", f"{SYSTEM}/Storage/CPU.1"
    fault = f"{MANAGER}/LogServices/FaultList"
    parts: Tree = {
        storage: {"Id": "CPU.1", "Drives": [ref(drive)]},
        drive: {"Id": "Disk.Bay.0", "CapacityBytes": 7681501126656, "SerialNumber": "S1", **well},
        f"{SYSTEM}/Processors/CPU.Socket.1": {"Id": "CPU.Socket.1", "ProcessorType": "CPU", **well},
        f"{SYSTEM}/Processors/Video.Slot.1-1": {
            "Id": "Video.Slot.1-1",
            "ProcessorType": "GPU",
            "Model": "H100",
            **well,
        },
        f"{SYSTEM}/Memory/DIMM.Socket.A1": {"Id": "DIMM.Socket.A1", "CapacityMiB": 65536, **well},
        fault: {"Id": "FaultList", "Entries": ref(f"{fault}/Entries")},
        f"{fault}/Entries": inline(
            f"{fault}/Entries", [{"Id": "1", "MessageId": "IDRAC.2.9.PSU0003", "MessageArgs": ["2"]}]
        ),
    }
    tree |= {path: {"@odata.id": path, **body} for path, body in parts.items()}
    tree |= {
        f"{SYSTEM}/Storage": collection(f"{SYSTEM}/Storage", [storage]),
        f"{SYSTEM}/Processors": collection(
            f"{SYSTEM}/Processors", [path for path in parts if path.startswith(f"{SYSTEM}/Processors/")]
        ),
        f"{SYSTEM}/Memory": collection(f"{SYSTEM}/Memory", [f"{SYSTEM}/Memory/DIMM.Socket.A1"]),
        f"{SYSTEM}/LogServices": collection(f"{SYSTEM}/LogServices", []),
        f"{MANAGER}/LogServices": collection(f"{MANAGER}/LogServices", [fault]),
    }
    tree[MANAGER]["LogServices"] = ref(f"{MANAGER}/LogServices")
    return tree
