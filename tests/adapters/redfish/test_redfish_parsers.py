"""The parsers alone: payloads of our own, each showing one oddity, and what must come out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from provision.adapters.redfish import parse_parts as parse
from provision.adapters.redfish.answers import Answer, bare_id, error_from, etags, retry_after_s
from provision.adapters.redfish.bios import network_device_enabled
from provision.adapters.redfish.parse_logs import Window, log_evidence
from provision.adapters.redfish.parse_power import psu_evidence, supplies_of
from provision.adapters.redfish.parts import Scribe
from provision.adapters.redfish.pinning import read_fingerprint
from provision.adapters.redfish.places import fqdd_label
from provision.adapters.redfish.quirks import ROWS, Quirks, ServiceFacts, choose, foreign_rows
from provision.adapters.redfish.values import mac, moment, number, objects, text
from provision.errors import MisconfiguredError, RefusedError, UnavailableError
from provision.model.evidence import Evidence, Severity
from provision.model.profile import BootMethod

PAYLOADS = Path(__file__).parents[2] / "payloads" / "redfish"
NOW = datetime(2026, 5, 1, 10, 0, tzinfo=UTC)
SCRIBE = Scribe("gpu-1", NOW)


def payload(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PAYLOADS / name).read_text())
    return found


def shown(found: list[Evidence]) -> list[tuple[str, str, str]]:
    return [(item.part.name, item.part.locator, str(item.reading)) for item in found]


def test_a_supply_without_input_is_told_from_a_broken_and_from_a_silent_one() -> None:
    found = list(psu_evidence(supplies_of(payload("power-lost-input.json")), SCRIBE))
    assert shown(found) == [
        ("PSU1", "PSU 1", "ok"),
        ("PSU2", "PSU 2", "no-input"),
        ("PSU3", "PSU 3", "no-input"),
        ("PSU4", "PSU 4", "failed"),
        ("PSU5", "PSU 5", "ok"),
        ("PSU6", "PSU 6", "absent"),
        ("PSU7", "PSU 7", "unknown"),
        ("PSU8", "PSU 8", "no-input"),
    ]
    assert found[0].values == {"input_volts": 220, "model": "MAKER-1", "serial": "S1"}
    assert found[6].values == {"input_volts": 230}
    assert found[1].severity is Severity.CRITICAL


def test_a_filler_in_a_bay_is_no_supply() -> None:
    found = list(psu_evidence(supplies_of(payload("power-fillers.json")), SCRIBE))
    assert shown(found) == [("PSU1", "PSU 1", "ok"), ("PSU2", "PSU 2", "absent")]


def test_drives() -> None:
    found = list(parse.drive_evidence(payload("drives.json")["Drives"], SCRIBE))
    assert shown(found) == [
        ("Disk.Bay.4:Enclosure.Internal.0-1", "Bay 4", "ok"),
        ("DA00001C", "Slot=3:Port=1:Box=3:Bay=1", "failing"),
        ("Drive.M.2_Bay_0", "M.2 - Drive0", "ok"),
        ("Disk.Bay.5", "Bay 5", "failed"),
        ("Disk.Bay.6", "Bay 6", "absent"),
        ("Disk.Bay.7", "Bay 7", "unknown"),
    ]
    assert (found[0].values["width"], found[0].values["max_width"]) == (2, 4)
    assert found[0].values["life_left_percent"] == 97
    assert "size_bytes" not in found[5].values


def test_a_sensor_that_shouts_while_its_part_is_absent_is_not_believed() -> None:
    fans, temperatures = parse.thermal_parts(payload("thermal.json"))
    assert shown(list(parse.fan_evidence(fans, SCRIBE))) == [("Fan 1", "Fan 1", "ok"), ("Fan 2", "Fan 2", "failed")]
    assert shown(list(parse.temperature_evidence(temperatures, SCRIBE))) == [
        ("Inlet", "Inlet", "ok"),
        ("NIC", "NIC", "degraded"),
    ]


def _window(floor: datetime | None = datetime(2026, 5, 1, 8, 0, tzinfo=UTC)) -> Window:
    return Window("gpu-1", NOW, floor, 0.0)


def test_a_log_of_tags_pairs_what_was_lost_with_what_came_back() -> None:
    found = list(log_evidence(payload("log-supermicro.json")["Members"], "redfish/sel", _window()))
    assert [(e.code, e.part.locator, str(e.severity), e.cleared) for e in found] == [
        ("PWR-0001", "PSU 1", "critical", False),
        ("PWR-0003", "PSU 1", "critical", False),
        ("PWR-0003", "PSU 1", "info", True),
    ]


def test_ids_and_parts_of_the_other_makers() -> None:
    entries = objects(payload("log-others.json"), "Members")
    found = list(log_evidence(entries, "redfish/iml", _window(None)))
    assert [(e.code, str(e.part.kind), e.part.locator, e.cleared) for e in found] == [
        ("11/82", "node", "gpu-1", False),
        ("FQXSPPW2008I", "node", "gpu-1", False),
        ("ResourceErrorsDetected", "gpu", "GPU 3", True),
        ("MEM0001", "dimm", "DIMM A4", False),
        ("PSU0017", "psu", "PSU 2", True),
        ("PDR1001", "drive", "Bay 4", False),
        ("PDR1016", "drive", "Bay 3", False),
        ("UEFI0031", "pcie", "Slot 38", False),
        ("0111c92d", "psu", "PSU 4", False),
    ]


@pytest.mark.parametrize(
    ("fqdd", "label"),
    [
        ("NIC.Slot.3-1-1", "Slot 3 Port 1"),
        ("NIC.Slot.3-2-1", "Slot 3 Port 2"),
        ("NIC.Slot.3-1", "Slot 3 Port 1"),
        ("NIC.Slot.3-1-2", "Slot 3 Port 1 Partition 2"),
        ("NIC.Integrated.1-2-1", "Integrated NIC 1 Port 2"),
        ("NIC.Embedded.2-1-1", "Embedded NIC 1 Port 2"),
        ("NIC.Mezzanine.1A-1-1", "Mezzanine 1A Port 1"),
        ("InfiniBand.Slot.38-1", "Slot 38 Port 1"),
        ("NIC.Slot.3", "Slot 3"),
        ("EthernetInterface0", ""),
    ],
)
def test_dell_names_as_printed(fqdd: str, label: str) -> None:
    assert fqdd_label(fqdd) == label


ROOTS = [
    ("dell-idrac9", {"Vendor": "Dell"}, {"Oem": {"Dell": {"DellSystem": {"SystemGeneration": "16G Monolithic"}}}}),
    ("dell-idrac9", {"Vendor": "Dell"}, {}),
    ("dell-idrac8", {"Oem": {"Dell": {}}}, {"Oem": {"Dell": {"DellSystem": {"SystemGeneration": "13G Monolithic"}}}}),
    ("dell-idrac10", {"Vendor": "Dell"}, {"Oem": {"Dell": {"DellSystem": {"SystemGeneration": "17G Monolithic"}}}}),
    ("hpe-ilo5", {"Vendor": "HPE", "Oem": {"Hpe": {"Manager": [{"ManagerType": "iLO 5"}]}}}, {}),
    ("hpe-ilo6", {"Vendor": "HPE", "Oem": {"Hpe": {"Manager": [{"ManagerType": "iLO 6"}]}}}, {}),
    ("supermicro", {"Oem": {"Supermicro": {}}}, {"Manufacturer": "Supermicro"}),
    ("lenovo-xcc", {"Vendor": "Lenovo"}, {}),
    ("ami", {"Vendor": "AMI"}, {"Manufacturer": "ASRockRack"}),
    ("nvidia-dgx", {"Vendor": "AMI"}, {"Manufacturer": "NVIDIA", "Model": "DGXH100"}),
    ("openbmc", {"Vendor": "OpenBMC"}, {}),
    ("nvidia-openbmc", {"Vendor": "NVIDIA"}, {"Manufacturer": "NVIDIA", "Model": "GB200 NVL"}),
    ("generic", {"Vendor": "Contoso"}, {"Manufacturer": "Contoso"}),
    ("generic", {"Vendor": ["odd"], "Oem": "odd"}, {"Manufacturer": 7, "Oem": None}),
]


@pytest.mark.parametrize(("family", "root", "system"), ROOTS, ids=[f"{row[0]}-{n}" for n, row in enumerate(ROOTS)])
def test_rows_are_chosen_by_what_the_service_says(family: str, root: Any, system: Any) -> None:
    assert choose(ServiceFacts.of(root, system)).family == family


def test_every_row_has_its_own_name_and_other_packages_come_first() -> None:
    assert len({row.family for row in ROWS}) == len(ROWS)
    assert foreign_rows() == ()
    mine = Quirks(family="mine", makers=("dell",))
    assert choose(ServiceFacts(vendor="dell"), (mine,)) is mine
    assert choose(ServiceFacts(vendor="hpe"), (mine,)).family == "hpe-ilo5"


@pytest.mark.parametrize(
    ("raw", "ids"),
    [
        ("IDRAC.2.9.PSU0003", ("IDRAC", "PSU0003")),
        ("Base.1.12.GeneralError", ("Base", "GeneralError")),
        ("iLOEvents.3.7.PowerSupplyACPowerLoss", ("iLOEvents", "PowerSupplyACPowerLoss")),
        ("Ami.1.0.0.Something", ("Ami", "Something")),
        ("6f0fd0ff", ("", "6f0fd0ff")),
        ("0xF3FFFF", ("", "0xF3FFFF")),
    ],
)
def test_registry_versions_are_stripped(raw: str, ids: tuple[str, str]) -> None:
    assert bare_id(raw) == ids


def _answer(status: int, body: Any = None, **headers: str) -> Answer:
    return Answer("GET", "/x", status, headers, b"" if body is None else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, RefusedError) for status in (301, 400, 404, 405, 409, 412, 501)),
        *((status, UnavailableError) for status in (408, 429, 500, 502, 503, 504)),
    ],
)
def test_status_decides_what_the_caller_does_next(status: int, kind: type) -> None:
    found = error_from(_answer(status), "BMC x", 0)
    assert type(found) is kind
    assert found.code == str(status)


def test_the_vendor_s_id_is_the_code_and_a_busy_id_means_later_whatever_the_status() -> None:
    info = [{"MessageId": "Base.1.12.GeneralError"}, {"MessageId": "IDRAC.2.9.SYS518", "Message": "busy"}]
    found = error_from(_answer(400, {"error": {"code": "x", "@Message.ExtendedInfo": info}}), "BMC x", 0)
    assert isinstance(found, UnavailableError)
    assert (found.code, "busy" in str(found)) == ("SYS518", True)


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ("30", 30),
        ("0", 0),
        ("-5", 0),
        ("99999", 3600),
        ("soon", None),
        ("nan", None),
        ("", None),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 50),
    ],
)
def test_retry_after(raw: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": raw}, 10) == seconds


@pytest.mark.parametrize(
    ("header", "tags"),
    [
        ('"a"', ('"a"',)),
        ('W/"a"', ('W/"a"', '"a"')),
        ('"a", "a"', ('"a"',)),
        ("123", ("123", '"123"')),
        ('""', ()),
        ("", ()),
    ],
)
def test_tags(header: str, tags: tuple[str, ...]) -> None:
    assert etags(_answer(200, {}, etag=header)) == tags


def test_a_tag_in_the_body_does_where_the_header_is_missing() -> None:
    assert etags(_answer(200, {"@odata.etag": 'W/"7"'})) == ('W/"7"', '"7"')


BIOS = [
    ({"PxeDev1EnDis": "Disabled", "HttpDev1EnDis": "Enabled", "HttpDev1Interface": "NIC.Slot.5-1"}, False, True),
    ({"PxeDev2EnDis": "Enabled", "PxeDev2Interface": "NIC.Slot.5-1", "PxeDev1EnDis": "Disabled"}, True, False),
    ({"NetworkStack": "Enabled", "Ipv4Pxe": "Enabled", "Ipv4Http": "Disabled"}, True, False),
    (
        {"NetworkStack_00F3": "Enabled", "IPv4PXESupport_00F4": "Enabled", "IPv4HTTPSupport_00F5": "Disabled"},
        True,
        False,
    ),
    ({"NetworkStack": "Disabled", "Ipv4Pxe": "Enabled"}, False, False),
    ({"BootMode": "Uefi"}, None, None),
]


@pytest.mark.parametrize(("bios", "pxe", "http"), BIOS)
def test_what_bios_says_of_network_boot(bios: Any, pxe: bool | None, http: bool | None) -> None:
    assert network_device_enabled(bios, BootMethod.PXE) is pxe
    assert network_device_enabled(bios, BootMethod.UEFI_HTTP) is http


@pytest.mark.parametrize(
    "raw", ["88e9:a4ff:ff87:42c8", "00:00:00:00:00:00", "01:00:5e:00:00:01", "", None, 7, "ff" * 6]
)
def test_what_is_no_mac(raw: Any) -> None:
    assert mac(raw) is None


def test_odd_json_is_read_or_left_alone() -> None:
    assert number({"a": "230 V"}, "a") == 230
    assert number({"a": True}, "a") is None
    assert number({"a": [1]}, "a") is None
    assert number({"a": 1e400}, "a") is None
    assert text({"a": "N/A"}, "a") is None
    assert text({"a": 7}, "a") == "7"
    assert text({"a": {"b": "c"}}, "a") is None
    assert moment("2026-05-01T10:00:00") == NOW
    assert moment("0000-00-00T00:00:00Z") is None
    assert moment(5) is None


def test_fingerprints_in_any_spelling() -> None:
    digits = "ab" * 32
    for spelled in (digits, digits.upper(), ":".join(["AB"] * 32), f"sha256:{digits}", f"SHA256 {digits}"):
        assert read_fingerprint(spelled, "host x") == digits
    with pytest.raises(MisconfiguredError):
        read_fingerprint("ab" * 31, "host x")
