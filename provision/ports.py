"""The waist: what the core asks of the outside, as Protocols. Adapters and stores fulfil them, fakes too.

Reads may be repeated by whoever implements them; writes go out once. Every method may raise the errors of
``provision.errors``: UnavailableError, RefusedError, GarbledError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from provision.model.bmc import BmcClock, BmcStatus, BootReadiness, Button, Harvest, Health
from provision.model.decision import Decision, Seen, Step
from provision.model.event import Event
from provision.model.evidence import Evidence, Gap
from provision.model.finding import Finding, Verdict
from provision.model.machine import DeploySpec, MaasEvent, Machine, MachineSpec, Receipt, ScriptResult
from provision.model.node import Address, MacAddress, Node
from provision.model.profile import BootMethod, Goal, Profile
from provision.model.run import Attempt, NodeState, Run
from provision.model.secret import Credential, Secret
from provision.model.site import Site
from provision.model.slot import Ask, Brake, Slot, Tally
from provision.model.ticket import Ticket, TicketChange


class Clock(Protocol):
    """Time, so that tests and simulated fleets can run it faster."""

    def now(self) -> datetime:
        """Wall clock, UTC, aware."""

    def monotonic(self) -> float:
        """Seconds that never jump."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class Bmc(Protocol):
    """One BMC, for one run. One session, opened at the first call, closed by ``close`` on every path."""

    async def harvest(self) -> Harvest:
        """Identity and every port. Read once per run and kept."""

    async def status(self) -> BmcStatus:
        """Power, boot override, POST progress. Cheap."""

    async def readiness(self) -> BootReadiness:
        """What would stop a network boot."""

    async def health(self) -> Health:
        """Readings of all parts: PSUs, drives, PCIe, GPUs, NICs, DIMMs, fans, logs, LLDP neighbours."""

    async def clock(self) -> BmcClock:
        """The BMC's clock against ours."""

    async def set_network_boot_once(self, method: BootMethod) -> None:
        """Write: the next boot goes to the network."""

    async def press(self, button: Button) -> None:
        """Write: the power button. Returns when the BMC has accepted, not when the state is reached."""

    async def set_clock(self) -> None:
        """Write: our time into the BMC."""

    async def enable_network_device(self, methods: Sequence[BootMethod]) -> None:
        """Write: BIOS settings for the next start, so that it tries the network by each of these methods."""

    async def reset_bmc(self) -> None:
        """Write: restart the BMC itself; it is away for minutes, the host goes on."""

    async def close(self) -> None:
        """Log out and drop connections. Never raises."""


class Maas(Protocol):
    """A MAAS region, seen from one run. Listings are shared by all nodes of a rack, never one poll per node."""

    async def machine(self, node: Node, macs: Sequence[MacAddress], *, uuid: str | None = None) -> Machine | None:
        """The machine with one of these MACs (or this hardware UUID, or hostname), from the rack's newest listing."""

    async def fresh(self, node: Node, macs: Sequence[MacAddress], *, uuid: str | None = None) -> Machine | None:
        """The same, read for this node just now: the look before a write."""

    async def power_drift(self, system_id: str, spec: MachineSpec) -> str:
        """How MAAS's power parameters differ from the spec's, in words without secrets; empty if they agree."""

    async def erases_on_release(self) -> bool:
        """True if the region wipes all drives of whatever is released (``enable_disk_erasing_on_release``)."""

    async def create(self, spec: MachineSpec) -> None:
        """Write: a machine, without starting its commissioning."""

    async def adopt(self, system_id: str, spec: MachineSpec) -> None:
        """Write: make an existing machine ours (hostname, power, zone, pool, tags, missing MACs)."""

    async def commission(self, system_id: str, *, scripts: Sequence[str], tests: Sequence[str]) -> None:
        """Write: start commissioning."""

    async def abort(self, system_id: str, why: str) -> None:
        """Write: stop what goes on."""

    async def set_boot_disk(self, system_id: str, disk_id: int) -> None:
        """Write: where the operating system goes. Accepted in Ready only."""

    async def set_layout(self, system_id: str, layout: str, root_disk_id: int) -> None:
        """Write: partitions of the boot disk. Accepted in Ready only."""

    async def allocate(self, system_id: str) -> None:
        """Write: Ready → Allocated; a receipt needs an owner."""

    async def write_receipt(self, system_id: str, receipt: Receipt) -> None:
        """Write: which wish the coming deployment answers. Machine must be owned."""

    async def deploy(self, system_id: str, spec: DeploySpec) -> None:
        """Write: install."""

    async def release(self, system_id: str, why: str, *, erase: bool = False) -> None:
        """Write: give the machine back; what is on it is lost. ``erase`` wipes ALL its drives."""

    async def mark_broken(self, system_id: str, why: str) -> None:
        """Write: keep the machine out of the pool. It must be owned; a deployed one would be released by it."""

    async def mark_fixed(self, system_id: str, why: str) -> None:
        """Write: Broken → Ready."""

    async def results(self, system_id: str) -> tuple[ScriptResult, ...]:
        """Scripts of the newest commissioning, testing and installation runs."""

    async def events(self, system_id: str) -> tuple[MaasEvent, ...]:
        """The newest lines of its log, newest first."""

    async def check_site(self, profiles: Iterable[Profile]) -> tuple[str, ...]:
        """Complaints that stop every deployment (no such series, not an administrator); empty if none."""

    async def close(self) -> None:
        """Drop connections. Never raises."""


class WaveState(StrEnum):
    """Where a node stands in the playbook waves of this run."""

    NOT_ASKED = "not-asked"
    WAITING = "waiting"
    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    NOT_ATTEMPTED = "not-attempted"


@dataclass(frozen=True, slots=True)
class WaveVerdict:
    """What a wave made of one host. ``task`` and ``why`` name the failed task and its message."""

    state: WaveState
    task: str = ""
    why: str = ""
    changed: int = 0


@dataclass(frozen=True, slots=True)
class Marker:
    """What the playbooks left on a host when they had converged and verified it.

    ``playbooks`` is the hash of the playbooks and variables that made it, ``ok`` whether its verify was green,
    ``checks`` the named answers of verify (True, False with a reason).
    """

    playbooks: str
    ok: bool
    finished_at: datetime | None = None
    checks: tuple[tuple[str, bool, str], ...] = ()


class Playbooks(Protocol):
    """Ansible, in waves: nodes that are ready together share one invocation."""

    def wanted(self, node: Node) -> str:
        """The hash that this node's marker must carry."""

    def join(self, node: Node, address: Address) -> None:
        """Write: let the node take part in the next wave. Returns at once."""

    def verdict(self, node: str) -> WaveVerdict:
        """Where the node stands."""

    async def close(self) -> None:
        """End running waves, reap their processes."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command on a host gave. Output is cut at 1 MB."""

    status: int
    stdout: str
    stderr: str


class Shell(Protocol):
    """SSH to deployed hosts, with pinned host keys."""

    async def marker(self, node: Node, address: Address) -> Marker | None:
        """The playbooks' marker; None if the host has none."""

    async def run(self, node: Node, address: Address, command: str, *, deadline_s: float) -> CommandResult:
        """Run a command that only reads."""

    async def new_host_key(self, node: str) -> Secret:
        """Write (to our store): make and pin a host key for the next deployment; the private half is returned."""

    async def close(self) -> None:
        """Drop connections. Never raises."""


class Judge(Protocol):
    """Triage, as the stages know it. Pure: evidence in, verdict out."""

    def __call__(
        self,
        node: Node,
        profile: Profile,
        evidence: Sequence[Evidence],
        gaps: Sequence[Gap],
        now: datetime,
    ) -> Verdict:
        """Judge one node."""


class Pins(Protocol):
    """What we trust of peers: certificate fingerprints and SSH host keys, by kind and name."""

    def get_pin(self, kind: str, name: str) -> str | None:
        """The pinned value, or None. Kinds: ``bmc-certificate``, ``ssh-host-key``."""

    def set_pin(self, kind: str, name: str, value: str) -> None:
        """Trust ``value`` from now on."""


class Journal(Protocol):
    """The store as the engine knows it: wishes, attempts, events, evidence, tickets. It never says what *is*."""

    async def start_run(self, run: Run) -> None:
        """Lease the run's nodes.

        Raises:
            RefusedError: another live run holds one of them; the sentence names it.
        """

    async def heartbeat(self, run: str) -> None:
        """Say that the run is alive."""

    async def end_run(self, run: str, exit_status: int) -> None:
        """Give the leases back."""

    async def epoch(self, node: str) -> int:
        """The node's image epoch; 1 for a node that nobody asked about yet."""

    async def raise_epoch(self, node: str, *, why: str) -> int:
        """A wish to erase: the next epoch. Returns it."""

    async def open_attempt(self, run: str, node: str, stage: str, step: str, why: str) -> int:
        """Write down an intent before it is sent; durable when this returns. Returns the attempt's id."""

    async def close_attempt(self, attempt: int, result: str, detail: str = "") -> None:
        """``sent``, ``unknown``, ``refused`` or ``void``."""

    async def attempts(self, node: str, *, limit: int = 50) -> tuple[Attempt, ...]:
        """Newest first."""

    async def record(self, event: Event) -> None:
        """Append to the node's and the run's history."""

    async def history(self, node: str, *, limit: int = 500) -> tuple[Mapping[str, object], ...]:
        """Events of a node as plain dicts (``Event.as_dict``), oldest first."""

    async def keep_evidence(self, run: str, evidence: Sequence[Evidence], gaps: Sequence[Gap]) -> None:
        """Keep what was seen, for ``why`` and for tickets."""

    async def set_state(self, state: NodeState) -> None:
        """Where the node stands now."""

    async def states(self, nodes: Sequence[str] | None = None) -> tuple[NodeState, ...]:
        """Where nodes stood when they were last looked at."""

    async def tickets(self, *, node: str | None = None, open_only: bool = False) -> tuple[Ticket, ...]:
        """Tickets, oldest first."""

    async def settle(self, run: str, changes: Sequence[TicketChange]) -> tuple[Ticket, ...]:
        """Apply moves of the desk in one transaction; new tickets get their ids (``T-0001``). Returns them."""

    async def runs(self, *, limit: int = 20) -> tuple[tuple[Run, int | None], ...]:
        """Newest first, with exit status (None: still running or died)."""

    async def close(self) -> None:
        """Release the database."""


class Gates(Protocol):
    """Room for operations, turns and brakes: one book for all processes of a site. Every count is one transaction."""

    async def take(self, run: str, asks: Sequence[Ask]) -> tuple[str, ...]:
        """Give room in this order; for each empty, or what keeps it out, in words."""

    async def hold(self, run: str, ask: Ask) -> None:
        """The node is seen in this operation: a fact, no limit is asked."""

    async def free(self, node: str, run: str | None = None) -> None:
        """The operation is over; with ``run`` only if the slot is that run's."""

    async def inherit(self, run: str, nodes: Sequence[str]) -> Mapping[str, str]:
        """Operations in which earlier runs left these nodes; the slots are ``run``'s from here."""

    async def slots(self) -> tuple[Slot, ...]:
        """Who holds what, oldest first."""

    async def turn(self, run: str, node: str, place: str, limit: int, window_s: float) -> float:
        """Reserve the next moment at which no more than ``limit`` happen within ``window_s``; seconds until then."""

    async def tally(
        self, run: str, node: str, stage: str, places: Sequence[str], *, ok: bool, within_s: float
    ) -> tuple[Tally, ...]:
        """Count how an operation ended; what was counted in these places within ``within_s``, oldest first."""

    async def brake(self, run: str, place: str, why: str) -> bool:
        """Begin nothing more in this place; False if it is stopped already."""

    async def brakes(self) -> tuple[Brake, ...]:
        """What is stopped, oldest first."""

    async def resume(self, places: Sequence[str]) -> None:
        """Go on in these places; failures of before are forgotten."""


class Wanted(Protocol):
    """What workers are wanted for, as a worker knows it. Each method is one transaction."""

    async def alive(self, worker: str, host: str, pid: int, lease_s: float) -> None:
        """Say that a worker is there."""

    async def gone(self, worker: str) -> None:
        """The worker leaves."""

    async def claim(self, run: str, choose: Callable[[Sequence[str], int, int], Sequence[str]]) -> tuple[str, ...]:
        """Take nodes that are in nobody's hands: ``choose`` is told which, how many wanted, how many workers."""

    async def settle(self, run: str, endings: Mapping[str, tuple[str, str]]) -> None:
        """(outcome, why) by node; an empty outcome gives the node back. What others took over stays theirs."""


class Desk(Protocol):
    """The ticket desk: pure. What moves when these findings and readings meet these tickets?"""

    def __call__(
        self,
        node: Node,
        findings: Sequence[Finding],
        looked_at: Sequence[Evidence],
        tickets: Sequence[Ticket],
        now: datetime,
    ) -> tuple[TicketChange, ...]:
        """Moves for one node. A ticket closes only if its part was looked at again and found well."""


CredentialFor = Callable[[Node], Credential]


@dataclass(frozen=True)
class Tools:
    """What a stage may use for one node.

    ``notes`` are this node's and die with the run. The engine sets the last three: ``fresh`` asks for the look before
    a write (``Maas.fresh``, not the rack's listing), ``names`` are the nodes the inventory knows, and ``claims`` is one
    book per run of who owns what (``mac aa:bb:…`` and ``tag …`` → node name).
    """

    bmc: Bmc
    maas: Maas
    playbooks: Playbooks
    shell: Shell
    clock: Clock
    judge: Judge
    site: Site
    goal: Goal
    credential: Credential
    user_data: Callable[[Node, Secret], Secret]
    notes: dict[str, object] = field(default_factory=dict)
    fresh: bool = False
    names: frozenset[str] = frozenset()
    claims: dict[str, str] = field(default_factory=dict)


class Stage(Protocol):
    """One stage of a bring-up. ``deadline_s`` bounds the whole stage, ``max_acts`` the repetitions of one step."""

    name: str
    deadline_s: float
    max_acts: int

    async def observe(self, node: Node, tools: Tools) -> Seen:
        """Read. May not choose or write."""

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """The policy. Pure."""

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """Send one intention once."""
