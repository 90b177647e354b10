"""HTTP answers: their JSON, their message ids, and the error that each refusal means. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from provision.errors import GarbledError, PeerError, RefusedError, UnavailableError

Json = dict[str, Any]

# "Not now, and nothing was done": the BMC collects data or is busy (sushy retries SYS518 for every method).
NOT_NOW = {
    "SYS518",
    "SYS519",
    "LC060",
    "RAC0679",
    "ServiceTemporarilyUnavailable",
    "ServiceShuttingDown",
    "ServiceInUnknownState",
    "HMCCommuicationFailed",
    "HMCCommunicationFailed",
}
SESSIONS_FULL = {"RAC0218", "SessionLimitExceeded", "CreateLimitReachedForResource"}

# Ids that say too little to be shown when a better one stands beside them.
_EMPTY_IDS = {"GeneralError", "Success", "NoOperation"}

_HINTS = {
    "SYS406": "system lockdown mode is on; turn it off in the BMC (Lockdown.1.SystemLockdown) and run again",
    "RAC059": "NTP is on, so the time cannot be set by hand; correct its NTP servers instead",
    **dict.fromkeys(
        ("SYS011", "BIOS006", "NIC006", "JCP029"),
        "a pending configuration job already holds this change; let it finish or remove it by hand",
    ),
    "PreconditionHeaderMissing": "it wants an If-Match header and gives no tag to send",
    "InsufficientPrivilege": "this account may not do that; give it the operator or administrator role",
}

_LOCKDOWN = "SYS406"

_VERSION = re.compile(r"^(?P<registry>[A-Za-z][A-Za-z0-9_-]*)(?:\.\d+){1,3}\.(?P<id>.+)$")


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of ``@Message.ExtendedInfo``; ``id`` is without registry and version (``PSU0003``)."""

    id: str
    text: str
    registry: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request. ``headers`` has lower-case names; several of one name are joined."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """True for 2xx."""
        return 200 <= self.status < 300

    def json(self, peer: str) -> Json:
        """The body as a JSON object; an empty body of a success is ``{}``.

        Raises:
            GarbledError: HTML, half a document, a list or a number where an object was expected.
        """
        if not self.body.strip():
            if self.ok and self.method != "GET":
                return {}
            raise self._garbled(peer, "an empty body where a JSON object was expected")
        try:
            value = _loads(self.body)
        except (ValueError, RecursionError) as error:
            raise self._garbled(peer, "not JSON") from error
        if not isinstance(value, dict):
            raise self._garbled(peer, f"a JSON {type(value).__name__} where an object was expected")
        return value

    def messages(self) -> tuple[Message, ...]:
        """Every message in the body; none if it cannot be read."""
        try:
            value = _loads(self.body) if self.body.strip() else {}
        except (ValueError, RecursionError):
            return ()
        return tuple(_messages(value))

    def _garbled(self, peer: str, what: str) -> GarbledError:
        begin = self.body[:200].decode("utf-8", "replace")
        return GarbledError(
            peer,
            f"{self.method} {self.path}",
            f"HTTP {self.status} with {what}; it begins: {begin!r}",
            payload=self.body,
            code="garbled",
        )


def _loads(body: bytes) -> Any:
    """Read JSON as BMCs write it: raw tabs and line ends in strings, now and then Latin-1 (``°C``)."""
    try:
        return json.loads(body, strict=False)
    except UnicodeDecodeError:
        return json.loads(body.decode("utf-8", "replace"), strict=False)


_ERROR_HEAD = re.compile(rb'\s*\{\s*"error"\s*:')


def is_error(answer: Answer) -> bool:
    """True for an answer that is an error by its body, whatever its status: some services put a 200 before it."""
    if not _ERROR_HEAD.match(answer.body):
        return False
    try:
        body = _loads(answer.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and not set(body) - {"error", "@Message.ExtendedInfo"}


def bare_id(message_id: str) -> tuple[str, str]:
    """Split ``IDRAC.2.9.PSU0003`` into (``IDRAC``, ``PSU0003``); a bare id has no registry."""
    found = _VERSION.match(message_id.strip())
    return (found["registry"], found["id"]) if found else ("", message_id.strip())


def _messages(value: Any) -> Iterator[Message]:
    if not isinstance(value, dict):
        return
    error = value.get("error")
    for holder in (error, value):
        if not isinstance(holder, dict):
            continue
        info = holder.get("@Message.ExtendedInfo")
        for item in info if isinstance(info, list) else [info]:
            # Some firmwares write "MessageID" (seen on older iLO and AMI).
            if isinstance(item, dict) and isinstance(raw := item.get("MessageId") or item.get("MessageID"), str):
                registry, name = bare_id(raw)
                yield Message(name, str(item.get("Message") or ""), registry)
        code = holder.get("code")
        if isinstance(code, str) and code:
            registry, name = bare_id(code)
            yield Message(name, str(holder.get("message") or ""), registry)


def main_message(messages: tuple[Message, ...]) -> Message | None:
    """The message that says most: a vendor's own id before one of Base, any before GeneralError."""
    useful = [message for message in messages if message.id not in _EMPTY_IDS]
    return next((m for m in useful if m.registry not in {"Base", ""}), useful[0] if useful else None)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """``Retry-After`` in seconds, from a number or an HTTP date; ``now`` is a POSIX time. At most an hour."""
    raw = headers.get("retry-after", "").strip()
    if not raw:
        return None
    try:
        seconds = float(raw)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(raw).timestamp() - now
        except ValueError:
            return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), 3600.0)


def error_from(answer: Answer, peer: str, now: float) -> PeerError:
    """The error that a non-2xx answer means. ``now`` is a POSIX time (for Retry-After as a date)."""
    operation = f"{answer.method} {answer.path}"
    messages = answer.messages()
    main = main_message(messages)
    ids = {message.id for message in messages}
    code = main.id if main else str(answer.status)
    said = f"HTTP {answer.status}"
    if main:
        said += f" {main.id}"
        said += f": {_shown(main.text)}" if main.text else ""
    elif answer.body.strip():
        said += f"; it begins: {answer.body[:200].decode('utf-8', 'replace')!r}"
    for name, hint in _HINTS.items():
        if name in ids or (name == _LOCKDOWN and re.search(r"lock-?down", said, re.IGNORECASE)):
            said = f"{said} ({hint})"
            code = name
            break
    if ids & NOT_NOW or answer.status in {408, 425, 429} or (answer.status >= 500 and answer.status != 501):
        return UnavailableError(peer, operation, said, code=code, retry_after_s=retry_after_s(answer.headers, now))
    if 300 <= answer.status < 400:
        target = answer.headers.get("location", "nowhere")
        return RefusedError(
            peer, operation, f"HTTP {answer.status} to {target!r}; redirects are not followed", code=code
        )
    return RefusedError(peer, operation, said, code=code)


def _shown(text: str) -> str:
    return " ".join(text.split())[:300]


def etags(answer: Answer) -> tuple[str, ...]:
    """Tags to try in If-Match, best first; empty if the answer carries none.

    Weak tags are followed by their strong form, doubled headers (``"a", "a"``) are one, ``""`` is none, a number
    without quotes is tried with them too. Source: cases R19, R20.
    """
    raw = answer.headers.get("etag", "")
    if not raw.strip('" ,') or raw.strip() in {'W/""', "W/"}:
        try:
            body = _loads(answer.body)
        except (ValueError, RecursionError):
            return ()
        tag = body.get("@odata.etag") if isinstance(body, dict) else None
        raw = tag if isinstance(tag, str) else ""
    tries: list[str] = []
    for found in re.finditer(r'(W/)?"([^"]*)"|(W/)?([^\s",]+)', raw):
        weak, inner = found[1] or found[3], found[2] if found[2] is not None else found[4]
        if not inner:
            continue
        as_given = found[0]
        strong = f'"{inner}"'
        tries += [as_given, strong] if weak or as_given != strong else [strong]
    return tuple(dict.fromkeys(tries))
