"""`provision macs` and `provision triage` against captured BMCs that nobody here invented, without a MAAS.

What is expected was written down from the JSON of the captures, not from the program's output. Skipped where the
captures are not beside the checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

SHARED = Path(__file__).parents[3] / "shared"
SERVER = SHARED / "tools" / "serve_tree.py"
FOLDER = SHARED / "redfish-trees"

pytestmark = pytest.mark.skipif(
    not SERVER.exists() or not FOLDER.is_dir(), reason=f"no captured trees beside the checkout ({FOLDER})"
)

R750_6, R750_7 = "dell-r750-idrac9-6.00.30", "dell-r750-idrac9-7.10.30"
SUPERMICRO, DGX = "supermicro-sys-821ge-tnhr-8xh100", "nvidia-dgx-h100"
LENOVO, RACKMOUNT = "lenovo-sr670v2-xcc-2.83", "public-rackmount1"
NODES = {"r750-6": R750_6, "r750-7": R750_7, "smc": SUPERMICRO, "dgx": DGX, "sr670": LENOVO, "rackmount": RACKMOUNT}


@dataclass(frozen=True)
class Said:
    """What the commands printed, by node, and what the trees were asked."""

    macs: dict[str, list[dict[str, Any]]]
    complaints: str
    triage: dict[str, dict[str, Any]]
    asked: list[dict[str, Any]]

    def findings(self, node: str) -> list[tuple[str, str, str, str]]:
        """(category, locator, action, dispatch)."""
        return sorted((f["category"], f["locator"], f["action"], f["dispatch"]) for f in self.triage[node]["findings"])


def inventory(folder: Path, addresses: dict[str, str]) -> Path:
    """As somebody writes it who knows nothing of these machines but their BMC addresses."""
    hosts = {
        name: {"bmc_address": address, "rack": "rack-1", "rack_unit": number}
        for number, (name, address) in enumerate(addresses.items(), start=1)
    }
    site = {
        "profiles": {
            "any": {"image": {"series": "jammy"}, "boot_disk": {"min_size": "100GB"}, "boot_method": "uefi-http"}
        },
        "provision": {"bmc": {"user": "root", "password": "env:TREE_PASSWORD"}},
    }
    path = folder / "inventory"
    path.mkdir()
    (path / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": {"profile": "any"} | site, "hosts": hosts}}))
    return path


def run(*argv: str, inventory: Path, state: Path) -> subprocess.CompletedProcess[str]:
    """One command; never a traceback."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("PROVISION_", "ANSIBLE_"))}
    done = subprocess.run(
        [sys.executable, "-m", "provision", *argv, "-i", str(inventory), "--state", str(state), "--output", "json"],
        capture_output=True,
        text=True,
        timeout=100,
        env=plain | {"TREE_PASSWORD": "calvin"},
        check=False,
    )
    assert done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    assert "bug of ours" not in done.stderr
    return done


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """All trees behind one server process, and both commands over all of them at once."""
    folder = tmp_path_factory.mktemp("trees")
    log = folder / "requests.jsonl"
    log.touch()
    sources = [str(FOLDER / f"{tree}.tar.xz") for tree in NODES.values()]
    server = subprocess.Popen([sys.executable, str(SERVER), *sources, "--log", str(log)], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        states = [json.loads(server.stdout.readline()) for _ in sources]
        addresses = {name: state["url"].removeprefix("https://") for name, state in zip(NODES, states, strict=True)}
        site = inventory(folder, addresses)
        macs = run("macs", "all", inventory=site, state=folder / "state")
        triage = run("triage", "all", inventory=site, state=folder / "state")
    finally:
        server.terminate()
        server.wait(10)
    by_node: dict[str, list[dict[str, Any]]] = {name: [] for name in NODES}
    for row in json.loads(macs.stdout):
        by_node[row["node"]].append(row)
    return Said(
        by_node,
        macs.stderr,
        {row["node"]: row for row in json.loads(triage.stdout)},
        [json.loads(line) for line in log.read_text().splitlines()],
    )


def ends(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Locator → last octet of the MAC and the link."""
    return {row["locator"]: f"{(row['mac'] or 'none')[-2:]} {row['link']}" for row in rows}


def test_nothing_is_written_on_any_tree_but_login_and_logout(said: Said) -> None:
    writes = [entry for entry in said.asked if entry["method"] not in {"GET", "HEAD"}]
    assert {entry["method"] for entry in writes} == {"POST", "DELETE"}
    assert all("/SessionService/Sessions" in entry["path"] for entry in writes)
    for tree in NODES.values():
        kinds = Counter(entry["method"] for entry in writes if tree in entry["tree"])
        assert kinds == {"POST": 2, "DELETE": 2}, f"{tree}: one login and one logout a command"
    assert not [entry for entry in said.asked if entry["status"] in (401, 405)]


def test_macs_of_the_r750_with_infiniband(said: Said) -> None:
    rows = said.macs["r750-6"]
    assert ends(rows) == {
        "Embedded NIC 1 Port 1": "dc down",
        "Embedded NIC 1 Port 2": "dd down",
        "Integrated NIC 1 Port 1": "f0 down",
        "Integrated NIC 1 Port 2": "f1 down",
        "Slot 5 Port 1": "c4 unknown",
        "Slot 7 Port 1": "d2 unknown",
        "Slot 7 Port 2": "d3 up",
    }
    assert {row["locator"] for row in rows if row["kind"] == "infiniband"} == {"Slot 7 Port 1", "Slot 7 Port 2"}
    assert [row["port"] for row in rows if row["boot"]] == ["NIC.Slot.5-1"]
    assert "r750-6: could not read" in said.complaints


def test_macs_of_the_r750_with_two_bluefields(said: Said) -> None:
    assert [(row["port"], row["mac"][-2:], row["link"]) for row in said.macs["r750-7"]] == [
        ("NIC.Embedded.1-1-1", "92", "down"),
        ("NIC.Embedded.2-1-1", "93", "down"),
        ("NIC.Slot.2-1", "04", "unknown"),
        ("NIC.Slot.5-1", "5c", "unknown"),
    ]


def test_macs_of_the_supermicro(said: Said) -> None:
    rows = said.macs["smc"]
    assert len({row["mac"] for row in rows}) == len(rows) == 11
    assert {row["link"] for row in rows} == {"down"}
    assert Counter(row["model"] for row in rows) == {"MCX75310AAS-NEAT": 8, "AOC-STGS-i2T": 2, "MBF2M516C-CECOT": 1}


def test_macs_of_the_dgx(said: Said) -> None:
    """Six addresses, one of them only in the boot options; eight InfiniBand ports without one."""
    rows = said.macs["dgx"]
    assert sorted(row["mac"][-5:] for row in rows if row["mac"]) == [
        "06:78", "06:79", "23:18", "23:19", "45:b1", "79:52",
    ]  # fmt: skip
    assert sum(row["kind"] == "infiniband" and row["mac"] is None for row in rows) == 8
    assert [row["mac"][-5:] for row in rows if row["boot"]] == ["79:52"]


def test_macs_of_the_lenovo(said: Said) -> None:
    assert [(row["port"], row["link"]) for row in said.macs["sr670"]][:4] == [(f"NIC{n}", "down") for n in range(1, 5)]
    assert [(row["locator"], row["mac"][-2:]) for row in said.macs["sr670"]][4:] == [("Slot 15", "6e")]


def test_macs_of_the_dmtf_machine(said: Said) -> None:
    rows = said.macs["rackmount"]
    assert [(row["mac"][-5:], (row["current_mac"] or "-")[-5:], row["link"]) for row in rows] == [
        ("e3:11", "-", "up"),
        ("3e:90", "7c:00", "up"),
    ]


# Every capture stands still, so every clock is behind ours; nobody goes for a clock.
CLOCK = ("not_hardware", "BMC clock", "fix_config", "never")


@pytest.mark.parametrize("node", ["r750-6", "smc", "dgx", "sr670"])
def test_a_healthy_machine_gives_nothing_but_its_clock(node: str, said: Said) -> None:
    """What looks alarming there and is not: an export that was refused, AC losses of a month before power-on, supplies
    without a state, empty supply bays, GPUs without one, links that nobody has cabled.
    """
    assert said.findings(node) == [CLOCK]


def test_the_supply_with_a_warning(said: Said) -> None:
    """PowerSupplies[0] is Enabled with Health Warning, [1] is Absent and no fault: the chassis ships with one."""
    assert said.findings("rackmount") == [CLOCK, ("psu", "PSU 1", "collect_more", "after_repeat")]
    (psu,) = (f for f in said.triage["rackmount"]["findings"] if f["category"] == "psu")
    assert psu["hardware"] is True
    assert psu["escalate"] == "replace_psu"
    assert any("Warning" in item["text"] for item in psu["evidence"])


def test_a_machine_that_halted_in_post(said: Said) -> None:
    """The newest SEL entry: critical, "System BIOS has halted". It names no part, so nobody is sent."""
    findings = said.triage["r750-7"]["findings"]
    (halt,) = (f for f in findings if "BIOS has halted" in f["ask"])
    assert (halt["category"], halt["dispatch"], halt["hardware"]) == ("firmware", "never", False)
    assert CLOCK in said.findings("r750-7")
    assert not [f for f in findings if f["dispatch"] == "now"]


def test_an_open_lid_is_told(said: Said) -> None:
    """FaultList holds SEC0033, Critical: the chassis is open; the system's health is Critical for it."""
    assert "SEC0033" in {item["code"] for f in said.triage["r750-7"]["findings"] for item in f["evidence"]}


def test_what_could_not_be_looked_at_is_named(said: Said) -> None:
    """A place that answers 404, and a list of storages without members: unknown, not healthy."""
    assert any("InfiniBand.Slot.7" in gap and "404" in gap for gap in said.triage["r750-6"]["gaps"])
    assert any("/redfish/v1/Systems/DGX/Storage" in gap for gap in said.triage["dgx"]["gaps"])
    assert said.triage["smc"]["gaps"] == said.triage["sr670"]["gaps"] == []
