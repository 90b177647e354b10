"""The world: machines, power, boot and the faults that strike them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import Any

import pytest

from provision.sim.build import build_machine
from provision.sim.run import build_machines
from provision.sim.world import FAULTS, PressRefusedError, SimClock, SimError, SimHost, SimMachine, World

BOOT_MAC_FAULTS = ["cable_unplugged", "cable_wrong_port", "no_dhcp", "pxe_disabled", "nic_missing:NIC.Slot.35"]


class Netboot:
    """A boot server that remembers who asked, and hands out a system that runs until the power goes."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.cut_off = 0

    async def network_boot(self, machine: SimMachine, mac: str) -> None:
        self.heard.append((machine.name, mac))
        machine.start_host(SimHost("ephemeral"))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cut_off += 1
            raise


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World(SimClock(20_000), [build_machine(12, n) for n in (1, 2, 3)], seed=7)
    world.boot_server = Netboot()
    yield world
    await world.stop()
    assert world.problems == []


def netboot(world: World) -> Netboot:
    assert isinstance(world.boot_server, Netboot)
    return world.boot_server


async def until(true: Callable[[], Any], deadline_s: float = 3.0) -> None:
    end = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end, "it did not come to pass"
        await asyncio.sleep(0.002)


def parts(machine: SimMachine) -> Any:
    return deepcopy((machine.nics, machine.drives, machine.psus, machine.gpus, machine.dimms, machine.slots))


async def test_a_bare_machine_boots_from_the_network_and_the_once_override_is_used_up(world: World) -> None:
    machine = world.by_name("gpu-12-01")
    machine.boot_override.target, machine.boot_override.enabled = "UefiHttp", "Once"
    await machine.press("On")
    assert machine.post_progress != "OSRunning"
    await until(lambda: machine.host is not None)
    assert netboot(world).heard == [("gpu-12-01", machine.boot_nic.mac)]
    assert (machine.boot_override.target, machine.boot_override.enabled) == ("None", "Disabled")
    assert machine.post_progress == "OSRunning"
    await machine.press("ForceOff")
    await until(lambda: netboot(world).cut_off == 1)
    assert machine.host is None
    assert machine.post_progress == "None"


async def test_an_installed_system_starts_unless_the_override_asks_for_the_network(world: World) -> None:
    machine = world.by_name("gpu-12-01")
    machine.installed = SimHost("installed", disk_serial=machine.drives[-1].serial)
    await machine.press("On")
    await until(lambda: machine.host is machine.installed)
    assert netboot(world).heard == []
    machine.boot_override.target, machine.boot_override.enabled = "Pxe", "Once"
    await machine.press("ForceRestart")
    await until(lambda: bool(netboot(world).heard))
    assert machine.host is not None
    assert machine.host.kind == "ephemeral"


@pytest.mark.parametrize("fault", BOOT_MAC_FAULTS)
async def test_a_machine_whose_network_boot_cannot_work_sits_without_a_bootable_device(
    world: World, fault: str
) -> None:
    machine = world.by_name("gpu-12-02")
    world.inject(machine.name, *fault.split(":"))
    await machine.press("On")
    await until(lambda: any(entry.message_id == "PST0081" for entry in machine.log))
    assert netboot(world).heard == []
    world.repair(machine.name)
    await machine.press("ForceRestart")
    await until(lambda: machine.host is not None)


async def test_no_dhcp_strikes_the_whole_rack_until_its_last_fault_is_repaired(world: World) -> None:
    world.inject("gpu-12-01", "no_dhcp")
    world.inject("gpu-12-02", "no_dhcp")
    world.repair("gpu-12-01")
    assert world.dhcp_dead_racks == {"rack-12"}
    world.repair("gpu-12-02", "no_dhcp")
    assert world.dhcp_dead_racks == set()


async def test_a_dead_pdu_strikes_every_machine_on_it(world: World) -> None:
    world.inject("gpu-12-01", "pdu_dead")
    dark = {name: [psu.number for psu in m.psus if not psu.cord] for name, m in world.machines.items()}
    assert dark == {name: [1, 3, 5] for name in world.machines}
    world.repair("gpu-12-02", "pdu_dead")
    assert all(psu.giving for machine in world.machines.values() for psu in machine.psus)
    assert not any(machine.faults for machine in world.machines.values())


async def test_swapped_cables_end_in_each_others_port(world: World) -> None:
    world.inject("gpu-12-01", "cables_swapped", "gpu-12-03")
    ends = [(m.boot_nic.actual_switch, m.boot_nic.actual_port) for m in world.machines.values()]
    assert ends == [("leaf-12a", "swp3"), ("leaf-12a", "swp2"), ("leaf-12a", "swp1")]
    world.repair("gpu-12-03")
    assert all(machine.boot_nic.as_planned and not machine.faults for machine in world.machines.values())
    with pytest.raises(SimError, match="cannot be swapped with itself"):
        world.inject("gpu-12-01", "cables_swapped", "gpu-12-01")


async def test_a_failing_drive_fails_wherever_it_is_put(world: World) -> None:
    here, there = world.by_name("gpu-12-01"), world.by_name("gpu-12-02")
    world.inject(here.name, "nvme_failing", "2")
    serial = here.drives[2].serial
    world.swap_drives((here.name, "2"), (there.name, "6"))
    assert (there.drives[6].serial, there.drives[6].failing, there.drives[6].locator) == (serial, True, "Bay 6")
    assert not here.drives[2].failing
    assert here.drives[2].serial != serial


@pytest.mark.parametrize("kind", FAULTS)
async def test_repair_undoes_every_fault(world: World, kind: str) -> None:
    machine = world.by_name("gpu-12-03")
    before = (parts(machine), dict(machine.bios), set(world.dhcp_dead_racks), machine.bmc_clock_offset_s)
    fault = world.inject(machine.name, kind)
    changed = (parts(machine), dict(machine.bios), set(world.dhcp_dead_racks), machine.bmc_clock_offset_s)
    read_elsewhere = {
        "bmc_dead", "bmc_busy", "bmc_stores_nothing", "deploy_fails_once", "deploy_fails", "commissioning_fails",
        "lockdown", "disk_order", "bmc_sick", "bmc_updated",
    }  # fmt: skip
    assert (changed == before) == (kind in read_elsewhere)
    assert machine.has_fault(kind)
    assert world.repair(machine.name, kind) == [fault]
    assert (parts(machine), dict(machine.bios), set(world.dhcp_dead_racks), machine.bmc_clock_offset_s) == before


async def test_faults_lie_over_one_another_and_are_repaired_one_by_one(world: World) -> None:
    machine = world.by_name("gpu-12-01")
    world.inject(machine.name, "pcie_width", "38")
    world.inject(machine.name, "riser_loose", "3")
    assert [gpu.number for gpu in machine.gpus if not gpu.present] == [5, 6]
    assert [slot.number for slot in machine.slots if not slot.present] == [37, 38]
    world.repair(machine.name, "riser_loose")
    slot = next(slot for slot in machine.slots if slot.number == 38)
    assert (slot.present, slot.width) == (True, 4)


@pytest.mark.parametrize(
    ("kind", "arg", "says"),
    [
        ("meteor", "", "there is no fault 'meteor'; the kinds are cable_unplugged, "),
        ("nvme_missing", "9", "no such bay; there are 0, 1, 2, 3, 4, 5, 6, 7"),
        ("cable_unplugged", "eth0", "no such port; there are NIC.Slot.35-1-1, "),
        ("clock_off", "a lot", "a number of hours was expected"),
        ("deploy_fails", "twice", "it takes no argument"),
    ],
)
async def test_a_fault_that_cannot_be_is_refused_in_one_sentence(world: World, kind: str, arg: str, says: str) -> None:
    with pytest.raises(SimError) as caught:
        world.inject("gpu-12-01", kind, arg)
    assert says in str(caught.value)
    assert world.by_name("gpu-12-01").faults == []


async def test_an_unknown_machine_is_named(world: World) -> None:
    with pytest.raises(SimError, match=r"no machine 'gpu-99-01'.*gpu-12-01, gpu-12-02, gpu-12-03"):
        world.inject("gpu-99-01", "psu_failed")


async def test_a_fault_that_strikes_once_is_used_up(world: World) -> None:
    machine = world.by_name("gpu-12-01")
    world.inject(machine.name, "deploy_fails_once")
    assert machine.take_fault("deploy_fails_once")
    assert not machine.take_fault("deploy_fails_once")


async def test_disks_are_numbered_anew_at_each_boot_and_the_same_for_the_same_seed(world: World) -> None:
    machine = world.by_name("gpu-12-01")
    plain = [drive.serial for drive in machine.disk_order()]
    assert plain == [drive.serial for drive in machine.disk_order()]
    world.inject(machine.name, "disk_order")
    orders = []
    for boot in range(4):
        machine.boot_count = boot
        orders.append([drive.serial for drive in machine.disk_order()])
    assert all(sorted(order) == sorted(plain) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    twin = World(SimClock(1), [build_machine(12, 1)], seed=7).by_name("gpu-12-01")
    twin.inject("disk_order")
    assert [drive.serial for drive in twin.disk_order()] == orders[0]


async def test_the_button_refuses_what_is_so_already(world: World) -> None:
    machine = world.by_name("gpu-12-01")
    with pytest.raises(PressRefusedError) as off:
        await machine.press("ForceOff")
    assert off.value.code == "PSU502"
    await machine.press("On")
    with pytest.raises(PressRefusedError) as on:
        await machine.press("On")
    assert on.value.code == "PSU501"


async def test_without_any_cord_there_is_no_power(world: World) -> None:
    machine = world.by_name("gpu-12-01")
    await machine.press("On")
    for number in range(1, 7):
        world.inject(machine.name, "psu_cord_out", str(number))
    assert not machine.powered
    machine.power_on()
    assert not machine.powered
    world.repair(machine.name)
    machine.power_on()
    assert machine.powered


async def test_a_set_clock_is_right_and_the_fault_is_gone(world: World) -> None:
    machine = world.by_name("gpu-12-01")
    world.inject(machine.name, "clock_off", "7")
    ahead = machine.bmc_now() - world.clock.now()
    assert round(ahead.total_seconds()) == 7 * 3600
    machine.set_bmc_clock(0.0)
    assert not machine.has_fault("clock_off")
    assert abs((machine.bmc_now() - world.clock.now()).total_seconds()) < 1


def test_machines_are_the_same_for_a_seed_and_share_nothing() -> None:
    fleet = build_machines(512, None, seed=3)
    again = build_machines(512, None, seed=3)
    assert [m.service_tag for m in fleet] == [m.service_tag for m in again]
    for things in (
        [nic.mac for m in fleet for nic in m.nics],
        [m.service_tag for m in fleet],
        [m.uuid for m in fleet],
        [drive.serial for m in fleet for drive in m.drives],
        [nic.cable_label for m in fleet for nic in m.nics],
        [psu.feed for m in fleet for psu in m.psus],
        [(m.rack, m.unit) for m in fleet],
        [(nic.planned_switch, nic.planned_port) for m in fleet for nic in m.nics],
    ):
        assert len(set(things)) == len(things)
    assert {m.rack for m in fleet} == {f"rack-{n}" for n in range(12, 76)}
    assert fleet[2].name == "gpu-12-03"


def test_a_rack_that_is_too_small_is_refused() -> None:
    with pytest.raises(SimError, match="100 nodes do not fit into 1 racks"):
        build_machines(100, 1, seed=1)


def test_a_speed_of_zero_is_refused() -> None:
    with pytest.raises(SimError, match="above zero"):
        SimClock(0)
