"""Looking after the BMC itself: its restart, its clock by NTP, who is logged in, and versions of firmware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from redfish_lab import DictPins, RealClock
from redfish_payloads import collection, inline, ref, small, whole
from redfish_scripted import CHASSIS, MANAGER, ROOT, SESSIONS, SYSTEM, Reply, refusal

from provision.adapters.redfish.bmc import RedfishBmc
from provision.errors import RefusedError, UnavailableError
from provision.model.secret import Credential, Secret

MAC = "B0:26:28:00:10:01"
RESET, PROTOCOL = f"{MANAGER}/Actions/Manager.Reset", f"{MANAGER}/NetworkProtocol"
SERVERS = ("ntp1.example", "ntp2.example")


def _resettable(*kinds: str, info: bool = False) -> dict[str, Any]:
    tree = small(MAC)
    action: dict[str, Any] = {"target": RESET}
    if info:
        action["@Redfish.ActionInfo"] = f"{MANAGER}/ResetActionInfo"
        parameter = {"Name": "ResetType", "AllowableValues": list(kinds)}
        tree[f"{MANAGER}/ResetActionInfo"] = {"Parameters": [parameter]}
    elif kinds:
        action["ResetType@Redfish.AllowableValues"] = list(kinds)
    tree[MANAGER]["Actions"] = {"#Manager.Reset": action}
    return tree


@pytest.mark.parametrize(
    ("kinds", "info", "sent"),
    [
        (("GracefulRestart",), False, "GracefulRestart"),
        (("ForceRestart",), False, "ForceRestart"),
        (("ForceRestart", "GracefulRestart"), True, "GracefulRestart"),
        ((), False, "GracefulRestart"),
    ],
)
async def test_the_gentlest_restart_that_is_allowed(
    serve: Any, client: Any, kinds: tuple[str, ...], info: bool, sent: str
) -> None:
    bmc = await serve(_resettable(*kinds, info=info))
    bmc.script("POST", RESET, Reply(204))
    mine = client(bmc.node())
    await mine.reset_bmc()
    assert [(item.path, item.body) for item in bmc.writes] == [(RESET, {"ResetType": sent})]
    assert await mine.still_there()
    bmc.sessions.clear()  # it has restarted: nobody is logged in
    logins = bmc.logins
    assert not await mine.still_there()
    assert bmc.logins == logins


async def test_a_manager_that_may_not_be_restarted_is_left_alone(serve: Any, client: Any) -> None:
    bmc = await serve(_resettable("Nmi"))
    with pytest.raises(RefusedError, match="allows only Nmi"):
        await client(bmc.node()).reset_bmc()
    assert bmc.writes == []


async def test_a_restart_that_cuts_its_own_answer_off_is_sent_once(serve: Any, client: Any) -> None:
    bmc = await serve(_resettable("GracefulRestart"))

    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    bmc.script("POST", RESET, *[hang_up] * 3)
    with pytest.raises(UnavailableError):
        await client(bmc.node()).reset_bmc()
    assert len(bmc.writes) == 1


def _with_ntp(*, on: bool, servers: tuple[str, ...] = ()) -> dict[str, Any]:
    tree = small(MAC)
    tree[MANAGER]["NetworkProtocol"] = ref(PROTOCOL)
    tree[PROTOCOL] = {"@odata.id": PROTOCOL, "NTP": {"ProtocolEnabled": on, "NTPServers": list(servers)}}
    return tree


@pytest.fixture
def with_servers(stack: Any) -> Callable[..., RedfishBmc]:
    """A client whose site names NTP servers."""

    def make(bmc: Any, *servers: str) -> RedfishBmc:
        login = Credential("bmc", "prov", Secret("x"))
        mine = RedfishBmc(bmc.node(), login, DictPins(), clock=RealClock(), ntp=servers)
        stack.push_async_callback(mine.close)
        return mine

    return make


async def test_a_clock_that_takes_a_time_gets_ours(serve: Any, with_servers: Any) -> None:
    bmc = await serve(_with_ntp(on=False))
    await with_servers(bmc, *SERVERS).set_clock()
    assert [(item.path, list(item.body)) for item in bmc.writes] == [(MANAGER, ["DateTime"])]


async def test_a_clock_that_takes_none_gets_the_sites_servers(serve: Any, with_servers: Any) -> None:
    bmc = await serve(_with_ntp(on=False))
    bmc.script("PATCH", MANAGER, Reply(400, refusal("Base.1.12.PropertyNotWritable", "DateTime is read-only.")))
    await with_servers(bmc, *SERVERS).set_clock()
    assert bmc.writes[-1].path == PROTOCOL
    assert bmc.writes[-1].body == {"NTP": {"ProtocolEnabled": True, "NTPServers": list(SERVERS)}}


async def test_ntp_that_is_on_gets_our_servers_once(serve: Any, with_servers: Any) -> None:
    bmc = await serve(_with_ntp(on=True, servers=("pool.example",)))
    mine = with_servers(bmc, *SERVERS)
    await mine.set_clock()
    assert [item.path for item in bmc.writes] == [PROTOCOL]
    with pytest.raises(RefusedError) as refused:
        await mine.set_clock()
    assert refused.value.code == "RAC059"
    assert len(bmc.writes) == 1


async def test_ntp_that_is_on_is_left_alone_by_a_site_without_servers(serve: Any, with_servers: Any) -> None:
    bmc = await serve(_with_ntp(on=True))
    with pytest.raises(RefusedError, match="NTP is on"):
        await with_servers(bmc).set_clock()
    assert bmc.writes == []


async def test_who_is_logged_in(serve: Any, client: Any) -> None:
    tree = small(MAC)
    theirs, ours = f"{SESSIONS}/9", f"{SESSIONS}/1"
    tree[SESSIONS] = collection(SESSIONS, [theirs, ours])
    tree[theirs] = {"@odata.id": theirs, "Id": "9", "UserName": "root", "ClientOriginIPAddress": "192.0.2.7"}
    tree[ours] = {"@odata.id": ours, "Id": "1", "UserName": "prov", "CreatedTime": "2026-05-01T08:00:00Z"}
    found = await client((await serve(tree)).node()).sessions()
    assert [(one.name, one.user, one.client, one.ours, one.stale) for one in found] == [
        ("9", "root", "192.0.2.7", False, False),
        ("1", "prov", "", True, False),
    ]


async def test_versions_of_everything_that_tells_one(serve: Any, client: Any) -> None:
    tree = whole()
    tree[MANAGER] |= {"FirmwareVersion": "7.10.30.00", "Model": "16G Monolithic"}
    tree[f"{SYSTEM}/Storage/CPU.1/Drives/Disk.Bay.0"]["Revision"] = "2.3.0"
    tree[f"{SYSTEM}/Processors/Video.Slot.1-1"]["FirmwareVersion"] = "96.00.99"
    for card in tree[f"{CHASSIS}/NetworkAdapters"]["Members"]:
        card["Controllers"][0]["FirmwarePackageVersion"] = "28.39.1002"
    tree[ROOT]["UpdateService"] = ref(f"{ROOT}/UpdateService")
    listing = f"{ROOT}/UpdateService/FirmwareInventory"
    tree[f"{ROOT}/UpdateService"] = {"FirmwareInventory": ref(listing)}
    board = {"@odata.id": f"{listing}/HGX_FW_BMC_0", "Id": "HGX_FW_BMC_0", "Version": "HGX-24.10"}
    other = {"@odata.id": f"{listing}/BIOS", "Id": "BIOS", "Version": "2.2.3"}
    tree[listing] = inline(listing, [board, other])
    bmc = await serve(tree)
    mine = client(bmc.node())
    found, gaps = await mine.firmware()
    told = {(one.part, one.version) for one in found}
    assert told == {
        ("bmc", "7.10.30.00"),
        ("bios", "2.2.3"),
        ("drive", "2.3.0"),
        ("gpu", "96.00.99"),
        ("nic", "28.39.1002"),
    }
    assert sum(one.part == "nic" for one in found) == 10
    assert bmc.count("GET", listing) == 0
    more, _ = await mine.firmware(baseboard=True)
    assert next(one for one in more if one.part == "gpu-baseboard").version == "HGX-24.10"
    assert len(more) == len(found) + 1
    assert all("Firmware" not in gap.where for gap in gaps)
    assert bmc.writes == []
