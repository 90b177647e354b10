"""Fetching everything that shows whether parts are well, side by side, and handing it to the parsers."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from provision.adapters.redfish import parse_parts as parse
from provision.adapters.redfish.answers import Json
from provision.adapters.redfish.clock import manager_time
from provision.adapters.redfish.netfacts import NetworkFacts
from provision.adapters.redfish.parse_logs import Window, log_evidence
from provision.adapters.redfish.parse_ports import Ports
from provision.adapters.redfish.parse_power import merged, needs_second_look, psu_evidence, supplies_of
from provision.adapters.redfish.parts import Scribe
from provision.adapters.redfish.power import last_reset, power_of, progress
from provision.adapters.redfish.service import Service, identity
from provision.adapters.redfish.values import link, links, moment, objects, text
from provision.adapters.redfish.walk import Listing, Reader
from provision.errors import PeerError
from provision.model.evidence import Evidence, PartKind, Reading
from provision.ports import Clock

# Where the BMC tells no last power-on, entries of this age still count.
_RECENT = timedelta(hours=24)
_LOG_PAGES = 12


async def read_health(
    reader: Reader, service: Service, node: str, facts: NetworkFacts, ports: Ports, clock: Clock
) -> list[Evidence]:
    """All evidence of one node; what could not be read is in ``reader.gaps``."""
    scribe = Scribe(node, clock.now())
    chassis, manager = await reader.gather(
        reader.all(service.chassis, "redfish/psus"), reader.optional(service.manager, "clock/offset")
    )
    offset = _offset(manager, clock)
    groups = await reader.gather(
        _psus(reader, chassis, scribe),
        _thermal(reader, chassis, scribe),
        _drives(reader, service, scribe),
        _processors_and_pcie(reader, service, chassis, scribe),
        _memory(reader, service, scribe),
        _logs(reader, service, Window(node, scribe.now, _floor(service, manager), offset)),
    )
    found = [_host(service, manager, scribe), *parse.port_evidence(ports, scribe)]
    cards = list(parse.card_evidence(facts, scribe))
    found += cards
    if facts.cards_complete and cards:
        found.append(scribe.count(PartKind.NIC, "NICs", cards))
    if ports.ports and facts.interfaces_complete:
        found.append(scribe.count(PartKind.PORT, "ports", found))
    if offset is not None:
        found.append(
            scribe.note(
                PartKind.CLOCK,
                "BMC clock",
                "BMC clock",
                Reading.FACT,
                "clock/offset",
                values={"offset_s": round(offset, 1)},
            )
        )
    return found + [item for group in groups for item in group]


def _host(service: Service, manager: Json | None, scribe: Scribe) -> Evidence:
    who = identity(service)
    return scribe.note(
        PartKind.NODE,
        scribe.node,
        scribe.node,
        Reading.FACT,
        "redfish/host",
        values={
            "power": str(power_of(service.system)),
            "progress": progress(service.system),
            "maker": who.maker,
            "model": who.model,
            "service_tag": who.service_tag,
            "bmc_firmware": text(manager or {}, "FirmwareVersion") or who.bmc_firmware,
            "bios_version": who.bios_version,
        },
    )


def _offset(manager: Json | None, clock: Clock) -> float | None:
    told = manager_time(manager) if manager else None
    return (told - clock.now()).total_seconds() if told else None


def _floor(service: Service, manager: Json | None) -> datetime | None:
    """Since when log entries count, in the BMC's own time: the last power-on, else a day before its present."""
    reset = moment(last_reset(service.system))
    if reset is not None and reset.year > 2000:
        return reset
    told = manager_time(manager) if manager else None
    return told - _RECENT if told else None


async def _psus(reader: Reader, chassis: Listing, scribe: Scribe) -> list[Evidence]:
    found: list[Evidence] = []
    complete = chassis.complete and bool(chassis.members)
    for item in chassis.members:
        power = await reader.optional(link(item, "Power"), "redfish/psus")
        complete = complete and (power is not None or link(item, "Power") is None)
        first = list(psu_evidence(supplies_of(power), scribe)) if power else []
        if needs_second_look(first) and link(item, "PowerSubsystem"):
            subsystem = await reader.optional(link(item, "PowerSubsystem"), "redfish/psus")
            listing = await reader.members(link(subsystem, "PowerSupplies"), "redfish/psus")
            complete = complete and (listing.complete or bool(first))
            first = merged(first, psu_evidence(listing.members, scribe))
        found += first
    return [*found, scribe.count(PartKind.PSU, "PSUs", found)] if found and complete else found


async def _thermal(reader: Reader, chassis: Listing, scribe: Scribe) -> list[Evidence]:
    found: list[Evidence] = []
    for item in chassis.members:
        thermal = await reader.optional(link(item, "Thermal"), "redfish/fans")
        fans, temperatures = parse.thermal_parts(thermal or {})
        if not fans and link(item, "ThermalSubsystem"):
            subsystem = await reader.optional(link(item, "ThermalSubsystem"), "redfish/fans")
            fans = (await reader.members(link(subsystem, "Fans"), "redfish/fans")).members
        if not temperatures and link(item, "Sensors") and thermal is None:
            sensors = (await reader.members(link(item, "Sensors"), "redfish/temperatures")).members
            temperatures = tuple(one for one in sensors if text(one, "ReadingType") == "Temperature")
        found += [*parse.fan_evidence(fans, scribe), *parse.temperature_evidence(temperatures, scribe)]
    return found


async def _drives(reader: Reader, service: Service, scribe: Scribe) -> list[Evidence]:
    path = link(service.system, "Storage")
    if path is None:
        return []
    storages = await reader.members(path, "redfish/drives", levels=2)
    listings = await reader.gather(*(_drives_of(reader, storage) for storage in storages.members))
    drives = {link(one) or text(one, "Id"): one for listing in listings for one in listing.members}
    found = list(parse.drive_evidence(drives.values(), scribe))
    complete = storages.complete and all(listing.complete for listing in listings)
    return [*found, scribe.count(PartKind.DRIVE, "drives", found)] if complete else found


async def _drives_of(reader: Reader, storage: Json) -> Listing:
    inline = [drive for drive in objects(storage, "Drives") if len(drive) > 1]
    paths = [path for drive in objects(storage, "Drives") if len(drive) == 1 and (path := link(drive))]
    own = link(storage)
    if len(paths) > 1 and own and reader.expand.applied(own, 1) != own:
        try:
            expanded = await reader.resource(reader.expand.applied(own, 1))
        except PeerError as error:
            if error.code in {"no-answer", "closed"}:
                raise
        else:
            inline += [drive for drive in objects(expanded, "Drives") if len(drive) > 1]
            told = {link(drive) for drive in inline}
            paths = [path for path in paths if path not in told]
    rest = await reader.all(paths, "redfish/drives")
    return Listing((*inline, *rest.members), rest.complete)


async def _processors_and_pcie(reader: Reader, service: Service, chassis: Listing, scribe: Scribe) -> list[Evidence]:
    own, beside, devices = await reader.gather(
        reader.members(link(service.system, "Processors"), "redfish/gpus"),
        reader.gather(*(reader.members(link(one, "Processors"), "redfish/gpus") for one in service.beside)),
        _pcie_devices(reader, service, chassis),
    )
    processors = [*own.members, *(one for listing in beside for one in listing.members)]
    gpus = [one for one in processors if parse.is_gpu(one)]
    complete = own.complete and not service.gaps
    complete = complete and all(
        lst.complete for lst, one in zip(beside, service.beside, strict=True) if link(one, "Processors")
    )
    if not gpus:
        gpus = [one for one in devices.members if parse.device_class(one) == "gpu"]
        complete = devices.complete and bool(devices.members) and not service.gaps
    found = [*parse.gpu_evidence(gpus, scribe)]
    if complete:
        found.append(scribe.count(PartKind.GPU, "GPUs", found))
    return [*found, *parse.cpu_evidence(own.members, scribe), *parse.pcie_evidence(devices.members, scribe)]


async def _pcie_devices(reader: Reader, service: Service, chassis: Listing) -> Listing:
    paths = [path for one in chassis.members if (path := link(one, "PCIeDevices"))]
    listings = await reader.gather(*(reader.members(path, "redfish/pcie") for path in paths))
    found = Listing(
        tuple(one for listing in listings for one in listing.members), all(listing.complete for listing in listings)
    )
    if found.members:
        return found
    listed = links(service.system, "PCIeDevices")
    return await reader.all(listed, "redfish/pcie") if listed else Listing((), False)


async def _memory(reader: Reader, service: Service, scribe: Scribe) -> list[Evidence]:
    listing = await reader.members(link(service.system, "Memory"), "redfish/dimms")
    found = list(parse.dimm_evidence(listing.members, scribe))
    return [*found, scribe.count(PartKind.DIMM, "DIMMs", found)] if listing.complete else found


async def _logs(reader: Reader, service: Service, window: Window) -> list[Evidence]:
    manager = await reader.optional(service.manager, "redfish/sel")
    holders = [service.system, *([manager] if manager else [])]
    services = await reader.gather(*(reader.members(link(one, "LogServices"), "redfish/sel") for one in holders))
    wanted: dict[str, str] = {}
    for listing in services:
        for one in listing.members:
            source = _source(service, link(one) or "")
            entries = link(one, "Entries")
            if source and entries:
                wanted[entries] = source
    groups = await reader.gather(*(_entries(reader, path, source, window) for path, source in wanted.items()))
    return [item for group in groups for item in group]


def _source(service: Service, path: str) -> str | None:
    rows = service.quirks.logs
    if rows:
        return next((source for end, source in rows if path.rstrip("/").endswith(end)), None)
    name = path.rstrip("/").rpartition("/")[2].lower()
    if re.fullmatch(r"sel|eventlog|event|logs?\d*|platformlog", name):
        return "redfish/sel"
    return "redfish/iml" if name == "iml" else None


async def _entries(reader: Reader, path: str, source: str, window: Window) -> list[Evidence]:
    """Entries page by page: stop where a list that runs from new to old leaves the window."""
    entries: list[Json] = []
    async for page in reader.pages(path, source, most=_LOG_PAGES):
        entries += page
        times = [time for one in page if (time := moment(text(one, "Created")))]
        falling = len(times) > 1 and times[0] > times[-1]
        if falling and window.floor and source != "redfish/faults" and times[-1] < window.floor:
            break
    return list(log_evidence(entries, source, window))
