"""Other members of each kind of failure: what the collected cases did not say, and other makers do.

One row for each sibling; the number is the case whose kind it is. Nothing here may end in a traceback, a repeated
write, a second login with a refused password, or a blank where the truth is "unknown".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redfish_payloads import boot, collection, inline, ref, small
from redfish_scripted import MANAGER, ROOT, SESSIONS, SYSTEM, Reply, ScriptedBmc, refusal

from provision.adapters.redfish.bmc import RedfishBmc
from provision.adapters.redfish.problems import LoginRefusedError, PasswordChangeRequiredError, SessionsExhaustedError
from provision.errors import CredentialRefusedError, RefusedError, UnavailableError
from provision.model.bmc import Button, Link, Power
from provision.model.profile import BootMethod

MAC, OTHER = "b8:3f:d2:00:1a:07", "b8:3f:d2:00:1a:08"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
Serve = Callable[..., Any]
Client = Callable[..., RedfishBmc]


def _over(peer: ScriptedBmc) -> None:
    """Nothing of ours stays on the BMC."""
    assert peer.sessions == {}


@pytest.mark.parametrize(
    "answer",
    [
        Reply(403, refusal("Base.1.8.SessionLimitExceeded")),
        Reply(400, refusal("iLO.2.14.MaxSessionsReached", "Sessions exhausted.")),
        Reply(429, refusal("Base.1.8.GeneralError", "The session table is full.")),
        Reply(500, refusal("Vendor.1.0.Error", "Too many sessions are open.")),
        Reply(401, refusal("Base.1.8.CreateLimitReachedForResource")),
    ],
    ids=["403", "400", "429", "500", "401"],
)
async def test_r1_a_full_table_said_in_another_way_is_nobodys_password(
    answer: Reply, serve: Serve, client: Client
) -> None:
    peer = await serve(small(MAC))
    peer.script("POST", SESSIONS, answer)
    mine = client(peer.node(), allow_basic=False)
    with pytest.raises(SessionsExhaustedError, match="table of sessions is full"):
        await mine.harvest()
    assert peer.count("POST", SESSIONS) == 1


@pytest.mark.parametrize("message", ["NoValidSession", "SessionTerminated", "ResourceAtUriUnauthorized"])
async def test_r2_a_session_that_is_gone_with_403_is_opened_again_once(
    message: str, serve: Serve, client: Client
) -> None:
    peer = await serve(small(MAC))
    peer.script("GET", f"{ROOT}/Systems", Reply(403, refusal(f"Base.1.12.{message}")))
    mine = client(peer.node())
    assert [str(port.mac) for port in (await mine.harvest()).ports] == [MAC]
    assert peer.logins == 2
    await mine.close()


async def test_r2_a_plain_403_is_a_refusal_and_no_reason_to_log_in_again(serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    peer.script("GET", f"{SYSTEM}/EthernetInterfaces", *(Reply(403, refusal("Base.1.12.InsufficientPrivilege")),) * 2)
    harvest = await client(peer.node()).harvest()
    assert "account may not do that" in harvest.gaps[0].why
    assert peer.logins == 1


@pytest.mark.parametrize("status", [403, 500, 405])
async def test_r2_a_logout_that_fails_otherwise_hides_nothing(status: int, serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    mine = client(peer.node())
    assert len((await mine.harvest()).ports) == 1
    peer.script("DELETE", f"{SESSIONS}/1", Reply(status, refusal("Base.1.12.GeneralError")))
    await mine.close()


@pytest.mark.parametrize("place", ["https://bmc.example/{}", "{}", "//{}"], ids=["whole", "no slash", "two slashes"])
async def test_r3_a_location_in_another_form_is_still_logged_out(place: str, serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    login = peer.log_in()
    location = place.format(login.headers["Location"].lstrip("/"))
    peer.script("POST", SESSIONS, Reply(200, {}, {"X-Auth-Token": login.headers["X-Auth-Token"], "Location": location}))
    mine = client(peer.node())
    assert len((await mine.harvest()).ports) == 1
    await mine.close()
    _over(peer)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "iLO.2.14.UnauthorizedLoginAttempt"),
        (403, "Base.1.12.InsufficientPrivilege"),
        (400, "Base.1.0.InvalidCredentials"),
        (422, "Vendor.1.0.AuthenticationFailure"),
    ],
)
async def test_r4_a_password_refused_in_other_words_is_tried_once(
    status: int, message: str, serve: Serve, client: Client
) -> None:
    peer = await serve(small(MAC))
    peer.script("POST", SESSIONS, *(Reply(status, refusal(message)) for _ in range(5)))
    mine = client(peer.node())
    for work in (mine.harvest, mine.status, mine.health):
        with pytest.raises(CredentialRefusedError):
            await work()
    assert peer.count("POST", SESSIONS) == 1


async def test_r4_any_clear_no_to_a_login_is_not_asked_for_again(serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    peer.script("POST", SESSIONS, *(Reply(400, refusal("Base.1.12.PropertyMissing")) for _ in range(5)))
    mine = client(peer.node())
    for work in (mine.harvest, mine.status):
        with pytest.raises(LoginRefusedError):
            await work()
    assert peer.count("POST", SESSIONS) == 1


async def test_r5_a_session_that_may_read_nothing_is_ended_and_said_so(serve: Serve, client: Client) -> None:
    """The login itself says nothing of it."""
    peer = await serve(small(MAC))
    peer.script("GET", f"{ROOT}/Systems", Reply(403, refusal("Base.1.12.PasswordChangeRequired")))
    mine = client(peer.node())
    with pytest.raises(PasswordChangeRequiredError, match="must get a new password first"):
        await mine.harvest()
    await mine.close()
    _over(peer)


@pytest.mark.parametrize(
    "answer",
    [
        Reply(200, refusal("IDRAC.2.9.SYS518")),
        Reply(500, refusal("IDRAC.2.9.LC060")),
        Reply(429, {}, {"Retry-After": "0"}),
        Reply(408, {}),
        Reply(503, b"<html>busy</html>", {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}),
        Reply(503, {}, {"Retry-After": "soon"}),
        Reply(400, refusal("Base.1.12.ServiceTemporarilyUnavailable")),
    ],
    ids=["200", "500", "429", "408", "date past", "no number", "400"],
)
async def test_r6_not_now_in_another_dress_is_asked_again(answer: Reply, serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    for path in (f"{ROOT}/Systems", f"{SYSTEM}/EthernetInterfaces"):
        peer.script("GET", path, answer)
    harvest = await client(peer.node()).harvest()
    assert [str(port.mac) for port in harvest.ports] == [MAC]
    assert harvest.gaps == ()


async def test_r6_an_error_with_status_200_is_no_resource(serve: Serve, client: Client) -> None:
    """It is a gap with the error's words, not a machine without ports."""
    peer = await serve(small(MAC))
    peer.tree[f"{SYSTEM}/EthernetInterfaces"] = refusal("IDRAC.2.9.SYS403", "is not found")
    harvest = await client(peer.node()).harvest()
    assert [(gap.where, "SYS403" in gap.why) for gap in harvest.gaps] == [(f"{SYSTEM}/EthernetInterfaces", True)]


@pytest.mark.parametrize(
    "systems",
    [
        {"Members": None},
        {"Members": "none"},
        {"Members": [None, {}, {"@odata.id": ""}]},
        {"Members": [{"@odata.id": f"{ROOT}/Systems/gone"}]},
        {"Members": [], "Members@odata.count": 1},
    ],
    ids=["null", "text", "empty objects", "gone", "count of one"],
)
async def test_r7_no_system_in_any_form_means_not_ready(systems: dict[str, Any], serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    whole = peer.tree[f"{ROOT}/Systems"]
    peer.tree[f"{ROOT}/Systems"] = {"@odata.id": f"{ROOT}/Systems", **systems}
    mine = client(peer.node())
    with pytest.raises(UnavailableError, match="system"):
        await mine.harvest()
    peer.tree[f"{ROOT}/Systems"] = whole
    assert len((await mine.harvest()).ports) == 1


@pytest.mark.parametrize("answer", [Reply(500, {}), Reply(404, {}), Reply(200, b"<html>"), Reply(200, {"Members": 3})])
async def test_r9_a_tray_that_answers_nonsense_fails_no_harvest(answer: Reply, serve: Serve, client: Client) -> None:
    tray = f"{ROOT}/Systems/HGX_Baseboard_0"
    peer = await serve(small(MAC))
    peer.tree[f"{ROOT}/Systems"] = collection(f"{ROOT}/Systems", [tray, SYSTEM])
    peer.script("GET", tray, *(answer,) * 8)
    harvest = await client(peer.node()).harvest()
    assert [str(port.mac) for port in harvest.ports] == [MAC]


@pytest.mark.parametrize("said", ["N/A", "Unknown", 0, [], {}, True, "\u0000"])
async def test_r10_a_link_that_is_not_told_is_unknown(said: Any, serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    for path, body in peer.tree.items():
        if "EthernetInterfaces/" in path:
            body |= {"LinkStatus": said, "SpeedMbps": said, "Status": said}
    (port,) = (await client(peer.node()).harvest()).ports
    assert (port.link, port.speed_mbps) == (Link.UNKNOWN, None)


@pytest.mark.parametrize("empty", ["N/A", "00-00-00-00-00-00", "ff:ff:ff:ff:ff:ff", 0, None, "b8:3f:d2", " "])
async def test_r11_an_address_that_is_none_never_counts_and_another_place_tells_it(
    empty: Any, serve: Serve, client: Client
) -> None:
    option = f"{SYSTEM}/BootOptions/Boot0001"
    tree = small(MAC, Boot=boot(BootOptions=ref(f"{SYSTEM}/BootOptions")))
    tree[f"{SYSTEM}/EthernetInterfaces/NIC.Slot.3-1-1"] |= {
        "MACAddress": empty,
        "PermanentMACAddress": empty,
        "UefiDevicePath": f"PciRoot(0x1)/MAC({MAC.replace(':', '').upper()},0x1)",
    }
    tree |= {f"{SYSTEM}/BootOptions": collection(f"{SYSTEM}/BootOptions", [option])}
    tree[option] = {"@odata.id": option, "Id": "Boot0001", "DisplayName": f"PXE IPv4 {MAC.upper()}"}
    peer = await serve(tree)
    assert {str(port.mac) for port in (await client(peer.node()).harvest()).ports} == {MAC}


@pytest.mark.parametrize("spelled", ["B83FD2001A07", "b8-3F-d2-00-1a-07", "b83f.d200.1a07", " b8:3f:d2:00:1a:07\n",
                                     "0xB83FD2001A07", "b8 3f d2 00 1a 07"])  # fmt: skip
async def test_r13_one_address_in_any_spelling(spelled: str, serve: Serve, client: Client) -> None:
    peer = await serve(small(spelled))
    assert [str(port.mac) for port in (await client(peer.node()).harvest()).ports] == [MAC]


@pytest.mark.parametrize("answer", [Reply(403, {}), Reply(405, {}), Reply(410, {}), Reply(501, {}), Reply(301, {}),
                                    Reply(200, b"[]"), Reply(204, b""), Reply(200, b"")])  # fmt: skip
async def test_r14_a_part_that_cannot_be_had_is_a_gap_with_its_address(
    answer: Reply, serve: Serve, client: Client
) -> None:
    lost = f"{SYSTEM}/EthernetInterfaces/NIC.Slot.4-1-1"
    peer = await serve(small(MAC, OTHER))
    peer.script("GET", lost, *(answer,) * 4)
    harvest = await client(peer.node()).harvest()
    assert [str(port.mac) for port in harvest.ports] == [MAC]
    assert [gap.where for gap in harvest.gaps] == [lost]


def _jobs(peer: ScriptedBmc, **states: str) -> None:
    jobs = f"{MANAGER}/Oem/Dell/Jobs"
    listed = [
        {"@odata.id": f"{jobs}/{name}", "Id": name, "JobType": "BIOSConfiguration", "JobState": state}
        for name, state in states.items()
    ]
    peer.tree[jobs] = inline(jobs, listed)


@pytest.mark.parametrize("state", ["New", "Ready For Execution", "Running", "Downloading"])
async def test_r16_a_job_in_any_open_state_is_named_and_one_that_is_over_is_not(
    state: str, serve: Serve, client: Client
) -> None:
    peer = await serve(small(MAC))
    _jobs(peer, JID_1="Scheduled", JID_2="Completed")
    mine = client(peer.node())
    await mine.readiness()
    await mine.set_network_boot_once(BootMethod.PXE)
    _jobs(peer, JID_1="Scheduled", JID_2="Completed", JID_3=state, JID_4="CompletedWithErrors")
    assert (await mine.status()).boot_jobs == (f"JID_3 BIOSConfiguration {state}",)
    assert [write.method for write in peer.writes] == ["PATCH"]


async def test_r16_a_task_named_by_the_answer_is_followed_at_any_maker(serve: Serve, client: Client) -> None:
    task = f"{ROOT}/TaskService/Tasks/17"
    peer = await serve(small(MAC, Manufacturer="Example"))
    peer.tree[ROOT] |= {"Vendor": "Example"}
    peer.tree[task] = {"@odata.id": task, "Id": "17", "TaskState": "Pending"}
    peer.script("PATCH", SYSTEM, Reply(202, {}, {"Location": task}))
    mine = client(peer.node())
    await mine.set_network_boot_once(BootMethod.PXE)
    assert (await mine.status()).boot_jobs == ("17 Pending",)
    peer.tree[task]["TaskState"] = "Completed"
    assert (await mine.status()).boot_jobs == ()


async def test_r16_a_queue_that_cannot_be_read_hides_no_status(serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    peer.script("GET", f"{MANAGER}/Oem/Dell/Jobs", *(Reply(503, refusal("IDRAC.2.9.SYS518")),) * 9)
    mine = client(peer.node())
    await mine.set_network_boot_once(BootMethod.PXE)
    status = await mine.status()
    assert status.network_boot_set
    assert status.power is Power.ON
    assert status.boot_jobs == ()


@pytest.mark.parametrize(
    "kept",
    [{"BootSourceOverrideTarget": "Hdd"}, {"BootSourceOverrideEnabled": None}, {"BootSourceOverrideTarget": ""},
     {"BootSourceOverrideEnabled": "Disabled"}],
)  # fmt: skip
async def test_r17_something_else_was_stored(kept: dict[str, Any], serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    mine = client(peer.node())
    await mine.set_network_boot_once(BootMethod.PXE)
    peer.tree[SYSTEM]["Boot"] |= kept
    assert not (await mine.status()).network_boot_set


@pytest.mark.parametrize("status", [400, 403, 428, 412])
@pytest.mark.parametrize("message", ["IDRAC.2.9.SYS404", "Base.1.12.PreconditionRequired"])
async def test_r19_a_tag_that_is_wanted_is_sent_whatever_the_status(
    status: int, message: str, serve: Serve, client: Client
) -> None:
    """A Dell whose system had none at the first read."""
    peer = await serve(small(MAC))
    peer.script("PATCH", SYSTEM, Reply(status, refusal(message)))
    mine = client(peer.node())
    await mine.set_network_boot_once(BootMethod.PXE)
    assert [write.headers.get("If-Match") for write in peer.writes] == [None, "*"]
    assert (await mine.status()).network_boot_set


@pytest.mark.parametrize(
    "answer",
    [
        Reply(405, refusal("Base.1.12.OperationNotAllowed")),
        Reply(404, {}),
        Reply(400, refusal("Base.1.12.PropertyReadOnly")),
    ],
    ids=["405", "404", "400"],
)
async def test_r21_a_resource_that_takes_no_override_at_all_sends_us_to_the_other(
    answer: Reply, serve: Serve, client: Client
) -> None:
    settings = f"{SYSTEM}/Settings"
    peer = await serve(small(MAC))
    peer.tree[SYSTEM]["@Redfish.Settings"] = {"SettingsObject": ref(settings)}
    peer.tree[settings] = {"@odata.id": settings, "Boot": boot()}
    peer.script("PATCH", SYSTEM, answer)
    await client(peer.node()).set_network_boot_once(BootMethod.PXE)
    assert [write.path for write in peer.writes] == [SYSTEM, settings]


@pytest.mark.parametrize("message", ["BIOS006", "NIC006", "JCP029"])
async def test_r22_a_job_of_somebody_else_is_named_in_any_id(message: str, serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    peer.script("PATCH", SYSTEM, Reply(400, refusal(f"IDRAC.2.9.{message}")))
    with pytest.raises(RefusedError, match="let it finish or remove it by hand"):
        await client(peer.node()).set_network_boot_once(BootMethod.PXE)
    assert len(peer.writes) == 1


@pytest.mark.parametrize("text", ["System is in Lockdown mode", "lock-down is active", "Configuration lockdown"])
async def test_r24_lockdown_is_named_whatever_the_id(text: str, serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    peer.script("PATCH", SYSTEM, Reply(403, refusal("Vendor.1.0.Refused", text)))
    with pytest.raises(RefusedError, match="lockdown mode is on; turn it off") as raised:
        await client(peer.node()).set_network_boot_once(BootMethod.PXE)
    assert raised.value.code == "SYS406"


@pytest.mark.parametrize("status", [400, 403, 405, 409, 500])
async def test_r25_already_so_is_success_in_any_status(status: int, serve: Serve, client: Client) -> None:
    """It was off at the look before the press, and somebody else has pressed meanwhile."""
    peer = await serve(small(MAC, PowerState="Off"))

    async def press(request: Any) -> Any:
        peer.tree[SYSTEM]["PowerState"] = "On"
        return await Reply(status, refusal("Vendor.1.0.InvalidOperationForSystemState")).send()

    peer.script("POST", RESET, press)
    await client(peer.node()).press(Button.ON)
    assert peer.count("POST", RESET) == 1


@pytest.mark.parametrize("message", ["ActionParameterUnknown", "ActionParameterValueError", "PropertyValueNotInList"])
async def test_r27_an_offered_type_that_is_refused_gives_way_to_the_next(
    message: str, serve: Serve, client: Client
) -> None:
    peer = await serve(small(MAC))
    action = peer.tree[SYSTEM]["Actions"]["#ComputerSystem.Reset"]
    action["ResetType@Redfish.AllowableValues"] = ["GracefulRestart", "PowerCycle", "ForceRestart"]
    peer.script("POST", RESET, Reply(400, refusal(f"Base.1.5.{message}")), Reply(204, b""))
    await client(peer.node()).press(Button.RESTART)
    assert [write.body["ResetType"] for write in peer.writes] == ["ForceRestart", "PowerCycle"]


@pytest.mark.parametrize("entries", [None, "x", [3, None, {"Id": 1}], [{"Created": "yesterday", "Message": None}]])
async def test_r29_a_log_of_nonsense_ends_and_hides_nothing_else(entries: Any, serve: Serve, client: Client) -> None:
    logs, log = f"{MANAGER}/LogServices", f"{MANAGER}/LogServices/Lclog"
    peer = await serve(small(MAC))
    peer.tree[MANAGER] |= {"LogServices": ref(logs)}
    peer.tree |= {
        logs: collection(logs, [log]),
        log: {"@odata.id": log, "Id": "Lclog", "Entries": ref(f"{log}/Entries")},
        f"{log}/Entries": {"Members": entries, "Members@odata.nextLink": f"{log}/Entries"},
    }
    health = await client(peer.node()).health()
    assert "redfish/ports" in {item.source for item in health.evidence}
    assert any(f"{log}/Entries" in gap.where or "member" in gap.where for gap in health.gaps)


@pytest.mark.parametrize("told", ["2026-05-01T12:00:00+0200", "2026-05-01T10:00:00Z", "2026-05-01T10:00:00.250+00:00",
                                  "2026-05-01T05:00:00-05:00"])  # fmt: skip
async def test_r30_one_moment_in_any_zone_and_spelling(told: str, serve: Serve, client: Client) -> None:
    peer = await serve(small(MAC))
    offsets = []
    for text in ("2026-05-01T10:00:00+00:00", told):
        peer.tree[MANAGER]["DateTime"] = text
        offsets.append((await client(peer.node()).clock()).offset_s)
    assert abs(offsets[0] - offsets[1]) < 30


@pytest.mark.parametrize("body", [b"\xef\xbb\xbf{}", b"\x00" * 64, b'{"a":' * 3000, b'{"Members":[' + b"{}," * 500,
                                  b"null", b'"text"', "{}".encode("utf-16")])  # fmt: skip
async def test_a_body_that_nobody_can_read_is_named_with_its_beginning(
    body: bytes, serve: Serve, client: Client
) -> None:
    peer = await serve(small(MAC))
    peer.script("GET", f"{SYSTEM}/EthernetInterfaces", *(Reply(200, body),) * 4)
    harvest = await client(peer.node()).harvest()
    assert [gap.where for gap in harvest.gaps] == [f"{SYSTEM}/EthernetInterfaces"]
    assert all(gap.why for gap in harvest.gaps)


def test_every_case_of_the_collection_has_a_sibling_here() -> None:
    """R20 and R28 have theirs in the simulator: seven kinds of tags, and three of answers that are lost."""
    here = {name.split("_")[1] for name in globals() if name.startswith("test_r")}
    cases = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 14, 16, 17, 19, 21, 22, 24, 25, 27, 29, 30}
    assert here == {f"r{number}" for number in cases}
