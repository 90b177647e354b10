"""What an answer of MAAS means: data, or one of the house's errors. Pure.

Texts and statuses as measured on MAAS 3.6.3 (facts: maas.md 2 "Auth and transport", "Refusals"). The body of a 401
never travels on: with a wrong secret MAAS prints the signature it expected, which is the true secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from provision.errors import CredentialRefusedError, GarbledError, PeerError, RefusedError, UnavailableError

MAC_IN_USE = "mac-in-use"
HOSTNAME_IN_USE = "hostname-in-use"
CLOCK_SKEW = "clock-skew"
# MAAS refuses a signature whose timestamp is older than this; one from the future it accepts.
SIGNATURE_LIVES_S = 300

UNKNOWN_OUTCOME = "it may have been carried out all the same: look before asking again"


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer. ``skew_s`` is MAAS's clock minus ours, by the Date header; None without one."""

    status: int
    content_type: str
    content: bytes
    headers: Mapping[str, str]
    skew_s: float | None = None

    @property
    def is_json(self) -> bool:
        """True if it says that it is JSON."""
        return self.content_type.endswith("/json")

    @property
    def text(self) -> str:
        """The body as one line of at most 300 characters; empty for HTML pages, which say nothing to an operator."""
        if self.content_type == "text/html" or self.content.lstrip()[:1] == b"<":
            return ""
        return " ".join(self.content.decode("utf-8", "replace").split())[:300]

    @property
    def retry_after_s(self) -> float | None:
        """Seconds that MAAS asks us to wait, from either form of the header; None if absent or unreadable."""
        raw = self.headers.get("Retry-After", "").strip()
        if re.fullmatch(r"[0-9]{1,9}", raw):
            return float(min(int(raw), 86_400))
        when = http_date(raw)
        served = http_date(self.headers.get("Date", ""))
        return None if when is None or served is None else max(0.0, (when - served).total_seconds())

    def scrubbed(self, secrets: Iterable[str]) -> Answer:
        """The same without any of these texts: MAAS quotes what it was sent in some of its complaints."""
        content = self.content
        for secret in secrets:
            if len(secret) >= 3:
                content = content.replace(secret.encode(), b"***")
        return replace(self, content=content)


def http_date(raw: str) -> datetime | None:
    """Read an HTTP date; None if it is none."""
    try:
        when = parsedate_to_datetime(raw)
    except (TypeError, ValueError, OverflowError):
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def data_of(peer: str, operation: str, answer: Answer, *, write: bool) -> Any:
    """The value in a good answer: parsed JSON, or text where MAAS sends text (``OK``), None for an empty one.

    Raises:
        UnavailableError: not now (5xx, 429, 409 with Retry-After), or a write whose answer cannot be read.
        CredentialRefusedError: the API key is not accepted.
        RefusedError: any other clear no.
        GarbledError: a read answered with something that nobody can read.
    """
    if answer.status // 100 != 2:
        raise error_of(peer, operation, answer, write=write)
    if not answer.is_json:
        if answer.content_type == "text/html":
            raise _unreadable(peer, operation, "a web page instead of the API's answer", answer, write=write)
        return answer.content.decode("utf-8", "replace") or None
    try:
        return json.loads(answer.content, parse_constant=_no_number)
    except (ValueError, RecursionError):
        pass
    raise _unreadable(peer, operation, "an answer that is not JSON", answer, write=write)


def _no_number(word: str) -> float:
    """Python reads ``NaN`` and ``Infinity``, JSON does not have them."""
    raise ValueError(word)


def _unreadable(peer: str, operation: str, what: str, answer: Answer, *, write: bool) -> PeerError:
    if write:
        return UnavailableError(peer, operation, f"{what}; {UNKNOWN_OUTCOME}", code=str(answer.status))
    return GarbledError(
        peer, operation, f"{what}: does the URL really name a MAAS region?", payload=answer.content, code="garbled"
    )


def error_of(peer: str, operation: str, answer: Answer, *, write: bool) -> PeerError:
    """Which error an answer outside 2xx is."""
    status, code = answer.status, str(answer.status)
    if status == 401:
        return _not_let_in(peer, operation, answer, write=write)
    if status // 100 == 3:
        return RefusedError(peer, operation, f"MAAS redirects to {_target(answer)}: give that URL instead", code=code)
    if status == 400:
        return _bad_request(peer, operation, answer)
    if status == 403:
        return RefusedError(peer, operation, _forbidden(answer), code=code)
    if status == 409 and answer.retry_after_s is None:
        return RefusedError(peer, operation, answer.text or "not possible in the machine's state", code=code)
    if status in {408, 409, 425, 429} or status >= 500:
        detail = f"{answer.text or _nothing(status)} (HTTP {status})"
        # A 503 to a create may come after the machine was made, a proxy's 504 while the work goes on (measured).
        detail = f"{detail}; {UNKNOWN_OUTCOME}" if write else detail
        return UnavailableError(peer, operation, detail, code=code, retry_after_s=answer.retry_after_s)
    if status == 404:
        return RefusedError(peer, operation, answer.text or "MAAS does not know that address", code=code)
    return RefusedError(peer, operation, f"{answer.text or 'refused without a word'} (HTTP {status})", code=code)


def _target(answer: Answer) -> str:
    where = re.sub(r"//[^/@]*@", "//", answer.headers.get("Location", ""))
    return where.partition("?")[0][:200] or "an address it does not name"


def _nothing(status: int) -> str:
    return "no answer from the region in time" if status == 504 else "MAAS cannot answer"


def _not_let_in(peer: str, operation: str, answer: Answer, *, write: bool) -> PeerError:
    """Tell the kinds of 401 apart by the first words of the body, and let none of its text out."""
    said = answer.content[:2000].decode("utf-8", "replace")
    skew = answer.skew_s
    far = skew is not None and abs(skew) > SIGNATURE_LIVES_S
    known = ("Invalid API key", "Invalid access token", "Invalid signature", "Nonce already used")
    if "Expired timestamp" in said or (far and not any(words in said for words in known)):
        by = "" if skew is None else f" by {abs(skew):.0f} s"
        way = "is off" if skew is None else "is behind" if skew > 0 else "is ahead"
        return RefusedError(
            peer,
            operation,
            f"the clock of this machine {way}{by} against MAAS, which takes no request older than "
            f"{SIGNATURE_LIVES_S} s: set the clock (NTP) here or on the MAAS host",
            code=CLOCK_SKEW,
        )
    if "Nonce already used" in said:
        detail = "MAAS has seen this very request before (a proxy may have sent it twice)"
        detail = f"{detail}; {UNKNOWN_OUTCOME}" if write else detail
        return UnavailableError(peer, operation, detail, code="nonce")
    if "Invalid signature" in said:
        detail = "the secret in the API key (its third part) is wrong: copy the whole key again from MAAS"
    elif "Invalid API key" in said or "Invalid access token" in said:
        detail = "MAAS does not know this API key (deleted, or of another MAAS): make one in MAAS and set it here"
    else:
        detail = "MAAS does not accept this API key: make one in MAAS and set it here"
    return CredentialRefusedError(peer, operation, detail, code="401")


def _forbidden(answer: Answer) -> str:
    if answer.text:
        return f"{answer.text} (HTTP 403)"
    # 403 comes with an empty body; these are the cases that were measured.
    return (
        "forbidden, and MAAS does not say why: the machine is locked, or nobody or somebody else owns it, "
        "or the API key is not an administrator's"
    )


def _bad_request(peer: str, operation: str, answer: Answer) -> RefusedError:
    fields = _fields(answer)
    if fields is None:
        if answer.text.startswith("Unrecognised signature"):
            detail = "this MAAS does not offer that operation, or the request came without its signature"
            return RefusedError(peer, operation, detail, code="400")
        return RefusedError(peer, operation, answer.text or "refused as malformed, without a word", code="400")
    macs = " ".join(fields.get("mac_addresses", []) + fields.get("mac_address", []))
    if "already in use" in macs:
        # The complaint about the power type that comes with it is only an echo of this one (measured).
        return RefusedError(peer, operation, macs, code=MAC_IN_USE)
    if any("already exists" in message for message in fields.get("hostname", [])):
        return RefusedError(
            peer,
            operation,
            "another machine, device or controller has this hostname: delete or rename that one in MAAS",
            code=HOSTNAME_IN_USE,
        )
    if any("domain" in message.lower() for message in fields.get("hostname", [])):
        detail = "the node's name has a domain that this MAAS does not have: make the domain in MAAS, or give the node"
        return RefusedError(peer, operation, f"{detail} a name without dots", code="domain")
    if any(name.startswith("power_") for name in fields):
        said = "; ".join(f"{name}: {' '.join(words)}" for name, words in fields.items() if name.startswith("power_"))
        # Where no rack controller is connected, MAAS 3.4 and 3.5 know no power types and refuse every one (read).
        way = "connect a rack controller" if "rack controller" in said else "correct bmc_address and BMC login"
        detail = f"MAAS does not take the power settings ({said[:400]}): {way}"
        return RefusedError(peer, operation, detail, code="power")
    parts = [" ".join(said) if name == "__all__" else f"{name}: {' '.join(said)}" for name, said in fields.items()]
    if "network" in fields:
        parts.append("link its boot interface to a subnet in MAAS (its VLAN needs DHCP), or commission it again")
    return RefusedError(peer, operation, "; ".join(parts)[:600], code="400")


def _fields(answer: Answer) -> dict[str, list[str]] | None:
    """The form's complaints, field by field; None if the body is not of that shape."""
    if not answer.is_json:
        return None
    try:
        body = json.loads(answer.content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not body:
        return None
    return {
        str(name): [str(one) for one in said] if isinstance(said, list) else [str(said)] for name, said in body.items()
    }
