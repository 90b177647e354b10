"""How ``bmc_sick`` treats requests: one function per name of ``sim.ailments``.

Each gets a ``Case`` and returns an answer: its own, the healthy one, or the healthy one spoiled. What must be
remembered from request to request is counted in ``machine.sick``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from provision.sim.bmc.answers import AnswerError
from provision.sim.machine import SimMachine

Proceed = Callable[[], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Case:
    """One request to a sick BMC. ``well`` answers it in health, ``serve`` another one."""

    machine: SimMachine
    request: web.BaseRequest
    well: Proceed
    serve: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

    @property
    def path(self) -> str:
        """Without a trailing slash."""
        return self.request.path.rstrip("/")

    @property
    def reading(self) -> bool:
        """True for a GET."""
        return self.request.method == "GET"

    @property
    def pressing(self) -> bool:
        """True for a press of the power button."""
        return self.request.method == "POST" and self.path.endswith("/Actions/ComputerSystem.Reset")

    @property
    def overriding(self) -> bool:
        """True for a write of the boot override."""
        row = self.machine.family
        return self.request.method == "PATCH" and self.path in {row.system, row.settings}

    @property
    def logging_in(self) -> bool:
        """True for a login."""
        return self.request.method == "POST" and self.path.endswith("/Sessions")

    def nth(self, name: str) -> int:
        """How often this was asked, this time included."""
        self.machine.sick[name] += 1
        return self.machine.sick[name]


Treat = Callable[[Case], Awaitable[web.StreamResponse]]


def busy(pause: str = "") -> AnswerError:
    """503 while data is collected."""
    error = AnswerError(503, "SYS518", "The BMC has no data to show at the moment.", severity="Informational")
    return error.with_headers(Retry_After=pause) if pause else error


async def hang(case: Case) -> web.StreamResponse:
    """Never answer; it ends when the client goes away."""
    await asyncio.Event().wait()
    return await case.well()


def refused_login(status: int, code: str, text: str) -> Treat:
    """Logins get this answer, everything else a healthy one."""

    async def treat(case: Case) -> web.StreamResponse:
        if case.logging_in:
            case.machine.sessions["full" if status in {400, 503} else "refused"] += 1
            raise AnswerError(status, code, text, severity="Critical")
        return await case.well()

    return treat


async def session_vanishes(case: Case) -> web.StreamResponse:
    """From its fourth request on the first token is not known any more; nobody can tell of which BMC that was."""
    token = case.request.headers.get("X-Auth-Token")
    if token is not None:
        first = next((name for name in case.machine.sick if name.startswith("token:")), f"token:{token}")
        if first == f"token:{token}" and case.nth(first) > 3:
            raise AnswerError(401, "Base.1.12.NoValidSession", "There is no valid session.", severity="Critical")
    return await case.well()


async def logout_refused(case: Case) -> web.StreamResponse:
    """The session is ended, and the answer says that there was none."""
    reply = await case.well()
    if case.request.method == "DELETE":
        raise AnswerError(401, "Base.1.12.NoValidSession", "There is no valid session.", severity="Critical")
    return reply


def login_without(name: str) -> Treat:
    """A login's answer lacks a header."""

    async def treat(case: Case) -> web.StreamResponse:
        reply = await case.well()
        if case.logging_in and reply.status == 201:
            del reply.headers[name]
        return reply

    return treat


async def password_change(case: Case) -> web.StreamResponse:
    """The session exists and may do nothing."""
    if case.logging_in:
        reply = await case.well()
        return edited(reply, lambda body: {**body, "@Message.ExtendedInfo": [_must_change(case)]})
    if case.path not in {"/redfish/v1", "/redfish"} and case.request.method != "DELETE":
        raise AnswerError(403, "Base.1.12.PasswordChangeRequired", "The password must change.", severity="Critical")
    return await case.well()


def _must_change(case: Case) -> dict[str, Any]:
    account = "/redfish/v1/AccountService/Accounts/2"
    return {"MessageId": "Base.1.12.PasswordChangeRequired", "MessageArgs": [account], "Severity": "Critical"}


def once_busy(pause: str) -> Treat:
    """Every address and method answers 503 once; root and logins do not."""

    async def treat(case: Case) -> web.StreamResponse:
        if (
            not case.logging_in
            and case.path != "/redfish/v1"
            and case.nth(f"busy:{case.request.method}:{case.path}") == 1
        ):
            raise busy(pause)
        return await case.well()

    return treat


async def flaky(case: Case) -> web.StreamResponse:
    """Every twentieth answer is a 503; spread by machine, so that not all of a fleet fall together."""
    if (case.nth("flaky") + sum(case.machine.name.encode())) % 20 == 0 and case.reading:
        raise busy("1")
    return await case.well()


def edited(reply: web.StreamResponse, change: Callable[[dict[str, Any]], Any]) -> web.StreamResponse:
    """The same answer with another body; an answer that is no JSON object stays as it is."""
    body = getattr(reply, "body", None)
    if isinstance(reply, web.Response) and isinstance(body, bytes) and body.startswith(b"{"):
        reply.body = json.dumps(change(json.loads(body))).encode()
    return reply


def deep(value: Any, change: Callable[[str, Any], Any]) -> Any:
    """A copy in which ``change`` has looked at every property; ``...`` leaves it out."""
    if isinstance(value, list):
        return [deep(item, change) for item in value]
    if isinstance(value, dict):
        seen = ((key, change(key, deep(item, change))) for key, item in value.items())
        return {key: item for key, item in seen if item is not ...}
    return value


def everywhere(change: Callable[[Case, str, Any], Any], where: str = "") -> Treat:
    """Reads below ``where`` show properties as ``change`` has them."""

    async def treat(case: Case) -> web.StreamResponse:
        reply = await case.well()
        if case.reading and reply.status == 200 and where in case.path:
            return edited(reply, lambda body: deep(body, lambda key, value: change(case, key, value)))
        return reply

    return treat


def said(word: Any) -> Callable[[Case, str, Any], Any]:
    """Link states and healths are this word."""

    def change(case: Case, key: str, value: Any) -> Any:
        return word if key in {"LinkStatus", "Health", "HealthRollup"} and not isinstance(value, dict) else value

    return change


def boot_mac(word: str) -> Callable[[Case, str, Any], Any]:
    """The boot port's address is this word."""

    def change(case: Case, key: str, value: Any) -> Any:
        digits = case.machine.boot_nic.mac.replace(":", "")
        if isinstance(value, list):
            return [word if _digits(item) == digits else item for item in value]
        return word if key != "UefiDevicePath" and _digits(value) == digits else value

    return change


def _digits(value: Any) -> str:
    return value.replace(":", "").replace("-", "").lower() if isinstance(value, str) else ""


def dotted(case: Case, key: str, value: Any) -> Any:
    """``b026.2841.0c01``."""
    if key in {"MACAddress", "PermanentMACAddress"} and _digits(value):
        digits = _digits(value)
        return ".".join(digits[n : n + 4] for n in range(0, 12, 4))
    return value


def gone(fits: Callable[[Case], bool], status: int, code: str, most: int = 0) -> Treat:
    """Reads that fit are answered so, ``most`` times if it is given."""

    async def treat(case: Case) -> web.StreamResponse:
        if case.reading and fits(case) and (not most or case.nth(f"gone:{code}") <= most):
            raise AnswerError(status, code, f"The resource {case.path} is not available.", severity="Critical")
        return await case.well()

    return treat


def unanswered(fits: Callable[[Case], bool]) -> Treat:
    """Reads that fit are never answered."""

    async def treat(case: Case) -> web.StreamResponse:
        return await (hang(case) if case.reading and fits(case) else case.well())

    return treat


def systems(change: Callable[[dict[str, Any]], Any]) -> Treat:
    """The list of systems is shown so twice."""

    async def treat(case: Case) -> web.StreamResponse:
        reply = await case.well()
        if case.reading and case.path.endswith("/v1/Systems") and case.nth("systems") <= 2:
            return edited(reply, change)
        return reply

    return treat


async def tray_dead(case: Case) -> web.StreamResponse:
    """The tray and what is below it answer 503; expanded lists keep it as a link."""
    tray = case.machine.family.tray
    if tray and case.path.startswith(tray):
        text = " Indicates that HOSTBMC fails to communicate with HMC "
        raise AnswerError(503, "Ami.1.0.HMCCommuicationFailed", text)
    reply = await case.well()
    if tray and case.path.endswith("/v1/Systems") and case.reading:

        def shown(body: dict[str, Any]) -> dict[str, Any]:
            members = [{"@odata.id": tray} if item.get("@odata.id") == tray else item for item in body["Members"]]
            return body | {"Members": members}

        return edited(reply, shown)
    return reply


async def settles(case: Case) -> web.StreamResponse:
    """Presses are refused twice while power goes down."""
    if case.pressing and case.nth("settles") <= 2:
        raise AnswerError(409, "PSU503", "The host is still changing its power state.", severity="Informational")
    return await case.well()


async def press_ignored(case: Case) -> web.StreamResponse:
    """204 and nothing happens."""
    if case.pressing:
        case.machine.writes["bmc:reset:ignored"] += 1
        return web.Response(status=204)
    return await case.well()


async def graceful_refused(case: Case) -> web.StreamResponse:
    """Only On, ForceOff and GracefulShutdown are taken, whatever is offered."""
    if case.pressing:
        kind = json.loads(await case.request.read() or b"{}").get("ResetType")
        if kind not in {"On", "ForceOff", "GracefulShutdown", "PowerCycle"}:
            case.machine.writes[f"bmc:refused:{kind}"] += 1
            raise AnswerError(400, "Base.1.5.ActionParameterNotSupported", f"{kind} is not supported.", str(kind))
    return await case.well()


def answer_lost(fits: Callable[[Case], bool], *, done: bool) -> Treat:
    """The request is carried out, or not, and the client hears nothing."""

    async def treat(case: Case) -> web.StreamResponse:
        if not fits(case):
            return await case.well()
        if done:
            with contextlib.suppress(AnswerError):
                await case.well()
        else:
            case.machine.writes["bmc:unheard"] += 1
        return await hang(case)

    return treat


async def redirects(case: Case) -> web.StreamResponse:
    """The system lives elsewhere, says this BMC."""
    if case.reading and case.path == case.machine.family.system:
        return web.Response(status=308, headers={"Location": "https://127.99.99.99/redfish/v1/Systems/1"})
    return await case.well()
