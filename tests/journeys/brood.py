"""A process and everything it starts, watched through /proc while it runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

EVERY_S = 0.02


class Brood:
    """Samples a process and its descendants; remembers each with its start time, and what it showed of itself.

    ``shown`` holds every command line and every environment that was seen, as bytes.
    """

    def __init__(self, pid: int, *, read: bool = False) -> None:
        self._root = pid
        self._read = read
        self._seen: dict[tuple[int, str], str] = {}
        self.shown: set[bytes] = set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def names(self) -> set[str]:
        """Command lines of everything that was seen."""
        return set(self._seen.values())

    def look(self) -> None:
        """Take one sample."""
        known = [pid for pid, start in self._seen if _start(pid) == start]
        todo, done = [self._root, *known], set()
        while todo:
            pid = todo.pop()
            if pid in done or not (start := _start(pid)):
                continue
            done.add(pid)
            folder = Path(f"/proc/{pid}")
            with suppress(OSError):
                line = (folder / "cmdline").read_bytes()
                if line or (pid, start) not in self._seen:
                    self._seen[pid, start] = line.replace(b"\0", b" ").decode(errors="replace").strip()
                if self._read:
                    self.shown |= {line, (folder / "environ").read_bytes()}
            # A child belongs to the thread that forked it.
            for thread in folder.glob("task/*/children"):
                with suppress(OSError):
                    todo += [int(child) for child in thread.read_text().split()]

    def alive(self) -> list[str]:
        """Command lines of those that are still there, the process itself included; zombies are not."""
        return [f"{pid} {line}" for (pid, start), line in self._seen.items() if _start(pid) == start]

    async def gone(self, patience_s: float = 5.0) -> list[str]:
        """Who is still there after a while."""
        for _ in range(round(patience_s / 0.1)):
            if not self.alive():
                break
            await asyncio.sleep(0.1)
        return self.alive()

    async def _watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(EVERY_S)


def _start(pid: int) -> str:
    """The start time of a live process in clock ticks; empty if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in {"Z", "X"} else fields[19]
