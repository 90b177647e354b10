"""Sessions of killed runs: only those that we wrote down ourselves are ended, and only if their process is gone."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from typing import Any

import pytest
from redfish_lab import DictPins
from redfish_payloads import small
from redfish_scripted import SESSIONS, SYSTEM, Reply, ScriptedBmc, refusal

from provision.adapters.redfish.own_sessions import PIN_KIND, OwnSession
from provision.adapters.redfish.problems import SessionsExhaustedError

MAC = "B0:26:28:00:10:01"
OURS, THEIRS = f"{SESSIONS}/7", f"{SESSIONS}/8"
FULL = refusal("IDRAC.2.9.RAC0218", "The maximum number of user sessions is reached.")


@pytest.fixture(scope="module")
def gone() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def _left_behind(bmc: ScriptedBmc, pins: DictPins, session: OwnSession) -> None:
    """A session in the BMC's table and in our book, and one of somebody else in the table."""
    bmc.sessions |= {"old-token": OURS, "their-token": THEIRS}
    for path in (OURS, THEIRS):
        bmc.tree[path] = {"@odata.id": path, "UserName": "prov", "CreatedTime": "2026-05-01T08:00:00Z"}
    pins[PIN_KIND, bmc.address] = json.dumps([asdict(session)])


def _session(pid: int) -> OwnSession:
    return OwnSession(OURS, "prov", "2026-05-01T08:00:00Z", socket.gethostname(), pid)


async def test_a_killed_run_leaves_a_note_and_the_next_run_ends_its_session(
    serve: Any, client: Any, pins: DictPins, gone: int
) -> None:
    bmc = await serve(small(MAC))
    _left_behind(bmc, pins, _session(gone))
    mine = client(bmc.node())
    await mine.status()
    assert set(bmc.sessions.values()) == {THEIRS, f"{SESSIONS}/1"}
    noted = json.loads(pins[PIN_KIND, bmc.address])
    assert [item["path"] for item in noted] == [f"{SESSIONS}/1"]
    await mine.close()
    assert set(bmc.sessions.values()) == {THEIRS}
    assert json.loads(pins[PIN_KIND, bmc.address]) == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"pid": 1}, "its process lives (or belongs to somebody else)"),
        ({"host": "another-computer"}, "another computer's processes cannot be seen"),
        ({"user": "operator"}, "the BMC was reset and counts from one again: another user's session"),
        ({"created": "2026-04-30T23:00:00Z"}, "the same number at another time is another session"),
    ],
)
async def test_what_may_be_somebody_elses_is_left_alone(
    serve: Any, client: Any, pins: DictPins, gone: int, changed: dict[str, Any], why: str
) -> None:
    bmc = await serve(small(MAC))
    _left_behind(bmc, pins, replace(_session(gone), **changed))
    mine = client(bmc.node())
    await mine.status()
    await mine.close()
    assert set(bmc.sessions.values()) == {OURS, THEIRS}, why


async def test_a_full_table_is_cleared_of_our_own_and_the_login_repeated(
    serve: Any, client: Any, pins: DictPins, gone: int
) -> None:
    """The refusal of a full table tries no password, so a second login is none too many."""
    bmc = await serve(small(MAC))
    _left_behind(bmc, pins, _session(gone))
    bmc.script("POST", SESSIONS, Reply(503, FULL))
    mine = client(bmc.node(), allow_basic=False)
    await mine.status()
    assert bmc.count("POST", SESSIONS) == 2
    assert OURS not in bmc.sessions.values()
    assert bmc.seen[-1].headers["X-Auth-Token"] == "token-1"
    assert "Authorization" not in bmc.seen[-1].headers


async def test_a_full_table_without_ours_stays_full(serve: Any, client: Any, pins: DictPins) -> None:
    bmc = await serve(small(MAC))
    bmc.script("POST", SESSIONS, Reply(503, FULL))
    with pytest.raises(SessionsExhaustedError):
        await client(bmc.node(), allow_basic=False).status()
    assert (bmc.count("POST", SESSIONS), bmc.count("DELETE"), bmc.count("GET", SYSTEM)) == (1, 0, 0)


@pytest.mark.parametrize("torn", ["", "[", "{}", "[1]", '[{"path": 1}]', "null"])
async def test_a_torn_note_counts_as_none(serve: Any, client: Any, pins: DictPins, torn: str) -> None:
    bmc = await serve(small(MAC))
    pins[PIN_KIND, bmc.address] = torn
    mine = client(bmc.node())
    await mine.status()
    await mine.close()
    assert bmc.sessions == {}


async def test_a_goodbye_that_was_not_heard_is_said_again_by_the_next_client(
    serve: Any, client: Any, pins: DictPins
) -> None:
    """Also within one process: a BMC that hung at the logout still holds the session when it is well again."""
    bmc = await serve(small(MAC))
    first = client(bmc.node(), logout_s=0.2)
    await first.status()
    bmc.script("DELETE", f"{SESSIONS}/1", Reply(200, {}, slow_s=0.5))
    await first.close()
    assert list(bmc.sessions.values()) == [f"{SESSIONS}/1"]
    bmc.tree[f"{SESSIONS}/1"] = {"@odata.id": f"{SESSIONS}/1", "UserName": "prov"}
    second = client(bmc.node())
    await second.status()
    third = client(bmc.node())
    await third.status()
    assert list(bmc.sessions.values()) == [f"{SESSIONS}/2", f"{SESSIONS}/3"]
    await second.close()
    await third.close()
    assert bmc.sessions == {}
