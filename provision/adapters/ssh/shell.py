"""The port ``Shell``: paramiko in a small pool of threads."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import paramiko

from provision.adapters.ssh import hostkeys, marker
from provision.adapters.ssh.connect import Login, connect, execute
from provision.errors import RefusedError, UnavailableError
from provision.model.node import Address, Node
from provision.model.secret import Secret
from provision.ports import CommandResult, Marker, Pins

PIN = "ssh-host-key"
_T = TypeVar("_T")


@dataclass
class _Host:
    """One host's connection. The lock keeps two tasks from opening it twice."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    address: Address | None = None
    transport: paramiko.Transport | None = None


class ParamikoShell:
    """SSH for one run. One connection per host, reused, opened again when it broke or the address changed.

    ``adopt`` trusts a host that has no pin yet, once, and pins its key; a key that differs from a pin is refused
    always. With ``become`` commands run under ``sudo -n``; if nobody says, that is for every user but root. Pins are
    read and written on the event loop's thread.
    """

    def __init__(
        self,
        pins: Pins,
        *,
        user: str,
        key_file: Path | None = None,
        become: bool | None = None,
        adopt: bool = False,
        connect_timeout_s: float = 10.0,
        threads: int = 32,
    ) -> None:
        self._pins = pins
        self._login = Login(user, key_file)
        self._become = user != "root" if become is None else become
        self._adopt, self._timeout_s = adopt, connect_timeout_s
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="ssh")
        self._hosts: dict[str, _Host] = {}
        self._closed = False

    async def marker(self, node: Node, address: Address) -> Marker | None:
        """The playbooks' marker; None if the host has none.

        Raises:
            UnavailableError, RefusedError, CredentialRefusedError: see ``run``.
            GarbledError: there is one and nobody can read it.
        """
        result = await self._execute(node, address, f"cat {marker.PATH}", deadline_s=30)
        if result.status == 0:
            return marker.parse_marker(result.stdout, _peer(node))
        if "No such file" in result.stderr:
            return None
        detail = f"status {result.status}: {result.stderr.strip()[:200] or 'no message'}"
        raise RefusedError(_peer(node), f"read {marker.PATH}", detail)

    async def run(self, node: Node, address: Address, command: str, *, deadline_s: float) -> CommandResult:
        """Run a command that only reads. Its status is part of the answer, not an error.

        Raises:
            UnavailableError: the host does not answer, or not in time.
            RefusedError: its host key is not the pinned one.
            CredentialRefusedError: it does not let us in.
            MisconfiguredError: our key file cannot be used.
        """
        if self._become:
            command = f"sudo -n -- /bin/sh -c {shlex.quote(command)}"
        return await self._execute(node, address, command, deadline_s=deadline_s)

    async def new_host_key(self, node: str) -> Secret:
        """Make and pin a host key for the next deployment; the private half, in OpenSSH's format, is returned."""
        private, public = hostkeys.new_key()
        self._pins.set_pin(PIN, node, public)
        # The connection that stands was made with the old key.
        await self._drop(node)
        return private

    async def close(self) -> None:
        """Drop connections. Never raises."""
        self._closed = True
        await asyncio.gather(*(self._drop(name) for name in list(self._hosts)))
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _execute(self, node: Node, address: Address, command: str, *, deadline_s: float) -> CommandResult:
        transport = await self._transport(node, address)
        return await self._in_thread(execute, _peer(node), transport, command, deadline_s)

    async def _transport(self, node: Node, address: Address) -> paramiko.Transport:
        host = self._hosts.setdefault(node.name, _Host())
        async with host.lock:
            if host.transport is not None and host.transport.is_active() and host.address == address:
                return host.transport
            if host.transport is not None:
                host.transport.close()
                host.transport = None
            pinned = self._pins.get_pin(PIN, node.name)
            transport, public = await self._connect(node, address, pinned)
            if self._closed:
                transport.close()
                raise UnavailableError(_peer(node), f"connect to {address}", "this run is ending")
            if pinned is None:
                self._pins.set_pin(PIN, node.name, public)
            host.transport, host.address = transport, address
            return transport

    async def _connect(self, node: Node, address: Address, pinned: str | None) -> tuple[paramiko.Transport, str]:
        def work() -> tuple[paramiko.Transport, str]:
            return connect(
                _peer(node),
                address,
                self._login,
                pinned,
                adopt=self._adopt,
                timeout_s=self._timeout_s,
                proxy=node.ssh_proxy,
            )

        future = self._submit(work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # The thread goes on; what it opens must not stay open.
            future.add_done_callback(_close_result)
            raise

    async def _in_thread(self, work: Callable[..., CommandResult], *args: object) -> CommandResult:
        return await self._submit(functools.partial(work, *args))

    def _submit(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        try:
            return asyncio.get_running_loop().run_in_executor(self._pool, work)
        except RuntimeError as error:  # the pool was shut down by close()
            raise UnavailableError("SSH", "start a thread", "this run is ending") from error

    async def _drop(self, name: str) -> None:
        host = self._hosts.pop(name, None)
        if host is None or host.transport is None:
            return
        with contextlib.suppress(Exception):  # closing must not stop anything
            await asyncio.to_thread(host.transport.close)


def _close_result(future: asyncio.Future[tuple[paramiko.Transport, str]]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result()[0].close()


def _peer(node: Node) -> str:
    return f"host {node.name}"
