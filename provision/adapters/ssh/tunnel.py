"""A way to a host through another program, usually ``ssh -W`` to a jump host: OpenSSH's ProxyCommand."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading

from provision.model.node import Address


class Tunnel:
    """A running command whose standard input and output are ``sock``. It ends when that socket is closed."""

    def __init__(self, command: str, address: Address, user: str) -> None:
        """Start it; ``%h``, ``%p`` and ``%r`` stand for the host, its port and the user, ``%%`` for a percent sign.

        Raises:
            OSError: no program can be started here.
        """
        self.sock, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - read when there is something to explain, see release
        with theirs:
            try:
                self._process = subprocess.Popen(
                    # Through a shell, as ssh does it: people write redirections there.
                    ["/bin/sh", "-c", f"exec {_filled(command, address, user)}"],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._said,
                    start_new_session=True,
                )
            except OSError:
                self.sock.close()
                self._said.close()
                raise
        threading.Thread(target=self._process.wait, daemon=True).start()

    def words(self) -> str:
        """What it said last on its standard error."""
        with contextlib.suppress(OSError, ValueError):
            end = self._said.seek(0, os.SEEK_END)
            self._said.seek(max(0, end - 2000))
            lines = self._said.read().decode(errors="replace").strip().splitlines()
            return ", ".join(line.strip() for line in lines[-2:])[:300]
        return ""

    def release(self) -> None:
        """Nobody wants its words any more; the command goes on."""
        self._said.close()

    def end(self) -> None:
        """End it, whatever became of the socket."""
        self.sock.close()
        if self._process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGTERM)


def _filled(command: str, address: Address, user: str) -> str:
    values = {"h": address.host, "p": str(address.port), "r": user, "%": "%"}
    return re.sub(r"%([hpr%])", lambda match: values[match.group(1)], command)
