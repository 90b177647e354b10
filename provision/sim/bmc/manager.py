"""The BMC about itself: root, sessions, manager, clock, attributes, jobs and logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from provision.sim.bmc.shapes import (
    CHASSIS,
    LOGS,
    MANAGER,
    ROOT,
    SWITCHES,
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
from provision.sim.faults import FAULTS, Line
from provision.sim.machine import BiosJob, SimMachine
from provision.sim.parts import LogEntry

REGISTRY = "IDRAC.2.9"
JOBS = f"{MANAGER}/Oem/Dell/Jobs"
ATTRIBUTES = f"{MANAGER}/Oem/Dell/DellAttributes/iDRAC.Embedded.1"
# What a part's FQDD begins with, and where its resource lies.
_ORIGINS = {
    "PSU.": f"{CHASSIS}/PowerSubsystem/PowerSupplies",
    "Disk.Bay.": f"{SYSTEM}/Storage/CPU.1/Drives",
    "DIMM.": f"{SYSTEM}/Memory",
    "Video.": f"{SYSTEM}/Processors",
    "NIC.": f"{SYSTEM}/EthernetInterfaces",
}


def changing(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    """Resources that change from one request to the next."""
    yield MANAGER, partial(_manager, machine)
    yield f"{MANAGER}/Attributes", partial(_attributes, machine, f"{MANAGER}/Attributes")
    yield ATTRIBUTES, partial(_attributes, machine, ATTRIBUTES)
    yield JOBS, partial(_jobs, machine)
    for job in machine.jobs:
        yield f"{JOBS}/{job.name}", partial(_job, job)
    for name in ("Lclog", "Sel", "FaultList"):
        yield f"{LOGS}/{name}", partial(_log, machine, name)
    yield f"{LOGS}/Lclog/Entries", partial(_lclog, machine)
    yield f"{LOGS}/Sel/Entries", partial(_sel, machine)
    yield f"{LOGS}/FaultList/Entries", partial(_fault_list, machine)


def fixed(machine: SimMachine) -> Iterator[tuple[str, Build]]:
    """Resources that only a fault or a repair changes."""
    yield ROOT, partial(_root, machine)
    yield f"{ROOT}/Managers", lambda: collection(f"{ROOT}/Managers", "Manager", "Manager", [MANAGER])
    yield f"{ROOT}/SessionService", _session_service
    names = [f"{LOGS}/{name}" for name in ("Lclog", "Sel", "FaultList")]
    yield LOGS, lambda: collection(LOGS, "LogService", "Log Service Collection", names)


def _root(machine: SimMachine) -> Resource:
    return resource(
        ROOT,
        "ServiceRoot",
        "1_16_0",
        "Root Service",
        Id="RootService",
        Chassis=link(f"{ROOT}/Chassis"),
        Links={"Sessions": link(f"{ROOT}/SessionService/Sessions")},
        Managers=link(f"{ROOT}/Managers"),
        Oem={
            "Dell": {
                "@odata.type": "#DellServiceRoot.v1_0_0.DellServiceRoot",
                "IsBranded": 0,
                "ServiceTag": machine.service_tag,
            }
        },
        Product="Integrated Dell Remote Access Controller",
        ProtocolFeaturesSupported={
            "ExcerptQuery": False,
            "ExpandQuery": {"ExpandAll": True, "Levels": True, "Links": True, "MaxLevels": 1, "NoLinks": True},
            "FilterQuery": False,
            "OnlyMemberQuery": False,
            "SelectQuery": True,
        },
        RedfishVersion="1.18.0",
        SessionService=link(f"{ROOT}/SessionService"),
        Systems=link(f"{ROOT}/Systems"),
        UUID=machine.uuid,
        Vendor="Dell",
    )


def _session_service() -> Resource:
    path = f"{ROOT}/SessionService"
    return resource(
        path,
        "SessionService",
        "1_1_8",
        "Session Service",
        ServiceEnabled=True,
        SessionTimeout=1800,
        Sessions=link(f"{path}/Sessions"),
    )


def _manager(machine: SimMachine) -> Resource:
    return resource(
        MANAGER,
        "Manager",
        "1_18_0",
        "Manager",
        Actions={
            "#Manager.Reset": {
                "ResetType@Redfish.AllowableValues": ["GracefulRestart"],
                "target": f"{MANAGER}/Actions/Manager.Reset",
            }
        },
        DateTime=stamp(machine.bmc_now()),
        DateTimeLocalOffset="-05:00",
        FirmwareVersion=machine.bmc_version,
        Links={
            **links("ManagerForServers", [SYSTEM]),
            **links("ManagerForChassis", [CHASSIS]),
            "Oem": {
                "Dell": {
                    **links("DellAttributes", [ATTRIBUTES]),
                    "DellSwitchConnectionCollection": link(SWITCHES),
                    "Jobs": link(JOBS),
                }
            },
        },
        LogServices=link(LOGS),
        ManagerType="BMC",
        Model=machine.family.generation,
        PowerState="On",
        Status=status(),
        UUID=machine.uuid,
    )


def _attributes(machine: SimMachine, path: str) -> Resource:
    return resource(
        path,
        "DellAttributes",
        "1_0_0",
        "OEMAttributeRegistry",
        AttributeRegistry="ManagerAttributeRegistry.v1_0_0",
        Attributes={
            "IPBlocking.1.BlockEnable": "Enabled",
            "IPBlocking.1.FailCount": 3,
            "IPBlocking.1.FailWindow": 60,
            "IPBlocking.1.PenaltyTime": 60,
            "Lockdown.1.SystemLockdown": "Enabled" if machine.has_fault("lockdown") else "Disabled",
            "NTPConfigGroup.1.NTPEnable": "Enabled" if machine.ntp else "Disabled",
            "WebServer.1.MaxNumberOfSessions": 8,
        },
    )


def _jobs(machine: SimMachine) -> Resource:
    return collection(JOBS, "DellJob", "JobQueue", [f"{JOBS}/{job.name}" for job in machine.jobs])


def _job(job: BiosJob) -> Resource:
    done = job.state == "Completed"
    return resource(
        f"{JOBS}/{job.name}",
        "DellJob",
        "1_4_0",
        "Configure: BIOS.Setup.1-1",
        JobState=job.state,
        JobType="BIOSConfiguration",
        Message="The job is done." if done else "The job waits for the next start of the host.",
        MessageId="PR19" if done else "JCP001",
        PercentComplete=100 if done else 0,
        StartTime=stamp(job.created),
    )


def _log(machine: SimMachine, name: str) -> Resource:
    return resource(
        f"{LOGS}/{name}",
        "LogService",
        "1_4_0",
        f"{name} Log Service",
        DateTime=stamp(machine.bmc_now()),
        DateTimeLocalOffset="-05:00",
        Entries=link(f"{LOGS}/{name}/Entries"),
        ServiceEnabled=True,
    )


def _origin(fqdd: str, code: str) -> Resource:
    folder = next((path for start, path in _ORIGINS.items() if fqdd.startswith(start)), None)
    # What has gone has no resource to point to.
    lost = code in {"PR8", "PDR1016"}
    return {"OriginOfCondition": link(SYSTEM if folder is None or lost else f"{folder}/{fqdd}")}


def _lclog(machine: SimMachine) -> Resource:
    entries = [_entry(f"{LOGS}/Lclog/Entries/{entry.number}", entry) for entry in reversed(machine.log)]
    return collection(f"{LOGS}/Lclog/Entries", "LogEntry", "Lifecycle log entries", entries)


def _severity(word: str) -> str:
    return "OK" if word == "Informational" else word


def _entry(path: str, entry: LogEntry) -> Resource:
    return resource(
        path,
        "LogEntry",
        "1_15_0",
        f"Log Entry {entry.number}",
        Created=stamp(entry.created),
        EntryType="Oem",
        Links=_origin(entry.fqdd, entry.message_id),
        Message=entry.text,
        MessageArgs=list(entry.args),
        MessageId=f"{REGISTRY}.{entry.message_id}",
        Oem={"Dell": {"@odata.type": "#DellLCLogEntry.v1_1_0.DellLCLogEntry", "Category": "System Health"}},
        OemRecordFormat="Dell",
        Severity=_severity(entry.severity),
    )


def _sel(machine: SimMachine) -> Resource:
    # The SEL holds hardware events only, under raw hexadecimal ids.
    kept = [entry for entry in reversed(machine.log) if not entry.message_id.startswith(("NIC", "PR"))]
    members = []
    for entry in kept:
        members.append(
            resource(
                f"{LOGS}/Sel/Entries/{entry.number}",
                "LogEntry",
                "1_15_0",
                f"Log Entry {entry.number}",
                Created=stamp(entry.created),
                EntryCode="Deassert" if entry.clears else "Assert",
                EntryType="SEL",
                Message=entry.text,
                MessageId=f"{sum(entry.message_id.encode()) * 40503 % 2**32:08x}",
                Severity=_severity(entry.severity),
            )
        )
    return collection(f"{LOGS}/Sel/Entries", "LogEntry", "SEL entries", members)


def _fault_list(machine: SimMachine) -> Resource:
    since: Mapping[tuple[str, str], LogEntry] = {(entry.message_id, entry.fqdd): entry for entry in machine.log}
    members: list[Resource] = []
    for fault in machine.faults:
        for line in FAULTS[fault.kind].says(machine, fault.arg):
            # What is not there has no health: lost devices and links are no members of the fault list.
            if not line.message_id.startswith(("NIC", "PR")):
                seen = since.get((line.message_id, line.fqdd))
                created = stamp(machine.bmc_now() if seen is None else seen.created)
                members.append(_active(len(members) + 1, line, created))
    return collection(f"{LOGS}/FaultList/Entries", "LogEntry", "FaultList Entries Collection", members)


def _active(number: int, line: Line, created: str) -> Resource:
    return resource(
        f"{LOGS}/FaultList/Entries/Fault_{number:08d}_1",
        "LogEntry",
        "1_15_0",
        line.fqdd,
        Created=created,
        EntryType="SEL",
        Links=_origin(line.fqdd, line.message_id),
        Message=line.text,
        MessageArgs=list(line.args),
        MessageId=f"{REGISTRY}.{line.message_id}",
        Oem={"Dell": {"@odata.type": "#DellLogEntry.v1_1_0.DellLogEntry", "FQDD": line.fqdd}},
        Severity=_severity(line.severity),
    )
