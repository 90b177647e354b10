"""The sockets of all BMCs: one loopback address each, one port for all, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
from pathlib import Path

from aiohttp import web

from provision.sim.bmc.certificates import server_context
from provision.sim.bmc.service import Service
from provision.sim.machine import SimMachine
from provision.sim.parts import SimError
from provision.sim.world import World


class BmcServers:
    """All BMCs of a world. ``certificates`` is a folder; ``port`` 0 picks one that is free on every address."""

    def __init__(self, world: World, certificates: Path, *, port: int = 0) -> None:
        self._world = world
        self._certificates = certificates
        self._port = port
        self._doors: dict[str, _Door] = {}

    def service(self, name: str) -> Service:
        """The BMC of this machine, for tests that look at its sessions."""
        return self._doors[name].service

    async def start(self) -> None:
        """Open every address. Raises SimError when one cannot be had."""
        raise_file_limit(4 * len(self._world.machines) + 256)
        self._certificates.mkdir(parents=True, exist_ok=True, mode=0o700)
        for index, machine in enumerate(self._world.machines.values()):
            machine.bmc_address = machine.bmc_address or f"127.12.{1 + index // 250}.{1 + index % 250}"
            tls = server_context(self._certificates, machine.name, f"idrac-{machine.service_tag}")
            self._doors[machine.name] = _Door(machine, tls)
        for tries_left in reversed(range(1 if self._port else 5)):
            try:
                await self._open_all()
            except OSError as error:
                # Another simulation may have the port that the first address gave on one of the other addresses.
                await asyncio.gather(*(door.shut_down() for door in self._doors.values()))
                if not tries_left:
                    raise SimError(f"a BMC cannot listen: {error}; is another simulation running?") from None
            else:
                break
        for door in self._doors.values():
            door.machine.watchers.append(door.look)
            door.look()

    async def _open_all(self) -> None:
        port = self._port
        for door in self._doors.values():
            port = door.machine.bmc_port = await door.open(port)

    async def stop(self) -> None:
        """Close every address."""
        await asyncio.gather(*(door.close() for door in self._doors.values()))


class _Door:
    """One BMC's listening socket; it is shut while the machine's BMC is dead."""

    def __init__(self, machine: SimMachine, tls: ssl.SSLContext) -> None:
        self.service = Service(machine)
        self.machine = machine
        self._tls = tls
        self._listener: asyncio.Server | None = None
        self._web: web.Server | None = None
        self._moving: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self, port: int) -> int:
        # A client that goes away ends its request; without this a hanging BMC would keep it for ever.
        self._web = web.Server(self.service.handle, access_log=None, handler_cancellation=True)
        server = self._web

        def accept() -> asyncio.BaseProtocol:
            self.machine.traffic["connections"] += 1
            return server()

        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(accept, self.machine.bmc_address, port, ssl=self._tls)
        return int(self._listener.sockets[0].getsockname()[1])

    def look(self) -> None:
        """Follow the machine's faults: shut when its BMC does not answer at all, open again after repair."""
        if self._moving is None and self._shut != (self._listener is None):
            self._moving = asyncio.get_running_loop().create_task(self._follow())

    @property
    def _shut(self) -> bool:
        return self._closed or any(f.kind == "bmc_dead" and f.arg == "refused" for f in self.machine.faults)

    async def _follow(self) -> None:
        try:
            while self._shut != (self._listener is None):
                if self._shut:
                    await self.shut_down()
                else:
                    await self.open(self.machine.bmc_port)
        finally:
            self._moving = None

    async def shut_down(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        server, self._web = self._web, None
        if server is not None:
            # No grace: the power of a BMC does not wait for its clients.
            await server.shutdown(0.01)

    async def close(self) -> None:
        self._closed = True
        if self._moving is not None:
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await self._moving
        await self.shut_down()


def raise_file_limit(wanted: int) -> None:
    """Let this process open as many files as it needs, as far as the hard limit goes.

    Raises:
        SimError: the hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted or soft == resource.RLIM_INFINITY:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SimError(f"this fleet needs {wanted} open files and the system allows {hard}: raise it (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
