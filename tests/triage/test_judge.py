"""Each fault of a machine gives the sentence a technician needs, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provision.model.evidence import Evidence
from provision.model.finding import Finding, Verdict
from provision.model.profile import PartSpec
from provision.triage.judge import judge
from provision.triage.scene import pdu_of
from tests.triage.healthy import changed, healthy, with_reading, without
from tests.triage.makers import NODE, NOW, PROFILE, ago, seen


def verdict(evidence: list[Evidence]) -> Verdict:
    return judge(NODE, PROFILE, evidence, (), NOW)


def one(evidence: list[Evidence]) -> Finding:
    found = verdict(evidence).findings
    assert len(found) == 1, [(f.rule, f.part.locator) for f in found]
    return found[0]


def brief(finding: Finding) -> tuple[str, str, str, str]:
    return finding.category.value, finding.part.locator, finding.action.value, finding.dispatch.value


def test_a_healthy_node_has_no_finding() -> None:
    assert verdict(healthy()).findings == ()


def test_an_unplugged_cable_names_both_ends() -> None:
    dark = with_reading(healthy(), "redfish/ports", "NIC.Slot.3-1-1", "down")
    finding = one(with_reading(dark, "redfish/lldp", "NIC.Slot.3-1-1", "fact", switch="No Link", port="No Link"))
    want = ("cabling_ethernet", "leaf-a1 port 7 ↔ Slot 3 Port 1, cable C-1042", "reseat_cable", "now")
    assert brief(finding) == want
    assert finding.peer_end == "leaf-a1 port 7"
    assert "C-1042" in finding.ask


def test_no_link_by_lldp_is_enough_where_the_port_says_nothing() -> None:
    quiet = with_reading(healthy(), "redfish/ports", "NIC.Slot.5-1-1", "unknown")
    finding = one(with_reading(quiet, "redfish/lldp", "NIC.Slot.5-1-1", "fact", switch="No Link", port="No Link"))
    assert finding.part.locator == "leaf-b1 port 7 ↔ Slot 5 Port 1, cable C-1043"


def test_a_port_outside_the_plan_may_be_dark() -> None:
    spare = seen("port", "NIC.Slot.3-2-1", "down", "redfish/ports", locator="Slot 3 Port 2")
    assert verdict([*healthy(), spare]).findings == ()


def test_dark_ports_of_a_machine_without_power_are_not_judged() -> None:
    off = changed(healthy(), lambda e: e.source == "redfish/host", lambda e: replace(e, values={"power": "off"}))
    for name in ("NIC.Slot.3-1-1", "NIC.Slot.5-1-1"):
        off = with_reading(off, "redfish/ports", name, "down")
    assert verdict([e for e in off if e.source != "redfish/lldp"]).findings == ()


def test_a_cable_in_the_wrong_port_names_the_wrong_and_the_right_one() -> None:
    finding = one(with_reading(healthy(), "redfish/lldp", "NIC.Slot.3-1-1", "fact", switch="leaf-a1", port="swp9"))
    assert brief(finding)[0::2] == ("cabling_ethernet", "recable_port")
    assert "leaf-a1 swp9" in finding.ask
    assert "leaf-a1 port 7" in finding.ask


@pytest.mark.parametrize("port", ["7", "port 7", "swp7", "Ethernet1/7", "Eth7"])
def test_spellings_of_one_port_are_one_port(port: str) -> None:
    heard = with_reading(healthy(), "redfish/lldp", "NIC.Slot.3-1-1", "fact", switch="LEAF-A1.example", port=port)
    assert verdict(heard).findings == ()


def test_a_switch_known_by_its_mac_is_compared_by_port() -> None:
    mac = "0c:42:a1:00:00:01"
    assert verdict(with_reading(healthy(), "redfish/lldp", "NIC.Slot.3-1-1", "fact", switch=mac)).findings == ()
    wrong = with_reading(healthy(), "redfish/lldp", "NIC.Slot.3-1-1", "fact", switch=mac, port="swp8")
    assert one(wrong).action.value == "recable_port"


def test_two_cables_of_one_node_in_each_others_place_are_one_ticket() -> None:
    swapped = with_reading(healthy(), "redfish/lldp", "NIC.Slot.3-1-1", "fact", switch="leaf-b1")
    finding = one(with_reading(swapped, "redfish/lldp", "NIC.Slot.5-1-1", "fact", switch="leaf-a1"))
    assert brief(finding) == ("cabling_ethernet", "Slot 3 Port 1 ↔ Slot 5 Port 1", "recable_port", "now")
    assert "leaf-a1 port 7" in finding.ask
    assert "leaf-b1 port 7" in finding.ask


def test_a_pulled_cord_is_the_feed_and_explains_what_hangs_on_it() -> None:
    pulled = with_reading(healthy(), "redfish/psus", "PSU.Slot.2", "no-input")
    logs = [
        seen("psu", "PSU.Slot.2", "event", "redfish/lclog", locator="PSU 2", code="PSU0003", at=ago(3)),
        seen("node", NODE.name, "event", "redfish/lclog", code="RDU0012", severity="critical", at=ago(3)),
    ]
    finding = one([*pulled, *logs])
    assert brief(finding) == ("psu", "PSU 2", "check_power_feed", "now")
    assert finding.peer_end == "pdu-12b/3"
    assert "pdu-12b/3" in finding.ask
    assert "PSU-REDUNDANCY-LOST" in finding.absorbed


def test_two_dark_supplies_of_one_pdu_are_one_ticket() -> None:
    pulled = with_reading(healthy(), "redfish/psus", "PSU.Slot.1", "no-input")
    finding = one(with_reading(pulled, "redfish/psus", "PSU.Slot.3", "no-input"))
    assert brief(finding)[:3] == ("psu", "PDU pdu-12a", "check_power_feed")


def test_a_dead_supply_is_replaced() -> None:
    assert brief(one(with_reading(healthy(), "redfish/psus", "PSU.Slot.1", "failed"))) == (
        *("psu", "PSU 1"),
        *("replace_psu", "now"),
    )


def test_a_supply_that_reads_well_beats_its_old_log_lines() -> None:
    old = seen("psu", "PSU.Slot.2", "event", "redfish/lclog", locator="PSU 2", code="PSU0003", severity="critical")
    assert verdict([*healthy(), old]).findings == ()


def test_a_later_clear_ends_an_entry() -> None:
    lost = seen("psu", "PSU.Slot.9", "event", "redfish/lclog", locator="PSU 9", code="PSU0003", at=ago(9))
    back = seen("psu", "PSU.Slot.9", "event", "redfish/lclog", locator="PSU 9", code="PSU0017", at=ago(2))
    assert one([*healthy(), lost]).category == "psu"
    assert verdict([*healthy(), lost, back]).findings == ()
    assert one([*healthy(), replace(lost, seen_at=ago(1)), back]).category == "psu"


def test_entries_from_before_the_power_on_are_history() -> None:
    host = lambda e: e.source == "redfish/host"  # noqa: E731
    booted = changed(
        healthy(), host, lambda e: replace(e, values={"power": "on", "powered_on_at": ago(10).isoformat()})
    )
    entry = seen("dimm", "DIMM.Socket.A1", "event", "redfish/lclog", locator="DIMM A1", code="MEM0001", at=ago(20))
    assert verdict([*booted, entry]).findings == ()
    assert one([*booted, replace(entry, seen_at=ago(5))]).category == "memory"


def test_a_missing_drive_names_the_empty_bay() -> None:
    finding = one(without(healthy(), "drive", "Disk.Bay.4"))
    assert brief(finding) == ("nvme", "Bay 4", "reseat_drive", "now")
    assert finding.escalate == "replace_drive"


def test_a_missing_drive_at_the_end_of_the_row() -> None:
    assert one(without(healthy(), "drive", "Disk.Bay.7")).part.locator == "Bay 7"
    empty = seen("drive", "Disk.Bay.7", "absent", "redfish/drives", locator="Bay 7")
    assert one([*without(healthy(), "drive", "Disk.Bay.7"), empty]).part.locator == "Bay 7"


def test_a_list_that_could_not_be_read_misses_nothing() -> None:
    blind = [e for e in healthy() if e.part.kind != "drive"]
    assert verdict(blind).findings == ()


def test_a_failing_drive_is_replaced() -> None:
    finding = one(with_reading(healthy(), "redfish/drives", "Disk.Bay.3", "failing"))
    assert brief(finding) == ("nvme", "Bay 3", "replace_drive", "now")


def test_a_narrow_link_is_named_by_its_slot() -> None:
    finding = one(with_reading(healthy(), "redfish/pcie", "GPU.8", "fact", width=8))
    assert brief(finding) == ("pcie_link", "Slot 38", "reseat_device", "now")


def test_a_slow_idle_link_is_no_fault() -> None:
    assert verdict(with_reading(healthy(), "redfish/pcie", "GPU.8", "fact", gen=1)).findings == ()


def test_a_design_is_no_fault() -> None:
    narrow = seen(
        *("pcie", "3-0", "fact", "redfish/pcie"),
        locator="BMC video",
        values={"width": 1, "max_width": 2, "device_class": "other"},
    )
    assert verdict([*healthy(), narrow]).findings == ()
    everywhere = changed(
        healthy(), lambda e: e.source == "redfish/pcie", lambda e: replace(e, values={**e.values, "width": 8})
    )
    assert not verdict(everywhere).blocking


def test_a_missing_gpu_and_a_missing_card() -> None:
    gpu = one(without(healthy(), "gpu", "GPU.3"))
    assert brief(gpu) == ("gpu", "GPU 3", "ac_power_cycle", "after_repeat")
    absent = seen("nic", "NIC.Slot.5", "absent", "redfish/nics", locator="Slot 5")
    card = [e for e in without(healthy(), "nic", "NIC.Slot.5") if e.part.name != "NIC.Slot.5-1-1"]
    assert brief(one([*card, absent]))[:2] == ("nic", "Slot 5")


def test_a_loose_riser_is_one_ticket() -> None:
    gone = [e for e in without(without(healthy(), "gpu", "GPU.3"), "nic", "NIC.Slot.5") if "Slot.5-" not in e.part.name]
    named = seen(
        *("pcie", "Riser.2", "event", "redfish/faults"), locator="Riser 2", code="HWC2011", severity="critical"
    )
    finding = one([*gone, named])
    assert brief(finding) == ("internal_cable", "Riser 2", "reseat_cable", "now")
    assert set(finding.absorbed) >= {"GPU-MISSING", "NIC-MISSING"}
    parts = [
        seen("gpu", "GPU.3", "absent", "redfish/gpus", locator="GPU 3", parent="Riser 2"),
        seen("nic", "NIC.Slot.5", "absent", "redfish/nics", locator="Slot 5", parent="Riser 2"),
    ]
    assert brief(one([*gone, *parts])) == ("internal_cable", "Riser 2", "reseat_cable", "now")


@pytest.mark.parametrize(
    ("reading", "want"), [("failed", ("replace_dimm", "now")), ("degraded", ("reboot", "after_repeat"))]
)
def test_dimms(reading: str, want: tuple[str, str]) -> None:
    finding = one(with_reading(healthy(), "redfish/dimms", "DIMM.Socket.A2", reading))
    assert (finding.action.value, finding.dispatch.value) == want
    assert finding.part.locator == "DIMM A2"


@pytest.mark.parametrize(
    ("values", "text", "want"),
    [
        ({"error": "unavailable"}, "no answer in 60 s", ("bmc", "after_repeat")),
        ({"error": "unavailable", "waited_s": 1200}, "no answer in 60 s", ("bmc", "now")),
        ({"error": "unavailable"}, "503, retry after 30 s", ("not_hardware", "never")),
        ({"error": "credential"}, "401", ("not_hardware", "never")),
        ({"error": "refused"}, "lockdown", ("not_hardware", "never")),
        ({"error": "garbled"}, "HTML", ("firmware", "never")),
    ],
)
def test_a_bmc_that_does_not_answer_well(values: dict[str, object], text: str, want: tuple[str, str]) -> None:
    reading = "down" if values["error"] == "unavailable" else "failed"
    answer = seen("bmc", "BMC", reading, "bmc/answer", locator="BMC port", values=values, text=text)
    finding = one([answer])
    assert (finding.category.value, finding.dispatch.value) == want


def test_a_bmc_that_stores_nothing_is_reset_remotely() -> None:
    finding = one(with_reading(healthy(), "bmc/boot", "boot override", "failed", asked="Pxe", read_back="None"))
    assert brief(finding)[0::2] == ("firmware", "reset_bmc")
    assert finding.dispatch == "never"


def test_failures_of_maas_send_nobody_and_name_the_reason() -> None:
    status = seen("boot", "MAAS", "fact", "maas/status", values={"status": "Failed deployment"})
    script = seen("software", "30-custom", "failed", "maas/results", values={"exit_status": 2, "run": "commissioning"})
    found = verdict([*healthy(), status, script]).findings
    assert {f.dispatch.value for f in found} == {"never"}
    assert any("30-custom" in f.ask for f in found)
    drive = with_reading(healthy(), "redfish/drives", "Disk.Bay.3", "failed")
    assert one([*drive, status, script]).category == "nvme"


@pytest.mark.parametrize(
    ("link", "want"),
    [
        ("down", ("cabling_ethernet", "reseat_cable", "now")),
        ("up", ("not_hardware", "fix_config", "never")),
        ("unknown", ("cabling_ethernet", "retry", "after_repeat")),
    ],
)
def test_no_contact_after_a_network_boot(link: str, want: tuple[str, str, str]) -> None:
    values = {"power": "on", "link": link, "waited_s": 900, "mac": "b8:3f:d2:00:00:03"}
    silent = seen("boot", "network boot", "down", "maas/contact", locator="Slot 3 Port 1", values=values)
    finding = one([*healthy(), silent])
    assert (finding.category.value, finding.action.value, finding.dispatch.value) == want
    if link != "up":
        assert finding.part.locator == "leaf-a1 port 7 ↔ Slot 3 Port 1, cable C-1042"


def test_a_dark_boot_port_is_one_ticket_from_both_sides() -> None:
    values = {"power": "on", "link": "down", "waited_s": 900}
    silent = seen("boot", "network boot", "down", "maas/contact", locator="Slot 3 Port 1", values=values)
    finding = one([*with_reading(healthy(), "redfish/ports", "NIC.Slot.3-1-1", "down"), silent])
    assert finding.confidence > 0.9


def test_a_clock_hours_off_is_ours() -> None:
    for offset in (7200.0, -7200.0):
        late = with_reading(healthy(), "clock/offset", "BMC clock", "fact", offset_s=offset)
        assert brief(one(late))[0::3] == ("not_hardware", "never")


def test_what_no_rule_explains_goes_to_the_operator_with_its_evidence() -> None:
    odd = seen("sensor", "Xyz", "failed", "redfish/gadgets", text="flux capacitor out of phase")
    finding = one([*healthy(), odd])
    assert brief(finding)[0] == "unknown"
    assert finding.dispatch == "never"
    assert finding.evidence == (odd,)
    assert "flux capacitor" in finding.ask


def test_evidence_of_other_nodes_is_not_judged() -> None:
    other = seen("psu", "PSU.Slot.1", "failed", "redfish/psus", node="gpu-12-04")
    assert verdict([*healthy(), other]).findings == ()


def test_sata_drives_do_not_stand_in_for_nvme() -> None:
    sata = seen("drive", "Disk.Direct.0", "ok", "redfish/drives", locator="Bay 20", values={"protocol": "SATA"})
    found = verdict([*without(healthy(), "drive", "Disk.Bay.4"), sata]).findings
    assert [f.part.locator for f in found] == ["Bay 4"]


def test_without_a_profile_siblings_judge_a_width() -> None:
    bare = replace(PROFILE, gpus=PartSpec(8))
    found = judge(NODE, bare, with_reading(healthy(), "redfish/pcie", "GPU.2", "fact", width=4), (), NOW).findings
    assert [(f.category.value, f.part.locator) for f in found] == [("pcie_link", "Slot 32")]


def test_a_clock_or_a_spare_supply_hides_no_failed_check() -> None:
    """Only what can be the cause of a consequence absorbs it."""
    check = seen("gpu", "3", "failed", "ssh/checks", locator="GPU 3", values={"check": "gpu-ecc"}, text="2 errors")
    late = with_reading(healthy(), "clock/offset", "BMC clock", "fact", offset_s=7200.0)
    assert {f.rule for f in verdict([*late, check]).findings} == {"CLOCK-OFF", "CHECK-DEVICE"}
    pulled = with_reading(healthy(), "redfish/psus", "PSU.Slot.2", "no-input")
    status = seen("boot", "MAAS", "fact", "maas/status", values={"status": "Failed deployment"})
    assert {f.rule for f in verdict([*pulled, status]).findings} == {"PSU-NO-INPUT", "MAAS-FAILED"}


def test_an_event_log_that_repeats_another_is_one_sign() -> None:
    """A SEL carries the Lclog's sentence under a raw number."""
    said = {"locator": "DIMM A2", "text": "Multi-bit errors on DIMM A2.", "severity": "critical"}
    coded = seen("dimm", "DIMM.Socket.A2", "event", "redfish/lclog", code="MEM0001", **said)
    raw = seen("dimm", "DIMMA2", "event", "redfish/sel", code="01011960", **said)
    assert one([*healthy(), coded, raw]).rule == "DIMM-LOG-MULTIBIT"


def test_a_missing_card_is_placed_by_the_cabling_plan_not_by_gaps_between_slots() -> None:
    card = [e for e in without(healthy(), "nic", "NIC.Slot.5") if e.part.name != "NIC.Slot.5-1-1"]
    assert brief(one(card))[:2] == ("nic", "Slot 5")


@pytest.mark.parametrize(
    ("feed", "pdu"),
    [
        ("pdu-12a/7", "pdu-12a"),
        ("pdu-12a:7", "pdu-12a"),
        ("pdu-12a-7", "pdu-12a"),
        ("pdu-12a outlet 7", "pdu-12a"),
        ("pdu-12", "pdu-12"),
    ],
)
def test_an_outlet_names_its_pdu(feed: str, pdu: str) -> None:
    assert pdu_of(feed) == pdu
