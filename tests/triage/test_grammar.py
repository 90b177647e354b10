"""Thing and state of lines of many vendors, and what the rules on kinds make of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from provision.model.evidence import PartKind, Severity
from provision.model.finding import Dispatch
from provision.model.node import Node
from provision.triage.grammar import said
from provision.triage.judge import judge
from provision.triage.paste import judge_text
from provision.triage.patterns import PatternError, compile_pattern
from tests.triage.healthy import healthy
from tests.triage.makers import PROFILE, seen

NODE = Node("gpu-12-03", "any", "127.0.0.1", "rack-12")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "thing", "state"),
    [
        ("Power supply 3 power lost.", "psu", "no_input"),
        ("PSU1 predictive failure", "psu", "predicted"),
        ("System power supplies are not redundant: degraded", "psu_redundancy", "failed"),
        ("Power Supply Redundancy Restored (Repaired)", "psu_redundancy", "clear"),
        ("FAN_MOD4_F1_RPM lower non-recoverable going low was asserted", "fan", "critical"),
        ("CPU2 temperature above critical threshold", "temp", "critical"),
        ("Temperature Inlet Temp | Upper Critical going low | Asserted", "temp", "clear"),
        ("Uncorrectable memory error, PROC 2 DIMM 4", "dimm", "uncorrectable"),
        ("Correctable ECC logging limit reached", "dimm", "limit"),
        ("Memory ECC correctable error", "dimm", "correctable"),
        ("A PCIe card is removed from slot 2", "pcie", "removed"),
        ("Drive Slot HDD6 | Drive Present | Deasserted", "drive", "absent"),
        ("The storage battery has failed.", "raid_battery", "failed"),
        ("System board CMOS battery failure detected", "battery", "failed"),
        ("Unable to set the attribute of the fan", "managed", "failed"),
        ("FQXSPPW2003I: it has returned", "psu", "info"),
        ("FQXSPPW0034M: Numeric sensor going low (lower critical) has asserted", "voltage", "critical"),
        ("SEL log area cleared", "system", "clear"),
        ("General Chassis Intrusion - Assertion", "intrusion", "failed"),
        ("Leakage detected, leak sensor critical", "leak", "failed"),
    ],
)
def test_reads_the_component_and_its_state(line: str, thing: str, state: str) -> None:
    """In any vendor's words."""
    assert said(line) == {"thing": thing, "state": state}


def test_a_label_tells_more_than_a_word() -> None:
    """A disk in a backplane is a disk; its temperature is a temperature."""
    assert said("Predictive failure reported for it in backplane 2", PartKind.DRIVE)["thing"] == "drive"
    assert said("temperature above the critical threshold in backplane 2", PartKind.DRIVE)["thing"] == "temp"


def test_prose_without_a_component_says_nothing() -> None:
    """No guess."""
    assert said("the moon is full tonight") == {}


def test_a_line_that_says_it_is_over_sends_nobody() -> None:
    """Whatever its other words are; the same line without that word sends somebody."""
    over = judge_text("Disk 11 predicted failure alarm cleared", "sel", NODE, NOW)
    assert all(finding.dispatch is Dispatch.NEVER for finding in over)
    (standing,) = judge_text("Disk 11 predicted failure alarm", "sel", NODE, NOW)
    assert (standing.dispatch, standing.part.locator) == (Dispatch.NOW, "Disk 11")


def test_what_came_back_later_is_over_and_what_went_later_stands() -> None:
    """The order of the lines decides."""
    lost, back = "PSU1 mains power lost", "PSU1 mains power restored"
    assert judge_text(f"{lost}\n{back}", "sel", NODE, NOW)[0].dispatch is Dispatch.NEVER
    assert judge_text(f"{back}\n{lost}", "sel", NODE, NOW)[0].dispatch is Dispatch.NOW


def test_a_foreign_log_entry_of_a_bmc_is_judged_by_its_kind() -> None:
    """A Redfish log whose ids no rule knows; where a sensor looked and found the part well, nobody goes."""
    sentence = "PowerSupply in location 9 reports that its mains input is missing"
    entry = seen("psu", "9", "event", "redfish/sel", locator="PSU 9", text=sentence)
    entry = replace(entry, code="FooPwrLost", severity=Severity.CRITICAL)
    verdict = judge(NODE, PROFILE, [*healthy(), entry], [], NOW)
    assert [(f.rule, f.part.locator) for f in verdict.findings] == [("KIND-PSU-NO-INPUT", "PSU 9")]
    well = seen("psu", "9", "ok", "redfish/psus", locator="PSU 9")
    assert judge(NODE, PROFILE, [*healthy(), entry, well], [], NOW).findings == ()
    noted = replace(entry, severity=Severity.INFO)
    assert judge(NODE, PROFILE, [*healthy(), noted], [], NOW).findings == ()


def test_a_turn_of_phrase_that_nobody_defined_is_named() -> None:
    """The loader says which are known."""
    assert compile_pattern("<<host_off>>").search("gpu-f02 is powered off for a board swap")
    with pytest.raises(PatternError, match="names <<moon>>; known are host_off, often"):
        compile_pattern("<<moon>>")
