"""Every misbehaviour of the simulated BMCs against the program's own client: what a client must make of it.

The cases R… are described in the shared collection of Redfish failures; each name of ``ailments`` is tried here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from provision.adapters.redfish import login
from provision.adapters.redfish.bmc import RedfishBmc
from provision.adapters.redfish.session import BmcLimits
from provision.errors import CredentialRefusedError, PeerError, RefusedError, UnavailableError
from provision.model.bmc import Button, Link, NicPort, Power
from provision.model.evidence import Reading
from provision.model.node import Node
from provision.model.profile import BootMethod
from provision.model.secret import Credential, Secret
from provision.sim.ailments import AILMENTS
from provision.sim.bmc import BmcServers
from provision.sim.bmc.service import Service
from provision.sim.bmc.spoiling import TREATMENTS
from provision.sim.build import build_machine
from provision.sim.machine import SimMachine
from provision.sim.parts import SimError
from provision.sim.world import SimClock, World

QUICK = BmcLimits(pause_s=1.0, request_s=20.0, operation_s=60.0, conflict_s=30.0, logout_s=1.0)
IMPATIENT = 1.0  # for requests that are never answered; long enough for those that are, on a busy machine


class LeapClock:
    """The wall clock for a client that need not wait: a pause moves it on and takes no time."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() + self.slept

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        await asyncio.sleep(0)


class Pins(dict[tuple[str, str], str]):
    """Pins in memory."""

    def get_pin(self, kind: str, name: str) -> str | None:
        return self.get((kind, name))

    def set_pin(self, kind: str, name: str, value: str) -> None:
        self[(kind, name)] = value


@dataclass
class Bench:
    """One simulated machine and clients for it."""

    machine: SimMachine
    service: Service
    clock: LeapClock
    stack: AsyncExitStack

    def client(self, word: str = "right", **limits: Any) -> RedfishBmc:
        node = Node(
            self.machine.name, "h100-8gpu", f"{self.machine.bmc_address}:{self.machine.bmc_port}", self.machine.rack
        )
        login = Credential("bmc", "provision", Secret(word))
        bmc = RedfishBmc(node, login, Pins(), clock=self.clock, limits=replace(QUICK, **limits))
        self.stack.push_async_callback(bmc.close)
        return bmc

    def fall_ill(self, name: str) -> None:
        """Let the machine's BMC misbehave so."""
        self.machine.inject("bmc_sick", name)

    async def restart(self) -> None:
        await self.machine.press("On")

    @property
    def boot(self) -> tuple[str, str]:
        return self.machine.boot_override.target, self.machine.boot_override.enabled


Start = Callable[..., Any]


@pytest.fixture
async def bench_of(tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def start(*ailments: str, family: str = "idrac9") -> Bench:
            machine = build_machine(12, 1, family=family)
            world = World(SimClock(1), [machine], seed=1)
            world.bmc_password = "right"
            stack.push_async_callback(world.stop)
            servers = BmcServers(world, tmp_path / "certificates")
            stack.push_async_callback(servers.stop)
            await servers.start()
            # Refusals are remembered for a process; addresses repeat from test to test.
            login.forget_refusal(f"{machine.bmc_address}:{machine.bmc_port}")
            bench = Bench(machine, servers.service(machine.name), LeapClock(), stack)
            for name in ailments:
                bench.fall_ill(name)
            return bench

        yield start


def boot_port(ports: tuple[NicPort, ...], machine: SimMachine) -> NicPort:
    return next(port for port in ports if str(port.mac) == machine.boot_nic.mac)


def all_macs(bench: Bench) -> set[str]:
    return {nic.mac for nic in bench.machine.nics}


def found_macs(ports: tuple[NicPort, ...]) -> set[str]:
    return {str(port.mac) for port in ports if port.mac}


async def test_in_health_nothing_is_missing_and_one_session_comes_and_goes(bench_of: Start) -> None:
    bench = await bench_of()
    bmc = bench.client()
    harvest = await bmc.harvest()
    assert harvest.gaps == ()
    assert found_macs(harvest.ports) == all_macs(bench)
    await bmc.close()
    assert bench.machine.sessions == {"login": 1, "logout": 1}


@pytest.mark.parametrize("name", ["sessions_full", "sessions_full_400"])
async def test_r1_a_full_table_of_sessions_is_not_a_wrong_password(name: str, bench_of: Start) -> None:
    bench = await bench_of(name)
    assert found_macs((await bench.client().harvest()).ports) == all_macs(bench)
    assert bench.machine.sessions["full"] == 1, "a login that found no place was repeated"
    with pytest.raises(UnavailableError) as told:
        await bench.client(allow_basic=False).harvest()
    assert told.value.code == "sessions-exhausted"


async def test_r1_the_natural_way_eight_sessions_are_taken(bench_of: Start) -> None:
    bench = await bench_of()
    for _ in range(8):
        bench.service.door.log_in("provision", "right", "127.0.0.9")
    assert found_macs((await bench.client().harvest()).ports) == all_macs(bench)
    assert len(bench.service.door.sessions) == 8, "a session of somebody else was ended"


async def test_r2_a_session_that_vanished_is_opened_again_once(bench_of: Start) -> None:
    bench = await bench_of("session_vanishes")
    bmc = bench.client()
    assert found_macs((await bmc.harvest()).ports) == all_macs(bench)
    await bmc.close()
    assert bench.machine.sessions["login"] == 2


async def test_r2_a_logout_that_is_refused_hides_nothing(bench_of: Start) -> None:
    bench = await bench_of("logout_refused")
    bmc = bench.client()
    await bmc.set_network_boot_once(BootMethod.PXE)
    await bmc.close()
    assert bench.boot == ("Pxe", "Once")


@pytest.mark.parametrize("name", ["sessions_missing", "sessions_elsewhere", "session_without_location"])
async def test_r3_logins_as_services_have_them(name: str, bench_of: Start) -> None:
    bench = await bench_of(name)
    bmc = bench.client()
    assert found_macs((await bmc.harvest()).ports) == all_macs(bench)
    await bmc.close()
    assert bench.machine.sessions["login"] == bench.machine.sessions["logout"]


async def test_r3_success_without_a_token_is_a_failed_login(bench_of: Start) -> None:
    bench = await bench_of("session_without_token")
    with pytest.raises(PeerError) as told:
        await bench.client().harvest()
    assert told.value.code == "broken-login"


async def test_r4_a_blocked_address_is_told_from_a_dead_bmc(bench_of: Start) -> None:
    bench = await bench_of()
    for _ in range(3):
        wrong = bench.client("wrong")
        for _ in range(2):
            with pytest.raises(CredentialRefusedError):
                await wrong.harvest()
    assert bench.machine.sessions["refused"] == 3, "one try for each client and credential"
    with pytest.raises(UnavailableError) as told:
        await bench.client().harvest()
    assert told.value.code == "address-blocked"


@pytest.mark.parametrize("name", ["password_change", "password_change_403"])
async def test_r5_a_password_that_must_change_is_said_and_leaves_no_session(name: str, bench_of: Start) -> None:
    bench = await bench_of(name)
    with pytest.raises(RefusedError) as told:
        await bench.client().harvest()
    assert told.value.code == "password-change-required"
    assert bench.service.door.sessions == {}


@pytest.mark.parametrize("name", ["collects_data", "collects_data_silently", "flaky"])
async def test_r6_a_busy_bmc_is_asked_again_after_a_pause(name: str, bench_of: Start) -> None:
    bench = await bench_of(name)
    bmc = bench.client()
    harvest = await bmc.harvest()
    assert harvest.gaps == ()
    assert found_macs(harvest.ports) == all_macs(bench)
    assert name == "flaky" or bench.clock.slept >= 1


async def test_r6_a_busy_root_is_asked_again(bench_of: Start) -> None:
    bench = await bench_of("root_busy")
    assert found_macs((await bench.client().harvest()).ports) == all_macs(bench)


@pytest.mark.parametrize("name", ["systems_empty", "systems_without_members", "system_missing"])
async def test_r7_a_bmc_that_lists_no_system_is_not_ready(name: str, bench_of: Start) -> None:
    bench = await bench_of(name)
    bmc = bench.client()
    with pytest.raises(UnavailableError) as told:
        await bmc.harvest()
    assert told.value.code == "not-ready"
    for _ in range(4):
        with suppress(UnavailableError):
            assert found_macs((await bmc.harvest()).ports) == all_macs(bench)
            return
    pytest.fail("the system never came")


async def test_r9_a_dead_tray_is_a_gap_and_gpus_are_not_counted(bench_of: Start) -> None:
    bench = await bench_of("tray_dead", family="openbmc")
    bmc = bench.client(attempts=2)
    harvest = await bmc.harvest()
    assert found_macs(harvest.ports) == all_macs(bench)
    assert any("HGX_Baseboard_0" in gap.where for gap in harvest.gaps)
    health = await bmc.health()
    assert not any(item.part.name == "*" and item.part.kind == "gpu" for item in health.evidence)


async def test_r9_a_list_that_hangs_is_a_gap(bench_of: Start) -> None:
    bench = await bench_of("adapters_hang")
    harvest = await bench.client(request_s=IMPATIENT).harvest()
    assert boot_port(harvest.ports, bench.machine).link is Link.UP
    assert any("NetworkAdapters" in gap.where for gap in harvest.gaps)


@pytest.mark.parametrize("name", ["links_empty", "links_null", "links_missing"])
async def test_r10_silence_about_a_link_is_unknown_and_never_down(name: str, bench_of: Start) -> None:
    bench = await bench_of(name)
    bmc = bench.client()
    harvest = await bmc.harvest()
    assert {port.link for port in harvest.ports} == {Link.UNKNOWN}
    health = await bmc.health()
    bad = {Reading.DOWN, Reading.FAILED, Reading.FAILING, Reading.NO_INPUT, Reading.DEGRADED}
    assert [item for item in health.evidence if item.reading in bad] == []


@pytest.mark.parametrize("name", ["mac_empty", "mac_zero", "mac_in_boot_option_only"])
async def test_r11_an_address_that_is_missing_in_one_place_is_found_in_another(name: str, bench_of: Start) -> None:
    bench = await bench_of(name)
    harvest = await bench.client().harvest()
    assert found_macs(harvest.ports) == all_macs(bench)


async def test_r13_odd_spellings(bench_of: Start) -> None:
    bench = await bench_of("macs_odd")
    assert found_macs((await bench.client().harvest()).ports) == all_macs(bench)


@pytest.mark.parametrize("family", ["hpe", "lenovo", "supermicro"])
async def test_r13_guids_and_the_bmcs_own_interface_are_no_macs(family: str, bench_of: Start) -> None:
    bench = await bench_of(family=family)
    harvest = await bench.client().harvest()
    assert found_macs(harvest.ports) == all_macs(bench)
    assert not any("manager" in port.name.lower() for port in harvest.ports)


@pytest.mark.parametrize(
    ("name", "family", "where"),
    [
        ("port_missing", "hpe", "Ports"),
        ("port_missing", "idrac9", "Ports"),
        ("adapters_refused", "idrac9", "NetworkAdapters"),
        ("adapters_refused", "hpe", "NetworkAdapters"),
    ],
)
async def test_r14_what_is_linked_and_not_there_is_a_gap(name: str, family: str, where: str, bench_of: Start) -> None:
    bench = await bench_of(name, family=family)
    harvest = await bench.client().harvest()
    assert boot_port(harvest.ports, bench.machine)
    assert any(where in gap.where and ("404" in gap.why or "400" in gap.why) for gap in harvest.gaps), harvest.gaps


async def test_r14_an_expand_that_is_offered_and_refused(bench_of: Start) -> None:
    bench = await bench_of("expand_refused")
    harvest = await bench.client().harvest()
    assert harvest.gaps == ()
    assert found_macs(harvest.ports) == all_macs(bench)


async def test_r16_an_unchanged_mode_is_not_sent(bench_of: Start) -> None:
    bench = await bench_of()
    await bench.client().set_network_boot_once(BootMethod.UEFI_HTTP)
    assert bench.boot == ("UefiHttp", "Once")
    assert bench.machine.jobs == []


@pytest.mark.parametrize("family", ["supermicro", "ami"])
async def test_r17_makers_that_reset_what_is_left_out_get_all_three(family: str, bench_of: Start) -> None:
    bench = await bench_of(family=family)
    bmc = bench.client()
    await bmc.set_network_boot_once(BootMethod.PXE)
    status = await bmc.status()
    assert status.network_boot_set
    assert (bench.boot, bench.machine.boot_override.mode) == (("Pxe", "Once"), "UEFI")


@pytest.mark.parametrize("others", [False, True])
async def test_r16_a_job_made_of_the_override_is_named_and_left_alone(others: bool, bench_of: Start) -> None:
    """The job of somebody else that waited before is not ours to name, nor to clear."""
    bench = await bench_of()
    bench.fall_ill("override_makes_job")
    if others:
        bench.machine.queue_job({"ProcVirtualization": "Disabled"})
    bmc = bench.client()
    await bmc.readiness()
    await bmc.set_network_boot_once(BootMethod.PXE)
    status = await bmc.status()
    mine = bench.machine.jobs[-1]
    assert status.network_boot_set
    assert status.boot_jobs == (f"{mine.name} BIOSConfiguration Scheduled",)
    assert (await bmc.status()).boot_jobs == status.boot_jobs, "as long as it is open"
    mine.state = "Completed"  # as the next start leaves it
    assert (await bmc.status()).boot_jobs == ()
    await bmc.close()
    assert len(bench.machine.jobs) == 1 + others
    assert bench.machine.writes["bmc:job"] == 0


@pytest.mark.parametrize("fault", ["mode_lost", "bmc_stores_nothing"])
@pytest.mark.parametrize("family", ["idrac9", "supermicro", "ami", "hpe"])
async def test_r17_what_is_accepted_and_not_stored_shows_in_the_read_back(
    fault: str, family: str, bench_of: Start
) -> None:
    bench = await bench_of(family=family)
    if fault == "bmc_stores_nothing":
        bench.machine.inject(fault)
    else:
        bench.fall_ill(fault)
    bmc = bench.client()
    await bmc.set_network_boot_once(BootMethod.PXE)
    assert bench.machine.writes["bmc:boot"] == 1
    assert not (await bmc.status()).network_boot_set


@pytest.mark.parametrize("name", ["tag_required", "tag_weak", "tag_doubled", "tag_empty", "tag_number", "tag_stale"])
async def test_r19_r20_tags_of_every_kind(name: str, bench_of: Start) -> None:
    bench = await bench_of(name)
    await bench.client().set_network_boot_once(BootMethod.PXE)
    assert bench.boot == ("Pxe", "Once")
    assert bench.machine.writes["bmc:boot"] == 1
    assert bench.machine.writes["bmc:refused:tag"] <= 1


@pytest.mark.parametrize("family", ["supermicro", "lenovo", "ami"])
async def test_r19_where_a_tag_is_wanted_it_is_sent_at_once(family: str, bench_of: Start) -> None:
    bench = await bench_of(family=family)
    await bench.client().set_network_boot_once(BootMethod.PXE)
    assert bench.boot == ("Pxe", "Once")
    assert bench.machine.writes == {"bmc:boot": 1}


async def test_r20_no_tag_is_right_and_it_gives_up(bench_of: Start) -> None:
    bench = await bench_of("tag_never", family="hpe")
    with pytest.raises(RefusedError):
        await bench.client().set_network_boot_once(BootMethod.PXE)
    assert 1 < bench.machine.writes["bmc:refused:tag"] <= 6
    assert bench.boot == ("None", "Disabled")


@pytest.mark.parametrize("family", ["ami", "idrac10"])
async def test_r21_the_override_goes_to_the_settings_and_is_read_there(family: str, bench_of: Start) -> None:
    bench = await bench_of(family=family)
    bmc = bench.client()
    await bmc.set_network_boot_once(BootMethod.UEFI_HTTP)
    assert bench.boot == ("UefiHttp", "Once")
    assert (await bmc.status()).network_boot_set
    assert bench.machine.writes["bmc:boot"] == 1


async def test_r21_settings_that_show_the_override_and_refuse_it(bench_of: Start) -> None:
    bench = await bench_of("settings_refuse")
    await bench.client().set_network_boot_once(BootMethod.PXE)
    assert bench.boot == ("Pxe", "Once")


async def test_r22_jobs_of_others_are_named_and_left_alone(bench_of: Start) -> None:
    bench = await bench_of("job_pending")
    bmc = bench.client()
    readiness = await bmc.readiness()
    assert [job.split()[0] for job in readiness.pending_jobs] == ["JID_000000000101"]
    await bmc.set_network_boot_once(BootMethod.PXE)
    assert [job.state for job in bench.machine.jobs] == ["Scheduled"]
    assert set(bench.machine.writes) == {"bmc:boot"}


async def test_r24_what_stops_a_network_boot_is_known_before(bench_of: Start) -> None:
    bench = await bench_of()
    for fault in ("lockdown", "pxe_disabled"):
        bench.machine.inject(fault)
    bmc = bench.client()
    readiness = await bmc.readiness()
    assert readiness.lockdown is True
    assert readiness.network_device_enabled is False
    with pytest.raises(RefusedError) as told:
        await bmc.set_network_boot_once(BootMethod.PXE)
    assert "lockdown" in str(told.value)


@pytest.mark.parametrize("family", ["idrac9", "hpe"])
async def test_r25_there_already_is_success(family: str, bench_of: Start) -> None:
    bench = await bench_of(family=family)
    await bench.restart()
    await bench.client().press(Button.ON)
    assert bench.machine.powered
    assert bench.machine.boot_count == 1


async def test_r25_a_conflict_is_waited_out(bench_of: Start) -> None:
    bench = await bench_of("settles_slowly")
    await bench.client().press(Button.ON)
    assert bench.machine.powered
    assert bench.machine.boot_count == 1
    assert bench.clock.slept > 0


async def test_r27_a_kind_that_is_offered_and_refused_gives_way(bench_of: Start) -> None:
    bench = await bench_of("graceful_refused")
    await bench.restart()
    await bench.client().press(Button.RESTART)
    assert bench.machine.boot_count == 2


async def test_r27_a_press_that_does_nothing_shows_in_the_state(bench_of: Start) -> None:
    bench = await bench_of("press_ignored")
    bmc = bench.client()
    await bmc.press(Button.ON)
    assert (await bmc.status()).power is Power.OFF
    assert bench.machine.writes == {"bmc:reset:ignored": 1}


async def test_r28_a_press_whose_answer_is_lost_is_looked_up(bench_of: Start) -> None:
    bench = await bench_of("press_answer_lost")
    await bench.client(request_s=IMPATIENT).press(Button.ON)
    assert bench.machine.boot_count == 1
    assert bench.machine.writes == {"bmc:reset:On": 1}


async def test_r28_a_press_that_was_not_heard_is_not_repeated_in_the_dark(bench_of: Start) -> None:
    bench = await bench_of("press_lost")
    with pytest.raises(UnavailableError):
        await bench.client(request_s=IMPATIENT).press(Button.ON)
    assert bench.machine.writes == {"bmc:unheard": 1}


async def test_r28_an_override_whose_answer_is_lost_is_not_repeated(bench_of: Start) -> None:
    bench = await bench_of("patch_answer_lost")
    bmc = bench.client(request_s=IMPATIENT)
    with pytest.raises(UnavailableError):
        await bmc.set_network_boot_once(BootMethod.PXE)
    assert bench.machine.writes == {"bmc:boot": 1}
    assert (await bmc.status()).network_boot_set


@pytest.mark.parametrize("name", ["log_shifts", "log_loops"])
async def test_r29_a_log_that_shifts_or_turns_in_circles_is_read_once(name: str, bench_of: Start) -> None:
    bench = await bench_of()
    await bench.restart()
    for _ in range(60):
        bench.machine.repair(bench.machine.inject("psu_cord_out", "2"))
    bench.fall_ill(name)
    health = await bench.client().health()
    entries = [item.values["entry"] for item in health.evidence if item.source == "redfish/lclog"]
    assert len(entries) == len(set(entries))
    assert len(entries) == (120 if name == "log_shifts" else 50)
    assert any("circles" in gap.why for gap in health.gaps) is (name == "log_loops")


async def test_r30_the_clock_is_compared_and_set(bench_of: Start) -> None:
    bench = await bench_of()
    bench.machine.inject("clock_off", "5")
    bmc = bench.client()
    assert abs((await bmc.clock()).offset_s - 5 * 3600) < 2
    await bmc.set_clock()
    assert abs((await bmc.clock()).offset_s) < 2


@pytest.mark.parametrize("family", ["idrac9", "hpe"])
async def test_r30_with_ntp_the_clock_is_not_forced(family: str, bench_of: Start) -> None:
    bench = await bench_of("ntp_on", family=family)
    bench.machine.inject("clock_off", "5")
    with pytest.raises(RefusedError) as told:
        await bench.client().set_clock()
    assert "NTP" in str(told.value)


async def test_a_web_page_is_a_gap_with_its_first_bytes(bench_of: Start) -> None:
    bench = await bench_of("body_html")
    harvest = await bench.client().harvest()
    assert boot_port(harvest.ports, bench.machine)
    assert any("DOCTYPE" in gap.why for gap in harvest.gaps)


async def test_bodies_that_break_off_are_asked_for_again(bench_of: Start) -> None:
    bench = await bench_of("body_torn")
    harvest = await bench.client().harvest()
    assert harvest.gaps == ()
    assert found_macs(harvest.ports) == all_macs(bench)
    assert bench.machine.sick["torn"] > 2


@pytest.mark.parametrize("family", ["idrac9", "supermicro", "openbmc"])
async def test_other_types_than_expected_are_read_or_named(family: str, bench_of: Start) -> None:
    bench = await bench_of("body_types", family=family)
    bmc = bench.client()
    assert found_macs((await bmc.harvest()).ports) == all_macs(bench)
    await bmc.health()
    await bmc.readiness()


async def test_a_redirect_is_not_followed(bench_of: Start) -> None:
    bench = await bench_of("redirects")
    with pytest.raises(RefusedError) as told:
        await bench.client().status()
    assert "redirect" in str(told.value)


@pytest.mark.parametrize("name", AILMENTS)
async def test_an_ailment_can_be_named_by_its_case_and_repaired(name: str) -> None:
    machine = build_machine(12, 1)
    World(SimClock(600), [machine], seed=1)
    case = AILMENTS[name][0]
    first = machine.inject("bmc_sick", case)
    assert AILMENTS[first.arg][0] == case
    machine.repair(first)
    fault = machine.inject("bmc_sick", name)
    assert fault.arg == name
    machine.repair(fault)
    assert (machine.faults, machine.jobs, machine.ntp) == ([], [], False)


def test_every_ailment_is_carried_out_and_tried_here() -> None:
    """``job_pending`` and ``ntp_on`` act on the machine itself when they strike."""
    assert set(TREATMENTS) == set(AILMENTS) - {"job_pending", "ntp_on"}
    source = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in AILMENTS if f'"{name}"' not in source] == []


def test_an_unknown_ailment_is_refused_with_the_list() -> None:
    machine = build_machine(12, 1)
    World(SimClock(600), [machine], seed=1)
    with pytest.raises(SimError, match="collects_data"):
        machine.inject("bmc_sick", "R99")
