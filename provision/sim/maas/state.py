"""What the simulated region remembers: machines, their disks, NICs, results and events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from provision.model.machine import Status
from provision.sim.maas.statuses import ScriptStatus, combined


@dataclass(slots=True)
class User:
    """Someone with an API key ``consumer:token:secret``."""

    name: str
    email: str
    admin: bool


@dataclass(slots=True)
class Named:
    """A zone or a pool."""

    id: int
    name: str
    description: str = ""


@dataclass(slots=True)
class Tag:
    """A tag and the machines (system ids) that carry it."""

    name: str
    comment: str = ""
    definition: str = ""
    kernel_opts: str = ""
    members: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Subnet:
    """A subnet with its VLAN (one each: the simulated site is flat)."""

    id: int
    name: str
    cidr: str
    gateway: str | None
    vlan_id: int
    fabric_id: int


@dataclass(slots=True)
class Link:
    """How an interface is configured: ``auto``, ``dhcp``, ``static`` or ``link_up``."""

    id: int
    mode: str
    subnet: Subnet | None = None
    address: str | None = None


@dataclass(slots=True)
class Nic:
    """An interface. ``vlan`` is (vlan id, fabric id, fabric name)."""

    id: int
    name: str
    mac: str
    vlan: tuple[int, int, str] | None = None
    links: list[Link] = field(default_factory=list)
    connected: bool = True


@dataclass(slots=True)
class Filesystem:
    """What a partition or volume is formatted with."""

    fstype: str
    mount_point: str | None
    label: str | None
    uuid: str


@dataclass(slots=True)
class Partition:
    """A partition; ``number`` is the one in its device name. Bytes."""

    id: int
    number: int
    size: int
    bootable: bool
    filesystem: Filesystem | None


@dataclass(slots=True)
class Disk:
    """A physical drive. ``id`` and ``serial`` persist, ``name`` is of the newest boot. Bytes."""

    id: int
    name: str
    serial: str
    model: str
    size: int
    gpt: bool = False
    partitions: list[Partition] = field(default_factory=list)

    @property
    def id_path(self) -> str:
        return f"/dev/disk/by-id/nvme-{self.serial}"


@dataclass(slots=True)
class Volume:
    """The logical volume of an lvm layout."""

    id: int
    size: int
    filesystem: Filesystem


@dataclass(slots=True)
class ScriptRun:
    """One script's result. Outputs are bytes as the script wrote them."""

    id: int
    name: str
    script_id: int | None
    created: datetime
    updated: datetime
    status: ScriptStatus = ScriptStatus.PENDING
    exit_status: int | None = None
    started: datetime | None = None
    ended: datetime | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    output: bytes = b""


# Result types of MAAS, by number, with the word used in ``current-<word>`` and ``type=<word>``.
COMMISSIONING, INSTALLATION, TESTING, RELEASE = 0, 1, 2, 3
TYPE_WORDS = {COMMISSIONING: "commissioning", INSTALLATION: "installation", TESTING: "testing", RELEASE: "release"}


@dataclass(slots=True)
class ScriptSet:
    """One run of scripts."""

    id: int
    type: int
    runs: list[ScriptRun] = field(default_factory=list)
    last_ping: datetime | None = None

    @property
    def status(self) -> ScriptStatus:
        return combined([run.status for run in self.runs])

    @property
    def counted(self) -> ScriptStatus:
        """As the machine shows it: aborted results do not count (measured on 3.6.3)."""
        return combined([run.status for run in self.runs if run.status is not ScriptStatus.ABORTED])


@dataclass(slots=True)
class Event:
    """A line of a machine's log. ``status`` lines become the machine's ``status_message``."""

    id: int
    at: datetime
    level: str
    type: str
    description: str
    user: str = "unknown"
    action: str = ""


@dataclass(slots=True)
class Record:
    """One machine as the region knows it."""

    system_id: str
    hostname: str
    architecture: str
    created: datetime
    status: Status = Status.NEW
    status_since: float = 0.0
    previous_status: Status = Status.NEW
    description: str = ""
    hardware_uuid: str | None = None
    owner: str | None = None
    owner_data: dict[str, str] = field(default_factory=dict)
    locked: bool = False
    min_hwe_kernel: str = ""
    hwe_kernel: str | None = None
    cpu_count: int = 0
    memory_mb: int = 0
    status_message: str | None = None
    status_action: str | None = None
    error_description: str = ""
    osystem: str = ""
    series: str = ""
    ephemeral: bool = False
    netboot: bool = True
    power_type: str = ""
    power_parameters: dict[str, str] = field(default_factory=dict)
    power_state: str = "unknown"
    nics: list[Nic] = field(default_factory=list)
    boot_nic: Nic | None = None
    zone: str = "default"
    pool: str = "default"
    disks: list[Disk] = field(default_factory=list)
    boot_disk_id: int | None = None
    volume: Volume | None = None
    layout: str = "blank"
    bios_boot_method: str | None = None
    sets: list[ScriptSet] = field(default_factory=list)
    current: dict[int, ScriptSet] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    user_data: str | None = None
    enable_hw_sync: bool = False
    skip_networking: bool = False
    skip_storage: bool = False
    serial: str = ""
    # What render.py made of disks and interfaces; None after a change (a list of 512 machines must be quick).
    parts_json: str | None = None

    @property
    def boot_disk(self) -> Disk | None:
        """The chosen boot disk, else the first created one of at least 512 MiB (MAAS's own rule)."""
        chosen = next((disk for disk in self.disks if disk.id == self.boot_disk_id), None)
        fitting = (disk for disk in sorted(self.disks, key=lambda disk: disk.id) if disk.size >= 512 << 20)
        return chosen or next(fitting, None)

    def touch(self) -> None:
        """Disks or interfaces changed."""
        self.parts_json = None

    @property
    def root_disk(self) -> Disk | None:
        """The drive that holds ``/``, directly or under a logical volume."""
        for disk in self.disks:
            for part in disk.partitions:
                made = part.filesystem
                if made is not None and (made.mount_point == "/" or made.fstype == "lvm-pv"):
                    return disk
        return None

    def disk(self, disk_id: int) -> Disk | None:
        """A drive by MAAS's number."""
        return next((disk for disk in self.disks if disk.id == disk_id), None)
