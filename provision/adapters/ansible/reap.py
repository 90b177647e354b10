"""Find and end every process of a wave.

ansible-core 2.19 starts its workers in sessions of their own, so killing the process group leaves them alive, and
an ssh ControlPersist master overwrites its environment with its title. A wave's processes are therefore known by
either of two marks: ``PROVISION_RUN=<id>`` in their environment, or the wave's private folder in their command line
(the title of an ssh master shows its control socket, which lies there).
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

TAG = "PROVISION_RUN"
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Marks:
    """What makes a process one of ours; an empty ``tag`` is no mark.

    ``spare`` are process ids that are never ended (the caller's own).
    """

    tag: str
    folder: str
    spare: frozenset[int] = frozenset()

    def owns(self, pid: int) -> bool:
        """True if the live process ``pid`` carries one of the marks. A zombie carries none."""
        try:
            environ = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
            if self.tag and f"{TAG}={self.tag}".encode() in environ:
                return True
            return self.folder.encode() in (_PROC / str(pid) / "cmdline").read_bytes()
        except OSError:
            return False


def find(marks: Marks) -> list[int]:
    """Process ids that carry the marks, without ``marks.spare``. Empty where there is no /proc."""
    if not _PROC.is_dir():
        return []
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [pid for pid in pids if pid not in marks.spare and marks.owns(pid)]


def reap(marks: Marks, *, patience_s: float = 5.0, subreaper: bool = False) -> list[int]:
    """Kill until nothing carries the marks, at most ``patience_s`` seconds long. Returns what was left over.

    Killed at once and without a TERM first: a worker that dies politely may start another one before it goes.
    ``subreaper`` also takes away dead children; only for a process that has no child whose exit somebody awaits.
    """
    until = time.monotonic() + patience_s
    while left := find(marks):
        for pid in left:
            _kill(pid, marks)
        if subreaper:
            _collect_children()
        if time.monotonic() > until:
            return find(marks)
        time.sleep(0.02)
    return []


def _kill(pid: int, marks: Marks) -> None:
    """Kill ``pid`` unless its number went to a stranger between the scan and the signal."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if marks.owns(pid):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return
    finally:
        os.close(handle)


def _collect_children() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except OSError:
        return
