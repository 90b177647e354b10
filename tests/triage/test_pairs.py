"""Two faults of one node at once: both first causes are named, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from provision.model.evidence import Evidence, Part, PartKind, Reading
from provision.triage.judge import judge
from tests.triage.repairs import PROFILE, START, evidence_of, node_of

NODE = node_of(7)
# Fault → (its place, category, printed place, first action) as a person would write them.
WRITTEN = {
    "cord": (2, "psu", "PSU 2", "check_power_feed"),
    "psu": (3, "psu", "PSU 3", "replace_psu"),
    "drive": (5, "nvme", "Bay 5", "replace_drive"),
    "drive_gone": (4, "nvme", "Bay 4", "reseat_drive"),
    "gpu_gone": (7, "gpu", "GPU 7", "ac_power_cycle"),
    "cable": (1, "cabling_ethernet", "leaf-a port 7 ↔ Slot 3 Port 1, cable C-7a", "reseat_cable"),
    "swap": (1, "cabling_ethernet", "Slot 3 Port 1 ↔ Slot 3 Port 2", "recable_port"),
    "fan": (0, "thermal", "Fan 3A", "replace_fan"),
    "dimm": (0, "memory", "DIMM A3", "replace_dimm"),
    "width": (0, "pcie_link", "Slot 38", "reseat_device"),
}
# A dark port hears no neighbour: of its swap with the other only the other end is seen.
TOGETHER = {("cable", "swap")}


def seen(*faults: str) -> tuple[Evidence, ...]:
    broken = {name: WRITTEN[name][0] for name in faults}
    return (*evidence_of(NODE, broken, START), *_more(broken))


def _more(broken: dict[str, int]) -> Iterator[Evidence]:
    def one(kind: PartKind, name: str, place: str, reading: Reading, source: str, **values: int | str) -> Evidence:
        return Evidence(NODE.name, Part(kind, name, place), reading, f"redfish/{source}", START, values=values)

    bad = Reading.FAILED
    yield one(PartKind.FAN, "Fan.3A", "Fan 3A", bad if "fan" in broken else Reading.OK, "fans")
    yield one(PartKind.DIMM, "DIMM.A3", "DIMM A3", bad if "dimm" in broken else Reading.OK, "dimms")
    for slot in range(31, 39):
        width = 4 if slot == 38 and "width" in broken else 16
        figures: dict[str, int | str] = {"width": width, "max_width": 16, "device_class": "gpu"}
        yield one(PartKind.PCIE, f"Slot.{slot}", f"Slot {slot}", Reading.FACT, "pcie", **figures)


def found(*faults: str) -> set[tuple[str, str, str]]:
    verdict = judge(NODE, PROFILE, seen(*faults), (), START)
    return {(f.category.value, f.part.locator, f.action.value) for f in verdict.findings}


def _ours(name: str) -> tuple[str, str, str]:
    return WRITTEN[name][1:]


@pytest.mark.parametrize("name", WRITTEN)
def test_one_fault(name: str) -> None:
    """Each alone."""
    assert found(name) == {_ours(name)}


@pytest.mark.parametrize("pair", [p for p in combinations(WRITTEN, 2) if p not in TOGETHER], ids="+".join)
def test_two_faults(pair: tuple[str, str]) -> None:
    """Forty-four pairs: each its own first cause, none hides the other, nothing is made up."""
    assert found(*pair) == {_ours(name) for name in pair}


def test_a_healthy_node_has_nothing() -> None:
    """No fault, no finding."""
    assert found() == set()
