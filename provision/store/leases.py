"""Who holds which node. A lease of a dead process is taken over at once, a live one is refused by name."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Row, delete, insert, select, text, update

from provision.errors import RefusedError
from provision.model.run import Run
from provision.store import locks
from provision.store.schema import leases, runs
from provision.store.texts import to_json

# A run on another machine is judged by its last sign of life alone.
SILENT_AFTER = timedelta(seconds=60)
T = TypeVar("T")
# SQLite takes a limited number of values in one statement.
_CHUNK = 500


def process_identity(pid: int) -> str:
    """Which process a pid stands for: ``boot id/pid namespace/start time``; empty if there is none or /proc is not.

    A pid alone is used again sooner or later; with the start time of this boot it is not.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
        # The command may hold blanks and brackets; the fields after its last bracket do not.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] in {"Z", "X"}:
            return ""
        return f"{boot}/{namespace}/{fields[19]}"
    except (OSError, IndexError):
        return ""


def moment(connection: Connection, now: Callable[[], datetime]) -> datetime:
    """The moment of a sign of life. Machines that share a server may disagree about the time: the server knows best.

    A clock that is not the wall clock (a test's) is believed.
    """
    if connection.dialect.name == "postgresql" and now is utc_now:
        found: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        return found.astimezone(UTC)
    return now()


def utc_now() -> datetime:
    """The wall clock of this machine."""
    return datetime.now(UTC)


def is_live(row: Row[tuple[object, ...]], now: datetime) -> bool:
    """True if the run of this row may still be at work."""
    if row.ended_at is not None or row.taken_over_by is not None:
        return False
    return process_is_live(row, now)


def process_is_live(row: Row[tuple[object, ...]], now: datetime) -> bool:
    """The same by signs of life alone: ``host``, ``pid``, ``process``, ``heartbeat_at``, ``lease_s``."""
    silent = now - row.heartbeat_at
    if row.lease_s is not None and silent > timedelta(seconds=row.lease_s):
        return False
    if row.host == socket.gethostname() and row.process:
        boot, namespace, _ = row.process.split("/")
        ours = process_identity(os.getpid()).split("/")
        if boot != ours[0]:
            return False
        if namespace == ours[1]:
            # Stopped or hanging is not dead: it could wake in the middle of a write.
            return bool(process_identity(row.pid) == row.process)
    return row.lease_s is not None or bool(silent <= SILENT_AFTER)


def take(connection: Connection, run: Run, *, mine: Collection[str], now: datetime) -> tuple[str, ...]:
    """Write the run down and lease its nodes. Returns the ids of dead runs whose nodes were taken over.

    Args:
        mine: unfinished runs that this very store object began; other ones of our process are over.

    Raises:
        RefusedError: a live run holds one of the nodes.
    """
    locks.alone(connection, "runs")
    dead = set()
    for node, row in _holders(connection, run.nodes):
        own = row.host == run.host and row.pid == run.pid and row.process == process_identity(run.pid)
        if (row.id in mine) if own else is_live(row, now):
            raise RefusedError("store", "start the run", _held(node, row), code=row.id)
        dead.add(row.id)
    for run_id in dead:
        connection.execute(update(runs).where(runs.c.id == run_id).values(taken_over_by=run.id))
        connection.execute(delete(leases).where(leases.c.run == run_id))
    connection.execute(
        insert(runs).values(
            id=run.id,
            verb=run.verb,
            target=run.target,
            nodes=to_json(run.nodes),
            user=run.user,
            host=run.host,
            pid=run.pid,
            process=process_identity(run.pid),
            started_at=run.started_at,
            heartbeat_at=now,
            lease_s=run.lease_s,
        )
    )
    if run.nodes:
        connection.execute(insert(leases), [{"node": node, "run": run.id} for node in dict.fromkeys(run.nodes)])
    return tuple(sorted(dead))


def _holders(connection: Connection, nodes: Sequence[str]) -> Iterator[tuple[str, Row[tuple[object, ...]]]]:
    for chunk in chunks(nodes):
        query = select(leases.c.node, runs).join(runs, runs.c.id == leases.c.run).where(leases.c.node.in_(chunk))
        for row in connection.execute(query.order_by(leases.c.node).with_for_update()).all():
            yield row.node, row


def _held(node: str, row: Row[tuple[object, ...]]) -> str:
    target = f" {row.target}" if row.target else ""
    return (
        f"{node} is held by {row.verb}{target} of {row.user}@{row.host}, process {row.pid}, "
        f"since {row.started_at:%Y-%m-%d %H:%M:%S} UTC (run {row.id}); wait for it or stop it there"
    )


def must_hold(connection: Connection, run_id: str, operation: str, node: str | None = None) -> None:
    """A run that was declared dead and wakes up may not write any more.

    Raises:
        RefusedError: the run is unknown, over or was taken over, or another one holds ``node``.
    """
    # Shared: whoever wants to take the run over waits until what is written on the strength of this look is there.
    query = select(runs.c.ended_at, runs.c.taken_over_by).where(runs.c.id == run_id).with_for_update(read=True)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise RefusedError("store", operation, f"run {run_id} was never started")
    if row.taken_over_by is not None:
        raise RefusedError("store", operation, f"run {run_id} was silent and is taken over by run {row.taken_over_by}")
    if row.ended_at is not None:
        raise RefusedError("store", operation, f"run {run_id} is over")
    if node is not None:
        holder = connection.execute(select(leases.c.run).where(leases.c.node == node)).scalar()
        if holder is not None and holder != run_id:
            raise RefusedError("store", operation, f"{node} is held by run {holder}, not by run {run_id}")


def is_taken_over(connection: Connection, run_id: str) -> bool:
    """Somebody else has the run's nodes."""
    query = select(runs.c.taken_over_by).where(runs.c.id == run_id).with_for_update(read=True)
    return connection.execute(query).scalar() is not None


def release(connection: Connection, run_id: str, exit_status: int, now: datetime) -> None:
    """The run is over."""
    connection.execute(delete(leases).where(leases.c.run == run_id))
    connection.execute(update(runs).where(runs.c.id == run_id).values(ended_at=now, exit_status=exit_status))


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Pieces that one statement can take."""
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
