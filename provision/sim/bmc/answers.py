"""Answers as an iDRAC9 words them: bodies, errors, headers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aiohttp import web

from provision.sim.bmc.shapes import Resource
from provision.sim.families import Family

# What other makers say where an iDRAC has an id of its own.
_BASE = {
    "SYS402": "ActionNotSupported",
    "SYS403": "ResourceMissingAtURI",
    "SYS405": "MalformedJSON",
    "SYS406": "ResourceInUse",
    "SYS407": "QueryParameterValueFormatError",
    "SYS409": "PropertyValueFormatError",
    "SYS415": "InsufficientPrivilege",
    "SYS426": "PropertyValueNotInList",
    "SYS427": "PropertyNotWritable",
    "SYS428": "PropertyMissing",
    "SYS429": "PropertyUnknown",
    "SYS518": "ServiceTemporarilyUnavailable",
    "RAC0218": "SessionLimitExceeded",
    "RAC059": "PropertyNotWritable",
}
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
        self.message_id = message_id
        self.args_shown = list(args)
        self.severity = severity
        self.headers: dict[str, str] = {}

    def with_headers(self, **headers: str) -> AnswerError:
        """The same with headers; ``Retry_After`` becomes ``Retry-After``."""
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self

    def response(self, family: Family) -> web.Response:
        """The answer on the wire, with the ids of the BMC's maker."""
        code = self.message_id
        if "." not in code:
            code = f"IDRAC.2.9.{code}" if family.dell else f"Base.1.12.{_BASE.get(code, 'GeneralError')}"
        told = {
            "Message": str(self),
            "MessageArgs": self.args_shown,
            "MessageArgs@odata.count": len(self.args_shown),
            "MessageId": code,
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
        return answer(body, status=self.status, headers=self.headers, family=family)


def answer(
    body: Resource | None, *, status: int = 200, headers: Mapping[str, str] | None = None, family: Family | None = None
) -> web.Response:
    """A JSON answer, or one without a body."""
    data = b"" if body is None else json.dumps(body).encode()
    return raw(data, status=status, headers=headers, family=family)


def raw(
    data: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None, family: Family | None = None
) -> web.Response:
    """An answer whose body is already in bytes; the Server header is the maker's, an iDRAC9's by default."""
    named = {} if family is None else {"Server": family.server}
    return web.Response(body=data, status=status, headers={**_HEADERS, **named, **(headers or {})})


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
