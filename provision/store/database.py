"""One database, one thread that talks to it, and its errors as sentences."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from provision.errors import ProvisionError, UnavailableError

T = TypeVar("T")

BUSY_TIMEOUT_S = 5.0
# A transaction that lost a race is repeated at once; so often, and the race is something else.
_RACES = 10
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 2.0


class Repeat(Enum):
    """What helps after an error of the database."""

    NOT = "nothing"
    AT_ONCE = "the same transaction again: it lost a race"
    WHEN_BACK = "waiting: the server is away, restarts or fails over"


class Backend(Protocol):
    """What differs between the databases."""

    name: str
    engine: Engine

    def begin(self, connection: Connection, *, writes: bool, durable: bool) -> object | None:
        """The transaction has begun: make it as strict as it must be. Returns a mark for ``outcome``."""

    def repeat(self, error: DBAPIError) -> Repeat:
        """What helps."""

    def outcome(self, connection: Connection, mark: object) -> bool | None:
        """What became of a transaction whose commit was not answered; None while it is still at it.

        Raises:
            UnavailableError: nobody can know.
        """

    def sentence(self, error: SQLAlchemyError, what: str) -> ProvisionError | SQLAlchemyError:
        """The error as the operator should read it; what is our own mistake comes back as it is."""

    def compact(self, connection: Connection) -> None:
        """Give freed space back to the file system, outside of any transaction."""


class _UnansweredError(Exception):
    """The connection was lost between COMMIT and its answer."""

    def __init__(self, mark: object, result: object, error: DBAPIError) -> None:
        super().__init__(str(error))
        self.mark = mark
        self.result = result
        self.error = error


class Database:
    """Carries out work in transactions, one after the other, in a thread of its own.

    One thread keeps the event loop free while the disk or the network is slow, and makes the order of writes the
    order of calls. ``patience_s``: how long a call waits for a server that is away. Work may run more than once: it
    changes nothing outside of its transaction.
    """

    def __init__(self, backend: Backend, *, patience_s: float = 0.0) -> None:
        self._backend = backend
        self._patience_s = patience_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._closing = threading.Event()

    @property
    def name(self) -> str:
        """The file or server, for messages."""
        return self._backend.name

    @property
    def patience_s(self) -> float:
        """How long a call waits for a server that is away."""
        return self._patience_s

    @patience_s.setter
    def patience_s(self, seconds: float) -> None:
        self._patience_s = seconds

    async def write(self, what: str, work: Callable[[Connection], T], *, durable: bool = False) -> T:
        """Run ``work`` in a transaction that writes. ``durable``: on the disk when this returns, power loss or not.

        Raises:
            UnavailableError: disk full, locked by another program, server away: the same call may work later.
            MisconfiguredError: read-only or corrupt, or the server knows us no more.
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

    def compact(self) -> None:
        """Give freed space back to the file system. Errors as with ``write``."""
        self._thread.submit(self._compact).result()

    def close(self) -> None:
        """Release the database. Closing twice is no error."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.submit(self._backend.engine.dispose)
            self._thread.shutdown(wait=True)

    def _compact(self) -> None:
        try:
            with self._backend.engine.connect() as connection:
                self._backend.compact(connection)
        except DBAPIError as error:
            raise self._backend.sentence(error, "give space back") from error.orig

    def _run(self, what: str, work: Callable[[Connection], T], options: dict[str, bool]) -> T:
        gives_up_s = time.monotonic() + self._patience_s
        races, pause_s = 0, _FIRST_PAUSE_S
        unanswered: _UnansweredError | None = None
        while True:
            try:
                if unanswered is not None:
                    kept = self._look_up(unanswered)
                    if kept:
                        return unanswered.result  # type: ignore[return-value]
                    unanswered = None
                return self._once(work, **options)
            except _UnansweredError as lost:
                unanswered, error = lost, lost.error
                repeat = Repeat.WHEN_BACK
            except DBAPIError as lost_race:
                error = lost_race
                repeat = self._backend.repeat(error)
            if repeat is Repeat.AT_ONCE and races < _RACES:
                races += 1
                continue
            if repeat is not Repeat.WHEN_BACK or time.monotonic() + pause_s > gives_up_s or self._closing.is_set():
                if unanswered is not None:
                    raise UnavailableError(
                        f"store {self.name}", what, "the connection was lost at the commit; it may have been written"
                    ) from error.orig
                raise self._backend.sentence(error, what) from error.orig
            self._closing.wait(pause_s)
            pause_s = min(pause_s * 2, _LAST_PAUSE_S)

    def _once(self, work: Callable[[Connection], T], *, writes: bool = False, durable: bool = False) -> T:
        options: dict[str, Any] = {"writes": writes, "durable": durable}
        with self._backend.engine.connect().execution_options(**options) as connection:
            with connection.begin() as transaction:
                mark = self._backend.begin(connection, writes=writes, durable=durable)
                result = work(connection)
                try:
                    transaction.commit()
                except DBAPIError as error:
                    if writes and mark is not None and error.connection_invalidated:
                        raise _UnansweredError(mark, result, error) from error
                    raise
            return result

    def _look_up(self, lost: _UnansweredError) -> bool:
        """True if the transaction was committed; waits until the server has made up its mind."""
        for _ in range(100):
            with self._backend.engine.connect() as connection, connection.begin():
                found = self._backend.outcome(connection, lost.mark)
            if found is not None:
                return found
            self._closing.wait(0.1)
        raise _UnansweredError(lost.mark, lost.result, lost.error)
