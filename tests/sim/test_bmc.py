"""Simulated BMCs, spoken to over real HTTPS by a client that knows nothing of the simulator."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from provision.sim.bmc import BmcServers
from provision.sim.build import build_machine
from provision.sim.run import build_machines
from provision.sim.world import FAULTS, SimClock, SimMachine, World

V1 = "/redfish/v1"
SYSTEM = f"{V1}/Systems/System.Embedded.1"
CHASSIS = f"{V1}/Chassis/System.Embedded.1"
MANAGER = f"{V1}/Managers/iDRAC.Embedded.1"
SESSIONS = f"{V1}/SessionService/Sessions"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
PXE_ONCE = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}


@dataclass
class Answer:
    """What came back."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def codes(self) -> list[str]:
        told = self.body["error"]["@Message.ExtendedInfo"]
        return [item["MessageId"].rsplit(".", 1)[-1] for item in told]


class Client:
    """One client of one BMC."""

    def __init__(self, http: aiohttp.ClientSession, machine: SimMachine) -> None:
        self._http = http
        self.machine = machine
        self.headers: dict[str, str] = {}

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        url = f"https://{self.machine.bmc_address}:{self.machine.bmc_port}{path}"
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = body if isinstance(body, bytes) else None
        async with self._http.request(
            method, url, data=data, json=None if data is not None else body, headers=sent
        ) as reply:
            text = await reply.read()
            return Answer(reply.status, await reply.json(content_type=None) if text else None, reply.headers)

    async def get(self, path: str) -> Any:
        answer = await self.ask("GET", path)
        assert answer.status == 200, (path, answer)
        return answer.body

    async def log_in(self, word: str = "right") -> Answer:
        return await self.ask("POST", SESSIONS, {"UserName": "provision", "Password": word})


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(SimClock(600), [build_machine(12, n) for n in (1, 2)], seed=1)
    world.bmc_password = "right"
    servers = BmcServers(world, tmp_path / "certificates")
    await servers.start()
    yield world
    await servers.stop()
    await world.stop()
    assert world.problems == []


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=trusting)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=5)) as session:
        yield session


@pytest.fixture
async def bmc(world: World, http: aiohttp.ClientSession) -> Client:
    client = Client(http, world.by_name("gpu-12-01"))
    answer = await client.log_in()
    assert answer.status == 201
    client.headers["X-Auth-Token"] = answer.headers["X-Auth-Token"]
    return client


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["@odata.id"]] if "@odata.id" in value else []
        return own + [path for item in value.values() for path in references(item)]
    if isinstance(value, list):
        return [path for item in value for path in references(item)]
    return []


async def walk(client: Client) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    todo = [V1]
    while todo:
        path = todo.pop()
        if path not in seen and "#" not in path:
            seen[path] = await client.get(path)
            todo += references(seen[path])
    return seen


async def test_every_link_leads_somewhere(bmc: Client) -> None:
    await bmc.machine.press("On")
    tree = await walk(bmc)
    assert len(tree) > 250
    assert all(body["@odata.id"] == path for path, body in tree.items())


async def test_every_link_leads_somewhere_when_everything_is_broken(world: World, bmc: Client) -> None:
    for kind in FAULTS:
        if not kind.startswith("bmc_"):
            # Not bay 4, which another fault empties: the log would point to a drive that has gone.
            world.inject(bmc.machine.name, kind, "5" if kind == "nvme_failing" else "")
    tree = await walk(bmc)
    assert len(tree) > 200


async def test_what_it_is(bmc: Client) -> None:
    root = (await bmc.ask("GET", V1)).body
    assert root["Vendor"] == "Dell"
    assert root["ProtocolFeaturesSupported"]["ExpandQuery"]["MaxLevels"] == 1
    system = await bmc.get(SYSTEM)
    assert (system["Model"], system["SKU"], system["UUID"]) == (
        "PowerEdge XE9680", bmc.machine.service_tag, bmc.machine.uuid,
    )  # fmt: skip
    assert system["PowerState"] == "Off"


async def test_infiniband_ports_are_found_under_the_adapters_only(bmc: Client) -> None:
    tree = await walk(bmc)
    macs = {nic.kind: {n.mac.upper() for n in bmc.machine.nics if n.kind == nic.kind} for nic in bmc.machine.nics}
    interfaces = {body["MACAddress"] for path, body in tree.items() if "/EthernetInterfaces/" in path}
    functions = {
        body["Ethernet"]["PermanentMACAddress"] for path, body in tree.items() if "/NetworkDeviceFunctions/" in path
    }
    assert interfaces == macs["ethernet"]
    assert functions == macs["ethernet"] | macs["infiniband"]


async def test_nothing_but_the_root_without_a_session(world: World, http: aiohttp.ClientSession) -> None:
    stranger = Client(http, world.by_name("gpu-12-01"))
    assert (await stranger.ask("GET", V1)).status == 200
    refused = await stranger.ask("GET", SYSTEM)
    assert (refused.status, refused.codes) == (401, ["NoValidSession"])
    basic = base64.b64encode(b"provision:right").decode()
    assert (await stranger.ask("GET", SYSTEM, Authorization=f"Basic {basic}")).status == 200
    assert (await stranger.ask("GET", SYSTEM, Authorization="Basic ???")).status == 401


async def test_eight_sessions_and_no_more(bmc: Client) -> None:
    logins = [await bmc.log_in() for _ in range(7)]
    full = await bmc.log_in()
    assert (full.status, full.codes) == (503, ["RAC0218"])
    assert (await bmc.ask("DELETE", logins[0].headers["Location"])).status == 204
    assert (await bmc.log_in()).status == 201
    gone = await bmc.ask("DELETE", logins[0].headers["Location"])
    assert gone.status == 404
    assert bmc.machine.sessions == {"login": 9, "logout": 1, "full": 1}
    assert bmc.machine.writes.total() == 0


async def test_three_wrong_passwords_shut_the_address_out_for_a_while(
    world: World, http: aiohttp.ClientSession
) -> None:
    client = Client(http, world.by_name("gpu-12-01"))
    for _ in range(3):
        wrong = await client.log_in("wrong")
        assert (wrong.status, wrong.codes) == (401, ["SYS415"])
    with pytest.raises(aiohttp.ClientError):
        await client.ask("GET", V1)
    assert (await Client(http, world.by_name("gpu-12-02")).ask("GET", V1)).status == 200
    await asyncio.sleep(0.15)
    assert (await client.log_in()).status == 201
    assert client.machine.sessions["refused"] == 3


async def test_network_boot_once_is_stored_and_counted(bmc: Client) -> None:
    assert (await bmc.ask("PATCH", SYSTEM, PXE_ONCE)).status == 200
    boot = (await bmc.get(SYSTEM))["Boot"]
    assert (boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"]) == ("Pxe", "Once")
    assert bmc.machine.writes == {"bmc:boot": 1}
    assert bmc.machine.jobs == []


async def test_naming_the_boot_mode_costs_a_job(bmc: Client) -> None:
    boot = PXE_ONCE["Boot"] | {"BootSourceOverrideMode": "UEFI"}
    assert (await bmc.ask("PATCH", SYSTEM, {"Boot": boot})).status == 200
    jobs = await bmc.get(f"{MANAGER}/Oem/Dell/Jobs?$expand=*($levels=1)")
    assert [job["JobState"] for job in jobs["Members"]] == ["Scheduled"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"Boot": {"BootSourceOverrideTarget": "Tape"}}, "SYS426"),
        ({"Boot": {"BootSourceOverrideEnabled": "Twice"}}, "SYS426"),
        ({"Boot": {"HttpBootUri": "http://x"}}, "SYS429"),
        ({"PowerState": "On"}, "SYS429"),
        (b"{not json", "SYS405"),
        (b"[1]", "SYS405"),
    ],
)
async def test_a_bad_patch_is_refused_and_changes_nothing(bmc: Client, body: Any, code: str) -> None:
    answer = await bmc.ask("PATCH", SYSTEM, body)
    assert (answer.status, answer.codes) == (400, [code])
    assert not bmc.machine.boot_override.network


async def test_a_bmc_that_stores_nothing_says_that_it_did(world: World, bmc: Client) -> None:
    world.inject(bmc.machine.name, "bmc_stores_nothing")
    assert (await bmc.ask("PATCH", SYSTEM, PXE_ONCE)).status == 200
    assert (await bmc.get(SYSTEM))["Boot"]["BootSourceOverrideTarget"] == "None"
    assert bmc.machine.writes == {"bmc:boot": 1}
    world.repair(bmc.machine.name)
    await bmc.ask("PATCH", SYSTEM, PXE_ONCE)
    assert (await bmc.get(SYSTEM))["Boot"]["BootSourceOverrideTarget"] == "Pxe"


async def test_lockdown_refuses_the_configuration_and_not_the_button(world: World, bmc: Client) -> None:
    world.inject(bmc.machine.name, "lockdown")
    refused = await bmc.ask("PATCH", SYSTEM, PXE_ONCE)
    assert (refused.status, refused.codes) == (400, ["SYS406"])
    attributes = (await bmc.get(f"{MANAGER}/Attributes"))["Attributes"]
    assert attributes["Lockdown.1.SystemLockdown"] == "Enabled"
    assert (await bmc.ask("POST", RESET, {"ResetType": "On"})).status == 204


async def test_the_button(bmc: Client) -> None:
    assert (await bmc.ask("POST", RESET, {"ResetType": "On"})).status == 204
    system = await bmc.get(SYSTEM)
    assert system["PowerState"] == "On"
    assert datetime.fromisoformat(system["LastResetTime"]) <= datetime.now(UTC) + timedelta(seconds=1)
    again = await bmc.ask("POST", RESET, {"ResetType": "On"})
    assert (again.status, again.codes) == (409, ["PSU501"])
    unknown = await bmc.ask("POST", RESET, {"ResetType": "Kick"})
    assert (unknown.status, unknown.codes) == (400, ["SYS426"])
    missing = await bmc.ask("POST", RESET, {})
    assert (missing.status, missing.codes) == (400, ["SYS428"])
    assert bmc.machine.writes == {"bmc:reset:On": 2, "bmc:reset:Kick": 1, "bmc:reset:None": 1}


async def test_a_bios_change_waits_for_the_next_post(bmc: Client) -> None:
    change = {"Attributes": {"PxeDev1EnDis": "Disabled"}}
    answer = await bmc.ask("PATCH", f"{SYSTEM}/Bios/Settings", change)
    assert answer.status == 202
    twice = await bmc.ask("PATCH", f"{SYSTEM}/Bios/Settings", change)
    assert (twice.status, twice.codes) == (400, ["SYS011"])
    assert (await bmc.get(f"{SYSTEM}/Bios"))["Attributes"]["PxeDev1EnDis"] == "Enabled"
    await bmc.machine.press("On")
    end = time.monotonic() + 3
    while (await bmc.get(answer.headers["Location"]))["JobState"] != "Completed":
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    assert (await bmc.get(f"{SYSTEM}/Bios"))["Attributes"]["PxeDev1EnDis"] == "Disabled"


async def test_the_clock_is_set_only_without_ntp(world: World, bmc: Client) -> None:
    world.inject(bmc.machine.name, "clock_off", "-3")
    shown = datetime.fromisoformat((await bmc.get(MANAGER))["DateTime"])
    assert shown.utcoffset() == timedelta(hours=-5)
    assert round((shown - datetime.now(UTC)).total_seconds() / 3600) == -3
    ntp = {"Attributes": {"NTPConfigGroup.1.NTPEnable": "Enabled"}}
    assert (await bmc.ask("PATCH", f"{MANAGER}/Attributes", ntp)).status == 200
    now = {"DateTime": datetime.now(UTC).isoformat(timespec="seconds")}
    assert (await bmc.ask("PATCH", MANAGER, now)).codes == ["RAC059"]
    ntp["Attributes"]["NTPConfigGroup.1.NTPEnable"] = "Disabled"
    await bmc.ask("PATCH", f"{MANAGER}/Attributes", ntp)
    assert (await bmc.ask("PATCH", MANAGER, {"DateTime": "yesterday"})).codes == ["SYS409"]
    assert (await bmc.ask("PATCH", MANAGER, now)).status == 200
    shown = datetime.fromisoformat((await bmc.get(MANAGER))["DateTime"])
    assert abs((shown - datetime.now(UTC)).total_seconds()) < 3
    assert bmc.machine.writes["bmc:clock"] == 3


async def test_expansion_is_one_level_deep(bmc: Client) -> None:
    path = f"{SYSTEM}/EthernetInterfaces"
    plain = await bmc.get(path)
    assert all(set(member) == {"@odata.id"} for member in plain["Members"])
    for form in ("*($levels=1)", ".", "~", "*"):
        members = (await bmc.get(f"{path}?$expand={form}"))["Members"]
        assert [member["MACAddress"] for member in members] == [nic.mac.upper() for nic in bmc.machine.nics[:2]]
    deeper = await bmc.ask("GET", f"{path}?$expand=*($levels=2)")
    assert (deeper.status, deeper.codes) == (400, ["SYS407"])
    storage = await bmc.get(f"{SYSTEM}/Storage?$expand=*($levels=1)")
    assert [set(drive) for drive in storage["Members"][1]["Drives"]] == [{"@odata.id"}]
    chosen = await bmc.get(f"{SYSTEM}?$select=PowerState,SKU")
    assert {name for name in chosen if not name.startswith("@")} == {"PowerState", "SKU"}


async def test_an_expanded_answer_follows_repairs(world: World, bmc: Client) -> None:
    path = f"{SYSTEM}/Memory?$expand=*($levels=1)"
    assert all(d["Status"]["Health"] == "OK" for d in (await bmc.get(path))["Members"])
    world.inject(bmc.machine.name, "dimm_errors", "B3")
    sick = [d["DeviceLocator"] for d in (await bmc.get(path))["Members"] if d["Status"]["Health"] != "OK"]
    assert sick == ["DIMM B3"]
    world.repair(bmc.machine.name)
    assert all(d["Status"]["Health"] == "OK" for d in (await bmc.get(path))["Members"])


async def test_the_log_comes_in_pages_of_fifty_newest_first(world: World, bmc: Client) -> None:
    for _ in range(30):
        world.inject(bmc.machine.name, "psu_cord_out", "2")
        world.repair(bmc.machine.name)
    first = await bmc.get(f"{MANAGER}/LogServices/Lclog/Entries")
    second = await bmc.get(first["Members@odata.nextLink"])
    assert (len(first["Members"]), len(second["Members"]), first["Members@odata.count"]) == (50, 10, 60)
    assert "Members@odata.nextLink" not in second
    numbers = [int(entry["Id"]) for entry in first["Members"] + second["Members"]]
    assert numbers == list(range(60, 0, -1))
    assert first["Members"][0]["MessageId"] == "IDRAC.2.9.PSU0017"
    assert first["Members"][1]["MessageArgs"] == ["2"]


LOGGED = [
    ("psu_cord_out:2", "PSU0003", "PSU.Slot.2", "PSU0017"),
    ("psu_failed:5", "PSU0001", "PSU.Slot.5", "PSU0017"),
    ("nvme_failing:1", "PDR1002", "Disk.Bay.1:Enclosure.Internal.0-1", "PDR1017"),
    ("nvme_missing:6", "PDR1016", "Disk.Bay.6:Enclosure.Internal.0-1", "PDR8"),
    ("pcie_width:38", "UEFI0031", "PCIe.Slot.38", None),
    ("riser_loose:2", "HWC2011", "Riser.2", "HWC2010"),
    ("dimm_errors:A1", "MEM0001", "DIMM.Socket.A1", "MEM0006"),
    ("cable_unplugged", "NIC100", None, "NIC101"),
    ("gpu_missing:3", "PR8", None, "PR7"),
]


@pytest.mark.parametrize(("fault", "code", "fqdd", "cleared"), LOGGED)
async def test_what_is_logged_of_a_fault_and_of_its_repair(
    world: World, bmc: Client, fault: str, code: str, fqdd: str | None, cleared: str | None
) -> None:
    world.inject(bmc.machine.name, *fault.split(":"))
    log = (await bmc.get(f"{MANAGER}/LogServices/Lclog/Entries"))["Members"]
    assert [entry["MessageId"] for entry in log] == [f"IDRAC.2.9.{code}"]
    active = (await bmc.get(f"{MANAGER}/LogServices/FaultList/Entries"))["Members"]
    assert [entry["Oem"]["Dell"]["FQDD"] for entry in active] == ([fqdd] if fqdd else [])
    world.repair(bmc.machine.name)
    log = (await bmc.get(f"{MANAGER}/LogServices/Lclog/Entries"))["Members"]
    assert log[0]["MessageId"] == f"IDRAC.2.9.{cleared or code}"
    assert (await bmc.get(f"{MANAGER}/LogServices/FaultList/Entries"))["Members"] == []


async def _psu(bmc: Client) -> Any:
    power = (await bmc.get(f"{CHASSIS}/Power"))["PowerSupplies"][1]
    modern = await bmc.get(f"{CHASSIS}/PowerSubsystem/PowerSupplies/PSU.Slot.2")
    return power["Status"]["Health"], power["LineInputVoltage"], modern["LineInputStatus"]


async def _bays(bmc: Client) -> Any:
    drives = (await bmc.get(f"{SYSTEM}/Storage/CPU.1?$expand=*($levels=1)"))["Drives"]
    return [(d["PhysicalLocation"]["PartLocation"]["LocationOrdinalValue"], d["FailurePredicted"]) for d in drives]


async def _slot_38(bmc: Client) -> Any:
    devices = (await bmc.get(f"{CHASSIS}/PCIeDevices?$expand=*($levels=1)"))["Members"]
    found = [
        d for d in devices if d["Slot"].get("Location", {}).get("PartLocation", {}).get("LocationOrdinalValue") == 38
    ]
    return [(d["PCIeInterface"]["LanesInUse"], d["PCIeInterface"]["MaxLanes"]) for d in found]


async def _gpus(bmc: Client) -> Any:
    processors = (await bmc.get(f"{SYSTEM}/Processors?$expand=*($levels=1)"))["Members"]
    return [p["Id"] for p in processors if p["ProcessorType"] == "GPU"]


async def _boot_port(bmc: Client) -> Any:
    port = await bmc.get(f"{CHASSIS}/NetworkAdapters/NIC.Slot.35/Ports/NIC.Slot.35-1")
    heard = await bmc.get(f"{SYSTEM}/NetworkPorts/Oem/Dell/DellSwitchConnections")
    switch = next(item for item in heard["Members"] if item["FQDD"] == "NIC.Slot.35-1-1")
    return port["LinkStatus"], switch["SwitchConnectionID"], switch["SwitchPortConnectionID"]


async def _adapters(bmc: Client) -> Any:
    return [path.rsplit("/", 1)[-1] for path in references((await bmc.get(f"{CHASSIS}/NetworkAdapters"))["Members"])]


ALL_GPUS = [f"Video.Slot.{n}-1" for n in range(1, 9)]
ALL_CARDS = ["NIC.Slot.35", *(f"InfiniBand.Slot.{n}" for n in (31, 32, 33, 34, 37, 38, 39, 40))]
SEEN: list[tuple[str, Callable[[Client], Any], Any, Any]] = [
    ("psu_cord_out:2", _psu, ("OK", 230, "Normal"), ("Critical", None, "LossOfInput")),
    ("psu_failed:2", _psu, ("OK", 230, "Normal"), ("Critical", 230, "Normal")),
    ("nvme_missing:4", _bays, [(n, False) for n in range(8)], [(n, False) for n in range(8) if n != 4]),
    ("nvme_failing:4", _bays, [(n, False) for n in range(8)], [(n, n == 4) for n in range(8)]),
    ("pcie_width:38", _slot_38, [(16, 16)], [(4, 16)]),
    ("gpu_missing:3", _gpus, ALL_GPUS, [name for name in ALL_GPUS if name != "Video.Slot.3-1"]),
    ("riser_loose:2", _gpus, ALL_GPUS, [name for name in ALL_GPUS if name not in {"Video.Slot.3-1", "Video.Slot.4-1"}]),
    ("riser_loose:3", _slot_38, [(16, 16)], []),
    ("nic_missing:InfiniBand.Slot.40", _adapters, ALL_CARDS, ALL_CARDS[:-1]),
    ("cable_unplugged", _boot_port, ("LinkUp", "leaf-12a", "swp1"), ("LinkDown", "No Link", "No Link")),
    ("cable_wrong_port", _boot_port, ("LinkUp", "leaf-12a", "swp1"), ("LinkUp", "leaf-12a", "swp25")),
]


@pytest.mark.parametrize(("fault", "look", "well", "sick"), SEEN, ids=[row[0] for row in SEEN])
async def test_a_fault_is_seen_where_an_idrac_shows_it_until_it_is_repaired(
    world: World, bmc: Client, fault: str, look: Callable[[Client], Any], well: Any, sick: Any
) -> None:
    assert await look(bmc) == well
    world.inject(bmc.machine.name, *fault.split(":"))
    assert await look(bmc) == sick
    world.repair(bmc.machine.name)
    assert await look(bmc) == well


async def test_a_dead_bmc_refuses_and_a_repaired_one_answers_at_its_old_address(world: World, bmc: Client) -> None:
    world.inject(bmc.machine.name, "bmc_dead")
    await asyncio.sleep(0.05)
    with pytest.raises(aiohttp.ClientError):
        await bmc.ask("GET", SYSTEM)
    world.repair(bmc.machine.name)
    await asyncio.sleep(0.05)
    assert (await bmc.get(SYSTEM))["SKU"] == bmc.machine.service_tag


async def test_a_hanging_bmc_never_answers(world: World, bmc: Client) -> None:
    world.inject(bmc.machine.name, "bmc_dead", "hang")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bmc.ask("GET", SYSTEM), 0.2)
    world.repair(bmc.machine.name)
    assert (await bmc.ask("GET", SYSTEM)).status == 200


async def test_a_busy_bmc_answers_503_for_a_while(world: World, bmc: Client) -> None:
    world.inject(bmc.machine.name, "bmc_busy", "60")
    busy = await bmc.ask("GET", SYSTEM)
    assert (busy.status, busy.codes, busy.headers["Retry-After"]) == (503, ["SYS518"], "5")
    await asyncio.sleep(0.15)
    assert (await bmc.ask("GET", SYSTEM)).status == 200
    assert bmc.machine.faults == []


async def test_a_restarting_bmc_forgets_its_sessions(bmc: Client) -> None:
    assert (await bmc.ask("POST", f"{MANAGER}/Actions/Manager.Reset", {"ResetType": "GracefulRestart"})).status == 204
    assert (await bmc.ask("GET", SYSTEM)).status == 503
    await asyncio.sleep(0.4)
    assert (await bmc.ask("GET", SYSTEM)).status == 401


async def test_etags(bmc: Client) -> None:
    assert "ETag" not in (await bmc.ask("GET", SYSTEM)).headers
    etag = (await bmc.ask("GET", f"{SYSTEM}/Bios/Settings")).headers["ETag"]
    change = {"Attributes": {"PxeDev1EnDis": "Disabled"}}
    stale = await bmc.ask("PATCH", f"{SYSTEM}/Bios/Settings", change, If_Match='"old"')
    assert stale.status == 412
    assert (await bmc.ask("PATCH", f"{SYSTEM}/Bios/Settings", change, If_Match=etag)).status == 202


async def test_what_is_not_there(bmc: Client) -> None:
    missing = await bmc.ask("GET", f"{SYSTEM}/Toaster")
    assert (missing.status, missing.codes) == (404, ["SYS403"])
    assert (await bmc.ask("PATCH", f"{SYSTEM}/Toaster", {"a": 1})).status == 404
    assert (await bmc.ask("PUT", SYSTEM, {})).status == 405
    assert (await bmc.ask("GET", f"{SYSTEM}/")).status == 200


async def test_512_bmcs_in_one_process_each_with_its_own_certificate(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    world = World(SimClock(600), build_machines(512, None, seed=1), seed=1)
    servers = BmcServers(world, tmp_path)
    began = time.monotonic()
    await servers.start()
    assert time.monotonic() - began < 20
    try:
        machines = list(world.machines.values())
        assert len({(m.bmc_address, m.bmc_port) for m in machines}) == 512
        asked = [Client(http, machine) for machine in machines[::8]]
        roots = await asyncio.gather(*(client.get(V1) for client in asked))
        tags = [root["Oem"]["Dell"]["ServiceTag"] for root in roots]
        assert tags == [client.machine.service_tag for client in asked]
        assert len(_contents(tmp_path)) == 512
    finally:
        await servers.stop()


def _contents(folder: Path) -> set[bytes]:
    return {path.read_bytes() for path in folder.iterdir()}
