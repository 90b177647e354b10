"""Logging in and out: every way it can go wrong has its own error, its own sentence, and leaves no session behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from redfish_lab import PASSWORD, QUICK
from redfish_payloads import small
from redfish_scripted import ROOT, SESSIONS, SYSTEM, Reply, refusal

from provision.adapters.redfish.bmc import RedfishBmc
from provision.adapters.redfish.problems import (
    AddressBlockedError,
    BrokenLoginError,
    CertificateChangedError,
    PasswordChangeRequiredError,
    SessionsExhaustedError,
)
from provision.errors import CredentialRefusedError, MisconfiguredError, PeerError, RefusedError, UnavailableError
from provision.model.bmc import Power
from provision.model.node import Node
from provision.model.secret import Credential, Secret

MAC = "B0:26:28:00:10:01"


async def test_one_session_is_opened_used_and_closed(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    mine = client(bmc.node())
    await mine.harvest()
    await mine.status()
    assert len(bmc.sessions) == 1
    await mine.close()
    await mine.close()
    assert bmc.sessions == {}
    assert (bmc.count("POST", SESSIONS), bmc.count("DELETE")) == (1, 1)
    assert all(item.headers["X-Auth-Token"] == "token-1" for item in bmc.seen[2:])


async def test_a_wrong_password_is_tried_once_and_never_shown(serve: Any, client: Any) -> None:
    """R4."""
    bmc = await serve(small(MAC))
    bmc.script("POST", SESSIONS, Reply(401, refusal("IDRAC.2.9.SYS415", "invalid username and/or password")))
    mine = client(bmc.node())
    for _ in range(3):
        with pytest.raises(CredentialRefusedError) as raised:
            await mine.status()
    assert bmc.count("POST", SESSIONS) == 1
    assert raised.value.code == "SYS415"
    assert "'prov'" in str(raised.value)
    assert "'bmc'" in str(raised.value)
    assert PASSWORD not in f"{raised.value!r}{raised.value}"


async def test_silence_after_a_refused_password_is_named_as_a_block(serve: Any, client: Any, stack: Any) -> None:
    """R4: an iDRAC stops serving the address; that is no dead BMC."""
    bmc = await serve(small(MAC))
    bmc.script("POST", SESSIONS, Reply(401, refusal("IDRAC.2.9.SYS415")))
    with pytest.raises(CredentialRefusedError):
        await client(bmc.node()).status()

    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    bmc.script("GET", ROOT, *[hang_up] * 4)
    with pytest.raises(AddressBlockedError, match="since the BMC refused a password"):
        await client(bmc.node()).status()


async def test_a_blocked_login_says_so(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    text = "The account is locked out after too many failed logins."
    bmc.script("POST", SESSIONS, Reply(403, refusal("Base.1.12.AccessDenied", text)))
    with pytest.raises(AddressBlockedError) as raised:
        await client(bmc.node()).status()
    assert raised.value.code == "address-blocked"


FULL = [
    Reply(503, refusal("IDRAC.2.4.RAC0218", "The maximum number of user sessions is reached.")),
    Reply(503, refusal("Base.1.12.SessionLimitExceeded")),
    Reply(400, refusal("Base.1.8.CreateLimitReachedForResource")),
    Reply(400, refusal("Vendor.1.0.Oops", "maximum number of sessions reached")),
]


@pytest.mark.parametrize("full", FULL, ids=lambda reply: reply.body["error"]["@Message.ExtendedInfo"][0]["MessageId"])
async def test_a_full_session_table_falls_back_to_basic(full: Reply, serve: Any, client: Any) -> None:
    """R1: Basic makes no session; nothing is retried and nobody else's session is ended."""
    bmc = await serve(small(MAC))
    bmc.script("POST", SESSIONS, full)
    mine = client(bmc.node())
    assert (await mine.status()).power is Power.ON
    await mine.close()
    assert bmc.count("POST", SESSIONS) == 1
    assert bmc.count("DELETE") == 0
    assert bmc.seen[-1].headers["Authorization"].startswith("Basic ")


async def test_a_full_session_table_is_named_where_basic_is_forbidden(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("POST", SESSIONS, *FULL[:1])
    with pytest.raises(SessionsExhaustedError, match="table of sessions is full") as raised:
        await client(bmc.node(), allow_basic=False).status()
    assert raised.value.code == "sessions-exhausted"


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_service_without_sessions_gets_basic(status: int, serve: Any, client: Any) -> None:
    """R3."""
    bmc = await serve(small(MAC))
    bmc.script("POST", SESSIONS, Reply(status))
    assert (await client(bmc.node()).status()).power is Power.ON


async def test_wrong_password_over_basic_is_tried_once(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("POST", SESSIONS, Reply(405))
    bmc.script("GET", f"{ROOT}/Systems", *[Reply(401, refusal("Base.1.12.AccessDenied"))] * 5)
    mine = client(bmc.node())
    for _ in range(2):
        with pytest.raises(CredentialRefusedError):
            await mine.status()
    assert bmc.count("GET", f"{ROOT}/Systems") == 1


async def test_sessions_live_where_the_root_says(serve: Any, client: Any) -> None:
    """R3: iDRAC 7 and 8 have them at /redfish/v1/Sessions."""
    bmc = await serve(small(MAC))
    bmc.tree[ROOT]["Links"]["Sessions"]["@odata.id"] = f"{ROOT}/Sessions"

    async def log_in(request: web.Request) -> web.StreamResponse:
        return await bmc.log_in().send()

    bmc.script("POST", f"{ROOT}/Sessions", log_in)
    assert (await client(bmc.node()).status()).power is Power.ON


async def test_a_session_without_location_is_ended_by_the_address_in_its_body(serve: Any, client: Any) -> None:
    """R3."""
    bmc = await serve(small(MAC))
    reply = bmc.log_in()
    del reply.headers["Location"]
    bmc.script("POST", SESSIONS, reply)
    mine = client(bmc.node())
    await mine.status()
    await mine.close()
    assert bmc.sessions == {}


async def test_success_without_a_token_is_a_failed_login(serve: Any, client: Any) -> None:
    """R3: going on without proof would read as somebody who is not logged in."""
    bmc = await serve(small(MAC))
    bmc.script("POST", SESSIONS, Reply(201, {"Id": "7"}, {"Location": f"{SESSIONS}/7"}))
    mine = client(bmc.node())
    for _ in range(2):
        with pytest.raises(BrokenLoginError, match="without an X-Auth-Token"):
            await mine.status()
    assert bmc.count("GET", f"{ROOT}/Systems") == 0


@pytest.mark.parametrize("status", [201, 403])
async def test_a_password_that_must_change_stops_and_leaves_no_session(status: int, serve: Any, client: Any) -> None:
    """R5: on 201 a session exists, and it is deleted."""
    bmc = await serve(small(MAC))
    reply = bmc.log_in()
    info = [{"MessageId": "Base.1.8.PasswordChangeRequired", "MessageArgs": [f"{ROOT}/AccountService/Accounts/2"]}]
    body = {"@Message.ExtendedInfo": info}
    bmc.script("POST", SESSIONS, Reply(status, body, reply.headers if status == 201 else {}))
    if status == 403:
        bmc.sessions.clear()
    with pytest.raises(PasswordChangeRequiredError, match="new password"):
        await client(bmc.node()).status()
    assert bmc.sessions == {}


async def test_a_vanished_session_is_opened_again_once(serve: Any, client: Any) -> None:
    """R2: also when several reads find it out together."""
    bmc = await serve(small(MAC, "B0:26:28:00:10:02", "B0:26:28:00:10:03"))
    mine = client(bmc.node())
    await mine.status()
    bmc.sessions.clear()
    harvest = await mine.harvest()
    assert len(harvest.ports) == 3
    assert bmc.count("POST", SESSIONS) == 2
    await mine.close()
    assert bmc.sessions == {}


async def test_a_logout_of_a_session_that_is_gone_hides_nothing(serve: Any, client: Any) -> None:
    """R2: 401 at the DELETE is the end that was wanted."""
    bmc = await serve(small(MAC))
    mine = client(bmc.node())
    await mine.status()
    bmc.sessions.clear()
    await mine.close()
    assert bmc.count("DELETE") == 1


async def test_cancelled_in_the_middle_of_a_login_the_session_is_still_ended(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    begun = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        reply = bmc.log_in()
        begun.set()
        await asyncio.sleep(0.2)
        return await reply.send()

    bmc.script("POST", SESSIONS, slow)
    mine = client(bmc.node())

    async def work() -> None:
        try:
            await mine.status()
        finally:
            await mine.close()

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # Ctrl-C twice: the goodbye goes on
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bmc.logins == 1
    assert bmc.sessions == {}


async def test_a_caller_that_gives_up_leaves_its_login_to_the_next(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))

    async def slow(request: web.Request) -> web.StreamResponse:
        reply = bmc.log_in()
        reply.slow_s = 0.2
        return await reply.send()

    bmc.script("POST", SESSIONS, slow)
    mine = client(bmc.node())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await mine.status()
    assert (await mine.status()).power is Power.ON
    await mine.close()
    assert (bmc.logins, bmc.sessions) == (1, {})


async def test_a_login_whose_answer_is_lost_is_not_sent_again(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    bmc.script("POST", SESSIONS, Reply(201, {}, slow_s=1.0))
    with pytest.raises(UnavailableError) as raised:
        await client(bmc.node(), request_s=0.2).status()
    assert raised.value.code == "login-lost"
    assert bmc.count("POST", SESSIONS) == 1


async def test_the_first_certificate_is_trusted_and_another_one_refused(
    serve: Any, client: Any, pins: Any, certificates: Any
) -> None:
    bmc = await serve(small(MAC))
    await client(bmc.node()).status()
    assert pins["bmc-certificate", bmc.address] == certificates["old"][1]
    pins[("bmc-certificate", bmc.address)] = certificates["new"][1]
    requests = len(bmc.seen)
    with pytest.raises(CertificateChangedError) as raised:
        await client(bmc.node()).status()
    assert certificates["old"][1] in str(raised.value)
    assert certificates["new"][1] in str(raised.value)
    assert isinstance(raised.value, RefusedError)
    assert len(bmc.seen) == requests, "no byte of HTTP may reach a stranger"


async def test_the_inventory_s_fingerprint_wins_over_the_store(
    serve: Any, client: Any, pins: Any, certificates: Any
) -> None:
    bmc = await serve(small(MAC))
    pins[("bmc-certificate", bmc.address)] = certificates["new"][1]
    right = ":".join(certificates["old"][1].upper()[i : i + 2] for i in range(0, 64, 2))
    await client(bmc.node(bmc_fingerprint=right)).status()
    with pytest.raises(CertificateChangedError, match="inventory"):
        await client(bmc.node(bmc_fingerprint=certificates["new"][1])).status()


def test_a_fingerprint_that_is_none_is_our_input(pins: Any) -> None:
    with pytest.raises(MisconfiguredError, match="host gpu-1: bmc_fingerprint 'ab:cd'"):
        RedfishBmc(
            Node("gpu-1", "h100", "127.0.0.1", "rack-1", bmc_fingerprint="ab:cd"),
            Credential("bmc", "prov", Secret("x")),
            pins,
            clock=None,  # type: ignore[arg-type]
            limits=QUICK,
        )


async def test_nobody_there_is_unavailable_in_one_sentence(client: Any) -> None:
    node = Node("gpu-1", "h100", "127.0.0.1:9", "rack-1")
    with pytest.raises(UnavailableError, match=r"BMC 127.0.0.1:9: GET /redfish/v1/: cannot connect"):
        await client(node).status()


async def test_two_connections_carry_everything(serve: Any, client: Any) -> None:
    """Gentle: never more than two requests at the BMC at once."""
    bmc = await serve(small(*[f"B0:26:28:00:10:{n:02X}" for n in range(12)]))
    busy, most = 0, 0

    async def slowly(request: web.Request) -> web.StreamResponse:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.01)
        busy -= 1
        return await Reply(200, bmc.tree[request.path]).send()

    for path in [path for path in bmc.tree if "/EthernetInterfaces/" in path]:
        bmc.script("GET", path, slowly)
    assert len((await client(bmc.node()).harvest()).ports) == 12
    assert most == 2


async def test_a_closed_client_asks_nothing_more(serve: Any, client: Any) -> None:
    bmc = await serve(small(MAC))
    mine = client(bmc.node())
    await mine.close()
    with pytest.raises(PeerError, match="closed"):
        await mine.status()
    assert bmc.seen == []


async def test_proxies_of_the_environment_are_not_used(
    serve: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    bmc = await serve(small(MAC))
    assert (await client(bmc.node()).status()).power is Power.ON
    assert bmc.tree[SYSTEM]["PowerState"] == "On"
