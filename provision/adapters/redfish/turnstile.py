"""Asking before a login whether its credential may be tried at one more BMC, and telling how the try ended."""

from __future__ import annotations

from typing import Protocol


class Turnstile(Protocol):
    """Who may still try a credential; one for each BMC, all of one command hang together."""

    async def enter(self) -> None:
        """Wait for a turn.

        Raises:
            CredentialRefusedError: other BMCs refused this credential; it is not to be tried here.
        """

    def leave(self, *, accepted: bool, refused: bool) -> None:
        """How the try ended; neither: nobody knows."""


class Turn:
    """The turn of one session: taken once, ended once, however many logins follow. Without a turnstile it is free."""

    def __init__(self, turnstile: Turnstile | None) -> None:
        self._turnstile = turnstile
        self._inside = False
        self._proved = False

    async def take(self) -> None:
        """Before a login.

        Raises:
            CredentialRefusedError: see Turnstile.
        """
        if self._turnstile is not None and not self._inside and not self._proved:
            await self._turnstile.enter()
            self._inside = True

    def end(self, *, accepted: bool = False, refused: bool = False) -> None:
        """After the first answer that shows what the BMC thinks of the login."""
        if self._turnstile is not None and self._inside:
            self._inside = False
            self._proved = accepted
            self._turnstile.leave(accepted=accepted, refused=refused)
