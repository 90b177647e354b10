"""Small makers of evidence and nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity
from provision.model.node import Cable, Node
from provision.model.profile import DiskRule, Image, PartSpec, Profile

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NODE = Node(
    name="gpu-12-03",
    profile="h100-8gpu",
    bmc_address="127.0.0.1",
    rack="rack-12",
    unit=9,
    site="fra1",
    asset_tag="A-1203",
    power_feeds=("pdu-12a/3", "pdu-12b/3", "pdu-12a/4", "pdu-12b/4"),
    cabling=(
        Cable("Slot 3 Port 1", "leaf-a1", "7", "C-1042"),
        Cable("NIC.Slot.5-1-1", "leaf-b1", "7", "C-1043"),
    ),
)
PROFILE = Profile(
    name="h100-8gpu",
    image=Image("jammy"),
    boot_disk=DiskRule(model="BOSS"),
    gpus=PartSpec(8, pcie_width=16, pcie_gen=5),
    nics=PartSpec(2, pcie_width=16),
    nvme=PartSpec(8, pcie_width=4),
    psus=PartSpec(4),
    dimms=PartSpec(4),
)


def seen(
    kind: str,
    name: str,
    reading: str,
    source: str,
    *,
    locator: str = "",
    parent: str | None = None,
    node: str = NODE.name,
    at: datetime = NOW,
    **rest: Any,
) -> Evidence:
    """One reading."""
    part = Part(PartKind(kind), name, locator or name, parent)
    severity = Severity(rest.pop("severity", "info"))
    return Evidence(node, part, Reading(reading), source, at, severity=severity, **rest)


def ago(minutes: float) -> datetime:
    """So many minutes before NOW."""
    return NOW - timedelta(minutes=minutes)
