"""The simulated region moves real (simulated) machines: power over Redfish, network boots, installations, failures."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import maas.client
import pytest
from maas.client.bones import CallError

from provision.model.machine import Status
from provision.sim.bmc import BmcServers
from provision.sim.build import build_machine
from provision.sim.maas import MaasServer, render
from provision.sim.maas.hardware import learn
from provision.sim.maas.userdata import random_host_key
from provision.sim.world import SimClock, SimMachine, World

SPEED = 3000.0


@dataclass
class Site:
    """A region, its machines and a libmaas client (bones)."""

    world: World
    server: MaasServer
    session: Any

    @property
    def one(self) -> SimMachine:
        return next(iter(self.world.machines.values()))

    async def create(self, machine: SimMachine, *, power: str = "redfish", **more: str) -> str:
        """Create a machine without commissioning it; returns its system id."""
        parameters = {
            "power_address": f"{machine.bmc_address}:{machine.bmc_port}",
            "power_user": self.world.bmc_user,
            "power_pass": more.pop("password", self.world.bmc_password),
        }
        body = await self.session.Machines.create(
            architecture="amd64/generic",
            mac_addresses=[machine.boot_nic.mac],
            power_type=power,
            hostname=machine.name,
            commission=more.pop("commission", "false"),
            power_parameters=json.dumps(parameters) if power == "redfish" else "{}",
            **more,
        )
        return str(body["system_id"])

    async def read(self, system_id: str) -> dict[str, Any]:
        return dict(await self.session.Machine.read(system_id=system_id))

    async def until(self, system_id: str, *statuses: Status, seconds: float = 30) -> dict[str, Any]:
        """Wait for a status."""
        wanted = {int(status) for status in statuses}
        await happens(lambda: self.server.region.machines[system_id].status in wanted, seconds=seconds)
        return await self.read(system_id)

    async def ready(self, machine: SimMachine, **more: str) -> str:
        """Create, commission, and choose the boot drive."""
        system_id = await self.create(machine, **more)
        await self.session.Machine.commission(system_id=system_id, testing_scripts="none")
        body = await self.until(system_id, Status.READY)
        await choose_boot_disk(self, system_id, body)
        return system_id

    async def messages(self, system_id: str) -> list[str]:
        """Events, newest first, as ``type: description``."""
        page = await self.session.Events.query(id=system_id, limit="50")
        return [f"{event['type']}: {event['description']}" for event in page["events"]]


async def happens(what: Callable[[], bool], *, seconds: float = 30) -> None:
    """Wait until something is so in the simulated world."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not what():
        assert asyncio.get_running_loop().time() < deadline, "it did not happen in time"
        await asyncio.sleep(0.005)


async def choose_boot_disk(site: Site, system_id: str, body: dict[str, Any]) -> int:
    """Boot disk and layout to the drive that is meant for it."""
    disk = next(disk for disk in body["physicalblockdevice_set"] if "BOSS" in disk["model"])
    await site.session.BlockDevice.set_boot_disk(system_id=system_id, id=disk["id"])
    await site.session.Machine.set_storage_layout(system_id=system_id, storage_layout="flat")
    return int(disk["id"])


@asynccontextmanager
async def running(tmp_path: Path, count: int = 1, *, bmcs: bool = True) -> AsyncIterator[Site]:
    machines = [build_machine(12, number) for number in range(1, count + 1)]
    world = World(SimClock(SPEED), machines)
    world.bmc_password = "calvin-not"
    doors = BmcServers(world, tmp_path / "certificates")
    server = MaasServer(world)
    try:
        if bmcs:
            await doors.start()
        url = await server.start()
        client = await maas.client.connect(url, apikey=server.api_key)
        yield Site(world, server, client._origin.session)
    finally:
        await server.stop()
        await doors.stop()
        await world.stop()
    assert world.problems == []


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path) as here:
        yield here


async def test_libmaas_connects_and_reads(site: Site) -> None:
    """python-libmaas 0.6.8 works against describe/ and the object layer."""
    client = await maas.client.connect(site.server.url, apikey=site.server.api_key)
    assert (await client.users.whoami()).is_admin
    assert (await client.version.get()).version == "3.6.3"
    await site.create(site.one)
    listed = await client.machines.list()
    assert [(machine.hostname, machine.status_name) for machine in listed] == [("gpu-12-01", "New")]
    assert site.server.requests["GET machines/"] == 1


async def test_a_commissioned_machine_is_ready_with_its_hardware(site: Site) -> None:
    """MAAS presses the power itself over Redfish; the scripts run; disks, NICs and memory are found."""
    system_id = await site.create(site.one)
    await site.session.Machine.commission(system_id=system_id, testing_scripts="none", skip_bmc_config="1")
    body = await site.until(system_id, Status.READY)
    assert site.one.writes["bmc:reset:On"] == 1
    assert site.one.writes["maas:create"] == site.one.writes["maas:commission"] == 1
    assert body["hardware_uuid"] == site.one.uuid
    assert len(body["physicalblockdevice_set"]) == 9
    assert body["memory"] == 32 * 64 * 1024
    assert [nic["name"] for nic in body["interface_set"]] == ["eno1np0", "eno2np1"]
    results = await site.session.NodeScriptResult.read(system_id=system_id, id="current-commissioning")
    assert {result["status_name"] for result in results["results"]} == {"Passed", "Skipped"}
    assert not site.one.powered


async def test_the_system_lands_on_the_chosen_disk(site: Site) -> None:
    """Without a choice it would be the first drive; with boot disk and layout it is the BOSS drive, by serial."""
    system_id = await site.create(site.one)
    await site.session.Machine.commission(system_id=system_id, testing_scripts="none")
    body = await site.until(system_id, Status.READY)
    assert "BOSS" not in body["boot_disk"]["model"]
    disk = next(disk for disk in body["physicalblockdevice_set"] if "BOSS" in disk["model"])
    await site.session.BlockDevice.set_boot_disk(system_id=system_id, id=disk["id"])
    record = site.server.region.machines[system_id]
    assert record.root_disk is not None
    assert record.root_disk.id != disk["id"], "set_boot_disk must not move the layout"
    await site.session.Machine.set_storage_layout(system_id=system_id, storage_layout="flat")
    key = random_host_key()
    text = "#cloud-config\n" + json.dumps({"ssh_keys": {"ed25519_private": key}, "ssh_authorized_keys": ["k e y"]})
    await site.session.Machines.allocate(system_id=system_id)
    await site.session.Machine.set_owner_data(system_id=system_id, provision_epoch="4")
    await site.session.Machine.deploy(
        system_id=system_id, distro_series="jammy", user_data=base64.b64encode(text.encode()).decode()
    )
    body = await site.until(system_id, Status.DEPLOYED)
    installed = site.one.installed
    assert installed is not None
    assert site.one.host is installed
    assert (installed.disk_serial, installed.epoch) == (disk["serial"], 4)
    assert (installed.hostname, installed.image) == ("gpu-12-01", "ubuntu/jammy")
    assert installed.host_private_key == key
    assert "k e y" in installed.authorized_keys
    assert site.one.deployed_count == 1
    assert body["netboot"] is False
    assert (await site.messages(system_id))[:2] == [
        "Deployed: ",
        "Image Deployed: deployed ubuntu/jammy/amd64/generic",
    ]


async def test_release_erases_only_when_asked(site: Site) -> None:
    """A plain release cuts the power and keeps the disk; an erasing one boots and wipes."""
    system_id = await site.ready(site.one)
    for erase, left in ((False, True), (True, False)):
        await site.session.Machine.deploy(system_id=system_id)
        await site.until(system_id, Status.DEPLOYED)
        await site.session.Machine.release(system_id=system_id, erase="true" if erase else "false")
        body = await site.until(system_id, Status.READY)
        assert (body["owner"], body["owner_data"], site.one.powered) == (None, {}, False)
        assert (site.one.installed is not None) is left


async def test_a_wrong_bmc_password_reverts_to_new(site: Site) -> None:
    """MAAS tries once, and says what a real one says."""
    system_id = await site.create(site.one, password="wrong")
    await site.session.Machine.commission(system_id=system_id, testing_scripts="none")
    body = await site.until(system_id, Status.NEW)
    assert "Failed to query node's BMC" in body["status_message"]
    assert "Aborting COMMISSIONING and reverting to NEW" in body["status_message"]
    assert any("401" in line for line in await site.messages(system_id))
    assert site.one.writes["bmc:reset:On"] == 0
    assert site.one.sessions["refused"] == 1


async def test_a_dead_bmc_fails_after_tries(site: Site) -> None:
    """Nothing listens: the driver tries again with pauses, then the machine is New."""
    site.one.inject("bmc_dead")
    system_id = await site.create(site.one)
    await site.session.Machine.commission(system_id=system_id, testing_scripts="none")
    body = await site.until(system_id, Status.NEW)
    assert "reverting to NEW" in body["status_message"]
    assert body["power_state"] == "error"


async def test_manual_power_presses_nothing(site: Site) -> None:
    """Power type manual: MAAS waits until somebody boots the machine from the network."""
    system_id = await site.create(site.one, power="manual")
    await site.session.Machine.commission(system_id=system_id, testing_scripts="none")
    await asyncio.sleep(0.1)
    assert (await site.read(system_id))["status_name"] == "Commissioning"
    assert not site.one.powered
    site.one.power_on()
    await site.until(system_id, Status.READY)
    assert site.one.writes.keys() <= {"maas:create", "maas:commission"}
    await choose_boot_disk(site, system_id, await site.read(system_id))
    await site.session.Machine.deploy(system_id=system_id)
    site.one.power_on()
    await site.until(system_id, Status.DEPLOYED)
    await site.session.Machine.release(system_id=system_id)
    assert (await site.read(system_id))["status_name"] == "Ready"


async def test_an_unknown_machine_enlists_itself(site: Site) -> None:
    """Random hostname, commissioning without an owner, New at the end; then it can be adopted."""
    site.one.power_on()
    await happens(lambda: bool(site.server.region.machines))
    system_id = next(iter(site.server.region.machines))
    body = await site.read(system_id)
    assert body["hostname"] != site.one.name
    assert body["owner"] is None
    body = await site.until(system_id, Status.NEW)
    assert {nic["mac_address"] for nic in body["interface_set"]} == {nic.mac for nic in site.one.nics[:2]}
    with pytest.raises(CallError) as error:
        await site.create(site.one)
    assert b"already in use" in error.value.content
    adopted = await site.session.Machine.update(system_id=system_id, hostname="gpu-12-01", power_type="manual")
    assert adopted["hostname"] == "gpu-12-01"


async def test_a_failing_script_is_named_in_results_and_events(site: Site) -> None:
    """Failed commissioning says nothing itself; results and events do."""
    site.one.inject("commissioning_fails")
    system_id = await site.create(site.one)
    await site.session.Machine.commission(system_id=system_id, testing_scripts="none")
    body = await site.until(system_id, Status.FAILED_COMMISSIONING)
    assert body["error_description"] == ""
    assert "Script: 50-maas-01-commissioning failed" in await site.messages(system_id)


async def test_a_clock_hours_off_breaks_package_lists(site: Site) -> None:
    """The script's output is what apt and TLS say."""
    site.one.inject("clock_off", "-7")
    system_id = await site.create(site.one)
    await site.session.Machine.commission(system_id=system_id, testing_scripts="none")
    await site.until(system_id, Status.FAILED_COMMISSIONING)
    current = await site.session.NodeScriptResult.read(
        system_id=system_id, id="current-commissioning", include_output="1", filters="20-maas-01-install-lldpd"
    )
    output = base64.b64decode(current["results"][0]["output"]).decode()
    assert "is not valid yet" in output
    assert "CERTIFICATE_VERIFY_FAILED" in output


async def test_a_failing_drive_fails_its_test(site: Site) -> None:
    """The default tests run once per drive on a machine whose drives are known."""
    system_id = await site.ready(site.one)
    site.one.inject("nvme_failing", "4")
    await site.session.Machine.test(system_id=system_id, testing_scripts="smartctl-validate")
    await site.until(system_id, Status.FAILED_TESTING)
    current = await site.session.NodeScriptResult.read(system_id=system_id, id="current-testing")
    assert sorted(result["status"] for result in current["results"]) == [2] * 8 + [3]


async def test_a_deployment_that_fails_once_works_the_second_time(site: Site) -> None:
    """Failed deployment with a log; release, and again."""
    site.one.inject("deploy_fails_once")
    system_id = await site.ready(site.one)
    await site.session.Machine.deploy(system_id=system_id)
    body = await site.until(system_id, Status.FAILED_DEPLOYMENT)
    assert body["error_description"].startswith("Installation failed")
    log = await site.session.NodeScriptResult.read(system_id=system_id, id="current-installation", include_output="1")
    assert b"curtin: Installation failed" in base64.b64decode(log["results"][0]["output"])
    assert site.one.installed is None
    await site.session.Machine.release(system_id=system_id)
    await site.until(system_id, Status.READY)
    await site.session.Machine.deploy(system_id=system_id)
    await site.until(system_id, Status.DEPLOYED)
    assert site.one.deployed_count == 1


async def test_without_dhcp_commissioning_times_out(site: Site) -> None:
    """Nobody hears the machine; MAAS's own monitor ends it after node_timeout minutes."""
    site.server.boots.patience_s = 0
    site.one.inject("no_dhcp")
    system_id = await site.create(site.one)
    await site.session.Machine.commission(system_id=system_id, testing_scripts="none")
    body = await site.until(system_id, Status.FAILED_COMMISSIONING)
    assert "Node operation 'Commissioning' timed out after 30 minutes." in body["status_message"]
    current = await site.session.NodeScriptResult.read(system_id=system_id, id="current-commissioning")
    assert {result["status_name"] for result in current["results"]} == {"Timed out"}


async def test_disks_keep_their_ids_in_whatever_order_they_come(site: Site) -> None:
    """Names move from boot to boot, ids stay with serials, and a chosen boot disk survives."""
    site.one.inject("disk_order")
    system_id = await site.ready(site.one)
    first = (await site.read(system_id))["physicalblockdevice_set"]
    chosen = (await site.read(system_id))["boot_disk"]["serial"]
    orders = {tuple(disk["serial"] for disk in first)}
    for _ in range(3):
        await site.session.Machine.commission(system_id=system_id, testing_scripts="none")
        body = await site.until(system_id, Status.READY)
        disks = body["physicalblockdevice_set"]
        assert {disk["serial"]: disk["id"] for disk in disks} == {disk["serial"]: disk["id"] for disk in first}
        assert [disk["name"] for disk in disks] == [f"nvme{number}n1" for number in range(9)]
        assert body["boot_disk"]["serial"] == chosen
        orders.add(tuple(disk["serial"] for disk in disks))
    assert len(orders) > 1


async def test_abort_and_power_loss_end_a_run(site: Site) -> None:
    """An aborted machine is off and New; its late scripts report nothing."""
    system_id = await site.create(site.one)
    await site.session.Machine.commission(system_id=system_id, testing_scripts="none")
    await happens(lambda: site.one.host is not None)
    stale = await site.session.Machine.abort(system_id=system_id)
    assert stale["status_name"] == "Commissioning"
    await site.server.settle()
    assert (await site.read(system_id))["status_name"] == "New"
    assert not site.one.powered


async def test_rescue_mode_and_back(site: Site) -> None:
    """A deployed machine visits the rescue image and boots its disk again."""
    system_id = await site.ready(site.one)
    await site.session.Machine.deploy(system_id=system_id)
    await site.until(system_id, Status.DEPLOYED)
    await site.session.Machine.rescue_mode(system_id=system_id)
    await site.until(system_id, Status.RESCUE_MODE)
    assert site.one.host is not None
    assert site.one.host.kind == "ephemeral"
    await site.session.Machine.exit_rescue_mode(system_id=system_id)
    await site.until(system_id, Status.DEPLOYED)
    await happens(lambda: site.one.host is site.one.installed)


async def refused(work: Callable[[], Any]) -> CallError:
    """The error of a call that must fail."""
    with pytest.raises(CallError) as error:
        await work()
    return error.value


async def test_the_region_can_be_sick(site: Site) -> None:
    """503 but created, 504 on every n-th write (carried out all the same), no rack controller, connections cut."""
    faults = site.server.faults
    faults.create_503_but_created = 1
    assert (await refused(lambda: site.create(site.one))).status == 503
    (record,) = site.server.region.machines.values()
    assert record.hostname == site.one.name
    faults.gateway_504_every_n_writes = 1
    assert (await refused(lambda: site.session.Zones.create(name="hall-a"))).status == 504
    assert "hall-a" in site.server.region.zones
    faults.gateway_504_every_n_writes = 0
    faults.no_rack = True
    error = await refused(lambda: site.session.Machine.commission(system_id=record.system_id))
    assert (error.status, error.content) == (503, b"No rack controllers can access the BMC of node gpu-12-01")
    faults.no_rack = False
    faults.clock_skew_s = 400
    assert (await refused(site.session.Machines.read)).status == 401
    faults.clock_skew_s = 0
    faults.down = True
    with pytest.raises(aiohttp.ClientError):
        await site.session.Machines.read()


async def test_a_list_of_512_machines_is_quick() -> None:
    """Twelve megabytes; unchanged machines cost a fraction the second time."""
    machine = build_machine(12, 1)
    server = MaasServer(World(SimClock(), [machine]))
    found = server.boots.look(machine)
    for number in range(512):
        mac = f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"
        record = server.region.add(f"gpu-{number}", "amd64/generic", [mac])
        own = replace(found, nics=(replace(found.nics[0], mac=mac),))
        learn(server.region, record, own, skip_storage=False, skip_networking=False)
    records = list(server.region.machines.values())
    started = time.process_time()
    first = render.machines(server.region, records)
    between = time.process_time()
    assert render.machines(server.region, records) == first
    assert time.process_time() - between < 0.25
    assert between - started < 1.5
    assert len(json.loads(first)) == 512
    records[7].disks[0].name = "renamed"
    records[7].touch()
    assert '"renamed"' in render.machines(server.region, records)


async def test_a_region_restarts_and_keeps_its_memory(site: Site) -> None:
    """Stopped and started again: the same port, the same machines; a revoked key is refused by name."""
    system_id = await site.ready(site.one)
    port = site.server.port
    await site.server.stop()
    with pytest.raises(aiohttp.ClientError):
        await site.read(system_id)
    assert await site.server.start() == f"http://127.0.0.1:{port}/MAAS/"
    assert (await site.read(system_id))["status_name"] == "Ready"
    site.server.revoke(site.server.api_key)
    error = await refused(lambda: site.read(system_id))
    assert error.status == 401
    assert error.content.startswith(b"Authorization Error: ")


async def test_a_host_that_boots_by_another_hand_is_deployed_all_the_same(site: Site) -> None:
    """Power lost between installation and first boot: whoever switches it on again ends the deployment."""
    system_id = await site.ready(site.one)
    await site.session.Machine.deploy(system_id=system_id)
    await happens(lambda: site.one.installed is not None)
    site.one.power_off()
    assert (await site.read(system_id))["status_name"] == "Deploying"
    site.one.power_on()
    await site.until(system_id, Status.DEPLOYED)
    assert site.one.deployed_count == 1


async def test_power_lost_in_mid_installation_times_out(site: Site) -> None:
    """Nothing is on the disk, nobody reports: MAAS gives up after its own time limit."""
    site.server.boots.patience_s = 0
    system_id = await site.ready(site.one)
    await site.session.Machine.deploy(system_id=system_id)
    await happens(lambda: site.one.host is not None)
    site.one.power_off()
    body = await site.until(system_id, Status.FAILED_DEPLOYMENT)
    assert "Node operation 'Deploying' timed out after 30 minutes." in body["error_description"]
    assert site.one.installed is None


async def test_a_board_that_moves_takes_its_ports_along(tmp_path: Path) -> None:
    """A MAC that MAAS knew on another machine belongs to the machine that shows it at commissioning."""
    async with running(tmp_path, 2) as here:
        first, second = here.world.machines.values()
        moved = second.nics[1].mac
        wrong = await here.session.Machines.create(
            architecture="amd64/generic", mac_addresses=[first.boot_nic.mac, moved], power_type="manual",
            hostname="first", commission="false",
        )  # fmt: skip
        right = await here.create(second)
        await here.session.Machine.commission(system_id=right, testing_scripts="none")
        body = await here.until(right, Status.READY)
        assert [nic["mac_address"] for nic in body["interface_set"]] == [nic.mac for nic in second.nics[:2]]
        left = await here.read(wrong["system_id"])
        assert [nic["mac_address"] for nic in left["interface_set"]] == [first.boot_nic.mac]


async def test_sixteen_machines_come_up_together(tmp_path: Path) -> None:
    """Every machine once, each on its own drive, with the writes counted on the right machine."""
    async with running(tmp_path, 16) as here:
        machines = list(here.world.machines.values())
        ids = await asyncio.gather(*(here.ready(machine) for machine in machines))
        await asyncio.gather(*(here.session.Machine.deploy(system_id=system_id) for system_id in ids))
        for system_id in ids:
            await here.until(system_id, Status.DEPLOYED)
        for machine in machines:
            assert machine.installed is not None
            assert machine.installed.disk_serial == next(drive.serial for drive in machine.drives if drive.boot)
            counted = {name: count for name, count in machine.writes.items() if name.startswith("maas:")}
            assert counted == {
                "maas:create": 1, "maas:commission": 1, "maas:set_boot_disk": 1, "maas:set_storage_layout": 1,
                "maas:deploy": 1,
            }  # fmt: skip
        assert here.server.writes.total() == 0
