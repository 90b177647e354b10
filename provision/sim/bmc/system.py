"""The host as Redfish shows it: System, Bios, boot options, processors, memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from provision.sim.bmc.shapes import (
    BIOS_VERSION,
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
    stamp,
    status,
)
from provision.sim.faults import FAULTS
from provision.sim.machine import SimMachine
from provision.sim.parts import SimDimm, SimGpu

BOOT_TARGETS = ("None", "Pxe", "Floppy", "Cd", "Hdd", "BiosSetup", "Utilities", "UefiTarget", "SDCard", "UefiHttp")
BOOT_ENABLED = ("Disabled", "Once", "Continuous")
BOOT_MODES = ("UEFI", "Legacy")
CPUS = ("CPU.Socket.1", "CPU.Socket.2")


def health(machine: SimMachine) -> str:
    """The worst that the BMC knows of: Critical, Warning or OK."""
    worst = {line.severity for fault in machine.faults for line in FAULTS[fault.kind].says(machine, fault.arg)}
    return next((word for word in ("Critical", "Warning") if word in worst), "OK")


def changing(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    """Resources that change from one request to the next."""
    yield SYSTEM, partial(_system, machine)
    yield f"{SYSTEM}/Settings", partial(_settings, machine)
    yield f"{SYSTEM}/Bios", partial(_bios, machine)
    yield f"{SYSTEM}/Bios/Settings", partial(_bios_settings, machine)


def fixed(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    """Resources that only a fault or a repair changes."""
    yield f"{ROOT}/Systems", lambda: collection(f"{ROOT}/Systems", "ComputerSystem", "Systems", [SYSTEM])
    yield from _boot_options(machine)
    gpus = [gpu for gpu in machine.gpus if gpu.present]
    names = [*CPUS, *(gpu.name for gpu in gpus)]
    top = f"{SYSTEM}/Processors"
    yield top, lambda: collection(top, "Processor", "Processors", [f"{top}/{name}" for name in names])
    for cpu in CPUS:
        yield f"{top}/{cpu}", partial(_cpu, f"{top}/{cpu}")
    for gpu in gpus:
        yield f"{top}/{gpu.name}", partial(_gpu, f"{top}/{gpu.name}", gpu)
    dimms = [dimm for dimm in machine.dimms if dimm.present]
    memory = f"{SYSTEM}/Memory"
    yield memory, lambda: collection(memory, "Memory", "Memory", [f"{memory}/{dimm.name}" for dimm in dimms])
    for dimm in dimms:
        yield f"{memory}/{dimm.name}", partial(_dimm, f"{memory}/{dimm.name}", dimm)


def _system(machine: SimMachine) -> Resource:
    return resource(
        SYSTEM,
        "ComputerSystem",
        "1_20_1",
        "System",
        Actions={
            "#ComputerSystem.Reset": {
                "target": f"{SYSTEM}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": list(machine.family.resets),
            }
        },
        AssetTag=machine.asset_tag,
        Bios=link(f"{SYSTEM}/Bios"),
        BiosVersion=BIOS_VERSION,
        BootProgress={"LastState": machine.post_progress},
        Boot={
            "BootOptions": link(f"{SYSTEM}/BootOptions"),
            "BootOrder": ["Boot0000", "Boot0001", "Boot0002"],
            "BootOrder@odata.count": 3,
            **({} if machine.family.override_in_settings else _override(machine)),
            "UefiTargetBootSourceOverride": None,
            "StopBootOnFault": "Never",
        },
        EthernetInterfaces=link(f"{SYSTEM}/EthernetInterfaces"),
        HostName="" if machine.host is None else machine.host.hostname,
        LastResetTime="0000-00-00T00:00:00+00:00" if machine.last_reset is None else stamp(machine.last_reset),
        Links={
            **links("Chassis", [CHASSIS]),
            **links("ManagedBy", [MANAGER]),
        },
        Manufacturer="Dell Inc.",
        Memory=link(f"{SYSTEM}/Memory"),
        MemorySummary={
            "Status": status(),
            "TotalSystemMemoryGiB": sum(dimm.size_bytes for dimm in machine.dimms if dimm.present) // 2**30,
        },
        Model=machine.model,
        Oem={
            "Dell": {
                "@odata.type": "#DellOem.v1_3_0.DellOemResources",
                "DellSystem": {
                    "ChassisServiceTag": machine.service_tag,
                    "Id": "System.Embedded.1",
                    "LastSystemInventoryTime": stamp(machine.last_reset or machine.bmc_now()),
                    "MaxDIMMSlots": 32,
                    "SystemGeneration": machine.family.generation,
                    "SystemHealthRollupStatus": {"OK": "OK", "Warning": "Degraded", "Critical": "Error"}[
                        health(machine)
                    ],
                    "UUID": machine.uuid,
                },
            }
        },
        PowerState="On" if machine.powered else "Off",
        Processors=link(f"{SYSTEM}/Processors"),
        ProcessorSummary={"Count": 2, "Model": "Intel(R) Xeon(R) Platinum 8480+", "Status": status()},
        SKU=machine.service_tag,
        SerialNumber=f"CN{machine.service_tag}",
        Status=status(health(machine), "Enabled" if machine.powered else "StandbyOffline"),
        Storage=link(f"{SYSTEM}/Storage"),
        SystemType="Physical",
        UUID=machine.uuid,
        **{
            "@Redfish.Settings": {
                "@odata.type": "#Settings.v1_3_5.Settings",
                "SettingsObject": link(f"{SYSTEM}/Settings"),
                "SupportedApplyTimes": ["OnReset"],
            }
        },
    )


def _override(machine: SimMachine) -> Resource:
    override = machine.boot_override
    return {
        "BootSourceOverrideEnabled": override.enabled,
        "BootSourceOverrideMode": override.mode,
        "BootSourceOverrideTarget": override.target,
        "BootSourceOverrideTarget@Redfish.AllowableValues": list(BOOT_TARGETS),
    }


def _settings(machine: SimMachine) -> Resource:
    # On an iDRAC9 only the boot order is staged here; the override lives on the System itself. An iDRAC10 offers the
    # override here and nowhere else (R21).
    boot: Resource = {"BootOrder": ["Boot0000", "Boot0001", "Boot0002"], "BootOrder@odata.count": 3}
    if machine.family.override_in_settings:
        boot |= _override(machine)
    return resource(f"{SYSTEM}/Settings", "ComputerSystem", "1_20_1", "System settings", Boot=boot)


def _bios(machine: SimMachine) -> Resource:
    return resource(
        f"{SYSTEM}/Bios",
        "Bios",
        "1_2_1",
        "BIOS Configuration Current Settings",
        AttributeRegistry="BiosAttributeRegistry.v1_0_3",
        Attributes=dict(machine.bios),
        **{
            "@Redfish.Settings": {
                "@odata.type": "#Settings.v1_3_5.Settings",
                "SettingsObject": link(f"{SYSTEM}/Bios/Settings"),
                "SupportedApplyTimes": ["OnReset"],
            }
        },
    )


def _bios_settings(machine: SimMachine) -> Resource:
    pending = {key: value for job in machine.jobs if job.state == "Scheduled" for key, value in job.attributes.items()}
    return resource(
        f"{SYSTEM}/Bios/Settings", "Bios", "1_2_1", "BIOS Configuration Pending Settings", Attributes=pending
    )


def _boot_options(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    nic = machine.boot_nic
    path = f"PciRoot(0x2)/Pci(0x1,0x0)/Pci(0x0,0x0)/MAC({nic.mac.replace(':', '').upper()},0x1)/IPv4(0.0.0.0)"
    where = nic.slot_label.replace("Slot", "NIC in Slot")
    options = [
        ("Boot0000", f"PXE Device 1: {where} Partition 1", path, nic.present),
        ("Boot0001", f"HTTP Device 1: {where} Partition 1", f"{path}/Uri()", nic.present),
        ("Boot0002", "BOSS-N1", r"HD(1,GPT,0x800,0x219800)/\EFI\BOOT\BOOTX64.EFI", True),
    ]
    top = f"{SYSTEM}/BootOptions"
    listed = [f"{top}/{reference}" for reference, _, _, there in options if there]
    yield top, lambda: collection(top, "BootOption", "Boot Options Collection", listed)
    for reference, display, device, there in options:
        if there:
            yield f"{top}/{reference}", partial(_boot_option, f"{top}/{reference}", reference, display, device)


def _boot_option(path: str, reference: str, display: str, device: str) -> Resource:
    return resource(
        path,
        "BootOption",
        "1_0_4",
        "Uefi Boot Option",
        BootOptionEnabled=True,
        BootOptionReference=reference,
        DisplayName=display,
        UefiDevicePath=device,
    )


def _cpu(path: str) -> Resource:
    return resource(
        path,
        "Processor",
        "1_18_0",
        f"CPU {path[-1]}",
        Manufacturer="Intel",
        Model="Intel(R) Xeon(R) Platinum 8480+",
        ProcessorType="CPU",
        Socket=path.rsplit("/", 1)[-1],
        Status=status(),
        TotalCores=56,
    )


def _gpu(path: str, gpu: SimGpu) -> Resource:
    return resource(
        path,
        "Processor",
        "1_18_0",
        gpu.name,
        Description="Represents the properties of the GPU attached to this System",
        Links={"Chassis": link(CHASSIS), "PCIeDevice": link(f"{CHASSIS}/PCIeDevices/{gpu_bus(gpu)}")},
        Location={"PartLocation": {"LocationOrdinalValue": gpu.number, "ServiceLabel": f"GPU {gpu.number}"}},
        Manufacturer="NVIDIA Corporation",
        Model=gpu.model,
        ProcessorType="GPU",
        SerialNumber=gpu.serial,
        Status=status(),
    )


def gpu_bus(gpu: SimGpu) -> str:
    """The PCIe device id of a GPU."""
    return f"{24 + gpu.number * 8}-0"


def _dimm(path: str, dimm: SimDimm) -> Resource:
    return resource(
        path,
        "Memory",
        "1_17_1",
        f"DIMM {dimm.label}",
        CapacityMiB=dimm.size_bytes // 2**20,
        DeviceLocator=f"DIMM {dimm.label}",
        Enabled=True,
        Manufacturer="Samsung",
        MemoryDeviceType="DDR5",
        OperatingSpeedMhz=4800,
        SerialNumber=dimm.serial,
        Status=status("Critical" if dimm.errors else "OK"),
    )
