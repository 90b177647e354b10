"""What a commissioning run finds out about a machine, and what MAAS makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from provision.sim.maas import storage
from provision.sim.maas.region import Region
from provision.sim.maas.state import Disk, Link, Nic, Record


@dataclass(frozen=True, slots=True)
class FoundDisk:
    """A drive under the name of this boot. Bytes."""

    name: str
    serial: str
    model: str
    size: int


@dataclass(frozen=True, slots=True)
class FoundNic:
    """An Ethernet port: ``vlan`` as (vlan id, fabric id, fabric), ``mode`` what MAAS configures on it by default."""

    name: str
    mac: str
    connected: bool
    vlan: tuple[int, int, str] | None
    mode: str
    on_subnet: bool


@dataclass(frozen=True, slots=True)
class Hardware:
    """One machine as the ephemeral system saw it. Disks stand in this boot's order."""

    cpu_count: int
    memory_mb: int
    disks: tuple[FoundDisk, ...]
    nics: tuple[FoundNic, ...]
    uuid: str | None = None
    serial: str = ""
    boot_method: str | None = None


def learn(region: Region, record: Record, found: Hardware, *, skip_storage: bool, skip_networking: bool) -> None:
    """Write a commissioning's findings into the record. Ids of drives (by serial) and ports (by MAC) persist."""
    record.cpu_count, record.memory_mb = found.cpu_count, found.memory_mb
    record.hardware_uuid = found.uuid or record.hardware_uuid
    record.serial = found.serial or record.serial
    record.bios_boot_method = found.boot_method or record.bios_boot_method
    _learn_nics(region, record, found.nics, keep_links=skip_networking)
    _learn_disks(region, record, found.disks)
    if not skip_storage or record.root_disk is None:
        storage.lay_out(region, record, str(region.config["default_storage_layout"]))
    record.touch()


def _learn_disks(region: Region, record: Record, found: tuple[FoundDisk, ...]) -> None:
    known = {disk.serial: disk for disk in record.disks}
    record.disks = []
    for item in found:
        disk = known.get(item.serial) or Disk(region.next_id("disk"), item.name, item.serial, item.model, item.size)
        disk.name, disk.model, disk.size = item.name, item.model, item.size
        record.disks.append(disk)
    if record.boot_disk_id not in {disk.id for disk in record.disks}:
        # The chosen drive is gone: MAAS forgets the choice without a word.
        record.boot_disk_id = None


def _learn_nics(region: Region, record: Record, found: tuple[FoundNic, ...], *, keep_links: bool) -> None:
    known = {nic.mac: nic for nic in record.nics}
    seen: list[Nic] = []
    for item in found:
        nic = known.get(item.mac) or _take_over(region, record, item)
        nic.name, nic.connected = item.name, item.connected
        if not keep_links:
            nic.vlan = item.vlan
            subnet = region.subnets[0] if item.on_subnet else None
            nic.links = [Link(region.next_id("link"), item.mode, subnet)]
        seen.append(nic)
    for mac, nic in known.items():
        if nic not in seen:
            region.by_mac.pop(mac, None)
    record.nics = seen
    if record.boot_nic not in seen:
        record.boot_nic = seen[0] if seen else None


def _take_over(region: Region, record: Record, item: FoundNic) -> Nic:
    """A port that MAAS did not know on this machine; it may have been another's before a board was swapped."""
    other = region.by_mac.get(item.mac)
    if other is not None:
        other.nics = [nic for nic in other.nics if nic.mac != item.mac]
        if other.boot_nic is not None and other.boot_nic.mac == item.mac:
            other.boot_nic = other.nics[0] if other.nics else None
        other.touch()
    return region.add_nic(record, item.name, item.mac)
