"""Playbook waves against the SSH servers of the neighbouring tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ssh_peer import MemoryPins, SshPeer, node, public_line, write_key

from provision.adapters.ansible import AnsibleWaves
from provision.model.node import Node
from provision.ports import WaveState, WaveVerdict

GOING_ON = {WaveState.WAITING, WaveState.RUNNING}


class RealClock:
    """The clock on the wall."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Bench:
    """Hosts on loopback, a folder for a playbook, and waves over both."""

    folder: Path
    pins: MemoryPins = field(default_factory=MemoryPins)
    peers: dict[str, SshPeer] = field(default_factory=dict)
    made: list[AnsibleWaves] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client_key = write_key(self.folder / "id_client")
        self.host_key = write_key(self.folder / "host_key")
        (self.folder / "playbooks").mkdir()

    @property
    def artifacts(self) -> Path:
        return self.folder / "waves"

    def host(self, name: str, **settings: object) -> SshPeer:
        """Start a host and pin its key."""
        self.pins.set_pin("ssh-host-key", name, public_line(self.host_key))
        self.peers[name] = SshPeer(self.host_key, self.client_key, **settings)
        return self.peers[name]

    def playbook(self, *tasks: str) -> Path:
        """A playbook of raw tasks: ``name: command`` each, with further keywords on lines of their own."""
        path = self.folder / "playbooks" / "play.yml"
        lines = ["- name: Raw", "  hosts: all", "  gather_facts: false", "  strategy: ansible.builtin.host_pinned"]
        lines += ["  tasks:"]
        for task in tasks:
            first, *more = task.splitlines()
            name, command = first.split(": ", 1)
            lines += [
                f"    - name: {name}",
                f"      ansible.builtin.raw: {command}",
                *(f"      {line}" for line in more),
            ]
        path.write_text("\n".join(lines) + "\n")
        return path

    def waves(
        self, playbook: Path, variables: Callable[[Node], Mapping[str, object]] = lambda _: {}, **settings: object
    ) -> AnsibleWaves:
        settings = {"window_s": 0.05, "connect_timeout_s": 2, **settings}
        self.made.append(
            AnsibleWaves(
                playbook,
                variables,
                self.pins,
                ssh_user="root",
                ssh_key_file=self.folder / "id_client",
                clock=RealClock(),
                artifacts_dir=self.artifacts,
                **settings,
            )
        )
        return self.made[-1]

    async def run(self, waves: AnsibleWaves, *names: str) -> list[WaveVerdict]:
        """Let these hosts join and wait for their verdicts."""
        for name in names:
            waves.join(node(name), self.peers[name].address)
        return await self.settled(waves, *names)

    async def settled(self, waves: AnsibleWaves, *names: str) -> list[WaveVerdict]:
        while any(waves.verdict(name).state in GOING_ON for name in names):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return [waves.verdict(name) for name in names]
