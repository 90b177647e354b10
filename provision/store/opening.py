"""Opening a store: place, rights, version. An older one is migrated, a newer one refused."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from provision.errors import MisconfiguredError, UnavailableError
from provision.model.secret import Secret
from provision.store import locks
from provision.store.address import PostgresServer, SqliteFile, parse_address
from provision.store.database import BUSY_TIMEOUT_S, Database
from provision.store.schema import HEAD
from provision.store.sqlite import SqliteBackend, make_file, refuse_remote

_MIGRATIONS = Path(__file__).parent / "migrations"
# Reading every page of a larger file would delay each command noticeably.
_LARGEST_CHECKED_BYTES = 32 * 1024 * 1024
# A restart of the server takes less, and most failovers do; a run waits on by itself for longer (engine/patience.py).
PATIENCE_S = 30.0


def open_database(
    path_or_url: Path | str,
    *,
    password: Secret | None = None,
    busy_s: float = BUSY_TIMEOUT_S,
    patience_s: float = PATIENCE_S,
) -> Database:
    """Open or make the database.

    Args:
        path_or_url: the state directory, a file, or an address; see address.parse_address.
        password: for a server; None: libpq looks for one.
        patience_s: how long a later call waits for a server that is away; opening does not wait.

    Raises:
        MisconfiguredError: it cannot be used; the sentence says why and what to do.
    """
    match parse_address(path_or_url, password):
        case SqliteFile() as file:
            database = _sqlite(file, busy_s)
        case server:
            database = _postgres(server, busy_s)
    try:
        _prepare(database)
    except UnavailableError as error:
        database.close()
        raise MisconfiguredError(f"{error.peer}: {error.detail}") from error
    except BaseException:
        database.close()
        raise
    database.patience_s = patience_s
    return database


def _sqlite(file: SqliteFile, busy_s: float) -> Database:
    make_file(file.path)
    refuse_remote(file.path)
    database = Database(SqliteBackend(file.path, busy_s=busy_s))
    try:
        if file.path.stat().st_size <= _LARGEST_CHECKED_BYTES:
            database.call("check", lambda connection: _check(connection, file.name))
    except UnavailableError as error:
        database.close()
        raise MisconfiguredError(f"{error.peer}: {error.detail}") from error
    except BaseException:
        database.close()
        raise
    return database


def _postgres(server: PostgresServer, busy_s: float) -> Database:
    from provision.store.postgres import PostgresBackend

    return Database(PostgresBackend(server, busy_s=busy_s))


def _prepare(database: Database) -> None:
    # The common case takes no write lock: several commands may look while a run writes.
    if database.call("read the version", lambda connection: version(connection, database.name)) != HEAD:
        database.call("migrate", lambda connection: migrate(connection, database.name), writes=True, durable=True)


def _check(connection: Connection, name: str) -> None:
    found = connection.execute(text("PRAGMA quick_check(1)")).scalar()
    if found != "ok":
        raise MisconfiguredError(
            f"store {name}: the file is damaged; "
            f"move it away (and keep it): a new store starts empty and nothing is erased"
        )


def version(connection: Connection, name: str) -> str | None:
    """The store's version; None if it is empty.

    Raises:
        MisconfiguredError: it belongs to another program, or to a newer version of this one.
    """
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    found = None
    if "alembic_version" in tables:
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if found is None and tables == {"alembic_version"}:
            return None
    # Other programs use Alembic too; their versions are no numbers of four digits.
    if found is None or len(str(found)) != len(HEAD) or not str(found).isdigit():
        raise MisconfiguredError(
            f"store {name} is a database of another program; move it away or name another with --state"
        )
    if found > HEAD:
        raise MisconfiguredError(
            f"store {name} has version {found}, this program reads up to version {HEAD}; "
            f"use the newer provision that wrote it, or name another store with --state"
        )
    return str(found)


def migrate(connection: Connection, name: str, target: str = "head") -> None:
    """Bring the store to ``target``. Runs in the caller's transaction, which writes.

    Raises:
        MisconfiguredError: another program has brought it to a newer version in the meantime.
    """
    locks.alone(connection, "migrate")
    if version(connection, name) == HEAD:
        return
    # Alembic takes a fifth of a second to import; most commands meet a store that is up to date.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)
