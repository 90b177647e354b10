"""Sleeping that ends at once when the run is asked to stop."""

from __future__ import annotations

import asyncio

from provision.ports import Clock


class Pauses:
    """All pauses of one run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: set[asyncio.Task[None]] = set()
        self._ended = False

    async def sleep(self, seconds: float) -> None:
        """Sleep, or return early because the run stops."""
        if self._ended:
            return
        task = asyncio.ensure_future(self._clock.sleep(seconds))
        self._open.add(task)
        try:
            # Waiting for it does not raise when it is cancelled by ``end``, and does when we are cancelled ourselves.
            await asyncio.wait({task})
        finally:
            self._open.discard(task)
            task.cancel()

    def end(self) -> None:
        """Wake everybody."""
        self._ended = True
        for task in self._open:
            task.cancel()
