"""The whole command line against the simulator, over real sockets.

The simulator runs in the test's own process, so that a test can look into its world; every command of `provision` is a
process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from provision.sim.run import Fleet, start_fleet
from tests.journeys.warm import Warm

DEADLINE_S = 100
WARM = Warm()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.journey)


@dataclass(frozen=True)
class Answer:
    """What one command gave."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON value."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def ended(self) -> dict[str, str]:
        """How a run ended for each node, from its own lines: outcome by name."""
        return {line["node"]: line["outcome"] for line in self.lines if line["event"] == "node-ended"}


class Site:
    """A running fleet and the commands typed at it."""

    def __init__(self, fleet: Fleet, state: Path) -> None:
        self.fleet = fleet
        self.world = fleet.world
        self.state = state
        self.from_scratch = False
        """Start every command as an operator's shell does; otherwise those that run to their end are forked."""

    def _typed(self, argv: tuple[str, ...], env: dict[str, str] | None) -> tuple[list[str], dict[str, str], Path]:
        """Arguments, environment and folder of a command: an operator's own, not the checkout with its ansible.cfg."""
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("PROVISION_", "ANSIBLE_"))}
        where = () if argv[0] == "sim" else ("-i", str(self.fleet.inventory), "--state", str(self.state))
        return [*argv, *where], plain | (env or {}), self.fleet.inventory.parent

    async def start(self, *argv: str, env: dict[str, str] | None = None) -> asyncio.subprocess.Process:
        """Begin a command; the caller waits for it or kills it."""
        typed, environment, folder = self._typed(argv, env)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "provision",
            *typed,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )

    async def provision(self, *argv: str, env: dict[str, str] | None = None) -> Answer:
        """Run a command to its end. A traceback in its output fails the test, whatever it was."""
        answer = await (self._from_scratch if self.from_scratch else self._forked)(argv, env)
        # A failed script on a machine may well print a traceback; ours would stand on stderr at the start of a line.
        assert not any(line.startswith("Traceback") for line in answer.err.splitlines()), answer.err
        assert "this is a bug of ours" not in answer.err, answer.err
        return answer

    async def _forked(self, argv: tuple[str, ...], env: dict[str, str] | None) -> Answer:
        typed, environment, folder = self._typed(argv, env)
        with TemporaryDirectory() as place:
            out, err = Path(place, "out"), Path(place, "err")
            status = await WARM.run(typed, environment, folder, out, err, DEADLINE_S)
            return Answer(status, *(_read(path) for path in (out, err)))

    async def _from_scratch(self, argv: tuple[str, ...], env: dict[str, str] | None) -> Answer:
        process = await self.start(*argv, env=env)
        try:
            out, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        except BaseException:
            kill(process)
            await process.wait()
            raise
        return Answer(process.returncode or 0, out.decode(), err.decode())

    async def bringup(self, target: str = "all") -> Answer:
        """`provision bringup TARGET --output json`."""
        return await self.provision("bringup", target, "--output", "json")

    async def tickets(self, *, everything: bool = False) -> list[dict[str, Any]]:
        """Tickets as the command prints them."""
        argv = ("tickets", "list", "--output", "json", *(("--all",) if everything else ()))
        return list((await self.provision(*argv)).json)

    async def outcomes(self) -> dict[str, str]:
        """Outcome of each node as `status` prints it."""
        return {
            row["node"]: row["outcome"]
            for row in (await self.provision("status", "--offline", "--output", "json")).json
        }

    def writes(self) -> int:
        """Writes that all machines have received so far."""
        return sum(sum(machine.writes.values()) for machine in self.world.machines.values())


def _read(path: Path) -> str:
    return path.read_text("utf-8")


def kill(process: asyncio.subprocess.Process) -> None:
    """SIGKILL the command alone, by its id; what it started is reaped by its successor."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


Start = Callable[..., Any]


@pytest.fixture
async def site_of(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a fleet for this test: ``site = await site_of(nodes=1, faults=[("gpu-12-01", "psu_cord_out:2")])``."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> Site:
            options.setdefault("nodes", 1)
            options.setdefault("speed", 600.0)
            fleet = await stack.enter_async_context(_fleet(tmp_path / "sim", options))
            return Site(fleet, tmp_path / "state")

        yield start


@asynccontextmanager
async def _fleet(directory: Path, options: dict[str, Any]) -> AsyncIterator[Fleet]:
    async with start_fleet(directory, **options) as fleet:
        yield fleet
