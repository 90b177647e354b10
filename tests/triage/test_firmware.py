"""Firmware against the profile: named for us, nobody sent, nothing blocked that the profile does not say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provision.model.decision import Done, Stuck
from provision.model.evidence import Evidence, Part, PartKind, Reading
from provision.model.finding import Finding
from provision.model.profile import FirmwareSpec, Goal
from provision.stages.preflight import Flight, decide
from provision.triage.judge import judge
from tests.triage.healthy import healthy
from tests.triage.makers import NODE, NOW, PROFILE


def _told(kind: PartKind, name: str, source: str, **values: str) -> Evidence:
    return Evidence(NODE.name, Part(kind, name, name), Reading.OK, source, NOW, values=values)


def _site(*versions: str) -> list[Evidence]:
    """A machine whose four network cards and BIOS tell their versions."""
    cards = [
        _told(PartKind.NIC, f"Slot {n}", "redfish/nics", model="ConnectX-7", firmware=version)
        for n, version in enumerate(versions, 31)
    ]
    host = [
        replace(item, values={**item.values, "bios_version": "2.1.0"})
        for item in healthy()
        if item.source == "redfish/host"
    ]
    host = host or [_told(PartKind.NODE, NODE.name, "redfish/host", bios_version="2.1.0")]
    return [*(item for item in healthy() if item.source != "redfish/host"), *host, *cards]


def _findings(evidence: list[Evidence], *wanted: FirmwareSpec) -> list[Finding]:
    verdict = judge(NODE, replace(PROFILE, firmware=wanted), evidence, (), NOW)
    return [finding for finding in verdict.findings if finding.category == "firmware"]


def test_as_wanted_gives_no_finding() -> None:
    wanted = (FirmwareSpec("nic", "28.40.1000", "connectx-7"), FirmwareSpec("bios", " 2.1.0 "))
    assert _findings(_site("28.40.1000", "28.40.1000"), *wanted) == []


def test_the_cards_that_differ_are_one_finding_for_us() -> None:
    (found,) = _findings(_site("28.40.1000", "28.36.1000", "28.36.1000"), FirmwareSpec("nic", "28.40.1000"))
    assert (found.rule, found.action, found.dispatch, found.hardware) == (
        "FIRMWARE-DIFFERS", "update_firmware", "never", False,
    )  # fmt: skip
    assert "Slot 32, Slot 33" in found.ask
    assert "runs 28.36.1000 and the profile wants 28.40.1000" in found.ask
    assert [item.source for item in found.evidence] == ["expect/firmware"]


@pytest.mark.parametrize(
    "wanted",
    [
        FirmwareSpec("nic", "28.40.1000", "BlueField"),
        FirmwareSpec("gpu-baseboard", "1.0"),
        FirmwareSpec("bmc", "7.10.30.00", "iDRAC9"),
    ],
    ids=lambda spec: spec.part,
)
def test_what_tells_no_version_is_not_judged(wanted: FirmwareSpec) -> None:
    assert _findings(_site("28.36.1000"), wanted) == []


@pytest.mark.parametrize("required", [False, True])
def test_a_bring_up_stops_only_where_the_profile_says_required(required: bool) -> None:
    wanted = FirmwareSpec("bios", "2.2.3", required=required)
    findings = _findings(_site(), wanted)
    assert [f.rule for f in findings] == ["FIRMWARE-REQUIRED" if required else "FIRMWARE-DIFFERS"]
    flight = Flight(None, 60.0, None, installed=False, findings=tuple(findings))
    decision = decide(Goal(PROFILE, 1), flight)
    if required:
        assert isinstance(decision, Stuck)
        assert decision.ours
        assert "must run 2.2.3 before it is brought up, and runs 2.1.0" in decision.why
    else:
        assert isinstance(decision, Done)
