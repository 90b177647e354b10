"""Several operators at one store: who typed what, who asks a run to end, what a run has told since."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from provision.errors import RefusedError
from provision.model.run import Run
from provision.store import leases as held
from provision.store.database import Database
from provision.store.journal import Store
from provision.store.schema import attempts, commands, events, leases, requests, runs
from provision.store.texts import Scrub, clean

# Commands that are older than this are told by no history any more.
KEEP_COMMANDS = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class Standing:
    """A run as others see it. ``status`` is ``running``, ``ended``, ``taken over`` or ``died``."""

    run: Run
    status: str
    exit_status: int | None
    ended_at: datetime | None
    taken_over_by: str | None
    asked: str = ""


@dataclass(frozen=True, slots=True)
class CommandTyped:
    """Who typed what, when, from where."""

    at: datetime
    user: str
    host: str
    pid: int
    verb: str
    words: str


class Operators:
    """What processes tell one another through the store."""

    def __init__(self, database: Database, now: Callable[[], datetime], scrub: Callable[[], Scrub]) -> None:
        self._database = database
        self._now = now
        self._scrub = scrub

    async def typed(self, user: str, host: str, pid: int, verb: str, words: str) -> None:
        """Write a command down."""
        now = self._now()
        row = {"user": user, "host": host, "pid": pid, "verb": verb, "words": clean(words, self._scrub()), "at": now}

        def work(connection: Connection) -> None:
            connection.execute(insert(commands).values(row))
            connection.execute(delete(commands).where(commands.c.at < now - KEEP_COMMANDS))

        await self._database.write("write the command down", work)

    async def commands(self, *, limit: int = 100) -> tuple[CommandTyped, ...]:
        """Newest first."""
        query = select(commands).order_by(commands.c.id.desc()).limit(limit)

        def work(connection: Connection) -> tuple[CommandTyped, ...]:
            rows = connection.execute(query)
            return tuple(CommandTyped(r.at, r.user, r.host, r.pid, r.verb, r.words) for r in rows)

        return await self._database.read("list commands", work)

    async def standing(self, *, limit: int = 50, run: str | None = None) -> tuple[Standing, ...]:
        """Runs, newest first; with ``run`` that one alone."""
        query = select(runs, requests.c.by).join(requests, requests.c.run == runs.c.id, isouter=True)
        query = query.order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit)
        if run is not None:
            query = query.where(runs.c.id == run)

        def work(connection: Connection) -> tuple[Standing, ...]:
            now = held.moment(connection, self._now)
            return tuple(_standing(row, now) for row in connection.execute(query))

        return await self._database.read("list runs", work)

    async def holders(self, nodes: Sequence[str]) -> Mapping[str, Run]:
        """Live runs that hold some of these nodes, by run id."""

        def work(connection: Connection) -> Mapping[str, Run]:
            now, found = held.moment(connection, self._now), {}
            for chunk in held.chunks(nodes):
                query = select(runs).join(leases, leases.c.run == runs.c.id).where(leases.c.node.in_(chunk)).distinct()
                for row in connection.execute(query):
                    if held.is_live(row, now):
                        found[row.id] = _run(row)
            return found

        return await self._database.read("look who holds the nodes", work)

    async def ask_to_end(self, run: str, by: str) -> None:
        """Let the run's process begin no new act and end; it looks for this every few seconds."""

        def work(connection: Connection) -> None:
            row = connection.execute(select(runs).where(runs.c.id == run)).one_or_none()
            if row is None:
                raise RefusedError("store", "cancel", f"there is no run {run}; provision runs lists them")
            if not held.is_live(row, held.moment(connection, self._now)):
                raise RefusedError("store", "cancel", f"run {run} is not at work any more")
            if connection.execute(select(requests.c.run).where(requests.c.run == run)).scalar() is None:
                connection.execute(insert(requests).values(run=run, what="end", by=clean(by), at=self._now()))

        await self._database.write("ask a run to end", work, durable=True)

    async def asked_to_end(self, run: str) -> str:
        """Who asked the run to end; empty if nobody did."""
        query = select(requests.c.by).where(requests.c.run == run)
        return await self._database.read("look whether to end", lambda c: c.execute(query).scalar()) or ""

    async def void(self, run: str, by: str) -> int:
        """Take a run out of its process's hands: it may write no more, and its open intents are void. Their number."""

        def work(connection: Connection) -> int:
            now = self._now()
            connection.execute(delete(leases).where(leases.c.run == run))
            connection.execute(update(runs).where(runs.c.id == run, runs.c.ended_at.is_(None)).values(taken_over_by=by))
            change = (
                update(attempts)
                .where(attempts.c.run == run, attempts.c.result.is_(None))
                .values(result="void", detail=f"taken over by {clean(by)}", closed_at=now)
            )
            return int(connection.execute(change).rowcount)

        return await self._database.write("take a run over", work, durable=True)

    async def events(self, run: str, *, after: int = 0, limit: int = 1000) -> tuple[int, tuple[dict[str, Any], ...]]:
        """What the run told since event ``after``: the newest number, and the events as plain dicts."""
        query = select(events.c.id, events.c.payload).where(events.c.run == run, events.c.id > after)

        def work(connection: Connection) -> tuple[int, tuple[dict[str, Any], ...]]:
            rows = connection.execute(query.order_by(events.c.id).limit(limit)).all()
            return (rows[-1].id if rows else after), tuple(json.loads(row.payload) for row in rows)

        return await self._database.read("read events", work)


def operators_of(store: Store) -> Operators:
    """The operators of a store, over the same database."""
    return Operators(store._database, store._now, lambda: store.scrub)


def _run(row: Row[Any]) -> Run:
    return Run(row.id, row.verb, tuple(json.loads(row.nodes)), row.user, row.host, row.pid, row.started_at, row.target)


def _standing(row: Row[Any], now: datetime) -> Standing:
    if row.taken_over_by is not None:
        status = "taken over"
    elif row.ended_at is not None:
        status = "ended"
    else:
        status = "running" if held.is_live(row, now) else "died"
    return Standing(_run(row), status, row.exit_status, row.ended_at, row.taken_over_by, row.by or "")
