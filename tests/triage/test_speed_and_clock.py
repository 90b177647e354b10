"""PCIe speed under the right power state, and the clock by what the site tolerates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provision.model.evidence import Evidence, Value
from provision.model.profile import PartSpec, Profile
from provision.triage.judge import judge
from tests.triage.makers import NODE, NOW, PROFILE, seen

NICS = replace(PROFILE, nics=PartSpec(4, pcie_gen=5), gpus=None, nvme=None, psus=None, dimms=None)


def links(kind: str, gens: list[int], *, power: str = "on", **values: Value) -> list[Evidence]:
    def one(number: int, gen: int) -> Evidence:
        figures = {"gen": gen, "max_gen": 5, "width": 16, "model": "M", "device_class": kind, **values}
        name = f"Slot {number}"
        return seen("pcie", name, "fact", "redfish/pcie", locator=name, values=figures)

    host = seen("node", NODE.name, "fact", "redfish/host", locator=NODE.name, values={"power": power})
    return [host, *(one(31 + n, gen) for n, gen in enumerate(gens))]


def rules(evidence: list[Evidence], profile: Profile = NICS) -> set[tuple[str, str, str]]:
    return {(f.rule, f.part.locator, f.dispatch.value) for f in judge(NODE, profile, evidence, (), NOW).findings}


def test_one_card_slower_than_profile_and_siblings() -> None:
    """The remote step first: a link that trained badly may train well at the next start."""
    assert rules(links("nic", [5, 5, 3, 5])) == {("SPEED-REDUCED", "Slot 33", "after_repeat")}


def test_without_a_profile_the_siblings_decide() -> None:
    bare = replace(NICS, nics=None)
    assert rules(links("nic", [5, 5, 3, 5]), bare) == {("SPEED-REDUCED", "Slot 33", "after_repeat")}
    assert rules(links("nic", [3, 3, 3, 3]), bare) == set()
    assert rules(links("nic", [5, 3]), bare) == set(), "one sibling proves nothing"


@pytest.mark.parametrize("power", ["off", "unknown", "turning-on"])
def test_what_a_host_without_power_showed_is_old(power: str) -> None:
    assert rules(links("nic", [5, 5, 3, 5], power=power)) == set()


def test_an_idle_gpu_is_not_slow_and_one_under_load_is() -> None:
    gpus = replace(NICS, nics=None, gpus=PartSpec(4, pcie_gen=5))
    idle, loaded = links("gpu", [5, 5, 1, 5]), links("gpu", [5, 5, 1, 5], load=True)
    assert not any(rule.startswith("SPEED") for rule, _, _ in rules(idle, gpus))
    assert ("SPEED-REDUCED", "Slot 33", "after_repeat") in rules(loaded, gpus)


def test_a_card_that_can_do_no_more_and_a_setting_for_all_send_nobody() -> None:
    assert rules(links("nic", [4, 4, 4, 4], max_gen=4)) == set()
    assert {(rule, dispatch) for rule, _, dispatch in rules(links("nic", [4, 4, 4, 4]))} == {
        ("SPEED-ALL-ALIKE", "never")
    }


@pytest.mark.parametrize(
    ("offset", "limit", "off"), [(90.0, 60.0, True), (90.0, 300.0, False), (-301.0, 300.0, True), (5.0, 2.0, True)]
)
def test_the_clock_by_what_the_site_tolerates(offset: float, limit: float, off: bool) -> None:
    values = {"offset_s": offset, "limit_s": limit}
    said = seen("clock", "BMC clock", "fact", "clock/offset", locator="BMC clock", values=values)
    assert rules([said]) == ({("CLOCK-OFF", "BMC clock", "never")} if off else set())


def test_a_minute_where_nobody_says() -> None:
    for offset, off in ((59.0, False), (61.0, True)):
        said = seen("clock", "BMC clock", "fact", "clock/offset", locator="BMC clock", values={"offset_s": offset})
        assert bool(rules([said])) is off
