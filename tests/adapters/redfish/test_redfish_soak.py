"""Flapping BMCs for hours of their time: no session, task, file descriptor or memory is lost on the way.

``PROVISION_SOAK_S`` is how long it really takes (`make soak`: five minutes are two days at this clock).
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
import tracemalloc
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from redfish_lab import DictPins

from provision.adapters.redfish import login
from provision.adapters.redfish.bmc import RedfishBmc
from provision.adapters.redfish.limits import BmcLimits
from provision.errors import PeerError
from provision.model.bmc import Button
from provision.model.node import Node
from provision.model.profile import BootMethod
from provision.model.secret import Credential, Secret
from provision.sim.ailments import AILMENTS
from provision.sim.machine import SimMachine
from provision.sim.run import Fleet, start_fleet

SPEED = 600.0
# Logins that the BMC carries out and tells us nothing of: what nobody can end.
UNTOLD = {"session_without_token", "password_change", "password_change_403", "session_vanishes"}
FAULTS = [
    ("bmc_dead", "refused"),
    ("bmc_dead", "hang"),
    ("bmc_busy", "300"),
    ("bmc_stores_nothing", ""),
    ("lockdown", ""),
    *(("bmc_sick", name) for name in AILMENTS if name not in UNTOLD),
]
LIMITS = BmcLimits(pause_s=30.0, request_s=2.0, operation_s=900.0, conflict_s=120.0, logout_s=0.3, attempts=3)
LONG_S = float(os.environ.get("PROVISION_SOAK_S", "300"))


class FastClock:
    """The simulation's pace for the client, too."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * SPEED

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SPEED)


async def _flap(machine: SimMachine, dice: random.Random) -> None:
    """Well or ill, now in one way, now in another."""
    while True:
        for fault in tuple(machine.faults):
            machine.repair(fault)
        if dice.random() < 0.7:
            machine.inject(*dice.choice(FAULTS))
        await asyncio.sleep(dice.uniform(0.05, 0.8))


async def _work(bmc: RedfishBmc, dice: random.Random) -> None:
    await bmc.harvest()
    for _ in range(dice.randint(1, 4)):
        match dice.choice(["status", "health", "readiness", "clock", "boot", "press"]):
            case "health":
                await bmc.health()
            case "readiness":
                await bmc.readiness()
            case "clock":
                await bmc.clock()
            case "boot":
                await bmc.set_network_boot_once(BootMethod.PXE)
            case "press":
                await bmc.press(dice.choice([Button.ON, Button.FORCE_OFF, Button.RESTART]))
            case _:
                await bmc.status()


async def _use(
    fleet: Fleet,
    machine: SimMachine,
    pins: DictPins,
    dice: random.Random,
    ends: Counter[str],
    patience: list[float | None],
) -> None:
    """One run against one BMC, sometimes cancelled in the middle."""
    login._refusals.clear()
    node = Node(machine.name, "h100", f"{machine.bmc_address}:{machine.bmc_port}", machine.rack)
    secret = Credential("bmc", fleet.world.bmc_user, Secret(fleet.world.bmc_password))
    bmc = RedfishBmc(node, secret, pins, clock=FastClock(), limits=LIMITS)
    try:
        async with asyncio.timeout(dice.choice(patience)):
            await _work(bmc, dice)
        ends["done"] += 1
    except PeerError as error:
        ends[type(error).__name__] += 1
    except TimeoutError:
        ends["cancelled"] += 1
    finally:
        await bmc.close()
        ends["login-lost"] += _lost_its_login(bmc)


def _lost_its_login(bmc: RedfishBmc) -> bool:
    """Also of a run that was cancelled meanwhile: only the login itself knows."""
    opening = bmc._session._opening
    error = opening.exception() if opening is not None and not opening.cancelled() else None
    return isinstance(error, PeerError) and error.code == "login-lost"


def _held() -> tuple[int, int, int]:
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), tracemalloc.get_traced_memory()[0]


async def _user(
    fleet: Fleet, machine: SimMachine, pins: DictPins, dice: random.Random, ends: Counter[str], until: float
) -> None:
    while time.monotonic() < until:
        await _use(fleet, machine, pins, dice, ends, [None, None, 0.2, 1.0])


async def _period(fleet: Fleet, pins: DictPins, dice: random.Random, seconds: float, ends: Counter[str]) -> None:
    """Flap and use for a while, then heal everything and end what could not be ended while it was ill."""
    machines = list(fleet.world.machines.values())
    flapping = [asyncio.ensure_future(_flap(machine, dice)) for machine in machines]
    until = time.monotonic() + seconds
    await asyncio.gather(*(_user(fleet, machine, pins, dice, ends, until) for machine in machines))
    for task in flapping:
        task.cancel()
    await asyncio.gather(*flapping, return_exceptions=True)
    for machine in machines:
        for fault in tuple(machine.faults):
            machine.repair(fault)
    await asyncio.sleep(0.5)  # hung answers end, closed sockets are reaped
    for machine in machines:
        with suppress(PeerError):
            await _use(fleet, machine, pins, random.Random(0), Counter(), [None])
    await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("seed", "seconds"),
    [
        pytest.param(1, 8.0, marks=pytest.mark.journey, id="an hour"),
        pytest.param(2, LONG_S, marks=pytest.mark.soak, id="long"),
    ],
)
async def test_flapping_bmcs_leave_nothing_behind(tmp_path: Path, seed: int, seconds: float) -> None:
    dice, pins, ends = random.Random(seed), DictPins(), Counter[str]()
    tracemalloc.start()
    try:
        async with start_fleet(tmp_path / "sim", nodes=6, speed=SPEED, with_maas=False) as fleet:
            await _period(fleet, pins, dice, seconds * 0.3, ends)
            files, tasks, memory = _held()
            await _period(fleet, pins, dice, seconds * 0.7, ends)
            files_after, tasks_after, memory_after = _held()
            held = {name: dict(machine.sessions) for name, machine in fleet.world.machines.items()}
            left = {
                m.name: [s.path for s in fleet.bmcs.service(m.name).door.sessions.values()]
                for m in fleet.world.machines.values()
            }
    finally:
        tracemalloc.stop()
    # A login whose answer never came may have made a session that nobody can name: at most one each time.
    assert sum(map(len, left.values())) <= ends["login-lost"], (left, held, ends)
    assert ends["done"] >= 5, ends
    assert len(+ends) > 2, ends
    assert files_after <= files + 4, (files, files_after)
    assert tasks_after <= tasks + 2, (tasks, tasks_after)
    assert memory_after <= memory * 1.3 + 3_000_000, (memory, memory_after)
