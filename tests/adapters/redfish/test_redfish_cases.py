"""Failures seen on real BMCs, replayed: what the client makes of each. The R-numbers are those of the case list."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from redfish_lab import RealClock
from redfish_payloads import boot, collection, interface, ref, root, small, system, ten_nics
from redfish_scripted import CHASSIS, MANAGER, ROOT, SYSTEM, Reply, refusal

from provision.errors import GarbledError, RefusedError, UnavailableError
from provision.model.bmc import Button, Link, Power
from provision.model.evidence import Reading
from provision.model.profile import BootMethod

MAC = "B0:26:28:00:10:01"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
INTERFACES = f"{SYSTEM}/EthernetInterfaces"


# -- reading ---------------------------------------------------------------------------------------------------------


async def test_r6_a_busy_bmc_is_asked_again_after_the_pause_it_names(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("GET", INTERFACES, *[Reply(503, refusal("IDRAC.2.9.SYS518"), {"Retry-After": "0"})] * 3)
    assert len((await client(bmc.node()).harvest()).ports) == 1
    assert bmc.count("GET", INTERFACES) == 4


async def test_r6_a_pause_longer_than_the_deadline_is_handed_on(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("GET", f"{ROOT}/Systems", Reply(503, refusal("IDRAC.2.9.SYS518"), {"Retry-After": "300"}))
    with pytest.raises(UnavailableError) as raised:
        await client(bmc.node()).harvest()
    assert raised.value.code == "not-ready"


async def test_r7_an_empty_list_of_systems_is_not_ready(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("GET", f"{ROOT}/Systems", Reply(200, collection(f"{ROOT}/Systems", [])), Reply(200, {"Name": "x"}))
    mine = client(bmc.node())
    for _ in range(2):
        with pytest.raises(UnavailableError) as raised:
            await mine.harvest()
        assert raised.value.code == "not-ready"
        assert raised.value.retry_after_s == 10
    assert len((await mine.harvest()).ports) == 1


async def test_r9_a_dead_tray_beside_the_host_is_a_gap(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    hgx = f"{ROOT}/Systems/HGX_Baseboard_0"
    bmc.tree[f"{ROOT}/Systems"] = collection(f"{ROOT}/Systems", [hgx, SYSTEM])
    dead = Reply(503, refusal("Ami.1.0.HMCCommuicationFailed", "HOSTBMC fails to communicate with HMC"))
    bmc.script("GET", hgx, *[dead] * 9)
    mine = client(bmc.node())
    harvest = await mine.harvest()
    assert [str(port.mac) for port in harvest.ports] == [MAC.lower()]
    assert [(gap.where, "HMCCommuicationFailed" in gap.why) for gap in harvest.gaps] == [(hgx, True)]
    counts = [e.part.kind for e in (await mine.health()).evidence if e.source == "redfish/count"]
    assert "gpu" not in counts, "GPUs behind a dead tray are unknown, not missing"


async def test_r9_a_tray_that_answers_is_not_taken_for_the_host(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    hgx = f"{ROOT}/Systems/HGX_Baseboard_0"
    bmc.tree[hgx] = {"@odata.id": hgx, "Id": "HGX_Baseboard_0", "SystemType": "Physical", "PowerState": "On"}
    bmc.tree[f"{ROOT}/Systems"] = collection(f"{ROOT}/Systems", [hgx, SYSTEM])
    assert (await client(bmc.node()).harvest()).identity.service_tag == "ABC1234"


@pytest.mark.parametrize("silent", ["", None, "absent"])
async def test_r10_silence_about_a_link_is_unknown_and_never_down(silent: Any, serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    port = bmc.tree[f"{INTERFACES}/NIC.Slot.3-1-1"]
    port["LinkStatus"] = silent
    if silent == "absent":
        del port["LinkStatus"]
    assert (await client(bmc.node()).harvest()).ports[0].link is Link.UNKNOWN


async def test_r11_an_empty_mac_is_found_in_the_other_places(serve: Any, client: Any) -> None:
    """The interface is empty, the card's port knows the address."""
    bmc = await serve(small(MAC, ""))
    card = f"{CHASSIS}/NetworkAdapters/NIC.Slot.4"
    function, port = f"{card}/NetworkDeviceFunctions/NIC.Slot.4-1-1", f"{card}/Ports/NIC.Slot.4-1"
    bmc.tree |= {
        f"{CHASSIS}/NetworkAdapters": collection(f"{CHASSIS}/NetworkAdapters", [card]),
        card: {
            "@odata.id": card,
            "Id": "NIC.Slot.4",
            "NetworkDeviceFunctions": ref(f"{card}/NetworkDeviceFunctions"),
            "Ports": ref(f"{card}/Ports"),
            "Controllers": [{"Links": {"NetworkDeviceFunctions": [ref(function)]}}],
        },
        f"{card}/NetworkDeviceFunctions": collection(f"{card}/NetworkDeviceFunctions", [function]),
        function: {"@odata.id": function, "Id": "NIC.Slot.4-1-1", "Ethernet": {"MACAddress": ""}},
        f"{card}/Ports": collection(f"{card}/Ports", [port]),
        port: {"@odata.id": port, "Id": "NIC.Slot.4-1", "Ethernet": {"AssociatedMACAddresses": ["B0-26-28-00-10-02"]}},
    }
    ports = (await client(bmc.node()).harvest()).ports
    assert [(p.name, p.locator, str(p.mac)) for p in ports] == [
        ("NIC.Slot.3-1-1", "Slot 3 Port 1", "b0:26:28:00:10:01"),
        ("NIC.Slot.4-1-1", "Slot 4 Port 1", "b0:26:28:00:10:02"),
    ]


async def test_r11_or_in_a_boot_option(serve: Any, client: Any) -> None:
    bmc = await serve(small(""))
    path = "PciRoot(0x13)/Pci(0x2,0x0)/Pci(0x0,0x0)"
    bmc.tree[f"{INTERFACES}/NIC.Slot.3-1-1"]["UefiDevicePath"] = path
    options = f"{SYSTEM}/BootOptions"
    bmc.tree[SYSTEM]["Boot"]["BootOptions"] = ref(options)
    option = {
        "@odata.id": f"{options}/1",
        "Id": "1",
        "DisplayName": "PXE",
        "UefiDevicePath": f"{path}/MAC(B02628001001,0x1)",
    }
    bmc.tree |= {options: collection(options, [f"{options}/1"]), f"{options}/1": option}
    ports = (await client(bmc.node()).harvest()).ports
    assert [(p.name, str(p.mac)) for p in ports] == [("NIC.Slot.3-1-1", MAC.lower())]
    assert ports[0].network_boot


async def test_r13_guids_are_kept_apart_and_what_is_no_port_of_the_host_is_left_out(serve: Any, client: Any) -> None:
    bmc = await serve(small())
    paths = {
        "NIC1": interface(f"{INTERFACES}/NIC1", "00620B4C284E"),
        "ToManager": interface(f"{INTERFACES}/ToManager", "BE:3A:F2:00:00:01", Name="Manager Ethernet Interface"),
        "VLAN1": interface(f"{INTERFACES}/VLAN1", "00620B4C284F", EthernetInterfaceType="Virtual"),
        "Zero": interface(f"{INTERFACES}/Zero", "00:00:00:00:00:00"),
        "Cast": interface(f"{INTERFACES}/Cast", "01:00:5e:00:00:01"),
        "Usb": interface(f"{INTERFACES}/Usb", "3a:28:97:00:00:01", UefiDevicePath="PciRoot(0x0)/USB(0xA,0x0)"),
    }
    card = f"{CHASSIS}/NetworkAdapters/DE080000"
    bmc.tree |= {one["@odata.id"]: one for one in paths.values()}
    bmc.tree[INTERFACES] = collection(INTERFACES, [one["@odata.id"] for one in paths.values()])
    bmc.tree |= {
        f"{CHASSIS}/NetworkAdapters": collection(f"{CHASSIS}/NetworkAdapters", [card]),
        card: {"@odata.id": card, "Id": "DE080000", "NetworkPorts": ref(f"{card}/NetworkPorts")},
        f"{card}/NetworkPorts": collection(f"{card}/NetworkPorts", [f"{card}/NetworkPorts/0"]),
        f"{card}/NetworkPorts/0": {
            "@odata.id": f"{card}/NetworkPorts/0",
            "Id": "0",
            "ActiveLinkTechnology": "InfiniBand",
            "AssociatedNetworkAddresses": ["0200:00ff:ffaa:0801", "0000:0000:0000:0000"],
            "LinkStatus": "Down",
        },
    }
    ports = {port.name: port for port in (await client(bmc.node()).harvest()).ports}
    assert {name: str(port.mac) for name, port in ports.items() if port.mac} == {"NIC1": "00:62:0b:4c:28:4e"}
    infiniband = ports["DE080000/0"]
    assert (infiniband.kind, infiniband.guids, infiniband.link) == ("infiniband", ("0200:00ff:ffaa:0801",), Link.DOWN)


async def test_r14_a_dangling_link_is_a_gap_with_address_and_status(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.tree[INTERFACES]["Members"].append(ref(f"{INTERFACES}/NIC.Slot.7-1"))
    bmc.script("GET", f"{CHASSIS}/NetworkAdapters", *[Reply(400, refusal("iLO.2.15.UnsupportedOperation"))] * 4)
    bmc.tree[CHASSIS]["NetworkAdapters"] = ref(f"{CHASSIS}/NetworkAdapters")
    harvest = await client(bmc.node()).harvest()
    assert len(harvest.ports) == 1
    assert sorted((gap.where, gap.why[:8]) for gap in harvest.gaps) == [
        (f"{CHASSIS}/NetworkAdapters", "HTTP 400"),
        (f"{INTERFACES}/NIC.Slot.7-1", "HTTP 404"),
    ]


GARBAGE = [
    (b"<html><body>Service starting</body></html>", "not JSON"),
    (b'{"Members": [', "not JSON"),
    (b"[1, 2]", "a JSON list"),
    (b"null", "a JSON NoneType"),
    (b"", "an empty body"),
    (b'{"a":' * 3000 + b"1" + b"}" * 3000, "not JSON"),
    (b"\xff\xfe\x00garbage", "not JSON"),
]


@pytest.mark.parametrize(("body", "why"), GARBAGE, ids=[str(number) for number in range(len(GARBAGE))])
async def test_garbled_bodies_are_named_with_their_first_bytes(body: bytes, why: str, serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    mine = client(bmc.node())
    await mine.status()
    bmc.script("GET", SYSTEM, Reply(200, body))
    with pytest.raises(GarbledError, match=why) as raised:
        await mine.status()
    assert raised.value.payload == body[:200]


async def test_a_garbled_collection_is_a_gap(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("GET", INTERFACES, Reply(200, b"<html>busy</html>"))
    harvest = await client(bmc.node()).harvest()
    assert harvest.ports == ()
    assert "<html>busy" in harvest.gaps[0].why


async def test_an_answer_that_breaks_off_is_asked_for_again(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))

    async def torn(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "5000", "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"Members": [')
        assert request.transport is not None
        request.transport.abort()
        return response

    bmc.script("GET", INTERFACES, torn)
    assert len((await client(bmc.node()).harvest()).ports) == 1


async def test_a_bmc_that_never_stops_writing_is_cut_off(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(20):
            await response.write(b" " * 1024 * 1024)
        return response

    bmc.script("GET", f"{ROOT}/Systems", *[endless] * 5)
    with pytest.raises(UnavailableError, match="more than 16777216 bytes"):
        await client(bmc.node()).harvest()


async def test_one_silent_resource_is_a_gap_and_a_silent_bmc_is_unavailable(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC, "B0:26:28:00:10:02"))
    bmc.script("GET", f"{INTERFACES}/NIC.Slot.4-1-1", *[Reply(200, {}, slow_s=1.0)] * 2)
    harvest = await client(bmc.node(), request_s=0.2).harvest()
    assert len(harvest.ports) == 1
    assert "no answer in 0.2 s" in harvest.gaps[0].why
    bmc.script("GET", f"{ROOT}/Systems", *[Reply(200, {}, slow_s=1.0)] * 4)
    with pytest.raises(UnavailableError):
        await client(bmc.node(), request_s=0.2).harvest()


async def test_a_harvest_with_passing_gaps_is_read_again_and_a_whole_one_is_kept(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("GET", f"{INTERFACES}/NIC.Slot.3-1-1", *[Reply(503, refusal("IDRAC.2.9.SYS518"))] * 5)
    mine = client(bmc.node())
    first = await mine.harvest()
    assert (first.ports, len(first.gaps)) == ((), 1)
    second = await mine.harvest()
    assert (len(second.ports), second.gaps) == (1, ())
    requests = mine.requests
    assert await mine.harvest() is second
    assert mine.requests == requests


async def test_a_refused_expand_falls_back_and_is_not_tried_again(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.tree[ROOT] = root(expand=True)

    async def refuse(request: web.Request) -> web.StreamResponse:
        body = refusal("Base.1.12.QueryNotSupportedOnResource") if request.query_string else bmc.tree[request.path]
        return await Reply(400 if request.query_string else 200, body).send()

    for path in (f"{ROOT}/Systems", INTERFACES):
        bmc.script("GET", path, *[refuse] * 8)
    assert len((await client(bmc.node()).harvest()).ports) == 1
    assert sum("expand" in item.path for item in bmc.seen if item.path.startswith(INTERFACES)) <= 1


async def test_pages_are_followed_once_each_and_members_counted_once(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC, "B0:26:28:00:10:02"))
    first, second = bmc.tree[INTERFACES]["Members"]
    page2 = f"{INTERFACES}?$skip=1"

    async def pages(request: web.Request) -> web.StreamResponse:
        one = {"Members": [first], "Members@odata.nextLink": page2}
        two = {"Members": [first, second], "Members@odata.nextLink": page2}
        return await Reply(200, two if "skip" in request.query_string else one).send()

    bmc.script("GET", INTERFACES, *[pages] * 9)
    harvest = await client(bmc.node()).harvest()
    assert len(harvest.ports) == 2
    assert "in circles" in harvest.gaps[0].why
    assert bmc.count("GET", INTERFACES) == 2


async def test_a_link_to_another_machine_is_not_followed(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.tree[INTERFACES]["Members"].append(ref("//127.0.0.9/redfish/v1/evil"))
    harvest = await client(bmc.node()).harvest()
    assert "another machine" in harvest.gaps[0].why


async def test_a_redirect_is_not_followed(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("GET", SYSTEM, Reply(308, None, {"Location": "https://127.0.0.9/"}))
    with pytest.raises(UnavailableError, match="redirects are not followed"):
        await client(bmc.node()).harvest()


# -- network boot ----------------------------------------------------------------------------------------------------


async def test_ten_nics_boot_once_and_read_back_in_thirteen_requests(serve: Any, client: Any) -> None:
    """One of them looks, beside the read-back, whether the BMC made a job of the override (R16)."""
    bmc = await serve(ten_nics())
    mine = client(bmc.node())
    harvest = await mine.harvest()
    await mine.set_network_boot_once(BootMethod.PXE)
    status = await mine.status()
    await mine.close()
    assert len({port.mac for port in harvest.ports}) == 10
    assert [port.name for port in harvest.ports if port.network_boot] == ["NIC.Slot.3-1-1"]
    assert harvest.ports[0].neighbour is not None
    assert status.network_boot_set
    assert len(bmc.seen) <= 13
    assert bmc.sessions == {}


async def test_r16_mode_is_not_sent_where_it_is_right_already(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    await client(bmc.node()).set_network_boot_once(BootMethod.PXE)
    override = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
    assert [write.body for write in bmc.writes] == [{"Boot": override}]


async def test_what_is_set_already_is_not_set_again(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    mine = client(bmc.node())
    for _ in range(2):
        await mine.set_network_boot_once(BootMethod.UEFI_HTTP)
    assert len(bmc.writes) == 1
    assert (await mine.status()).boot_target == "UefiHttp"


async def test_r17_supermicro_gets_all_three_and_a_lie_shows_in_the_read_back(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC, Manufacturer="Supermicro"))
    bmc.tree[ROOT] = root(vendor="", Oem={"Supermicro": {}})
    bmc.ignore_patch = True
    mine = client(bmc.node())
    await mine.set_network_boot_once(BootMethod.PXE)
    assert set(bmc.writes[0].body["Boot"]) == {
        "BootSourceOverrideTarget",
        "BootSourceOverrideEnabled",
        "BootSourceOverrideMode",
    }
    assert not (await mine.status()).network_boot_set


def _wants_tag(*good: str | None) -> Any:
    async def answer(request: web.Request) -> web.StreamResponse:
        tag = request.headers.get("If-Match")
        status = 204 if tag in good else 428 if tag is None else 412
        return await Reply(status, None if status == 204 else refusal("Ami.1.0.PreconditionHeaderMissing")).send()

    return answer


TAGS = [
    ('"1720039110"', '"1720039110"'),
    ('W/"9B9F7D67"', '"9B9F7D67"'),
    ('W/"9B9F7D67"', 'W/"9B9F7D67"'),
    ('"a1", "a1"', '"a1"'),
    ("1720039110", '"1720039110"'),
    ("1720039110", "1720039110"),
    ('""', None),
    ('W/""', None),
    ('"stale"', None),
]


@pytest.mark.parametrize(("shown", "wanted"), TAGS)
async def test_r19_r20_tags_of_every_kind(shown: str, wanted: str | None, serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.etags[SYSTEM] = shown
    bmc.script("PATCH", SYSTEM, *[_wants_tag(wanted)] * 6)
    await client(bmc.node()).set_network_boot_once(BootMethod.PXE)
    assert bmc.writes[-1].headers.get("If-Match") == wanted
    assert len({write.headers.get("If-Match") for write in bmc.writes}) == len(bmc.writes), "no tag is tried twice"


async def test_r20_no_tag_fits_and_it_gives_up(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.etags[SYSTEM] = '"x"'
    bmc.script("PATCH", SYSTEM, *[_wants_tag("never")] * 9)
    with pytest.raises(RefusedError):
        await client(bmc.node()).set_network_boot_once(BootMethod.PXE)
    assert len(bmc.writes) <= 4


@pytest.mark.parametrize(
    "message", ["Ami.1.0.OperationSupportedInFutureStateURI", "Base.1.12.PropertyNotWritable", "IDRAC.2.9.SYS429"]
)
async def test_r21_the_override_lives_in_the_other_resource(message: str, serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    settings = f"{SYSTEM}/Settings"
    bmc.tree[SYSTEM]["@Redfish.Settings"] = {"SettingsObject": ref(settings)}
    bmc.tree[settings] = {"@odata.id": settings, "Boot": boot()}
    bmc.script("PATCH", SYSTEM, Reply(400, refusal(message)))
    await client(bmc.node()).set_network_boot_once(BootMethod.PXE)
    assert [write.path for write in bmc.writes] == [SYSTEM, settings]


async def test_r21_a_17g_dell_is_written_and_read_back_in_its_settings(serve: Any, client: Any) -> None:
    generation = {"Dell": {"DellSystem": {"SystemGeneration": "17G Monolithic"}}}
    bmc = await serve(small(MAC, Oem=generation))
    settings = f"{SYSTEM}/Settings"
    bmc.tree[SYSTEM]["@Redfish.Settings"] = {"SettingsObject": ref(settings)}
    bmc.tree[settings] = {"@odata.id": settings, "Boot": boot()}
    mine = client(bmc.node())
    await mine.set_network_boot_once(BootMethod.PXE)
    assert [write.path for write in bmc.writes] == [settings]
    assert (await mine.status()).network_boot_set
    assert (await mine.harvest()).identity.family == "dell-idrac10"


async def test_r24_lockdown_is_named(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("PATCH", SYSTEM, Reply(400, refusal("IDRAC.2.9.SYS406", "System Lockdown mode is enabled.")))
    with pytest.raises(RefusedError, match="lockdown") as raised:
        await client(bmc.node()).set_network_boot_once(BootMethod.PXE)
    assert raised.value.code == "SYS406"
    assert len(bmc.writes) == 1


async def test_r24_r22_readiness_names_disabled_devices_lockdown_and_jobs_of_others(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC, Bios=ref(f"{SYSTEM}/Bios")))
    jobs, attributes = f"{MANAGER}/Oem/Dell/Jobs", f"{MANAGER}/Oem/Dell/DellAttributes/iDRAC.Embedded.1"
    states = {"JID_1": "Completed", "JID_2": "Scheduled"}
    bmc.tree |= {
        f"{SYSTEM}/Bios": {
            "@odata.id": f"{SYSTEM}/Bios",
            "Attributes": {"PxeDev1EnDis": "Disabled", "HttpDev1EnDis": "Disabled", "BootMode": "Uefi"},
        },
        attributes: {"@odata.id": attributes, "Attributes": {"Lockdown.1.SystemLockdown": "Enabled"}},
        jobs: collection(jobs, [f"{jobs}/{name}" for name in states]),
        **{
            f"{jobs}/{name}": {
                "@odata.id": f"{jobs}/{name}",
                "Id": name,
                "JobType": "BIOSConfiguration",
                "JobState": state,
            }
            for name, state in states.items()
        },
    }
    ready = await client(bmc.node()).readiness()
    assert ready.network_device_enabled is False
    assert ready.lockdown is True
    assert ready.pending_jobs == ("JID_2 BIOSConfiguration Scheduled",)
    assert bmc.writes == []


async def test_a_method_that_is_not_offered_is_refused_before_anything_is_sent(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.tree[SYSTEM]["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"] = ["None", "Pxe"]
    with pytest.raises(RefusedError, match="offers no UefiHttp"):
        await client(bmc.node()).set_network_boot_once(BootMethod.UEFI_HTTP)
    assert bmc.writes == []


async def test_r28_a_write_whose_answer_is_lost_is_not_sent_again(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    mine = client(bmc.node(), request_s=0.3)
    bmc.script("PATCH", SYSTEM, Reply(200, {}, slow_s=1.0))
    with pytest.raises(UnavailableError):
        await mine.set_network_boot_once(BootMethod.PXE)
    assert len(bmc.writes) == 1


# -- power -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "button", "sent"),
    [
        ("Off", Button.ON, "On"),
        ("On", Button.OFF, "GracefulShutdown"),
        ("On", Button.FORCE_OFF, "ForceOff"),
        ("On", Button.RESTART, "ForceRestart"),
        ("Off", Button.RESTART, "On"),
        ("On", Button.ON, None),
        ("Off", Button.FORCE_OFF, None),
    ],
)
async def test_the_button_that_fits_the_state(
    state: str, button: Button, sent: str | None, serve: Any, client: Any
) -> None:
    bmc = await serve(small(MAC, PowerState=state))
    bmc.script("POST", RESET, Reply(204))
    await client(bmc.node()).press(button)
    assert [write.body for write in bmc.writes] == ([{"ResetType": sent}] if sent else [])


@pytest.mark.parametrize("status", [400, 409])
async def test_r25_there_already_is_success(status: int, serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC, PowerState="Off"))

    async def too_late(request: web.Request) -> web.StreamResponse:
        bmc.tree[SYSTEM]["PowerState"] = "On"
        return await Reply(status, refusal("IDRAC.1.6.PSU501", "Server is already powered ON.")).send()

    bmc.script("POST", RESET, too_late)
    await client(bmc.node()).press(Button.ON)
    assert len(bmc.writes) == 1


async def test_r25_a_conflict_after_power_off_is_waited_out(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC, PowerState="Off"))
    bmc.script("POST", RESET, *[Reply(409, refusal("Base.1.12.ResourceInUse"))] * 2, Reply(204))
    await client(bmc.node()).press(Button.ON)
    assert len(bmc.writes) == 3


async def test_r27_reset_types_come_from_the_action_info(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    info = f"{SYSTEM}/ResetActionInfo"
    bmc.tree[SYSTEM]["Actions"]["#ComputerSystem.Reset"] = {"target": RESET, "@Redfish.ActionInfo": info}
    values = ["ForceOff", "PowerCycle", "On"]
    bmc.tree[info] = {"@odata.id": info, "Parameters": [{"Name": "ResetType", "AllowableValues": values}]}
    bmc.script("POST", RESET, Reply(204))
    mine = client(bmc.node())
    await mine.press(Button.RESTART)
    assert bmc.writes[0].body == {"ResetType": "PowerCycle"}
    with pytest.raises(RefusedError, match="use force-off instead"):
        await mine.press(Button.OFF)


async def test_r27_a_kind_that_is_refused_gives_way_to_the_next(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.tree[SYSTEM]["Actions"] = {"#ComputerSystem.Reset": {"target": RESET}}
    bmc.script("POST", RESET, Reply(400, refusal("Base.1.5.ActionParameterNotSupported")), Reply(204))
    await client(bmc.node()).press(Button.RESTART)
    assert [write.body["ResetType"] for write in bmc.writes] == ["ForceRestart", "PowerCycle"]


@pytest.mark.parametrize("happened", [True, False])
async def test_r28_a_lost_answer_is_looked_up(happened: bool, serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC, PowerState="Off"))

    async def late(request: web.Request) -> web.StreamResponse:
        if happened:
            bmc.tree[SYSTEM]["PowerState"] = "On"
        return await Reply(204, slow_s=1.0).send()

    bmc.script("POST", RESET, late)
    mine = client(bmc.node(), request_s=0.3)
    if happened:
        await mine.press(Button.ON)
    else:
        with pytest.raises(UnavailableError):
            await mine.press(Button.ON)
    assert len(bmc.writes) == 1


# -- logs, clock, status ---------------------------------------------------------------------------------------------

LCLOG = f"{MANAGER}/LogServices/Lclog"


def _with_log(tree: dict[str, Any], log: str = LCLOG) -> dict[str, Any]:
    services = f"{MANAGER}/LogServices"
    tree[MANAGER]["LogServices"] = ref(services)
    tree[services] = collection(services, [log])
    tree[log] = {"@odata.id": log, "Entries": ref(f"{log}/Entries")}
    return tree


def _entry(number: int, hour: int, message_id: str, *arguments: str, **more: Any) -> dict[str, Any]:
    return {
        "@odata.id": f"{LCLOG}/Entries/{number}",
        "Id": str(number),
        "Created": f"2026-05-01T{hour:02d}:00:00+00:00",
        "Severity": "Critical",
        "MessageId": message_id,
        "Message": f"message {number}",
        "MessageArgs": list(arguments),
        **more,
    }


async def test_r29_log_entries_since_power_on_each_once(serve: Any, client: Any) -> None:
    """Power-on was at 08:00; pages overlap; the list runs from new to old and is left where it becomes too old."""
    bmc = await serve(_with_log(small(MAC)))
    entries = f"{LCLOG}/Entries"
    pages = [
        [_entry(900, 10, "IDRAC.2.9.PSU0003", "2"), _entry(899, 9, "IDRAC.2.9.USR0030", Severity="OK")],
        [_entry(899, 9, "IDRAC.2.9.USR0030", Severity="OK"), _entry(898, 7, "IDRAC.2.9.PSU0001", "1")],
        [_entry(1, 6, "IDRAC.2.9.PDR1001")],
    ]

    async def page(request: web.Request) -> web.StreamResponse:
        number = int(request.query.get("$skip", 0)) // 50
        following = {"Members@odata.nextLink": f"{entries}?$skip={(number + 1) * 50}"} if number < 2 else {}
        return await Reply(200, {"Members": pages[number], **following}).send()

    bmc.script("GET", entries, *[page] * 5)
    clock = RealClock(datetime(2026, 5, 1, 9, 0, tzinfo=UTC))
    health = await client(bmc.node(), clock=clock).health()
    found = [item for item in health.evidence if item.source == "redfish/lclog"]
    assert [(item.code, item.part.name, item.part.locator) for item in found] == [("PSU0003", "PSU.Slot.2", "PSU 2")]
    assert found[0].values["arg1"] == "2"
    assert bmc.count("GET", entries) == 2
    # The BMC is an hour ahead: its 10:00 was our 09:00.
    assert found[0].values["offset_s"] == pytest.approx(3600, abs=5)
    assert abs((found[0].seen_at - datetime(2026, 5, 1, 9, 0, tzinfo=UTC)).total_seconds()) < 5


async def test_active_faults_count_however_old_they_are(serve: Any, client: Any) -> None:
    log = f"{MANAGER}/LogServices/FaultList"
    bmc = await serve(_with_log(small(MAC), log))
    fault = _entry(1, 1, "IDRAC.2.9.PSU0003", Oem={"Dell": {"FQDD": "PSU.Slot.4"}})
    bmc.tree[f"{log}/Entries"] = {"Members": [fault]}
    found = [item for item in (await client(bmc.node()).health()).evidence if item.source == "redfish/faults"]
    assert [(item.part.name, item.part.locator, item.reading) for item in found] == [
        ("PSU.Slot.4", "PSU 4", Reading.EVENT)
    ]


async def test_r30_the_clock_is_compared_and_set(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.tree[MANAGER]["DateTime"] = "2026-05-01T05:00:00-05:00"
    mine = client(bmc.node(), clock=RealClock(datetime(2026, 5, 1, 9, 0, tzinfo=UTC)))
    clock = await mine.clock()
    assert clock.offset_s == pytest.approx(3600, abs=5)
    await mine.set_clock()
    assert bmc.writes[0].path == MANAGER
    assert bmc.writes[0].body["DateTime"].startswith("2026-05-01T04:00:0")
    assert bmc.writes[0].body["DateTime"].endswith("-05:00")
    assert "." not in bmc.writes[0].body["DateTime"]


@pytest.mark.parametrize("shown", [True, False])
async def test_r30_with_ntp_the_time_is_not_forced(shown: bool, serve: Any, client: Any) -> None:
    """Either the BMC shows NTP, or it refuses with RAC059: the sentence is about NTP both times."""
    bmc = await serve(small(MAC))
    protocol = f"{MANAGER}/NetworkProtocol"
    if shown:
        bmc.tree[MANAGER]["NetworkProtocol"] = ref(protocol)
        bmc.tree[protocol] = {"@odata.id": protocol, "NTP": {"ProtocolEnabled": True}}
    bmc.script("PATCH", MANAGER, Reply(400, refusal("IDRAC.2.9.RAC059", "Unable to configure iDRAC time")))
    with pytest.raises(RefusedError, match="NTP") as raised:
        await client(bmc.node()).set_clock()
    assert raised.value.code == "RAC059"
    assert len(bmc.writes) == (0 if shown else 1)


async def test_status_reads_what_the_bmc_says_and_no_more(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.tree[SYSTEM] = system(
        PowerState="PoweringOn",
        BootProgress={"LastState": "MemoryInitializationStarted", "LastStateTime": "2026-05-01T08:01:00Z"},
        Status={"Health": ""},
        Boot=["what", "is", "this"],
    )
    status = await client(bmc.node()).status()
    assert status.power is Power.TURNING_ON
    assert status.progress == "MemoryInitializationStarted"
    assert status.progress_at == datetime(2026, 5, 1, 8, 1, tzinfo=UTC)
    assert (status.boot_target, status.healthy) == (None, None)
