"""A store that cannot be written for a while: the run waits for it instead of losing what it wanted to write down."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from provision.errors import MisconfiguredError, UnavailableError
from provision.ports import Clock, Gates, Journal

RETRY_S, GIVE_UP_S = 5.0, 900.0

Tell = Callable[[str], None]
"""Shows a sentence; it cannot be written down at this moment."""


class Patience:
    """Repeats what the store could not do (disk full, locked by another program) until it can, or time is up.

    Every call is one transaction: what failed has left nothing behind, so it may be asked again.
    """

    def __init__(self, clock: Clock, tell: Tell, *, retry_s: float = RETRY_S, give_up_s: float = GIVE_UP_S) -> None:
        self._clock = clock
        self._tell = tell
        self._retry_s = retry_s
        self._give_up_s = give_up_s
        self._down_since: float | None = None

    def journal(self, journal: Journal) -> Journal:
        """The same journal, waited for."""
        return cast("Journal", _Patient(journal, self))

    def gates(self, gates: Gates) -> Gates:
        """The same book of slots, waited for."""
        return cast("Gates", _Patient(gates, self))

    async def ask(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Its answer.

        Raises:
            MisconfiguredError: the store could not be used for ``give_up_s``; the sentence says what to do.
        """
        began = self._clock.monotonic()
        while True:
            try:
                answer = await call()
            except UnavailableError as error:
                if self._clock.monotonic() - began >= self._give_up_s:
                    raise MisconfiguredError(
                        f"{error}; it stayed so for {self._give_up_s / 60:.0f} minutes and this run stops: "
                        f"mend that, then run the same command again"
                    ) from error
                if self._down_since is None:
                    self._down_since = began
                    self._tell(f"{error}; nothing is begun until it can be written again")
                await self._clock.sleep(self._retry_s)
                continue
            if self._down_since is not None:
                self._tell(f"the store can be written again, after {self._clock.monotonic() - self._down_since:.0f} s")
                self._down_since = None
            return answer


class _Patient:
    def __init__(self, inner: object, patience: Patience) -> None:
        self._inner = inner
        self._patience = patience

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._inner, name)

        async def call(*args: Any, **options: Any) -> Any:
            return await self._patience.ask(lambda: method(*args, **options))

        return call
