"""Who asks what how often: one list per rack and interval, and never an answer older than our own write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web
from maas_lab import LabClock, mac, node_at, spec_of
from maas_region import Fault, Region

from provision.adapters.maas import MaasRegion
from provision.errors import UnavailableError
from provision.model.machine import Machine, Status
from provision.model.node import MacAddress

Make = Callable[..., MaasRegion]
NODES = [node_at(unit) for unit in range(1, 9)]


def filters(region: Region) -> list[set[str]]:
    return [{name for name, _ in call.query} for call in region.lists()]


async def look(maas: MaasRegion) -> list[Machine | None]:
    return list(await asyncio.gather(*(maas.machine(node, [mac(node.unit or 0)]) for node in NODES)))


async def test_eight_nodes_at_once_are_one_request(client: Make, region: Region, clock: LabClock) -> None:
    for node in NODES:
        region.add(node.name, [mac(node.unit or 0).text], status=4)
    maas = client(NODES)
    seen = await look(maas)
    assert [one.hostname if one else None for one in seen] == [node.name for node in NODES]
    assert filters(region) == [{"hostname"}]
    await look(maas)
    assert len(region.lists()) == 1, "a young listing is served again"
    clock.jumped_s += 11
    await look(maas)
    assert filters(region)[1:] == [{"id"}]
    assert len(region.lists()[1].query) == 8


async def test_two_racks_are_two_requests_and_strangers_are_never_listed(client: Make, region: Region) -> None:
    others = [node_at(unit, rack="rack-13") for unit in range(1, 9)]
    for node in [*NODES, *others]:
        region.add(node.name, [], status=4)
    for number in range(50):
        region.add(f"stranger-{number}", [])
    maas = client([*NODES, *others])
    await asyncio.gather(*(maas.machine(node, []) for node in [*NODES, *others]))
    assert len(region.lists()) == 2
    assert all(call.query for call in region.lists())
    assert {value for call in region.lists() for _, value in call.query} == {n.name for n in [*NODES, *others]}


async def test_a_bare_rack_is_asked_by_name_and_by_address(client: Make, region: Region) -> None:
    assert await look(client(NODES)) == [None] * 8
    assert filters(region) == [{"hostname"}, {"mac_address"}]
    assert all(value == value.lower() and ":" in value for _, value in region.lists()[1].query)


async def test_many_addresses_are_split_over_requests(client: Make, region: Region) -> None:
    macs = [MacAddress.parse(f"b0:7b:25:{i >> 8:02x}:{i & 255:02x}:01") for i in range(600)]
    region.add("other", [macs[-1].text])
    found = await client(NODES).fresh(NODES[0], macs)
    assert found is not None
    assert found.hostname == "other"
    assert all(sum(len(value) + 12 for _, value in call.query) < 8000 for call in region.lists())


async def test_a_self_enlisted_machine_is_found_by_any_of_its_addresses(client: Make, region: Region) -> None:
    region.add("ruling-leech", [mac(3, 2).text], status=1)
    found = await client(NODES).machine(NODES[2], [mac(3, 1), mac(3, 2)])
    assert found is not None
    assert (found.hostname, found.status) == ("ruling-leech", Status.COMMISSIONING)


async def test_a_swapped_board_is_its_other_nodes_machine(client: Make, region: Region) -> None:
    region.add(NODES[0].name, [mac(1).text])
    region.add(NODES[1].name, [mac(2).text])
    maas = client(NODES)
    first, second = await asyncio.gather(maas.machine(NODES[0], [mac(2)]), maas.machine(NODES[1], [mac(1)]))
    assert first is not None
    assert second is not None
    assert (first.hostname, second.hostname) == (NODES[1].name, NODES[0].name)


async def test_a_machine_of_its_name_counts_when_no_address_is_known_there(client: Make, region: Region) -> None:
    region.add(NODES[0].name.upper().lower(), [mac(99).text])
    found = await client(NODES).machine(NODES[0], [mac(1)])
    assert found is not None
    assert found.macs == (mac(99),)


async def test_a_hardware_uuid_finds_what_nothing_else_finds(client: Make, region: Region) -> None:
    region.add("ruling-leech", [mac(77).text], status=0, hardware_uuid="4C4C4544-0000-1000-8000-000000000001")
    maas = client(NODES)
    uuid = "4c4c4544-0000-1000-8000-000000000001"
    found = await maas.fresh(NODES[0], [mac(1)], uuid=uuid)
    assert found is not None
    assert found.hostname == "ruling-leech"
    assert (await maas.machine(NODES[0], [mac(1)])) == found


async def test_own_writes_make_the_listing_old_for_that_machine_only(client: Make, region: Region) -> None:
    ids = [region.add(node.name, [mac(node.unit or 0).text], status=0) for node in NODES]
    maas = client(NODES)
    await look(maas)
    await maas.commission(ids[2], scripts=(), tests=())
    seen = await look(maas)
    assert [one.status for one in seen if one] == [0, 0, 1, 0, 0, 0, 0, 0]
    assert region.lists()[-1].query == [("id", ids[2])]
    assert len(region.lists()) == 2


async def test_a_failed_write_makes_it_old_too(client: Make, region: Region) -> None:
    maas = client(NODES)
    assert await maas.machine(NODES[2], [mac(3)]) is None
    region.faults.append(Fault("POST machines/", lambda: web.Response(status=503), after=True))
    with pytest.raises(UnavailableError):
        await maas.create(spec_of(NODES[2], mac(3)))
    assert await maas.machine(NODES[2], [mac(3)]) is not None


async def test_a_listing_asked_before_a_write_does_not_hide_it(client: Make, region: Region, clock: LabClock) -> None:
    """A slow list that MAAS made before our write may not be taken for the state after it."""
    ids = [region.add(node.name, [mac(node.unit or 0).text], status=0) for node in NODES]
    maas = client(NODES)
    await look(maas)
    clock.jumped_s += 11
    held = asyncio.Event()
    region.faults.append(Fault("GET machines/", held=held, after=True))
    slow = asyncio.create_task(maas.machine(NODES[2], [mac(3)]))
    other = asyncio.create_task(maas.machine(NODES[3], [mac(4)]))
    await region.arrived(2)
    await maas.commission(ids[2], scripts=(), tests=())
    held.set()
    found = await slow
    assert found is not None
    assert found.status is Status.COMMISSIONING
    assert await other is not None
    assert len(region.lists()) == 3


async def test_an_older_answer_that_comes_late_changes_nothing(client: Make, region: Region, clock: LabClock) -> None:
    system_id = region.add(NODES[0].name, [mac(1).text], status=0)
    maas = client(NODES)
    await maas.machine(NODES[0], [mac(1)])
    held = asyncio.Event()
    region.faults.append(Fault("GET machines/", held=held, after=True))
    late = asyncio.create_task(maas.fresh(NODES[0], [mac(1)]))
    await region.arrived(2)
    region.machines[system_id]["status"] = 4
    newer = await maas.fresh(NODES[0], [mac(1)])
    held.set()
    await late
    assert newer is not None
    assert newer.status is Status.READY
    assert await maas.machine(NODES[0], [mac(1)]) == newer


async def test_an_older_absence_that_comes_late_hides_no_machine(client: Make, region: Region) -> None:
    maas = client(NODES)
    held = asyncio.Event()
    region.faults.append(Fault("GET machines/", held=held, after=True))
    late = asyncio.create_task(maas.fresh(NODES[0], []))
    await region.arrived(1)
    region.add(NODES[0].name, [mac(1).text])
    newer = await maas.fresh(NODES[0], [])
    held.set()
    await late
    assert newer is not None
    assert await maas.machine(NODES[0], []) == newer


async def test_addresses_that_become_known_are_asked_for_at_once(client: Make, region: Region) -> None:
    region.add("ruling-leech", [mac(1).text])
    maas = client(NODES)
    assert await maas.machine(NODES[0], []) is None
    found = await maas.machine(NODES[0], [mac(1)])
    assert found is not None
    assert found.hostname == "ruling-leech"


async def test_a_look_while_a_write_is_under_way_does_not_count_after_it(client: Make, region: Region) -> None:
    system_id = region.add(NODES[0].name, [mac(1).text], status=0)
    maas = client(NODES)
    await maas.machine(NODES[0], [mac(1)])
    held = asyncio.Event()
    region.faults.append(Fault(".* commission", held=held))
    write = asyncio.create_task(maas.commission(system_id, scripts=(), tests=()))
    await asyncio.sleep(0.05)
    during = await maas.fresh(NODES[0], [mac(1)])
    assert during is not None
    assert during.status is Status.NEW
    held.set()
    await write
    found = await maas.machine(NODES[0], [mac(1)])
    assert found is not None
    assert found.status is Status.COMMISSIONING


async def test_fresh_reads_this_machine_and_nothing_else(client: Make, region: Region) -> None:
    ids = [region.add(node.name, [mac(node.unit or 0).text], status=0) for node in NODES]
    maas = client(NODES)
    await look(maas)
    region.machines[ids[4]]["status"] = 4
    found = await maas.fresh(NODES[4], [mac(5)])
    assert found is not None
    assert found.status is Status.READY
    assert region.lists()[-1].query == [("id", ids[4])]
    again = await maas.machine(NODES[4], [mac(5)])
    assert again == found
    assert len(region.lists()) == 2


async def test_a_machine_deleted_and_made_again_is_found(client: Make, region: Region, clock: LabClock) -> None:
    gone = region.add(NODES[0].name, [mac(1).text])
    maas = client(NODES)
    await maas.machine(NODES[0], [mac(1)])
    del region.machines[gone]
    clock.jumped_s += 11
    assert await maas.machine(NODES[0], [mac(1)]) is None
    made = region.add("by-hand", [mac(1).text])
    clock.jumped_s += 11
    found = await maas.machine(NODES[0], [mac(1)])
    assert found is not None
    assert found.system_id == made


async def test_all_who_wait_hear_of_a_failure_and_a_quitter_disturbs_nobody(client: Make, region: Region) -> None:
    for node in NODES:
        region.add(node.name, [mac(node.unit or 0).text])
    maas = client(NODES)
    region.faults.append(Fault("GET machines/", lambda: web.Response(status=500), times=4))
    heard = await asyncio.gather(*(maas.machine(node, []) for node in NODES), return_exceptions=True)
    assert [type(one) for one in heard] == [UnavailableError] * 8
    tasks = [asyncio.create_task(maas.machine(node, [])) for node in NODES]
    await asyncio.sleep(0.001)
    tasks[0].cancel()
    seen = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(seen[0], asyncio.CancelledError)
    assert [one.hostname for one in seen[1:] if isinstance(one, Machine)] == [node.name for node in NODES[1:]]


async def test_512_nodes_poll_with_one_request_per_rack(client: Make, region: Region, clock: LabClock) -> None:
    nodes = [node_at(unit, rack=f"rack-{rack}") for rack in range(16) for unit in range(32)]
    for node in nodes:
        region.add(node.name, [])
    maas = client(nodes)
    for _ in range(2):
        await asyncio.gather(*(maas.machine(node, []) for node in nodes))
        clock.jumped_s += 11
    assert len(region.lists()) == 32
