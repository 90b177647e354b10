"""Answers as an iDRAC9 words them: bodies, errors, headers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aiohttp import web

from provision.sim.bmc.shapes import Resource

_HEADERS = {
    "OData-Version": "4.0",
    "Server": "iDRAC/9",
    "Cache-Control": "no-cache",
    "Content-Type": "application/json;odata.metadata=minimal;charset=utf-8",
}


class AnswerError(Exception):
    """An answer other than success, on its way out. Texts are our own; ids are Dell's or DMTF's."""

    def __init__(self, status: int, message_id: str, text: str, *args: str, severity: str = "Warning") -> None:
        super().__init__(text)
        self.status = status
        self.message_id = message_id if "." in message_id else f"IDRAC.2.9.{message_id}"
        self.args_shown = list(args)
        self.severity = severity
        self.headers: dict[str, str] = {}

    def with_headers(self, **headers: str) -> AnswerError:
        """The same with headers; ``Retry_After`` becomes ``Retry-After``."""
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self

    def response(self) -> web.Response:
        """The answer on the wire."""
        told = {
            "Message": str(self),
            "MessageArgs": self.args_shown,
            "MessageArgs@odata.count": len(self.args_shown),
            "MessageId": self.message_id,
            "RelatedProperties": [],
            "Resolution": "Correct the request and send it again.",
            "Severity": self.severity,
        }
        body = {
            "error": {
                "@Message.ExtendedInfo": [told],
                "code": "Base.1.12.GeneralError",
                "message": "A general error has occurred. See ExtendedInfo for more information",
            }
        }
        return answer(body, status=self.status, headers=self.headers)


def answer(body: Resource | None, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON answer, or one without a body."""
    data = b"" if body is None else json.dumps(body).encode()
    return raw(data, status=status, headers=headers)


def raw(data: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer whose body is already in bytes."""
    return web.Response(body=data, status=status, headers={**_HEADERS, **(headers or {})})


def success() -> Resource:
    """The body of an accepted PATCH."""
    done = {
        "Message": "The operation is done.",
        "MessageArgs": [],
        "MessageId": "IDRAC.2.9.SYS413",
        "RelatedProperties": [],
        "Severity": "OK",
    }
    return {"@Message.ExtendedInfo": [done]}
