"""Power parameters of many machines: one request, or one each where MAAS does not offer that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from maas_lab import mac, node_at, spec_of
from maas_region import Region

from provision.adapters.maas import MaasRegion

Make = Callable[..., MaasRegion]


@pytest.mark.parametrize("bulk", [True, False])
async def test_a_rack_is_asked_together(client: Make, region: Region, bulk: bool) -> None:
    region.lacks = frozenset() if bulk else frozenset({"Machines GET power_parameters"})
    nodes = [node_at(unit) for unit in range(1, 6)]
    maas = client(nodes)
    ids = [region.add(node.name, [mac(node.unit or 0).text]) for node in nodes]
    for system_id, node in zip(ids, nodes, strict=True):
        region.machines[system_id]["_power"] = {
            "power_address": node.bmc_address,
            "power_user": "root",
            "power_pass": "old",
        }
    said = await asyncio.gather(*(maas.power_drift(i, spec_of(n)) for i, n in zip(ids, nodes, strict=True)))
    assert said == ["power password differs"] * 5
    assert len([call for call in region.calls if call.op == "power_parameters"]) == (1 if bulk else 5)


@pytest.mark.parametrize("shown", [{}, {"power_pass": ""}, {"power_pass": "********"}])
async def test_a_password_that_is_hidden_is_no_difference(client: Make, region: Region, shown: dict[str, str]) -> None:
    node = node_at(3)
    system_id = region.add(node.name, [mac(3).text])
    region.machines[system_id]["_power"] = {"power_address": node.bmc_address, "power_user": "root"} | shown
    assert await client([node]).power_drift(system_id, spec_of(node)) == ""


async def test_the_host_is_named_where_a_bmc_lists_another_system_first(client: Make, region: Region) -> None:
    """MAAS's redfish driver presses the first system's button unless it is given a node id."""
    node = node_at(3)
    maas = client([node])
    await maas.create(spec_of(node, mac(3)))
    system_id = next(iter(region.machines))
    known = region.machines[system_id]["_power"]
    assert "node_id" not in known
    second = spec_of(node, mac(3), node_id="System_0")
    assert await maas.power_drift(system_id, second) == "node id empty → System_0"
    await maas.adopt(system_id, second)
    assert region.machines[system_id]["_power"]["node_id"] == "System_0"
    assert await maas.power_drift(system_id, second) == ""
    # Where we have no wish, what a hand wrote there is left alone.
    assert await maas.power_drift(system_id, spec_of(node, mac(3))) == ""
