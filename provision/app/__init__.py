"""The app: what the verbs do, on adapters and a store that it builds from the site's settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from provision.app import bmc_care, bringup, looks, operators, press, reimage, runs
from provision.app.drift import drift
from provision.app.runs import Sink
from provision.app.wiring import Wiring, whoami
from provision.config.importer import import_csv
from provision.errors import MisconfiguredError
from provision.model.decision import Outcome
from provision.model.node import Node
from provision.report.tickets import rows as report_rows
from provision.report.tickets import to_csv
from provision.store.operators import operators_of

__all__ = ["App", "Sink", "import_inventory"]


class App:
    """One command's view of a site. Everything is opened when it is first needed."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    @classmethod
    def open(cls, inventory: Path, state: Path | None, *, adopt_host_keys: bool = False) -> Self:
        """Nothing is read yet. ``state`` None: a command that keeps no state. See Wiring for the rest."""
        return cls(Wiring(inventory, state, adopt_host_keys=adopt_host_keys))

    async def close(self) -> None:
        """Close what was opened; say which credential was given up."""
        for sentence in self._wiring.guard.sentences():
            _say(sentence)
        await self._wiring.close()

    def _one(self, name: str) -> Node:
        nodes = self._wiring.select(name)
        if len(nodes) != 1 or nodes[0].name != name:
            raise MisconfiguredError(f"{name} is not the name of one node; this verb takes exactly one node")
        return nodes[0]

    async def typed(self, verb: str, words: str) -> None:
        """Write down who typed what, when and where."""
        user, host, pid = whoami()
        await operators_of(self._wiring.store).typed(user, host, pid, verb, words)

    async def bringup(
        self,
        target: str | None,
        *,
        sinks: Sequence[Sink],
        text: bool = True,
        csv_file: Path | None = None,
        plan_file: Path | None = None,
        take_over: bool = False,
    ) -> int:
        """Bring the target up; exit status. ``text``: say at the end what is to be done, on stderr."""
        status, target, nodes, outcomes = await bringup.bring_up(
            self._wiring, target, sinks=sinks, say=_say, plan_file=plan_file, take_over=take_over
        )
        if csv_file is not None:
            rows = await self.ticket_rows(target, open_only=True)
            runs.write_csv(to_csv(rows), csv_file)
        if text:
            await self._summary(target, nodes, outcomes, csv_file)
        return status

    async def _summary(
        self, target: str, nodes: Sequence[Node], outcomes: dict[str, Outcome], csv_file: Path | None
    ) -> None:
        from sys import stderr

        from provision.report.text import clean

        names = {node.name for node in nodes}
        tickets = [t for t in await self._wiring.store.tickets(open_only=True) if t.node in names]
        for ticket in tickets:
            stderr.write(clean(f"  {ticket.id}  {ticket.node}  {ticket.locator}: {ticket.ask}") + "\n")
        if tickets:
            where = str(csv_file) if csv_file else f"`provision tickets export '{target}' --format csv`"
            stderr.write(f"{len(tickets)} open ticket(s): {where}\n")
        ready = sum(1 for outcome in outcomes.values() if outcome is Outcome.READY)
        stderr.write(f"{ready} of {len(outcomes)} ready")
        stderr.write("\n" if ready == len(outcomes) else f"; after the repair: provision bringup '{target}'\n")

    async def plan(self, target: str, out: Path | None = None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """What bringup would do, node by node, and the whole plan, kept in ``out``."""
        return await bringup.plan(self._wiring, target, out)

    async def limits(self) -> dict[str, Any]:
        """Limits, slots and what is stopped."""
        return await operators.limits(self._wiring)

    async def resume(self, places: Sequence[str]) -> list[str]:
        """Go on in places that are stopped; which."""
        return await operators.resume(self._wiring, places)

    async def runs(self, limit: int) -> list[dict[str, Any]]:
        """Runs, newest first."""
        return await operators.runs(self._wiring, limit)

    async def commands(self, limit: int) -> list[dict[str, Any]]:
        """Commands that were typed, newest first."""
        return await operators.commands(self._wiring, limit)

    async def watch(self, run: str, *, sinks: Sequence[Sink]) -> int:
        """Show another process's run; its exit status."""
        status, _ = await operators.watch(self._wiring, run, sinks)
        return status

    async def cancel(self, run: str) -> str:
        """Ask a run to end; a sentence."""
        return await operators.cancel(self._wiring, run)

    async def reimage(
        self,
        target: str,
        *,
        sinks: Sequence[Sink],
        text: bool = True,
        erase_data: bool = False,
        despite_ticket: bool = False,
        take_over: bool = False,
    ) -> int:
        """Erase and install the nodes of a target; the caller has made sure that its name was said twice."""
        nodes = self._wiring.select(target)
        await bringup.make_room(self._wiring, nodes, _say, take_over=take_over)
        await operators.attach_to(self._wiring, nodes, "reimage")
        status, outcomes = await reimage.reimage(
            self._wiring,
            nodes,
            target,
            sinks,
            _say,
            erase_data=erase_data,
            despite_ticket=despite_ticket,
        )
        if text:
            await self._summary(target, nodes, outcomes, None)
        return status

    async def release(
        self,
        name: str,
        *,
        sinks: Sequence[Sink],
        text: bool = True,
        erase_data: bool = False,
        despite_ticket: bool = False,
    ) -> int:
        """Give one machine back to MAAS; the caller has made sure that its name was said twice."""
        node = self._one(name)
        status, _ = await reimage.release(
            self._wiring, node, sinks, erase_data=erase_data, despite_ticket=despite_ticket
        )
        if text and status == 0:
            _say(f"{name} is given back to MAAS; to install it again: provision bringup {name}")
        return status

    async def adopt(self, name: str) -> str:
        """Accept a machine that was deployed by hand; a sentence."""
        return await runs.adopt(self._wiring, self._one(name))

    async def status(self, target: str, *, offline: bool = False, look: bool = False) -> list[dict[str, Any]]:
        """Where every node stood when it was last looked at, and where MAAS's record differs from the inventory.

        ``offline`` asks nobody; ``look`` asks the BMCs for their MAC addresses too.
        """
        nodes = self._wiring.select(target)
        rows = await looks.status(self._wiring, nodes)
        ready = {row["node"] for row in rows if row["outcome"] == Outcome.READY.value and row["stage"] != "release"}
        differs, complaint = ({}, "") if offline else await drift(self._wiring, nodes, look=look, ready=ready)
        if complaint:
            _say(complaint)
        return [{**row, "drift": differs.get(row["node"], [])} for row in rows]

    async def check(self, target: str) -> list[dict[str, Any]]:
        """Healthy yes, no or unknown per host."""
        return await looks.check(self._wiring, self._wiring.select(target))

    async def triage(self, target: str) -> list[dict[str, Any]]:
        """Findings per node, from evidence gathered at this moment."""
        return await looks.triage(self._wiring, self._wiring.select(target))

    async def macs(self, target: str) -> tuple[list[dict[str, Any]], list[str]]:
        """Ports per node, and complaints."""
        return await looks.macs(self._wiring, self._wiring.select(target))

    async def history(self, name: str, *, limit: int) -> list[dict[str, Any]]:
        """A node's timeline, oldest first."""
        return await looks.history(self._wiring, self._one(name), limit)

    async def power(self, target: str, verb: str, *, force: bool) -> list[dict[str, Any]]:
        """Press a button (``on``, ``off``, ``cycle``) or look (``status``)."""
        if verb == "status":
            nodes = self._wiring.select(target)
            return await looks.each(nodes, lambda n: press.press(self._wiring, "", n, verb, force=force))
        work = partial(press.press, self._wiring, verb=verb, force=force)
        return await self._written(f"power {verb}", target, work)

    async def bmc_reset(self, target: str) -> list[dict[str, Any]]:
        """Restart BMCs and wait until they are back."""
        return await self._written("bmc reset", target, partial(bmc_care.reset, self._wiring))

    async def bmc_clock(self, target: str, *, write: bool) -> list[dict[str, Any]]:
        """Clocks of BMCs against ours; set with ``write``."""
        if write:
            return await self._written("bmc clock", target, partial(bmc_care.clock, self._wiring))
        return await looks.each(self._wiring.select(target), lambda n: bmc_care.clock(self._wiring, None, n))

    async def bmc_sessions(self, target: str, *, end_ours: bool) -> list[dict[str, Any]]:
        """Sessions on BMCs; with ``end_ours`` what killed runs left behind is ended."""
        if end_ours:
            found = await self._written("bmc sessions", target, partial(bmc_care.sessions, self._wiring))
        else:
            found = await looks.each(self._wiring.select(target), lambda n: bmc_care.sessions(self._wiring, None, n))
        return [row for rows in found for row in rows]

    async def bmc_info(self, target: str) -> list[dict[str, Any]]:
        """Firmware of BMCs and parts against the profiles."""
        found = await looks.each(self._wiring.select(target), lambda n: bmc_care.info(self._wiring, n))
        return [row for rows in found for row in rows]

    async def _written(self, verb: str, target: str, work: Callable[[str, Node], Awaitable[Any]]) -> list[Any]:
        """Work that writes, under a run of its own that holds the nodes."""
        nodes = self._wiring.select(target)
        run = runs.new_run(self._wiring, verb, target, nodes)
        await self._wiring.store.start_run(run)
        try:
            return await looks.each(nodes, lambda node: work(run.id, node))
        finally:
            await self._wiring.store.end_run(run.id, 0)

    async def ticket_list(self, target: str, *, open_only: bool) -> list[dict[str, Any]]:
        """Tickets in short."""
        names = {node.name for node in self._wiring.select(target)} if target != "all" else None
        return [
            {
                "id": t.id,
                "status": t.status.value,
                "node": t.node,
                "category": t.category.value,
                "locator": t.locator,
                "peer_end": t.peer_end,
                "action": t.action.value,
                "dispatch": t.dispatch.value,
                "attempt": t.attempt,
                "opened": t.opened_at.isoformat(timespec="seconds"),
                "updated": t.updated_at.isoformat(timespec="seconds"),
                "ask": t.ask,
                "nodes": list(t.nodes),
                "held_by": t.held_by,
            }
            for t in await self._wiring.store.tickets(open_only=open_only)
            if names is None or names & {t.node, *t.nodes}
        ]

    async def ticket_rows(self, target: str, *, open_only: bool) -> list[dict[str, str]]:
        """Tickets with the columns of the export; of the open ones not those for which nobody is sent meanwhile."""
        names = {node.name for node in self._wiring.select(target)} if target != "all" else None
        tickets = await self._wiring.store.tickets(open_only=open_only)
        chosen = [t for t in tickets if (names is None or names & {t.node, *t.nodes}) and not (open_only and t.held_by)]
        states = {state.node: state for state in await self._wiring.store.states()}
        return report_rows(chosen, self._wiring.site.nodes, states)

    async def mirror_check(self, target: str) -> tuple[list[dict[str, Any]], list[str]]:
        """Rows of packages, and sentences about the mirror."""
        from provision.app import mirror

        return await mirror.check(self._wiring, self._wiring.select(target))

    async def inventory_summary(self) -> dict[str, Any]:
        """What the inventory holds, once it has been found in order."""
        site = self._wiring.site
        return {
            "nodes": len(site.nodes),
            "racks": sorted({node.rack for node in site.nodes.values()}),
            "profiles": sorted(site.profiles),
            "groups": {name: len(hosts) for name, hosts in site.groups.items()},
            "warnings": list(site.warnings),
        }


def _say(sentence: str) -> None:
    from sys import stderr

    from provision.report.text import clean

    stderr.write(clean(sentence) + "\n")


def import_inventory(file: Path, inventory: Path, *, replace: bool) -> tuple[Path, list[str]]:
    """Turn a spreadsheet into inventory YAML; the file written, and notes for the operator."""
    target = inventory / "hosts.yml" if inventory.suffix not in {".yml", ".yaml"} else inventory
    done = import_csv(file, target, replace=replace)
    ignored = [f"ignored column(s): {', '.join(done.ignored)}"] if done.ignored else []
    return done.target, [*ignored, *done.notes]
