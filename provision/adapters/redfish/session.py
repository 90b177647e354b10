"""One BMC, one login: requests with deadlines, retries for reads only, and a logout on every path.

Built on ``redfish.aio.AsyncRedfishClient`` (no retries, no redirects, no foreign origins, own ClientSession), whose
login is not used because it forgets the token when an answer lacks the Location, and re-reads the root.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import aiohttp
from redfish.aio import AsyncRedfishClient, RedfishError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from provision.adapters.redfish import login
from provision.adapters.redfish.answers import Answer, Json, error_from, is_error
from provision.adapters.redfish.contacts import CONTACTS
from provision.adapters.redfish.limits import BmcLimits
from provision.adapters.redfish.own_sessions import OwnSession, OwnSessions
from provision.adapters.redfish.pinning import CappedResponse, PinCheck
from provision.adapters.redfish.problems import FATAL, NoAnswerError, SessionsExhaustedError
from provision.adapters.redfish.silence import silence
from provision.adapters.redfish.turnstile import Turn, Turnstile
from provision.errors import CredentialRefusedError, PeerError, UnavailableError
from provision.model.secret import Credential
from provision.ports import Clock, Pins

ROOT = "/redfish/v1/"
PIN_KIND = "bmc-certificate"
GONE = frozenset({404, 410})


class RedfishSession:
    """Requests to one BMC. Opens itself at the first request; ``close`` logs out and never raises a PeerError."""

    def __init__(
        self,
        address: str,
        credential: Credential,
        pins: Pins,
        clock: Clock,
        *,
        fingerprint: str | None = None,
        limits: BmcLimits | None = None,
        turnstile: Turnstile | None = None,
    ) -> None:
        host = f"[{address}]" if address.count(":") > 1 and not address.startswith("[") else address
        self.address = address
        self.peer = f"BMC {address}"
        self.limits = limits or BmcLimits()
        self.clock = clock
        self.requests = 0
        self._base = f"https://{host}"
        self._credential = credential
        self._pins = pins
        self.own = OwnSessions(pins, address)
        self._fixed = fingerprint
        self._turn = Turn(turnstile)
        self._http: aiohttp.ClientSession | None = None
        self._pin: PinCheck | None = None
        self._anonymous: AsyncRedfishClient | None = None
        self._client: AsyncRedfishClient | None = None
        self._ticket: login.Ticket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._slots = asyncio.Semaphore(self.limits.connections)
        self._fatal: PeerError | None = None
        self._closed = False
        self.root: Json = {}

    async def get(self, path: str, *, until: float | None = None) -> Answer:
        """Read ``path``; only a 2xx answer is returned. ``until`` is a moment of ``clock.monotonic()``.

        Repeated, with the pauses the BMC asks for, while it is busy or the connection breaks.

        Raises:
            UnavailableError, RefusedError, GarbledError.
        """
        end = self.clock.monotonic() + self.limits.operation_s if until is None else until
        try:
            return await self._get_once(path, end)
        except PeerError as error:
            if not self._worth_repeating(error, 1, end):
                raise
            first = error
        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, PeerError)),
            stop=lambda state: self._stop(state, end),
            wait=self._pause,
            sleep=self.clock.sleep,
            reraise=True,
        )
        await self.clock.sleep(self._pause_after(first, 1))
        answer: Answer = await retrying(self._get_once, path, end)
        return answer

    async def send(self, method: str, path: str, body: Json, *, etag: str | None = None) -> Answer:
        """Write once. Whatever comes back is returned, refusals too: ``error_of`` names them.

        Raises:
            UnavailableError: no answer (it may have happened: look), or the login failed.
            RefusedError: the login was refused.
        """
        await self.open()
        headers = {"If-Match": etag} if etag else {}
        answer = await self._request(self._client, method, path, body=body, headers=headers)
        if login.is_forgotten(answer) and self._ticket is not None and self._ticket.token:
            # A 401 did nothing, so one more try after a fresh login is no repetition.
            await self._login_again(self._ticket)
            answer = await self._request(self._client, method, path, body=body, headers=headers)
        return answer

    async def ask_once(self, path: str) -> Answer:
        """Read ``path`` once with the login as it is: no repetition, no fresh login; any answer is returned.

        Raises:
            UnavailableError: no answer, or nobody is logged in.
        """
        return await self._request(self._client, "GET", path)

    def error_of(self, answer: Answer) -> PeerError:
        """The typed error that a refusal means."""
        return error_from(answer, self.peer, time.time())

    async def open(self) -> None:
        """Read the root and log in, once for all callers; survives the cancellation of any of them."""
        if self._fatal is not None:
            raise self._fatal
        if self._client is not None:
            return
        async with self._lock:
            if self._client is None:
                await self._opened()

    async def close(self) -> None:
        """Log out and drop connections, also while a login is under way or the task is being cancelled."""
        if self._closed:
            return
        self._closed = True
        farewell = asyncio.ensure_future(self._farewell())
        cancelled: asyncio.CancelledError | None = None
        while not farewell.done():
            try:
                await asyncio.shield(farewell)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    # -- reading ---------------------------------------------------------------------------------------------

    async def _get_once(self, path: str, end: float) -> Answer:
        await self.open()
        if self.clock.monotonic() >= end:
            raise NoAnswerError(self.peer, f"GET {path}", "its time was used up by earlier answers", code="timeout")
        ticket = self._ticket
        answer = await self._request(self._client, "GET", path)
        if login.is_forgotten(answer) and ticket is not None:
            if not ticket.token:
                self._turn.end(refused=True)
                self._fatal = login.refused(self.peer, self._credential, answer)
                raise self._fatal
            await self._login_again(ticket)
            answer = await self._request(self._client, "GET", path)
        if answer.status == 406:
            # HPE Gen10+ has some resources in gzip only and says 406 to identity (sushy's connector knows it).
            answer = await self._request(self._client, "GET", path, headers={"Accept-Encoding": "gzip"})
        if not answer.ok or is_error(answer):
            if any(message.id == login.MUST_CHANGE for message in answer.messages()):
                self._fatal = login.must_change(self.peer, self._credential)
                raise self._fatal
            raise self.error_of(answer)
        self._turn.end(accepted=True)
        return answer

    def _worth_repeating(self, error: PeerError, attempt: int, end: float) -> bool:
        if isinstance(error, FATAL) or self._closed or attempt >= self.limits.attempts:
            return False
        if isinstance(error, NoAnswerError) and error.code != "reset" and (attempt >= 2 or error.code == "login-lost"):
            return False
        if not isinstance(error, UnavailableError):
            return False
        return self.clock.monotonic() + self._pause_after(error, attempt) < end

    def _pause_after(self, error: PeerError, attempt: int) -> float:
        wanted = error.retry_after_s if isinstance(error, UnavailableError) else None
        if wanted is not None:
            return wanted
        if isinstance(error, NoAnswerError) and error.code == "reset" and attempt == 1:
            return 0.0
        return float(self.limits.pause_s * attempt)

    def _pause(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        return self._pause_after(error, state.attempt_number + 1) if isinstance(error, PeerError) else 0.0

    def _stop(self, state: RetryCallState, end: float) -> bool:
        error = state.outcome.exception() if state.outcome else None
        return not isinstance(error, PeerError) or not self._worth_repeating(error, state.attempt_number + 1, end)

    # -- login and logout ------------------------------------------------------------------------------------

    async def _opened(self) -> None:
        """Wait for the login that is under way, or begin one.

        A login whose answer nobody waits for leaves a session on the BMC: it goes on when its caller is cancelled, the
        next caller takes it over, and ``close`` ends it.
        """
        if self._opening is None or self._opening.done():
            self._opening = asyncio.ensure_future(self._open())
            self._opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        try:
            if self._http is None:
                self._start_http()
                await CONTACTS.turn(self.limits.contact_gap_s)
            await self._read_root()
            await self._turn.take()
            self._ticket = await self._log_in()
            self._client = self._dressed(self._ticket)
        except FATAL as error:
            self._turn.end(refused=isinstance(error, CredentialRefusedError))
            self._fatal = error
            raise
        except BaseException:
            self._turn.end()
            raise
        if self._ticket.token:  # Basic is proved or refused by the first read
            self._turn.end(accepted=True)

    def _start_http(self) -> None:
        pinned = self._fixed or self._pins.get_pin(PIN_KIND, self.address)
        self._pin = PinCheck(pinned)
        connector = aiohttp.TCPConnector(
            ssl=self._pin, limit=self.limits.connections, keepalive_timeout=15, ttl_dns_cache=300
        )
        self._http = aiohttp.ClientSession(
            connector=connector,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=CappedResponse,
            # Compressing makes tags weak on some BMCs (R20) and costs their slow processors more than the wire.
            headers={"Accept-Encoding": "identity", "User-Agent": "provision"},
            timeout=aiohttp.ClientTimeout(
                total=self.limits.request_s, sock_connect=self.limits.connect_s, connect=self.limits.connect_s
            ),
        )
        self._anonymous = AsyncRedfishClient(self._base, session=self._http)

    async def _read_root(self) -> None:
        if self.root:
            return
        answer = await self._root_answer()
        # The root is free by specification; some BMCs guard it all the same.
        self.root = {} if answer.status == 401 else answer.json(self.peer)
        seen = self._pin.seen if self._pin is not None else None
        if seen and not self._fixed and self._pins.get_pin(PIN_KIND, self.address) is None:
            self._pins.set_pin(PIN_KIND, self.address, seen)

    async def _root_answer(self) -> Answer:
        """The root, asked again while the BMC says "not now" (R6); silence is the caller's to wait out."""
        end = self.clock.monotonic() + self.limits.operation_s
        for attempt in range(1, self.limits.attempts + 1):
            answer = await self._request(self._anonymous, "GET", ROOT)
            if answer.ok or answer.status == 401:
                return answer
            error = self.error_of(answer)
            if not self._worth_repeating(error, attempt, end):
                raise error
            await self.clock.sleep(self._pause_after(error, attempt))
        raise error

    async def _log_in(self) -> login.Ticket:
        """One login; one more if the table was full and killed runs of ours had left sessions in it."""
        stale = tuple(item for item in self.own.all() if self.own.is_stale(item))
        try:
            ticket = await self._post_login()
        except SessionsExhaustedError:
            if not stale or ":" in self._credential.user:
                raise
            ticket = login.Ticket(basic=True)
        if not stale:
            return ticket
        ended = await self.end_sessions(stale, ticket)
        return await self._post_login() if ended and ticket.basic else ticket

    async def end_sessions(self, sessions: tuple[OwnSession, ...], ticket: login.Ticket | None = None) -> int:
        """Write: end these sessions of ours, if they are still what we wrote down. How many were ended."""
        ended = 0
        client, basic = (self._client, False) if ticket is None else (self._dressed(ticket), ticket.basic)
        headers = {"Authorization": login.basic(self._credential)} if basic else {}
        for session in sessions:
            try:
                shown = await self._request(client, "GET", session.path, headers=headers)
                if not shown.ok and shown.status not in GONE:
                    continue
                if shown.ok and session.is_it(shown.json(self.peer)):
                    done = await self._request(client, "DELETE", session.path, headers=headers)
                    ended += done.ok
                    if not done.ok and done.status not in GONE:
                        continue
                self.own.forget(session.path)
            except PeerError:
                break
        return ended

    async def _post_login(self) -> login.Ticket:
        if login.has_no_sessions(self.root) and ":" not in self._credential.user:
            return login.Ticket(basic=True)
        path = login.sessions_path(self.root)
        body = {"UserName": self._credential.user, "Password": self._credential.password.reveal()}
        try:
            answer = await self._request(self._anonymous, "POST", path, body=body)
        except NoAnswerError as error:
            # The session may exist on the BMC: a second POST at once would fill its table.
            raise NoAnswerError(error.peer, "log in", error.detail, code="login-lost") from error
        try:
            ticket = login.read_ticket(self.peer, self._credential, answer, allow_basic=self.limits.allow_basic)
            login.forget_refusal(self.address)
            if ticket.location:
                mine = OwnSession.of_this_process(ticket.location, self._credential.user, ticket.created)
                self.own.note(mine)
            return ticket
        except CredentialRefusedError:
            login.remember_refusal(self.address, self.clock.monotonic())
            raise
        finally:
            await self._drop_useless(answer)

    async def _drop_useless(self, answer: Answer) -> None:
        """A session that we may not use still fills a place in the BMC's table: delete it."""
        ticket = login.leftover(answer)
        if ticket is not None:
            with contextlib.suppress(PeerError):
                await self._request(self._dressed(ticket), "DELETE", ticket.location, body=None)

    def _dressed(self, ticket: login.Ticket) -> AsyncRedfishClient:
        if ticket.token:
            return AsyncRedfishClient(self._base, session=self._http, session_key=ticket.token)
        return AsyncRedfishClient(self._base, session=self._http)

    async def _login_again(self, stale: login.Ticket) -> None:
        async with self._lock:
            if self._ticket is stale:
                self.own.leave(stale.location)
                self._client = self._ticket = None
            if self._client is None:
                await self._opened()

    async def _farewell(self) -> None:
        if self._opening is not None and not self._opening.done():
            await asyncio.wait({self._opening}, timeout=self.limits.request_s + self.limits.logout_s)
        if self._ticket is not None:
            self.own.leave(self._ticket.location)
        with contextlib.suppress(PeerError, TimeoutError):
            if self._client is not None and self._ticket is not None and self._ticket.location:
                async with asyncio.timeout(self.limits.logout_s):
                    done = await self._request(self._client, "DELETE", self._ticket.location, body=None)
                # 401 and 404 mean that the session went away by itself (R2); a BMC that says "not now" still has it,
                # and the next run ends it.
                if done.ok or done.status in {401, *GONE}:
                    self.own.forget(self._ticket.location)
        self._client = self._ticket = None
        self._turn.end()
        if self._http is not None:
            await self._http.close()

    # -- one request -----------------------------------------------------------------------------------------

    async def _request(
        self,
        client: AsyncRedfishClient | None,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        if client is None or (self._closed and method != "DELETE"):
            raise NoAnswerError(self.peer, f"{method} {path}", "this run is closed already", code="closed")
        sent = dict(headers or {})
        if self._ticket is not None and self._ticket.basic and client is not self._anonymous:
            sent["Authorization"] = login.basic(self._credential)
        call = {"GET": client.get, "POST": client.post, "PATCH": client.patch, "DELETE": client.delete}[method]
        arguments: dict[str, Any] = {"headers": sent}
        if method in {"POST", "PATCH"}:
            arguments["body"] = body or {}  # some BMCs answer 411 or 415 to a POST without a body
        async with self._slots:
            self.requests += 1
            try:
                response = await call(path, **arguments)
            except (RedfishError, aiohttp.ClientError, OSError, ValueError, RuntimeError) as error:
                raise silence(
                    error,
                    self.peer,
                    f"{method} {path}",
                    request_s=self.limits.request_s,
                    blocked=login.refused_lately(self.address, self.clock.monotonic()),
                    pinned_by_inventory=self._fixed is not None,
                ) from error
        merged: dict[str, str] = {}
        for name, value in response.getheaders():
            key = name.lower()
            merged[key] = f"{merged[key]}, {value}" if key in merged else value
        return Answer(method, path, response.status, merged, response.read)
