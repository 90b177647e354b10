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
