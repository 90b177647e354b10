"""TLS to BMCs: certificates are pinned by SHA-256, because theirs are self-signed and name no address we use."""

from __future__ import annotations

import asyncio
import hashlib
import re

import aiohttp

from provision.errors import MisconfiguredError


def read_fingerprint(raw: str, owner: str) -> str:
    """A SHA-256 fingerprint as 64 lower-case hex digits, from ``AB:CD:…``, ``sha256:…`` or plain hex.

    Raises:
        MisconfiguredError: anything else; ``owner`` says whose setting it is.
    """
    digits = re.sub(r"[\s:]", "", raw.strip().lower().removeprefix("sha256").lstrip(":=/ "))
    if not re.fullmatch(r"[0-9a-f]{64}", digits):
        raise MisconfiguredError(
            f"{owner}: bmc_fingerprint {raw!r} is not a SHA-256 fingerprint (64 hexadecimal digits, colons allowed); "
            "read it with: openssl s_client -connect BMC:443 | openssl x509 -noout -fingerprint -sha256"
        )
    return digits


class PinCheck(aiohttp.Fingerprint):
    """Compares the peer's certificate right after the handshake, before a byte of HTTP is sent.

    Without a pin the first certificate seen is kept in ``seen`` and every later connection must show the same.
    aiohttp shares one TLS context per process among all checks of this kind (no chain, no host name).
    """

    def __init__(self, pinned: str | None) -> None:
        super().__init__(bytes.fromhex(pinned) if pinned else bytes(32))
        self.pinned = pinned
        self.seen: str | None = None

    def check(self, transport: asyncio.Transport) -> None:
        """Raises aiohttp.ServerFingerprintMismatch for another certificate than the pinned one."""
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        digest = hashlib.sha256(certificate or b"").digest()
        self.seen = digest.hex()
        if self.pinned is None:
            self.pinned = self.seen
        if self.pinned != self.seen:
            host, port, *_ = transport.get_extra_info("peername") or ("", 0)
            raise aiohttp.ServerFingerprintMismatch(bytes.fromhex(self.pinned), digest, host, port)


class CappedResponse(aiohttp.ClientResponse):
    """An answer whose body is read up to ``limit`` bytes: a BMC that never stops may not fill our memory."""

    limit = 16 * 1024 * 1024

    async def read(self) -> bytes:
        """The whole body.

        Raises:
            aiohttp.ClientPayloadError: it is longer than ``limit``.
        """
        if self._body is None:
            parts: list[bytes] = []
            size = 0
            try:
                async for part in self.content.iter_any():
                    size += len(part)
                    if size > self.limit:
                        raise aiohttp.ClientPayloadError(f"a body of more than {self.limit} bytes")
                    parts.append(part)
            except BaseException:
                self.close()
                raise
            self._body = b"".join(parts)
            self.release()
        return self._body
