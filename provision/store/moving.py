"""One store into another one, of whatever kind: all rows, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection, func, insert, select, text

from provision.errors import MisconfiguredError, RefusedError
from provision.store import locks, upkeep
from provision.store.database import Database
from provision.store.schema import metadata

_CHUNK = 1000


def move(source: Database, target: Database, now: Callable[[], datetime]) -> dict[str, int]:
    """Copy every row of ``source`` into the empty ``target``; rows of each table. ``source`` keeps its own.

    Nothing is written to the source meanwhile: it is held as for a write.

    Raises:
        MisconfiguredError: the target is the source or not empty.
        RefusedError: a run is at work, which would go on writing into the source; or the rows are not all there.
    """
    if source.name == target.name:
        raise MisconfiguredError(f"store {source.name} cannot be moved onto itself; name another one with --to")

    def reading(from_: Connection) -> dict[str, int]:
        locks.alone(from_, "runs")
        if working := upkeep.live_runs(from_, now()):
            raise RefusedError("store", "move", f"{working[0]} is at work; wait for it or stop it")
        return target.call("move", lambda to: _copy(from_, to, target.name), writes=True, durable=True)

    return source.call("move", reading, writes=True)


def _copy(from_: Connection, to: Connection, name: str) -> dict[str, int]:
    locks.alone(to, "migrate")
    filled = {table: count for table, count in upkeep.counts(to).items() if count}
    if filled:
        listed = ", ".join(f"{count} {table}" for table, count in filled.items())
        raise MisconfiguredError(f"store {name} is not empty ({listed}); name an empty database with --to")
    wanted = upkeep.counts(from_)
    for table in metadata.sorted_tables:
        rows = from_.execute(select(table), execution_options={"stream_results": True}).mappings()
        for chunk in rows.partitions(_CHUNK):
            to.execute(insert(table), [dict(row) for row in chunk])
    found = upkeep.counts(to)
    if found != wanted:
        missing = {table: (wanted[table], found[table]) for table in wanted if wanted[table] != found[table]}
        raise RefusedError("store", "move", f"the rows are not all there, nothing was kept: {missing}")
    if to.dialect.name == "postgresql":
        for table in upkeep.counted_tables():
            highest = to.execute(select(func.coalesce(func.max(table.c.id), 0))).scalar_one()
            to.execute(
                text("SELECT setval(pg_get_serial_sequence(:name, 'id'), :next, false)"),
                {"name": table.name, "next": highest + 1},
            )
    return found
