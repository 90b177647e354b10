"""Errors, sorted by what the caller does next. A broken part is a Finding (data), never one of these.

::

    ProvisionError
    ├── MisconfiguredError   our input is wrong: exit 2, nothing touched
    └── PeerError            a peer could not be looked at, or said no
        ├── UnavailableError no answer, or "not now": look again until the stage's deadline
        ├── RefusedError     a clear no (bad password, lockdown, illegal transition): the stage is stuck
        │   └── CredentialRefusedError   the peer refused this user and password: never tried again in this run
        └── GarbledError     an answer nobody can read: stuck, the payload is kept, our work and not the cage's
"""

from __future__ import annotations


class ProvisionError(Exception):
    """Base of every error that this program raises on purpose. ``str()`` is one sentence for an operator."""


class MisconfiguredError(ProvisionError):
    """Something the operator gave us is wrong; the sentence says what, where, what was expected, what to do."""


class PeerError(ProvisionError):
    """A peer (BMC, MAAS, host, playbook run) did not give what was asked.

    Args:
        peer: whom we talked to, as an operator names it: ``BMC 10.1.12.3``, ``MAAS http://…``, ``host gpu-12-03``.
        operation: what was asked: ``GET /redfish/v1/Systems``, ``log in``, ``deploy``.
        detail: what came back, in one sentence, free of secrets.
        code: the peer's own code where it has one (``SYS406``, ``409``), for triage.
    """

    def __init__(self, peer: str, operation: str, detail: str, *, code: str | None = None) -> None:
        super().__init__(f"{peer}: {operation}: {detail}")
        self.peer = peer
        self.operation = operation
        self.detail = detail
        self.code = code


class UnavailableError(PeerError):
    """No answer, or "not now". A write that ended like this may or may not have happened: look."""

    def __init__(
        self,
        peer: str,
        operation: str,
        detail: str,
        *,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(peer, operation, detail, code=code)
        self.retry_after_s = retry_after_s


class RefusedError(PeerError):
    """A clear no."""


class CredentialRefusedError(RefusedError):
    """The peer refused this user and password.

    Never tried twice: three bad logins lock the client's address out on an iDRAC (facts: IP blocking).
    """


class GarbledError(PeerError):
    """An answer that nobody can read. ``payload`` keeps its first 200 bytes as evidence."""

    def __init__(
        self, peer: str, operation: str, detail: str, *, payload: bytes = b"", code: str | None = None
    ) -> None:
        super().__init__(peer, operation, detail, code=code)
        self.payload = payload[:200]
