"""What workers are wanted for: nodes to be brought up by whoever has room, and who is there to do it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from provision.model.work import Want, WorkerSeen
from provision.store import leases, locks
from provision.store.database import Database
from provision.store.journal import Store
from provision.store.schema import leases as lease_rows
from provision.store.schema import runs, wanted, workers
from provision.store.texts import Scrub, clean

# Between the claim and the lease lies the opening of a run; a worker that died there is not waited for any longer.
CLAIM_S = 20.0


class WantedBook:
    """Fulfils ports.Wanted."""

    def __init__(self, database: Database, now: Callable[[], datetime], scrub: Callable[[], Scrub]) -> None:
        self._database = database
        self._now = now
        self._scrub = scrub

    async def ask(self, nodes: Sequence[str], target: str, by: str) -> tuple[str, ...]:
        """Want these nodes up; those that are wanted already and not done stay as they are. Which are new."""

        def work(connection: Connection) -> tuple[str, ...]:
            locks.alone(connection, "runs")
            pending = _pending(connection)
            fresh = tuple(node for node in dict.fromkeys(nodes) if node not in pending)
            values = {"target": target, "by": by, "asked_at": self._moment(connection), "why": ""}
            nothing = dict.fromkeys(("run", "claimed_at", "done_at", "outcome"))
            for chunk in leases.chunks(fresh):
                connection.execute(delete(wanted).where(wanted.c.node.in_(chunk)))
                connection.execute(insert(wanted), [{"node": node, **values, **nothing} for node in chunk])
            return fresh

        return await self._database.write("ask for nodes", work, durable=True)

    async def alive(self, worker: str, host: str, pid: int, lease_s: float) -> None:
        """Say that a worker is there; those that are not any more are forgotten."""

        def work(connection: Connection) -> None:
            now = self._moment(connection)
            found = [row for row in connection.execute(select(workers)) if not leases.process_is_live(row, now)]
            connection.execute(delete(workers).where(workers.c.id.in_([row.id for row in found])))
            started = connection.execute(select(workers.c.started_at).where(workers.c.id == worker)).scalar()
            values: dict[str, Any] = {
                "id": worker,
                "host": host,
                "pid": pid,
                "process": leases.process_identity(pid) if pid == os.getpid() else "",
                "started_at": started or now,
                "heartbeat_at": now,
                "lease_s": lease_s,
            }
            locks.upsert(connection, workers, ("id",), values)

        await self._database.write("say that a worker is there", work)

    async def gone(self, worker: str) -> None:
        """The worker leaves."""
        await self._database.write("leave", lambda c: c.execute(delete(workers).where(workers.c.id == worker)))

    async def workers(self) -> tuple[WorkerSeen, ...]:
        """Workers that are alive, oldest first."""

        def work(connection: Connection) -> tuple[WorkerSeen, ...]:
            now = self._moment(connection)
            rows = connection.execute(select(workers).order_by(workers.c.started_at, workers.c.id))
            return tuple(
                WorkerSeen(row.id, row.host, row.pid, row.started_at)
                for row in rows
                if leases.process_is_live(row, now)
            )

        return await self._database.read("list workers", work)

    async def claim(self, run: str, choose: Callable[[Sequence[str], int, int], Sequence[str]]) -> tuple[str, ...]:
        """Take nodes that are wanted and in nobody's hands for a run that is about to start.

        ``choose`` is told the nodes that are free, how many are wanted in all and how many workers are alive, and says
        which ones.
        """

        def work(connection: Connection) -> tuple[str, ...]:
            locks.alone(connection, "runs")
            now = self._moment(connection)
            query = (
                select(wanted.c.node, wanted.c.run.label("claimed_by"), wanted.c.claimed_at, runs)
                .join(lease_rows, lease_rows.c.node == wanted.c.node, isouter=True)
                .join(runs, runs.c.id == lease_rows.c.run, isouter=True)
                .where(wanted.c.done_at.is_(None))
                .order_by(wanted.c.asked_at, wanted.c.node)
            )
            rows, live = connection.execute(query).all(), _Live(now)
            free = [row.node for row in rows if not live.held(row)]
            alive = sum(leases.process_is_live(row, now) for row in connection.execute(select(workers)))
            chosen = tuple(choose(free, len(rows), alive))
            for chunk in leases.chunks(chosen):
                connection.execute(update(wanted).where(wanted.c.node.in_(chunk)).values(run=run, claimed_at=now))
            return chosen

        return await self._database.write("claim nodes", work)

    async def settle(self, run: str, endings: Mapping[str, tuple[str, str]]) -> None:
        """How it ended: (outcome, why) by node. An empty outcome gives the node back; what others took over stays."""

        def work(connection: Connection) -> None:
            locks.alone(connection, "runs")
            now = self._moment(connection)
            for node, (outcome, why) in endings.items():
                done: dict[str, Any] = {"outcome": outcome, "why": clean(why, self._scrub()), "done_at": now}
                values = done if outcome else {"run": None, "claimed_at": None}
                connection.execute(update(wanted).where(wanted.c.node == node, wanted.c.run == run).values(values))

        await self._database.write("say how it ended", work, durable=True)

    async def standing(self, nodes: Sequence[str]) -> Mapping[str, Want]:
        """What became of the wish, by node."""

        def work(connection: Connection) -> Mapping[str, Want]:
            return {
                row.node: Want(row.node, row.run or "", row.outcome or "", row.why)
                for chunk in leases.chunks(nodes)
                for row in connection.execute(select(wanted).where(wanted.c.node.in_(chunk)))
            }

        return await self._database.read("look what became of the wishes", work)

    def _moment(self, connection: Connection) -> datetime:
        return leases.moment(connection, self._now)


def _pending(connection: Connection) -> set[str]:
    return set(connection.execute(select(wanted.c.node).where(wanted.c.done_at.is_(None))).scalars())


class _Live:
    """Asks about each run once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._known: dict[str, bool] = {}

    def held(self, row: Row[Any]) -> bool:
        """Somebody has the node in hand, or is about to."""
        if row.id is not None:
            if row.id not in self._known:
                self._known[row.id] = leases.is_live(row, self._now)
            return self._known[row.id]
        return row.claimed_by is not None and self._now - row.claimed_at < timedelta(seconds=CLAIM_S)


def wanted_of(store: Store) -> WantedBook:
    """The book of a store, over the same database."""
    return WantedBook(store._database, store._now, lambda: store.scrub)
