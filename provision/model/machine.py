"""What MAAS says of a machine, and what may be asked of MAAS."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from provision.model.node import MacAddress
from provision.model.profile import DiskFacts
from provision.model.secret import Credential, Secret
from provision.model.site import PowerBy


class Status(IntEnum):
    """MAAS's NodeStatus. Numbers as measured on 3.6.3 (facts: status table)."""

    NEW = 0
    COMMISSIONING = 1
    FAILED_COMMISSIONING = 2
    MISSING = 3
    READY = 4
    RESERVED = 5
    DEPLOYED = 6
    RETIRED = 7
    BROKEN = 8
    DEPLOYING = 9
    ALLOCATED = 10
    FAILED_DEPLOYMENT = 11
    RELEASING = 12
    FAILED_RELEASING = 13
    DISK_ERASING = 14
    FAILED_DISK_ERASING = 15
    RESCUE_MODE = 16
    ENTERING_RESCUE_MODE = 17
    FAILED_ENTERING_RESCUE_MODE = 18
    EXITING_RESCUE_MODE = 19
    FAILED_EXITING_RESCUE_MODE = 20
    TESTING = 21
    FAILED_TESTING = 22
    UNRECOGNISED = -1

    @property
    def label(self) -> str:
        """As MAAS writes it: ``Failed commissioning``."""
        return self.name.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What ``provision`` wrote beside a deployment: which wish it answers."""

    epoch: int
    image: str


@dataclass(frozen=True, slots=True)
class MaasDisk:
    """A block device as MAAS lists it. ``id`` is MAAS's number; ``name`` (nvme0n1) changes from boot to boot."""

    id: int
    name: str
    facts: DiskFacts
    id_path: str | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of MAAS.

    ``error_description`` outlives its cause and ``status_message`` is the last event, not the state (measured on
    3.6.3): never judge by them without the status. ``boot_disk_id`` is MAAS's choice; ``root_disk_ids`` are the
    drives on which ``/`` and the EFI partition lie by the layout, ``layout`` what carries ``/`` there: ``flat``,
    ``lvm``, ``other``, or empty where nothing does.
    """

    system_id: str
    hostname: str
    status: Status
    macs: tuple[MacAddress, ...]
    boot_mac: MacAddress | None = None
    status_message: str = ""
    error_description: str = ""
    power_state: str = "unknown"
    power_type: str = ""
    owner: str | None = None
    locked: bool = False
    series: str = ""
    kernel: str = ""
    receipt: Receipt | None = None
    disks: tuple[MaasDisk, ...] = ()
    boot_disk_id: int | None = None
    root_disk_ids: tuple[int, ...] = ()
    addresses: tuple[str, ...] = ()
    hardware_uuid: str | None = None
    architecture: str = ""
    zone: str = ""
    pool: str = ""
    tags: tuple[str, ...] = ()
    layout: str = ""
    fqdn: str = ""

    def is_named(self, name: str) -> bool:
        """True for a node's name, short or with its domain: MAAS keeps the two apart."""
        return name.casefold() in {self.hostname.casefold(), self.fqdn.casefold()}


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """What MAAS is to know of a machine. ``macs`` start with the network-boot port's.

    With ``power_by`` MAAS the power type is redfish, with bare ``bmc_address`` (``host`` or ``host:port``) and
    ``credential``; otherwise manual. ``node_id`` names the host among the BMC's systems; empty: the first one.
    """

    hostname: str
    architecture: str
    macs: tuple[MacAddress, ...]
    power_by: PowerBy
    bmc_address: str
    credential: Credential | None
    zone: str | None = None
    pool: str | None = None
    tags: tuple[str, ...] = ()
    node_id: str = ""


@dataclass(frozen=True, slots=True)
class DeploySpec:
    """``user_data`` is cloud-init text and holds the host's private SSH key: a secret.

    ``ephemeral`` boots the image into memory and leaves every drive alone.
    """

    series: str
    kernel: str | None
    user_data: Secret
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """One script of a commissioning, testing or installation run. ``status`` is MAAS's word, lower case."""

    name: str
    run: str
    status: str
    exit_status: int | None
    output_tail: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MaasEvent:
    """One line of a machine's event log in MAAS."""

    at: datetime
    level: str
    type: str
    description: str
