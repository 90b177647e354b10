"""Reads that several parts of one look wait for, and logouts that the BMC puts off."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from redfish_lab import DictPins, RealClock
from redfish_payloads import small
from redfish_scripted import SESSIONS, SYSTEM, Reply, refusal

from provision.adapters.redfish.own_sessions import PIN_KIND
from provision.adapters.redfish.session import RedfishSession
from provision.adapters.redfish.walk import Expand, Reader
from provision.errors import RefusedError
from provision.model.secret import Credential, Secret

MAC = "B0:26:28:00:10:01"
SLOW = f"{SYSTEM}/Slow"


async def _refuse() -> None:
    await asyncio.sleep(0.05)
    raise RefusedError("BMC", "look", "no", code="no")


async def test_one_part_that_fails_takes_no_shared_read_from_another(serve: Any, pins: DictPins) -> None:
    """Or the whole look would end as if somebody had cancelled it."""
    bmc = await serve(small(MAC))
    bmc.tree[SLOW] = {"@odata.id": SLOW, "Id": "slow"}
    bmc.script("GET", SLOW, Reply(200, bmc.tree[SLOW], slow_s=0.4))
    session = RedfishSession(bmc.address, Credential("bmc", "prov", Secret("x")), pins, RealClock())
    reader = Reader(session, Expand(), asyncio.get_running_loop().time() + 60)
    try:
        other = asyncio.ensure_future(reader.resource(SLOW))
        with pytest.raises(RefusedError):
            await reader.gather(reader.resource(SLOW), _refuse())
        assert (await other)["Id"] == "slow"
        assert bmc.count("GET", SLOW) == 1
    finally:
        await session.close()


async def test_a_read_that_nobody_waits_for_any_more_ends_and_may_be_asked_anew(serve: Any, pins: DictPins) -> None:
    bmc = await serve(small(MAC))
    bmc.tree[SLOW] = {"@odata.id": SLOW, "Id": "slow"}
    bmc.script("GET", SLOW, Reply(200, bmc.tree[SLOW], slow_s=30))
    session = RedfishSession(bmc.address, Credential("bmc", "prov", Secret("x")), pins, RealClock())
    reader = Reader(session, Expand(), asyncio.get_running_loop().time() + 60)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await reader.resource(SLOW)
        assert (await reader.resource(SLOW))["Id"] == "slow"
    finally:
        await session.close()


@pytest.mark.parametrize("status", [503, 500, 403])
async def test_a_logout_that_the_bmc_puts_off_is_made_good_by_the_next_run(
    serve: Any, client: Any, pins: DictPins, status: int
) -> None:
    bmc = await serve(small(MAC))
    first = client(bmc.node())
    await first.status()
    bmc.script("DELETE", f"{SESSIONS}/1", Reply(status, refusal("Base.1.12.ServiceTemporarilyUnavailable")))
    await first.close()
    assert [item["path"] for item in json.loads(pins[PIN_KIND, bmc.address])] == [f"{SESSIONS}/1"]
    bmc.tree[f"{SESSIONS}/1"] = {"@odata.id": f"{SESSIONS}/1", "UserName": "prov"}
    second = client(bmc.node())
    await second.status()
    await second.close()
    assert bmc.sessions == {}
    assert json.loads(pins[PIN_KIND, bmc.address]) == []
