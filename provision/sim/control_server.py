"""The running simulation's end of the control channel."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from provision.sim.control import FILE
from provision.sim.parts import SimError
from provision.sim.world import World


class ControlServer:
    """Serves one world on a loopback port. ``about`` is told by ``show`` beside the machines."""

    def __init__(self, world: World, directory: Path, about: Mapping[str, Any]) -> None:
        self._world = world
        self._file = directory / FILE
        self._about = about
        self._token = secrets.token_urlsafe(32)
        self._listener: asyncio.Server | None = None
        self._web = web.Server(self._handle, access_log=None)
        self.stop_asked = asyncio.Event()

    async def start(self) -> None:
        """Listen, and leave address and token in a file that only its owner can read."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._web, "127.0.0.1", 0)
        host, port = self._listener.sockets[0].getsockname()
        told = {"host": host, "port": port, "token": self._token, "pid": os.getpid()}
        write_private(self._file, json.dumps(told))

    async def stop(self) -> None:
        """Take the file away and close."""
        self._file.unlink(missing_ok=True)
        if self._listener is not None:
            self._listener.close()
        await self._web.shutdown(1.0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return web.json_response({"error": "this is another simulation's token"}, status=403)
        actions: dict[tuple[str, str], Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            ("POST", "/fault"): self._fault,
            ("POST", "/repair"): self._repair,
            ("POST", "/writes"): self._writes,
            ("GET", "/show"): self._show,
            ("POST", "/stop"): self._stop,
        }
        action = actions.get((request.method, request.path))
        if action is None:
            return web.json_response({"error": f"the control channel knows no {request.path}"}, status=404)
        try:
            data = await request.read()
            body = json.loads(data) if data else {}
            return web.json_response(action(body))
        except SimError as error:
            return web.json_response({"error": str(error)}, status=400)
        except (ValueError, KeyError, AttributeError) as error:
            return web.json_response({"error": f"the request cannot be read: {error!r}"}, status=400)

    def _fault(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"fault": str(self._world.inject(str(body["node"]), str(body["kind"]), str(body.get("arg") or "")))}

    def _repair(self, body: Mapping[str, Any]) -> dict[str, Any]:
        kind = body.get("kind")
        mended = self._world.repair(str(body["node"]), None if kind is None else str(kind))
        return {"repaired": [str(fault) for fault in mended]}

    def _writes(self, body: Mapping[str, Any]) -> dict[str, Any]:
        writes = {name: dict(machine.writes) for name, machine in self._world.machines.items()}
        if body.get("reset"):
            self._world.reset_writes()
        return {"writes": writes}

    def _show(self, body: Mapping[str, Any]) -> dict[str, Any]:
        machines = {
            name: {
                "rack": machine.rack,
                "bmc": f"{machine.bmc_address}:{machine.bmc_port}",
                "ssh": f"{machine.ssh_address}:{machine.ssh_port}",
                "power": "on" if machine.powered else "off",
                "progress": machine.post_progress,
                "host": None if machine.host is None else machine.host.kind,
                "deployed": machine.deployed_count,
                "faults": [str(fault) for fault in machine.faults],
                "writes": machine.writes.total(),
                "sessions": dict(machine.sessions),
            }
            for name, machine in self._world.machines.items()
        }
        return {**self._about, "problems": self._world.problems, "machines": machines}

    def _stop(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.stop_asked.set()
        return {"stopping": True}


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    fresh.replace(path)
