"""What several stages ask in the same way: the node's ports, its machine in MAAS, its address."""

from __future__ import annotations

from typing import TypeVar

from provision.model.bmc import Harvest, Link, NicPort
from provision.model.decision import Seen
from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity
from provision.model.machine import MaasEvent, Machine, ScriptResult, Status
from provision.model.node import Address, MacAddress, Node
from provision.model.profile import Profile
from provision.ports import Tools

S = TypeVar("S", bound=Seen)


def narrow(seen: Seen, kind: type[S]) -> S:
    """The same value, known to be what this stage observed. TypeError is our own bug."""
    if not isinstance(seen, kind):
        raise TypeError(f"{kind.__name__} was expected, not {type(seen).__name__}")
    return seen


def port_mac(port: NicPort) -> MacAddress | None:
    """The address that the port will send from: the current one where it differs from the permanent."""
    return port.current_mac or port.mac


def boot_port(profile: Profile, harvest: Harvest) -> NicPort | None:
    """The port that boots from the network: by the profile, by the BMC, by the link, else the first."""
    ports = [port for port in harvest.ports if port.kind == "ethernet" and port_mac(port) is not None]
    if profile.boot_nic is not None:
        wanted = profile.boot_nic.lower()
        return next((p for p in ports if wanted in {p.name.lower(), p.locator.lower()}), None)
    for good in (lambda p: p.network_boot, lambda p: p.link is Link.UP):
        found = next((port for port in ports if good(port)), None)
        if found is not None:
            return found
    return ports[0] if ports else None


def macs_of(node: Node, profile: Profile, harvest: Harvest) -> tuple[MacAddress, ...]:
    """Every address that may ask for a network boot, the boot port's first (MAAS boots from the first it is given)."""
    first = boot_port(profile, harvest)
    ports = [port for port in harvest.ports if port.kind == "ethernet"]
    if first is not None:
        ports.sort(key=lambda port: port is not first)
    found = [mac for port in ports if (mac := port_mac(port)) is not None]
    return tuple(dict.fromkeys([*found, *node.macs]))


async def find_machine(node: Node, tools: Tools) -> Machine | None:
    """The node's machine in MAAS, from the rack's listing or, before a write, read for it alone."""
    macs = macs_of(node, tools.goal.profile, await tools.bmc.harvest())
    return await (tools.maas.fresh if tools.fresh else tools.maas.machine)(node, macs)


def address_of(node: Node, machine: Machine | None) -> Address | None:
    """Where the deployed host listens: the inventory's word, else MAAS's first address."""
    if node.ssh is not None:
        return node.ssh
    return Address(machine.addresses[0]) if machine is not None and machine.addresses else None


def holds_wish(machine: Machine | None, epoch: int) -> bool:
    """True if the machine is deployed with a receipt that answers this wish."""
    return (
        machine is not None
        and machine.status is Status.DEPLOYED
        and machine.receipt is not None
        and machine.receipt.epoch >= epoch
    )


def status_evidence(node: Node, machine: Machine, tools: Tools) -> Evidence:
    """``maas/status`` as docs/reference/evidence.md has it."""
    return Evidence(
        node=node.name,
        part=Part(PartKind.BOOT, "MAAS", node.name),
        reading=Reading.FACT,
        source="maas/status",
        seen_at=tools.clock.now(),
        values={
            "status": machine.status.label,
            "status_message": machine.status_message,
            "power_state": machine.power_state,
        },
    )


_FAILED = ("failed", "timed out", "timedout", "degraded")


def script_failed(result: ScriptResult) -> bool:
    """True for MAAS's failing words: ``failed``, ``failed installing``, ``timed out``, ``degraded``."""
    return result.status.startswith(_FAILED)


def script_began(result: ScriptResult) -> bool:
    """True if the machine itself has run it.

    MAAS ends by itself what never ran, as aborted or timed out; what it skips bears a start time all the same
    (measured on 3.6.3: 30-maas-01-bmc-config).
    """
    if result.status in {"pending", "skipped"}:
        return False
    return result.started_at is not None or not result.status.startswith(("aborted", "timed out"))


def results_evidence(node: Node, results: tuple[ScriptResult, ...], tools: Tools) -> tuple[Evidence, ...]:
    """``maas/results``: one reading per script that ran and has ended."""
    readings = {"passed": Reading.OK}
    return tuple(
        Evidence(
            node=node.name,
            part=Part(PartKind.SOFTWARE, result.name, result.name),
            reading=Reading.FAILED if script_failed(result) else readings.get(result.status, Reading.UNKNOWN),
            source="maas/results",
            seen_at=result.ended_at or tools.clock.now(),
            text=result.output_tail,
            severity=Severity.CRITICAL if script_failed(result) else Severity.INFO,
            values={"exit_status": result.exit_status, "run": result.run},
        )
        for result in results
        if result.status not in {"pending", "running"} and script_began(result)
    )


def events_evidence(node: Node, events: tuple[MaasEvent, ...]) -> tuple[Evidence, ...]:
    """``maas/events``: lines of the machine's log."""
    loud = {"ERROR": Severity.CRITICAL, "CRITICAL": Severity.CRITICAL, "WARNING": Severity.WARNING}
    return tuple(
        Evidence(
            node=node.name,
            part=Part(PartKind.NODE, node.name, node.name),
            reading=Reading.EVENT,
            source="maas/events",
            seen_at=event.at,
            text=event.description,
            severity=loud.get(event.level.upper(), Severity.INFO),
            values={"type": event.type, "level": event.level},
        )
        for event in events
    )


def failure_reason(run: str, results: tuple[ScriptResult, ...], events: tuple[MaasEvent, ...]) -> str:
    """Why a commissioning, testing or installation failed: script, exit status, last lines; else the loudest event."""
    for result in results:
        if result.run == run and script_failed(result) and script_began(result):
            tail = " / ".join(line.strip()[:100] for line in result.output_tail.strip().splitlines()[-3:])
            return f"{result.name} {result.status} with exit status {result.exit_status}" + (
                f": {tail}" if tail else ""
            )
    for event in events:
        if event.level.upper() in {"ERROR", "CRITICAL", "WARNING"} or "fail" in event.description.lower():
            return f"{event.type}: {event.description}"
    return "MAAS names no reason"


def count(tools: Tools, key: str) -> int:
    """A number among the node's notes; 0 when nobody wrote it."""
    value = tools.notes.get(key, 0)
    return value if isinstance(value, int) else 0
