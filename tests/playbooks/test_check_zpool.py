"""A pool that is not well: from what zpool prints to a ticket that names the bay."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from provision.model.finding import Action, Category
from provision.model.node import Node
from provision.model.profile import DiskRule, Profile
from provision.stages.accept import parse_checks
from provision.triage.judge import judge
from tests.playbooks.test_provision_check import Host, Report

pytestmark = pytest.mark.slow
GUID = "1234567890123456789"
KNOWN = [{"serial": f"S{n}", "bay": str(n)} for n in range(1, 5)]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Four drives, with names that carry the serial number, as most have."""
    host = Host(tmp_path)
    for n in range(1, 5):
        host.file(f"sys/block/nvme{n}n1/device/serial", f"S{n}")
        host.file(f"dev/nvme{n}n1p1", "")
    links = host.root / "dev/disk/by-id"
    links.mkdir(parents=True)
    for n in range(1, 5):
        (links / f"nvme-NV4_S{n}-part1").symlink_to(f"../../nvme{n}n1p1")
        (links / f"nvme-eui.000{n}-part1").symlink_to(f"../../nvme{n}n1p1")
    return host


def pool(host: Host, health: str, *leaves: str) -> None:
    """What ``zpool list`` and ``zpool status -P`` answer."""
    rows = "".join(f"\\t    {leaf}\\n" for leaf in leaves)
    status = (
        f"  pool: tank\\n state: {health}\\nconfig:\\n\\n\\tNAME  STATE  READ WRITE CKSUM\\n"
        f"\\ttank  {health}  0 0 0\\n\\t  raidz1-0  {health}  0 0 0\\n{rows}\\nerrors: No known data errors\\n"
    )
    text = f"case $1 in list) printf 'tank\\t{health}\\n' ;; *) printf '{status}' ;; esac\n"
    (host.bin / "zpool").write_text(f"#!/bin/sh\n{text}")
    (host.bin / "zpool").chmod(0o755)


def leaf(n: int, state: str = "ONLINE", *, name: str = "", more: str = "") -> str:
    return f"{name or f'/dev/disk/by-id/nvme-NV4_S{n}-part1'}  {state}  0 0 0  {more}"


def pull(host: Host, *numbers: int) -> None:
    for n in numbers:
        (host.root / f"sys/block/nvme{n}n1/device/serial").unlink()
        (host.root / f"dev/nvme{n}n1p1").unlink()


def look(host: Host, drives: list[dict[str, str]] = KNOWN) -> Report:
    return host.look("zpool", zpools=["tank"], drives=drives)


def tickets(report: Report, text: str) -> list[tuple[Category, str, Action, str]]:
    """What triage makes of it."""
    node = Node("gpu-1", "h100", "10.0.0.1", "rack-1")
    seen = parse_checks("gpu-1", text, datetime.now(UTC))
    assert len(seen) == len(report["checks"])
    found = judge(
        node, Profile("h100", image="ubuntu/noble", boot_disk=DiskRule()), seen, (), datetime.now(UTC)
    ).findings
    return [(each.category, each.part.locator, each.action, each.ask) for each in found]


def judged(host: Host, drives: list[dict[str, str]] = KNOWN) -> list[tuple[Category, str, Action, str]]:

    report = look(host, drives)
    return tickets(report, json.dumps(report))


def test_a_pulled_drive_is_reseated_in_its_bay(host: Host) -> None:
    """The place is printed as a number; its old name tells the serial number, and that the bay."""
    gone = leaf(3, "UNAVAIL", name=GUID, more="was /dev/disk/by-id/nvme-NV4_S3-part1")
    pool(host, "DEGRADED", leaf(1), leaf(2), gone, leaf(4))
    pull(host, 3)
    assert look(host)["noes"] == ["zpool: tank is DEGRADED", "zpool: tank: drive S3 in bay 3 is UNAVAIL"]
    ((category, locator, action, ask),) = judged(host)
    assert (category, locator, action) == (Category.NVME, "Bay 3", Action.RESEAT_DRIVE)
    assert "serial S3" in ask


def test_names_that_carry_no_serial_number_are_told_by_who_is_missing(host: Host) -> None:
    gone = leaf(3, "REMOVED", name=GUID, more="was /dev/disk/by-id/nvme-eui.0003-part1")
    pool(host, "DEGRADED", leaf(1), gone)
    (host.root / "dev/disk/by-id/nvme-eui.0003-part1").unlink()
    pull(host, 3)
    assert [each[1:3] for each in judged(host)] == [("Bay 3", Action.RESEAT_DRIVE)]
    # Two are missing and one place is known: it is one of two bays, not a guess.
    pull(host, 4)
    assert [each[1] for each in judged(host)] == ["Bay 3 or Bay 4"]


def test_a_drive_that_makes_errors_is_replaced(host: Host) -> None:
    """It is still there: the serial number comes from the kernel, whatever ZFS calls the drive."""
    bad = leaf(2, "FAULTED", name="/dev/disk/by-id/nvme-eui.0002-part1", more="too many errors")
    pool(host, "DEGRADED", leaf(1), bad)
    assert [each[:3] for each in judged(host)] == [(Category.NVME, "Bay 2", Action.REPLACE_DRIVE)]
    # Nobody wrote the bays down: the serial number is what is printed on the drive.
    assert [each[1] for each in judged(host, [])] == ["S2"]


def test_a_pool_that_is_well_or_was_changed_by_hand_sends_nobody(host: Host) -> None:
    pool(host, "ONLINE", leaf(1), leaf(2))
    assert (look(host)["noes"], judged(host)) == ([], [])
    pool(host, "DEGRADED", leaf(1), leaf(2, "OFFLINE"))
    assert look(host)["noes"][1] == "zpool: tank: drive S2 in bay 2 is OFFLINE"
    assert Action.REPLACE_DRIVE not in [each[2] for each in judged(host)]
