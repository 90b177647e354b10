"""What is stored, whether it is whole, and how it is kept small."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Table, and_, delete, exists, func, or_, select, text

from provision.model.ticket import TicketStatus
from provision.store import leases as held
from provision.store import tickets as desk
from provision.store.database import Database
from provision.store.opening import version
from provision.store.schema import HEAD, attempts, events, evidence, gaps, leases, metadata, runs, states, ticket_moves
from provision.store.schema import tickets as ticket_rows

# Others may write between two of these.
_BATCH = 5000
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Info:
    """What is stored. ``bytes`` with the write-ahead log; ``oldest`` and ``newest`` of the history."""

    name: str
    kind: str
    version: str
    bytes: int
    rows: Mapping[str, int]
    oldest: datetime | None
    newest: datetime | None
    live_runs: tuple[str, ...]


def info(database: Database, now: datetime) -> Info:
    """Count everything."""

    def work(connection: Connection) -> Info:
        oldest, newest = connection.execute(select(func.min(events.c.at), func.max(events.c.at))).one()
        return Info(
            database.name,
            connection.dialect.name,
            version(connection, database.name) or "",
            _bytes(connection, database.name),
            counts(connection),
            oldest,
            newest,
            live_runs(connection, now),
        )

    return database.call("count", work)


def counts(connection: Connection) -> dict[str, int]:
    """Rows of each table."""
    return {
        table.name: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
        for table in metadata.sorted_tables
    }


def live_runs(connection: Connection, now: datetime) -> tuple[str, ...]:
    """Runs that may still be at work, as sentences name them."""
    query = select(runs).where(runs.c.ended_at.is_(None), runs.c.taken_over_by.is_(None)).order_by(runs.c.started_at)
    return tuple(
        f"{row.verb} {row.target} of {row.user}@{row.host}, process {row.pid} (run {row.id})"
        for row in connection.execute(query)
        if held.is_live(row, now)
    )


def _bytes(connection: Connection, name: str) -> int:
    if connection.dialect.name == "postgresql":
        return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
    return sum(path.stat().st_size for path in (Path(name + end) for end in ("", "-wal", "-shm")) if path.exists())


def prune(
    database: Database, *, before: datetime | None = None, keep: int | None = None, dry_run: bool = False
) -> dict[str, int]:
    """Delete what is old; how many rows of each table.

    Args:
        before: what happened earlier goes.
        keep: of each node the newest so many rows of a table stay, the others go.

    What stays in any case: wishes, pins, states and tickets; whatever belongs to a run that holds nodes, or to the run
    that looked at a node last; the evidence of open tickets.
    """
    gone: dict[str, int] = {}
    safe_runs, safe_pairs = database.call("look what must stay", _must_stay)
    for table, moment in ((events, events.c.at), (evidence, evidence.c.seen_at), (gaps, gaps.c.kept_at)):
        ids = database.call("look what is old", _Old(table, moment, before, keep, safe_runs, safe_pairs))
        gone[table.name] = len(ids)
        for batch in () if dry_run else _batches(ids):
            database.call("prune", _Delete(table, batch), writes=True)
    if before is not None:
        gone |= database.call("prune runs", lambda c: _old_runs(c, before, safe_runs, dry_run), writes=True)
    return gone


Pairs = frozenset[tuple[str, str]]


def _must_stay(connection: Connection) -> tuple[frozenset[str], Mapping[str, frozenset[str]]]:
    """Runs of which everything stays for the nodes that they hold, and (node → runs) of which its rows stay."""
    holding = frozenset(connection.execute(select(leases.c.run)).scalars())
    by_node: dict[str, set[str]] = {}
    for node, run in connection.execute(select(states.c.node, states.c.run)):
        by_node.setdefault(node, set()).add(run)
    moves: dict[int, set[str]] = {}
    still_open = select(ticket_moves.c.ticket, ticket_moves.c.run).join(
        ticket_rows, ticket_rows.c.number == ticket_moves.c.ticket
    )
    for number, run in connection.execute(still_open.where(ticket_rows.c.status != TicketStatus.VERIFIED.value)):
        moves.setdefault(number, set()).add(run)
    for ticket in desk.find(connection, node=None, open_only=True):
        for node in {ticket.node, *ticket.nodes}:
            by_node.setdefault(node, set()).update(moves.get(int(ticket.id.removeprefix("T-")), ()))
    return holding, {node: frozenset(names) for node, names in by_node.items()}


@dataclass(frozen=True)
class _Old:
    """The ids of a table's rows that may go."""

    table: Table
    moment: Column[Any]
    before: datetime | None
    keep: int | None
    safe_runs: frozenset[str]
    safe_pairs: Mapping[str, frozenset[str]]

    def __call__(self, connection: Connection) -> list[int]:
        c = self.table.c
        place = func.row_number().over(partition_by=c.node, order_by=c.id.desc()).label("place")
        ranked = select(c.id, c.run, c.node, self.moment.label("moment"), place).subquery()
        too_old = ranked.c.moment < self.before if self.before is not None else None
        too_many = and_(ranked.c.node.is_not(None), ranked.c.place > self.keep) if self.keep is not None else None
        wanted = [clause for clause in (too_old, too_many) if clause is not None]
        if not wanted:
            return []
        query = select(ranked.c.id, ranked.c.run, ranked.c.node).where(or_(*wanted)).order_by(ranked.c.id)
        return [
            row.id
            for row in connection.execute(query)
            if row.run not in self.safe_runs and row.run not in self.safe_pairs.get(row.node, ())
        ]


@dataclass(frozen=True)
class _Delete:
    table: Table
    ids: Sequence[int]

    def __call__(self, connection: Connection) -> None:
        for chunk in held.chunks(self.ids):
            connection.execute(delete(self.table).where(self.table.c.id.in_(chunk)))


def _batches(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _BATCH):
        yield ids[start : start + _BATCH]


def _old_runs(connection: Connection, before: datetime, safe: frozenset[str], dry_run: bool) -> dict[str, int]:
    """Old attempts, and old runs of which nothing else is left."""
    old_attempt = and_(
        attempts.c.opened_at < before,
        attempts.c.run.not_in(safe),
        ~exists().where(states.c.run == attempts.c.run, states.c.node == attempts.c.node),
    )
    in_use = [exists().where(table.c.run == runs.c.id) for table in metadata.sorted_tables if "run" in table.c]
    old_run = and_(runs.c.started_at < before, runs.c.id.not_in(safe), ~or_(*in_use))
    if dry_run:
        return {
            "attempts": int(connection.execute(select(func.count()).where(old_attempt)).scalar_one()),
            "runs": int(connection.execute(select(func.count()).where(old_run)).scalar_one()),
        }
    return {
        "attempts": connection.execute(delete(attempts).where(old_attempt)).rowcount,
        "runs": connection.execute(delete(runs).where(old_run)).rowcount,
    }


def check(database: Database) -> tuple[str, ...]:
    """What is wrong with the store, one sentence each; empty if it is whole."""
    return database.call("check", _complaints)


def _complaints(connection: Connection) -> tuple[str, ...]:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    found: list[str] = []
    if connection.dialect.name == "sqlite":
        said = connection.execute(text(f"PRAGMA integrity_check({_SHOWN})")).scalars()
        found += [f"the file is damaged: {line}" for line in said if line != "ok"]
        broken = connection.execute(text("PRAGMA foreign_key_check")).all()
        found += [f"a row of {row[0]} points at a row of {row[2]} that is not there" for row in broken[:_SHOWN]]
    else:
        found += _counters(connection)
    differs = compare_metadata(MigrationContext.configure(connection), metadata)
    found += [f"the tables are not as version {HEAD} makes them: {str(item)[:200]}" for item in differs[:_SHOWN]]
    for table, column in ((events, events.c.payload), (ticket_rows, ticket_rows.c.body), (runs, runs.c.nodes)):
        key = next(iter(table.primary_key.columns))
        found += _unreadable(connection, table, key, column)
    query = select(leases.c.node, leases.c.run).join(runs, runs.c.id == leases.c.run)
    for row in connection.execute(query.where(runs.c.ended_at.is_not(None))):
        found.append(f"{row.node} is still leased to run {row.run}, which is over")
    if not found:
        desk.find(connection, node=None, open_only=False)
    return tuple(found)


def _unreadable(connection: Connection, table: Table, key: Column[Any], column: Column[Any]) -> list[str]:
    found = []
    for name, value in connection.execute(select(key, column)).yield_per(1000):
        try:
            json.loads(value)
        except ValueError:
            found.append(f"{column.name} of row {name} of {table.name} cannot be read")
            if len(found) == _SHOWN:
                break
    return found


def _counters(connection: Connection) -> list[str]:
    """Numbers that the server would give a second time."""
    found = []
    for table in counted_tables():
        sequence = connection.execute(
            text("SELECT pg_get_serial_sequence(:name, 'id')"), {"name": table.name}
        ).scalar_one()
        following = connection.execute(
            text(f"SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM {sequence}")  # noqa: S608
        ).scalar_one()
        highest = connection.execute(select(func.coalesce(func.max(table.c.id), 0))).scalar_one()
        if following <= highest:
            found.append(f"the next number of {table.name} would be {following}, and {highest} is there already")
    return found


def counted_tables() -> Iterator[Table]:
    """Tables whose rows the database numbers."""
    for table in metadata.sorted_tables:
        if "id" in table.c and table.c.id.autoincrement is True:
            yield table
