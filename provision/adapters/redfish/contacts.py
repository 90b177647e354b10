"""First contacts of one process follow each other.

A handshake costs a millisecond of our processor. Hundreds begun in one moment keep all BMCs in step: all answers
come at once, and between them there is nothing to do (512 BMCs: 7 % of the wall time).
"""

from __future__ import annotations

import asyncio
import time


class Contacts:
    """Hands out moments on the process's own clock, each at least a gap after the last."""

    def __init__(self) -> None:
        self._next = 0.0

    async def turn(self, gap_s: float) -> None:
        """Wait for the next free moment; at once where nobody was served within the gap."""
        now = time.monotonic()
        mine = max(now, self._next)
        self._next = mine + gap_s
        if mine > now:
            await asyncio.sleep(mine - now)


CONTACTS = Contacts()
