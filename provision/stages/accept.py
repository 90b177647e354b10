"""The host's own health checks: one yes or no, every no with its evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from provision.errors import GarbledError
from provision.model.decision import Act, Decision, Done, Seen, Step, Stuck, Wait
from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity, Value
from provision.model.machine import Machine, MachineSpec
from provision.model.node import Address, Node
from provision.model.profile import Goal
from provision.model.site import PowerBy, Site
from provision.ports import Tools
from provision.stages.lookup import address_of, find_machine, narrow, spec_of

COMMAND = "/usr/local/sbin/provision-check"
# The checks read counters and logs of every device; a drive that hangs on access costs its own time-outs.
CHECK_DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class HandOver(Step):
    """Give the power button to MAAS's own driver, for sites that want it back once a node is accepted."""

    system_id: str
    spec: MachineSpec


@dataclass(frozen=True, slots=True)
class Checked(Seen):
    """``evidence`` holds one ``ssh/checks`` reading per check; None as address: MAAS does not name one yet.

    ``hand_over`` is set where MAAS is to get the power button and does not have it.
    """

    address: Address | None
    hand_over: HandOver | None = None


def decide(goal: Goal, seen: Checked) -> Decision:
    """Every check must have looked, and found well. Pure."""
    if seen.address is None:
        return Wait("MAAS names no address of the host yet", pause_s=15)
    checks = [item for item in seen.evidence if item.source == "ssh/checks"]
    noes = [item for item in checks if item.reading is Reading.FAILED]
    unknown = [item for item in checks if item.reading is Reading.UNKNOWN]
    if noes:
        return Stuck(f"{len(noes)} of {len(checks)} checks say no: " + "; ".join(map(_line, noes)))
    if unknown:
        return Stuck(f"{len(unknown)} of {len(checks)} checks could not look: " + "; ".join(map(_line, unknown)), True)
    if not checks:
        return Stuck(f"{COMMAND} made no checks: nobody knows whether this host is well", ours=True)
    if seen.hand_over is not None:
        return Act(seen.hand_over, "accepted: MAAS gets the power button back", pause_s=2)
    return Done(f"{len(checks)} checks say yes")


def _line(item: Evidence) -> str:
    return f"{item.values.get('check')}: {item.text}"


def parse_checks(node: str, output: str, seen_at: datetime) -> tuple[Evidence, ...]:
    """One ``ssh/checks`` reading per check; null means it could not look: unknown, never well.

    Raises:
        GarbledError: not the JSON of docs/reference/evidence.md.
    """
    try:
        data = json.loads(output)
        if data["format"] != 1:
            raise ValueError(f"format {data['format']!r}")
        return tuple(_evidence(node, check, seen_at) for check in data["checks"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = f"not the JSON of format 1 ({type(error).__name__}: {error})"
        raise GarbledError(f"host {node}", COMMAND, said, payload=output.encode()) from error


def _evidence(node: str, check: Mapping[str, Any], seen_at: datetime) -> Evidence:
    name, answer, part = str(check["name"]), check["ok"], check.get("part") or {}
    if answer is not None and not isinstance(answer, bool):
        raise ValueError(f"check {name}: ok is {answer!r}")
    values: dict[str, Value] = {
        str(key): value if isinstance(value, Value) else json.dumps(value)
        for key, value in (check.get("values") or {}).items()
    }
    kind = part.get("kind")
    return Evidence(
        node=node,
        part=Part(
            PartKind(kind) if kind in set(PartKind) else PartKind.NODE,
            str(part.get("name") or node),
            str(part.get("locator") or part.get("name") or node),
        ),
        reading={True: Reading.OK, False: Reading.FAILED, None: Reading.UNKNOWN}[answer],
        source="ssh/checks",
        seen_at=seen_at,
        text=str(check.get("why", "")),
        severity=Severity.CRITICAL if answer is False else Severity.INFO,
        values={**values, "check": name},
    )


async def run_checks(node: Node, address: Address, tools: Tools) -> tuple[Evidence, ...]:
    """Run the host's checks over SSH."""
    result = await tools.shell.run(node, address, COMMAND, deadline_s=CHECK_DEADLINE_S)
    if not result.stdout.strip():
        said = result.stderr.strip().splitlines()[-1:] or ["no output"]
        detail = f"exit status {result.status}, no answer: {said[0]}"
        raise GarbledError(f"host {node.name}", COMMAND, detail, payload=result.stderr.encode())
    return parse_checks(node.name, result.stdout, tools.clock.now())


class Accept:
    """SSH: the host's checks, read only."""

    name = "accept"
    deadline_s = 1200.0
    max_acts = 1

    async def observe(self, node: Node, tools: Tools) -> Checked:
        """Run the checks and let triage judge them."""
        machine = await find_machine(node, tools)
        address = address_of(node, machine)
        if address is None:
            return Checked(None)
        evidence = await run_checks(node, address, tools)
        verdict = tools.judge(node, tools.goal.profile, evidence, (), tools.clock.now())
        hand_over = None
        if machine is not None and _wanted_back(machine, tools.site):
            hand_over = HandOver(machine.system_id, await spec_of(node, tools, PowerBy.MAAS))
        return Checked(address, hand_over, evidence=evidence, findings=verdict.findings)

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """See ``decide`` above."""
        return decide(goal, narrow(seen, Checked))

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """Checks only read; what may be written is whose button it is."""
        match step:
            case HandOver(system_id, spec):
                await tools.maas.adopt(system_id, spec)
            case _:
                raise TypeError(f"accept does not know {step.name}")

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        return "run the host's health checks"


def _wanted_back(machine: Machine, site: Site) -> bool:
    ours = site.handover_power and site.power_by is PowerBy.PROVISION
    return ours and machine.power_type != "redfish" and not machine.locked
