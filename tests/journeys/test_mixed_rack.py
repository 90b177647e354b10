"""One rack as it is after the crew has left: eight machines, seven different things wrong at once."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.conftest import Site, Start

FAULTS = {
    "gpu-12-02": "cable_wrong_port",
    "gpu-12-03": "psu_cord_out:2",
    "gpu-12-04": "nvme_missing:4",
    "gpu-12-05": "pcie_width:38",
    "gpu-12-06": "dimm_errors:A3",
    "gpu-12-07": "clock_off:3",
    "gpu-12-08": "deploy_fails_once",
}
# node → category, what the locator must hold, action
TICKETS = {
    "gpu-12-02": ("cabling_ethernet", "Slot 35 Port 1", "recable_port"),
    "gpu-12-03": ("psu", "PSU 2", "check_power_feed"),
    "gpu-12-04": ("nvme", "Bay 4", "reseat_drive"),
    "gpu-12-05": ("pcie_link", "Slot 38", "reseat_device"),
    "gpu-12-06": ("memory", "DIMM", "replace_dimm"),
}
READY = {"gpu-12-01", "gpu-12-07", "gpu-12-08"}


def read(file: Path) -> list[dict[str, str]]:
    """The ticket file as a spreadsheet reads it."""
    raw = file.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf"), "Excel needs the byte order mark"
    assert raw.count(b"\n") == raw.count(b"\r\n")
    return list(csv.DictReader(raw.decode("utf-8-sig").splitlines()))


def check_csv(rows: list[dict[str, str]], site: Site) -> None:
    """Every row sends somebody to the right machine, part and other end."""
    assert [row["Hostname"] for row in rows] == sorted(TICKETS), "as one walks: by rack unit"
    for row in rows:
        machine = site.world.by_name(row["Hostname"])
        category, locator, action = TICKETS[row["Hostname"]]
        assert (row["Category"], row["Action requested"], row["Status"]) == (category, action, "open")
        assert locator in row["Locator label"]
        assert (row["Site"], row["Room"], row["Rack"]) == ("sim", "hall-1", "rack-12")
        assert (row["U position"], row["Asset tag"]) == (str(machine.unit), machine.asset_tag)
        assert row["Service tag"] == machine.service_tag
        assert row["BMC address"] == f"{machine.bmc_address}:{machine.bmc_port}"
        assert row["Instructions"]
        assert row["Evidence"]
        assert row["Rule ID"]
        assert row["Safe to power off"] == "yes", "nothing runs on it and nothing else is broken"
        assert not any(cell[:1] in {"=", "+", "-", "@"} for cell in row.values())
    cable = rows[0]
    planned = site.world.by_name("gpu-12-02").boot_nic
    assert planned.planned_switch in cable["Peer end"] + cable["Instructions"]
    assert planned.planned_port in cable["Peer end"] + cable["Instructions"]
    assert planned.actual_port in cable["Instructions"] + cable["Evidence"]


def writes_of(site: Site, names: set[str]) -> dict[str, Any]:
    return {name: dict(site.world.by_name(name).writes) for name in names if site.world.by_name(name).writes}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("power_by", ["maas", "provision"])
async def test_a_mixed_rack_to_the_end(power_by: str, site_of: Start, tmp_path: Path) -> None:
    site: Site = await site_of(nodes=8, faults=list(FAULTS.items()), power_by=power_by)
    everyone = set(site.world.machines)

    plan = await site.provision("plan", "rack-12", "--output", "json")
    assert plan.status == 1
    assert {row["node"] for row in plan.json if row["next"] == "stuck"} == set(TICKETS)
    assert {row["node"] for row in plan.json if row["next"] == "act"} == READY
    assert not any(row["erases"] for row in plan.json)
    assert writes_of(site, everyone) == {}, "a plan wrote something"

    file = tmp_path / "tickets.csv"
    first = await site.provision("bringup", "rack-12", "--output", "json", "--tickets", str(file))
    assert first.status == 1
    assert first.ended == {name: "ready" if name in READY else "needs-hands" for name in everyone}
    check_csv(read(file), site)
    tickets = await site.tickets()
    assert {ticket["node"]: ticket["attempt"] for ticket in tickets} == dict.fromkeys(TICKETS, 1)
    assert {name: site.world.by_name(name).deployed_count for name in everyone} == {
        name: int(name in READY) for name in everyone
    }
    for name in READY:
        machine = site.world.by_name(name)
        assert machine.writes["maas:deploy"] == (2 if name == "gpu-12-08" else 1)
        assert any(key.startswith("bmc:reset") for key in machine.writes), "somebody pressed the button"
    assert writes_of(site, set(TICKETS)) == {}, "a machine with a hard fault got a write"

    site.world.reset_writes()
    again = await site.bringup("rack-12")
    assert again.status == 1
    assert writes_of(site, everyone) == {}, "the second run wrote something"
    assert [ticket["id"] for ticket in await site.tickets()] == [ticket["id"] for ticket in tickets]

    for name in TICKETS:
        site.world.repair(name)
    last = await site.bringup("rack-12")
    assert last.status == 0, last.out
    assert last.ended == dict.fromkeys(everyone, "ready")
    assert writes_of(site, READY) == {}, "a machine that was ready got a write"
    assert {site.world.by_name(name).deployed_count for name in everyone} == {1}
    closed = await site.tickets(everything=True)
    assert {ticket["id"]: ticket["status"] for ticket in closed} == {t["id"]: "verified" for t in tickets}
