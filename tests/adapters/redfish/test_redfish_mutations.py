"""Broken trees by the dozen: keys dropped, types swapped, bodies torn, links in loops. Nothing may surprise us."""

from __future__ import annotations

import asyncio
import copy
import os
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redfish_lab import PASSWORD, QUICK, DictPins, RealClock
from redfish_payloads import ref, whole
from redfish_scripted import MANAGER, ROOT, SYSTEM, Reply, ScriptedBmc

from provision.adapters.redfish.bmc import RedfishBmc
from provision.errors import PeerError
from provision.model.bmc import Harvest, Health
from provision.model.secret import Credential, Secret

BASE = whole()
# Without these there is no machine to speak of; they are broken in the case list.
SPINE = {ROOT, f"{ROOT}/Systems"}
PATHS = sorted(set(BASE) - SPINE)
WRONG: list[Any] = [
    None,
    "",
    "x",
    0,
    -1,
    1e300,
    True,
    [],
    {},
    [None],
    ["a"],
    {"@odata.id": 5},
    [[]],
    [{}],
    "\x00\ud7ff",
]
TORN = [b"<html>busy</html>", b"", b'{"Members": [{"@odata', b"[]", b"7", b'"x"', b"\xff\xfe", b'{"a":1}{"a":1}']

mutations = st.lists(
    st.tuples(
        st.sampled_from(["drop", "swap", "torn", "loop", "page", "error", "twice", "huge"]),
        st.sampled_from(PATHS),
        st.integers(0, 10_000),
        st.integers(0, 10_000),
    ),
    min_size=1,
    max_size=12,
)


def _places(body: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    for key in body if isinstance(body, dict) else range(len(body)) if isinstance(body, list) else ():
        found.append((body, key))
        _places(body[key], found)
    return found


def _break(tree: dict[str, Any], kind: str, path: str, where: int, what: int) -> None:
    body = tree[path]
    if not isinstance(body, dict) or not body:
        return
    places = _places(body, [])
    container, key = places[where % len(places)]
    members = body.get("Members")
    if kind == "drop" and isinstance(container, dict):
        del container[key]
    elif kind == "swap":
        container[key] = copy.deepcopy(WRONG[what % len(WRONG)])
    elif kind == "torn":
        tree[path] = TORN[what % len(TORN)]
    elif kind == "error":
        tree[path] = (400, 403, 404, 405, 500, 501)[what % 6]
    elif kind == "loop" and isinstance(members, list):
        members.append(ref(PATHS[what % len(PATHS)]))
        members.append(ref(path))
    elif kind == "page" and isinstance(members, list):
        body["Members@odata.nextLink"] = [f"{path}?$skip=1", PATHS[what % len(PATHS)], "//x/", 5][what % 4]
    elif kind == "twice" and isinstance(members, list):
        body["Members"] = [*members, *copy.deepcopy(members)]
    elif kind == "huge" and isinstance(members, list):
        body["Members"] = [*members, *({"Id": str(n)} for n in range(2000))]


class BrokenBmc(ScriptedBmc):
    """A tree in which numbers are refusals and bytes are bodies as they are."""

    def _resource(self, method: str, path: str, body: Any) -> Reply:
        found = self.tree.get(path)
        if method == "GET" and isinstance(found, int):
            return Reply(found, {})
        if method == "GET" and isinstance(found, bytes):
            return Reply(200, found)
        return super()._resource(method, path, body)


async def _look(tree: dict[str, Any], certificate: Path) -> tuple[Harvest | None, Health | None, BrokenBmc]:
    async with BrokenBmc(tree).serving(certificate) as bmc:
        assert isinstance(bmc, BrokenBmc)
        client = RedfishBmc(
            bmc.node(), Credential("bmc", "prov", Secret(PASSWORD)), DictPins(), clock=RealClock(), limits=QUICK
        )
        harvest: Harvest | None = None
        health: Health | None = None
        try:
            harvest = await client.harvest()
            health = await client.health()
            for look in (client.status, client.readiness, client.clock):
                try:
                    await look()
                except PeerError:
                    continue
        except PeerError:
            pass  # an error of ours is an answer; anything else fails the test
        finally:
            await client.close()
        return harvest, health, bmc


@settings(
    max_examples=int(os.environ.get("PROVISION_EXAMPLES", "10")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(broken=mutations)
def test_no_broken_tree_surprises_us(broken: list[tuple[str, str, int, int]], certificates: Any) -> None:
    """No traceback, no endless walk, no write, no session left; each failed read is a named gap."""
    tree = copy.deepcopy(BASE)
    for mutation in broken:
        _break(tree, *mutation)
    harvest, health, bmc = asyncio.run(_look(tree, certificates["old"][0]))
    assert len(bmc.seen) < 600
    assert bmc.writes == []
    assert bmc.sessions == {}
    if harvest is None or health is None:
        return
    named = {gap.where.partition("?")[0] for gap in (*harvest.gaps, *health.gaps)}
    asked = {item.path.partition("?")[0] for item in bmc.seen if item.method == "GET"}
    lost = {path for path in asked if isinstance(tree.get(path), int | bytes)} - {SYSTEM, MANAGER}
    # Neighbours heard by LLDP are a list that older firmware does not have at all.
    lost = {path for path in lost if "DellSwitchConnections" not in path or isinstance(tree[path], bytes)}
    only_in_readiness = {path for path in lost if "/Oem/Dell/" in path}
    assert lost - only_in_readiness <= named, lost - named


async def test_the_unbroken_tree_gives_everything_and_no_gap(certificates: Any) -> None:
    harvest, health, _ = await _look(copy.deepcopy(BASE), certificates["old"][0])
    assert harvest is not None
    assert health is not None
    assert len(harvest.ports) == 10
    assert (harvest.gaps, health.gaps) == ((), ())
    kinds = {e.source for e in health.evidence}
    assert kinds >= {
        "redfish/host",
        "redfish/count",
        "redfish/psus",
        "redfish/drives",
        "redfish/pcie",
        "redfish/gpus",
        "redfish/nics",
        "redfish/ports",
        "redfish/lldp",
        "redfish/dimms",
        "redfish/fans",
        "redfish/temperatures",
        "redfish/cpus",
        "redfish/faults",
        "clock/offset",
    }
