"""Drives, PCIe devices, processors, memory, fans, temperatures, cards and ports as evidence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provision.adapters.redfish.netfacts import NetworkFacts
from provision.adapters.redfish.parse_ports import Ports, nic_cards
from provision.adapters.redfish.parts import Scribe, judged, label
from provision.adapters.redfish.places import part_location
from provision.adapters.redfish.values import dig, health, number, objects, state, text, whole
from provision.model.bmc import Link
from provision.model.evidence import Evidence, PartKind, Reading

_CLASSES = (
    ("nvme", r"nvme|\bssd\b|u\.2|e1\.s|e3\.s|mz[qw]l|mtfd|cm[567]\b|kcd\d|pm17\d\d"),
    ("nic", r"connect-?x|bluefield|mcx\d|mbf\d|mt\d{5}|ethernet|network|netxtreme|bcm5\d{3}|infiniband|x550|x710|e810"
            r"|stgs|\bnic\b|\blom\b"),
    ("gpu", r"\b[abhl]\d{2,3}\b|\bgpu\b|gh200|gb200|3d controller|nvidia corporation|instinct|mi\d{3}"),
    ("switch", r"pcie? ?switch|\bpex\d|switchtec|retimer|nvswitch"),
)  # fmt: skip


def drive_evidence(drives: Iterable[Mapping[str, Any]], scribe: Scribe) -> Iterator[Evidence]:
    """One reading per drive: ok, failing (predicted), failed, absent or unknown. Sizes in bytes, life in percent."""
    for drive in drives:
        name = text(drive, "Id") or text(drive, "Name") or ""
        if not name:
            continue
        yield scribe.note(
            PartKind.DRIVE,
            name,
            label(PartKind.DRIVE, name, drive),
            _drive_reading(drive),
            "redfish/drives",
            item=drive,
            why="the drive predicts its own failure" if drive.get("FailurePredicted") is True else "",
            values={
                "model": text(drive, "Model"),
                "serial": text(drive, "SerialNumber"),
                "size_bytes": whole(drive, "CapacityBytes"),
                "protocol": text(drive, "Protocol"),
                "firmware": text(drive, "FirmwareVersion") or text(drive, "Revision"),
                "life_left_percent": number(drive, "PredictedMediaLifeLeftPercent"),
                "width": _lanes(drive, "PCIeNegotiatedLinkWidth"),
                "max_width": _lanes(drive, "PCIeCapableLinkWidth"),
            },
        )


def _drive_reading(drive: Mapping[str, Any]) -> Reading:
    plain = judged(drive, warning=Reading.FAILING)
    inner = (text(drive, "Oem", "Dell", "DellPCIeSSD", "DriveState") or "").lower()
    if plain is Reading.ABSENT:
        return plain
    if drive.get("FailurePredicted") is True:
        return Reading.FAILING
    return Reading.FAILED if "fail" in inner else plain


def _lanes(drive: Mapping[str, Any], key: str) -> int | None:
    """Dell writes ``x4``, ``By 4`` or a number; 0 is "not known"."""
    found = re.search(r"\d+", text(drive, "Oem", "Dell", "DellPCIeSSD", key) or "")
    return int(found[0]) or None if found else None


def device_class(device: Mapping[str, Any]) -> str:
    """gpu, nic, nvme, switch or other, from slot, name and model."""
    name = text(device, "Id") or ""
    if re.match(r"^GPU[_ ]?(SXM_)?\d+$", name):
        return "gpu"
    if (text(device, "Slot", "SlotType") or "").upper() in {"U2", "M2", "EDSFF"}:
        return "nvme"
    said = " ".join(filter(None, (text(device, key) for key in ("Model", "Name", "Description")))).lower()
    return next((kind for kind, pattern in _CLASSES if re.search(pattern, said)), "other")


def pcie_evidence(devices: Iterable[Mapping[str, Any]], scribe: Scribe) -> Iterator[Evidence]:
    """Width and generation of every device as figures: whether they are too small is judged against the profile.

    A narrower or slower link than the device could do is normal in many healthy machines (idle links, M.2 kits,
    Gen5 devices in Gen4 slots).
    """
    for device in devices:
        name = text(device, "Id") or ""
        if not name or state(device) == "absent":
            continue
        link, kind = dig(device, "PCIeInterface") or {}, device_class(device)
        width = whole(link, "LanesInUse") or None
        failed = health(device) == "critical" and state(device) == "enabled"
        if width is None and kind == "other" and not failed:
            continue
        yield scribe.note(
            PartKind.PCIE,
            name,
            part_location(device, "Slot", "Location") or part_location(device, "Location") or _shown(device),
            Reading.FAILED if failed else Reading.FACT if width else Reading.UNKNOWN,
            "redfish/pcie",
            item=device,
            values={
                "width": width,
                "max_width": whole(link, "MaxLanes") or None,
                "gen": generation(link, "PCIeType"),
                "max_gen": generation(link, "MaxPCIeType"),
                "model": text(device, "Model") or text(device, "Name"),
                "device_class": kind,
            },
        )


def _shown(device: Mapping[str, Any]) -> str:
    name, own = text(device, "Name") or "", text(device, "Id") or ""
    return own if not name or name.lower().startswith("pciedevice") else f"{name} ({own})" if own != name else own


def generation(link: Mapping[str, Any], key: str) -> int | None:
    """``Gen5`` is 5."""
    found = re.search(r"(\d)", text(link, key) or "")
    return int(found[1]) if found else None


def gpu_evidence(items: Iterable[Mapping[str, Any]], scribe: Scribe) -> Iterator[Evidence]:
    """GPUs from Processors (or PCIeDevices where Processors lack them): ok, failed, degraded, absent or unknown."""
    for item in items:
        name = text(item, "Id") or text(item, "Name") or ""
        if name:
            yield scribe.note(
                PartKind.GPU,
                name,
                label(PartKind.GPU, name, item),
                judged(item),
                "redfish/gpus",
                item=item,
                values={
                    "model": text(item, "Model"),
                    "serial": text(item, "SerialNumber"),
                    "firmware": text(item, "FirmwareVersion"),
                },
            )


def is_gpu(processor: Mapping[str, Any]) -> bool:
    """True for graphics processors and accelerators of that kind."""
    return (text(processor, "ProcessorType") or "").upper() == "GPU"


def cpu_evidence(processors: Iterable[Mapping[str, Any]], scribe: Scribe) -> Iterator[Evidence]:
    """Sockets: ok, failed, degraded, absent or unknown."""
    for item in processors:
        name = text(item, "Id") or ""
        if name and (text(item, "ProcessorType") or "CPU").upper() == "CPU":
            yield scribe.note(
                PartKind.CPU,
                name,
                label(PartKind.CPU, name, item),
                judged(item),
                "redfish/cpus",
                item=item,
                values={"model": text(item, "Model")},
            )


def dimm_evidence(modules: Iterable[Mapping[str, Any]], scribe: Scribe) -> Iterator[Evidence]:
    """Memory modules; an empty socket is absent, a module that is switched off is degraded. Sizes in bytes."""
    for item in modules:
        name = text(item, "Id") or ""
        if not name:
            continue
        size = whole(item, "CapacityMiB")
        reading = judged(item)
        if state(item) == "disabled" and size:
            reading = Reading.FAILED if health(item) == "critical" else Reading.DEGRADED
        yield scribe.note(
            PartKind.DIMM,
            name,
            text(item, "DeviceLocator")
            or (text(item, "Name") if name.isdigit() else label(PartKind.DIMM, name, item))
            or name,
            reading,
            "redfish/dimms",
            item=item,
            values={"size_bytes": size * 1024 * 1024 if size else None},
        )


def fan_evidence(fans: Iterable[Mapping[str, Any]], scribe: Scribe) -> Iterator[Evidence]:
    """Fans: ok, failed, degraded or unknown; empty places are left out."""
    for index, item in enumerate(fans):
        name = text(item, "Name") or text(item, "FanName") or text(item, "Id") or f"Fan {index + 1}"
        reading = judged(item)
        if reading is not Reading.ABSENT:
            yield scribe.note(
                PartKind.FAN, name, name, reading, "redfish/fans", item=item, values={"rpm": number(item, "Reading")}
            )


def temperature_evidence(sensors: Iterable[Mapping[str, Any]], scribe: Scribe) -> Iterator[Evidence]:
    """Temperatures in degrees Celsius; sensors of absent or switched-off parts are left out."""
    for index, item in enumerate(sensors):
        name = text(item, "Name") or text(item, "DeviceName") or text(item, "MemberId") or f"Sensor {index + 1}"
        degrees = number(item, "ReadingCelsius")
        degrees = number(item, "Reading") if degrees is None else degrees
        if state(item) in {"absent", "disabled"}:
            continue
        yield scribe.note(
            PartKind.SENSOR,
            name,
            name,
            judged(item),
            "redfish/temperatures",
            item=item,
            values={"celsius": degrees},
        )


def card_evidence(facts: NetworkFacts, scribe: Scribe) -> Iterator[Evidence]:
    """Network cards: ok, failed, absent or unknown. A card without link calls itself Disabled on AMI and is well."""
    for name, locator, adapter, model in nic_cards(facts.cards):
        yield scribe.note(
            PartKind.NIC,
            name,
            locator,
            judged(adapter, warning=Reading.FAILED),
            "redfish/nics",
            item=adapter,
            values={"model": model, "firmware": _card_firmware(adapter)},
        )


def _card_firmware(adapter: Mapping[str, Any]) -> str | None:
    told = (text(one, "FirmwarePackageVersion") for one in objects(adapter, "Controllers"))
    return next((version for version in told if version), None)


def port_evidence(ports: Ports, scribe: Scribe) -> Iterator[Evidence]:
    """Links and neighbours. ``no_link_heard`` is True where LLDP, a second witness, says that nothing is plugged in."""
    for port in ports.ports:
        if port.kind == "other":
            continue
        reading = {Link.UP: Reading.UP, Link.DOWN: Reading.DOWN, Link.UNKNOWN: Reading.UNKNOWN}[port.link]
        yield scribe.note(
            PartKind.PORT,
            port.name,
            port.locator,
            reading,
            "redfish/ports",
            values={
                "mac": str(port.mac) if port.mac else None,
                "speed_mbps": port.speed_mbps,
                "model": port.model,
                "kind": port.kind,
                "boot": port.network_boot,
                "no_link_heard": True if port.name in ports.unplugged else None,
            },
        )
        if port.neighbour is not None:
            yield scribe.note(
                PartKind.PORT,
                port.name,
                port.locator,
                Reading.FACT,
                "redfish/lldp",
                values={"switch": port.neighbour.switch, "port": port.neighbour.port},
            )


def thermal_parts(thermal: Mapping[str, Any]) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """Fans and temperatures of the older Thermal resource."""
    return objects(thermal, "Fans"), objects(thermal, "Temperatures")
