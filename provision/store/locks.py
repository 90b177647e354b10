"""Deciding alone: what SQLite's one writer gives for nothing and PostgreSQL only on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, text
from sqlalchemy.dialects import postgresql, sqlite

# Any number that no other program of this database uses; "prov" and a counter.
_KEYS = {"migrate": 0x70726F7601, "runs": 0x70726F7602, "tickets": 0x70726F7603}


def alone(connection: Connection, what: str) -> None:
    """Until the transaction ends no other one decides about ``what``: migrate, runs, tickets.

    On SQLite the transaction is the only one that writes (BEGIN IMMEDIATE).
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _KEYS[what]})


def upsert(connection: Connection, table: Table, keys: Sequence[str], values: Mapping[str, Any]) -> None:
    """Insert a row, or change the one with the same ``keys``; in one statement, so that no race is lost."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).values(**values)
    changed = {name: statement.excluded[name] for name in values if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=list(keys), set_=changed))
