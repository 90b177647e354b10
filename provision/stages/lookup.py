"""What several stages ask in the same way: the node's ports, its machine in MAAS, its address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from provision.model.bmc import Harvest, Link, NicPort
from provision.model.decision import Seen
from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity
from provision.model.machine import MaasEvent, Machine, MachineSpec, ScriptResult, Status
from provision.model.node import Address, MacAddress, Node
from provision.model.profile import DiskFacts, Profile
from provision.model.site import PowerBy
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
    harvest = await tools.bmc.harvest()
    macs = macs_of(node, tools.goal.profile, harvest)
    return await (tools.maas.fresh if tools.fresh else tools.maas.machine)(node, macs, uuid=harvest.identity.uuid)


async def spec_of(node: Node, tools: Tools, power_by: PowerBy) -> MachineSpec:
    """What MAAS is to know of the node, with the power button in this hand."""
    harvest = await tools.bmc.harvest()
    spec = spec_for(node, tools, power_by, macs_of(node, tools.goal.profile, harvest))
    # MAAS's driver presses the button of the first system that a BMC lists, unless it is told another
    # (facts: maas.md, Redfish power type); some list a tray of GPUs first.
    return replace(spec, node_id=harvest.identity.system_id or "") if power_by is PowerBy.MAAS else spec


def spec_for(node: Node, tools: Tools, power_by: PowerBy, macs: tuple[MacAddress, ...]) -> MachineSpec:
    """The same, with MAC addresses that are known already."""
    return MachineSpec(
        hostname=node.name,
        architecture=tools.goal.profile.architecture,
        macs=macs,
        power_by=power_by,
        bmc_address=node.bmc_address,
        credential=tools.credential if power_by is PowerBy.MAAS else None,
        zone=node.zone,
        pool=node.pool,
        tags=node.tags,
    )


def address_of(node: Node, machine: Machine | None) -> Address | None:
    """Where the deployed host listens: the inventory's word, else MAAS's first address."""
    if node.ssh is not None:
        return node.ssh
    return Address(machine.addresses[0]) if machine is not None and machine.addresses else None


# Begins the reason of a broken mark that we set: ours may be taken away by us, others' may not.
OUR_MARK = "provision: "
DRIVES = "preflight.drives"


def marked_by_us(machine: Machine) -> bool:
    """True for a machine that this program keeps out of the pool, with a ticket's reference as the reason."""
    return machine.status is Status.BROKEN and machine.error_description.startswith(OUR_MARK)


def note_drives(tools: Tools, evidence: Iterable[Evidence]) -> None:
    """Keep the drives that the BMC shows, for the stages that compare them with MAAS's."""
    tools.notes[DRIVES] = tuple(
        DiskFacts(
            serial=str(item.values.get("serial") or ""),
            model=str(item.values.get("model") or ""),
            size_bytes=size if isinstance(size := item.values.get("size_bytes"), int) else 0,
            bus=str(item.values.get("protocol") or "").lower() or None,
            slot=item.part.locator,
        )
        for item in evidence
        if item.source == "redfish/drives" and item.reading is not Reading.ABSENT and item.values.get("serial")
    )


def noted_drives(tools: Tools) -> tuple[DiskFacts, ...]:
    """The drives that the BMC showed in this run."""
    drives = tools.notes.get(DRIVES, ())
    return drives if isinstance(drives, tuple) else ()


def same_serial(one: str, other: str) -> bool:
    """True for one drive: BMCs and kernels pad serial numbers, and one of the two may cut them short."""
    a, b = one.strip().upper(), other.strip().upper()
    return bool(a and b) and (a == b or (min(len(a), len(b)) >= 8 and (a in b or b in a)))


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


# What programs say of certificates and package lists when the clock is hours off (facts: maas.md 4, pain 7).
_CLOCK = re.compile(
    r"not valid yet|not yet valid|invalid for another|is expired \(invalid since|certificate has expired"
    r"|Expired timestamp|made in the future|clock skew",
    re.IGNORECASE,
)


def failure_reason(run: str, results: tuple[ScriptResult, ...], events: tuple[MaasEvent, ...]) -> str:
    """Why a commissioning, testing or installation failed: script, exit status, last lines; else the loudest event."""
    failed = [r for r in results if r.run == run and script_failed(r) and script_began(r)]
    for result in failed:
        tail = " / ".join(line.strip()[:100] for line in result.output_tail.strip().splitlines()[-3:])
        clock = "the machine's clock is wrong: " if _CLOCK.search(result.output_tail) else ""
        more = f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""
        said = f"{clock}{result.name} {result.status} with exit status {result.exit_status}"
        return f"{said}: {tail}{more}" if tail else f"{said}{more}"
    for event in events:
        if event.level.upper() in {"ERROR", "CRITICAL", "WARNING"} or "fail" in event.description.lower():
            return f"{event.type}: {event.description}"
    return "MAAS names no reason"


def count(tools: Tools, key: str) -> int:
    """A number among the node's notes; 0 when nobody wrote it."""
    value = tools.notes.get(key, 0)
    return value if isinstance(value, int) else 0
