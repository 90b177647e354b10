"""What MAAS and its machines are like when somebody was there before: adoption, swaps, other drives, other hands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from provision.app.drift import drift
from provision.app.wiring import Wiring
from provision.engine.fleet import Fleet
from provision.model.decision import Outcome
from provision.model.event import Event
from provision.model.machine import Status
from provision.sim.maas.state import Named
from provision.stages import BRING_UP
from provision.stages.accept import Accept
from tests.journeys.maas_floor import TO_DEPLOYED, Floor, Open, floors, on_memory

ONE, TWO = "gpu-12-01", "gpu-12-02"
TO_COMMISSIONED = BRING_UP[:4]


@pytest.fixture
async def floor(tmp_path: Path) -> AsyncIterator[Open]:
    """Start a fleet for this test."""
    async with floors(tmp_path) as start:
        yield start


def macs(floor: Floor, name: str) -> list[str]:
    nics = sorted(floor.world.by_name(name).nics, key=lambda nic: not nic.boot)
    return [nic.mac for nic in nics if nic.kind == "ethernet"]


async def test_who_enlisted_himself_or_was_half_made_is_adopted_and_the_history_says_what_changed(floor: Open) -> None:
    here = await floor(nodes=3, settings={"power_by": "maas"})
    self_made = here.region.add(None, "amd64/generic", macs(here, ONE)[:1])
    half = here.region.add(TWO, "amd64/generic", macs(here, TWO)[:1])
    half.power_type = ""
    by_board = here.region.add(None, "amd64/generic", ["02:00:00:00:00:99"])
    by_board.hardware_uuid = here.world.by_name("gpu-12-03").uuid
    strange = self_made.hostname
    tagged = await here.up(stages=TO_COMMISSIONED, node=lambda node: replace(node, tags=("h100",)))
    assert {end.outcome for end in tagged.values()} == {Outcome.READY}, tagged
    assert len(here.region.machines) == 3
    assert {record.hostname for record in here.region.machines.values()} == {ONE, TWO, "gpu-12-03"}
    assert by_board.hostname == "gpu-12-03"
    acted = {event["node"]: event["why"] for event in here.said("acted") if event["step"] == "adopt-machine"}
    assert f"hostname {strange} → {ONE}" in acted[ONE]
    assert f"MAC {macs(here, ONE)[1]} is missing" in acted[ONE]
    assert "tag h100 is missing" in acted[ONE]
    assert "power type empty → redfish" in acted[TWO]
    for record in (self_made, half):
        assert (record.power_type, here.region.tags_of(record)) == ("redfish", ["h100"])


async def test_swapped_cards_are_a_finding_with_both_names_and_not_a_retry(floor: Open) -> None:
    here = await floor(nodes=2)
    await here.up(stages=TO_COMMISSIONED)
    here.swap_cards(ONE, TWO)
    here.world.reset_writes()
    ended = await here.up(stages=BRING_UP[:3])
    assert {end.outcome for end in ended.values()} == {Outcome.NEEDS_US}
    for name, other in ((ONE, TWO), (TWO, ONE)):
        assert f"of {name} belongs to {other}" in ended[name].why
        assert here.writes(name) == {}
    found = [event for event in here.said("finding-made") if event["rule"] == "MAAS-SWAPPED"]
    assert {event["node"] for event in found} == {ONE, TWO}
    assert all(ONE in event["ask"] and TWO in event["ask"] for event in found)


async def test_a_replaced_boot_drive_is_looked_at_again_and_installed_on(floor: Open) -> None:
    here = await floor()
    await here.up(stages=TO_COMMISSIONED)
    here.replace_boot_drive(ONE, "BTNEW00001B0")
    ended = await here.up()
    assert ended[ONE].outcome is Outcome.READY, ended[ONE].why
    assert here.world.by_name(ONE).installed.disk_serial == "BTNEW00001B0"
    assert here.writes(ONE)["commission"] == 2
    why = [event["why"] for event in here.said("acted") if event["step"] == "commission"]
    assert "BTNEW00001B0" in why[0]


async def test_memory_only_leaves_every_drive_alone(floor: Open) -> None:
    here = await floor()
    ended = await here.up(profile=on_memory)
    assert ended[ONE].outcome is Outcome.READY, ended[ONE].why
    machine = here.world.by_name(ONE)
    assert (machine.installed, machine.deployed_count, machine.host.disk_serial) == (None, 0, "")
    assert {"set_storage_layout", "set_boot_disk"}.isdisjoint(here.writes(ONE))
    assert here.record(ONE).ephemeral
    again = here.writes(ONE)
    await here.up(profile=on_memory)
    assert here.writes(ONE) == again


async def test_another_layout_of_the_profile(floor: Open) -> None:
    here = await floor()
    ended = await here.up(profile=lambda profile: replace(profile, image=replace(profile.image, layout="lvm")))
    assert ended[ONE].outcome is Outcome.READY
    record = here.record(ONE)
    assert (record.layout, record.root_disk.model) == ("lvm", "Dell BOSS-N1")


async def test_no_drive_or_two_that_match_the_rule_stop_with_the_list_of_candidates(floor: Open) -> None:
    here = await floor()
    rules = {"none of 9": "PM9A3", "8 drives match": "NVMe v2"}
    for said, model in rules.items():
        ended = await here.up(
            profile=lambda p, model=model: replace(p, boot_disk=replace(p.boot_disk, model=model, max_bytes=None))
        )
        assert said in ended[ONE].why
        assert "7682 GB, nvme, Bay" in ended[ONE].why
    by_slot = await here.up(profile=lambda p: replace(p, boot_disk=replace(p.boot_disk, model="BOSS", bus="nvme")))
    assert by_slot[ONE].outcome is Outcome.READY, by_slot[ONE].why


async def test_a_node_that_waits_for_a_repair_is_marked_broken_and_fixed_after_it(floor: Open) -> None:
    here = await floor()
    await here.up(stages=TO_COMMISSIONED)
    here.world.inject(ONE, "psu_failed", "3")
    ended = await here.up()
    record = here.record(ONE)
    assert ended[ONE].tickets == ("T-0001",)
    assert (record.status, record.error_description) == (Status.BROKEN, "provision: T-0001")
    before = here.writes(ONE)
    await here.up()
    assert here.writes(ONE) == before, "marked once"
    here.world.repair(ONE, None)
    ended = await here.up()
    assert (ended[ONE].outcome, record.status) == (Outcome.READY, Status.DEPLOYED), ended[ONE].why
    assert [event["change"] for event in here.said("ticket-moved")] == ["verify"]
    assert here.writes(ONE)["mark_fixed"] == 1


async def test_a_deployed_machine_is_never_marked_broken_for_that_would_release_it(floor: Open) -> None:
    here = await floor()
    await here.up()
    here.world.inject(ONE, "psu_failed", "3")
    ended = await here.up()
    assert ended[ONE].outcome is Outcome.NEEDS_HANDS
    assert here.record(ONE).status is Status.DEPLOYED


@pytest.mark.parametrize("handover", [True, False])
async def test_the_button_goes_back_to_maas_when_a_node_is_accepted(floor: Open, handover: bool) -> None:
    here = await floor(power_by="provision", settings={"handover_power": handover})
    stages = (*TO_DEPLOYED, Accept())
    await here.up()
    assert here.record(ONE).power_type == "manual"
    here.world.by_name(ONE).host.files["/usr/local/sbin/provision-check"] = ""
    ended = await here.up(stages=stages)
    assert ended[ONE].outcome is Outcome.READY, ended[ONE].why
    assert here.record(ONE).power_type == ("redfish" if handover else "manual")
    before = here.writes(ONE)
    await here.up(stages=stages)
    assert here.writes(ONE) == before
    await here.up(erase=True)
    assert (here.record(ONE).power_type, here.world.by_name(ONE).deployed_count) == ("manual", 2)


async def test_drift_is_named_by_status_and_mended_by_bringup(floor: Open) -> None:
    here = await floor(nodes=2)
    await here.up()
    record = here.record(ONE)
    here.region.pools["other"] = Named(7, "other")
    here.region.zones["far"] = Named(8, "far")
    record.zone, lost = "far", macs(here, ONE)[1]
    record.nics = [nic for nic in record.nics if nic.mac != lost]
    record.touch()
    record.power_parameters = record.power_parameters | {"power_address": "10.9.9.9"}
    record.power_type = "redfish"
    wiring = Wiring(here.sim.inventory, here._state)
    try:
        nodes = [replace(node, pool="other", zone="default") for node in wiring.site.nodes.values() if node.name == ONE]
        nodes += [node for node in wiring.site.nodes.values() if node.name == TWO]
        found, complaint = await drift(wiring, nodes, look=True)
        assert (set(found), complaint) == ({ONE}, "")
        assert "pool default → other" in "; ".join(found[ONE])
        assert "power address 10.9.9.9 → " in "; ".join(found[ONE])
        assert "zone far → default" in "; ".join(found[ONE])
        assert f"MAC {lost} is missing" in found[ONE]
    finally:
        await wiring.close()
    assert (await here.up(node=lambda node: replace(node, pool="other", zone="default")))[ONE].outcome is Outcome.READY
    assert record.zone == "default"
    assert (record.pool, record.power_parameters["power_address"].startswith("127.")) == ("other", True)


@pytest.mark.timeout(300)
async def test_fifty_machines_whose_drives_are_numbered_anew_at_each_boot_get_no_wrong_disk(floor: Open) -> None:
    """The order is drawn from the machine's name and the number of its boot: fifty seeds, three boots each."""
    names = [f"gpu-{rack}-{number:02d}" for rack in (12, 13) for number in range(1, 26)]
    here = await floor(nodes=50, racks=2, faults=[(name, "disk_order") for name in names])
    ended = await here.up()
    assert {end.outcome for end in ended.values()} == {Outcome.READY}, {end.why for end in ended.values()}
    orders = set()
    for name in names:
        machine, record = here.world.by_name(name), here.record(name)
        boot = next(drive for drive in machine.drives if drive.boot)
        assert machine.installed is not None
        assert (machine.installed.disk_serial, machine.deployed_count) == (boot.serial, 1)
        assert {disk.serial for disk in record.disks if disk.partitions} == {boot.serial}
        orders.add(tuple(disk.serial[-2:] for disk in record.disks).index("B0"))
    assert len(orders) > 5, "the boot drive had many numbers"


async def test_a_key_that_is_revoked_in_mid_run_stops_with_a_sentence_and_doubles_nothing(floor: Open) -> None:
    here = await floor(nodes=2)
    maas = here.sim.maas
    key = (here.sim.directory / "secrets" / "maas-key").read_text(encoding="utf-8").strip()

    def revoke(fleet: Fleet, event: Event) -> None:
        if event.kind == "acted" and event.as_dict()["step"] == "commission":
            maas.revoke(key)

    ended = await here.up(watch=revoke)
    assert {end.outcome for end in ended.values()} == {Outcome.NEEDS_US}
    assert all("API key" in end.why and key.rpartition(":")[2] not in end.why for end in ended.values())
    maas.keys.admit(key, here.region.users["admin"])
    ended = await here.up()
    assert {end.outcome for end in ended.values()} == {Outcome.READY}, ended
    for name in (ONE, TWO):
        assert (here.writes(name)["create"], here.world.by_name(name).deployed_count) == (1, 1)


@pytest.mark.parametrize("power_by", ["maas", "provision"])
async def test_dhcp_that_is_dead_in_one_rack_holds_up_no_other(floor: Open, power_by: str) -> None:
    here = await floor(nodes=4, racks=2, power_by=power_by, faults=[("gpu-13-01", "no_dhcp")])
    ended = await here.up()
    assert {name: end.outcome for name, end in ended.items() if name.startswith("gpu-12")} == {
        ONE: Outcome.READY,
        TWO: Outcome.READY,
    }
    for name in ("gpu-13-01", "gpu-13-02"):
        assert ended[name].outcome is not Outcome.READY
        assert "never heard" in ended[name].why
        assert here.writes(name).get("deploy", 0) == 0
    here.world.repair("gpu-13-01", None)
    ended = await here.up()
    assert {end.outcome for end in ended.values()} == {Outcome.READY}, {n: e.why for n, e in ended.items()}
    assert {machine.deployed_count for machine in here.world.machines.values()} == {1}
