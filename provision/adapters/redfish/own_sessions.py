"""Our own sessions on BMCs, written down, so that those of runs that were killed can be ended by the next one.

A BMC has a handful of places for sessions and keeps a forgotten one for half an hour. Only what we wrote down ourselves
is ever ended: a session of the same account may belong to another tool.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from provision.ports import Pins

PIN_KIND = "bmc-session"
_MOST = 16
# Sessions that some client of this process uses at the moment: (BMC, path).
_in_use: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class OwnSession:
    """One login of ours: where it is on the BMC, and which process made it. ``created`` is the BMC's own word."""

    path: str
    user: str
    created: str
    host: str
    pid: int
    born: str = ""

    @classmethod
    def of_this_process(cls, path: str, user: str, created: str) -> Self:
        """A session that was opened a moment ago."""
        return cls(path, user, created, socket.gethostname(), os.getpid(), _born(os.getpid()))

    @property
    def orphaned(self) -> bool:
        """True if its process ran on this computer and is gone. Of other computers nothing is known."""
        if self.host != socket.gethostname() or self.pid == os.getpid():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False  # somebody else's process has the number; whose session it was cannot be told
        return bool(self.born) and _born(self.pid) not in {"", self.born}

    def is_it(self, shown: Mapping[str, Any]) -> bool:
        """True unless the BMC shows another user or moment under this address: after a reset it counts from one."""
        user, created = shown.get("UserName"), shown.get("CreatedTime")
        return user in {None, "", self.user} and (not self.created or created in {None, "", self.created})


def _born(pid: int) -> str:
    """Since when the process runs, in ticks since boot (proc(5), field 22); empty where nobody says."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError, UnicodeDecodeError):
        return ""


class OwnSessions:
    """The written list for one BMC, in the store's pins."""

    def __init__(self, pins: Pins, address: str) -> None:
        self._pins = pins
        self._address = address

    def all(self) -> tuple[OwnSession, ...]:
        """What is written down; what cannot be read counts as nothing."""
        raw = self._pins.get_pin(PIN_KIND, self._address)
        try:
            return tuple(OwnSession(**item) for item in json.loads(raw)) if raw else ()
        except (ValueError, TypeError):
            return ()

    def is_stale(self, session: OwnSession) -> bool:
        """True if nobody uses it any more: its process is gone, or this process could not end it (a dead BMC)."""
        if session.pid == os.getpid() and session.host == socket.gethostname():
            return session.born == _born(session.pid) and (self._address, session.path) not in _in_use
        return session.orphaned

    def note(self, session: OwnSession) -> None:
        """Write a session down beside those that stand there at this moment."""
        _in_use.add((self._address, session.path))
        self._write((*(item for item in self.all() if item.path != session.path), session))

    def leave(self, path: str) -> None:
        """This process uses it no more, whether the BMC heard of it or not."""
        _in_use.discard((self._address, path))

    def forget(self, path: str) -> None:
        """It was ended."""
        known = self.all()
        kept = tuple(item for item in known if item.path != path)
        if kept != known:
            self._write(kept)

    def _write(self, sessions: tuple[OwnSession, ...]) -> None:
        self._pins.set_pin(PIN_KIND, self._address, json.dumps([asdict(item) for item in sessions[-_MOST:]]))
