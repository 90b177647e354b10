"""What can go wrong between us and a BMC, each kind with its own type, code and sentence.

All of them are errors of ``provision.errors``; the subclasses and ``code`` tell kinds apart for triage.
"""

from __future__ import annotations

from provision.errors import CredentialRefusedError, GarbledError, RefusedError, UnavailableError


class SessionsExhaustedError(UnavailableError):
    """The BMC's table of sessions is full (code ``sessions-exhausted``): nobody's password is wrong."""


class AddressBlockedError(UnavailableError):
    """The BMC does not serve our address for a while after refused logins (code ``address-blocked``)."""


class PasswordChangeRequiredError(RefusedError):
    """The account must get another password before it may do anything (code ``password-change-required``)."""


class LoginRefusedError(RefusedError):
    """A clear no to a login that blames neither password nor sessions; it is not tried again in this run either."""


class CertificateChangedError(RefusedError):
    """Another certificate than the pinned one (code ``certificate-changed``). Nothing was sent to that peer."""


class BrokenLoginError(GarbledError):
    """The BMC says that we are logged in and gives nothing to use it with (code ``broken-login``)."""


class NoAnswerError(UnavailableError):
    """Nothing came back at all: refused, unreachable, reset or silent (codes ``no-answer``, ``timeout``)."""


# After one of these nothing else is worth asking of this BMC in this run.
FATAL = (
    CredentialRefusedError,
    AddressBlockedError,
    PasswordChangeRequiredError,
    LoginRefusedError,
    CertificateChangedError,
    BrokenLoginError,
    SessionsExhaustedError,
)
