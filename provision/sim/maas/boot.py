"""Network boots: what a machine does that MAAS has told to commission, test, install, erase or rescue itself.

Durations are simulated seconds, of the size that GPU servers take: about five minutes for a commissioning, about ten
for a deployment.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from provision.model.machine import Status
from provision.sim.maas import scripts, userdata
from provision.sim.maas.hardware import FoundDisk, FoundNic, Hardware, learn
from provision.sim.maas.lifecycle import Lifecycle
from provision.sim.maas.power import PowerError, controllable
from provision.sim.maas.region import Region
from provision.sim.maas.state import COMMISSIONING, INSTALLATION, TESTING, Record, ScriptRun, ScriptSet
from provision.sim.maas.statuses import WATCHED, ScriptStatus
from provision.sim.maas.texts import clock_failure, install_log, script_failure, smart_failure
from provision.sim.world import SimDrive, SimHost, SimMachine, World

S = Status
EPHEMERAL_SECONDS = 60.0
SCRIPT_SECONDS = 18.0
TEST_SECONDS = 20.0
INSTALL_SECONDS = 330.0
ERASE_SECONDS = 60.0
REBOOT_SECONDS = 120.0
CLOUD_INIT_SECONDS = 40.0
MONITOR_SECONDS = 60.0
POWER_POLL_SECONDS = 300.0
# A hardware clock that is off by more than this breaks certificates and package lists.
CLOCK_LIMIT_S = 3600.0
# MAAS's time limits last at least this many real seconds: what is real here (TLS, processes, a busy computer) takes
# its real time in a fast world too, and half an hour is three seconds at speed 600.
PATIENCE_S = 6.0


class Boots:
    """Machines of the world and their records in the region."""

    def __init__(self, world: World, region: Region, life: Lifecycle, ssh_keys: tuple[str, ...] | None) -> None:
        self.world = world
        self.region = region
        self.life = life
        self.ssh_keys = ssh_keys
        self.clock = world.clock
        self.patience_s = PATIENCE_S

    def record_of(self, machine: SimMachine) -> Record | None:
        """The record with one of the machine's MACs (boot port first), else with its hardware UUID."""
        for nic in [machine.boot_nic, *machine.nics]:
            if (record := self.region.by_mac.get(nic.mac.lower())) is not None:
                return record
        return next((item for item in self.region.machines.values() if item.hardware_uuid == machine.uuid), None)

    def machine_of(self, record: Record) -> SimMachine | None:
        """The machine of the world behind a record."""
        found = (self.world.by_mac(nic.mac) for nic in record.nics)
        return next((machine for machine in found if machine is not None), None)

    async def network_boot(self, machine: SimMachine, mac: str) -> None:
        """Answer a machine that asks the network what to boot."""
        record = self.region.by_mac.get(mac.lower()) or self.record_of(machine)
        if record is None:
            record = self.region.add(None, "amd64/generic", [mac.lower()])
            self.life.commission(record, None)
        match record.status:
            case S.COMMISSIONING:
                await self._commission(machine, record)
            case S.TESTING:
                await self._ephemeral(machine)
                await self._test(machine, record)
            case S.DEPLOYING if record.netboot:
                await self._deploy(machine, record)
            case S.DISK_ERASING:
                await self._erase(machine, record)
            case S.ENTERING_RESCUE_MODE:
                await self._ephemeral(machine)
                self.life.rescued(record)
            case S.DEPLOYED | S.DEPLOYING | S.FAILED_DEPLOYMENT | S.EXITING_RESCUE_MODE:
                await machine.boot_from_disk()
            case _:
                # Known, and nothing to do: MAAS lets it boot to switch itself off.
                await self._shut_down(machine, record)

    async def _ephemeral(self, machine: SimMachine) -> None:
        await self.clock.sleep(EPHEMERAL_SECONDS)
        machine.start_host(SimHost("ephemeral", hostname="maas-enlisting-node"))

    async def _shut_down(self, machine: SimMachine, record: Record) -> None:
        # The region hears of it when it asks the BMC the next time.
        asyncio.get_running_loop().call_later(POWER_POLL_SECONDS / self.clock.speed, self._poll_power, record)
        machine.power_off()

    def _poll_power(self, record: Record) -> None:
        if controllable(record) and record.power_state == "on" and record.system_id in self.region.machines:
            self.life.power.put(f"poll {record.system_id}", self._ask_power(record))

    async def _ask_power(self, record: Record) -> None:
        with suppress(PowerError):
            record.power_state = await self.life.power.driver.query(record)

    async def _commission(self, machine: SimMachine, record: Record) -> None:
        await self._ephemeral(machine)
        current = record.current[COMMISSIONING]
        for run in current.runs:
            if run.status is not ScriptStatus.PENDING:
                continue
            if record.current.get(COMMISSIONING) is not current or record.status is not S.COMMISSIONING:
                return
            await self._run(record, current, run, SCRIPT_SECONDS, _script_output(machine, run.name))
        ok = not any(run.status is ScriptStatus.FAILED for run in current.runs)
        if record.status is not S.COMMISSIONING or record.current.get(COMMISSIONING) is not current:
            return
        if ok:
            storage, networking = record.skip_storage, record.skip_networking
            found = self.look(machine)
            learn(self.region, record, found, skip_storage=storage, skip_networking=networking)
        if self.life.commissioned(record, ok=ok):
            await self._test(machine, record)
        else:
            await self._shut_down(machine, record)

    async def _run(self, record: Record, item: ScriptSet, run: ScriptRun, seconds: float, failure: str | None) -> None:
        scripts.start(self.region, item, run)
        await self.clock.sleep(seconds)
        if run.status is not ScriptStatus.RUNNING:
            return
        exit_status = 0 if failure is None else 1
        scripts.finish(self.region, record, item, run, exit_status=exit_status, output=failure or "ok\n")

    async def _test(self, machine: SimMachine, record: Record) -> None:
        current = record.current[TESTING]
        drives = machine.disk_order()
        counts: dict[str, int] = {}
        for run in current.runs:
            if record.status is not S.TESTING or run.status is not ScriptStatus.PENDING:
                continue
            at = counts[run.name] = counts.get(run.name, -1) + 1
            failing = run.name in scripts.PER_DISK and at < len(drives) and drives[at].failing
            failure = smart_failure(drives[at].serial) if failing else None
            await self._run(record, current, run, TEST_SECONDS, failure)
        ok = not any(run.status is ScriptStatus.FAILED for run in current.runs)
        if record.status is S.TESTING:
            self.life.tested(record, ok=ok)
        await self._shut_down(machine, record)

    def look(self, machine: SimMachine) -> Hardware:
        """What an ephemeral system finds on the machine at this boot."""
        disks = tuple(
            FoundDisk(f"nvme{number}n1", drive.serial, drive.model, drive.size_bytes)
            for number, drive in enumerate(machine.disk_order())
        )
        subnet = self.region.subnets[0]
        vlan = (subnet.vlan_id, subnet.fabric_id, subnet.name)
        nics = tuple(
            FoundNic(
                nic.device or nic.name,
                nic.mac.lower(),
                nic.link_up,
                vlan if nic.boot else None,
                "auto" if nic.boot else "link_up",
                on_subnet=nic.boot,
            )
            for nic in machine.nics
            if nic.kind == "ethernet" and nic.present
        )
        memory = sum(dimm.size_bytes for dimm in machine.dimms if dimm.present) >> 20
        tag = machine.service_tag
        return Hardware(192, memory, disks, nics, uuid=machine.uuid, serial=tag, boot_method="uefi")

    async def _deploy(self, machine: SimMachine, record: Record) -> None:
        await self._ephemeral(machine)
        install = record.current.get(INSTALLATION)
        if install is not None:
            scripts.start(self.region, install, install.runs[0])
        target = self._target(machine, record)
        await self.clock.sleep(INSTALL_SECONDS / 2)
        why = None if record.ephemeral else _install_failure(machine, target)
        if not record.ephemeral and target is not None:
            # From here on the old system is gone, whatever comes.
            machine.installed = None
        await self.clock.sleep(INSTALL_SECONDS / 2)
        if record.status is not S.DEPLOYING or record.current.get(INSTALLATION) is not install:
            return
        if why is not None:
            self.life.install_failed(record, install_log(why))
            return
        host = self._host(record, target)
        if not record.ephemeral:
            machine.installed = host
            machine.deployed_count += 1
        self.life.installed(record, machine.ssh_address or None, install_log(None))
        await self._first_boot(machine, record, host)

    async def _first_boot(self, machine: SimMachine, record: Record, host: SimHost) -> None:
        machine.host = None
        if record.ephemeral:
            machine.start_host(host)
        else:
            await self.clock.sleep(REBOOT_SECONDS)
            await machine.boot_from_disk()
        await self.clock.sleep(CLOUD_INIT_SECONDS)
        self.life.booted(record)

    def _target(self, machine: SimMachine, record: Record) -> SimDrive | None:
        disk = record.root_disk
        present = (drive for drive in machine.drives if drive.present)
        return next((drive for drive in present if disk is not None and drive.serial == disk.serial), None)

    def _host(self, record: Record, target: SimDrive | None) -> SimHost:
        given = userdata.parse(record.user_data)
        # Keys that MAAS's user has registered go to every host.
        registered = self.world.authorized_keys if self.ssh_keys is None else self.ssh_keys
        epochs = [int(value) for name, value in record.owner_data.items() if name.endswith("epoch") and value.isdigit()]
        return SimHost(
            "installed",
            hostname=record.hostname,
            files={"/etc/hostname": f"{record.hostname}\n", **given.files},
            host_private_key=given.host_key or userdata.random_host_key(),
            authorized_keys=(*registered, *given.authorized_keys),
            image=f"{record.osystem}/{record.series}",
            epoch=max(epochs, default=0),
            disk_serial=target.serial if target and not record.ephemeral else "",
            installed_at=self.clock.now(),
        )

    async def _erase(self, machine: SimMachine, record: Record) -> None:
        await self._ephemeral(machine)
        await self.clock.sleep(ERASE_SECONDS)
        machine.installed = None
        self.life.erased(record)
        await self.clock.sleep(CLOUD_INIT_SECONDS)
        self.life.erase_over(record)
        if not controllable(record):
            machine.power_off()

    async def watch(self) -> None:
        """MAAS's status monitor, and the phone call of hosts that booted their disk by another's hand."""
        while True:
            await self.clock.sleep(MONITOR_SECONDS)
            for record in list(self.region.machines.values()):
                self._watch_one(record)

    def _watch_one(self, record: Record) -> None:
        watched = WATCHED.get(record.status)
        if watched is None:
            return
        if record.status is S.DEPLOYING and not record.netboot:
            machine = self.machine_of(record)
            if machine is not None and machine.host is not None and machine.host is machine.installed:
                self.life.booted(record)
                return
        name, minutes, failed = watched
        limit = minutes if minutes is not None else int(str(self.region.config["node_timeout"]))
        last = self.clock.seconds() - record.status_since
        if last > max(limit * 60, self.patience_s * self.clock.speed):
            self.life.time_out(record, name, limit, failed)


def _script_output(machine: SimMachine, name: str) -> str | None:
    """What a commissioning script fails with; None if it passes."""
    if name == "20-maas-01-install-lldpd" and abs(machine.bmc_clock_offset_s) > CLOCK_LIMIT_S:
        return clock_failure(machine.bmc_clock_offset_s)
    if name == "50-maas-01-commissioning" and machine.has_fault("commissioning_fails"):
        return script_failure()
    return None


def _install_failure(machine: SimMachine, target: SimDrive | None) -> str | None:
    """Why an installation fails; None if it does not."""
    if abs(machine.bmc_clock_offset_s) > CLOCK_LIMIT_S:
        return clock_failure(machine.bmc_clock_offset_s)
    if target is None:
        return "ValueError: Failed to find storage volume id='root' config: no such disk\n"
    if machine.has_fault("deploy_fails") or machine.take_fault("deploy_fails_once"):
        return (
            "Running command ['curtin', 'in-target', '--', 'apt-get', 'install', '--assume-yes', 'linux-generic']\n"
            "E: Failed to fetch linux-image-generic  Connection timed out\n"
        )
    return None
