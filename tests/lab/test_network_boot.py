"""A real firmware boots from a real network because ``adapters.redfish`` asked its BMC for it, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from redfish_lab import DictPins, RealClock

from provision.adapters.redfish.bmc import RedfishBmc
from provision.model.bmc import Button, Power
from provision.model.profile import BootMethod
from provision.model.secret import Credential, Secret
from tests.lab.network_machine import MAC, PASSWORD, USER, UUID, NetworkMachine, missing

# One boot takes 10 to 100 s of software emulation, by what else the computer does.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]
BOOT_S = 180


@pytest.fixture
def machine(tmp_path: Path) -> object:
    """The machine, off."""
    reason = missing()
    if reason:
        pytest.skip(f"no machine: {reason}")
    with NetworkMachine(tmp_path) as made:
        yield made


@pytest.fixture
async def bmc(machine: NetworkMachine) -> AsyncIterator[RedfishBmc]:
    """Our client at its BMC."""
    client = RedfishBmc(machine.node, Credential("bmc", USER, Secret(PASSWORD)), DictPins(), clock=RealClock())
    yield client
    await client.close()


async def until(machine: NetworkMachine, ready: Callable[[], bool], what: str) -> None:
    for _ in range(BOOT_S * 2):
        if ready():
            return
        await asyncio.sleep(0.5)
    pytest.fail(f"{what} did not come within {BOOT_S} s:\n" + "\n".join(machine.log) + machine.console[-2000:])


async def power(bmc: RedfishBmc, wanted: Power) -> None:
    async with asyncio.timeout(60):
        while (await bmc.status()).power is not wanted:  # noqa: ASYNC110 - a peer over the wire has no event
            await asyncio.sleep(0.5)


async def test_a_machine_boots_from_the_network_when_it_was_asked_to(machine: NetworkMachine, bmc: RedfishBmc) -> None:
    harvest = await bmc.harvest()
    assert [str(port.mac) for port in harvest.ports] == [MAC]
    assert (harvest.identity.uuid or "").lower() == UUID
    before = await bmc.status()
    assert (before.power, before.network_boot_set) == (Power.OFF, False)

    # Nobody asked for the network: the firmware gives up at its empty drive, and the network hears nothing.
    await bmc.press(Button.ON)
    await until(machine, lambda: "No bootable device" in machine.console, "the end of a boot from the empty drive")
    assert not [line for line in machine.log if MAC in line]
    await bmc.press(Button.FORCE_OFF)
    await power(bmc, Power.OFF)

    await bmc.set_network_boot_once(BootMethod.PXE)
    asked = await bmc.status()
    assert (asked.power, asked.boot_target, asked.network_boot_set) == (Power.OFF, "Pxe", True)
    await bmc.press(Button.ON)
    await power(bmc, Power.ON)
    await until(machine, lambda: machine.boots() == 1, "the first network boot")
    given = [line for line in machine.log if "DHCPACK" in line]
    assert given, machine.log
    assert all(MAC in line for line in given)
    assert any("sent" in line and "/tftp/boot.ipxe to 10.77.11." in line for line in machine.log)

    # sushy-emulator does not spend an override (it reads back "Continuous"): the next boot goes to the network as well.
    spent = await bmc.status()
    assert (spent.power, spent.boot_target, spent.boot_enabled) == (Power.ON, "Pxe", "Continuous")
    await bmc.press(Button.RESTART)
    await until(machine, lambda: machine.boots() == 2, "the network boot after the restart")
    await bmc.press(Button.FORCE_OFF)
    await power(bmc, Power.OFF)
