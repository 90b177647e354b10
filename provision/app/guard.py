"""A wrong password stops at three BMCs in every verb, not in a bring-up alone."""

from __future__ import annotations

from provision.engine.breaker import CredentialBreaker
from provision.errors import CredentialRefusedError
from provision.model.node import Node


class Guard:
    """One per command: all BMCs that it asks go through its breaker."""

    def __init__(self) -> None:
        self._breaker = CredentialBreaker()

    def of(self, node: Node, credential: str) -> Turnstile:
        """What this node's client asks before it logs in with the credential of that name."""
        return Turnstile(self._breaker, node, credential)

    def sentences(self) -> list[str]:
        """What to tell the operator: one sentence for each credential that was given up."""
        return [
            f"{len(names)} BMCs refused credential {credential!r} ({', '.join(names)}): no other BMC was tried with "
            f"it; correct user and password, then run the same command again"
            for credential, names in self._breaker.refused.items()
            if self._breaker.is_open(credential)
        ]


class Turnstile:
    """One BMC's way through the breaker; see ``adapters.redfish.turnstile``."""

    def __init__(self, breaker: CredentialBreaker, node: Node, credential: str) -> None:
        self._breaker = breaker
        self._node = node
        self._credential = credential

    async def enter(self) -> None:
        """Wait for a turn.

        Raises:
            CredentialRefusedError: other BMCs refused this credential.
        """
        if not await self._breaker.may_try(self._credential):
            refused = ", ".join(self._breaker.refused.get(self._credential, ()))
            why = f"not tried: credential {self._credential!r} was refused by {refused}"
            raise CredentialRefusedError(f"BMC {self._node.bmc_address}", "log in", why, code="not-tried")

    def leave(self, *, accepted: bool, refused: bool) -> None:
        """How the try ended."""
        self._breaker.tried(self._credential, self._node.name, accepted=accepted, refused=refused)
