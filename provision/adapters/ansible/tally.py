"""From the lines of a wave's child process to one verdict per host. Pure.

The exit status of ansible-playbook is never asked: it hides a failure behind an unreachable host, and is 0 for a
play that matched nobody (facts: ansible §3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provision.adapters.ansible.variables import scrub
from provision.ports import WaveState, WaveVerdict

_GENERIC = ("non-zero return code", "One or more items failed", "All items completed")


class Tally:
    """Collects one wave. ``take`` each line, then ask ``verdicts``; it can be asked at any moment."""

    def __init__(self, hosts: Iterable[str], secrets: frozenset[str] = frozenset()) -> None:
        self._hosts = tuple(hosts)
        self._secrets = secrets
        self._begun: dict[str, str] = {}
        self._failed: dict[str, tuple[str, str]] = {}
        self._dark: dict[str, tuple[str, str]] = {}
        self._items: dict[str, str] = {}
        self._changed: dict[str, int] = {}
        self._stats: Mapping[str, Mapping[str, int]] | None = None
        self._said: list[str] = []
        self.ended: str | None = None
        self.garbled: list[str] = []

    def take(self, line: Mapping[str, Any]) -> None:
        """One line of the child; a line of unknown kind is kept in ``garbled``."""
        host, task = str(line.get("host", "")), str(line.get("task", ""))
        match line.get("e"):
            case "start":
                self._begun[host] = task
                self._items.pop(host, None)
            case "ok":
                self._changed[host] = self._changed.get(host, 0) + bool(line.get("changed"))
            case "item":
                self._items[host] = self._words(line)
            case "failed":
                if not line.get("ignored"):
                    self._failed[host] = (task, self._detail(host, line))
            case "unreachable":
                self._dark[host] = (task, self._words(line))
            case "stats":
                self._stats = line["stats"]
            case "said":
                self._said.append(self._words(line))
            case "end":
                self.ended = str(line.get("status"))
            case _:
                self.garbled.append(str(line)[:200])

    def verdicts(self, *, cause: str = "") -> dict[str, WaveVerdict]:
        """One verdict per host. ``cause`` says why the wave has no summary of its own, if it has none."""
        cause = scrub(cause, self._secrets) or " ".join(self._said[-3:]) or "the playbook ended before its summary"
        return {host: self._judge(host, cause) for host in self._hosts}

    def failures(self) -> list[dict[str, str]]:
        """What went wrong, scrubbed, for the artifact that outlives the wave."""
        return [
            {"host": host, "state": state, "task": task, "why": why}
            for state, table in (("failed", self._failed), ("unreachable", self._dark))
            for host, (task, why) in sorted(table.items())
        ]

    def _judge(self, host: str, cause: str) -> WaveVerdict:
        task, why = self._dark.get(host) or self._failed.get(host) or (self._begun.get(host, ""), "")
        if self._stats is None:
            if host in self._dark:
                return WaveVerdict(WaveState.UNREACHABLE, task, why, self._changed.get(host, 0))
            if host in self._begun:
                return WaveVerdict(WaveState.FAILED, task, why or cause, self._changed.get(host, 0))
            return WaveVerdict(WaveState.NOT_ATTEMPTED, why=cause)
        count = {kind: by_host.get(host, 0) for kind, by_host in self._stats.items()}
        changed = count.get("changed", 0)
        if count.get("dark"):
            return WaveVerdict(WaveState.UNREACHABLE, task, why or "unreachable", changed)
        if count.get("failures"):
            return WaveVerdict(WaveState.FAILED, task, why or "a task failed", changed)
        if not any(count.get(kind) for kind in ("ok", "changed", "skipped")):
            return WaveVerdict(WaveState.NOT_ATTEMPTED, why=" ".join(self._said[-3:]) or "no play reached this host")
        return WaveVerdict(WaveState.OK, changed=changed)

    def _words(self, line: Mapping[str, Any]) -> str:
        return scrub(str(line.get("msg", "")), self._secrets)

    def _detail(self, host: str, line: Mapping[str, Any]) -> str:
        """A task's message; where Ansible's own is empty talk, the failed item's instead."""
        words = self._words(line)
        if words.startswith(_GENERIC) and self._items.get(host):
            return self._items[host]
        return words
