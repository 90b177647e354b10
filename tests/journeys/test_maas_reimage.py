"""Reimage and release: only what was named twice, once, and nothing while somebody is to repair it."""

from __future__ import annotations

import pytest

from tests.journeys.conftest import Site, Start

ONE, TWO, THREE = "gpu-12-01", "gpu-12-02", "gpu-12-03"


def releases(site: Site) -> dict[str, int]:
    return {name: machine.writes["maas:release"] for name, machine in site.world.machines.items()}


def deployed(site: Site) -> dict[str, int]:
    return {name: machine.deployed_count for name, machine in site.world.machines.items()}


# Three bring-ups of three nodes, playbooks included: seconds of CPU on a computer that does other things, too.
@pytest.mark.timeout(400)
async def test_a_rack_is_installed_afresh_but_for_what_is_locked_or_waits_for_a_repair(site_of: Start) -> None:
    site: Site = await site_of(nodes=3)
    assert (await site.bringup()).status == 0
    record = site.fleet.maas.record_of(site.world.by_name(TWO))
    other = site.fleet.maas.record_of(site.world.by_name(THREE))
    record.power_type, other.hostname = "manual", "somebody"
    drifted = await site.provision("status", "--look")
    assert f"{TWO} differs in MAAS: power type manual → redfish" in drifted.err
    assert f"{THREE} differs in MAAS: hostname somebody → {THREE}" in drifted.err
    rows = {row["node"]: row["drift"] for row in (await site.provision("status", "--output", "json")).json}
    assert (rows[ONE], "renamed or deleted" in rows[THREE][0]) == ([], True)
    record.power_type, other.hostname = "redfish", THREE
    record.locked = True
    said = await site.provision("reimage", "rack-12", "--yes-erase", "rack-12")
    assert said.status == 1, said.err
    assert f"{TWO}: locked in MAAS: left alone" in said.err
    assert deployed(site) == {ONE: 2, TWO: 1, THREE: 2}
    assert releases(site) == {ONE: 1, TWO: 0, THREE: 1}

    alone = await site.provision("reimage", TWO, "--yes-erase", TWO)
    assert (alone.status, "unlock it there first" in alone.err) == (2, True)
    record.locked = False

    site.world.inject(THREE, "psu_failed", "3")
    assert (await site.bringup()).status == 1
    for argv in (("reimage", "rack-12"), ("release", THREE)):
        asked = await site.provision(*argv, "--yes-erase", argv[1])
        assert asked.status == 2
        assert f"{THREE} holds T-0001 (PSU 3: replace_psu)" in asked.err
        assert "--despite-ticket" in asked.err
    assert deployed(site) == {ONE: 2, TWO: 1, THREE: 2}


async def test_a_released_machine_is_installed_again_by_the_next_bring_up(site_of: Start) -> None:
    site: Site = await site_of(nodes=2)
    assert (await site.bringup()).status == 0
    site.world.reset_writes()
    for argv in ((ONE,), (ONE, "--yes-erase", TWO), ("rack-12", "--yes-erase", "rack-12")):
        assert (await site.provision("release", *argv)).status == 2
    assert site.writes() == 0

    done = await site.provision("release", ONE, "--yes-erase", ONE)
    assert done.status == 0, done.err
    assert f"{ONE} is given back to MAAS" in done.err
    record = site.fleet.maas.record_of(site.world.by_name(ONE))
    assert (record.status.label, record.owner, record.owner_data) == ("Ready", None, {})
    assert (releases(site), site.world.by_name(TWO).writes) == ({ONE: 1, TWO: 0}, {})
    again = await site.provision("release", ONE, "--yes-erase", ONE)
    assert (again.status, releases(site)) == (0, {ONE: 1, TWO: 0})
    assert (await site.bringup()).status == 0
    assert deployed(site) == {ONE: 2, TWO: 1}


async def test_data_drives_are_wiped_by_that_word_alone(site_of: Start) -> None:
    site: Site = await site_of(nodes=1)
    assert (await site.bringup()).status == 0
    record = site.fleet.maas.record_of(site.world.by_name(ONE))
    config = site.fleet.maas.region.config

    config["enable_disk_erasing_on_release"] = True
    refused = await site.provision("reimage", ONE, "--yes-erase", ONE)
    assert (refused.status, "enable_disk_erasing_on_release" in refused.err) == (2, True)
    config["enable_disk_erasing_on_release"] = False
    assert deployed(site) == {ONE: 1}

    assert (await site.provision("reimage", ONE, "--yes-erase", ONE)).status == 0
    assert not [event for event in record.events if event.type == "Disks erased"]
    assert (await site.provision("reimage", ONE, "--yes-erase", ONE, "--erase-data")).status == 0
    assert len([event for event in record.events if event.type == "Disks erased"]) == 1
    assert (deployed(site), releases(site)) == ({ONE: 3}, {ONE: 2})
