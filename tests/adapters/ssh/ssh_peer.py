"""An SSH server on loopback that runs what it is asked in a real shell, or answers from a table."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from provision.model.node import Address, Node

Answer = tuple[int, bytes, bytes]


def write_key(path: Path) -> paramiko.PKey:
    """A fresh ed25519 key in a file of mode 0600, as OpenSSH writes it."""
    private = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    path.touch(mode=0o600)
    path.write_bytes(private)
    return paramiko.PKey.from_path(path)


def public_line(key: paramiko.PKey) -> str:
    """``ssh-ed25519 AAAA…``."""
    return f"{key.get_name()} {key.get_base64()}"


def node(name: str = "gpu-12-01") -> Node:
    """A node of which only the name matters."""
    return Node(name=name, profile="h100-8gpu", bmc_address="127.0.0.9", rack="rack-12")


class MemoryPins:
    """Pins in a dict."""

    def __init__(self) -> None:
        self.pins: dict[tuple[str, str], str] = {}

    def get_pin(self, kind: str, name: str) -> str | None:
        return self.pins.get((kind, name))

    def set_pin(self, kind: str, name: str, value: str) -> None:
        self.pins[kind, name] = value


class _Session(paramiko.ServerInterface):
    def __init__(self, peer: SshPeer) -> None:
        self.peer = peer

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = username == self.peer.user and self.peer.client_key in (None, key)
        self.peer.logins.append((username, good))
        return paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_pty_request(self, *_: object) -> bool:
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self.peer.answer, args=(channel, command.decode()), daemon=True).start()
        return True


class SshPeer:
    """One host. ``answers`` maps commands to (status, stdout, stderr); other commands run in ``/bin/sh``.

    ``connections``, ``logins`` and ``commands`` say what came in. With ``mute`` it accepts and says nothing.
    """

    def __init__(
        self,
        host_key: paramiko.PKey,
        client_key: paramiko.PKey | None,
        *,
        user: str = "root",
        answers: Mapping[str, Answer] | None = None,
        host: str = "127.0.0.1",
        mute: bool = False,
    ) -> None:
        self.host_key, self.client_key, self.user, self.mute = host_key, client_key, user, mute
        self.answers = dict(answers or {})
        self.connections, self.logins, self.commands = 0, list[tuple[str, bool]](), list[str]()
        self._running: list[subprocess.Popen[bytes]] = []
        self._transports: list[paramiko.Transport] = []
        self._listener = socket.create_server((host, 0))
        self.address = Address(host, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.mute:
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
                self._held = sock
                continue
            transport = paramiko.Transport(sock)
            transport.daemon = True
            transport.add_server_key(self.host_key)
            self._transports.append(transport)
            threading.Thread(target=self._serve, args=(transport,), daemon=True).start()

    def _serve(self, transport: paramiko.Transport) -> None:
        try:
            transport.start_server(server=_Session(self))
        except (paramiko.SSHException, EOFError, OSError):
            transport.close()

    def answer(self, channel: paramiko.Channel, command: str) -> None:
        self.commands.append(command)
        time.sleep(0.02)  # paramiko acknowledges the request after this thread was started, and must do it first
        if command in self.answers:
            status, out, err = self.answers[command]
        else:
            pipe = subprocess.PIPE
            started = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
            )
            self._running.append(started)
            out, err = started.communicate()
            status = started.returncode if started.returncode >= 0 else 128 - started.returncode
        try:
            channel.sendall(out)
            channel.sendall_stderr(err)
            channel.send_exit_status(status)
            channel.close()
        except (OSError, EOFError, paramiko.SSHException):
            return

    def drop_connections(self) -> None:
        for transport in self._transports:
            transport.close()

    def close(self) -> None:
        # A close alone waits for the accept() in the other thread.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for started in self._running:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
