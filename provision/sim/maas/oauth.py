"""OAuth 1.0 PLAINTEXT, as a region checks it, with the texts of its refusals.

Source: exchanges M012-M019. A wrong secret makes MAAS print the true one: clients must never log a 401's body.
"""

from __future__ import annotations

import re
import time
from collections import deque
from urllib.parse import unquote

from provision.sim.maas.state import User
from provision.sim.maas.wire import HTML, Refusal, Reply

_FIELD = re.compile(r'(\w+)="([^"]*)"')
THRESHOLD_S = 300


class KeyRing:
    """API keys and the nonces that were used lately."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str], tuple[str, User]] = {}
        self._nonces: dict[tuple[str, str], int] = {}
        self._nonce_order: deque[tuple[str, str]] = deque()

    def admit(self, api_key: str, user: User) -> None:
        """Make ``consumer:token:secret`` a key of this user."""
        consumer, token, secret = api_key.split(":")
        self._keys[(consumer, token)] = (secret, user)

    def revoke(self, api_key: str) -> None:
        """Forget a key."""
        consumer, token, _ = api_key.split(":")
        self._keys.pop((consumer, token), None)

    def check(self, header: str | None, *, skew_s: float) -> User | None:
        """The user behind an Authorization header; None without one.

        Raises:
            Refusal: 401 with the reason. ``skew_s`` is how far the region's clock is ahead of true time.
        """
        if not header or not header.startswith("OAuth"):
            return None
        fields = {name: unquote(value) for name, value in _FIELD.findall(header)}
        consumer, token = fields.get("oauth_consumer_key", ""), fields.get("oauth_token", "")
        if consumer not in {known for known, _ in self._keys}:
            raise _refused("Invalid API key.")
        if (consumer, token) not in self._keys:
            raise _refused(f"'Invalid access token: {token}'")
        secret, user = self._keys[(consumer, token)]
        now, stamp = int(time.time() + skew_s), int(fields.get("oauth_timestamp") or 0)
        # One-sided: a stamp from the future passes (measured).
        if now - stamp > THRESHOLD_S:
            raise _refused(
                f"'Expired timestamp: given {stamp} and now {now} has a greater difference than"
                f" threshold {THRESHOLD_S}'"
            )
        self._use_nonce((token, fields.get("oauth_nonce", "")), now)
        if fields.get("oauth_signature") != f"&{secret}":
            raise _refused(f"'Invalid signature. Expected signature base string: &{secret}'")
        return user

    def _use_nonce(self, nonce: tuple[str, str], now: int) -> None:
        while self._nonce_order and now - self._nonces[self._nonce_order[0]] > 2 * THRESHOLD_S:
            del self._nonces[self._nonce_order.popleft()]
        if nonce in self._nonces:
            raise _refused(f"'Nonce already used: {nonce[1]}'")
        self._nonces[nonce] = now
        self._nonce_order.append(nonce)


def _refused(reason: str) -> Refusal:
    headers = {"WWW-Authenticate": 'OAuth realm="OAuth"'}
    return Refusal(Reply(401, f"Authorization Error: {reason}".encode(), HTML, headers))
