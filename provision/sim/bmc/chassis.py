"""What is in the box: power, cooling, PCIe devices and drives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from provision.sim.bmc.shapes import (
    CHASSIS,
    MANAGER,
    ROOT,
    SYSTEM,
    Build,
    Resource,
    collection,
    link,
    links,
    resource,
    status,
)
from provision.sim.bmc.system import gpu_bus, health
from provision.sim.machine import SimMachine
from provision.sim.parts import SimDrive, SimPsu

FANS = tuple(f"Fan.Embedded.{n}" for n in range(1, 17))


def fixed(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    """Chassis, power, cooling, PCIe devices, storage."""
    yield f"{ROOT}/Chassis", lambda: collection(f"{ROOT}/Chassis", "Chassis", "Chassis Collection", [CHASSIS])
    yield CHASSIS, partial(_chassis, machine)
    yield f"{CHASSIS}/Power", partial(_power, machine)
    yield from _power_subsystem(machine)
    yield f"{CHASSIS}/Thermal", _thermal
    yield from _thermal_subsystem()
    yield from _pcie(machine)
    yield f"{CHASSIS}/PCIeSlots", partial(_pcie_slots, machine)
    yield from _storage(machine)


def _chassis(machine: SimMachine) -> Resource:
    return resource(
        CHASSIS,
        "Chassis",
        "1_23_0",
        "Computer System Chassis",
        AssetTag=machine.asset_tag,
        ChassisType="RackMount",
        Links={**links("ComputerSystems", [SYSTEM]), **links("ManagedBy", [MANAGER])},
        Manufacturer="Dell Inc.",
        Model=machine.model,
        NetworkAdapters=link(f"{CHASSIS}/NetworkAdapters"),
        PCIeDevices=link(f"{CHASSIS}/PCIeDevices"),
        PCIeSlots=link(f"{CHASSIS}/PCIeSlots"),
        Power=link(f"{CHASSIS}/Power"),
        PowerSubsystem=link(f"{CHASSIS}/PowerSubsystem"),
        SKU=machine.service_tag,
        SerialNumber=f"CN{machine.service_tag}",
        Status=status(health(machine)),
        Thermal=link(f"{CHASSIS}/Thermal"),
        ThermalSubsystem=link(f"{CHASSIS}/ThermalSubsystem"),
        UUID=machine.uuid,
    )


def _power(machine: SimMachine) -> Resource:
    supplies: list[Resource] = []
    for index, psu in enumerate(psu for psu in machine.psus if psu.present):
        supplies.append(
            {
                "@odata.id": f"{CHASSIS}/Power#/PowerSupplies/{index}",
                "@odata.type": "#Power.v1_7_1.PowerSupply",
                "FirmwareVersion": "00.1D.9C",
                "LineInputVoltage": 230 if psu.cord else None,
                "LineInputVoltageType": "AC240V" if psu.cord else "Unknown",
                "Manufacturer": "DELL",
                "MemberId": str(index),
                "Model": "PWR SPLY,2800W,RDNT,DELTA",
                "Name": f"PS{psu.number} Status",
                "Oem": {
                    "Dell": {
                        "@odata.type": "#DellOem.v1_3_0.DellOemResources",
                        "DellPowerSupplyView": {
                            "DetailedState": _detailed(psu),
                            "DeviceDescription": f"Power Supply {psu.number}",
                            "Id": psu.name,
                        },
                    }
                },
                "PowerCapacityWatts": 2800,
                "PowerInputWatts": 410.0 if psu.giving else 0,
                "PowerOutputWatts": 385.0 if psu.giving else 0,
                "PowerSupplyType": "AC" if psu.cord else "Unknown",
                # Dell leaves this empty, also when a supply is lost.
                "Redundancy": [],
                "Redundancy@odata.count": 0,
                "SerialNumber": psu.serial,
                "Status": _psu_status(psu),
            }
        )
    return resource(
        f"{CHASSIS}/Power",
        "Power",
        "1_7_1",
        "Power",
        PowerControl=[],
        PowerSupplies=supplies,
        Redundancy=[],
        Voltages=[],
        **{"PowerSupplies@odata.count": len(supplies), "Redundancy@odata.count": 0},
    )


def _psu_status(psu: SimPsu) -> Resource:
    if psu.giving:
        return {"Health": "OK", "State": "Enabled"}
    return {"Health": "Critical", "State": "Enabled" if psu.failed else "UnavailableOffline"}


def _detailed(psu: SimPsu) -> str:
    if psu.failed:
        return "Failure detected"
    return "Presence Detected" if psu.cord else "Input Lost"


def _power_subsystem(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    top = f"{CHASSIS}/PowerSubsystem"
    supplies = f"{top}/PowerSupplies"
    yield (
        top,
        lambda: resource(
            top,
            "PowerSubsystem",
            "1_1_0",
            "Power Subsystem",
            PowerSupplies=link(supplies),
            Status=status(),
            CapacityWatts=2800 * 6,
        ),
    )
    present = [psu for psu in machine.psus if psu.present]
    yield (
        supplies,
        lambda: collection(supplies, "PowerSupply", "Power Supplies", [f"{supplies}/{psu.name}" for psu in present]),
    )
    for psu in present:
        yield f"{supplies}/{psu.name}", partial(_supply, f"{supplies}/{psu.name}", psu)


def _supply(path: str, psu: SimPsu) -> Resource:
    return resource(
        path,
        "PowerSupply",
        "1_5_1",
        f"PS{psu.number} Status",
        InputNominalVoltageType="AC240V",
        LineInputStatus="Normal" if psu.cord else "LossOfInput",
        Location={"PartLocation": {"LocationOrdinalValue": psu.number, "ServiceLabel": f"PSU {psu.number}"}},
        Manufacturer="DELL",
        Model="PWR SPLY,2800W,RDNT,DELTA",
        PowerCapacityWatts=2800,
        PowerSupplyType="AC",
        SerialNumber=psu.serial,
        Status=_psu_status(psu),
    )


def _thermal() -> Resource:
    fans = [
        {
            "@odata.id": f"{CHASSIS}/Thermal#/Fans/{index}",
            "FanName": f"System Board Fan{index + 1}",
            "MemberId": str(index),
            "Name": f"System Board Fan{index + 1}",
            "Reading": 9720,
            "ReadingUnits": "RPM",
            "Status": {"Health": "OK", "State": "Enabled"},
        }
        for index in range(len(FANS))
    ]
    inlet = {
        "@odata.id": f"{CHASSIS}/Thermal#/Temperatures/0",
        "MemberId": "0",
        "Name": "System Board Inlet Temp",
        "ReadingCelsius": 24,
        "Status": {"Health": "OK", "State": "Enabled"},
        "UpperThresholdCritical": 42,
    }
    return resource(f"{CHASSIS}/Thermal", "Thermal", "1_7_1", "Thermal", Fans=fans, Temperatures=[inlet], Redundancy=[])


def _thermal_subsystem() -> Iterator[tuple[str, Build]]:
    top = f"{CHASSIS}/ThermalSubsystem"
    yield top, lambda: resource(top, "ThermalSubsystem", "1_2_0", "Thermal", Fans=link(f"{top}/Fans"), Status=status())
    yield f"{top}/Fans", lambda: collection(f"{top}/Fans", "Fan", "Fans", [f"{top}/Fans/{fan}" for fan in FANS])
    for number, fan in enumerate(FANS, start=1):
        yield f"{top}/Fans/{fan}", partial(_fan, f"{top}/Fans/{fan}", number)


def _fan(path: str, number: int) -> Resource:
    return resource(path, "Fan", "1_4_0", f"Fan {number}", SpeedPercent={"SpeedRPM": 9720}, Status=status())


@dataclass(frozen=True)
class _Device:
    bus: str
    model: str
    maker: str
    width: int
    max_width: int
    gen: int
    device_class: str
    ordinal: int | None
    slot_type: str
    serial: str
    max_gen: int = 0


def _devices(machine: SimMachine) -> Iterator[_Device]:
    for slot in machine.slots:
        card = next((nic for nic in machine.nics if nic.slot == slot.number and nic.present), None)
        if slot.present and card is not None:
            maker = "Mellanox Technologies" if card.kind == "infiniband" else "Broadcom Corp"
            serial = f"SN{card.mac.replace(':', '').upper()}"
            yield _Device(
                f"{100 + slot.number}-0", card.model, maker, slot.width, slot.max_width, slot.gen, "NetworkController",
                slot.number, "FullLength", serial, slot.max_gen,
            )  # fmt: skip
    for gpu in machine.gpus:
        if gpu.present:
            yield _Device(
                gpu_bus(gpu), gpu.model, "NVIDIA Corporation", gpu.width, gpu.max_width, gpu.gen,
                "ProcessingAccelerators", None, "OEM", gpu.serial,
            )  # fmt: skip
    for drive in machine.drives:
        if drive.present:
            yield _Device(
                drive_bus(drive), drive.model, "Dell", drive.width, drive.max_width, drive.gen, "MassStorageController",
                None if drive.boot else drive.bay, "M2" if drive.boot else "U2", drive.serial,
            )  # fmt: skip


def drive_bus(drive: SimDrive) -> str:
    """The PCIe device id of a drive."""
    return "1-0" if drive.boot else f"{200 + drive.bay}-0"


def _pcie(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    top = f"{CHASSIS}/PCIeDevices"
    devices = list(_devices(machine))
    yield top, lambda: collection(top, "PCIeDevice", "PCIeDevices", [f"{top}/{device.bus}" for device in devices])
    for device in devices:
        path = f"{top}/{device.bus}"
        functions = f"{path}/PCIeFunctions"
        yield path, partial(_pcie_device, path, device)
        yield functions, partial(collection, functions, "PCIeFunction", "Functions", [f"{functions}/{device.bus}-0"])
        yield (
            f"{functions}/{device.bus}-0",
            partial(
                resource,
                f"{functions}/{device.bus}-0",
                "PCIeFunction",
                "1_5_0",
                device.model,
                DeviceClass=device.device_class,
                FunctionId=0,
                Status=status(),
            ),
        )


def _pcie_device(path: str, device: _Device) -> Resource:
    slot: Resource = {"Lanes": device.max_width, "PCIeType": f"Gen{device.gen}", "SlotType": device.slot_type}
    if device.ordinal is not None:
        slot["Location"] = {"PartLocation": {"LocationOrdinalValue": device.ordinal, "LocationType": "Slot"}}
    return resource(
        path,
        "PCIeDevice",
        "1_11_1",
        device.model,
        DeviceType="SingleFunction",
        Links={
            **links("Chassis", [CHASSIS]),
            **links("PCIeFunctions", [f"{path}/PCIeFunctions/{device.bus}-0"]),
        },
        Manufacturer=device.maker,
        Model=device.model,
        PCIeFunctions=link(f"{path}/PCIeFunctions"),
        PCIeInterface={
            "LanesInUse": device.width,
            "MaxLanes": device.max_width,
            "MaxPCIeType": f"Gen{device.max_gen or device.gen}",
            "PCIeType": f"Gen{device.gen}",
        },
        SerialNumber=device.serial,
        Slot=slot,
        Status=status(),
    )


def _pcie_slots(machine: SimMachine) -> Resource:
    slots = [
        {
            "HotPluggable": False,
            "Lanes": slot.max_width,
            "Links": links("PCIeDevice", [f"{CHASSIS}/PCIeDevices/{100 + slot.number}-0"] if slot.present else []),
            "Location": {"PartLocation": {"LocationOrdinalValue": slot.number, "LocationType": "Slot"}},
            "Oem": {"Dell": {"SlotKey": f"PCIe.Slot.{slot.number}"}},
            "PCIeType": f"Gen{slot.max_gen}",
            "SlotType": "FullLength",
            "Status": {"State": "Enabled" if slot.present else "Absent"},
        }
        for slot in machine.slots
    ]
    return resource(f"{CHASSIS}/PCIeSlots", "PCIeSlots", "1_5_0", "PCIeSlots", Slots=slots)


def _storage(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    top = f"{SYSTEM}/Storage"
    groups = {
        "CPU.1": [drive for drive in machine.drives if not drive.boot and drive.present],
        "BOSS.SL.14-1": [drive for drive in machine.drives if drive.boot and drive.present],
    }
    yield top, lambda: collection(top, "Storage", "Storage Collection", [f"{top}/{name}" for name in groups])
    for name, drives in groups.items():
        path = f"{top}/{name}"
        paths = [f"{path}/Drives/{drive.name}" for drive in drives]
        yield path, partial(resource, path, "Storage", "1_15_0", name, Status=status(), **links("Drives", paths))
        for drive in drives:
            yield f"{path}/Drives/{drive.name}", partial(_drive, f"{path}/Drives/{drive.name}", drive)


def _drive(path: str, drive: SimDrive) -> Resource:
    return resource(
        path,
        "Drive",
        "1_17_0",
        "M.2 drive in BOSS" if drive.boot else f"PCIe SSD in Slot {drive.bay} in Bay 1",
        CapacityBytes=drive.size_bytes,
        FailurePredicted=drive.failing,
        Links={
            "Chassis": link(CHASSIS),
            **links("PCIeFunctions", [f"{CHASSIS}/PCIeDevices/{drive_bus(drive)}/PCIeFunctions/{drive_bus(drive)}-0"]),
        },
        Manufacturer="Dell",
        MediaType="SSD",
        Model=drive.model,
        Oem={
            "Dell": {
                "@odata.type": "#DellDrive.v1_1_0.DellDrive",
                "DellPCIeSSD": {
                    "AvailableSparePercent": 3 if drive.failing else 100,
                    "DriveState": "Ready",
                    "PCIeCapableLinkWidth": f"x{drive.max_width}",
                    "PCIeNegotiatedLinkWidth": f"x{drive.width}",
                    "Slot": drive.bay,
                },
            }
        },
        PhysicalLocation={
            "PartLocation": {"LocationOrdinalValue": drive.bay, "LocationType": "Slot" if drive.boot else "Bay"}
        },
        PredictedMediaLifeLeftPercent=2 if drive.failing else 98,
        Protocol="NVMe",
        Revision="2.3.0",
        SerialNumber=drive.serial,
        Status=status("Warning" if drive.failing else "OK"),
    )
