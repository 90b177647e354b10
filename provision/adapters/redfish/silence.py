"""No answer at all: what the library and the socket said, as an error of ours in one sentence."""

from __future__ import annotations

import aiohttp
from redfish.aio import RedfishConnectionError, RedfishError, RedfishInvalidTargetError, RedfishTimeoutError

from provision.adapters.redfish.problems import AddressBlockedError, CertificateChangedError, NoAnswerError
from provision.errors import GarbledError, PeerError, RefusedError


def silence(
    error: BaseException, peer: str, operation: str, *, request_s: float, blocked: bool, pinned_by_inventory: bool
) -> PeerError:
    """Name a request that brought no answer. ``blocked``: this BMC refused a password a moment ago."""
    under = error.__cause__ if isinstance(error, RedfishError) else error
    if isinstance(under, aiohttp.ServerFingerprintMismatch):
        return _changed(under, peer, operation, pinned_by_inventory=pinned_by_inventory)
    if isinstance(error, RedfishInvalidTargetError):
        return RefusedError(peer, operation, "an address of another machine; it is not followed", code="foreign")
    if isinstance(error, RedfishError) and not isinstance(error, RedfishConnectionError):
        return GarbledError(peer, operation, cause(error), code="garbled")
    if blocked:
        return AddressBlockedError(
            peer,
            operation,
            f"no service for this computer since the BMC refused a password a moment ago ({cause(under or error)}); "
            "iDRACs block an address for a minute or longer after bad logins: correct the password, wait, run again",
            code="address-blocked",
        )
    if isinstance(error, RedfishTimeoutError):
        return NoAnswerError(peer, operation, f"no answer in {request_s:g} s", code="timeout")
    broken = isinstance(under, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | ConnectionResetError)
    broken = broken or (
        isinstance(under, aiohttp.ClientOSError) and not isinstance(under, aiohttp.ClientConnectorError)
    )
    return NoAnswerError(peer, operation, cause(under or error), code="reset" if broken else "no-answer")


def _changed(
    found: aiohttp.ServerFingerprintMismatch, peer: str, operation: str, *, pinned_by_inventory: bool
) -> CertificateChangedError:
    source = "bmc_fingerprint in the inventory" if pinned_by_inventory else "the one this program has trusted so far"
    return CertificateChangedError(
        peer,
        operation,
        f"certificate {found.got.hex()} instead of {found.expected.hex()} ({source}); no password was sent. If the "
        "board or its certificate was replaced, forget the old fingerprint; if not, somebody stands in between",
        code="certificate-changed",
    )


def cause(error: BaseException) -> str:
    """What the socket said, in words: ``connection refused``, ``connection closed in mid-answer``."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the name is not known to DNS"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "no TLS is spoken there"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed before an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"the answer broke off: {error}"
    return " ".join(str(error).split())[:200] or type(error).__name__
