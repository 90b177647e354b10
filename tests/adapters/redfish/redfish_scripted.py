"""A small BMC on a real TLS socket that replays exchanges: a tree, sessions, and answers put in front of both."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from provision.model.node import Node

ROOT = "/redfish/v1"
SYSTEM = f"{ROOT}/Systems/System.Embedded.1"
MANAGER = f"{ROOT}/Managers/iDRAC.Embedded.1"
CHASSIS = f"{ROOT}/Chassis/System.Embedded.1"
SESSIONS = f"{ROOT}/SessionService/Sessions"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Reply:
    """One answer to be given once. ``body`` is JSON, or bytes as they are; ``slow_s`` delays it."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    slow_s: float = 0.0

    async def send(self) -> web.Response:
        if self.slow_s:
            await asyncio.sleep(self.slow_s)
        raw = (
            self.body if isinstance(self.body, bytes) else b"" if self.body is None else json.dumps(self.body).encode()
        )
        headers = {"Content-Type": "application/json", **self.headers}
        return web.Response(status=self.status, body=raw, headers=headers)


def refusal(message_id: str, text: str = "", *more: str) -> dict[str, Any]:
    """An error body with these message ids."""
    info = [
        {"MessageId": name, "Message": text, "Severity": "Warning", "MessageArgs": []} for name in (message_id, *more)
    ]
    return {"error": {"code": "Base.1.12.GeneralError", "message": "…", "@Message.ExtendedInfo": info}}


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class ScriptedBmc:
    """``tree`` answers GET; ``script(method, path, …)`` puts answers in front, each used once; PATCH merges.

    ``seen`` keeps every request. Sessions are real: a token is wanted everywhere but at the root.
    """

    def __init__(self, tree: dict[str, Any]) -> None:
        self.tree = tree
        self.etags: dict[str, str] = {}
        self.seen: list[Seen] = []
        self.sessions: dict[str, str] = {}
        self.logins = 0
        self.open_connections = 0
        self.most_connections = 0
        self.address = ""
        self.ignore_patch = False
        self._scripts: dict[tuple[str, str], deque[Reply | Handler]] = defaultdict(deque)

    def script(self, method: str, path: str, *replies: Reply | Handler) -> None:
        """Answer the next requests for this method and path (without its query) so."""
        self._scripts[(method, path)].extend(replies)

    def count(self, method: str, path: str = "") -> int:
        """How many requests of this method (and path) arrived."""
        return sum(item.method == method and path in ("", item.path.partition("?")[0]) for item in self.seen)

    @property
    def writes(self) -> list[Seen]:
        """Everything that was not a read, a login or a logout."""
        return [s for s in self.seen if s.method not in {"GET", "HEAD"} and not s.path.startswith(SESSIONS)]

    def node(self, **more: Any) -> Node:
        """A node whose BMC is this one."""
        return Node("gpu-12-03", "h100", self.address, "rack-12", **more)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw) if raw else None
        self.seen.append(Seen(request.method, request.path_qs, dict(request.headers), body))
        path = request.path.rstrip("/") or request.path
        waiting = self._scripts.get((request.method, path))
        if waiting:
            reply = waiting.popleft()
            return await (reply.send() if isinstance(reply, Reply) else reply(request))
        if request.method == "POST" and path == SESSIONS:
            return await self.log_in().send()
        if path != ROOT and not self._known(request):
            return await Reply(401, refusal("Base.1.12.NoValidSession")).send()
        if request.method == "DELETE" and path in self.sessions.values():
            self.sessions = {token: place for token, place in self.sessions.items() if place != path}
            return await Reply(200, {}).send()
        return await self._resource(request.method, path, body).send()

    def log_in(self) -> Reply:
        """A fresh session."""
        self.logins += 1
        token, place = f"token-{self.logins}", f"{SESSIONS}/{self.logins}"
        self.sessions[token] = place
        return Reply(201, {"@odata.id": place}, {"X-Auth-Token": token, "Location": place})

    def _known(self, request: web.Request) -> bool:
        return request.headers.get("X-Auth-Token") in self.sessions or "Authorization" in request.headers

    def _resource(self, method: str, path: str, body: Any) -> Reply:
        found = self.tree.get(path)
        if found is None:
            return Reply(404, refusal("IDRAC.2.9.SYS403", f"{path} is not found"))
        headers = {"ETag": self.etags[path]} if path in self.etags else {}
        if method == "PATCH":
            if not self.ignore_patch:
                for key, value in body.items():
                    found[key] = {**found.get(key, {}), **value} if isinstance(value, dict) else value
            return Reply(200, {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.9.SYS413"}]})
        return Reply(200, found, headers) if method == "GET" else Reply(405, refusal("Base.1.12.OperationNotAllowed"))

    @asynccontextmanager
    async def serving(self, certificate: Path, port: int = 0) -> AsyncIterator[ScriptedBmc]:
        """Listen on loopback with this certificate (PEM with key)."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        runner = web.ServerRunner(web.Server(self.handle), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=context)
        await site.start()
        self.address = "{}:{}".format(*runner.addresses[0][:2])
        try:
            yield self
        finally:
            await runner.cleanup()
