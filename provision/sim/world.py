"""The simulated world: time, machines and the faults that strike them.

Everything that other rooms of the simulator need is imported from here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol

from provision.sim.faults import FAULTS
from provision.sim.machine import RESET_TYPES, Parts, PressRefusedError, SimMachine
from provision.sim.parts import (
    BootOverride,
    Fault,
    LogEntry,
    SimDimm,
    SimDrive,
    SimError,
    SimGpu,
    SimHost,
    SimNic,
    SimPcieSlot,
    SimPsu,
)

__all__ = [
    "FAULTS",
    "RESET_TYPES",
    "BootOverride",
    "BootServer",
    "Fault",
    "LogEntry",
    "Parts",
    "PressRefusedError",
    "SimClock",
    "SimDimm",
    "SimDrive",
    "SimError",
    "SimGpu",
    "SimHost",
    "SimMachine",
    "SimNic",
    "SimPcieSlot",
    "SimPsu",
    "World",
]

_LOG = logging.getLogger("provision.sim")


class SimClock:
    """Time of the world: durations run ``speed`` times faster, clocks show true time.

    ``now`` is what every clock in the world shows (BMC, MAAS, hosts): the wall clock, because the program under
    test compares it with its own. Durations are measured with ``sleep`` and ``seconds``, never with ``now``.
    """

    def __init__(self, speed: float = 1.0) -> None:
        if not speed > 0:
            raise SimError(f"speed {speed} is not above zero: 1 is real time, 600 runs ten minutes in a second")
        self.speed = speed
        self._start = time.monotonic()

    def now(self) -> datetime:
        """True time, UTC."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        """Simulated seconds since the world began."""
        return (time.monotonic() - self._start) * self.speed

    async def sleep(self, sim_seconds: float) -> None:
        """Wait for simulated seconds."""
        await asyncio.sleep(max(0.0, sim_seconds) / self.speed)


class BootServer(Protocol):
    """Who answers a network boot: the simulated MAAS."""

    async def network_boot(self, machine: SimMachine, mac: str) -> None:
        """The machine asks from ``mac``. It is cancelled when the machine loses power.

        Calls ``machine.start_host`` for what it boots, or ``machine.boot_from_disk`` to send it to its disk.
        """


class World:
    """All machines, one clock, one seed.

    ``bmc_user`` and ``bmc_password`` open every BMC; ``ssh_user`` and ``authorized_keys`` are what MAAS's user has
    registered there, so every deployed host lets them in.
    """

    def __init__(self, clock: SimClock, machines: Iterable[SimMachine], seed: int = 1) -> None:
        self.clock = clock
        self.seed = seed
        self.machines: dict[str, SimMachine] = {}
        self.boot_server: BootServer | None = None
        self.dhcp_dead_racks: set[str] = set()
        self.bmc_user = "provision"
        self.bmc_password = ""
        self.ssh_user = "root"
        self.authorized_keys: tuple[str, ...] = ()
        self.problems: list[str] = []
        self._by_mac: dict[str, SimMachine] = {}
        for machine in machines:
            machine.world = self
            self.machines[machine.name] = machine
            self._by_mac.update({nic.mac.lower(): machine for nic in machine.nics})

    def by_mac(self, mac: str) -> SimMachine | None:
        """The machine with this MAC, in any case, with colons."""
        return self._by_mac.get(mac.lower())

    def by_name(self, name: str) -> SimMachine:
        """The machine of this name. Raises SimError."""
        if name not in self.machines:
            raise SimError(f"there is no machine {name!r} in this simulation; it has {_some(self.machines)}")
        return self.machines[name]

    def inject(self, name: str, kind: str, arg: str = "") -> Fault:
        """Let a fault strike a machine. Raises SimError for an unknown machine, kind or argument."""
        return self.by_name(name).inject(kind, arg)

    def repair(self, name: str, kind: str | None = None) -> list[Fault]:
        """Repair every fault of a machine, or those of one kind. Returns what was repaired."""
        machine = self.by_name(name)
        if kind is not None and kind not in FAULTS:
            raise SimError(f"there is no fault {kind!r}; the kinds are {', '.join(FAULTS)}")
        mended = [fault for fault in machine.faults if kind in {None, fault.kind}]
        for fault in mended:
            machine.repair(fault)
        return mended

    def swap_drives(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        """Somebody swaps the drives of two (machine, bay); a drive that fails goes on failing where it is put."""
        here, there = self.by_name(one[0]), self.by_name(other[0])
        failing = [(m, bay, Fault("nvme_failing", bay) in m.faults) for m, bay in ((here, one[1]), (there, other[1]))]
        for machine, bay, fails in failing:
            if fails:
                machine.repair(Fault("nvme_failing", bay))
        there.refit(other[1], here.refit(one[1], next(d for d in there.drives if d.locator == f"Bay {other[1]}")))
        for (machine, bay, _), (_, _, fails) in zip(failing, reversed(failing), strict=True):
            if fails:
                machine.inject("nvme_failing", bay)

    @property
    def writes(self) -> Counter[str]:
        """Writes that all machines received, by name."""
        return sum((machine.writes for machine in self.machines.values()), Counter[str]())

    def reset_writes(self) -> None:
        """Start counting from zero."""
        for machine in self.machines.values():
            machine.writes.clear()
            machine.sessions.clear()

    def report(self, machine: SimMachine, error: BaseException) -> None:
        """Something of the simulator itself broke in the background."""
        self.problems.append(f"{machine.name}: {type(error).__name__}: {error}")
        _LOG.error("simulated machine %s: %s", machine.name, error, exc_info=error)

    async def stop(self) -> None:
        """End everything that runs in the background of the machines."""
        await asyncio.gather(*(machine.stop() for machine in self.machines.values()))


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    shown = ", ".join(listed[:8])
    return shown if len(listed) <= 8 else f"{shown} and {len(listed) - 8} more"
