"""When a bring-up changes BIOS settings or restarts a BMC: only where the site allows it, and once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provision.errors import GarbledError, RefusedError, UnavailableError
from provision.model.bmc import BmcClock, BmcStatus, BootReadiness, Power
from provision.model.decision import Act, Decision, Done, Stuck, Wait
from provision.model.machine import Machine, Receipt, Status
from provision.model.node import MacAddress, Node
from provision.model.profile import BootMethod, DiskRule, Goal, Image, Profile
from provision.model.site import PowerBy, Site
from provision.stages import boot, discover, preflight
from tests.fakes import World, tools_for

NODE = Node("gpu-1", "h100", "10.1.0.1", "rack-12")
GOAL = Goal(Profile("h100", Image("jammy"), DiskRule()), 1)
OFF = BootReadiness(network_device_enabled=False)
SEEN = preflight.Flight(BmcClock(0.0), 60.0, OFF, installed=False, bios_is_ours=True)
WAITING = replace(OFF, network_device_pending=True, pending_jobs=("JID_1 BIOSConfiguration Scheduled",))


def test_network_boot_is_enabled_and_the_start_it_costs_is_paid_once() -> None:
    first = preflight.decide(GOAL, SEEN)
    assert isinstance(first, Act)
    assert first.step == preflight.EnableNetworkDevice((BootMethod.PXE,))
    second = preflight.decide(GOAL, replace(SEEN, readiness=WAITING))
    assert isinstance(second, Act)
    assert second.step == preflight.StartForBios()
    assert isinstance(preflight.decide(GOAL, replace(SEEN, readiness=WAITING, started=True)), Wait)
    enabled = replace(SEEN, readiness=BootReadiness(network_device_enabled=True), started=True)
    assert isinstance(preflight.decide(GOAL, enabled), Done)


def test_where_maas_presses_the_button_pxe_is_enabled_too() -> None:
    http = Goal(replace(GOAL.profile, boot_method=BootMethod.UEFI_HTTP), 1)
    decision = preflight.decide(http, replace(SEEN, power_by=PowerBy.MAAS))
    assert isinstance(decision, Act)
    assert decision.step == preflight.EnableNetworkDevice((BootMethod.UEFI_HTTP, BootMethod.PXE))
    alone = preflight.decide(http, SEEN)
    assert isinstance(alone, Act)
    assert alone.step == preflight.EnableNetworkDevice((BootMethod.UEFI_HTTP,))


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(replace(SEEN, bios_is_ours=False), id="the site does not allow it, or the machine is in use"),
        pytest.param(replace(SEEN, readiness=replace(OFF, lockdown=True)), id="lockdown"),
        pytest.param(replace(SEEN, readiness=replace(OFF, pending_jobs=("JID_9 BIOS",))), id="a job of somebody else"),
    ],
)
def test_otherwise_bios_is_left_alone_and_named(seen: preflight.Flight) -> None:
    decision = preflight.decide(GOAL, seen)
    assert isinstance(decision, Stuck)
    assert "network boot device" in decision.why
    assert decision.ours


@pytest.mark.parametrize(
    ("status", "ours"),
    [(None, True), (Status.NEW, True), (Status.READY, True), (Status.COMMISSIONING, False), (Status.DEPLOYED, False)],
)
async def test_bios_is_ours_only_while_nobody_uses_the_machine(status: Status | None, ours: bool) -> None:
    world = World([NODE])
    metal = world.metal[NODE.name]
    metal.readiness = OFF
    if status is not None:
        receipt = Receipt(1, "other") if status is Status.DEPLOYED else None
        metal.machine = Machine("abc", NODE.name, status, (MacAddress("b8:3f:d2:00:00:01"),), receipt=receipt)
    tools = tools_for(world, site=Site(may_change_bios=True))(NODE, GOAL)
    seen = await preflight.Preflight().observe(NODE, tools)
    assert seen.bios_is_ours is ours
    forbidden = replace(tools, site=Site())
    assert not (await preflight.Preflight().observe(NODE, forbidden)).bios_is_ours


async def _look(world: World, site: Site, notes: dict[str, object]) -> Decision:
    tools = replace(tools_for(world, site=site)(NODE, GOAL), notes=notes)
    stage = discover.Discover()
    decision = stage.decide(tools.goal, await stage.observe(NODE, tools))
    if isinstance(decision, Act):
        await stage.act(decision.step, NODE, tools)
    return decision


async def test_a_bmc_that_answers_nonsense_is_restarted_once_and_then_reported() -> None:
    world, notes = World([NODE]), dict[str, object]()
    metal = world.metal[NODE.name]
    broken = GarbledError("BMC 10.1.0.1", "GET /redfish/v1/Systems", "not JSON")
    metal.bmc_error = broken
    with pytest.raises(GarbledError):
        await _look(world, Site(), {})
    decision = await _look(world, Site(may_reset_bmc=True), notes)
    assert isinstance(decision, Act)
    assert decision.step == discover.ResetBmc()
    assert "not JSON" in decision.why
    assert metal.bmc_error is None
    metal.bmc_error = broken
    with pytest.raises(GarbledError):
        await _look(world, Site(may_reset_bmc=True), notes)


async def test_a_bmc_without_a_host_gets_time_before_it_is_restarted() -> None:
    world, notes, site = World([NODE]), dict[str, object](), Site(may_reset_bmc=True)
    metal = world.metal[NODE.name]
    empty = UnavailableError("BMC 10.1.0.1", "GET /redfish/v1/Systems", "it lists no system", code="not-ready")
    metal.bmc_error = empty
    with pytest.raises(UnavailableError):
        await _look(world, site, notes)
    await world.clock.sleep(discover.YOUNG_S + 1)
    assert isinstance(await _look(world, site, notes), Act)


@pytest.mark.parametrize(
    "error",
    [UnavailableError("BMC", "GET /", "no answer", code="timeout"), RefusedError("BMC", "GET /", "no", code="401")],
)
async def test_silence_and_a_clear_no_are_no_reason_for_a_restart(error: Exception) -> None:
    world = World([NODE])
    world.metal[NODE.name].bmc_error = error  # type: ignore[assignment]
    with pytest.raises(type(error)):
        await _look(world, Site(may_reset_bmc=True), {})


@pytest.mark.parametrize(
    ("method", "target", "enabled", "stored"),
    [
        (BootMethod.PXE, "Pxe", "Once", True),
        (BootMethod.UEFI_HTTP, "UefiHttp", "Once", True),
        (BootMethod.UEFI_HTTP, "Pxe", "Once", False),
        (BootMethod.PXE, "UefiHttp", "Once", False),
        (BootMethod.PXE, "Pxe", "Disabled", False),
        (BootMethod.PXE, None, None, False),
    ],
)
def test_a_boot_override_counts_only_as_the_method_that_was_asked_for(
    method: BootMethod, target: str | None, enabled: str | None, stored: bool
) -> None:
    status = BmcStatus(Power.OFF, boot_target=target, boot_enabled=enabled)
    assert boot.Boot(status, method, asks=1, pressed=False).stored is stored
    stuck = boot.next_move(boot.Boot(status, method, asks=boot.ASKS, pressed=False), "commissioning")
    assert isinstance(stuck, Act if stored else Stuck)
