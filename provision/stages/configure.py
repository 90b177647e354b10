"""The playbooks: is their marker on the host, and is it the one we want?"""

from __future__ import annotations

from dataclasses import dataclass

from provision.model.decision import Act, Decision, Done, Seen, Step, Stuck, Wait
from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity
from provision.model.node import Address, Node
from provision.model.profile import Goal
from provision.ports import Marker, Tools, WaveState, WaveVerdict
from provision.stages.lookup import address_of, count, find_machine, narrow

TRIES = 2
NOT_ASKED = WaveVerdict(WaveState.NOT_ASKED)


@dataclass(frozen=True, slots=True)
class JoinWave(Step):
    """Take part in the next run of the playbooks."""

    address: Address


@dataclass(frozen=True, slots=True)
class Configured(Seen):
    """``joined`` counts this run's waves of ``tries``. ``wanted`` is the hash that the marker must carry."""

    address: Address | None
    wanted: str = ""
    marker: Marker | None = None
    wave: WaveVerdict = NOT_ASKED
    joined: int = 0
    tries: int = TRIES


def decide(goal: Goal, seen: Configured) -> Decision:
    """Towards the marker of these very playbooks, green. Pure."""
    if seen.address is None:
        return Wait("MAAS names no address of the host yet", pause_s=15)
    marker, wave = seen.marker, seen.wave
    if marker is not None and marker.ok and marker.playbooks == seen.wanted:
        return Done("playbooks have converged")
    match wave.state:
        case WaveState.WAITING:
            return Wait("waits for the next wave of playbooks", pause_s=10, operation="playbooks")
        case WaveState.RUNNING:
            return Wait("playbooks run", pause_s=15, operation="playbooks")
        case WaveState.OK if marker is None or marker.playbooks != seen.wanted:
            return Stuck("the playbooks ended well and left no marker of theirs on the host", ours=True)
        case WaveState.OK:
            return Stuck(f"the playbooks' own checks say no: {_noes(marker)}")
        case WaveState.NOT_ASKED:
            return _join(seen.address, _reason(marker, seen.wanted))
        case _ if seen.joined < seen.tries:
            return _join(seen.address, f"last wave: {wave.state}, {wave.task or wave.why}", pause_s=30)
        case WaveState.FAILED:
            return Stuck(f"playbook task {wave.task!r} failed: {wave.why}")
        case state:
            return Stuck(f"playbooks: {state} in {seen.joined} waves: {wave.why or 'no reason given'}")


def _join(address: Address, why: str, pause_s: float = 5) -> Act:
    return Act(JoinWave(address), why, pause_s=pause_s, operation="playbooks")


def _reason(marker: Marker | None, wanted: str) -> str:
    if marker is None:
        return "no playbooks have run on it"
    if marker.playbooks != wanted:
        return "other playbooks or variables ran on it"
    return f"its own checks said no: {_noes(marker)}"


def _noes(marker: Marker | None) -> str:
    checks = marker.checks if marker is not None else ()
    return "; ".join(f"{name}: {why}" for name, ok, why in checks if not ok) or "none named"


class Configure:
    """Ansible, in waves; proved by the marker on the host."""

    name = "configure"
    deadline_s = 5400.0
    max_acts = 3

    async def observe(self, node: Node, tools: Tools) -> Configured:
        """Read the wave's verdict, then the marker: in this order a verdict of OK is never older than the marker."""
        address = address_of(node, await find_machine(node, tools))
        if address is None:
            return Configured(None)
        wave = tools.playbooks.verdict(node.name)
        tries = tools.site.max_acts.get(self.name, TRIES)
        joined, wanted = count(tools, "configure.joined"), tools.playbooks.wanted(node)
        going_on = wave.state in {WaveState.WAITING, WaveState.RUNNING}
        marker = None if going_on else await tools.shell.marker(node, address)
        evidence = () if wave.state in _QUIET else (_playbook(node, wave, tools),)
        return Configured(address, wanted, marker, wave, joined, tries, evidence=evidence)

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """See ``decide`` above."""
        return decide(goal, narrow(seen, Configured))

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """Join the next wave."""
        match step:
            case JoinWave(address):
                tools.notes["configure.joined"] = count(tools, "configure.joined") + 1
                tools.playbooks.join(node, address)
            case _:
                raise TypeError(f"configure does not know {step.name}")

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        return "run the playbooks"


_QUIET = {WaveState.NOT_ASKED, WaveState.WAITING, WaveState.RUNNING, WaveState.OK}


def _playbook(node: Node, wave: WaveVerdict, tools: Tools) -> Evidence:
    task = wave.task or "playbook"
    return Evidence(
        node=node.name,
        part=Part(PartKind.SOFTWARE, task, task),
        reading=Reading.FAILED if wave.state is WaveState.FAILED else Reading.UNKNOWN,
        source="playbook",
        seen_at=tools.clock.now(),
        text=wave.why,
        severity=Severity.CRITICAL,
        values={"state": str(wave.state)},
    )
