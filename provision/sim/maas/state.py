"""What the simulated region remembers: machines, their disks, NICs, results and events."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from random import Random
from typing import Protocol

from provision.model.machine import Status
from provision.sim.maas.statuses import ScriptStatus, combined


class Clock(Protocol):
    """Where the region takes its time from: the world's clock."""

    speed: float

    def now(self) -> datetime:
        """Wall clock of the simulated world, UTC, aware."""

    def seconds(self) -> float:
        """Simulated seconds since the world began; never jumps."""

    async def sleep(self, sim_seconds: float) -> None:
        """Wait for simulated seconds."""


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


_ADJECTIVES = ("ruling", "civil", "sacred", "brave", "loving", "polite", "subtle", "mighty", "steady", "vocal")
_ANIMALS = ("leech", "mule", "oryx", "heron", "gecko", "marmot", "raven", "tapir", "wombat", "civet")
_ID_LETTERS = "abcdefghkmnpqrstwxy34678"


class Region:
    """The whole database, with indexes so that a lookup by id or MAC costs nothing at 512 machines."""

    def __init__(self, clock: Clock, seed: int = 0) -> None:
        self.clock = clock
        self.random = Random(seed)
        self.machines: dict[str, Record] = {}
        self.by_mac: dict[str, Record] = {}
        self.zones: dict[str, Named] = {"default": Named(1, "default")}
        self.pools: dict[str, Named] = {"default": Named(0, "default", "Default pool")}
        self.tags: dict[str, Tag] = {}
        self.users: dict[str, User] = {"admin": User("admin", "a@b.c", admin=True)}
        self.subnets: list[Subnet] = [Subnet(1, "prov", "10.12.0.0/16", "10.12.0.1", 5001, 1)]
        self.config: dict[str, object] = {
            "node_timeout": 30,
            "default_distro_series": "noble",
            "default_osystem": "ubuntu",
            "default_storage_layout": "flat",
            "commissioning_distro_series": "noble",
            "default_min_hwe_kernel": "",
            "enable_disk_erasing_on_release": False,
            "ntp_servers": "",
            "maas_name": "sim",
            "http_proxy": "",
        }
        self.series: dict[str, str] = {"jammy": "ga-22.04", "noble": "ga-24.04"}
        self.custom_scripts: dict[str, int] = {}
        self.racks: list[str] = []
        self._ids = {name: count(start) for name, start in _FIRST_IDS.items()}

    def next_id(self, kind: str) -> int:
        """The next number of one of MAAS's tables."""
        return next(self._ids[kind])

    def now(self) -> datetime:
        """Simulated wall clock."""
        return self.clock.now()

    def enter(self, record: Record, status: Status) -> None:
        """Change a machine's status and remember since when (simulated seconds)."""
        record.status, record.status_since = status, self.clock.seconds()

    def add(self, hostname: str | None, architecture: str, macs: list[str]) -> Record:
        """A machine in status New with one interface per MAC, boot interface first."""
        system_id = self._fresh_id()
        record = Record(system_id, hostname or self._fresh_name(), architecture, self.now())
        record.status_since = self.clock.seconds()
        for mac in macs:
            self.add_nic(record, f"eth{len(record.nics)}", mac)
        record.boot_nic = record.nics[0] if record.nics else None
        self.machines[system_id] = record
        return record

    def add_nic(self, record: Record, name: str, mac: str) -> Nic:
        """One interface more."""
        nic = Nic(self.next_id("interface"), name, mac)
        record.nics.append(nic)
        record.touch()
        self.by_mac[mac] = record
        return nic

    def drop(self, record: Record) -> None:
        """Forget a machine; its MACs are free again."""
        del self.machines[record.system_id]
        for nic in record.nics:
            self.by_mac.pop(nic.mac, None)
        for tag in self.tags.values():
            tag.members.discard(record.system_id)

    def named(self, hostname: str) -> Record | None:
        """The machine of this hostname."""
        return next((record for record in self.machines.values() if record.hostname == hostname), None)

    def tags_of(self, record: Record) -> list[str]:
        """Names of the tags on a machine."""
        return [tag.name for tag in self.tags.values() if record.system_id in tag.members]

    def log(
        self,
        record: Record,
        kind: str,
        description: str = "",
        *,
        level: str = "INFO",
        user: str = "unknown",
        action: str = "",
        is_status: bool = True,
    ) -> None:
        """Write an event; a status-like one is also the machine's status_message."""
        record.events.append(
            Event(self.next_id("event"), self.now(), level, kind, description, user=user, action=action)
        )
        if is_status:
            record.status_message = f"{kind} - {description}" if description else kind
            record.status_action = action

    def all_events(self) -> Iterator[tuple[Record, Event]]:
        """Every event of every machine."""
        for record in self.machines.values():
            for event in record.events:
                yield record, event

    def _fresh_id(self) -> str:
        while (candidate := "".join(self.random.choices(_ID_LETTERS, k=6))) in self.machines:
            continue
        return candidate

    def _fresh_name(self) -> str:
        while True:
            name = f"{self.random.choice(_ADJECTIVES)}-{self.random.choice(_ANIMALS)}"
            if self.named(name):
                name = f"{name}-{self.random.randrange(1000)}"
            if not self.named(name):
                return name


_FIRST_IDS = {
    "interface": 1,
    "disk": 1,
    "partition": 1,
    "link": 1,
    "result": 1,
    "set": 1,
    "event": 1,
    "zone": 2,
    "pool": 1,
    "volume_group": 1,
    "subnet": 2,
}


def new_api_key() -> str:
    """A key in MAAS's form, ``consumer:token:secret``."""
    return f"{secrets.token_hex(9)}:{secrets.token_hex(9)}:{secrets.token_hex(16)}"
