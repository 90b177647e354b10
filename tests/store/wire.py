"""A wire to PostgreSQL that can be cut exactly at a commit."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path


class Wire:
    """Passes bytes between clients on loopback and the server's socket.

    ``cut_before``: the next COMMIT never reaches the server. ``cut_after``: it does, and its answer is lost.
    ``freeze``: nothing passes any more and nobody is told, as when a cable is pulled; ``thaw``: it is plugged in again.
    """

    def __init__(self, server_socket: Path) -> None:
        self._server = server_socket
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cut_before = self.cut_after = False
        self.cuts = 0
        self._open = threading.Event()
        self._open.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """No more clients."""
        self._open.set()
        self._listener.close()

    def freeze(self) -> None:
        """Pull the cable."""
        self._open.clear()

    def thaw(self) -> None:
        """Plug it in again: what was under way arrives late."""
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.wait()
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._server))
            muted = threading.Event()
            threading.Thread(target=self._up, args=(client, server, muted), daemon=True).start()
            threading.Thread(target=self._down, args=(client, server, muted), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket, muted: threading.Event) -> None:
        while data := _read(client):
            self._open.wait()
            if b"COMMIT" in data and self.cut_before:
                self.cut_before = False
                self.cuts += 1
                break
            if b"COMMIT" in data and self.cut_after:
                self.cut_after = False
                self.cuts += 1
                muted.set()
            try:
                server.sendall(data)
            except OSError:
                break
        _shut(client, server)

    def _down(self, client: socket.socket, server: socket.socket, muted: threading.Event) -> None:
        while (data := _read(server)) and not muted.is_set():
            self._open.wait()
            try:
                client.sendall(data)
            except OSError:
                break
        _shut(client, server)


def _read(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
