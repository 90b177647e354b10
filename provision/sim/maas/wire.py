"""Requests and replies as MAAS's piston framework reads and writes them.

The operation may stand in the query, in the path (``op-deploy``) or in the form body; bodies may be forms, multipart,
JSON, text or absent. Source: exchanges M276-M286 recorded on a real 3.6.3.
"""

from __future__ import annotations

import email
import email.policy
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from provision.sim.maas.state import User

JSON = "application/json; charset=utf-8"
JSON_BARE = "application/json"
TEXT = "text/plain; charset=utf-8"
TEXT_BARE = "text/plain"
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. ``content_type`` None sends no such header."""

    status: int
    body: bytes
    content_type: str | None
    headers: dict[str, str] = field(default_factory=dict)


class Refusal(Exception):  # noqa: N818 - it carries a reply; nothing is wrong with the simulator
    """The handler answers with something else than success."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"HTTP {reply.status}")
        self.reply = reply


def data(value: Any, *, content_type: str = JSON) -> Reply:
    """200 with JSON."""
    return Reply(200, json.dumps(value).encode(), content_type)


def raw_json(text: str) -> Reply:
    """200 with JSON that is a text already."""
    return Reply(200, text.encode(), JSON)


def text(status: int, message: str, *, content_type: str = TEXT) -> Reply:
    """Plain text."""
    return Reply(status, message.encode(), content_type)


def conflict(message: str) -> Refusal:
    """409: the machine is in no state for this. MAAS sends no Retry-After with it."""
    return Refusal(text(409, message))


def forbidden(message: str = "") -> Refusal:
    """403, mostly with an empty body."""
    return Refusal(text(403, message))


def invalid(errors: dict[str, list[str]], *, content_type: str = JSON) -> Refusal:
    """400: field → messages."""
    return Refusal(Reply(400, json.dumps(errors).encode(), content_type))


def bad(message: str) -> Refusal:
    """400 in plain text."""
    return Refusal(text(400, message))


def missing(noun: str) -> Refusal:
    """404 as Django words it."""
    return Refusal(text(404, f"No {noun} matches the given query.", content_type=TEXT_BARE))


@dataclass(slots=True)
class Call:
    """One request, parsed. ``form`` and ``query`` keep repeated fields in order."""

    method: str
    path: str
    query: dict[str, list[str]]
    form: dict[str, list[str]]
    op: str | None
    host: str
    user: User | None = None
    params: dict[str, str] = field(default_factory=dict)

    def one(self, name: str, default: str | None = None) -> str | None:
        """A form field's last value."""
        return self.form[name][-1] if self.form.get(name) else default

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A form field as Django's BooleanField reads it."""
        value = self.one(name)
        return default if value is None else value.strip().lower() not in {"", "0", "false", "off", "no"}

    def ask(self, name: str, default: str | None = None) -> str | None:
        """A query parameter's last value."""
        return self.query[name][-1] if self.query.get(name) else default

    @property
    def caller(self) -> User:
        """The authenticated user (the dispatcher lets nobody else through)."""
        if self.user is None:
            raise Refusal(text(401, "Authorization Error: no credentials were given."))
        return self.user


def parse_form(content_type: str, body: bytes) -> dict[str, list[str]]:
    """Fields of a body.

    Raises:
        Refusal: broken JSON, or a multipart body without a single part (400 with empty text and no content type).
    """
    kind = content_type.split(";", maxsplit=1)[0].strip().lower()
    if kind == "application/json":
        return _json_form(body)
    if kind == "multipart/form-data":
        return _multipart_form(content_type, body)
    if kind == "application/x-www-form-urlencoded":
        return pairs(body.decode("utf-8", "replace"))
    return {}


def pairs(encoded: str) -> dict[str, list[str]]:
    """``a=1&a=2&b=`` as a dict of lists; empty values stay."""
    fields: dict[str, list[str]] = {}
    for name, value in parse_qsl(encoded, keep_blank_values=True):
        fields.setdefault(name, []).append(value)
    return fields


def _json_form(body: bytes) -> dict[str, list[str]]:
    if not body.strip():
        return {}
    try:
        content = json.loads(body)
    except ValueError as error:
        raise Refusal(text(400, "Bad Request", content_type=TEXT_BARE)) from error
    if not isinstance(content, dict):
        raise Refusal(text(400, "Bad Request", content_type=TEXT_BARE))
    return {
        name: [_as_text(item) for item in value] if isinstance(value, list) else [_as_text(value)]
        for name, value in content.items()
    }


def _as_text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return "" if value is None else str(value)


def _multipart_form(content_type: str, body: bytes) -> dict[str, list[str]]:
    head = f"Content-Type: {content_type}\r\nMIME-Version: 1.0\r\n\r\n".encode()
    message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
    parts = list(message.iter_parts()) if message.is_multipart() else []
    fields: dict[str, list[str]] = {}
    for part in parts:
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str):
            payload = part.get_payload(decode=True)
            value = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
            fields.setdefault(name, []).append(value)
    # A body with only its closing boundary is refused (M281); a part without a name, as python-libmaas sends it for
    # calls without parameters, is read as nothing (such calls worked on the real peer).
    if not parts:
        raise Refusal(Reply(400, b"", None))
    return fields
