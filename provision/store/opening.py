"""Opening a store: path, rights, version. An older one is migrated, a newer one refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sqlalchemy import URL, Connection, inspect, text

from provision.errors import MisconfiguredError, UnavailableError
from provision.store.database import BUSY_TIMEOUT_S, Database
from provision.store.schema import HEAD

FILE_NAME = "store.db"
_FILE_ENDINGS = {".db", ".sqlite", ".sqlite3"}
_MIGRATIONS = Path(__file__).parent / "migrations"
# Reading every page of a larger file would delay each command noticeably.
_LARGEST_CHECKED_BYTES = 32 * 1024 * 1024


def open_database(path_or_url: Path | str, *, busy_s: float = BUSY_TIMEOUT_S) -> Database:
    """Open or make the database.

    Args:
        path_or_url: the state directory, a file that ends in .db, .sqlite or .sqlite3, or ``sqlite:///PATH``.

    Raises:
        MisconfiguredError: it cannot be used; the sentence says why and what to do.
    """
    path = store_path(path_or_url)
    _make(path)
    database = Database(URL.create("sqlite", database=str(path)), str(path), busy_s=busy_s)
    try:
        if path.stat().st_size <= _LARGEST_CHECKED_BYTES:
            database.call("check", lambda connection: _check(connection, path))
        # The common case takes no write lock: several commands may look while a run writes.
        if database.call("read the version", lambda connection: _version(connection, path)) != HEAD:
            database.call("migrate", lambda connection: migrate(connection, path), writes=True, durable=True)
    except UnavailableError as error:
        database.close()
        raise MisconfiguredError(f"{error.peer}: {error.detail}") from error
    except BaseException:
        database.close()
        raise
    return database


def store_path(path_or_url: Path | str) -> Path:
    """The file behind what the operator named."""
    text_ = str(path_or_url)
    if "://" in text_:
        scheme, _, rest = text_.partition("://")
        if scheme != "sqlite" or not rest.startswith("/") or len(rest) < 2:
            shown = text_ if "@" not in text_ else f"{scheme}://…"
            raise MisconfiguredError(f"store {shown} is not supported: expected a directory or sqlite:///PATH")
        text_ = rest[1:]
    path = Path(os.path.abspath(Path(text_).expanduser()))
    return path if path.suffix in _FILE_ENDINGS else path / FILE_NAME


def _make(path: Path) -> None:
    """Directory 0700, file 0600 before SQLite touches it: its journals inherit the file's mode."""
    directory = path.parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise MisconfiguredError(
                f"state directory {directory} cannot be written; name another with --state or give it to this user"
            )
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            mode = os.fstat(handle).st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
    except (FileExistsError, NotADirectoryError):
        raise MisconfiguredError(
            f"state directory {directory} is a file; expected a directory, name another with --state"
        ) from None
    except OSError as error:
        raise MisconfiguredError(
            f"store {path} cannot be opened: {error.strerror}; name another directory with --state"
        ) from None


def _check(connection: Connection, path: Path) -> None:
    found = connection.execute(text("PRAGMA quick_check(1)")).scalar()
    if found != "ok":
        raise MisconfiguredError(
            f"store {path}: the file is damaged; "
            f"move it away (and keep it): a new store starts empty and nothing is erased"
        )


def _version(connection: Connection, path: Path) -> str | None:
    """The store's version; None if it is empty."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    if "alembic_version" not in tables:
        raise MisconfiguredError(
            f"store {path} is a database of another program; move it away or name another with --state"
        )
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if version is not None and version > HEAD:
        raise MisconfiguredError(
            f"store {path} has version {version}, this program reads up to version {HEAD}; "
            f"use the newer provision that wrote it, or name another store with --state"
        )
    return str(version) if version is not None else None


def migrate(connection: Connection, path: Path, target: str = "head") -> None:
    """Bring the store to ``target``. Runs in the caller's transaction, which holds the write lock.

    Raises:
        MisconfiguredError: another program has brought it to a newer version in the meantime.
    """
    if _version(connection, path) == HEAD:
        return
    # Alembic takes a fifth of a second to import; most commands meet a store that is up to date.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)
