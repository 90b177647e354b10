"""The store as the engine and the adapters know it: ports.Journal and ports.Pins over one database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from provision.model.decision import Outcome
from provision.model.event import Event
from provision.model.evidence import Evidence, Gap, Part, PartKind, Reading, Severity
from provision.model.run import Attempt, NodeState, Run
from provision.model.secret import Secret
from provision.model.ticket import Ticket, TicketChange
from provision.store import leases, locks, tickets, wishes
from provision.store.database import BUSY_TIMEOUT_S, Database
from provision.store.opening import PATIENCE_S, open_database
from provision.store.schema import attempts, events, evidence, gaps, runs, states
from provision.store.texts import Scrub, clean, event_json, keep_all, plain, to_json


def open_store(
    path_or_url: Path | str,
    *,
    password: Secret | None = None,
    now: Callable[[], datetime] = leases.utc_now,
    busy_s: float = BUSY_TIMEOUT_S,
    patience_s: float = PATIENCE_S,
) -> Store:
    """Open or make a store.

    Args:
        path_or_url: the state directory, a ``.db`` file, ``sqlite:///PATH`` or ``postgresql://USER@HOST/DATABASE``.
        password: for a server; None: libpq looks in PGPASSWORD, PGPASSFILE and ~/.pgpass.
        now: the wall clock, UTC. Signs of life on a server are told by the server's clock where this is the default.
        busy_s: how long to wait for another program that has the store locked.
        patience_s: how long a call waits for a server that is away.

    Raises:
        MisconfiguredError: it cannot be used; the sentence says why and what to do.
    """
    return Store(open_database(path_or_url, password=password, busy_s=busy_s, patience_s=patience_s), now)


class Store:
    """Fulfils ports.Journal and ports.Pins.

    ``scrub`` is applied to every free text before it is written; set it once the secrets are known. Names
    (nodes, runs, stages) are kept as they are.
    """

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self.scrub: Scrub = keep_all
        self._database = database
        self._now = now
        self._mine: set[str] = set()

    @property
    def name(self) -> str:
        """The file or the server, for messages."""
        return self._database.name

    async def start_run(self, run: Run) -> None:
        """Lease the run's nodes; leases of dead runs are taken over. See ports.Journal."""

        def work(connection: Connection) -> None:
            leases.take(connection, run, mine=self._mine, now=leases.moment(connection, self._now))

        await self._database.write("start the run", work, durable=True)
        self._mine.add(run.id)

    async def heartbeat(self, run: str) -> None:
        """Say that the run is alive.

        Raises:
            RefusedError: it was taken over; it must stop.
        """

        def work(connection: Any) -> None:
            leases.must_hold(connection, run, "heartbeat")
            alive = {"heartbeat_at": leases.moment(connection, self._now)}
            connection.execute(update(runs).where(runs.c.id == run).values(alive))

        await self._database.write("heartbeat", work)

    async def end_run(self, run: str, exit_status: int) -> None:
        """Give the leases back."""
        await self._database.write("end the run", lambda c: leases.release(c, run, exit_status, self._now()))
        self._mine.discard(run)

    async def runs(self, *, limit: int = 20) -> tuple[tuple[Run, int | None], ...]:
        """Newest first, with exit status (None: still running or died)."""
        query = select(runs).order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit)
        return await self._database.read("list runs", lambda c: tuple(map(_run, c.execute(query))))

    async def epoch(self, node: str) -> int:
        """The node's image epoch."""
        return await self._database.read("read the epoch", lambda c: wishes.epoch(c, node))

    async def raise_epoch(self, node: str, *, why: str) -> int:
        """A wish to erase: the next epoch, durable when this returns."""
        return await self._database.write(
            "raise the epoch", lambda c: wishes.raise_epoch(c, node, clean(why, self.scrub), self._now()), durable=True
        )

    async def open_attempt(self, run: str, node: str, stage: str, step: str, why: str) -> int:
        """Write an intent down, durable when this returns.

        Raises:
            RefusedError: the run was taken over or another one holds the node: nothing may be sent.
        """

        def work(connection: Any) -> int:
            leases.must_hold(connection, run, "open an attempt", node)
            row = insert(attempts).values(
                run=run,
                node=node,
                stage=stage,
                step=step,
                why=clean(why, self.scrub),
                opened_at=self._now(),
                detail="",
            )
            return int(connection.execute(row).inserted_primary_key[0])

        return await self._database.write("open an attempt", work, durable=True)

    async def close_attempt(self, attempt: int, result: str, detail: str = "") -> None:
        """``sent``, ``unknown``, ``refused`` or ``void``."""
        change = (
            update(attempts)
            .where(attempts.c.id == attempt)
            .values(result=result, detail=clean(detail, self.scrub), closed_at=self._now())
        )
        await self._database.write("close an attempt", lambda c: c.execute(change))

    async def attempts(self, node: str, *, limit: int = 50) -> tuple[Attempt, ...]:
        """Newest first; those that a dead run left open have no result."""
        query = select(attempts).where(attempts.c.node == node).order_by(attempts.c.id.desc()).limit(limit)
        return await self._database.read("list attempts", lambda c: tuple(map(_attempt, c.execute(query))))

    async def record(self, event: Event) -> None:
        """Append to the node's and the run's history."""
        payload = event.as_dict()
        row = insert(events).values(
            run=clean(event.run),
            node=str(payload["node"]) if payload.get("node") else None,
            at=event.at,
            kind=event.kind,
            payload=event_json(payload, self.scrub),
        )
        await self._database.write("record an event", lambda c: c.execute(row))

    async def history(self, node: str, *, limit: int = 500) -> tuple[Mapping[str, object], ...]:
        """The newest ``limit`` events of a node as plain dicts, oldest first."""
        query = select(events.c.payload).where(events.c.node == node).order_by(events.c.id.desc()).limit(limit)
        rows = await self._database.read("read the history", lambda c: c.execute(query).scalars().all())
        return tuple(json.loads(row) for row in reversed(rows))

    async def keep_evidence(self, run: str, evidence_: Sequence[Evidence], gaps_: Sequence[Gap]) -> None:
        """Keep what was seen. A gap belongs to the node of the evidence that came with it, if that is one."""
        nodes = {item.node for item in evidence_}
        node = nodes.pop() if len(nodes) == 1 else None
        seen = [self._evidence_row(run, item) for item in evidence_]
        missed = [
            {
                "run": run,
                "node": node,
                "kept_at": self._now(),
                "source": clean(gap.source, self.scrub, longest=150),
                "place": clean(gap.where, self.scrub),
                "why": clean(gap.why, self.scrub),
            }
            for gap in gaps_
        ]

        def work(connection: Any) -> None:
            if seen:
                connection.execute(insert(evidence), seen)
            if missed:
                connection.execute(insert(gaps), missed)

        await self._database.write("keep evidence", work)

    async def evidence(self, node: str, *, limit: int = 500) -> tuple[Evidence, ...]:
        """The newest ``limit`` readings of a node, oldest first."""
        query = select(evidence).where(evidence.c.node == node).order_by(evidence.c.id.desc()).limit(limit)
        rows = await self._database.read("read evidence", lambda c: c.execute(query).all())
        return tuple(_evidence(row) for row in reversed(rows))

    async def set_state(self, state: NodeState) -> None:
        """Where the node stands now."""
        values = {
            "node": state.node,
            "run": state.run,
            "stage": state.stage,
            "since": state.since,
            "what": clean(state.what, self.scrub),
            "why": clean(state.why, self.scrub),
            "outcome": state.outcome.value if state.outcome else None,
            "updated_at": state.updated_at or self._now(),
        }

        def work(connection: Connection) -> None:
            # What a run has to say after it was taken over is told of a node that another one has in hand.
            if leases.is_taken_over(connection, state.run):
                return
            locks.upsert(connection, states, ("node",), values)

        await self._database.write("set the state", work)

    async def states(self, nodes: Sequence[str] | None = None) -> tuple[NodeState, ...]:
        """Where nodes stood when they were last looked at, by name."""

        def work(connection: Any) -> tuple[NodeState, ...]:
            query = select(states)
            parts = leases.chunks(nodes) if nodes is not None else [None]
            found = (
                _state(row)
                for part in parts
                for row in connection.execute(query if part is None else query.where(states.c.node.in_(part)))
            )
            # Servers sort by their own language; an order that everybody sees is ours.
            return tuple(sorted(found, key=lambda state: state.node))

        return await self._database.read("list states", work)

    async def tickets(self, *, node: str | None = None, open_only: bool = False) -> tuple[Ticket, ...]:
        """Tickets, oldest first."""
        return await self._database.read("list tickets", lambda c: tickets.find(c, node=node, open_only=open_only))

    async def settle(self, run: str, changes: Sequence[TicketChange]) -> tuple[Ticket, ...]:
        """Apply moves of the desk, all or none; returns the tickets as they stand afterwards.

        Raises:
            RefusedError: a second open ticket for one fault, or a ticket that does not exist.
        """
        return await self._database.write(
            "settle tickets",
            lambda c: tickets.settle(c, run, changes, scrub=self.scrub, now=self._now()),
            durable=True,
        )

    def get_pin(self, kind: str, name: str) -> str | None:
        """The pinned value, or None."""
        return self._database.call("read a pin", lambda c: wishes.get_pin(c, kind, name))

    def set_pin(self, kind: str, name: str, value: str) -> None:
        """Trust ``value`` from now on, durable when this returns."""
        self._database.call(
            "set a pin", lambda c: wishes.set_pin(c, kind, name, value, self._now()), writes=True, durable=True
        )

    def drop_pin(self, kind: str, name: str) -> None:
        """Trust nothing under this name until it is pinned again (``adopt`` of a host somebody else installed)."""
        self._database.call("drop a pin", lambda c: wishes.drop_pin(c, kind, name), writes=True, durable=True)

    async def close(self) -> None:
        """Release the database."""
        self._database.close()

    def _evidence_row(self, run: str, item: Evidence) -> dict[str, Any]:
        scrub = self.scrub
        return {
            "run": run,
            "node": item.node,
            "part_kind": item.part.kind.value,
            "part_name": clean(item.part.name, scrub),
            "locator": clean(item.part.locator, scrub),
            "parent": None if item.part.parent is None else clean(item.part.parent, scrub),
            "reading": item.reading.value,
            "source": clean(item.source, scrub, longest=150),
            "seen_at": item.seen_at,
            "text": clean(item.text, scrub),
            "code": None if item.code is None else clean(item.code, scrub, longest=150),
            "severity": item.severity.value,
            "figures": to_json(plain(item.values, scrub)),
            "cleared": item.cleared,
        }


def _run(row: Row[Any]) -> tuple[Run, int | None]:
    run = Run(row.id, row.verb, tuple(json.loads(row.nodes)), row.user, row.host, row.pid, row.started_at, row.target)
    return run, row.exit_status


def _attempt(row: Row[Any]) -> Attempt:
    return Attempt(row.id, row.run, row.node, row.stage, row.step, row.why, row.opened_at, row.result, row.detail)


def _state(row: Row[Any]) -> NodeState:
    outcome = Outcome(row.outcome) if row.outcome else None
    return NodeState(row.node, row.run, row.stage, row.since, row.what, row.why, outcome, row.updated_at)


def _evidence(row: Row[Any]) -> Evidence:
    return Evidence(
        node=row.node,
        part=Part(PartKind(row.part_kind), row.part_name, row.locator, row.parent),
        reading=Reading(row.reading),
        source=row.source,
        seen_at=row.seen_at,
        text=row.text,
        code=row.code,
        severity=Severity(row.severity),
        values=json.loads(row.figures),
        cleared=row.cleared,
    )
