"""A process that has imported the whole program and forks for each command: half of what a short command costs.

Each command is still a process of its own with its own session, environment, folder and exit status. Commands that a
test kills, signals or reads while they run are started from scratch (``Site.start``).

Run as a program it takes one JSON request a line on stdin and answers each with one on stdout, when it has ended.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

PACKAGES = ("app", "cli", "store", "report", "adapters.redfish", "adapters.maas", "adapters.ansible", "adapters.ssh")
OTHERS = ("alembic.command", "sqlalchemy.dialects.sqlite", "rich.live", "rich.table", "paramiko", "aiohttp")


class Warm:
    """The forking process of this test process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[int]] = {}
        self._process: subprocess.Popen[str] | None = None
        self._count = 0

    async def run(self, argv: list[str], env: dict[str, str], cwd: Path, out: Path, err: Path, limit_s: float) -> int:
        """Run ``provision ARGV`` to its end; its exit status. What outlives ``limit_s`` is killed by its id."""
        number, ended = self._send(argv=argv, env=env, cwd=str(cwd), out=str(out), err=str(err))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(ended), limit_s)
        except BaseException:
            self._send(kill=number)
            raise

    def _send(self, **request: Any) -> tuple[int, Future[int]]:
        with self._lock:
            if self._process is None:
                self._process = self._begin()
            self._count += 1
            ended: Future[int] = Future()
            if "argv" in request:
                self._waiting[self._count] = ended
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"number": self._count, **request}) + "\n")
            self._process.stdin.flush()
            return self._count, ended

    def _begin(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        atexit.register(self._end, process)
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            ended = self._waiting.pop(answer["number"])
            if ended.set_running_or_notify_cancel():
                ended.set_result(answer["status"])

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(10)


def _load() -> None:
    """Import everything; no thread may be running when it forks."""
    for name in OTHERS:
        importlib.import_module(name)
    for name in PACKAGES:
        package = importlib.import_module(f"provision.{name}")
        for module in pkgutil.iter_modules(package.__path__, f"provision.{name}."):
            if not module.ispkg:
                importlib.import_module(module.name)
    importlib.import_module("provision.triage.rules").packaged_rules()
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1


def _become(request: dict[str, Any]) -> None:
    """Be this command; ends with SystemExit, so that the interpreter leaves as it always does."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["out"], os.O_WRONLY | os.O_CREAT),
        (2, request["err"], os.O_WRONLY | os.O_CREAT),
    ):
        handle = os.open(path, flags, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    random.seed()
    sys.argv = ["provision", *request["argv"]]
    importlib.import_module("provision.cli").main(request["argv"])


def _serve() -> dict[str, Any] | None:
    """Fork for each request; in a child, the request that it is to become."""
    wake, rings = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(rings)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, int] = {}
    said = b""
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            while children:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                answer = {"number": children.pop(pid), "status": os.waitstatus_to_exitcode(status)}
                os.write(1, json.dumps(answer).encode() + b"\n")
        if 0 not in ready:
            continue
        more = os.read(0, 1 << 16)
        if not more:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            return None
        *lines, said = (said + more).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "kill" in request:
                for pid in [pid for pid, number in children.items() if number == request["kill"]]:
                    os.kill(pid, signal.SIGKILL)
                continue
            pid = os.fork()
            if not pid:
                os.close(wake)
                os.close(rings)
                return dict(request)
            children[pid] = request["number"]


if __name__ == "__main__":
    _load()
    if (mine := _serve()) is not None:
        _become(mine)
