"""Trees of all makers but Dell: what is in the box. What differs is in ``families``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from provision.sim.bmc.shapes import ROOT, Build, Resource, collection, link, links, resource, status
from provision.sim.bmc.system import health
from provision.sim.machine import SimMachine
from provision.sim.parts import SimDrive, SimGpu, SimPsu

Pair = tuple[str, Build]
FANS = 10


def listed(
    top: str, kind: str, name: str, version: str, members: Sequence[tuple[str, dict[str, Any]]]
) -> Iterator[Pair]:
    """A collection and its members: (id, properties)."""
    yield top, partial(collection, top, kind, name, [f"{top}/{own}" for own, _ in members])
    for own, properties in members:
        yield f"{top}/{own}", partial(resource, f"{top}/{own}", kind, version, **{"name": own, **properties})


def fixed(machine: SimMachine) -> Iterator[Pair]:
    """Chassis, power, cooling, processors, memory, drives, PCIe devices and the tray."""
    row = machine.family
    yield f"{ROOT}/Chassis", partial(collection, f"{ROOT}/Chassis", "Chassis", "Chassis", [row.chassis])
    yield row.chassis, partial(_chassis, machine)
    if "Power" in row.psus:
        yield f"{row.chassis}/Power", partial(_power, machine)
    if "PowerSubsystem" in row.psus:
        top = f"{row.chassis}/PowerSubsystem"
        yield (
            top,
            partial(
                resource, top, "PowerSubsystem", "1_1_0", "Power", PowerSupplies=link(f"{top}/PowerSupplies"),
                Status=status(),
            ),
        )  # fmt: skip
        supplies = [(f"PSU{psu.number}", _supply(psu)) for psu in machine.psus if psu.present]
        yield from listed(f"{top}/PowerSupplies", "PowerSupply", "Power Supplies", "1_5_0", supplies)
    yield f"{row.chassis}/Thermal", partial(_thermal, row.chassis)
    yield from _processors(machine)
    dimms = [
        (
            f"DIMM{dimm.label}",
            {
                "CapacityMiB": dimm.size_bytes // 2**20,
                "DeviceLocator": f"DIMM {dimm.label}",
                "MemoryDeviceType": "DDR5",
                "SerialNumber": dimm.serial,
                "Status": status("Critical" if dimm.errors else "OK"),
            },
        )
        for dimm in machine.dimms
        if dimm.present
    ]
    yield from listed(f"{row.system}/Memory", "Memory", "Memory", "1_17_0", dimms)
    yield from _storage(machine)
    if row.pcie:
        yield from listed(f"{row.chassis}/PCIeDevices", "PCIeDevice", "PCIe Devices", "1_9_0", list(_pcie(machine)))


def _chassis(machine: SimMachine) -> Resource:
    row = machine.family
    found = resource(
        row.chassis,
        "Chassis",
        "1_21_0",
        "Chassis",
        ChassisType="RackMount",
        Links={**links("ComputerSystems", [row.system]), **links("ManagedBy", [row.manager])},
        Manufacturer=row.maker,
        Model=machine.model,
        SerialNumber=machine.service_tag,
        Status=status(health(machine)),
        Thermal=link(f"{row.chassis}/Thermal"),
    )
    for name in (*row.psus, *(["NetworkAdapters"] if row.cards else []), *(["PCIeDevices"] if row.pcie else [])):
        found[name] = link(f"{row.chassis}/{name}")
    return found


def _psu_status(psu: SimPsu) -> Resource:
    return {"Health": "OK" if psu.giving else "Critical", "State": "Enabled"}


def _power(machine: SimMachine) -> Resource:
    path = f"{machine.family.chassis}/Power"
    supplies = []
    for index, psu in enumerate(psu for psu in machine.psus if psu.present):
        told: Resource = {
            "@odata.id": f"{path}#/PowerSupplies/{index}",
            "LineInputVoltage": 230 if psu.cord else None,
            "Manufacturer": "DELTA",
            "MemberId": str(index),
            "Model": "ECD16010081",
            "Name": f"PSU{psu.number}",
            "PowerCapacityWatts": 2800,
            "PowerInputWatts": 410 if psu.giving else None,
            # Lenovo with a cord out: the type is not known, and Redundancy stays OK all the same.
            "PowerSupplyType": "AC" if psu.cord else "Unknown",
            "SerialNumber": psu.serial,
            "Status": _psu_status(psu),
        }
        if machine.family.oem == "Hpe":
            told["Oem"] = {"Hpe": {"BayNumber": psu.number}}
        supplies.append(told)
    redundancy = {"@odata.id": f"{path}#/Redundancy/0", "MemberId": "0", "Mode": "N+m", "Status": status()}
    return resource(path, "Power", "1_7_0", "Power", PowerSupplies=supplies, Redundancy=[redundancy])


def _supply(psu: SimPsu) -> dict[str, Any]:
    return {
        "LineInputStatus": "Normal" if psu.cord else "LossOfInput",
        "Location": {"PartLocation": {"ServiceLabel": f"PSU {psu.number}"}},
        "Model": "ECD16010081",
        "SerialNumber": psu.serial,
        "Status": _psu_status(psu),
    }


def _thermal(chassis: str) -> Resource:
    path = f"{chassis}/Thermal"
    fans = [
        {
            "@odata.id": f"{path}#/Fans/{index}", "MemberId": str(index), "Name": f"FAN{index + 1}", "Reading": 9720,
            "ReadingUnits": "RPM", "Status": {"Health": "OK", "State": "Enabled"},
        }
        for index in range(FANS)
    ]  # fmt: skip
    return resource(path, "Thermal", "1_7_0", "Thermal", Fans=fans, Temperatures=[])


def _processors(machine: SimMachine) -> Iterator[Pair]:
    row = machine.family
    gpus = [gpu for gpu in machine.gpus if gpu.present]
    cpus = [
        (f"CPU{n}", {"ProcessorType": "CPU", "Model": "Intel(R) Xeon(R) Platinum 8480+", "Status": status()})
        for n in (1, 2)
    ]
    shown = [(f"GPU{gpu.number}", _gpu(gpu)) for gpu in gpus] if row.gpus == "processors" else []
    yield from listed(f"{row.system}/Processors", "Processor", "Processors", "1_16_0", [*cpus, *shown])
    if row.tray:
        yield row.tray, partial(_tray, machine)
        tray = [(f"GPU_SXM_{gpu.number}", _gpu(gpu)) for gpu in gpus]
        yield from listed(f"{row.tray}/Processors", "Processor", "GPUs", "1_16_0", tray)


def _gpu(gpu: SimGpu) -> dict[str, Any]:
    return {
        "Manufacturer": "NVIDIA",
        "Model": gpu.model,
        "ProcessorType": "GPU",
        "SerialNumber": gpu.serial,
        "Status": status(),
    }


def _tray(machine: SimMachine) -> Resource:
    path = machine.family.tray
    return resource(
        path,
        "ComputerSystem",
        "1_18_0",
        "HGX Baseboard",
        Manufacturer="NVIDIA",
        Model="HGX",
        PowerState="On" if machine.powered else "Off",
        Processors=link(f"{path}/Processors"),
        Status=status(),
        SystemType="Physical",
    )


def _storage(machine: SimMachine) -> Iterator[Pair]:
    top = f"{machine.family.system}/Storage"
    drives = [
        (f"Drive{'B' if drive.boot else ''}{drive.bay}", _drive(drive)) for drive in machine.drives if drive.present
    ]
    path = f"{top}/NVMe"
    yield top, partial(collection, top, "Storage", "Storage", [path])
    paths = [f"{path}/Drives/{name}" for name, _ in drives]
    yield path, partial(resource, path, "Storage", "1_13_0", "NVMe", Status=status(), **links("Drives", paths))
    for name, properties in drives:
        place = f"{path}/Drives/{name}"
        yield place, partial(resource, place, "Drive", "1_16_0", **{"name": name, **properties})


def _drive(drive: SimDrive) -> dict[str, Any]:
    return {
        "CapacityBytes": drive.size_bytes,
        "FailurePredicted": drive.failing,
        "MediaType": "SSD",
        "Model": drive.model,
        "PhysicalLocation": {"PartLocation": {"ServiceLabel": drive.locator}},
        "PredictedMediaLifeLeftPercent": 2 if drive.failing else 98,
        "Protocol": "NVMe",
        "SerialNumber": drive.serial,
        "Status": status("Warning" if drive.failing else "OK"),
    }


def _pcie(machine: SimMachine) -> Iterator[tuple[str, dict[str, Any]]]:
    for slot in machine.slots:
        card = next((nic for nic in machine.nics if nic.slot == slot.number and nic.present), None)
        if slot.present and card is not None:
            place = {"Location": {"PartLocation": {"ServiceLabel": f"Slot {slot.number}"}}}
            yield (
                f"Slot{slot.number}",
                _device(card.model, slot.width, slot.max_width, slot.gen, slot.max_gen)
                | {
                    "Slot": {
                        "Lanes": slot.max_width,
                        "PCIeType": f"Gen{slot.max_gen}",
                        "SlotType": "FullLength",
                        **place,
                    }
                },
            )
    for gpu in machine.gpus:
        if gpu.present:
            yield f"GPU{gpu.number}", _device(gpu.model, gpu.width, gpu.max_width, gpu.gen, gpu.gen)


def _device(model: str, width: int, most: int, gen: int, best: int) -> dict[str, Any]:
    return {
        "DeviceType": "SingleFunction",
        "Model": model,
        "PCIeInterface": {
            "LanesInUse": width,
            "MaxLanes": most,
            "PCIeType": f"Gen{gen}",
            "MaxPCIeType": f"Gen{best}",
        },
        "Status": status(),
    }
