"""One simulated machine: its parts, its power button, its POST and what it boots."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from provision.sim import faults as table
from provision.sim.families import RESETS, Family, family
from provision.sim.parts import (
    BootOverride,
    Fault,
    LogEntry,
    SimDimm,
    SimDrive,
    SimGpu,
    SimHost,
    SimNic,
    SimPcieSlot,
    SimPsu,
)

if TYPE_CHECKING:
    from provision.sim.world import World

# POST of a GPU server takes minutes; (BootProgress.LastState as Redfish spells it, simulated seconds in it).
POST_STATES = (
    ("PrimaryProcessorInitializationStarted", 15.0),
    ("MemoryInitializationStarted", 50.0),
    ("PCIResourceConfigStarted", 40.0),
    ("SystemHardwareInitializationComplete", 15.0),
)
NETWORK_SECONDS = 10.0  # DHCP and the first file
NO_ANSWER_SECONDS = 60.0  # what firmware waits for a DHCP offer before it goes on to the next boot option
DISK_BOOT_SECONDS = 40.0
SHUTDOWN_SECONDS = 20.0
RESET_TYPES = RESETS


class PressRefusedError(Exception):
    """The power button does nothing in this state; ``code`` is Dell's message id (``PSU501``)."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Parts:
    """All parts of one machine."""

    nics: list[SimNic] = field(default_factory=list)
    drives: list[SimDrive] = field(default_factory=list)
    psus: list[SimPsu] = field(default_factory=list)
    gpus: list[SimGpu] = field(default_factory=list)
    dimms: list[SimDimm] = field(default_factory=list)
    slots: list[SimPcieSlot] = field(default_factory=list)

    def copied(self) -> Parts:
        """The same parts once more. They are flat, so this is ten times quicker than ``deepcopy``."""
        return Parts(**{name: [copy(part) for part in parts] for name, parts in vars(self).items()})


@dataclass
class BiosJob:
    """A configuration job of the BMC: it waits for the next POST, which it spends, and then the machine boots again."""

    number: int
    created: datetime
    attributes: dict[str, str] = field(default_factory=dict)
    state: str = "Scheduled"

    @property
    def name(self) -> str:
        """``JID_`` and twelve digits."""
        return f"JID_{self.number:012d}"


class SimMachine:
    """A machine of the world.

    Parts are attributes: ``nics``, ``drives``, ``psus``, ``gpus``, ``dimms``, ``slots``.

    ``writes`` counts every write that reached it, by name: ``bmc:reset:On``, ``bmc:boot``, ``bmc:clock``,
    ``maas:commission``, ``maas:deploy``, ``playbook``. ``sessions`` counts BMC logins and logouts apart.
    ``host`` is the operating system that runs at the moment, ``installed`` the one on the disk.
    """

    def __init__(
        self, name: str, parts: Parts, *, rack: str, unit: int, service_tag: str, uuid: str, maker: str = "idrac9"
    ) -> None:
        self.name = name
        self.rack = rack
        self.unit = unit
        self.service_tag = service_tag
        self.asset_tag = f"A-{service_tag}"
        self.uuid = uuid
        self.family: Family = family(maker)
        self.model = self.family.model
        self.site = "sim"
        self.room = "hall-1"
        self.bmc_address = ""
        self.bmc_port = 0
        self.ssh_address = ""
        self.ssh_port = 0
        self.world: World
        self.powered = False
        self.post_progress = "None"
        self.post_changed: datetime | None = None
        self.last_reset: datetime | None = None
        self.boot_count = 0
        self.boot_override = BootOverride()
        self.bios: dict[str, str] = table.healthy_bios(parts.nics)
        self.bmc_clock_offset_s = 0.0
        self.bmc_busy_until = 0.0
        self.bmc_latency_s = 0.0
        self.faults: list[Fault] = []
        self.sick: Counter[str] = Counter()  # what a sick BMC remembers from one request to the next
        self.log: list[LogEntry] = []
        self.writes: Counter[str] = Counter()
        self.sessions: Counter[str] = Counter()
        self.traffic: Counter[str] = Counter()  # requests and connections of its BMC
        self.deployed_count = 0
        self.host: SimHost | None = None
        self.installed: SimHost | None = None
        self.parts_revision = 0
        self.watchers: list[Callable[[], None]] = []
        self.jobs: list[BiosJob] = []
        self.ntp = False
        self._healthy = parts
        self._parts = parts.copied()
        self._boot: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def nics(self) -> list[SimNic]:
        """All ports, also those that a fault has taken away (``present`` is False)."""
        return self._parts.nics

    @property
    def drives(self) -> list[SimDrive]:
        """All drives in bay order, the boot drive last."""
        return self._parts.drives

    @property
    def psus(self) -> list[SimPsu]:
        """All power supplies."""
        return self._parts.psus

    @property
    def gpus(self) -> list[SimGpu]:
        """All GPUs."""
        return self._parts.gpus

    @property
    def dimms(self) -> list[SimDimm]:
        """All memory modules."""
        return self._parts.dimms

    @property
    def slots(self) -> list[SimPcieSlot]:
        """All PCIe slots that carry a card."""
        return self._parts.slots

    @property
    def boot_nic(self) -> SimNic:
        """The port that the cabling plan means for the network boot."""
        return next(nic for nic in self.nics if nic.boot)

    @property
    def bmc_version(self) -> str:
        """Firmware that the BMC runs."""
        return next((fault.arg for fault in self.faults if fault.kind == "bmc_updated"), self.family.bmc_version)

    def refit(self, bay: str, drive: SimDrive) -> SimDrive:
        """Put another drive into a bay for good; returns the one that was there."""
        drives = self._healthy.drives
        place = next(n for n, item in enumerate(drives) if str(item.bay) == bay and not item.boot)
        old, drives[place] = drives[place], replace(drive, bay=drives[place].bay, id_path=drives[place].id_path)
        self._derive()
        return old

    def has_fault(self, kind: str) -> bool:
        """True if a fault of this kind is active."""
        return any(fault.kind == kind for fault in self.faults)

    def take_fault(self, kind: str) -> bool:
        """Use up a fault that strikes once. True if there was one."""
        for fault in self.faults:
            if fault.kind == kind:
                self.repair(fault)
                return True
        return False

    def inject(self, kind: str, arg: str = "") -> Fault:
        """Let a fault strike. Raises SimError for an unknown kind or argument."""
        fault = table.resolve(self, kind, arg)
        if fault in self.faults:
            return fault
        row = table.FAULTS[kind]
        self.faults.append(fault)
        row.strike(self, fault.arg)
        self._derive()
        self._write_log(row.says(self, fault.arg))
        if not any(psu.giving for psu in self.psus):
            self._drop_power()
        return fault

    def repair(self, fault: Fault) -> None:
        """Undo one active fault; the BMC logs that it is over."""
        self.faults.remove(fault)
        row = table.FAULTS[fault.kind]
        row.mend(self, fault.arg)
        self._derive()
        self._write_log(row.ends(self, fault.arg))

    def _derive(self) -> None:
        self._parts = self._healthy.copied()
        for fault in self.faults:
            table.FAULTS[fault.kind].apply(self, fault.arg)
        self.parts_revision += 1
        for watcher in self.watchers:
            watcher()

    def _write_log(self, lines: tuple[table.Line, ...]) -> None:
        for line in lines:
            self.log.append(
                LogEntry(
                    len(self.log) + 1,
                    self.bmc_now(),
                    line.message_id,
                    line.text,
                    line.severity,
                    line.args,
                    line.fqdd,
                    line.clears,
                )
            )

    def bmc_now(self) -> datetime:
        """What the BMC's own clock shows."""
        return self.world.clock.now() + table.hours(self.bmc_clock_offset_s / 3600)

    def set_bmc_clock(self, offset_s: float) -> None:
        """The BMC's clock was set; ``offset_s`` is what it is ahead of true time afterwards."""
        self.bmc_clock_offset_s = offset_s
        self.faults = [fault for fault in self.faults if fault.kind != "clock_off"]

    def queue_job(self, attributes: dict[str, str]) -> BiosJob:
        """A BIOS job for the next POST."""
        job = BiosJob(101 + len(self.jobs), self.bmc_now(), attributes)
        self.jobs.append(job)
        return job

    def disk_order(self) -> list[SimDrive]:
        """Present drives in the order in which this boot's kernel numbers them (nvme0n1 first)."""
        present = [drive for drive in self.drives if drive.present]
        if self.has_fault("disk_order"):
            random.Random(f"{self.world.seed}/{self.name}/{self.boot_count}").shuffle(present)
        return present

    async def press(self, reset_type: str) -> None:
        """Press the power button; returns when the press is accepted, the state follows.

        Raises:
            PressRefusedError: it is already so, or there is nothing to restart.
        """
        if reset_type == "On":
            if self.powered:
                raise PressRefusedError("PSU501", "The server is already powered on.")
            self.power_on()
        elif reset_type == "ForceOn":
            self.power_on()
        elif reset_type in {"ForceOff", "GracefulShutdown"}:
            if not self.powered:
                raise PressRefusedError("PSU502", "The server is already powered off.")
            if reset_type == "GracefulShutdown" and self.host is not None:
                self.spawn(self._shut_down(self.boot_count))
            else:
                self.power_off()
        elif reset_type == "PushPowerButton":
            self.power_off() if self.powered else self.power_on()
        elif not self.powered:
            raise PressRefusedError("PSU502", "The server is powered off, so it cannot be restarted.")
        elif reset_type != "Nmi":
            self.power_off()
            self.power_on()

    async def _shut_down(self, boot: int) -> None:
        await self.world.clock.sleep(SHUTDOWN_SECONDS)
        if self.boot_count == boot:
            self.power_off()

    def power_on(self) -> None:
        """Apply power and start POST, unless it is on already or no supply gives power."""
        if self.powered or not any(psu.giving for psu in self.psus):
            return
        self.powered = True
        self.boot_count += 1
        self.last_reset = self.bmc_now()
        self._boot = self.spawn(self._run_boot())

    def power_off(self) -> None:
        """Cut power: whatever ran is gone, also a commissioning or an installation under way."""
        self._drop_power()

    def _drop_power(self) -> None:
        self.powered = False
        self.host = None
        self._progress("None")
        boot, self._boot = self._boot, None
        if boot is not None and boot is not _current_task():
            boot.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something in the background of this machine; its failure is reported, not lost."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.report(self, error)

    def _progress(self, state: str) -> None:
        self.post_progress = state
        self.post_changed = self.bmc_now()

    async def _run_boot(self) -> None:
        await self._post()
        if waiting := [job for job in self.jobs if job.state == "Scheduled"]:
            for job in waiting:
                self.bios |= job.attributes
                job.state = "Completed"
            await self._post()
        for fault in self.faults:
            row = table.FAULTS[fault.kind]
            if row.at_post:
                self._write_log(row.says(self, fault.arg))
        network = self.boot_override.network or self.installed is None
        http = self.boot_override.target == "UefiHttp"
        if self.boot_override.enabled == "Once":
            self.boot_override.target, self.boot_override.enabled = "None", "Disabled"
        if network and await self._network_boot(http=http):
            return
        await self.boot_from_disk()

    async def _post(self) -> None:
        for state, seconds in POST_STATES:
            self._progress(state)
            await self.world.clock.sleep(seconds)

    async def _network_boot(self, *, http: bool) -> bool:
        nic = self.boot_nic
        enabled = self.bios["HttpDev1EnDis" if http else "PxeDev1EnDis"] == "Enabled"
        if not enabled or not nic.present:
            return False
        heard = nic.cabled and nic.as_planned and self.rack not in self.world.dhcp_dead_racks
        server = self.world.boot_server
        if not heard or server is None:
            await self.world.clock.sleep(NO_ANSWER_SECONDS)
            return False
        await self.world.clock.sleep(NETWORK_SECONDS)
        self._progress("OSBootStarted")
        await server.network_boot(self, nic.mac)
        return True

    async def boot_from_disk(self) -> None:
        """Start the installed system (``host`` becomes it), or sit there without a bootable device.

        A boot server calls this when it tells a machine to boot locally.
        """
        system = self.installed
        if system is None or any(d.serial == system.disk_serial and not d.present for d in self.drives):
            self._progress("OEM")
            self._write_log((table.Line("PST0081", "No bootable device is available.", "Critical"),))
            return
        self._progress("OSBootStarted")
        await self.world.clock.sleep(DISK_BOOT_SECONDS)
        self.start_host(system)

    def start_host(self, host: SimHost) -> None:
        """An operating system is up on this machine."""
        if self.powered:
            self.host = host
            self._progress("OSRunning")

    async def stop(self) -> None:
        """End everything that runs in the background."""
        self.powered = False
        tasks = [task for task in self._tasks if task is not _current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
