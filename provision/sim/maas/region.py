"""The region's whole database, and where it takes its time from."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from random import Random
from typing import Protocol

from provision.model.machine import Status
from provision.sim.maas.state import Event, Named, Nic, Record, Subnet, Tag, User


class Clock(Protocol):
    """Where the region takes its time from: the world's clock."""

    speed: float

    def now(self) -> datetime:
        """Wall clock of the simulated world, UTC, aware."""

    def seconds(self) -> float:
        """Simulated seconds since the world began; never jumps."""

    async def sleep(self, sim_seconds: float) -> None:
        """Wait for simulated seconds."""


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
        # Images that are still being imported: percent done by series.
        self.importing: dict[str, float] = {}
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

    def events_of(self, system_ids: set[str]) -> Iterator[tuple[Record, Event]]:
        """Every event of these machines, or of all if none are named."""
        named = [self.machines[key] for key in system_ids if key in self.machines]
        for record in named if system_ids else self.machines.values():
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
