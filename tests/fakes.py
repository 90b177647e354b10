"""A small world in memory that fulfils the ports, with its own time: whole bring-ups run in milliseconds.

``World`` holds the metal; ``FakeBmc``, ``FakeMaas``, ``FakeShell``, ``FakePlaybooks`` are one process's view of it,
``FakeJournal`` its store. ``World.die_at`` kills the process at its n-th point (a point lies before and after every
write): from then on every call raises ``Killed``, until ``World.revive``.
"""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count

from provision.errors import CredentialRefusedError, PeerError, RefusedError, UnavailableError
from provision.model.bmc import (
    BmcClock,
    BmcIdentity,
    BmcStatus,
    BootReadiness,
    Button,
    Harvest,
    Health,
    Link,
    NicPort,
    Power,
)
from provision.model.event import Event
from provision.model.evidence import Evidence, Gap, Part, PartKind, Reading
from provision.model.finding import Action, Category, Dispatch, Finding, Verdict
from provision.model.machine import (
    DeploySpec,
    MaasDisk,
    MaasEvent,
    Machine,
    MachineSpec,
    Receipt,
    ScriptResult,
    Status,
)
from provision.model.node import Address, MacAddress, Node
from provision.model.profile import BootMethod, DiskFacts, DiskRule, Goal, Image, Profile
from provision.model.run import Attempt, NodeState, Run
from provision.model.secret import Credential, Secret
from provision.model.site import PowerBy, Site
from provision.model.ticket import ChangeKind, Ticket, TicketChange
from provision.ports import CommandResult, Desk, Judge, Marker, Tools, WaveState, WaveVerdict

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
PROFILE = Profile("h100", Image("jammy"), DiskRule(model="BOSS"))
CONTACT_S, COMMISSIONED_S, DEPLOYED_S, MAAS_GIVES_UP_S = 240.0, 600.0, 900.0, 1800.0


class Killed(BaseException):
    """The process is dead: nothing it calls answers any more."""


class FakeClock:
    """Virtual time: when nothing else is to be done, it jumps to the next sleeper."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._armed = False

    def now(self) -> datetime:
        return START + timedelta(seconds=self._now)

    def monotonic(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """Let time pass between two runs."""
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + max(seconds, 0.0), next(self._order), future))
        self._arm()
        await future

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._armed = False
        loop = asyncio.get_running_loop()
        # Only the loop knows whether it is idle; other clocks that wait for the same are no work.
        waiting = (getattr(handle._callback, "__func__", None) for handle in loop._ready)  # type: ignore[attr-defined]
        if any(callback is not FakeClock._turn for callback in waiting):
            self._arm()
            return
        while self._sleepers:
            at, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                self._now = max(self._now, at)
                future.set_result(None)
                break
        if self._sleepers:
            self._arm()


@dataclass
class Metal:
    """One machine: its parts, its record in MAAS, what goes wrong with it."""

    node: Node
    tag: str
    ports: tuple[NicPort, ...]
    disks: tuple[MaasDisk, ...]
    power: Power = Power.OFF
    boot_target: str = "None"
    boot_enabled: str = "Disabled"
    last_reset: datetime | None = None
    offset_s: float = 0.0
    readiness: BootReadiness = field(default_factory=lambda: BootReadiness(True, False))
    health: dict[str, Evidence] = field(default_factory=dict)
    bmc_error: PeerError | None = None
    bmc_silent_until: float = 0.0
    forgets_boot: bool = False
    shows_reset: bool = True
    no_dhcp: bool = False
    machine: Machine | None = None
    results: tuple[ScriptResult, ...] = ()
    events: tuple[MaasEvent, ...] = ()
    commission_fails: int = 0
    deploy_fails: int = 0
    playbook_fails: int = 0
    host_up_at: float = float("inf")
    marker: Marker | None = None
    checks: list[dict[str, object]] = field(default_factory=list)
    due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    deployments: int = 0
    erasures: int = 0
    presses: int = 0


class World:
    """All metal, one MAAS, and time."""

    def __init__(self, nodes: Sequence[Node], *, power_by: PowerBy = PowerBy.MAAS) -> None:
        self.clock = FakeClock()
        self.power_by = power_by
        self.metal = {node.name: _metal(node, number) for number, node in enumerate(nodes)}
        self.writes: list[tuple[str, str]] = []
        self.bmc_logins: list[str] = []
        self.maas_error: PeerError | None = None
        self.lost_answers: set[str] = set()
        self.points = 0
        self.die_at: int | None = None
        self.dead = False
        self.most: dict[Status, int] = {}

    def point(self) -> None:
        """A moment at which the process may die."""
        self.alive()
        self.points += 1
        if self.die_at is not None and self.points >= self.die_at:
            self.dead = True
            raise Killed

    def alive(self) -> None:
        if self.dead:
            raise Killed

    def revive(self) -> None:
        """Another process begins; a minute has passed."""
        self.dead, self.die_at = False, None
        self.clock.jump(60)

    def tick(self) -> None:
        """Let happen what is due; remember how many machines were in each status at once."""
        now = self.clock.monotonic()
        for metal in self.metal.values():
            metal.due.sort(key=lambda item: item[0])
            while metal.due and metal.due[0][0] <= now:
                metal.due.pop(0)[1]()
        statuses = [metal.machine.status for metal in self.metal.values() if metal.machine is not None]
        for status in set(statuses):
            self.most[status] = max(self.most.get(status, 0), statuses.count(status))

    def write(self, name: str, operation: str, effect: Callable[[], None]) -> None:
        """One write: it may die before or after its effect, or lose its answer."""
        self.point()
        self.tick()
        effect()
        self.writes.append((name, operation))
        self.point()
        if operation in self.lost_answers:
            self.lost_answers.discard(operation)
            raise UnavailableError(f"fake {name}", operation, "no answer in 60 s")

    def written(self, name: str) -> list[str]:
        """The writes that a node got, in order."""
        return [operation for node, operation in self.writes if node == name]

    def status(self, name: str) -> Status | None:
        """The machine's status at this moment."""
        self.tick()
        machine = self.metal[name].machine
        return machine.status if machine is not None else None

    # What MAAS and the machine do by themselves.

    def set(self, metal: Metal, status: Status, **more: object) -> None:
        assert metal.machine is not None
        metal.machine = replace(metal.machine, status=status, **more)  # type: ignore[arg-type]

    def later(self, metal: Metal, seconds: float, effect: Callable[[], None]) -> None:
        metal.due.append((self.clock.monotonic() + seconds, effect))

    def log(self, metal: Metal, kind: str, text: str = "", level: str = "INFO") -> None:
        metal.events = (MaasEvent(self.clock.now(), level, kind, text), *metal.events)

    def start(self, metal: Metal, status: Status) -> None:
        """MAAS begins an operation that needs a boot, and presses the button if it has it."""
        self.set(metal, status)
        self.log(metal, status.label)
        metal.due.clear()
        failed = Status.FAILED_COMMISSIONING if status is Status.COMMISSIONING else Status.FAILED_DEPLOYMENT
        self.later(metal, MAAS_GIVES_UP_S, lambda: self.set(metal, failed))
        if self.power_by is PowerBy.MAAS:
            metal.boot_target, metal.boot_enabled = "Pxe", "Once"
            self.boot(metal)

    def boot(self, metal: Metal) -> None:
        network = metal.boot_enabled == "Once" and metal.boot_target in {"Pxe", "UefiHttp"}
        metal.power, metal.last_reset = Power.ON, self.clock.now()
        metal.boot_target, metal.boot_enabled = "None", "Disabled"
        status = metal.machine.status if metal.machine is not None else None
        if not network or metal.no_dhcp:
            return
        if status is Status.COMMISSIONING:
            metal.due.clear()
            self.later(metal, CONTACT_S, lambda: self._contact(metal))
            self.later(metal, COMMISSIONED_S, lambda: self._commissioned(metal))
        elif status is Status.DEPLOYING:
            metal.due.clear()
            self.later(metal, CONTACT_S, lambda: self.log(metal, "Performing PXE boot"))
            self.later(metal, DEPLOYED_S, lambda: self._deployed(metal))

    def _contact(self, metal: Metal) -> None:
        metal.results = (ScriptResult("50-maas-01-commissioning", "commissioning", "running", None),)

    def _commissioned(self, metal: Metal) -> None:
        if metal.commission_fails > 0:
            metal.commission_fails -= 1
            lines = "probing\nno such device\n"
            metal.results = (ScriptResult("50-maas-01-commissioning", "commissioning", "failed", 1, lines),)
            self.set(metal, Status.FAILED_COMMISSIONING)
        else:
            first = metal.disks[0].id
            self.set(metal, Status.READY, disks=metal.disks, boot_disk_id=first, root_disk_ids=(first,))
        metal.power = Power.OFF

    def _deployed(self, metal: Metal) -> None:
        if metal.deploy_fails > 0:
            metal.deploy_fails -= 1
            metal.results = (ScriptResult("curtin", "installation", "failed", 1, "mirror does not answer"),)
            self.set(metal, Status.FAILED_DEPLOYMENT)
            return
        metal.deployments += 1
        metal.marker = None
        metal.host_up_at = self.clock.monotonic() + 120
        self.set(metal, Status.DEPLOYED, addresses=("10.2.0.9",), series="jammy")


def _metal(node: Node, number: int) -> Metal:
    macs = [
        MacAddress(f"b8:3f:d2:00:{number // 256:02x}:{number % 256:02x}"),
        MacAddress(f"b8:3f:d3:00:00:{number:02x}"),
    ]
    if number > 255:
        macs = macs[:1]
    ports = tuple(
        NicPort(f"NIC.{n}", f"Slot 3 Port {n}", mac, link=Link.UP, network_boot=n == 1) for n, mac in enumerate(macs, 1)
    )
    disks = tuple(
        MaasDisk(10 * number + n, f"nvme{n}n1", DiskFacts(f"S{number}-{n}", model, size))
        for n, (model, size) in enumerate([("NVMe 7450", 3_840_000_000_000), ("BOSS-N1", 480_000_000_000)])
    )
    return Metal(
        node,
        node.service_tag or f"TAG{number}",
        ports,
        disks,
        health={"PSU 1": reading(node.name, PartKind.PSU, "PSU 1", Reading.OK)},
        checks=[{"name": "gpu-count", "ok": True, "why": "8 of 8", "part": {"kind": "gpu", "name": "*"}}],
    )


def reading(node: str, kind: PartKind, place: str, value: Reading) -> Evidence:
    """One reading of a part, as a BMC gives it."""
    return Evidence(node, Part(kind, place, place), value, f"redfish/{kind}s", START)


class FakeBmc:
    """One session to one machine's BMC."""

    def __init__(self, world: World, node: Node) -> None:
        self.world = world
        self.metal = world.metal[node.name]
        self.closed = False
        self._open = False

    def _reach(self) -> Metal:
        self.world.alive()
        self.world.tick()
        if not self._open:
            self.world.bmc_logins.append(self.metal.node.name)
        if self.metal.bmc_error is not None:
            raise self.metal.bmc_error
        if self.world.clock.monotonic() < self.metal.bmc_silent_until:
            raise UnavailableError(f"BMC {self.metal.node.bmc_address}", "GET /redfish/v1", "503 not now")
        self._open = True
        return self.metal

    async def harvest(self) -> Harvest:
        metal = self._reach()
        return Harvest(BmcIdentity("Dell Inc.", "XE9680", metal.tag, None, "dell"), metal.ports)

    async def status(self) -> BmcStatus:
        metal = self._reach()
        reset = metal.last_reset if metal.shows_reset else None
        return BmcStatus(metal.power, metal.boot_target, metal.boot_enabled, progress="OSRunning", last_reset=reset)

    async def readiness(self) -> BootReadiness:
        return self._reach().readiness

    async def health(self) -> Health:
        return Health(tuple(self._reach().health.values()))

    async def clock(self) -> BmcClock:
        return BmcClock(self._reach().offset_s, ntp=False)

    async def set_network_boot_once(self, method: BootMethod) -> None:
        metal = self._reach()

        def effect() -> None:
            if not metal.forgets_boot:
                target = {BootMethod.PXE: "Pxe", BootMethod.UEFI_HTTP: "UefiHttp"}[method]
                metal.boot_target, metal.boot_enabled = target, "Once"

        self.world.write(metal.node.name, "network-boot", effect)

    async def press(self, button: Button) -> None:
        metal = self._reach()

        def effect() -> None:
            metal.presses += 1
            if button in {Button.ON, Button.RESTART}:
                self.world.boot(metal)
            else:
                metal.power = Power.OFF

        self.world.write(metal.node.name, f"press-{button}", effect)

    async def set_clock(self) -> None:
        metal = self._reach()
        self.world.write(metal.node.name, "set-clock", lambda: setattr(metal, "offset_s", 0.0))

    async def enable_network_device(self, methods: Sequence[BootMethod]) -> None:
        metal = self._reach()

        def effect() -> None:
            metal.readiness = replace(metal.readiness, network_device_pending=True, pending_jobs=("JID_1 BIOS",))

        self.world.write(metal.node.name, "enable-network-device", effect)

    async def reset_bmc(self) -> None:
        metal = self.metal
        self.world.alive()

        def effect() -> None:
            metal.bmc_silent_until = self.world.clock.monotonic() + 180.0
            metal.bmc_error = None

        self.world.write(metal.node.name, "reset-bmc", effect)

    async def close(self) -> None:
        self.closed = True


class FakeMaas:
    """MAAS with its status rules (facts: op × status). The listing is ten seconds old at most."""

    def __init__(self, world: World, *, listing_s: float = 10.0) -> None:
        self.world = world
        self._listing_s = listing_s
        self._listed: dict[str, Machine] = {}
        self._listed_at = -1e9
        self.reads = 0

    def _reach(self) -> None:
        self.world.alive()
        self.world.tick()
        if self.world.maas_error is not None:
            raise self.world.maas_error

    def _all(self) -> dict[str, Machine]:
        return {name: metal.machine for name, metal in self.world.metal.items() if metal.machine is not None}

    def _find(self, machines: Iterable[Machine], node: Node, macs: Sequence[MacAddress]) -> Machine | None:
        known = list(machines)
        by_mac = next((m for m in known if set(m.macs) & set(macs)), None)
        return by_mac or next((m for m in known if m.hostname == node.name), None)

    async def machine(self, node: Node, macs: Sequence[MacAddress], *, uuid: str | None = None) -> Machine | None:
        self._reach()
        if self.world.clock.monotonic() - self._listed_at >= self._listing_s:
            self._listed, self._listed_at = self._all(), self.world.clock.monotonic()
            self.reads += 1
        return self._find(self._listed.values(), node, macs)

    async def fresh(self, node: Node, macs: Sequence[MacAddress], *, uuid: str | None = None) -> Machine | None:
        self._reach()
        self.reads += 1
        return self._find(self._all().values(), node, macs)

    def _metal(self, system_id: str) -> Metal:
        return next(m for m in self.world.metal.values() if m.machine is not None and m.machine.system_id == system_id)

    def _write(
        self, system_id: str, operation: str, allowed: set[Status] | None, effect: Callable[[Metal], None]
    ) -> None:
        self._reach()
        metal = self._metal(system_id)
        machine = metal.machine
        assert machine is not None
        if machine.locked:
            raise RefusedError("MAAS http://fake", operation, "403 (locked)")
        if allowed is not None and machine.status not in allowed:
            raise RefusedError("MAAS http://fake", operation, f"409 {machine.status.label}")
        self.world.write(metal.node.name, operation, lambda: effect(metal))

    async def create(self, spec: MachineSpec) -> None:
        self._reach()
        metal = next(m for m in self.world.metal.values() if any(port.mac in spec.macs for port in m.ports))
        if metal.machine is not None:
            raise RefusedError("MAAS http://fake", "create", "400 MAC address already in use")

        def effect() -> None:
            power = "redfish" if spec.power_by is PowerBy.MAAS else "manual"
            metal.machine = Machine(
                f"sys{len(self._all())}",
                spec.hostname,
                Status.NEW,
                spec.macs,
                power_type=power,
                zone=spec.zone or "default",
                pool=spec.pool or "default",
                tags=spec.tags,
            )

        self.world.write(spec.hostname, "create", effect)

    async def adopt(self, system_id: str, spec: MachineSpec) -> None:
        def effect(metal: Metal) -> None:
            assert metal.machine is not None
            power = "redfish" if spec.power_by is PowerBy.MAAS else "manual"
            metal.machine = replace(
                metal.machine,
                hostname=spec.hostname,
                power_type=power,
                zone=spec.zone or metal.machine.zone,
                pool=spec.pool or metal.machine.pool,
                macs=tuple(dict.fromkeys((*metal.machine.macs, *spec.macs))),
                tags=tuple(dict.fromkeys((*metal.machine.tags, *spec.tags))),
            )

        self._write(system_id, "adopt", None, effect)

    async def commission(self, system_id: str, *, scripts: Sequence[str], tests: Sequence[str]) -> None:
        allowed = {Status.NEW, Status.FAILED_COMMISSIONING, Status.READY, Status.BROKEN}

        def effect(metal: Metal) -> None:
            metal.results = ()
            self.world.start(metal, Status.COMMISSIONING)

        self._write(system_id, "commission", allowed, effect)

    async def abort(self, system_id: str, why: str) -> None:
        def effect(metal: Metal) -> None:
            metal.due.clear()
            self.world.set(metal, Status.NEW)

        self._write(system_id, "abort", {Status.COMMISSIONING}, effect)

    async def set_boot_disk(self, system_id: str, disk_id: int) -> None:
        effect = lambda metal: self.world.set(metal, Status.READY, boot_disk_id=disk_id)  # noqa: E731
        self._write(system_id, "set-boot-disk", {Status.READY}, effect)

    async def set_layout(self, system_id: str, layout: str, root_disk_id: int) -> None:
        effect = lambda metal: self.world.set(metal, Status.READY, root_disk_ids=(root_disk_id,))  # noqa: E731
        self._write(system_id, "set-layout", {Status.READY}, effect)

    async def allocate(self, system_id: str) -> None:
        effect = lambda metal: self.world.set(metal, Status.ALLOCATED, owner="us")  # noqa: E731
        self._write(system_id, "allocate", {Status.READY}, effect)

    async def write_receipt(self, system_id: str, receipt: Receipt) -> None:
        machine = self._metal(system_id).machine
        if machine is None or machine.owner != "us":
            raise RefusedError("MAAS http://fake", "write receipt", "409 not yours")
        effect = lambda metal: self.world.set(metal, machine.status, receipt=receipt)  # noqa: E731
        self._write(system_id, "write-receipt", None, effect)

    async def deploy(self, system_id: str, spec: DeploySpec) -> None:
        def effect(metal: Metal) -> None:
            assert metal.machine is not None
            chosen = [d for d in metal.disks if (d.id,) == metal.machine.root_disk_ids]
            assert [d.facts.model for d in chosen] == ["BOSS-N1"], "deployed onto the wrong disk"
            metal.results = ()
            self.world.start(metal, Status.DEPLOYING)

        self._write(system_id, "deploy", {Status.READY, Status.ALLOCATED}, effect)

    async def power_drift(self, system_id: str, spec: MachineSpec) -> str:
        self._reach()
        return ""

    async def erases_on_release(self) -> bool:
        self._reach()
        return False

    async def mark_broken(self, system_id: str, why: str) -> None:
        effect = lambda metal: self.world.set(metal, Status.BROKEN, error_description=why)  # noqa: E731
        self._write(system_id, "mark-broken", {Status.ALLOCATED, Status.FAILED_DEPLOYMENT}, effect)

    async def mark_fixed(self, system_id: str, why: str) -> None:
        effect = lambda metal: self.world.set(metal, Status.READY, owner=None, receipt=None)  # noqa: E731
        self._write(system_id, "mark-fixed", {Status.BROKEN}, effect)

    async def release(self, system_id: str, why: str, *, erase: bool = False) -> None:
        def effect(metal: Metal) -> None:
            assert metal.machine is not None
            metal.erasures += metal.machine.status is Status.DEPLOYED
            metal.marker, metal.host_up_at = None, float("inf")
            self.world.set(metal, Status.RELEASING, owner=None, receipt=None, addresses=())
            metal.due.clear()
            self.world.later(metal, 40, lambda: self.world.set(metal, Status.READY))
            metal.power = Power.OFF

        self._write(system_id, "release", {Status.DEPLOYED, Status.FAILED_DEPLOYMENT, Status.ALLOCATED}, effect)

    async def results(self, system_id: str) -> tuple[ScriptResult, ...]:
        self._reach()
        return self._metal(system_id).results

    async def events(self, system_id: str) -> tuple[MaasEvent, ...]:
        self._reach()
        return self._metal(system_id).events

    async def check_site(self, profiles: Iterable[Profile]) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        """Nothing is held."""


class FakePlaybooks:
    """Waves of one process: five minutes each."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.verdicts: dict[str, WaveVerdict] = {}

    def wanted(self, node: Node) -> str:
        return "hash-1"

    def join(self, node: Node, address: Address) -> None:
        metal = self.world.metal[node.name]

        def end() -> None:
            if metal.playbook_fails > 0:
                metal.playbook_fails -= 1
                self.verdicts[node.name] = WaveVerdict(WaveState.FAILED, "gpu : driver", "no such package")
                return
            metal.marker = Marker("hash-1", ok=True)
            self.verdicts[node.name] = WaveVerdict(WaveState.OK)

        def effect() -> None:
            self.verdicts[node.name] = WaveVerdict(WaveState.RUNNING)
            self.world.later(metal, 300, end)

        self.world.write(node.name, "join", effect)

    def verdict(self, node: str) -> WaveVerdict:
        self.world.alive()
        self.world.tick()
        return self.verdicts.get(node, WaveVerdict(WaveState.NOT_ASKED))

    async def close(self) -> None:
        """Nothing is held."""


class FakeShell:
    """SSH to hosts that are up."""

    def __init__(self, world: World) -> None:
        self.world = world

    def _reach(self, node: Node) -> Metal:
        self.world.alive()
        self.world.tick()
        metal = self.world.metal[node.name]
        if self.world.clock.monotonic() < metal.host_up_at:
            raise UnavailableError(f"host {node.name}", "connect", "no answer in 10 s")
        return metal

    async def marker(self, node: Node, address: Address) -> Marker | None:
        return self._reach(node).marker

    async def run(self, node: Node, address: Address, command: str, *, deadline_s: float) -> CommandResult:
        checks = self._reach(node).checks
        return CommandResult(0, json.dumps({"format": 1, "checks": checks}), "")

    async def new_host_key(self, node: str) -> Secret:
        self.world.alive()
        return Secret("host key")

    async def close(self) -> None:
        """Nothing is held."""


class FakeJournal:
    """The store, in memory; it outlives the process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.epochs: dict[str, int] = {}
        self.open: dict[int, Attempt] = {}
        self.all_attempts: list[Attempt] = []
        self.events: list[Event] = []
        self.evidence: list[Evidence] = []
        self.standing: dict[str, Ticket] = {}
        self.now_states: dict[str, NodeState] = {}
        self.all_runs: dict[str, tuple[Run, int | None]] = {}
        self.beats: dict[str, float] = {}
        self.error: Exception | None = None

    def _write(self) -> None:
        if self.error is not None:
            raise self.error
        self.world.point()

    async def start_run(self, run: Run) -> None:
        self._write()
        for other, status in self.all_runs.values():
            alive = status is None and self.world.clock.monotonic() - self.beats[other.id] < 30
            if alive and set(other.nodes) & set(run.nodes):
                raise RefusedError("store", "start", f"run {other.id} of {other.who} holds some of these nodes")
        self.all_runs[run.id] = (run, None)
        self.beats[run.id] = self.world.clock.monotonic()

    async def heartbeat(self, run: str) -> None:
        self.world.alive()
        self.beats[run] = self.world.clock.monotonic()

    async def end_run(self, run: str, exit_status: int) -> None:
        if not self.world.dead:
            self.all_runs[run] = (self.all_runs[run][0], exit_status)

    async def epoch(self, node: str) -> int:
        self.world.alive()
        return self.epochs.get(node, 1)

    async def raise_epoch(self, node: str, *, why: str) -> int:
        self._write()
        self.epochs[node] = self.epochs.get(node, 1) + 1
        return self.epochs[node]

    async def open_attempt(self, run: str, node: str, stage: str, step: str, why: str) -> int:
        self._write()
        number = len(self.all_attempts)
        attempt = Attempt(number, run, node, stage, step, why, self.world.clock.now())
        assert not any(a.node == node and a.run == run for a in self.open.values()), "two open attempts of one node"
        self.all_attempts.append(attempt)
        self.open[number] = attempt
        return number

    async def close_attempt(self, attempt: int, result: str, detail: str = "") -> None:
        self._write()
        self.all_attempts[attempt] = replace(self.open.pop(attempt), result=result, detail=detail)

    async def attempts(self, node: str, *, limit: int = 50) -> tuple[Attempt, ...]:
        return tuple(reversed([a for a in self.all_attempts if a.node == node]))[:limit]

    async def record(self, event: Event) -> None:
        self._write()
        self.events.append(event)

    async def history(self, node: str, *, limit: int = 500) -> tuple[Mapping[str, object], ...]:
        return tuple(event.as_dict() for event in self.events if getattr(event, "node", "") == node)[-limit:]

    async def keep_evidence(self, run: str, evidence: Sequence[Evidence], gaps: Sequence[Gap]) -> None:
        self._write()
        self.evidence.extend(evidence)

    async def set_state(self, state: NodeState) -> None:
        self._write()
        self.now_states[state.node] = state

    async def states(self, nodes: Sequence[str] | None = None) -> tuple[NodeState, ...]:
        return tuple(state for name, state in self.now_states.items() if nodes is None or name in nodes)

    async def tickets(self, *, node: str | None = None, open_only: bool = False) -> tuple[Ticket, ...]:
        return tuple(
            ticket
            for ticket in self.standing.values()
            if (node is None or ticket.node == node) and (ticket.status.is_open or not open_only)
        )

    async def settle(self, run: str, changes: Sequence[TicketChange]) -> tuple[Ticket, ...]:
        self._write()
        moved = []
        for change in changes:
            ticket = change.ticket
            if change.kind is ChangeKind.OPEN:
                held = [t for t in self.standing.values() if t.dedupe_key == ticket.dedupe_key and t.status.is_open]
                assert not held, f"second open ticket for {ticket.dedupe_key}"
                ticket = replace(ticket, id=f"T-{len(self.standing) + 1:04d}")
            self.standing[ticket.id] = ticket
            moved.append(ticket)
        return tuple(moved)

    async def runs(self, *, limit: int = 20) -> tuple[tuple[Run, int | None], ...]:
        return tuple(reversed(self.all_runs.values()))[:limit]

    async def close(self) -> None:
        """Nothing is held."""


BAD = {Reading.NO_INPUT, Reading.FAILED, Reading.ABSENT}


def judge_simply(
    node: Node, profile: Profile, evidence: Sequence[Evidence], gaps: Sequence[Gap], now: datetime
) -> Verdict:
    """A triage of three rules: a bad part needs hands, a silent BMC too, a machine that MAAS never heard too."""
    findings = []
    for item in evidence:
        hardware = item.part.kind in {PartKind.PSU, PartKind.DRIVE, PartKind.GPU} and item.reading in BAD
        silent = item.source == "bmc/answer" and item.reading is Reading.DOWN
        mute = item.source == "maas/contact"
        if hardware or silent or mute:
            category = Category.PSU if hardware else Category.BMC if silent else Category.CABLING_ETHERNET
            findings.append(
                Finding(
                    f"{item.part.kind}-{item.reading}".upper(), node.name, category, str(item.part.kind), item.part,
                    Action.RESEAT_CABLE, Dispatch.NOW, f"look at {item.part.locator}", confidence=0.9, evidence=(item,),
                )
            )  # fmt: skip
    return Verdict(tuple(findings), tuple(gaps))


def tools_for(
    world: World,
    *,
    site: Site | None = None,
    judge: Judge = judge_simply,
    credential: Callable[[Node], Credential] = lambda node: Credential("bmc", "root", Secret("s3cret")),
    bmcs: list[FakeBmc] | None = None,
) -> Callable[[Node, Goal], Tools]:
    """What an app would hand to the engine: shared MAAS, playbooks and shell, one BMC per node."""
    maas, playbooks, shell = FakeMaas(world), FakePlaybooks(world), FakeShell(world)

    def build(node: Node, goal: Goal) -> Tools:
        bmc = FakeBmc(world, node)
        if bmcs is not None:
            bmcs.append(bmc)
        return Tools(
            bmc=bmc,
            maas=maas,
            playbooks=playbooks,
            shell=shell,
            clock=world.clock,
            judge=judge,
            site=site or Site(power_by=world.power_by),
            goal=goal,
            credential=credential(node),
            user_data=lambda node, key: Secret(f"#cloud-config of {node.name}"),
        )

    return build


def rack(size: int = 4, name: str = "rack-12") -> list[Node]:
    """Nodes of one rack, on two PDUs."""
    return [
        Node(
            f"gpu-12-{number:02d}",
            "h100",
            f"10.1.12.{number}",
            name,
            unit=number,
            site="lab",
            service_tag=f"TAG{number}",
            power_feeds=(f"pdu-a/{number}", f"pdu-b/{number}"),
        )
        for number in range(1, size + 1)
    ]


def refused_login(node: Node) -> CredentialRefusedError:
    """What a BMC with another password says."""
    return CredentialRefusedError(f"BMC {node.bmc_address}", "log in", "401: user or password is wrong")


def make_run(world: World, nodes: Sequence[Node], number: int = 1, verb: str = "bringup") -> Run:
    """A run of a process."""
    names = tuple(node.name for node in nodes)
    return Run(f"run-{number}", verb, names, "anna", "deploy-1", 4711, world.clock.now(), "rack-12")


def no_causes(verdicts: Mapping[str, Verdict], nodes: Mapping[str, Node]) -> tuple[Finding, ...]:
    """Nothing is shared."""
    return ()


def real_desk() -> Desk:
    """The desk of triage: tickets open, stay and close by its rules."""
    from provision.triage.desk import desk

    return desk
