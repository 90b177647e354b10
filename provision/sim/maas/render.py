"""Bodies of the API. Field names, types and oddities as recorded from a real 3.6.3.

Sizes of a machine are MB (``storage``, a float) and MiB (``memory``); of drives bytes. ``ip_addresses`` is filled as
a real region does (the recorded peer left it out).
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from provision.sim.maas import storage
from provision.sim.maas.region import Region
from provision.sim.maas.state import (
    COMMISSIONING,
    INSTALLATION,
    TESTING,
    Disk,
    Filesystem,
    Link,
    Named,
    Nic,
    Partition,
    Record,
    ScriptSet,
    Subnet,
    Tag,
    User,
    Volume,
)
from provision.sim.maas.statuses import NAMES, SCRIPT_NAMES, ScriptStatus

ROOT = "/MAAS/api/2.0"
DOMAIN = {"authoritative": True, "ttl": None, "is_default": True, "id": 0, "name": "maas", "resource_record_count": 0}


def zone(item: Named) -> dict[str, Any]:
    """A zone."""
    return {
        "name": item.name,
        "description": item.description,
        "id": item.id,
        "resource_uri": f"{ROOT}/zones/{item.name}/",
    }


def pool(item: Named) -> dict[str, Any]:
    """A resource pool; its address is singular."""
    return {
        "name": item.name,
        "description": item.description,
        "id": item.id,
        "resource_uri": f"{ROOT}/resourcepool/{item.id}/",
    }


def tag(item: Tag) -> dict[str, Any]:
    """A tag."""
    return {
        "name": item.name,
        "definition": item.definition,
        "comment": item.comment,
        "kernel_opts": item.kernel_opts,
        "resource_uri": f"{ROOT}/tags/{item.name}/",
    }


def user(item: User) -> dict[str, Any]:
    """A user."""
    return {
        "is_superuser": item.admin,
        "username": item.name,
        "email": item.email,
        "is_local": True,
        "resource_uri": f"{ROOT}/users/{item.name}/",
    }


def subnet(item: Subnet) -> dict[str, Any]:
    """A subnet with its VLAN."""
    vlan = {
        "vid": 0,
        "mtu": 1500,
        "dhcp_on": False,
        "external_dhcp": None,
        "relay_vlan": None,
        "secondary_rack": None,
        "fabric": item.name,
        "name": "untagged",
        "primary_rack": None,
        "fabric_id": item.fabric_id,
        "space": "undefined",
        "id": item.vlan_id,
        "resource_uri": f"{ROOT}/vlans/{item.vlan_id}/",
    }
    return {
        "name": item.name,
        "description": "",
        "vlan": vlan,
        "cidr": item.cidr,
        "rdns_mode": 2,
        "gateway_ip": item.gateway,
        "dns_servers": [],
        "allow_dns": True,
        "allow_proxy": True,
        "active_discovery": False,
        "managed": True,
        "disabled_boot_architectures": [],
        "space": "undefined",
        "id": item.id,
        "resource_uri": f"{ROOT}/subnets/{item.id}/",
    }


def _link(link: Link) -> dict[str, Any]:
    body: dict[str, Any] = {"id": link.id, "mode": link.mode}
    if link.address:
        body["ip_address"] = link.address
    if link.subnet:
        body["subnet"] = {"id": link.subnet.id, "name": link.subnet.name, "cidr": link.subnet.cidr}
    return body


def interface(record: Record, nic: Nic) -> dict[str, Any]:
    """An interface."""
    vlan = None
    if nic.vlan:
        vlan_id, fabric_id, fabric = nic.vlan
        vlan = {"id": vlan_id, "name": "untagged", "vid": 0, "fabric": fabric, "fabric_id": fabric_id}
        vlan |= {"dhcp_on": False, "primary_rack": None}
    return {
        "id": nic.id,
        "name": nic.name,
        "type": "physical",
        "mac_address": nic.mac,
        "enabled": True,
        "link_connected": nic.connected,
        "vlan": vlan,
        "links": [_link(link) for link in nic.links],
        "resource_uri": f"{ROOT}/nodes/{record.system_id}/interfaces/{nic.id}/",
        "system_id": record.system_id,
        "tags": [],
        "parents": [],
        "children": [],
        "params": "",
        "discovered": [],
        "effective_mtu": 1500,
    }


def _filesystem(made: Filesystem | None) -> dict[str, Any] | None:
    if made is None:
        return None
    return {"fstype": made.fstype, "mount_point": made.mount_point, "label": made.label, "uuid": made.uuid}


def _partition(record: Record, disk: Disk, part: Partition) -> dict[str, Any]:
    return {
        "id": part.id,
        "path": f"/dev/disk/by-dname/{disk.name}-part{part.number}",
        "size": part.size,
        "type": "partition",
        "bootable": part.bootable,
        "used_for": storage.describe_use(part.filesystem),
        "tags": [],
        "filesystem": _filesystem(part.filesystem),
        "system_id": record.system_id,
        "device_id": disk.id,
        "resource_uri": f"{ROOT}/nodes/{record.system_id}/blockdevices/{disk.id}/partition/{part.id}",
    }


def block_device(record: Record, disk: Disk) -> dict[str, Any]:
    """A physical drive."""
    return {
        "id": disk.id,
        "name": disk.name,
        "path": f"/dev/disk/by-dname/{disk.name}",
        "type": "physical",
        "model": disk.model,
        "serial": disk.serial,
        "id_path": disk.id_path,
        "size": disk.size,
        "block_size": 512,
        "available_size": storage.available(disk),
        "used_size": storage.used(disk),
        "used_for": storage.disk_use(disk),
        "tags": ["ssd"],
        "filesystem": None,
        "partition_table_type": "GPT" if disk.gpt else None,
        "partitions": [_partition(record, disk, part) for part in disk.partitions],
        "system_id": record.system_id,
        "resource_uri": f"{ROOT}/nodes/{record.system_id}/blockdevices/{disk.id}/",
    }


def _volume(record: Record, volume: Volume) -> dict[str, Any]:
    return {
        "id": volume.id,
        "name": "vgroot-lvroot",
        "path": "/dev/disk/by-dname/vgroot-lvroot",
        "type": "virtual",
        "model": None,
        "serial": None,
        "id_path": None,
        "size": volume.size,
        "block_size": 4096,
        "available_size": 0,
        "used_size": volume.size,
        "used_for": storage.describe_use(volume.filesystem),
        "tags": [],
        "filesystem": _filesystem(volume.filesystem),
        "partition_table_type": None,
        "partitions": [],
        "resource_uri": f"{ROOT}/nodes/{record.system_id}/blockdevices/{volume.id}/",
    }


def _parts(record: Record) -> dict[str, Any]:
    """What changes only when disks, interfaces or addresses do."""
    boot_nic, boot_disk = record.boot_nic, record.boot_disk
    disks = [block_device(record, disk) for disk in record.disks]
    volumes = [_volume(record, record.volume)] if record.volume else []
    brief = ("id", "name", "serial", "model", "size", "id_path")
    gateways = [link.subnet.gateway for nic in record.nics for link in nic.links if link.subnet]
    links = [link for nic in record.nics for link in nic.links]
    return {
        "boot_interface": interface(record, boot_nic) if boot_nic else None,
        "interface_set": [interface(record, nic) for nic in record.nics],
        "boot_disk": {key: block_device(record, boot_disk)[key] for key in brief} if boot_disk else None,
        "blockdevice_set": disks + volumes,
        "physicalblockdevice_set": disks,
        "virtualblockdevice_set": volumes,
        "volume_groups": [{"id": 1, "system_id": record.system_id, "__incomplete__": True}] if volumes else [],
        "default_gateways": {
            "ipv4": {"gateway_ip": gateways[0] if gateways else None, "link_id": None},
            "ipv6": {"gateway_ip": None, "link_id": None},
        },
        "storage": sum(disk.size for disk in record.disks) / 1_000_000,
        "ip_addresses": [link.address for link in links if link.address],
    } | _EMPTY


# Fields that a simulated machine never fills.
_EMPTY: dict[str, Any] = {
    "swap_size": None,
    "cpu_speed": 0,
    "cache_sets": [],
    "bcaches": [],
    "raids": [],
    "special_filesystems": [],
    "numanode_set": [],
    "parent": None,
    "pod": None,
    "virtualmachine_id": None,
    "address_ttl": None,
    "disable_ipv4": False,
    "last_sync": None,
    "next_sync": None,
    "sync_interval": None,
    "enable_kernel_crash_dump": False,
    "node_type": 0,
    "node_type_name": "Machine",
    "domain": DOMAIN,
}


def _counted(record: Record, kind: int) -> ScriptStatus:
    current = record.current.get(kind)
    return current.counted if current else ScriptStatus.UNKNOWN


def _set_id(record: Record, kind: int) -> int | None:
    current = record.current.get(kind)
    return current.id if current else None


def machine(region: Region, record: Record) -> str:
    """A machine, as JSON text."""
    if record.parts_json is None:
        record.parts_json = json.dumps(_parts(record))[1:]
    return f"{json.dumps(_head(region, record))[:-1]}, {record.parts_json}"


def machines(region: Region, records: list[Record]) -> str:
    """A list of machines, as JSON text."""
    return f"[{', '.join(machine(region, record) for record in records)}]"


def _head(region: Region, record: Record) -> dict[str, Any]:
    commissioning, testing = _counted(record, COMMISSIONING), _counted(record, TESTING)
    unknown = SCRIPT_NAMES[ScriptStatus.UNKNOWN]
    return {
        "system_id": record.system_id,
        "hostname": record.hostname,
        "fqdn": f"{record.hostname}.maas",
        "description": record.description,
        "hardware_uuid": record.hardware_uuid,
        "hardware_info": {"system_serial": record.serial or "Unknown"},
        "owner": record.owner,
        "owner_data": record.owner_data,
        "workload_annotations": record.owner_data,
        "locked": record.locked,
        "architecture": record.architecture,
        "min_hwe_kernel": record.min_hwe_kernel,
        "hwe_kernel": record.hwe_kernel,
        "cpu_count": record.cpu_count,
        "memory": record.memory_mb,
        "status": int(record.status),
        "status_name": NAMES[record.status],
        "status_message": record.status_message,
        "status_action": record.status_action,
        "error_description": record.error_description,
        "osystem": record.osystem,
        "distro_series": record.series,
        "ephemeral_deploy": record.ephemeral,
        "netboot": record.netboot,
        "power_type": record.power_type,
        "power_state": record.power_state,
        "tag_names": region.tags_of(record),
        "zone": zone(region.zones[record.zone]),
        "pool": pool(region.pools[record.pool]),
        "bios_boot_method": record.bios_boot_method,
        "current_commissioning_result_id": _set_id(record, COMMISSIONING),
        "current_testing_result_id": _set_id(record, TESTING),
        "current_installation_result_id": _set_id(record, INSTALLATION),
        "commissioning_status": int(commissioning),
        "commissioning_status_name": SCRIPT_NAMES[commissioning],
        "testing_status": int(testing),
        "testing_status_name": SCRIPT_NAMES[testing],
        "storage_test_status": int(testing),
        "storage_test_status_name": SCRIPT_NAMES[testing],
        "network_test_status": -1,
        "network_test_status_name": unknown,
        "other_test_status": -1,
        "other_test_status_name": unknown,
        "cpu_test_status": -1,
        "cpu_test_status_name": unknown,
        "memory_test_status": -1,
        "memory_test_status_name": unknown,
        "interface_test_status": -1,
        "interface_test_status_name": unknown,
        "enable_hw_sync": record.enable_hw_sync,
        "resource_uri": f"{ROOT}/machines/{record.system_id}/",
    }


def anonymous_machine(region: Region, record: Record) -> dict[str, Any]:
    """What a machine is told that enlists itself."""
    where = region.zones[record.zone]
    return {
        "domain": DOMAIN,
        "fqdn": f"{record.hostname}.maas",
        "architecture": record.architecture,
        "power_type": record.power_type,
        "status_name": NAMES[record.status],
        "status_message": record.status_message,
        "node_type": 0,
        "status": int(record.status),
        "hostname": record.hostname,
        "status_action": record.status_action,
        "system_id": record.system_id,
        "power_state": record.power_state,
        "zone": {"name": where.name, "description": where.description, "id": where.id},
        "resource_uri": f"{ROOT}/machines/{record.system_id}/",
    }


def boot_resource(number: int, series: str, kernel: str) -> dict[str, Any]:
    """A synced image."""
    return {
        "id": number,
        "type": "Synced",
        "name": f"ubuntu/{series}",
        "architecture": f"amd64/{kernel}",
        "resource_uri": f"{ROOT}/boot-resources/{number}/",
        "last_deployed": None,
        "platform": "generic",
        "subarches": "generic,hwe-p,ga-22.04,hwe-22.04,ga-24.04,hwe-24.04",
        "supported_platforms": "generic",
    }


def stamp(at: datetime | None) -> str | None:
    """A time in a result set."""
    return at.strftime("%a, %d %b %Y %H:%M:%S +0000") if at else None


def event_stamp(at: datetime) -> str:
    """A time in the event log: another form, with a dot after the month."""
    return at.strftime("%a, %d %b. %Y %H:%M:%S")


def set_name(item: ScriptSet) -> str:
    """The status name of a set; an empty one has a misleading name (measured)."""
    return SCRIPT_NAMES[item.status] if item.runs else SCRIPT_NAMES[ScriptStatus.FAILED_APPLYING_NETCONF]
