"""Storage layouts with MAAS's arithmetic. Bytes.

Source: exchanges M120-M184: six MiB go to a partition table, partitions are whole blocks of four MiB, and a volume
group keeps four MiB for itself. ``set_boot_disk`` moves no layout; a layout puts a GPT on the boot disk even when
``/`` goes elsewhere.
"""

from __future__ import annotations

from uuid import uuid4

from provision.sim.maas.region import Region
from provision.sim.maas.state import Disk, Filesystem, Partition, Record, Volume

MIB = 1 << 20
TABLE_BYTES = 6 * MIB
BLOCK_BYTES = 4 * MIB
EFI_BYTES = 512 * MIB
# In the order in which 3.6.3 lists them when it refuses another.
LAYOUTS = ("flat", "custom", "vmfs7", "bcache", "vmfs6", "blank", "lvm")


def usable(size: int) -> int:
    """What a drive of this size offers to partitions."""
    return (size - TABLE_BYTES) // BLOCK_BYTES * BLOCK_BYTES


def used(disk: Disk) -> int:
    """What of a drive is taken."""
    return sum(part.size for part in disk.partitions) + TABLE_BYTES if disk.gpt else 0


def available(disk: Disk) -> int:
    """What of a drive is free for a partition."""
    return usable(disk.size) - sum(part.size for part in disk.partitions)


def clear(record: Record) -> None:
    """No partitions, no volumes."""
    for disk in record.disks:
        disk.gpt, disk.partitions = False, []
    record.volume, record.layout = None, "blank"
    record.touch()


def lay_out(region: Region, record: Record, layout: str, root: Disk | None = None) -> None:
    """Apply ``flat``, ``lvm`` or ``blank``; ``/`` goes to ``root``, by default to the boot disk."""
    clear(record)
    boot = record.boot_disk
    if layout not in {"flat", "lvm"} or boot is None:
        return
    root = root or boot
    boot.gpt = root.gpt = True
    number = 1
    if record.bios_boot_method == "uefi":
        made = Filesystem("fat32", "/boot/efi", "efi", str(uuid4()))
        boot.partitions.append(Partition(region.next_id("partition"), number, EFI_BYTES, True, made))
    # On BIOS machines the first number belongs to the hidden bios_grub partition, so / is number 2 there too.
    number = 2 if root is boot or record.bios_boot_method != "uefi" else 1
    size = available(root)
    if layout == "lvm":
        physical = Filesystem("lvm-pv", None, None, str(uuid4()))
        root.partitions.append(Partition(region.next_id("partition"), number, size, False, physical))
        volume = Filesystem("ext4", "/", "root", str(uuid4()))
        record.volume = Volume(region.next_id("disk"), size - BLOCK_BYTES, volume)
    else:
        made = Filesystem("ext4", "/", "root", str(uuid4()))
        root.partitions.append(Partition(region.next_id("partition"), number, size, False, made))
    record.layout = layout
    record.touch()


def describe_use(filesystem: Filesystem | None) -> str:
    """MAAS's ``used_for`` of a partition or volume."""
    if filesystem is None:
        return "Unused"
    if filesystem.fstype == "lvm-pv":
        return "LVM volume for vgroot"
    if filesystem.mount_point:
        return f"{filesystem.fstype} formatted filesystem mounted at {filesystem.mount_point}"
    return f"Unmounted {filesystem.fstype} formatted filesystem"


def disk_use(disk: Disk) -> str:
    """MAAS's ``used_for`` of a drive, with its grammar."""
    if not disk.gpt:
        return "Unused"
    count = len(disk.partitions)
    return f"GPT partitioned with {count} partition{'s' if count > 1 else ''}"
