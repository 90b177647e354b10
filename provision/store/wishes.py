"""What was wished and trusted: image epochs and pins. The few rows whose loss would be felt."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from provision.store import locks
from provision.store.schema import goals, pins

_FIRST_EPOCH = 1


def epoch(connection: Connection, node: str) -> int:
    """The node's image epoch; 1 if nobody asked about it yet."""
    found = connection.execute(select(goals.c.image_epoch).where(goals.c.node == node)).scalar()
    return _FIRST_EPOCH if found is None else int(found)


def raise_epoch(connection: Connection, node: str, why: str, now: datetime) -> int:
    """The next epoch, written."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(goals).values(node=node, image_epoch=_FIRST_EPOCH + 1, raised_at=now, why=why)
    changed = {"image_epoch": goals.c.image_epoch + 1, "raised_at": now, "why": why}
    raised = statement.on_conflict_do_update(index_elements=["node"], set_=changed).returning(goals.c.image_epoch)
    return int(connection.execute(raised).scalar_one())


def get_pin(connection: Connection, kind: str, name: str) -> str | None:
    """The pinned value, or None."""
    return connection.execute(select(pins.c.value).where(pins.c.kind == kind, pins.c.name == name)).scalar()


def set_pin(connection: Connection, kind: str, name: str, value: str, now: datetime) -> None:
    """Trust ``value`` in place of what was trusted before."""
    locks.upsert(connection, pins, ("kind", "name"), {"kind": kind, "name": name, "value": value, "set_at": now})


def drop_pin(connection: Connection, kind: str, name: str) -> None:
    """Trust nothing under this name until somebody pins it again."""
    connection.execute(delete(pins).where(pins.c.kind == kind, pins.c.name == name))
