"""One database, one thread that talks to it, and its errors as sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from provision.errors import MisconfiguredError, ProvisionError, UnavailableError

T = TypeVar("T")

BUSY_TIMEOUT_S = 5.0


class Database:
    """Carries out work in transactions, one after the other, in a thread of its own.

    SQLite writes one at a time anyway; one thread keeps the event loop free while the disk is slow and makes
    the order of writes the order of calls.
    """

    def __init__(self, url: URL, name: str, *, busy_s: float = BUSY_TIMEOUT_S) -> None:
        self.name = name
        self._busy_s = busy_s
        self._engine = _sqlite_engine(url, busy_s)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._closed = False

    async def write(self, what: str, work: Callable[[Connection], T], *, durable: bool = False) -> T:
        """Run ``work`` in a transaction that writes. ``durable``: on the disk when this returns, power loss or not.

        Raises:
            UnavailableError: disk full, locked by another program, disk error: the same call may work later.
            MisconfiguredError: read-only or corrupt.
        """
        return await asyncio.wrap_future(
            self._thread.submit(self._run, what, work, {"writes": True, "durable": durable})
        )

    async def read(self, what: str, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a transaction that reads. Errors as with ``write``."""
        return await asyncio.wrap_future(self._thread.submit(self._run, what, work, {}))

    def call(self, what: str, work: Callable[[Connection], T], **options: bool) -> T:
        """The same for callers without an event loop."""
        return self._thread.submit(self._run, what, work, options).result()

    def close(self) -> None:
        """Release the database. Closing twice is no error."""
        if not self._closed:
            self._closed = True
            self._thread.submit(self._engine.dispose)
            self._thread.shutdown(wait=True)

    def _run(self, what: str, work: Callable[[Connection], T], options: dict[str, Any]) -> T:
        with (
            self._sentences(what),
            self._engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            return work(connection)

    @contextmanager
    def _sentences(self, what: str) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise sentence(error, self.name, what, self._busy_s) from error.orig


def _sqlite_engine(url: URL, busy_s: float) -> Engine:
    engine = create_engine(
        url, pool_size=1, max_overflow=0, connect_args={"timeout": busy_s, "check_same_thread": False}
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        # The driver's own idea of when a transaction begins is switched off; see _begin.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        # FULL waits for the disk at every commit: an intent must outlive a power cut, an event need not.
        connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if options.get('durable') else 'NORMAL'}")
        # IMMEDIATE takes the write lock before anything is read, so that what was read still holds when writing.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")

    return engine


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


def sentence(error: SQLAlchemyError, name: str, what: str, busy_s: float) -> ProvisionError | SQLAlchemyError:
    """The error as the operator should read it; what is our own mistake comes back as it is."""
    code = str(getattr(getattr(error, "orig", None), "sqlite_errorname", ""))
    for known, text in _LATER.items():
        if code.startswith(known):
            return UnavailableError(f"store {name}", what, text.format(name=name, busy_s=busy_s), code=code)
    for known, text in _NEVER.items():
        if code.startswith(known):
            return MisconfiguredError(f"store {name}: {text}")
    return error
