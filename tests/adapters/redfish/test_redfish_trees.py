"""Captured BMCs, served over TLS: what a person reads in their JSON is what the client must say.

The figures below were written down from the JSON files, not from the client's output. Skipped where the captures are
not beside the checkout. ``PROVISION_TREES=DIR`` runs the general checks over any tree, tar file, or folder of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redfish_lab import DictPins, RealClock
from redfish_trees import in_names, reached, read_by_eye, ready, systems, trees_in

from provision.adapters.redfish.bmc import RedfishBmc
from provision.adapters.redfish.limits import BmcLimits
from provision.errors import PeerError
from provision.model.bmc import Button, Harvest, Health, Link, Power
from provision.model.evidence import Gap, Reading
from provision.model.node import Node
from provision.model.profile import BootMethod
from provision.model.secret import Credential, Secret

SHARED = Path(__file__).parents[4] / "shared"
SERVER = SHARED / "tools" / "serve_tree.py"
OWN = os.environ.get("PROVISION_TREES")
FOLDER = Path(OWN) if OWN else SHARED / "redfish-trees"

pytestmark = pytest.mark.skipif(
    not SERVER.exists() or (not OWN and not FOLDER.is_dir()), reason=f"no captured trees beside the checkout ({FOLDER})"
)


class Served:
    """One tree being served, and what it was asked."""

    def __init__(self, source: Path, state: dict[str, str], log: Path) -> None:
        self.source = source
        self.name = state["tree"]
        self.address = state["url"].removeprefix("https://")
        self._log = log

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Everything this tree was asked so far."""
        lines = self._log.read_text().splitlines()
        return [entry for line in lines if (entry := json.loads(line))["tree"] == self.name]

    @property
    def writes(self) -> list[str]:
        """Requests that were neither read, login nor logout."""
        found = (
            f"{entry['method']} {entry['path']}" for entry in self.requests if entry["method"] not in ("GET", "HEAD")
        )
        return [line for line in found if "/SessionService/Sessions" not in line]

    def client(self, **more: Any) -> RedfishBmc:
        return RedfishBmc(
            Node("gpu-1", "any", self.address, "rack-1"),
            Credential("bmc", "root", Secret("calvin")),
            DictPins(),
            clock=RealClock(),
            limits=BmcLimits(pause_s=0.01),
            **more,
        )


R750_6, R750_7 = "dell-r750-idrac9-6.00.30", "dell-r750-idrac9-7.10.30"
SUPERMICRO, DGX = "supermicro-sys-821ge-tnhr-8xh100", "nvidia-dgx-h100"
LENOVO, RACKMOUNT = "lenovo-sr670v2-xcc-2.83", "public-rackmount1"


def _sources() -> list[Path]:
    if not SERVER.exists():
        return []
    if OWN:
        return trees_in(FOLDER)
    known = [FOLDER / f"{name}.tar.xz" for name in (R750_6, R750_7, SUPERMICRO, DGX, LENOVO, RACKMOUNT)]
    return [path for path in known if path.exists()]


SOURCES = _sources()


@contextmanager
def _serving(sources: list[Path], folder: Path, *options: str) -> Iterator[dict[str, Served]]:
    """Trees behind one server process, which is ended by its id."""
    log = folder / "requests.jsonl"
    log.touch()
    names = folder / "names"
    names.mkdir()
    own = [ready(source, names) for source in sources] if OWN else sources
    command = [sys.executable, str(SERVER), *map(str, own), "--log", str(log), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        states = [json.loads(process.stdout.readline()) for _ in sources]
        found = [Served(source, state, log) for source, state in zip(sources, states, strict=True)]
        yield {one.name: one for one in found}
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    """All trees, as they are."""
    with _serving(SOURCES, tmp_path_factory.mktemp("trees")) as found:
        yield found


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    """Trees that want If-Match, give short pages and let power take its time."""
    wanted = [source for source in SOURCES if source.name.startswith((R750_7, SUPERMICRO, DGX, LENOVO))]
    options = ("--require-if-match", "--page-size", "7", "--power-delay", "0.1")
    with _serving(wanted, tmp_path_factory.mktemp("strict"), *options) as found:
        yield found


@pytest.fixture
def tree(served: dict[str, Served], request: pytest.FixtureRequest) -> Served:
    """The tree named by the test's parameter."""
    if request.param not in served:
        pytest.skip(f"{request.param} is not among the trees")
    return served[request.param]


def _is(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("tree", names, indirect=True)


async def _look(tree: Served, **more: Any) -> tuple[Harvest, Health]:
    client = tree.client(**more)
    try:
        return await client.harvest(), await client.health()
    finally:
        await client.close()


def _counts(health: Health) -> dict[str, int]:
    return {str(e.part.kind): int(str(e.values["count"])) for e in health.evidence if e.source == "redfish/count"}


def _readings(health: Health, source: str) -> dict[str, str]:
    return {e.part.locator: str(e.reading) for e in health.evidence if e.source == f"redfish/{source}"}


def _loud(health: Health) -> list[tuple[str, str]]:
    """Parts that somebody would be sent to."""
    bad = {Reading.FAILED, Reading.FAILING, Reading.NO_INPUT, Reading.DEGRADED, Reading.REDUCED}
    return [(e.source, e.part.locator) for e in health.evidence if e.reading in bad]


def _events(health: Health) -> list[tuple[str, str | None, str]]:
    return [(e.source, e.code, str(e.severity)) for e in health.evidence if e.reading is Reading.EVENT]


@_is(R750_6)
async def test_r750_with_infiniband(tree: Served) -> None:
    """Two embedded, two OCP, a BlueField-2 whose link nobody tells, and a dual-port InfiniBand card with MACs.

    The list of the card's ports lacks its first one and both functions point to a port that answers 404.
    """
    harvest, health = await _look(tree)
    assert {(p.locator, p.kind, p.link, str(p.mac)[-2:]) for p in harvest.ports} == {
        ("Embedded NIC 1 Port 1", "ethernet", Link.DOWN, "dc"),
        ("Embedded NIC 1 Port 2", "ethernet", Link.DOWN, "dd"),
        ("Integrated NIC 1 Port 1", "ethernet", Link.DOWN, "f0"),
        ("Integrated NIC 1 Port 2", "ethernet", Link.DOWN, "f1"),
        ("Slot 5 Port 1", "ethernet", Link.UNKNOWN, "c4"),
        ("Slot 7 Port 1", "infiniband", Link.UNKNOWN, "d2"),
        ("Slot 7 Port 2", "infiniband", Link.UP, "d3"),
    }
    boot = next(port for port in harvest.ports if port.network_boot)
    assert (boot.name, boot.network_boot_why) == ("NIC.Slot.5-1", "BIOS: HttpDev1Interface is NIC.Slot.5-1, enabled")
    assert harvest.identity.family == "dell-idrac9"
    assert (harvest.identity.model, harvest.identity.bios_version) == ("PowerEdge R750", "1.8.2")
    assert [gap.where.rpartition("/")[2] for gap in harvest.gaps] == ["InfiniBand.Slot.7"]
    assert "404" in harvest.gaps[0].why
    assert _counts(health) == {"nic": 4, "port": 7, "psu": 2, "drive": 3, "gpu": 1, "dimm": 16}
    assert _readings(health, "psus") == {"PSU 1": "ok", "PSU 2": "ok"}
    assert _readings(health, "drives") == {"Bay 0": "ok", "Bay 1": "ok", "Bay 2": "ok"}
    assert _readings(health, "gpus") == {"GPU 2": "ok"}
    assert {e.values["input_volts"] for e in health.evidence if e.source == "redfish/psus"} == {240}
    assert {e.values["width"] for e in health.evidence if e.source == "redfish/drives"} == {4}
    assert _loud(health) == []
    assert _events(health) == [("redfish/lclog", "SWC9005", "critical")]


@_is(R750_7)
async def test_r750_with_lockdown_and_an_open_lid(tree: Served) -> None:
    """System health is Critical for an open lid; BlueFields say LinkDown and, in the same breath, no State at all."""
    harvest, health = await _look(tree)
    assert [(p.name, p.link, str(p.mac)[-2:]) for p in harvest.ports] == [
        ("NIC.Embedded.1-1-1", Link.DOWN, "92"),
        ("NIC.Embedded.2-1-1", Link.DOWN, "93"),
        ("NIC.Slot.2-1", Link.UNKNOWN, "04"),
        ("NIC.Slot.5-1", Link.UNKNOWN, "5c"),
    ]
    assert {p.model for p in harvest.ports if "Slot" in p.name} == {"BlueField-3 SmartNIC Main Card"}
    assert _counts(health) == {"nic": 3, "port": 4, "psu": 2, "drive": 2, "gpu": 0, "dimm": 8}
    assert _readings(health, "drives") == {"Bay 6": "ok", "Bay 7": "ok"}
    assert _loud(health) == []
    assert ("redfish/faults", "SEC0033", "critical") in _events(health)
    assert [code for source, code, _ in _events(health) if source == "redfish/sel"] == ["6f0fd0ff"]
    cards = [e.values for e in health.evidence if e.part.locator in ("Slot 2", "Slot 5") and e.source == "redfish/pcie"]
    nics = {(values["width"], values["gen"]) for values in cards if values["device_class"] == "nic"}
    assert nics == {(8, 4), (16, 4)}
    for method, able in ((BootMethod.PXE, False), (BootMethod.UEFI_HTTP, True)):
        client = tree.client(boot_method=method)
        ready = await client.readiness()
        assert (ready.network_device_enabled, ready.lockdown) == (able, True)
        assert {port.network_boot for port in (await client.harvest()).ports} == ({False, True} if able else {False})
        await client.close()


@_is(SUPERMICRO)
async def test_supermicro_with_eight_gpus_and_six_supplies_in_eight_bays(tree: Served) -> None:
    harvest, health = await _look(tree)
    assert len(harvest.ports) == len({port.mac for port in harvest.ports}) == 11
    assert Counter(port.model for port in harvest.ports) == {
        "MCX75310AAS-NEAT": 8,
        "AOC-STGS-i2T": 2,
        "MBF2M516C-CECOT": 1,
    }
    assert {port.link for port in harvest.ports} == {Link.DOWN}
    assert [(port.locator, str(port.mac)[-2:]) for port in harvest.ports if port.network_boot] == [
        ("PCIe Slot 1 (1) Port 1", "22")
    ]
    assert _counts(health) == {"nic": 10, "port": 11, "psu": 6, "drive": 8, "gpu": 8, "dimm": 32}
    supplies = _readings(health, "psus")
    assert {name for name, reading in supplies.items() if reading == "absent"} == {"PSU 6", "PSU 7"}
    assert sum(reading == "ok" for reading in supplies.values()) == 6
    assert set(_readings(health, "gpus").values()) == {"ok"}
    assert _loud(health) == []
    assert "redfish/psus" not in {source for source, _ in _loud(health)}
    assert not [code for _, code, _ in _events(health) if code and code.startswith("PWR")], (
        "a month older than power-on"
    )
    blue = next(e for e in health.evidence if e.values.get("model") == "MBF2M516C-CECOT" and e.source == "redfish/pcie")
    assert (blue.reading, blue.values["gen"], blue.values["max_gen"]) == (Reading.FACT, 4, 5)


@_is(DGX)
async def test_dgx_with_its_gpus_behind_a_second_system(tree: Served) -> None:
    """Six addresses, one of them only in the boot options; InfiniBand without addresses; a USB NIC left out."""
    harvest, health = await _look(tree)
    assert harvest.identity.model == "DGXH100"
    assert sorted(str(port.mac)[-5:] for port in harvest.ports if port.mac) == [
        "06:78",
        "06:79",
        "23:18",
        "23:19",
        "45:b1",
        "79:52",
    ]
    assert sum(port.kind == "infiniband" and port.mac is None for port in harvest.ports) == 8
    assert [(str(p.mac)[-5:], p.link) for p in harvest.ports if p.network_boot] == [("79:52", Link.UP)]
    counts = _counts(health)
    assert {kind: counts.get(kind) for kind in ("nic", "psu", "gpu", "dimm", "drive")} == {
        "nic": 12,
        "psu": 6,
        "gpu": 8,
        "dimm": 32,
        "drive": None,  # the list of storages has no members here: unknown, not zero
    }
    assert set(_readings(health, "psus").values()) == {"unknown"}
    assert _readings(health, "gpus") == {f"GPU {number}": "ok" for number in range(1, 9)}
    assert _loud(health) == []
    assert "/redfish/v1/Systems/DGX/Storage" in {gap.where for gap in health.gaps}


@_is(LENOVO)
async def test_lenovo_with_a_dpu_that_has_no_functions(tree: Served) -> None:
    harvest, health = await _look(tree)
    assert [(p.name, p.link, p.model) for p in harvest.ports[:4]] == [
        (f"NIC{number}", Link.DOWN, "BCM5719") for number in range(1, 5)
    ]
    assert [(p.locator, str(p.mac)[-2:]) for p in harvest.ports[4:]] == [("Slot 15", "6e")]
    assert _counts(health) == {"nic": 2, "port": 5, "psu": 4, "drive": 4, "gpu": 8, "dimm": 16}
    assert set(_readings(health, "psus").values()) == {"ok"}
    assert set(_readings(health, "gpus").values()) == {"unknown"}
    assert _loud(health) == []
    assert _events(health) == []
    kit = next(e for e in health.evidence if e.part.name == "slot_25")
    assert (kit.reading, kit.values["width"], kit.values["max_width"]) == (Reading.FACT, 2, 8)


@_is(RACKMOUNT)
async def test_the_dmtf_s_own_machine(tree: Served) -> None:
    """Two NICs, one with another current address; a VLAN and the BMC's interface beside; a supply with a Warning."""
    harvest, health = await _look(tree)
    assert [(str(p.mac)[-5:], str(p.current_mac)[-5:] if p.current_mac else None, p.link) for p in harvest.ports] == [
        ("e3:11", None, Link.UP),
        ("3e:90", "7c:00", Link.UP),
    ]
    assert harvest.identity.family == "generic"
    assert _readings(health, "psus") == {"PSU 1": "failed", "PSU 2": "absent"}
    assert _loud(health) == [("redfish/psus", "PSU 1")]
    assert _counts(health) == {"port": 2, "psu": 1, "dimm": 3}


# -- any tree --------------------------------------------------------------------------------------------------------


def _name(source: Path) -> str:
    return source.relative_to(FOLDER).as_posix() if source != FOLDER else source.name


def test_the_folder_that_was_named_holds_trees() -> None:
    if OWN and not SOURCES:
        pytest.fail(f"PROVISION_TREES={OWN}: no tree there: an index.json of a service root, or a tar file with one")


@pytest.mark.parametrize("source", SOURCES, ids=[_name(path) for path in SOURCES])
async def test_any_tree_is_read_whole_without_a_write(served: dict[str, Served], source: Path) -> None:
    """No read is refused, nothing is written, no session stays, and every MAC that stands there is counted."""
    tree = next(one for one in served.values() if one.source == source)
    before = len(tree.requests)
    client = tree.client()
    try:
        if not systems(source):
            with pytest.raises(PeerError, match="system"):
                await client.harvest()
            return
        harvest = await client.harvest()
        health = await client.health()
        status = await client.status()
        readiness = await client.readiness()
        with contextlib.suppress(PeerError):  # some captures have no clock
            await client.clock()
    finally:
        await client.close()
    mine = tree.requests[before:]
    assert tree.writes == []
    assert not [entry for entry in mine if entry["status"] in (401, 405)]
    assert [entry["method"] for entry in mine if entry["method"] != "GET"] == ["POST", "DELETE"]
    if any(isinstance(body.get("PowerState"), str) for body in systems(source)):
        assert status.power is not Power.UNKNOWN
    gaps = (*harvest.gaps, *health.gaps, *readiness.gaps)
    told = {str(mac) for port in harvest.ports for mac in (port.mac, port.current_mac) if mac}
    others = _other_hosts(gaps)
    by_eye = read_by_eye(source, hosts_left_out=others)
    if not by_eye <= told:
        by_eye = read_by_eye(source, hosts_left_out=others, among=reached(source))
    assert by_eye <= told, f"missing: {sorted(by_eye - told)}"
    allowed = by_eye | in_names(source)
    assert told <= allowed, f"not in any network resource or boot entry: {sorted(told - allowed)}"
    assert len({port.mac for port in harvest.ports if port.mac}) == sum(port.mac is not None for port in harvest.ports)
    assert len({port.locator for port in harvest.ports}) == len(harvest.ports)
    assert all(gap.where and gap.why for gap in gaps)
    for entry in mine:
        # Older iDRACs hear no LLDP: that is no gap of the machine.
        if entry["status"] >= 400 and not entry["path"].endswith("/DellSwitchConnections"):
            assert any(entry["path"].partition("?")[0] in gap.where for gap in gaps), entry


def _other_hosts(gaps: tuple[Gap, ...]) -> tuple[str, ...]:
    """Ids of hosts that the client says it has left out, behind a BMC of several."""
    named = (re.search(r"hosts stand behind it \((.+?)\)", gap.why) for gap in gaps)
    return next((tuple(found[1].split(", ")[1:]) for found in named if found), ())


@pytest.mark.parametrize("name", [R750_7, SUPERMICRO, DGX, LENOVO])
async def test_boot_and_power_where_the_service_is_strict(name: str, strict: dict[str, Served]) -> None:
    """Every maker's own resource takes the override, the read-back shows it, and the button works both ways."""
    if name not in strict:
        pytest.skip(f"{name} is not among the trees")
    tree = strict[name]
    client = tree.client()
    try:
        ports = {str(port.mac) for port in (await client.harvest()).ports if port.mac}
        assert read_by_eye(tree.source) <= ports
        await client.set_network_boot_once(BootMethod.PXE)
        assert (await client.status()).network_boot_set
        for button, power in ((Button.FORCE_OFF, Power.OFF), (Button.ON, Power.ON), (Button.ON, Power.ON)):
            await client.press(button)
            for _ in range(40):
                if (await client.status()).power is power:
                    break
                await asyncio.sleep(0.05)
            assert (await client.status()).power is power
        assert not (await client.status()).network_boot_set, "a boot uses the override up"
    finally:
        await client.close()
    assert [line for line in tree.writes if line.startswith("POST")] == [tree.writes[-1]] * 2
    assert len([line for line in tree.writes if line.startswith("PATCH")]) == 1
