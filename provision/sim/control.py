"""Talking to a running simulation: faults, repairs, counts. Standard library only, so that commands stay quick."""

from __future__ import annotations

import http.client
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.sim.parts import SimError

FILE = "control.json"
_DEADLINE_S = 30.0


@dataclass(frozen=True)
class Control:
    """The control channel of one simulation: loopback HTTP, opened by a token that only its owner can read."""

    directory: Path
    host: str
    port: int
    pid: int
    token: str = field(repr=False)

    @classmethod
    def open(cls, directory: Path) -> Control:
        """Find the simulation that runs in this folder. Raises SimError when none does."""
        try:
            told = json.loads((directory / FILE).read_text(encoding="utf-8"))
            control = cls(directory, str(told["host"]), int(told["port"]), int(told["pid"]), str(told["token"]))
        except FileNotFoundError:
            raise SimError(f"no simulation runs in {directory}; start one: provision sim --dir {directory}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SimError(f"{directory / FILE} cannot be read ({error}); start the simulation again") from None
        return control

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """GET, or POST with a body. Raises SimError with the simulation's own sentence, or when it is gone."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_DEADLINE_S)
        try:
            method = "GET" if body is None else "POST"
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            answer = json.loads(reply.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SimError(
                f"the simulation in {self.directory} does not answer ({error}); "
                f"start it again: provision sim --dir {self.directory}"
            ) from None
        finally:
            connection.close()
        if reply.status != 200:
            raise SimError(str(answer.get("error", answer)))
        return answer

    def fault(self, node: str, kind: str, arg: str = "") -> str:
        """Let a fault strike. Returns it with its argument filled in: ``psu_cord_out:2``."""
        return str(self.ask("/fault", {"node": node, "kind": kind, "arg": arg})["fault"])

    def repair(self, node: str, kind: str | None = None) -> list[str]:
        """Repair all faults of a node, or those of one kind. Returns what was repaired."""
        return [str(item) for item in self.ask("/repair", {"node": node, "kind": kind})["repaired"]]

    def writes(self, *, reset: bool = False) -> dict[str, dict[str, int]]:
        """Writes that each machine received, by name; with ``reset`` counting starts anew afterwards."""
        answer: dict[str, dict[str, int]] = self.ask("/writes", {"reset": reset})["writes"]
        return answer

    def show(self) -> dict[str, Any]:
        """What the simulation is, and how each machine stands."""
        answer: dict[str, Any] = self.ask("/show")
        return answer

    def stop(self, *, deadline_s: float = 20.0) -> None:
        """End the simulation and wait until its process is gone. Raises SimError if it stays."""
        self.ask("/stop", {})
        if self.pid == os.getpid():
            return
        end = time.monotonic() + deadline_s
        while _alive(self.pid) and (self.directory / FILE).exists():
            if time.monotonic() > end:
                raise SimError(f"the simulation (process {self.pid}) has not ended after {deadline_s:g} s")
            time.sleep(0.05)


def running_in(directory: Path) -> Control | None:
    """The simulation that runs in this folder and answers, or None."""
    try:
        control = Control.open(directory)
        control.show()
    except SimError:
        return None
    return control


def split_fault(text: str) -> tuple[str, str]:
    """``psu_cord_out:2`` as kind and argument."""
    kind, _, arg = text.partition(":")
    return kind, arg


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
