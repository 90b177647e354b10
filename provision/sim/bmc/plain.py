"""Trees of all makers but Dell: root, manager, host, boot and logs. What differs is in ``families``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from provision.sim.bmc.shapes import (
    BIOS_VERSION,
    ROOT,
    Build,
    Resource,
    collection,
    link,
    links,
    resource,
    stamp,
    status,
)
from provision.sim.bmc.system import BOOT_TARGETS, health
from provision.sim.machine import SimMachine
from provision.sim.parts import LogEntry

# HPE's event log has no message ids of Dell's kind: class and code (IML of an iLO 5).
_IML = {"PSU0003": (11, 82), "PSU0001": (11, 54), "NIC101": (17, 10)}
_SUPERMICRO = {"PSU0003": "[PWR-0003] PS{arg} Status, Power Supply input lost",
               "PSU0001": "[PWR-0001] PS{arg} Status, Power Supply failure"}  # fmt: skip
_POST_WORDS = {
    "None": "PowerOff",
    "OSBootStarted": "InPostDiscoveryComplete",
    "OSRunning": "FinishedPost",
    "OEM": "FinishedPost",
}


def changing(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    """Resources that change from one request to the next."""
    row = machine.family
    yield row.manager, partial(_manager, machine)
    yield row.system, partial(_system, machine)
    yield f"{row.system}/Bios", partial(_bios, machine)
    yield f"{row.system}/Bios/Settings", partial(_bios_settings, machine)
    if row.settings:
        yield row.settings, partial(_settings, machine)
    entries = f"{row.system}/LogServices/{row.log}/Entries"
    yield entries, partial(_entries, machine, entries)


def fixed(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    """Resources that only a fault or a repair changes."""
    row = machine.family
    yield ROOT, partial(_root, machine)
    yield f"{ROOT}/Managers", partial(collection, f"{ROOT}/Managers", "Manager", "Managers", [row.manager])
    yield f"{ROOT}/SessionService", partial(_session_service, machine)
    # The tray comes first, as names sort: whoever takes the first system takes the wrong one.
    systems = [*([row.tray] if row.tray else []), row.system]
    yield f"{ROOT}/Systems", partial(collection, f"{ROOT}/Systems", "ComputerSystem", "Systems", systems)
    logs = f"{row.system}/LogServices"
    yield logs, partial(collection, logs, "LogService", "Log Services", [f"{logs}/{row.log}"])
    yield f"{logs}/{row.log}", partial(_log, f"{logs}/{row.log}")
    yield f"{row.manager}/NetworkProtocol", partial(_protocol, machine)
    if row.action_info:
        yield f"{row.system}/ResetActionInfo", partial(_action_info, machine)
    yield from _boot_options(machine)


def _root(machine: SimMachine) -> Resource:
    row = machine.family
    everything, without_links, deepest = row.expand
    oem: Resource = {"@odata.type": f"#{row.oem}ServiceRoot.v1_0_0.{row.oem}ServiceRoot"}
    if row.oem == "Hpe":
        oem |= {"Manager": [{"ManagerType": row.generation, "ManagerFirmwareVersion": "2.72", "HostName": ""}]}
    return resource(
        ROOT,
        "ServiceRoot",
        "1_13_0",
        "Root Service",
        Chassis=link(f"{ROOT}/Chassis"),
        Links={"Sessions": link(f"{ROOT}/SessionService/Sessions")},
        Managers=link(f"{ROOT}/Managers"),
        Oem={row.oem: oem},
        ProtocolFeaturesSupported={
            "ExpandQuery": {
                "ExpandAll": everything, "Levels": True, "Links": everything, "MaxLevels": deepest,
                "NoLinks": without_links,
            },
            "SelectQuery": True,
        },
        RedfishVersion="1.15.0",
        SessionService=link(f"{ROOT}/SessionService"),
        Systems=link(f"{ROOT}/Systems"),
        UUID=machine.uuid,
        Vendor=row.vendor,
        **({"Product": row.product} if row.product else {}),
    )  # fmt: skip


def _session_service(machine: SimMachine) -> Resource:
    path = f"{ROOT}/SessionService"
    return resource(
        path,
        "SessionService",
        "1_1_8",
        "Session Service",
        ServiceEnabled=True,
        SessionTimeout=machine.family.idle_s,
        Sessions=link(f"{path}/Sessions"),
    )


def _manager(machine: SimMachine) -> Resource:
    row = machine.family
    return resource(
        row.manager,
        "Manager",
        "1_16_0",
        "Manager",
        Actions={"#Manager.Reset": {"target": f"{row.manager}/Actions/Manager.Reset",
                                    "ResetType@Redfish.AllowableValues": ["GracefulRestart", "ForceRestart"]}},
        DateTime=stamp(machine.bmc_now()),
        DateTimeLocalOffset="-05:00",
        FirmwareVersion=row.bmc_version,
        Links={**links("ManagerForServers", [row.system]), **links("ManagerForChassis", [row.chassis])},
        ManagerType="BMC",
        NetworkProtocol=link(f"{row.manager}/NetworkProtocol"),
        Status=status(),
        UUID=machine.uuid,
    )  # fmt: skip


def _protocol(machine: SimMachine) -> Resource:
    path = f"{machine.family.manager}/NetworkProtocol"
    return resource(path, "ManagerNetworkProtocol", "1_8_0", "Protocols", NTP={"ProtocolEnabled": machine.ntp})


def _system(machine: SimMachine) -> Resource:
    row = machine.family
    reset: Resource = {"target": f"{row.system}/Actions/ComputerSystem.Reset"}
    if row.action_info:
        reset["@Redfish.ActionInfo"] = f"{row.system}/ResetActionInfo"
    else:
        reset["ResetType@Redfish.AllowableValues"] = list(row.resets)
    found = resource(
        row.system,
        "ComputerSystem",
        "1_18_0",
        "Computer System",
        Actions={"#ComputerSystem.Reset": reset},
        AssetTag=machine.asset_tag,
        Bios=link(f"{row.system}/Bios"),
        BiosVersion=BIOS_VERSION,
        Boot=_boot(machine, here=not row.override_in_settings),
        Links={**links("Chassis", [row.chassis]), **links("ManagedBy", [row.manager])},
        LogServices=link(f"{row.system}/LogServices"),
        Manufacturer=row.maker,
        Memory=link(f"{row.system}/Memory"),
        Model=machine.model,
        PowerState="On" if machine.powered else "Off",
        Processors=link(f"{row.system}/Processors"),
        SKU=f"SKU-{row.name.upper()}",
        SerialNumber=machine.service_tag,
        Status=status(health(machine)),
        Storage=link(f"{row.system}/Storage"),
        SystemType="Physical",
        UUID=machine.uuid,
        **_post_progress(machine),
    )
    if row.interfaces:
        found["EthernetInterfaces"] = link(f"{row.system}/EthernetInterfaces")
    if row.settings:
        found["@Redfish.Settings"] = {
            "@odata.type": "#Settings.v1_3_5.Settings", "SettingsObject": link(row.settings)
        }  # fmt: skip
    return found


def _post_progress(machine: SimMachine) -> Resource:
    """Progress, and an ``Oem`` object that names the maker, as each of them has one."""
    row = machine.family
    oem: Resource = {"@odata.type": f"#{row.oem}ComputerSystem.v1_0_0.{row.oem}ComputerSystem"}
    last = {} if machine.last_reset is None else {"LastResetTime": stamp(machine.last_reset)}
    if row.progress == "Hpe":
        return {"Oem": {row.oem: oem | {"PostState": _POST_WORDS.get(machine.post_progress, "InPost")}}}
    if row.progress == "Lenovo":
        booted = {
            "None": "SystemPowerOff_StateUnknown",
            "OSRunning": "OSBooted",
            "OSBootStarted": "BootingOSOrInUndetectedOS",
        }
        return {
            "Oem": {row.oem: oem | {"SystemStatus": booted.get(machine.post_progress, "SystemRunningInUEFI")}}
        } | last
    if row.progress == "BootProgress":
        told: Resource = {"LastState": machine.post_progress}
        if machine.post_changed is not None:
            told["LastStateTime"] = stamp(machine.post_changed)
        return {"BootProgress": told, "Oem": {row.oem: oem}} | last
    return {"Oem": {row.oem: oem}} | last


def _boot(machine: SimMachine, *, here: bool) -> Resource:
    """The Boot object; ``here`` is False in a resource that does not hold the override."""
    override = machine.boot_override
    return {
        "BootOptions": link(f"{machine.family.system}/BootOptions"),
        "BootOrder": ["Boot0000", "Boot0001", "Boot0002"],
        "BootSourceOverrideEnabled": override.enabled if here else "Disabled",
        "BootSourceOverrideMode": override.mode if here else "UEFI",
        "BootSourceOverrideTarget": override.target if here else "None",
        "BootSourceOverrideTarget@Redfish.AllowableValues": list(BOOT_TARGETS),
    }


def _settings(machine: SimMachine) -> Resource:
    path = machine.family.settings
    return resource(path, "ComputerSystem", "1_18_0", "Future state", Boot=_boot(machine, here=True))


def _action_info(machine: SimMachine) -> Resource:
    row = machine.family
    kinds = {"Name": "ResetType", "Required": True, "DataType": "String", "AllowableValues": list(row.resets)}
    return resource(f"{row.system}/ResetActionInfo", "ActionInfo", "1_2_0", "Reset Action Info", Parameters=[kinds])


def _bios(machine: SimMachine) -> Resource:
    on = machine.bios["HttpDev1EnDis"] == "Enabled"
    word = "Enabled" if on else "Disabled"
    attributes = (
        {"PreBootNetwork": "Auto" if on else "Disabled", "UrlBootFile": ""}
        if machine.family.oem == "Hpe"
        else {"NetworkStack": word, "IPv4HTTPSupport": word, "IPv4PXESupport": word}
    )
    path = f"{machine.family.system}/Bios"
    return resource(
        path,
        "Bios",
        "1_2_0",
        "BIOS",
        Attributes=attributes,
        **{"@Redfish.Settings": {"SettingsObject": link(f"{path}/Settings")}},
    )


def _bios_settings(machine: SimMachine) -> Resource:
    return resource(f"{machine.family.system}/Bios/Settings", "Bios", "1_2_0", "Pending BIOS", Attributes={})


def _boot_options(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    nic = machine.boot_nic
    digits = nic.mac.replace(":", "").upper()
    path = f"PciRoot(0x2)/Pci(0x1,0x0)/Pci(0x0,0x0)/MAC({digits},0x1)/IPv4(0.0.0.0)"
    options = [
        ("Boot0000", f"UEFI PXE IPv4 {nic.model}({nic.mac.upper()})", path, nic.present),
        ("Boot0001", f"UEFI HTTP IPv4 {nic.model}({nic.mac.upper()})", f"{path}/Uri()", nic.present),
        ("Boot0002", "ubuntu", r"HD(1,GPT,0x800,0x219800)/\EFI\BOOT\BOOTX64.EFI", True),
    ]
    top = f"{machine.family.system}/BootOptions"
    shown = [option for option in options if option[3]]
    yield top, partial(collection, top, "BootOption", "Boot Options", [f"{top}/{option[0]}" for option in shown])
    for reference, display, device, _ in shown:
        yield (
            f"{top}/{reference}",
            partial(
                resource, f"{top}/{reference}", "BootOption", "1_0_4", display, BootOptionEnabled=True,
                BootOptionReference=reference, DisplayName=display, UefiDevicePath=device,
            ),
        )  # fmt: skip


def _log(path: str) -> Resource:
    return resource(path, "LogService", "1_3_0", "Log Service", Entries=link(f"{path}/Entries"), ServiceEnabled=True)


def _entries(machine: SimMachine, path: str) -> Resource:
    members = [_entry(machine, f"{path}/{entry.number}", entry) for entry in reversed(machine.log)]
    return collection(path, "LogEntry", "Log Entries", members)


def _entry(machine: SimMachine, path: str, entry: LogEntry) -> Resource:
    """A line as the maker words it; Dell's id never shows."""
    arg = entry.args[0] if entry.args else ""
    told: Resource = {"Message": entry.text, "MessageId": "Platform.1.0.PlatformError", "MessageArgs": list(entry.args)}
    if machine.family.oem == "Hpe":
        kind, code = _IML.get(entry.message_id, (10, 1))
        told["Oem"] = {"Hpe": {"Class": kind, "Code": code, "Repaired": entry.clears}}
    elif machine.family.oem == "Supermicro" and entry.message_id in _SUPERMICRO:
        told["Message"] = _SUPERMICRO[entry.message_id].format(arg=arg)
    severity = "OK" if entry.severity == "Informational" else entry.severity
    entry_code = "Deassert" if entry.clears else "Assert"
    return resource(
        path, "LogEntry", "1_9_0", f"Log Entry {entry.number}", Created=stamp(entry.created), EntryType="Event",
        EntryCode=entry_code, Severity=severity, **told,
    )  # fmt: skip
