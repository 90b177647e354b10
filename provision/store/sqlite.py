"""SQLite: one file on a disk of this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from provision.errors import MisconfiguredError, ProvisionError, UnavailableError
from provision.store.database import Repeat

# File systems of another machine: SQLite's write-ahead log needs memory that all its users share, and their locks are
# not to be relied on (sqlite.org, "Write-Ahead Logging", 1; "How To Corrupt", 2.1).
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ncpfs", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs"}
_MOUNTS = Path("/proc/self/mountinfo")


class SqliteBackend:
    """Fulfils database.Backend."""

    def __init__(self, path: Path, *, busy_s: float) -> None:
        self.name = str(path)
        self._busy_s = busy_s
        self.engine = create_engine(
            URL.create("sqlite", database=str(path)),
            pool_size=1,
            max_overflow=0,
            connect_args={"timeout": busy_s, "check_same_thread": False},
        )
        event.listen(self.engine, "connect", _connected)
        event.listen(self.engine, "begin", _begin)

    def begin(self, connection: Connection, *, writes: bool, durable: bool) -> None:
        """Nothing: BEGIN has said it already."""

    def repeat(self, error: DBAPIError) -> Repeat:
        """Nothing helps: SQLite has waited for its locks by itself."""
        return Repeat.NOT

    def outcome(self, connection: Connection, mark: object) -> bool | None:
        """Never asked: a file answers."""
        raise NotImplementedError

    def sentence(self, error: SQLAlchemyError, what: str) -> ProvisionError | SQLAlchemyError:
        """See database.Backend."""
        code = str(getattr(getattr(error, "orig", None), "sqlite_errorname", ""))
        for known, text in _LATER.items():
            if code.startswith(known):
                detail = text.format(name=self.name, busy_s=self._busy_s)
                return UnavailableError(f"store {self.name}", what, detail, code=code)
        for known, text in _NEVER.items():
            if code.startswith(known):
                return MisconfiguredError(f"store {self.name}: {text}")
        return error

    def compact(self, connection: Connection) -> None:
        """Write the file anew without its holes: twice its size on the disk for a moment."""
        connection.connection.driver_connection.execute("VACUUM")  # type: ignore[union-attr]


def _connected(connection: Any, _record: Any) -> None:
    # The driver's own idea of when a transaction begins is switched off; see _begin.
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    # FULL waits for the disk at every commit: an intent must outlive a power cut, an event need not.
    connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if options.get('durable') else 'NORMAL'}")
    # IMMEDIATE takes the write lock before anything is read, so that what was read still holds when writing.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")


_LATER = {
    "SQLITE_FULL": "the disk is full; free some space",
    "SQLITE_BUSY": "another program has held it locked for {busy_s:g} s; find it with: fuser {name}",
    "SQLITE_LOCKED": "another program has held it locked for {busy_s:g} s; find it with: fuser {name}",
    "SQLITE_IOERR": "the disk reports an error; look at the kernel log",
}
_NEVER = {
    "SQLITE_READONLY": "it cannot be written; give its directory and files to the user that runs provision",
    "SQLITE_PERM": "permission denied; give its directory and files to the user that runs provision",
    "SQLITE_AUTH": "permission denied; give its directory and files to the user that runs provision",
    "SQLITE_CANTOPEN": "it cannot be opened; its directory must exist and be writable",
    "SQLITE_CORRUPT": "the file is damaged; move it away (and keep it): a new store starts empty and nothing is erased",
    "SQLITE_NOTADB": "the file is not a database; move it away or name another with --state",
}


def make_file(path: Path) -> None:
    """Directory 0700, file 0600 before SQLite touches it: its journals inherit the file's mode.

    A file that is there already is never opened here: closing any handle of a file drops all POSIX locks that this
    process has on it, also those of another store (sqlite.org, "How To Corrupt", 2.2).

    Raises:
        MisconfiguredError: it cannot be made or used; the sentence says why.
    """
    directory = path.parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise MisconfiguredError(
                f"state directory {directory} cannot be written; name another with --state or give it to this user"
            )
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            _close_to_others(path)
    except (FileExistsError, NotADirectoryError):
        raise MisconfiguredError(
            f"state directory {directory} is a file; expected a directory, name another with --state"
        ) from None
    except OSError as error:
        raise _cannot(path, error.strerror or "unknown") from None


def _close_to_others(path: Path) -> None:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise _cannot(path, "Is a directory")
    if not os.access(path, os.R_OK | os.W_OK):
        raise _cannot(path, "Permission denied")
    if stat.S_ISREG(mode) and mode & 0o077:
        path.chmod(0o600)


def _cannot(path: Path, why: str) -> MisconfiguredError:
    return MisconfiguredError(f"store {path} cannot be opened: {why}; name another directory with --state")


def refuse_remote(path: Path, mounts: str | None = None) -> None:
    """SQLite on a file system of another machine would be damaged sooner or later.

    Args:
        path: the file, made or not.
        mounts: the mount table as /proc/self/mountinfo has it; None: this machine's.

    Raises:
        MisconfiguredError: it is on one.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return
    kind = file_system(path.resolve(), mounts)
    if kind in _REMOTE:
        raise MisconfiguredError(
            f"store {path} is on a network file system ({kind}), where SQLite's locks do not hold; name a directory of "
            f"this machine's own disk with --state, or a server with store: postgresql://… for several machines"
        )


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system that holds ``path``; empty if the table does not say.

    Source: proc(5), /proc/pid/mountinfo: field 5 is the mount point with blanks as ``\\040``, the type follows ``-``.
    """
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if len(fields) < 5 or not rest[0]:
            continue
        point = Path(_unescaped(fields[4]))
        # Of mounts over one another the last one is seen.
        if len(point.parts) >= best and (point == path or point in path.parents):
            best, kind = len(point.parts), rest[0]
    return kind


def _unescaped(text: str) -> str:
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text
