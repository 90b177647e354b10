"""What a healthy node of one kind has, and what it is to become."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class BootMethod(StrEnum):
    """How a node boots from the network. Some models cannot PXE (PowerEdge XE9680 in NVIDIA's own driver)."""

    PXE = "pxe"
    UEFI_HTTP = "uefi-http"


@dataclass(frozen=True, slots=True)
class PartSpec:
    """How many parts of one kind a healthy node has, and what each must look like.

    ``model`` is a substring of the model as the BMC prints it, compared without case; ``pcie_width`` is lanes
    (16), ``pcie_gen`` the PCIe generation (5); None means "not judged".
    """

    count: int
    model: str | None = None
    pcie_width: int | None = None
    pcie_gen: int | None = None
    min_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """What is known of one drive, from whoever was asked. ``serial`` and ``model`` are as printed.

    ``bus`` is ``nvme``, ``sata``, ``sas`` or what else was said; ``slot`` the place as the BMC prints it (``Bay 4``).
    """

    serial: str
    model: str
    size_bytes: int
    bus: str | None = None
    slot: str | None = None


@dataclass(frozen=True, slots=True)
class DiskRule:
    """Which drive carries the operating system. Exactly one drive must match, or nothing is installed.

    ``model`` is a substring without case, ``serial`` a regular expression over the whole serial number, sizes
    are bytes and inclusive; ``bus`` and ``slot`` are compared whole, without case.
    """

    model: str | None = None
    serial: str | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    bus: str | None = None
    slot: str | None = None

    def matches(self, disk: DiskFacts) -> bool:
        """True if this drive satisfies every part of the rule that is set."""
        return (
            (self.model is None or self.model.lower() in disk.model.lower())
            and (self.serial is None or re.fullmatch(self.serial, disk.serial) is not None)
            and (self.min_bytes is None or disk.size_bytes >= self.min_bytes)
            and (self.max_bytes is None or disk.size_bytes <= self.max_bytes)
            and (self.bus is None or self.bus.lower() == (disk.bus or "").lower())
            and (self.slot is None or self.slot.lower() == (disk.slot or "").lower())
        )

    def __str__(self) -> str:
        parts = []
        if self.model is not None:
            parts.append(f"model contains {self.model!r}")
        if self.serial is not None:
            parts.append(f"serial matches {self.serial!r}")
        if self.min_bytes is not None:
            parts.append(f"at least {self.min_bytes} bytes")
        if self.max_bytes is not None:
            parts.append(f"at most {self.max_bytes} bytes")
        if self.bus is not None:
            parts.append(f"on the {self.bus} bus")
        if self.slot is not None:
            parts.append(f"in {self.slot!r}")
        return " and ".join(parts) or "any drive"


@dataclass(frozen=True, slots=True)
class Image:
    """The operating system: MAAS release name (``jammy``) and kernel (``ga-22.04``), None for the default.

    ``ephemeral``: it runs from memory and touches no drive; ``layout`` and the boot-disk rule mean nothing then.
    """

    series: str
    kernel: str | None = None
    layout: str = "flat"
    ephemeral: bool = False

    def __str__(self) -> str:
        name = self.series if self.kernel is None else f"{self.series}/{self.kernel}"
        return f"{name} in memory" if self.ephemeral else name


@dataclass(frozen=True, slots=True)
class FirmwareSpec:
    """The version that a kind of part is to run, compared whole and without case.

    ``part`` is bmc, bios, nic, drive, gpu or gpu-baseboard; ``model`` a substring of the model without case, None for
    every model. ``required``: a bring-up stops at another version instead of naming it only.
    """

    part: str
    version: str
    model: str | None = None
    required: bool = False

    def means(self, part: str, model: str | None) -> bool:
        """True if this wish is about such a part."""
        return part == self.part and (self.model is None or self.model.lower() in (model or "").lower())

    def agrees(self, version: str) -> bool:
        """True if this is the version."""
        return version.strip().lower() == self.version.strip().lower()


@dataclass(frozen=True, slots=True)
class Profile:
    """What a healthy node of this kind has. A part that is None is not judged.

    ``psus``, ``gpus``, ``nics`` (cards or ports as the BMC lists ports), ``nvme`` (data drives and boot drives
    together), ``dimms``. ``packages`` are version pins handed to the playbooks.
    """

    name: str
    image: Image
    boot_disk: DiskRule
    boot_method: BootMethod = BootMethod.PXE
    boot_nic: str | None = None
    architecture: str = "amd64/generic"
    gpus: PartSpec | None = None
    nics: PartSpec | None = None
    nvme: PartSpec | None = None
    psus: PartSpec | None = None
    dimms: PartSpec | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    firmware: tuple[FirmwareSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Goal:
    """What one node is to become. ``image_epoch`` counts the wishes to erase it; bring-up never raises it.

    ``erase_data``: a release that this run may send wipes every drive, not only the operating system's.
    """

    profile: Profile
    image_epoch: int
    erase_data: bool = False
