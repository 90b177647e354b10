"""Firmware that the profile wants against what the parts say: one reading for each wish. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity, Value
from provision.model.node import Node
from provision.model.profile import FirmwareSpec, Profile

_TELLS = {"redfish/nics": "nic", "redfish/drives": "drive", "redfish/gpus": "gpu"}
_SHOWN = {
    "bmc": "BMC firmware",
    "bios": "BIOS",
    "nic": "NIC firmware",
    "drive": "drive firmware",
    "gpu": "GPU firmware",
}
_MOST_PLACES = 8


def against_profile(node: Node, profile: Profile, evidence: Sequence[Evidence], now: datetime) -> Iterator[Evidence]:
    """``expect/firmware``: DEGRADED where a part runs another version, OK where all that tell theirs run it.

    ``values``: ``wanted``, ``found``, ``places``, ``required``. A part that tells no version is not judged.
    """
    for spec in profile.firmware:
        told = [(place, version) for part, place, model, version in _versions(evidence) if spec.means(part, model)]
        if not told:
            continue
        other = [(place, version) for place, version in told if not spec.agrees(version)]
        yield _reading(node, spec, other, now)


def _versions(evidence: Sequence[Evidence]) -> Iterator[tuple[str, str, str | None, str]]:
    """Part, printed place, model and version of all that tell one."""
    for item in evidence:
        if item.source == "redfish/host":
            for part, key in (("bmc", "bmc_firmware"), ("bios", "bios_version")):
                if isinstance(version := item.values.get(key), str):
                    yield part, _SHOWN[part], None, version
        elif item.source in _TELLS and item.reading is not Reading.ABSENT:
            version, model = item.values.get("firmware"), item.values.get("model")
            if isinstance(version, str):
                yield _TELLS[item.source], item.part.locator, model if isinstance(model, str) else None, version


def _reading(node: Node, spec: FirmwareSpec, other: Sequence[tuple[str, str]], now: datetime) -> Evidence:
    shown = _SHOWN.get(spec.part, spec.part)
    name = f"{shown} {spec.model}" if spec.model else shown
    places = list(dict.fromkeys(place for place, _ in other))
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    found = ", ".join(dict.fromkeys(version for _, version in other))
    where = ", ".join(places[:_MOST_PLACES]) + more
    values: dict[str, Value] = {"wanted": spec.version, "required": spec.required}
    if other:
        values |= {"found": found, "places": where}
    return Evidence(
        node=node.name,
        part=Part(PartKind.SOFTWARE, f"firmware {spec.part} {spec.model or ''}".strip(), name),
        reading=Reading.DEGRADED if other else Reading.OK,
        source="expect/firmware",
        seen_at=now,
        text=f"{where}: {found}, wanted {spec.version}" if other else "",
        severity=Severity.WARNING if other else Severity.INFO,
        values=values,
    )
