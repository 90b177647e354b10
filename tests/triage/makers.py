"""Small makers of evidence and nodes, and the reading of a rule's examples."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity
from provision.model.node import Cable, Node
from provision.model.profile import DiskRule, Image, PartSpec, Profile
from provision.triage.rules import Example, Match, Rule
from provision.triage.text import read

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


def example(raw: Example, rule: Rule) -> tuple[Evidence, ...]:
    """What an example of a rule stands for: text is read as its first source's kind, a mapping is one reading."""
    if isinstance(raw, str):
        return read(raw, _kind(rule.match), NODE.name, NOW)
    if isinstance(raw, Mapping):
        return (_from_mapping(raw, rule.match),)
    return tuple(item for part in raw for item in example(part, rule))


def _kind(match: Match) -> str:
    word = match.source[0].rsplit("/", 1)[-1] if match.source else "log"
    return "log" if word == "*" else word


def _from_mapping(raw: Mapping[str, Any], match: Match) -> Evidence:
    first = match.source[0] if match.source else "text/log"
    source = str(raw.get("source", first if "/" in first else f"redfish/{first}"))
    name = str(raw.get("name", NODE.name))
    reading = raw.get("reading", match.reading[0].value if match.reading else "event")
    return seen(
        str(raw.get("kind", "node")),
        name,
        str(reading),
        source.replace("*", "log"),
        locator=str(raw.get("locator", name)),
        parent=raw.get("parent"),
        text=str(raw.get("text", "")),
        code=raw.get("code"),
        severity=raw.get("severity", "info"),
        values=raw.get("values", {}),
    )
