"""Virtual time beside real work: the clock of tests/fakes.py, which stands still while the store is at work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.fakes import FakeClock


class WorkClock(FakeClock):
    """Jumps only when nobody works, and a call of the store is work, though the event loop sees nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.at_work = 0

    def _turn(self) -> None:
        if self.at_work:
            self._armed = False
        else:
            super()._turn()

    async def working(self, call: Awaitable[Any]) -> Any:
        """The call's answer; time stands still until it is there."""
        self.at_work += 1
        try:
            return await call
        finally:
            self.at_work -= 1
            if not self.at_work:
                self._arm()


class Busy:
    """A part of the store whose calls stop the clock; counts them by name."""

    def __init__(self, inner: object, clock: WorkClock, counts: dict[str, int] | None = None) -> None:
        self._inner, self._clock = inner, clock
        self._counts = {} if counts is None else counts

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._inner, name)

        async def call(*args: Any, **options: Any) -> Any:
            self._counts[name] = self._counts.get(name, 0) + 1
            return await self._clock.working(method(*args, **options))

        return call
