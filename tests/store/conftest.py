"""The same tests on both databases."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provision.store.journal import open_store
from provision.store.schema import metadata
from tests.postgres import Server, server

__all__ = ["server"]


@dataclass
class Place:
    """Where a test's store is. ``address`` is what an operator would write."""

    kind: str
    address: str
    server: Server | None = None
    database: str = ""

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """By another program, at once."""
        if self.server is not None:
            return self.server.sql(statement, self.database)
        with sqlite3.connect(Path(self.address) / "store.db") as other:
            return other.execute(statement).fetchall()

    def stored(self) -> bytes:
        """Every row of every table, as another program reads them; of a file its raw bytes too."""
        queries = [f"SELECT * FROM {table.name}" for table in metadata.sorted_tables]  # noqa: S608 - our own names
        rows = repr([self.sql(query) for query in queries]).encode()
        if self.server is not None:
            return rows
        return rows + b"".join(path.read_bytes() for path in Path(self.address).iterdir())


@pytest.fixture(scope="session")
def shared_database(server: Server) -> str:
    """A database with an empty store in it, emptied for each test: making one costs much more."""
    name = server.database()
    open_store(server.address(name))._database.close()
    return name


@pytest.fixture
def empty_server_place(server: Server, shared_database: str) -> Place:
    """An empty store on the server."""
    tables = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
    server.sql(f"TRUNCATE {tables} RESTART IDENTITY", shared_database)
    return Place("postgresql", server.address(shared_database), server, shared_database)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return Place("sqlite", str(tmp_path / "state"))
    found: Place = request.getfixturevalue("empty_server_place")
    return found
