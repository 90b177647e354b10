"""The simulated region: an HTTP server that speaks MAAS's API 2.0, and the world's boot server."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from aiohttp import web

from provision.sim.maas import wire
from provision.sim.maas.boot import Boots
from provision.sim.maas.forms import normal_mac
from provision.sim.maas.lifecycle import Lifecycle
from provision.sim.maas.machines import Machines
from provision.sim.maas.nodes import Nodes
from provision.sim.maas.oauth import KeyRing
from provision.sim.maas.power import PowerDriver, PowerQueue, RedfishPower
from provision.sim.maas.region import Region, new_api_key
from provision.sim.maas.routes import Action, Resource, Router, describe, table
from provision.sim.maas.site import SiteHandlers
from provision.sim.maas.state import Record, User
from provision.sim.maas.wire import Call, Refusal, Reply
from provision.sim.world import SimMachine, World

PREFIX = "/MAAS/api/2.0/"
_ORDER = ("POST", "GET", "PUT", "DELETE")
_GATEWAY_TIMEOUT = (
    b"<html>\r\n<head><title>504 Gateway Time-out</title></head>\r\n<body>\r\n"
    b"<center><h1>504 Gateway Time-out</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


@dataclass
class MaasFaults:
    """What is wrong with the region itself.

    ``create_503_but_created`` counts the creates to come that are carried out and answered with 503;
    ``gateway_504_every_n_writes`` answers every n-th write with 504 although it was carried out (0: never);
    ``down`` cuts every connection; ``no_rack`` has no rack controller that reaches a BMC; ``slow_ms`` delays every
    answer (real milliseconds); ``clock_skew_s`` is how far the region's clock is ahead.
    """

    create_503_but_created: int = 0
    gateway_504_every_n_writes: int = 0
    down: bool = False
    no_rack: bool = False
    slow_ms: float = 0.0
    clock_skew_s: float = 0.0


class MaasServer:
    """A region for a world.

    ``requests`` counts every request as ``METHOD path-pattern op``; writes are counted on the machine they reach
    (``machine.writes["maas:deploy"]``) or, without one, in ``writes``. ``problems`` keeps failures of our own.
    """

    def __init__(
        self,
        world: World,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        api_key: str | None = None,
        version: str = "3.6.3",
        driver: PowerDriver | None = None,
        ssh_keys: tuple[str, ...] | None = None,
        rack_controllers: tuple[str, ...] = ("rack-1",),
    ) -> None:
        self.world = world
        self.host = host
        self.port = port
        self.api_key = api_key or new_api_key()
        self.faults = MaasFaults()
        self.requests: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.region = Region(world.clock, world.seed)
        self.region.racks = list(rack_controllers)
        self.keys = KeyRing()
        self.keys.admit(self.api_key, self.region.users["admin"])
        self.power = PowerQueue(driver or RedfishPower(world.clock))
        self.lifecycle = Lifecycle(self.region, self.power, lambda: self.faults.no_rack)
        self.boots = Boots(world, self.region, self.lifecycle, ssh_keys)
        machines = Machines(self.region, self.lifecycle)
        site = SiteHandlers(self.region, self.keys, version)
        self.resources = table(machines, Nodes(self.region, machines), site)
        self._router = Router(self.resources)
        self._write_number = 0
        self._runner: web.AppRunner | None = None
        self._monitor: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Listen, and answer the world's network boots. Returns the URL to give to clients.

        After ``stop`` it may be started again: on the same port, with everything it remembers.
        """
        self.power.closed = False
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.world.boot_server = self
        self._monitor = asyncio.get_running_loop().create_task(self.boots.watch())
        return self.url

    @property
    def url(self) -> str:
        """Where clients find the region."""
        return f"http://{self.host}:{self.port}/MAAS/"

    async def stop(self) -> None:
        """Stop listening and end what goes on in the background."""
        if self._monitor is not None:
            self._monitor.cancel()
            await asyncio.gather(self._monitor, return_exceptions=True)
        await self.power.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self.world.boot_server is self:
            self.world.boot_server = None

    async def network_boot(self, machine: SimMachine, mac: str) -> None:
        """A machine boots from the network (BootServer)."""
        await self.boots.network_boot(machine, mac)

    def new_key(self, user: User) -> str:
        """One more API key."""
        key = new_api_key()
        self.keys.admit(key, user)
        return key

    def revoke(self, api_key: str) -> None:
        """An API key is good no longer."""
        self.keys.revoke(api_key)

    async def settle(self) -> None:
        """Wait until no power button is being pressed."""
        await self.power.settle()

    def record_of(self, machine: SimMachine) -> Record | None:
        """What the region knows of a machine of the world."""
        return self.boots.record_of(machine)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.faults.down:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)
        if self.faults.slow_ms:
            await asyncio.sleep(self.faults.slow_ms / 1000)
        try:
            reply = await self._dispatch(request)
        except Refusal as refusal:
            reply = refusal.reply
        # A region whose clock is off says so in every answer.
        at = datetime.now(UTC) + timedelta(seconds=self.faults.clock_skew_s)
        headers = {"Date": format_datetime(at, usegmt=True), **reply.headers}
        if reply.content_type is not None:
            headers["Content-Type"] = reply.content_type
        return web.Response(status=reply.status, body=reply.body or None, headers=headers)

    async def _dispatch(self, request: web.Request) -> Reply:
        path = request.path.removeprefix(PREFIX)
        if path == "describe/":
            self.requests["GET describe/"] += 1
            return wire.data(describe(self.resources, f"{request.scheme}://{request.host}"))
        found = self._router.find(path) if request.path.startswith(PREFIX) else None
        if found is None:
            self.requests[f"{request.method} unknown"] += 1
            raise _unknown(request)
        resource, params, op = found
        user = self.keys.check(request.headers.get("Authorization"), skew_s=self.faults.clock_skew_s)
        query = wire.pairs(request.query_string)
        form = wire.parse_form(request.headers.get("Content-Type", ""), await request.read())
        op_given = op or call_op(query, form)
        call = Call(request.method, path, query, form, op_given, request.host, user, params)
        self.requests[" ".join(filter(None, (request.method, resource.path, op_given)))] += 1
        action = self._action(resource, call, in_path=op is not None, request=request)
        if request.method == "GET":
            return await action.handler(call)
        return await self._write(action, call)

    def _action(self, resource: Resource, call: Call, *, in_path: bool, request: web.Request) -> Action:
        offered = resource.actions if call.user else resource.anonymous
        if not call.user and not resource.anonymous:
            raise Refusal(wire.text(401, "Authorization Error: no credentials were given."))
        verbs = {action.method for action in offered}
        if call.user and call.method not in verbs:
            allow = ", ".join(verb for verb in _ORDER if verb in verbs)
            raise Refusal(Reply(405, b"", wire.HTML, {"Allow": allow}))
        for action in offered:
            if action.method == call.method and action.op == call.op:
                return action
        if in_path and not any(action.op == call.op for action in offered):
            raise _unknown(request)
        raise wire.bad(f"Unrecognised signature: method={call.method} op={call.op}")

    async def _write(self, action: Action, call: Call) -> Reply:
        self._write_number += 1
        number = self._write_number
        self._count(action, call)
        reply = await action.handler(call)
        if action.name == "create" and call.path == "machines/" and self.faults.create_503_but_created > 0:
            self.faults.create_503_but_created -= 1
            name = call.one("hostname") or "it"
            return wire.text(503, f"No rack controllers can access the BMC of node {name}")
        every = self.faults.gateway_504_every_n_writes
        if every and number % every == 0:
            return Reply(504, _GATEWAY_TIMEOUT, "text/html")
        return reply

    def _count(self, action: Action, call: Call) -> None:
        macs = call.form.get("mac_addresses", [])
        ids = [call.params.get("system_id"), *(call.form.get(name) or [] for name in ("system_id",))]
        named = [item for entry in ids if entry for item in ([entry] if isinstance(entry, str) else entry)]
        for field in ("add", "remove", "nodes", "machines"):
            named += call.form.get(field, []) if action.op in {"update_nodes", "set_zone", "accept"} else []
        records = [self.region.machines[name] for name in named if name in self.region.machines]
        reached = [self.boots.machine_of(record) for record in records]
        reached += [self.world.by_mac(normal_mac(mac) or "") for mac in macs]
        machines = {machine.name: machine for machine in reached if machine is not None}
        for machine in machines.values():
            machine.writes[f"maas:{action.name}"] += 1
        if not machines:
            self.writes[f"maas:{action.name}"] += 1


def call_op(query: dict[str, list[str]], form: dict[str, list[str]]) -> str | None:
    """The operation named in the query or in the form body."""
    named = query.get("op") or form.get("op") or []
    return named[-1] if named else None


def _unknown(request: web.Request) -> Refusal:
    return Refusal(wire.text(404, f"Unknown API endpoint: {request.path}."))
