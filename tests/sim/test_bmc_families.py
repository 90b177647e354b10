"""BMCs of every maker, spoken to over real HTTPS by a client that knows nothing of the simulator."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from provision.sim.bmc import BmcServers
from provision.sim.build import build_machine
from provision.sim.families import FAMILIES, Family, family
from provision.sim.inventory import host_vars, profile
from provision.sim.machine import SimMachine
from provision.sim.parts import SimError
from provision.sim.run import build_machines
from provision.sim.world import FAULTS, SimClock, World

V1 = "/redfish/v1"
PXE = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}
WHOLE = {"Boot": {**PXE["Boot"], "BootSourceOverrideMode": "UEFI"}}


class Peer:
    """Basic on every request: logins are tried elsewhere."""

    def __init__(self, http: aiohttp.ClientSession, machine: SimMachine) -> None:
        self.machine = machine
        self.row: Family = machine.family
        self._http = http

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        url = f"https://{self.machine.bmc_address}:{self.machine.bmc_port}{path}"
        sent = {"Authorization": aiohttp.encode_basic_auth("provision", "right")}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._http.request(method, url, json=body, headers=sent) as reply:
            text = await reply.read()
            return reply.status, await reply.json(content_type=None) if text else None, reply.headers

    async def get(self, path: str) -> Any:
        status, body, _ = await self.ask("GET", path)
        assert status == 200, (path, status, body)
        return body

    async def tag(self, path: str) -> str:
        return str((await self.ask("GET", path))[2].get("ETag", ""))


Start = Callable[[str], Any]


@pytest.fixture
async def peer_of(tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def start(name: str) -> Peer:
            machine = build_machine(12, 1, family=name)
            world = World(SimClock(600), [machine], seed=1)
            world.bmc_password = "right"
            stack.push_async_callback(world.stop)
            servers = BmcServers(world, tmp_path / "certificates")
            stack.push_async_callback(servers.stop)
            await servers.start()
            trusting = ssl.create_default_context()
            trusting.check_hostname = False
            trusting.verify_mode = ssl.CERT_NONE
            http = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)))
            return Peer(http, machine)

        yield start


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["@odata.id"]] if "@odata.id" in value else []
        return own + [path for item in value.values() for path in references(item)]
    return [path for item in value for path in references(item)] if isinstance(value, list) else []


async def walk(peer: Peer) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    todo = [V1]
    while todo:
        path = todo.pop()
        if path not in seen and "#" not in path:
            seen[path] = await peer.get(path)
            todo += references(seen[path])
    return seen


@pytest.mark.parametrize("name", FAMILIES)
async def test_every_link_leads_somewhere_also_when_everything_is_broken(name: str, peer_of: Start) -> None:
    peer = await peer_of(name)
    await peer.machine.press("On")
    tree = await walk(peer)
    assert len(tree) > 80
    assert all(body["@odata.id"] == path for path, body in tree.items())
    for kind in FAULTS:
        # A drive that is gone cannot fail as well; cables are swapped between two machines.
        if not kind.startswith("bmc_") and kind != "cables_swapped":
            peer.machine.inject(kind, "5" if kind == "nvme_failing" else "")
    assert len(await walk(peer)) > 40


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_bmc_says_who_made_it(name: str, peer_of: Start) -> None:
    peer = await peer_of(name)
    root, system = await peer.get(V1), await peer.get(peer.row.system)
    assert root["Vendor"] == peer.row.vendor
    assert root.get("Product", "") == peer.row.product
    assert set(root["Oem"]) == {peer.row.oem}
    assert (system["Manufacturer"], system["Model"]) == (peer.row.maker, peer.row.model)
    assert set(system["Oem"]) == {peer.row.oem}
    text = str(await walk(peer))
    others = {row.vendor for row in FAMILIES.values()} - {peer.row.vendor, "NVIDIA"}
    assert [word for word in others if f"'{word}'" in text and not (word == "Dell" and "Dell Ent" in text)] == []


@pytest.mark.parametrize("name", FAMILIES)
async def test_the_override_is_taken_where_the_maker_wants_it_and_refused_elsewhere(name: str, peer_of: Start) -> None:
    peer = await peer_of(name)
    right = peer.row.settings if peer.row.override_in_settings else peer.row.system
    wrong = peer.row.system if peer.row.override_in_settings else peer.row.settings
    body = WHOLE if peer.row.whole_boot else PXE
    if wrong:
        status, answer, _ = await peer.ask("PATCH", wrong, body, If_Match="*")
        assert status == 400
        assert "BootSource" in str(answer)
        assert peer.machine.boot_override.target == "None"
    if peer.row.if_match:
        assert (await peer.ask("PATCH", right, body))[0] == 428
        assert (await peer.ask("PATCH", right, body, If_Match='"stale"'))[0] == 412
    tag = await peer.tag(right)
    assert tag.startswith("W/") is (peer.row.tags == "weak")
    status, _, _ = await peer.ask("PATCH", right, body, **({"If_Match": tag} if tag else {}))
    assert status in {200, 204}
    assert (peer.machine.boot_override.target, peer.machine.boot_override.enabled) == ("Pxe", "Once")
    shown = (await peer.get(right))["Boot"]
    assert (shown["BootSourceOverrideTarget"], shown["BootSourceOverrideEnabled"]) == ("Pxe", "Once")
    assert peer.machine.jobs == []


@pytest.mark.parametrize("name", [name for name, row in FAMILIES.items() if row.whole_boot])
async def test_what_is_left_out_of_a_boot_object_falls_back(name: str, peer_of: Start) -> None:
    peer = await peer_of(name)
    right = peer.row.settings if peer.row.override_in_settings else peer.row.system
    assert (await peer.ask("PATCH", right, {"Boot": {"BootSourceOverrideTarget": "Pxe"}}, If_Match="*"))[0] == 204
    boot = (await peer.get(right))["Boot"]
    assert (boot["BootSourceOverrideEnabled"], boot["BootSourceOverrideMode"]) == ("Disabled", "Legacy")


@pytest.mark.parametrize("name", FAMILIES)
async def test_the_button_takes_what_is_listed(name: str, peer_of: Start) -> None:
    peer = await peer_of(name)
    system = await peer.get(peer.row.system)
    action = system["Actions"]["#ComputerSystem.Reset"]
    if peer.row.action_info:
        info = await peer.get(action["@Redfish.ActionInfo"])
        listed = info["Parameters"][0]["AllowableValues"]
    else:
        listed = action["ResetType@Redfish.AllowableValues"]
    assert listed == list(peer.row.resets)
    assert ("PowerCycle" in listed) is (name in {"idrac9", "idrac10", "openbmc"})
    assert (await peer.ask("POST", action["target"], {"ResetType": "Bogus"}))[0] == 400
    assert (await peer.ask("POST", action["target"], {"ResetType": "On"}))[0] == 204
    assert peer.machine.powered
    status, body, _ = await peer.ask("POST", action["target"], {"ResetType": "On"})
    assert status == peer.row.already
    assert ("PSU501" in str(body)) is peer.row.dell


@pytest.mark.parametrize("name", FAMILIES)
async def test_expand_is_taken_as_the_root_offers_it(name: str, peer_of: Start) -> None:
    peer = await peer_of(name)
    offer = (await peer.get(V1))["ProtocolFeaturesSupported"]["ExpandQuery"]
    deep = offer["MaxLevels"]
    memory = f"{peer.row.system}/Memory"
    status, body, _ = await peer.ask("GET", f"{memory}?$expand=.($levels=1)")
    assert status == 200
    assert all("SerialNumber" in one for one in body["Members"])
    assert (await peer.ask("GET", f"{memory}?$expand=.($levels={deep + 1})"))[0] == 400
    everything = (await peer.ask("GET", f"{memory}?$expand=*"))[0]
    assert everything == (200 if offer["ExpandAll"] else 400)


async def test_hpe_writes_macs_small_and_tells_no_link_where_its_interfaces_stand(peer_of: Start) -> None:
    peer = await peer_of("hpe")
    one = await peer.get(f"{peer.row.system}/EthernetInterfaces/1")
    assert one["MACAddress"] == peer.machine.boot_nic.mac.lower()
    assert "LinkStatus" not in one
    assert (await peer.ask("GET", f"{peer.row.chassis}/PowerSubsystem"))[0] == 404


@pytest.mark.parametrize("name", ["supermicro", "lenovo"])
async def test_the_bmcs_own_interface_stands_among_those_of_the_host(name: str, peer_of: Start) -> None:
    peer = await peer_of(name)
    found = await peer.get(f"{peer.row.system}/EthernetInterfaces")
    assert any(one["@odata.id"].endswith("/ToManager") for one in found["Members"])


async def test_lenovo_writes_addresses_of_ports_without_colons(peer_of: Start) -> None:
    peer = await peer_of("lenovo")
    port = await peer.get(f"{peer.row.chassis}/NetworkAdapters/slot-35/NetworkPorts/0")
    assert port["AssociatedNetworkAddresses"] == [peer.machine.boot_nic.mac.replace(":", "").upper()]


async def test_openbmc_lists_its_tray_before_the_host(peer_of: Start) -> None:
    peer = await peer_of("openbmc")
    members = [one["@odata.id"] for one in (await peer.get(f"{V1}/Systems"))["Members"]]
    assert members == [peer.row.tray, peer.row.system]
    assert len((await peer.get(f"{peer.row.tray}/Processors"))["Members"]) == 8


def test_the_inventory_calls_ports_as_their_maker_does() -> None:
    fleet = build_machines(len(FAMILIES), None, 1, tuple(FAMILIES))
    World(SimClock(1), fleet)
    for machine in fleet:
        named = [cable["nic"] for cable in host_vars(machine)["cabling"]]
        assert len(set(named)) == 10
        assert profile(machine)["boot_nic"] == named[0]
    assert [machine.family.name for machine in fleet] == list(FAMILIES)


def test_an_unknown_family_is_refused_with_the_list() -> None:
    with pytest.raises(SimError, match="idrac9, idrac10, hpe"):
        family("cisco")
