"""What all clients of a benchmark share: the job they are given, the report they write. Standard library only."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

THREADS = 64


def job() -> dict[str, Any]:
    """Nodes, user and password, from the file that the first argument names."""
    return dict(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))


class Report:
    """One line of JSON for each BMC, written at once, so that a client that is ended has reported what it did."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()

    def done(self, name: str, seconds: float, macs: int, ok: bool, error: str) -> None:
        """``ok`` is what the client believes."""
        line = {"name": name, "s": seconds, "macs": macs, "ok": ok, "error": error[:300]}
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def in_threads(work: Callable[[dict[str, Any], dict[str, Any]], tuple[int, bool]]) -> None:
    """Run ``work(node, job)`` for every BMC in threads; it gives the number of MACs and whether it believes itself."""
    told, report = job(), Report(sys.argv[2])

    def one(node: dict[str, Any]) -> None:
        begun, macs, ok, error = time.monotonic(), 0, False, ""
        try:
            macs, ok = work(node, told)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
        report.done(node["name"], time.monotonic() - begun, macs, ok, error or ("" if ok else "not stored"))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, told["nodes"]))
