"""Machines that the recording does not show, and bodies that nobody should send."""

from __future__ import annotations

import copy
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from provision.adapters.maas import parse
from provision.adapters.maas.answers import Answer, data_of, error_of, http_date
from provision.errors import GarbledError, PeerError, UnavailableError
from provision.model.machine import Receipt, Status

PAYLOADS = Path(__file__).parents[2] / "payloads" / "maas"


@pytest.fixture
def body() -> dict[str, Any]:
    found = json.loads((PAYLOADS / "uefi-lvm-on-raid.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_the_root_is_followed_through_volume_group_and_raid(body: dict[str, Any]) -> None:
    machine = parse.machine(body)
    assert machine.root_disk_ids == (31, 32)
    assert [one.id for one in machine.disks] == [31, 32, 33, 34]
    assert [one.facts.size_bytes for one in machine.disks] == [480036519936, 480036519936, 0, 7681501126656]
    assert (machine.disks[2].facts.serial, machine.disks[2].facts.model, machine.disks[1].id_path) == ("", "", None)


def test_an_efi_partition_elsewhere_is_seen(body: dict[str, Any]) -> None:
    body["blockdevice_set"][3]["partitions"] = [{"filesystem": {"mount_point": "/boot/efi"}}]
    assert set(parse.machine(body).root_disk_ids) == {31, 32, 34}


def test_devices_that_serve_one_another_in_a_ring_end(body: dict[str, Any]) -> None:
    ring = [
        {
            "id": 1,
            "name": "md0",
            "type": "virtual",
            "used_for": "LVM volume for vg",
            "filesystem": {"mount_point": "/"},
        },
        {"id": 2, "name": "vg-a", "type": "virtual", "used_for": "Active raid-1 device for md0"},
    ]
    body["blockdevice_set"] = ring
    assert parse.machine(body).root_disk_ids == ()


def test_ports_and_addresses_come_boot_port_first_and_once(body: dict[str, Any]) -> None:
    machine = parse.machine(body)
    assert [mac.text for mac in machine.macs] == ["b0:7b:25:00:03:02", "b0:7b:25:00:03:01"]
    assert machine.boot_mac == machine.macs[0]
    assert machine.addresses == ("10.1.0.9", "10.2.0.9", "10.3.0.9")


def test_the_rest_of_a_machine(body: dict[str, Any]) -> None:
    machine = parse.machine(body)
    assert machine.receipt == Receipt(12, "noble/hwe-24.04")
    assert (machine.series, machine.kernel, machine.locked, machine.owner) == ("noble", "hwe-24.04", True, "robot")
    assert machine.hardware_uuid == "4c4c4544-0044-3510-8053-b7c04f484a33"
    assert (machine.zone, machine.pool, machine.tags) == ("hall-a", "gpu", ("h100", "rack-12"))


@pytest.mark.parametrize("epoch", ["", "-1", "1.5", "two", "9" * 30, 3, None, "²"])
def test_a_receipt_that_cannot_be_read_is_none(body: dict[str, Any], epoch: object) -> None:
    body["owner_data"]["provision_epoch"] = epoch
    assert parse.machine(body).receipt is None


def test_a_status_of_a_later_maas(body: dict[str, Any]) -> None:
    body["status"] = 99
    assert parse.machine(body).status is Status.UNRECOGNISED


def test_no_shape_of_body_makes_more_than_a_value_error(body: dict[str, Any]) -> None:
    """Eight hundred bodies with one or several values exchanged for something else."""
    draw = random.Random(4)
    odd: list[Any] = [None, True, -1, 1e300, "", "x", "2026", [], [None], {}, {"id": None}, [[1]], "²", 2**70]
    read = 0
    for _ in range(800):
        spoiled = copy.deepcopy(body)
        for _ in range(draw.randint(1, 4)):
            _spoil(spoiled, draw, odd)
        with suppress(ValueError):
            parse.machine(spoiled)
            read += 1
    assert read > 400
    for one in odd:
        for reader in (parse.machine, parse.events, parse.results):
            with suppress(ValueError):
                reader(one)


def _spoil(value: Any, draw: random.Random, odd: list[Any]) -> None:
    while True:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = draw.choice(keys)
        if isinstance(value[key], dict | list) and value[key] and draw.random() < 0.7:
            value = value[key]
            continue
        value[key] = draw.choice(odd)
        return


@pytest.mark.parametrize("raw", ["", "x", "²", "Thu, 99 Foo 2026", "Sun, 29 Nov 2026 17:59:35 +9999999999", "0"])
def test_odd_dates_and_pauses_are_none(raw: str) -> None:
    assert http_date(raw) is None
    headers = {"Retry-After": raw, "Date": "Sun, 29 Nov 2026 17:59:35 GMT"}
    assert Answer(503, "text/plain", b"", headers).retry_after_s in {None, 0.0}


def test_a_retry_after_may_be_a_date() -> None:
    headers = {"Retry-After": "Sun, 29 Nov 2026 18:00:05 GMT", "Date": "Sun, 29 Nov 2026 17:59:35 GMT"}
    assert Answer(503, "text/plain", b"", headers).retry_after_s == 30


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b"[NaN]", b"[Infinity]", b"[" * 100_000])
def test_json_that_is_none(content: bytes) -> None:
    answer = Answer(200, "application/json", content, {})
    with pytest.raises(GarbledError) as caught:
        data_of("MAAS", "list", answer, write=False)
    assert len(caught.value.payload) <= 200
    with pytest.raises(UnavailableError):
        data_of("MAAS", "create", answer, write=True)


@pytest.mark.parametrize("status", [*range(300, 600, 7), 999, 199])
def test_every_status_is_a_sentence(status: int) -> None:
    for content in (b"", b"<html><body>x", b"\xff" * 1000, b"two\nlines", b'{"a": {"b": 1}}', b'"text"', b"[]"):
        for kind in ("", "text/html", "text/plain", "application/json"):
            error = error_of("MAAS", "deploy", Answer(status, kind, content, {}), write=True)
            assert isinstance(error, PeerError)
            assert "\n" not in str(error)
            assert "html" not in str(error)
            assert 20 < len(str(error)) < 800


def test_the_newest_run_is_the_one_with_the_highest_number() -> None:
    """MAAS asks its database for no order: a set that was written to may stand behind a younger one."""

    def run(number: int, status: str) -> dict[str, Any]:
        script = {"name": "50-x", "status_name": status, "exit_status": 0}
        return {"id": number, "type_name": "Commissioning", "results": [script]}

    for sets in ([run(7, "Passed"), run(12, "Running")], [run(12, "Running"), run(7, "Passed")]):
        assert [one.status for one in parse.results(sets)] == ["running"]


def test_power_settings_that_nobody_can_check_are_no_fault_of_theirs() -> None:
    def said(words: str) -> str:
        content = json.dumps({"power_type": [words]}).encode()
        return str(error_of("MAAS", "create", Answer(400, "application/json", content, {}), write=True))

    assert "connect a rack controller" in said("No rack controllers are connected, unable to validate.")
    assert "correct bmc_address and BMC login" in said("Select a valid choice.")
