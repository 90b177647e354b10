"""What the answer to a login means. Pure, except for the short memory of refusals."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from provision.adapters.redfish.answers import SESSIONS_FULL, Answer, error_from, main_message
from provision.adapters.redfish.problems import (
    AddressBlockedError,
    BrokenLoginError,
    LoginRefusedError,
    PasswordChangeRequiredError,
    SessionsExhaustedError,
)
from provision.adapters.redfish.values import dig
from provision.errors import CredentialRefusedError, GarbledError, RefusedError
from provision.model.secret import Credential

SESSIONS = "/redfish/v1/SessionService/Sessions"
MUST_CHANGE = "PasswordChangeRequired"
_FORGOTTEN = {"NoValidSession", "SessionTerminated", "ResourceAtUriUnauthorized"}
_BLOCKED = re.compile(r"\b(block(ed|ing)?|lock(ed)?[ -]?out|locked|too many (failed|login|attempts))", re.IGNORECASE)
# Makers say it with ids of their own (SessionLimitExceeded, MaxSessionsReached) and with any status.
_FULL_ID = re.compile(r"session.*(limit|max|exceed|full)|(limit|max|exceed|toomany).*session", re.IGNORECASE)
_FULL_TEXT = re.compile(
    r"number of (active |user |concurrent )*sessions|session (limit|table)|too many sessions"
    r"|no (more|free|available) sessions?|sessions? (is|are|has been|have been)? ?(full|exhausted|exceeded|reached)",
    re.IGNORECASE,
)
# A wrong password, where it is not said with 401: iLO and others answer 400 with an id that says so.
_WRONG_ID = re.compile(
    r"unauthori[sz]ed|invalid(user|login|credential|password)|credentials?invalid|(login|authentication|logon)fail"
    r"|^SYS41[56]$",
    re.IGNORECASE,
)
_REFUSAL_S = 900.0

# Addresses that refused a password of this process, with the moment: if they fall silent afterwards, they block us.
_refusals: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class Ticket:
    """How requests prove who they are: a session's token, or Basic on every request."""

    token: str = field(default="", repr=False)
    location: str = ""
    basic: bool = False
    created: str = ""


def sessions_path(root: Mapping[str, Any]) -> str:
    """Where to log in: the root's ``Links.Sessions`` (iDRAC 7/8 have it elsewhere), else the standard place."""
    links = root.get("Links")
    sessions = links.get("Sessions") if isinstance(links, dict) else None
    path = sessions.get("@odata.id") if isinstance(sessions, dict) else None
    return path.strip() if isinstance(path, str) and path.strip() else SESSIONS


def has_no_sessions(root: Mapping[str, Any]) -> bool:
    """True for a root that was read and names sessions nowhere (sushy-emulator, whose 401 says nothing else)."""
    return bool(root) and "SessionService" not in root and not isinstance(dig(root, "Links", "Sessions"), dict)


def basic(credential: Credential) -> str:
    """The Authorization header of Basic."""
    return "Basic " + base64.b64encode(f"{credential.user}:{credential.password.reveal()}".encode()).decode()


def read_ticket(peer: str, credential: Credential, answer: Answer, *, allow_basic: bool) -> Ticket:
    """Turn the answer of the login POST into a ticket.

    Raises:
        CredentialRefusedError, PasswordChangeRequiredError, AddressBlockedError, SessionsExhaustedError,
        BrokenLoginError, and what ``error_from`` makes of anything else.
    """
    messages = answer.messages()
    ids = {message.id for message in messages}
    text = " ".join(message.text for message in messages)
    if MUST_CHANGE in ids:
        raise must_change(peer, credential)
    if not answer.ok and (ids & SESSIONS_FULL or any(map(_FULL_ID.search, ids)) or _FULL_TEXT.search(text)):
        if allow_basic and ":" not in credential.user:
            return Ticket(basic=True)
        raise SessionsExhaustedError(
            peer,
            "log in",
            "its table of sessions is full (clients that never logged out; they expire by themselves, after 30 minutes "
            "on an iDRAC); run again later, end old sessions, or allow Basic",
            code="sessions-exhausted",
        )
    if answer.status in {404, 405, 501}:  # iDRAC 7 and 8 and several emulators have no sessions
        if ":" in credential.user:
            raise RefusedError(
                peer,
                "log in",
                f"it has no sessions, and Basic cannot carry the user name {credential.user!r}; use another",
                code="no-sessions",
            )
        return Ticket(basic=True)
    if answer.status in {400, 401, 403, 429} and _BLOCKED.search(text):
        raise AddressBlockedError(
            peer,
            "log in",
            f"HTTP {answer.status}: it blocks logins for a while after failed ones ({text[:200]}); wait, run again",
            code="address-blocked",
        )
    if answer.status in {401, 403} or (400 <= answer.status < 500 and any(map(_WRONG_ID.search, ids))):
        raise refused(peer, credential, answer)
    if not answer.ok:
        error = error_from(answer, peer, 0.0)
        if isinstance(error, RefusedError):
            raise LoginRefusedError(peer, "log in", error.detail, code=error.code)
        raise error
    return _fresh_ticket(peer, answer)


def _fresh_ticket(peer: str, answer: Answer) -> Ticket:
    token = answer.headers.get("x-auth-token", "").strip()
    location = session_location(answer)
    if not token:
        raise BrokenLoginError(
            peer,
            "log in",
            f"HTTP {answer.status} without an X-Auth-Token: there is nothing to prove the login with; "
            "reset the BMC or update its firmware",
            payload=answer.body,
            code="broken-login",
        )
    return Ticket(token, location, created=_created(answer))


def _created(answer: Answer) -> str:
    """When the BMC says that the session began; empty where the answer does not show it."""
    try:
        found = answer.json("").get("CreatedTime")
    except GarbledError:
        return ""
    return found if isinstance(found, str) else ""


def session_location(answer: Answer) -> str:
    """The session's address: the Location header, or ``@odata.id`` of the body (sushy and DMTF do the same)."""
    location = answer.headers.get("location", "").strip()
    if location:
        # A few give the whole address, or leave out the first slash; the session is this BMC's in any case.
        return "/" + re.sub(r"^[a-z]+://[^/]*", "", location).lstrip("/")
    try:
        body = answer.json("")
    except GarbledError:
        return ""
    found = body.get("@odata.id")
    if isinstance(found, str) and found.strip():
        return found.strip()
    number = body.get("Id")
    return f"{answer.path.rstrip('/')}/{number}" if isinstance(number, str | int) and str(number) else ""


def leftover(answer: Answer) -> Ticket | None:
    """The session behind an answer that made one and forbids its use (``PasswordChangeRequired``)."""
    token = answer.headers.get("x-auth-token", "").strip()
    if not token or not any(message.id == MUST_CHANGE for message in answer.messages()):
        return None
    location = session_location(answer)
    return Ticket(token, location) if location else None


def must_change(peer: str, credential: Credential) -> PasswordChangeRequiredError:
    """The error of an account that may do nothing until its password has changed."""
    return PasswordChangeRequiredError(
        peer,
        "log in",
        f"user {credential.user!r} must get a new password first (factory state); set it on the BMC and in the "
        f"credential {credential.name!r}, then run again",
        code="password-change-required",
    )


def is_forgotten(answer: Answer) -> bool:
    """True if the BMC does not know our session (any more): 401, or 403 that says so."""
    return answer.status == 401 or (
        answer.status == 403 and any(message.id in _FORGOTTEN for message in answer.messages())
    )


def refused(peer: str, credential: Credential, answer: Answer) -> CredentialRefusedError:
    """The error for a wrong password; the sentence names the credential and never the password."""
    main = main_message(answer.messages())
    said = f"HTTP {answer.status}" + (f" {main.id}" if main else "")
    return CredentialRefusedError(
        peer,
        "log in",
        f"it refused user {credential.user!r} with the password of credential {credential.name!r} ({said}); "
        "it was tried once and is not tried again, because BMCs block an address after a few bad logins",
        code=main.id if main else str(answer.status),
    )


def remember_refusal(address: str, now: float) -> None:
    """Keep for a quarter of an hour that this BMC refused a password."""
    for old in [name for name, since in _refusals.items() if now - since > _REFUSAL_S]:
        del _refusals[old]
    _refusals[address] = now


def forget_refusal(address: str) -> None:
    """A login went through: silence means something else from here on."""
    _refusals.pop(address, None)


def refused_lately(address: str, now: float) -> bool:
    """True if this BMC refused a password of this process a moment ago."""
    since = _refusals.get(address)
    return since is not None and 0 <= now - since <= _REFUSAL_S
