"""MAAS's JSON → ``provision.model.machine``. Pure.

Field meanings as recorded from MAAS 3.6.3. Fields that MAAS leaves out or sets to null become the model's defaults; a
body without system id or status is nobody's machine and is garbled.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from provision.model.machine import MaasDisk, MaasEvent, Machine, Receipt, ScriptResult, Status
from provision.model.node import MacAddress
from provision.model.profile import DiskFacts

EPOCH_KEY, IMAGE_KEY = "provision_epoch", "provision_image"
_ROOTS = {"/", "/boot/efi"}
_RUNS = ("commissioning", "testing", "installation")
_TAIL_LINES, _TAIL_CHARS = 20, 2000
_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
_EVENT_DATE = re.compile(r"(\d{1,2}) ([A-Za-z]{3})[a-z.]* (\d{4}) (\d\d):(\d\d):(\d\d)")


def machine(body: Any) -> Machine:
    """One machine.

    Raises:
        ValueError: no system id or no status: not a machine's body.
    """
    if (
        not isinstance(body, Mapping)
        or not isinstance(body.get("system_id"), str)
        or not isinstance(body.get("status"), int)
    ):
        raise ValueError("not a machine: no system_id or no status")
    boot_interface = _map(body.get("boot_interface"))
    boot_disk = _map(body.get("boot_disk")).get("id")
    return Machine(
        system_id=body["system_id"],
        hostname=_text(body.get("hostname")),
        status=_status(body["status"]),
        macs=tuple(_macs(body)),
        boot_mac=_mac(boot_interface.get("mac_address")),
        status_message=_text(body.get("status_message")),
        error_description=_text(body.get("error_description")),
        power_state=_text(body.get("power_state")) or "unknown",
        power_type=_text(body.get("power_type")),
        owner=_text(body.get("owner")) or None,
        locked=body.get("locked") is True,
        series=_text(body.get("distro_series")).rpartition("/")[2],
        kernel=_text(body.get("hwe_kernel")),
        receipt=receipt(body),
        disks=tuple(_disks(body)),
        boot_disk_id=boot_disk if isinstance(boot_disk, int) else None,
        root_disk_ids=root_disk_ids(body),
        addresses=tuple(_addresses(body)),
        hardware_uuid=_text(body.get("hardware_uuid")).lower() or None,
        architecture=_text(body.get("architecture")),
        zone=_text(_map(body.get("zone")).get("name")),
        pool=_text(_map(body.get("pool")).get("name")),
        tags=tuple(_text(tag) for tag in _list(body.get("tag_names")) if _text(tag)),
        layout=layout(body),
        fqdn=_text(body.get("fqdn")),
    )


def receipt(body: Mapping[str, Any]) -> Receipt | None:
    """The receipt among a machine's workload annotations; None without one that can be read.

    ``owner_data`` and ``workload_annotations`` are two names of one store (recorded: what is set by one operation is
    read under both names). It lives from the allocation to the release: a deployment, an aborted one, a failed one,
    the rescue mode and a broken mark under power leave it alone; release, erasing, and a broken mark with the power
    off empty it together with the owner.
    """
    kept = {**_map(body.get("workload_annotations")), **_map(body.get("owner_data"))}
    epoch = _text(kept.get(EPOCH_KEY))
    return Receipt(int(epoch), _text(kept.get(IMAGE_KEY))) if re.fullmatch(r"[0-9]{1,9}", epoch) else None


def root_disk_ids(body: Mapping[str, Any]) -> tuple[int, ...]:
    """The drives under ``/`` and the EFI partition, through volume groups, RAID and caches; empty without a layout.

    MAAS cuts the volume groups of a machine's body short (``__incomplete__``), but every member says whom it serves:
    ``LVM volume for vgroot`` and the volume is called ``vgroot-lvroot`` (recorded), ``Active raid-1 device for md0``.
    """
    devices = [one for one in map(_map, _list(body.get("blockdevice_set"))) if isinstance(one.get("id"), int)]
    found: dict[int, None] = {}
    for device in devices:
        if any(_text(_map(part.get("filesystem")).get("mount_point")) in _ROOTS for part in _parts(device)):
            found.update(dict.fromkeys(_drives(device, devices, depth=4)))
    return tuple(found)


def layout(body: Mapping[str, Any]) -> str:
    """What carries ``/``: ``flat`` (a drive or its partition), ``lvm`` (a volume of a group), ``other``, or empty."""
    devices = [_map(one) for one in _list(body.get("blockdevice_set"))]
    for device in devices:
        if any(_text(_map(part.get("filesystem")).get("mount_point")) == "/" for part in _parts(device)):
            if device.get("type") != "virtual":
                return "flat"
            name = _text(device.get("name"))
            uses = [_text(part.get("used_for")) for other in devices for part in _parts(other)]
            return "lvm" if any(use.startswith("LVM") and _serves(use, name) for use in uses) else "other"
    return ""


def _drives(device: Mapping[str, Any], devices: Sequence[Mapping[str, Any]], *, depth: int) -> Iterator[int]:
    if device.get("type") != "virtual":
        yield device["id"]
        return
    name = _text(device.get("name"))
    for other in devices if depth else ():
        if other is not device and any(_serves(_text(part.get("used_for")), name) for part in _parts(other)):
            yield from _drives(other, devices, depth=depth - 1)


def _serves(used_for: str, name: str) -> bool:
    _, mark, group = used_for.rpartition(" for ")
    return bool(mark) and (name == group or name.startswith(f"{group}-"))


def _parts(device: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The device itself and its partitions: each may carry a file system or serve a group."""
    return [device, *map(_map, _list(device.get("partitions")))]


def _disks(body: Mapping[str, Any]) -> Iterator[MaasDisk]:
    for device in map(_map, _list(body.get("blockdevice_set")) or _list(body.get("physicalblockdevice_set"))):
        if device.get("type", "physical") != "physical" or not isinstance(device.get("id"), int):
            continue
        size = device.get("size")
        yield MaasDisk(
            id=device["id"],
            name=_text(device.get("name")),
            facts=DiskFacts(
                serial=_text(device.get("serial")),
                model=_text(device.get("model")),
                size_bytes=int(size) if isinstance(size, int | float) else 0,
                bus=_bus(device),
            ),
            id_path=_text(device.get("id_path")) or None,
        )


def _bus(device: Mapping[str, Any]) -> str | None:
    """By the kernel's name and MAAS's own tags: it has no field for the bus."""
    tags = {_text(tag).lower() for tag in _list(device.get("tags"))}
    named = next((bus for bus in ("nvme", "sata", "sas") if bus in tags), None)
    return named or ("nvme" if _text(device.get("name")).startswith("nvme") else None)


def _interfaces(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The boot interface first, the others in MAAS's order."""
    boot = _map(body.get("boot_interface")).get("id")
    return sorted(map(_map, _list(body.get("interface_set"))), key=lambda one: one.get("id") != boot)


def _macs(body: Mapping[str, Any]) -> Iterable[MacAddress]:
    # A bond repeats the address of one of its ports.
    found = (_mac(one.get("mac_address")) for one in _interfaces(body))
    return dict.fromkeys(mac for mac in found if mac is not None)


def _addresses(body: Mapping[str, Any]) -> Iterable[str]:
    links = (link for one in _interfaces(body) for link in map(_map, _list(one.get("links"))))
    listed = (*(link.get("ip_address") for link in links), *_list(body.get("ip_addresses")))
    return dict.fromkeys(_text(address) for address in listed if _text(address))


def results(sets: Any) -> tuple[ScriptResult, ...]:
    """Scripts of one or more result sets, in MAAS's order, with the last lines of their output where it is there.

    Raises:
        ValueError: not a list of sets.
    """
    found = []
    for one in result_sets(sets):
        run = _text(one.get("type_name")).lower()
        for script in map(_map, _list(one.get("results"))):
            exit_status = script.get("exit_status")
            found.append(
                ScriptResult(
                    name=_text(script.get("name")),
                    run=run,
                    status=_text(script.get("status_name")).lower(),
                    exit_status=exit_status if isinstance(exit_status, int) else None,
                    output_tail=_tail(script),
                    started_at=_when(script.get("started")),
                    ended_at=_when(script.get("ended")),
                )
            )
    return tuple(found)


def result_sets(sets: Any) -> list[Mapping[str, Any]]:
    """The newest set of each run that a stage judges: the one with the highest number.

    MAAS gives all of them and asks its database for no order (recorded: oldest first; a set that is written to may move
    behind younger ones).

    Raises:
        ValueError: not a list of sets.
    """
    if not isinstance(sets, list):
        raise ValueError("not a list of result sets")
    known = sorted(map(_map, sets), key=lambda one: one["id"] if isinstance(one.get("id"), int) else -1)
    newest = {_text(one.get("type_name")).lower(): one for one in known}
    return [newest[run] for run in _RUNS if run in newest]


def _tail(script: Mapping[str, Any]) -> str:
    """Output fields are base64 (recorded). ``output`` joins both streams; a script may have filled only one."""
    for name in ("output", "stderr", "stdout"):
        try:
            text = base64.b64decode(_text(script.get(name)), validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            text = _text(script.get(name))
        if text.strip():
            return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])[-_TAIL_CHARS:]
    return ""


def events(body: Any) -> tuple[MaasEvent, ...]:
    """Lines of a machine's log, newest first as MAAS sends them. An entry without a readable date is left out.

    Raises:
        ValueError: not an answer of ``events/?op=query``.
    """
    if not isinstance(body, Mapping) or not isinstance(body.get("events"), list):
        raise ValueError("not a list of events")
    found = []
    for one in map(_map, body["events"]):
        at = _event_date(_text(one.get("created")))
        if at is not None:
            level, kind = _text(one.get("level")), _text(one.get("type"))
            found.append(MaasEvent(at=at, level=level, type=kind, description=_text(one.get("description"))))
    return tuple(found)


def _event_date(raw: str) -> datetime | None:
    """Read ``Sun, 29 Nov. 2026 17:59:35``: UTC, with the month shortened as newspapers do (``Sept.``, ``March``)."""
    found = _EVENT_DATE.search(raw)
    month = _MONTHS.find(found[2].lower()) if found is not None else -1
    if found is None or month % 3:
        return None
    day, year, hour, minute, second = (int(found[i]) for i in (1, 3, 4, 5, 6))
    try:
        return datetime(year, month // 3 + 1, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def _when(raw: Any) -> datetime | None:
    try:
        when = parsedate_to_datetime(_text(raw))
    except (TypeError, ValueError, OverflowError):
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def _status(number: int) -> Status:
    try:
        return Status(number)
    except ValueError:
        return Status.UNRECOGNISED


def _mac(raw: Any) -> MacAddress | None:
    try:
        return MacAddress.parse(raw) if isinstance(raw, str) else None
    except ValueError:
        return None


def _text(raw: Any) -> str:
    return raw if isinstance(raw, str) else ""


def _map(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, Mapping) else {}


def _list(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else []
