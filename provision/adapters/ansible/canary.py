"""Who goes first with playbooks that have converged on no host yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from provision.ports import WaveState, WaveVerdict

_SIZES = (1, 2)


class Canaries:
    """One host goes first, then two, then all; as soon as one of them has converged, all.

    Three that failed at the same task speak against the playbooks, the mirror or the site, not against three
    machines: then nobody else is touched. ``above``: so few hosts need no canary; 0 switches it off. What was proved
    is proved for one set of playbooks (``tree``).
    """

    def __init__(self, above: int) -> None:
        self._above = above
        self._tree: str | None = None
        self._failed: list[tuple[str, WaveVerdict]] = []
        self._proved = False
        self._step = 0
        self.out = False

    def take(self, tree: str | None, waiting: int) -> int | None:
        """How many of ``waiting`` hosts go first, None for all. Until ``judge`` nobody else should go."""
        if tree != self._tree:
            self._tree, self._proved = tree, False
            self._forget()
        if not self._above or self._proved or (waiting <= self._above and not self._step) or self._step >= len(_SIZES):
            return None
        self.out = True
        self._step += 1
        return _SIZES[self._step - 1]

    def judge(self, verdicts: Iterable[tuple[str, WaveVerdict]]) -> None:
        """What became of those that went."""
        told = list(verdicts)
        if any(verdict.state is WaveState.OK for _, verdict in told):
            self._proved = True
        elif self.out:
            self._failed += [(host, verdict) for host, verdict in told if verdict.state is WaveState.FAILED]
        self.out = False

    def refusal(self) -> str:
        """Why nobody else goes, or nothing. Said once: whoever comes after it starts with a canary again."""
        tasks = {verdict.task for _, verdict in self._failed}
        if self._proved or len(self._failed) < sum(_SIZES) or len(tasks) != 1:
            return ""
        hosts = ", ".join(host for host, _ in self._failed)
        why = f"not begun, because {hosts} went first and all failed at {tasks.pop()!r}: {self._failed[-1][1].why}"
        self._forget()
        return why

    def _forget(self) -> None:
        self._failed, self._step = [], 0
