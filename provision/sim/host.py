"""SSH servers of simulated hosts: one loopback address each, open only while an installed system runs.

Real SSH (paramiko's server side), no real command. The host key is the one that the deployment's user data brought,
so that a client's pinned key is proved by the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary, WeakSet

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)

from provision.sim.host_commands import run
from provision.sim.parts import SimError, SimHost
from provision.sim.world import SimMachine, World

POLL_SECONDS = 0.05
WORKERS = 8
_QUIET = "provision.sim.host.paramiko"
# paramiko logs a traceback for every client that goes away.
logging.getLogger(_QUIET).addHandler(logging.NullHandler())
logging.getLogger(_QUIET).propagate = False


class HostServers:
    """The SSH servers of all machines. ``port`` 0 picks one that is free on every address."""

    def __init__(self, world: World, *, port: int = 0) -> None:
        self.world = world
        self._port = port
        self._doors: list[_Door] = []
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="sim-host")
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take an address for every machine. Raises SimError when one cannot be had."""
        for index, machine in enumerate(self.world.machines.values()):
            machine.ssh_address = machine.ssh_address or f"127.13.{1 + index // 250}.{1 + index % 250}"
        for tries_left in reversed(range(1 if self._port else 5)):
            try:
                self._bind_all()
            except OSError as error:
                self._close_all()
                if not tries_left:
                    raise SimError(f"a host cannot listen: {error}; is another simulation running?") from None
            else:
                break
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    def _bind_all(self) -> None:
        port = self._port
        for machine in self.world.machines.values():
            door = _Door(machine, self._pool)
            self._doors.append(door)
            port = machine.ssh_port = door.bind(port)

    def _close_all(self) -> None:
        for door in self._doors:
            door.close()
        self._doors = []

    async def stop(self) -> None:
        """Close every address and every connection."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._close_all()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _watch(self) -> None:
        # Hosts come up and go down in many ways (installed, rebooted, power cut): looking is simpler than being told.
        while True:
            for door in self._doors:
                door.look()
            await asyncio.sleep(POLL_SECONDS)


class _Door:
    """One machine's SSH port. A bound socket that does not listen refuses connections, and keeps its port."""

    def __init__(self, machine: SimMachine, pool: ThreadPoolExecutor) -> None:
        self._machine = machine
        self._pool = pool
        self._socket: socket.socket | None = None
        self._serving: SimHost | None = None
        self._key: paramiko.PKey | None = None
        self._links: WeakSet[paramiko.Transport] = WeakSet()

    def bind(self, port: int) -> int:
        """Take the address. Raises OSError."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setblocking(False)
        self._socket.bind((self._machine.ssh_address, port))
        bound: int = self._socket.getsockname()[1]
        return bound

    def look(self) -> None:
        """Open or close as the machine's system comes and goes."""
        host = self._machine.host
        host = host if host is not None and host.kind == "installed" and host.host_private_key else None
        if host is self._serving or self._socket is None:
            return
        if self._serving is not None:
            self._shut()
        if host is not None:
            self._open(host)

    def _open(self, host: SimHost) -> None:
        if self._socket is None:
            return
        self._serving = host
        try:
            self._key = load_key(host.host_private_key)
        except SimError:
            # sshd does not start with a key that it cannot read; the port stays shut.
            return
        self._socket.listen(16)
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def _shut(self) -> None:
        self._serving = None
        for link in list(self._links):
            link.close()
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        port = self._socket.getsockname()[1]
        self._socket.close()
        self.bind(port)

    def close(self) -> None:
        """Give the address back."""
        if self._serving is not None:
            self._shut()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _accept(self) -> None:
        host, key = self._serving, self._key
        if self._socket is None or host is None or key is None:
            return
        with contextlib.suppress(BlockingIOError, OSError):
            client, _ = self._socket.accept()
            if self._machine.host is not host:
                client.close()
                return
            client.setblocking(True)
            link = _Link(client)
            link.daemon = True
            link.set_log_channel(_QUIET)
            link.local_version = "SSH-2.0-OpenSSH_8.9p1 Ubuntu-3ubuntu0.10"
            link.add_server_key(key)
            self._links.add(link)
            # With an event the handshake goes on in the transport's own thread.
            link.start_server(event=threading.Event(), server=_Login(self._machine, host, self._pool, link))


class _Link(paramiko.Transport):
    """A connection that starts a command's answer only after the request itself was answered.

    paramiko sends that reply from the connection's own thread when ``check_channel_exec_request`` has returned; a
    worker that is quicker would end the channel before its client knows that the command was accepted.
    """

    def __init__(self, client: socket.socket) -> None:
        super().__init__(client)
        self.accepted: list[Callable[[], object]] = []

    def _send_user_message(self, data: paramiko.Message) -> None:
        super()._send_user_message(data)  # type: ignore[misc]  # not in paramiko's type hints
        if threading.current_thread() is self:
            accepted, self.accepted = self.accepted, []
            for start in accepted:
                start()


class _Login(paramiko.ServerInterface):
    """Who may log in, and what a session may do: run commands, several at once over one connection."""

    def __init__(self, machine: SimMachine, host: SimHost, pool: ThreadPoolExecutor, link: _Link) -> None:
        self._machine = machine
        self._host = host
        self._pool = pool
        self._link = link
        self._ptys: WeakKeyDictionary[paramiko.Channel, bool] = WeakKeyDictionary()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = {line.split()[1] for line in self._host.authorized_keys if len(line.split()) > 1}
        users = {self._host.user, self._machine.world.ssh_user, "root", "ubuntu"}
        let_in = username in users and key.get_base64() in known
        return AUTH_SUCCESSFUL if let_in else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        wanted = kind == "session"
        return OPEN_SUCCEEDED if wanted else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_env_request(self, channel: paramiko.Channel, name: bytes, value: bytes) -> bool:
        return True

    def check_channel_pty_request(self, channel: paramiko.Channel, *size: object) -> bool:
        self._ptys[channel] = True
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        line = command.decode("utf-8", "replace")
        self._link.accepted.append(lambda: self._pool.submit(self._answer, channel, line))
        return True

    def _answer(self, channel: paramiko.Channel, line: str) -> None:
        answer = run(self._machine, self._host, line)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            if channel in self._ptys:
                merged = (answer.out + answer.err).replace("\n", "\r\n")
                channel.sendall(merged.encode())
            else:
                channel.sendall(answer.out.encode())
                channel.sendall_stderr(answer.err.encode())
            channel.send_exit_status(answer.status)
            channel.close()


def load_key(private: str) -> paramiko.PKey:
    """A host key from OpenSSH or PEM text.

    Raises:
        SimError: it is no key that an SSH server could use.
    """
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        with contextlib.suppress(paramiko.SSHException, ValueError, IndexError):
            return kind.from_private_key(io.StringIO(private))
    raise SimError("the host key of the user data is no Ed25519, ECDSA or RSA key")
