"""Stops a wrong password after three BMCs, instead of locking us out of a whole rack."""

from __future__ import annotations

import asyncio
from collections import Counter

LIMIT = 3


class CredentialBreaker:
    """One per run. Until one BMC has accepted a credential, no more than ``LIMIT`` BMCs are tried with it."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._proved: set[str] = set()
        self._trying: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False
        self.refused: dict[str, list[str]] = {}

    def is_open(self, credential: str) -> bool:
        """True once as many BMCs as the limit refused it."""
        return len(self.refused.get(credential, ())) >= self._limit

    async def may_try(self, credential: str) -> bool:
        """Wait until one more BMC may be tried; False if the credential, or anything, is not to be tried any more."""
        while not self.is_open(credential) and not self._closed:
            at_risk = self._trying[credential] + len(self.refused.get(credential, ()))
            if credential in self._proved or at_risk < self._limit:
                self._trying[credential] += 1
                return True
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        return False

    def tried(self, credential: str, node: str, *, accepted: bool, refused: bool) -> None:
        """How a try ended; neither means that the BMC did not answer."""
        self._trying[credential] -= 1
        if accepted:
            self._proved.add(credential)
        if refused:
            self.refused.setdefault(credential, []).append(node)
        self._wake()

    def close(self) -> None:
        """The run stops: nobody waits any longer."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
