"""Many nodes on one asyncio loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from provision.model.event import Event, NodeEnded
from provision.model.finding import Finding
from provision.model.node import Node
from provision.model.profile import Goal, Profile
from provision.model.run import Run
from provision.model.site import Site
from provision.ports import Clock, Desk, Journal, Judge, Stage, Tools

ToolsFor = Callable[[Node, Goal], Tools]
"""Builds the tools of one node for one run. The engine sets ``fresh``, ``names`` and ``claims`` itself and closes
``bmc`` on every path; ``maas``, ``playbooks`` and ``shell`` are shared by the nodes and closed by whoever built them."""

FleetCauses = Callable[[Sequence[Node], Mapping[str, Sequence[Finding]], datetime], Mapping[str, Sequence[Finding]]]
"""Triage over nodes that are stuck in one stage: findings of each in, findings of each out, shared causes merged."""


class Fleet:
    """Runs the passes of all nodes of one run, within the site's limits.

    Takes the leases (``journal.start_run``), keeps the heartbeat, records every event in the journal and hands it to
    ``emit``, gives the leases back. One Fleet per run.
    """

    def __init__(
        self,
        *,
        stages: Sequence[Stage],
        journal: Journal,
        clock: Clock,
        site: Site,
        judge: Judge,
        desk: Desk,
        fleet_causes: FleetCauses,
        tools_for: ToolsFor,
        emit: Callable[[Event], None],
    ) -> None:
        raise NotImplementedError

    async def run(
        self,
        run: Run,
        nodes: Sequence[Node],
        profiles: Mapping[str, Profile],
        *,
        may_erase: frozenset[str] = frozenset(),
    ) -> Mapping[str, NodeEnded]:
        """Bring all nodes as far as they go; how it ended for each, by node name.

        ``profiles`` are by name (``node.profile``); ``may_erase`` are the nodes whose disks this run may erase.

        Raises:
            RefusedError: another live run holds one of the nodes.
            MisconfiguredError: the store cannot be written; every node that goes on does so by itself.
        """
        raise NotImplementedError

    def request_stop(self) -> None:
        """Ctrl-C: no act is begun any more, passes end, unfinished nodes end as INTERRUPTED. May be called twice."""
        raise NotImplementedError
