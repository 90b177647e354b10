"""What an operator may name as the store: a directory, a file, or a PostgreSQL server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from provision.errors import MisconfiguredError
from provision.model.secret import Secret

FILE_NAME = "store.db"
_FILE_ENDINGS = {".db", ".sqlite", ".sqlite3"}
_SERVERS = {"postgresql", "postgres"}
_EXPECTED = "expected a directory, sqlite:///PATH or postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """One file of this machine. ``path`` is absolute."""

    path: Path

    @property
    def name(self) -> str:
        """For messages."""
        return str(self.path)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A database on a server. ``url`` is a libpq URI without a password; ``password`` None: libpq looks for one.

    libpq takes it from PGPASSWORD, PGPASSFILE or ``~/.pgpass`` (PostgreSQL 15 manual, 34.15 and 34.16).
    """

    url: str
    password: Secret | None = None

    @property
    def name(self) -> str:
        """For messages: the URI without its parameters."""
        return self.url.partition("?")[0]


Address = SqliteFile | PostgresServer


def parse_address(path_or_url: Path | str, password: Secret | None = None) -> Address:
    """Read what the operator named.

    Args:
        path_or_url: the state directory, a file that ends in .db, .sqlite or .sqlite3, ``sqlite:///PATH``, or
            ``postgresql://USER@HOST[:PORT][,HOST2]/DATABASE[?sslmode=…]``.

    Raises:
        MisconfiguredError: nothing of the kind, or it carries a password; the sentence does not show it.
    """
    text = str(path_or_url)
    scheme, found, rest = text.partition("://")
    if not found:
        return SqliteFile(store_path(text))
    if scheme in _SERVERS:
        return PostgresServer(_server(scheme, text), password)
    if scheme != "sqlite" or not rest.startswith("/") or len(rest) < 2:
        shown = text if "@" not in text else f"{scheme}://…"
        raise MisconfiguredError(f"store {shown} is not supported: {_EXPECTED}")
    return SqliteFile(store_path(rest[1:]))


def store_path(text: Path | str) -> Path:
    """The file behind a directory or file name."""
    path = Path(os.path.abspath(Path(text).expanduser()))
    return path if path.suffix in _FILE_ENDINGS else path / FILE_NAME


def _server(scheme: str, text: str) -> str:
    try:
        parts = urlsplit(text)
        parameters = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise MisconfiguredError(f"store {scheme}://… cannot be read: {_EXPECTED}") from None
    secret = [key for key, _ in parameters if "password" in key.lower()]
    # The user part ends at the last @: a password may hold one.
    if ":" in parts.netloc.rpartition("@")[0] or secret:
        raise MisconfiguredError(
            f"store {scheme}://… holds a password, which messages and process lists would show; take it out and "
            f"name it with store_password (env:NAME, file:PATH, cmd:PROGRAM … or !vault), PGPASSFILE or ~/.pgpass"
        )
    if not parts.path.strip("/") or parts.fragment:
        raise MisconfiguredError(f"store {text.partition('?')[0]} names no database: {_EXPECTED}")
    return text
