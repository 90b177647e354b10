"""Profiles as the inventory writes them: group var ``profiles``, a mapping from name to what a healthy node has."""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from provision.model.profile import BootMethod, DiskRule, FirmwareSpec, Image, PartSpec, Profile

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
_POWERS: dict[str, int] = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


class Strict(BaseModel):
    """Base of everything that people write: unknown keys are refused, nothing is converted silently."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def parse_size(value: object) -> int:
    """``400GB`` is 400·10⁹ bytes, ``400GiB`` 400·2³⁰, a whole number is bytes.

    Raises:
        ValueError: anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected a size such as 400GB or 3.84TB, found {value!r}")
    number, unit, binary = match.groups()
    return round(float(number) * math.pow(1024 if binary else 1000, _POWERS[unit.lower()]))


def _regular_expression(value: object) -> object:
    if isinstance(value, str):
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"expected a regular expression, found {value!r}: {error}") from None
    return value


Text = Annotated[str, Field(min_length=1, max_length=500)]
Size = Annotated[int, BeforeValidator(parse_size)]
Pattern = Annotated[Text, BeforeValidator(_regular_expression)]


class PartSchema(Strict):
    """Parts of one kind."""

    count: int = Field(ge=0, le=1024, description="how many a healthy node has")
    model: Text | None = None
    pcie_width: Literal[1, 2, 4, 8, 16, 32] | None = Field(None, description="lanes: 1, 2, 4, 8, 16 or 32")
    pcie_gen: int | None = Field(None, ge=1, le=8, description="PCIe generation, such as 5")
    min_size: Size | None = None

    def to_model(self) -> PartSpec:
        """The core's value."""
        return PartSpec(self.count, self.model, self.pcie_width, self.pcie_gen, self.min_size)


class DiskRuleSchema(Strict):
    """Which drive carries the operating system."""

    model: Text | None = None
    serial: Pattern | None = None
    min_size: Size | None = None
    max_size: Size | None = None
    bus: Text | None = None
    slot: Text | None = None

    def model_post_init(self, context: object, /) -> None:
        """A rule without a condition, or one that no size satisfies, is a mistake."""
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError(
                "expected at least one of model, serial, min_size, max_size, bus, slot: exactly one drive must match"
            )
        if self.min_size is not None and self.max_size is not None and self.min_size > self.max_size:
            raise ValueError("min_size is greater than max_size: no drive can match")

    def to_model(self) -> DiskRule:
        """The core's value."""
        return DiskRule(self.model, self.serial, self.min_size, self.max_size, self.bus, self.slot)


class ImageSchema(Strict):
    """The operating system."""

    series: Text = Field(description="MAAS's release name, such as jammy")
    kernel: Text | None = None
    layout: Literal["flat", "lvm", "bcache", "zfsroot", "vmfs7", "custom", "blank"] = "flat"
    ephemeral: bool = Field(False, description="run from memory and leave every drive alone")

    def to_model(self) -> Image:
        """The core's value."""
        return Image(self.series, self.kernel, self.layout, self.ephemeral)


class FirmwareSchema(Strict):
    """One version that is wanted."""

    part: Literal["bmc", "bios", "nic", "drive", "gpu", "gpu-baseboard"]
    version: Text = Field(description="the version as the BMC prints it, such as 7.10.30.00")
    model: Text | None = None
    required: bool = Field(False, description="true stops a bring-up at another version")


class ProfileSchema(Strict):
    """One profile. A part that is left out is not judged."""

    image: ImageSchema = Field(description="a mapping with series, and optionally kernel and layout")
    boot_disk: DiskRuleSchema = Field(description="a mapping with model, serial, min_size or max_size")
    boot_method: Literal["pxe", "uefi-http"] = "pxe"
    boot_nic: Text | None = None
    architecture: Text = "amd64/generic"
    gpus: PartSchema | None = None
    nics: PartSchema | None = None
    nvme: PartSchema | None = None
    psus: PartSchema | None = None
    dimms: PartSchema | None = None
    packages: dict[str, Text] = Field(default_factory=dict)
    firmware: tuple[FirmwareSchema, ...] = Field((), strict=False, description="a list of part, version and model")

    def to_model(self, name: str) -> Profile:
        """The core's value."""

        def part(schema: PartSchema | None) -> PartSpec | None:
            return schema.to_model() if schema is not None else None

        return Profile(
            name=name,
            image=self.image.to_model(),
            boot_disk=self.boot_disk.to_model(),
            boot_method=BootMethod(self.boot_method),
            boot_nic=self.boot_nic,
            architecture=self.architecture,
            gpus=part(self.gpus),
            nics=part(self.nics),
            nvme=part(self.nvme),
            psus=part(self.psus),
            dimms=part(self.dimms),
            packages=dict(self.packages),
            firmware=tuple(FirmwareSpec(one.part, one.version, one.model, one.required) for one in self.firmware),
        )
