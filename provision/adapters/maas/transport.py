"""Our own transport under python-libmaas: one kept-alive aiohttp session, and every answer typed.

libmaas gives the API's description, the handlers and the addresses of calls (``bones``); what goes over the wire is
ours: its own ``dispatch`` opens a connection per call, has no deadline, follows the host that ``describe/`` names and
puts the API secret into its errors (facts: maas.md 1).
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets as random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import tenacity
from maas.client.bones import CallAPI, SessionAPI
from maas.client.utils.creds import Credentials

from provision.adapters.maas.access import VERSION_MARK, base_url, checked_key, proxy_url, tls_context
from provision.adapters.maas.answers import UNKNOWN_OUTCOME, Answer, data_of, http_date
from provision.errors import GarbledError, PeerError, RefusedError, UnavailableError
from provision.model.secret import Secret
from provision.ports import Clock

Form = Sequence[tuple[str, str | Secret]]

_log = logging.getLogger(__name__)
# A region serves about one create a second, whatever is asked of it (facts: maas.md "Speed"): more workers only
# move the waiting from here, where no deadline runs, to MAAS, where one does.
_WRITERS, _READERS = 6, 4
_READ_TRIES, _READ_PATIENCE_S = 4, 15.0
_MOST_BYTES = 64 * 2**20


class _RegionSession(SessionAPI):  # type: ignore[misc]  # libmaas carries no types
    """libmaas's handlers for one description, with the transport that their calls use."""

    transport: Transport


class _RegionCall(CallAPI):  # type: ignore[misc]  # libmaas carries no types
    """One call of libmaas, sent by our transport to the site's own address."""

    @property
    def uri(self) -> str:
        """The call's address under the URL that the site gave: behind a proxy, ``describe/`` names another host."""
        path = urlsplit(super().uri).path
        return str(self.action.handler.session.transport.base + path.partition(VERSION_MARK)[2])

    def prepare(self, data: Form) -> tuple[str, bytes | None, dict[str, str]]:
        """Address, body and headers. Fields go url-encoded: an empty multipart body is a 400 to MAAS (measured)."""
        op = [] if self.action.op is None else [("op", str(self.action.op))]
        pairs = [(name, value.reveal() if isinstance(value, Secret) else value) for name, value in data]
        transport: Transport = self.action.handler.session.transport
        headers = {"Authorization": transport.signature(), "Accept": "application/json,*/*;q=0.9"}
        if self.action.method in {"GET", "DELETE"}:
            return _with_query(self.uri, [*op, *pairs]), None, headers
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        return _with_query(self.uri, op), urlencode(pairs).encode(), headers

    async def dispatch(self, uri: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        """Send once.

        Raises:
            UnavailableError, RefusedError, GarbledError: see ``Transport.exchange``.
        """
        transport: Transport = self.action.handler.session.transport
        return await transport.exchange(self.action.method, uri, body, headers)


def _with_query(uri: str, pairs: Sequence[tuple[str, str]]) -> str:
    return f"{uri}?{urlencode(pairs)}" if pairs else uri


class Transport:
    """One region, one session. Reads are repeated for seconds, writes go out once.

    Args:
        url: as the operator gives it: ``http://maas.example:5240/MAAS``, with or without ``/api/2.0/``.
        key: ``consumer:token:secret``.
        ca_file: PEM file of the site's certificate authority, for https.
        proxy: HTTP proxy for the API, only if the site says so; the environment's proxies are not used.
        deadline_s: seconds for one exchange, counted from when it is sent.

    Raises:
        MisconfiguredError: URL, key or CA file cannot be used.
    """

    def __init__(
        self, url: str, key: Secret, clock: Clock, *, ca_file: str | None, proxy: str | None, deadline_s: float
    ) -> None:
        self.base = base_url(url)
        self.peer = f"MAAS {self.base.removesuffix(VERSION_MARK[1:]).removesuffix('/')}"
        self.skew_s: float | None = None
        self._key = checked_key(key)
        self._clock = clock
        self._tls = tls_context(ca_file) if self.base.startswith("https:") else True
        self._proxy = None if not proxy else Secret(proxy_url(proxy))
        self._deadline_s = deadline_s
        self._http: aiohttp.ClientSession | None = None
        self._session: _RegionSession | None = None
        self._opening = asyncio.Lock()
        self._writing, self._reading = asyncio.Semaphore(_WRITERS), asyncio.Semaphore(_READERS)

    async def read(self, call: str, operation: str, data: Form = (), **params: str) -> Any:
        """Ask; asked again for up to fifteen seconds while MAAS is not to be had.

        Args:
            call: libmaas's handler and action: ``Machines.read``.
            data: the query.
            params: what goes into the address: ``system_id``.

        Raises:
            UnavailableError, RefusedError, GarbledError: see ``provision.adapters.maas.answers``.
        """
        bound = await self._bind(call, operation, params)

        async def ask() -> Any:
            return await self._send(bound, operation, data, write=False)

        return await self._patiently(ask)

    async def write(self, call: str, operation: str, data: Form = (), **params: str) -> Any:
        """Ask for a change, once. UnavailableError then means that nobody knows whether it happened.

        Raises:
            UnavailableError, RefusedError, GarbledError: see ``provision.adapters.maas.answers``.
        """
        bound = await self._bind(call, operation, params)
        return await self._send(bound, operation, data, write=True)

    async def offers(self, call: str) -> bool:
        """True if this MAAS's description has the call."""
        handler, _, action = call.partition(".")
        return hasattr(getattr(await self._described(), handler, None), action)

    async def close(self) -> None:
        """Drop the connections. Never raises."""
        http, self._http = self._http, None
        if http is not None:
            with suppress(aiohttp.ClientError, OSError):
                await http.close()

    def signature(self) -> str:
        """The OAuth header of one request; nonce and timestamp are good for this one only."""
        consumer, token, secret = self._key.reveal().split(":")
        parts = {
            "oauth_version": "1.0",
            "oauth_signature_method": "PLAINTEXT",
            "oauth_consumer_key": consumer,
            "oauth_token": token,
            "oauth_signature": f"&{secret}",
            "oauth_nonce": random.token_hex(16),
            "oauth_timestamp": str(int(self._clock.now().timestamp())),
        }
        return "OAuth " + ", ".join(f'{name}="{quote(value, safe="~")}"' for name, value in parts.items())

    async def _described(self) -> _RegionSession:
        async with self._opening:
            if self._session is None:
                operation = "read the API's description"
                uri = f"{self.base}describe/"

                async def fetch() -> Any:
                    answer = await self.exchange("GET", uri, None, {"Accept": "application/json"})
                    return data_of(self.peer, operation, answer, write=False)

                session = _session_of(self.peer, operation, await self._patiently(fetch))
                session.transport = self
                self._session = session
            return self._session

    async def _bind(self, call: str, operation: str, params: Mapping[str, str]) -> _RegionCall:
        handler, _, action = call.partition(".")
        bound = getattr(getattr(await self._described(), handler, None), action, None)
        if bound is None:
            detail = f"this MAAS does not offer {call}: its version is too old or its description incomplete"
            raise GarbledError(self.peer, operation, detail, code="description")
        try:
            return _RegionCall({name: quote(value, safe="") for name, value in params.items()}, bound)
        except TypeError as error:
            raise GarbledError(self.peer, operation, f"{call} has another address here: {error}") from None

    async def _send(self, call: _RegionCall, operation: str, data: Form, *, write: bool) -> Any:
        async with self._writing if write else self._reading:
            uri, body, headers = call.prepare(data)
            try:
                answer = await call.dispatch(uri, body, headers)
            except PeerError as error:
                told = _retold(error, operation, write=write)
            else:
                hidden = [value.reveal() for _, value in data if isinstance(value, Secret)]
                answer = answer.scrubbed([*hidden, self._key.reveal().rpartition(":")[2]])
                return data_of(self.peer, operation, answer, write=write)
        raise told

    async def _patiently(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        def pause(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome is not None else None
            asked = error.retry_after_s if isinstance(error, UnavailableError) else None
            return float(0.5 * 2 ** (state.attempt_number - 1)) if asked is None else asked

        def hopeless(state: tenacity.RetryCallState) -> bool:
            late = (state.seconds_since_start or 0.0) + pause(state) > _READ_PATIENCE_S
            return late or state.attempt_number >= _READ_TRIES

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(UnavailableError),
            stop=hopeless,
            wait=pause,
            sleep=self._clock.sleep,
            reraise=True,
        )
        return await retrying(ask)

    async def exchange(self, method: str, uri: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send one request and read the whole answer, whatever its status.

        Raises:
            UnavailableError: no connection, or no whole answer within the deadline.
            RefusedError: the certificate is not trusted.
            GarbledError: what answers does not speak HTTP, or does not stop.
        """
        operation = f"{method} {urlsplit(uri).path}"
        try:
            async with asyncio.timeout(self._deadline_s):
                return await self._exchange(method, uri, body, headers)
        except PeerError:
            raise
        except TimeoutError:
            failure: PeerError = UnavailableError(self.peer, operation, f"no answer in {self._deadline_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Raised below, outside this block: aiohttp's errors hold the request's headers, the API secret among
            # them, and must not hang on ours as their context.
            failure = _failure(self.peer, operation, error)
        _log.debug("%s", failure)
        raise failure

    async def _exchange(self, method: str, uri: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls, limit=_WRITERS + _READERS + 2, keepalive_timeout=15),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(10.0, self._deadline_s)),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
            )
        proxy = None if self._proxy is None else self._proxy.reveal()
        # A redirect would turn a POST into a GET and carry the signature to another host.
        async with self._http.request(
            method, uri, data=body, headers=headers, proxy=proxy, allow_redirects=False
        ) as response:
            served = http_date(response.headers.get("Date", ""))
            if served is not None:
                self.skew_s = (served - self._clock.now()).total_seconds()
            content = bytearray()
            async for chunk in response.content.iter_chunked(2**18):
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise GarbledError(self.peer, f"{method} {urlsplit(uri).path}", "an answer of more than 64 MiB")
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            kept = {
                name: response.headers[name] for name in ("Date", "Retry-After", "Location") if name in response.headers
            }
            return Answer(response.status, kind, bytes(content), kept, self.skew_s)


def _retold(error: PeerError, operation: str, *, write: bool) -> PeerError:
    """The same failure under the name of what was asked, with the doubt that a write leaves."""
    if isinstance(error, UnavailableError) or (write and isinstance(error, GarbledError)):
        # Without a connection nothing was sent, so nothing was done.
        doubt = write and error.code != "connect"
        detail = f"{error.detail}; {UNKNOWN_OUTCOME}" if doubt else error.detail
        return UnavailableError(error.peer, operation, detail, code=error.code)
    if isinstance(error, GarbledError):
        return GarbledError(error.peer, operation, error.detail, payload=error.payload, code=error.code)
    return type(error)(error.peer, operation, error.detail, code=error.code)


def _failure(peer: str, operation: str, error: Exception) -> PeerError:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "") or "not trusted"
            detail = f"its TLS certificate is not accepted ({why}): give the site's CA file, or the name it is made for"
            return RefusedError(peer, operation, detail, code="tls")
        case aiohttp.ClientSSLError():
            return RefusedError(peer, operation, "no TLS connection: does it speak https on this port?", code="tls")
        case aiohttp.ClientHttpProxyError():
            return UnavailableError(peer, operation, f"the HTTP proxy answers {error.status}", code="proxy")
        case aiohttp.ClientProxyConnectionError():
            return UnavailableError(peer, operation, "the HTTP proxy cannot be reached", code="proxy")
        case aiohttp.ClientConnectorError():
            why = error.os_error.strerror or "no connection"
            return UnavailableError(peer, operation, f"cannot connect: {why}", code="connect")
        case aiohttp.ClientResponseError() | ValueError():
            return GarbledError(peer, operation, "what answers there does not speak HTTP", code="garbled")
        case _:
            return UnavailableError(peer, operation, "the connection was lost before the answer", code="connection")


def _session_of(peer: str, operation: str, description: Any) -> _RegionSession:
    try:
        # libmaas only wants to know that there are credentials: the signature is made by us.
        session = _RegionSession(description, Credentials("", "", ""))
        if not hasattr(session, "Machines"):
            raise KeyError("Machines")
    except (KeyError, TypeError, AttributeError, ValueError):
        shown = json.dumps(description)[:200].encode()
    else:
        return session
    raise GarbledError(peer, operation, "not the description of a MAAS API 2.0", payload=shown, code="description")
