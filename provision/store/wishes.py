"""What was wished and trusted: image epochs and pins. The few rows whose loss would be felt."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from provision.store.schema import goals, pins

_FIRST_EPOCH = 1


def epoch(connection: Connection, node: str) -> int:
    """The node's image epoch; 1 if nobody asked about it yet."""
    found = connection.execute(select(goals.c.image_epoch).where(goals.c.node == node)).scalar()
    return _FIRST_EPOCH if found is None else int(found)


def raise_epoch(connection: Connection, node: str, why: str, now: datetime) -> int:
    """The next epoch, written."""
    current = connection.execute(select(goals.c.image_epoch).where(goals.c.node == node).with_for_update()).scalar()
    following = (_FIRST_EPOCH if current is None else int(current)) + 1
    values = {"image_epoch": following, "raised_at": now, "why": why}
    if current is None:
        connection.execute(insert(goals).values(node=node, **values))
    else:
        connection.execute(update(goals).where(goals.c.node == node).values(values))
    return following


def get_pin(connection: Connection, kind: str, name: str) -> str | None:
    """The pinned value, or None."""
    return connection.execute(select(pins.c.value).where(pins.c.kind == kind, pins.c.name == name)).scalar()


def set_pin(connection: Connection, kind: str, name: str, value: str, now: datetime) -> None:
    """Trust ``value`` in place of what was trusted before."""
    here = (pins.c.kind == kind, pins.c.name == name)
    if connection.execute(update(pins).where(*here).values(value=value, set_at=now)).rowcount == 0:
        connection.execute(insert(pins).values(kind=kind, name=name, value=value, set_at=now))


def drop_pin(connection: Connection, kind: str, name: str) -> None:
    """Trust nothing under this name until somebody pins it again."""
    connection.execute(delete(pins).where(pins.c.kind == kind, pins.c.name == name))
