"""Peers for this room: SSH servers on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
from ssh_peer import MemoryPins, SshPeer, write_key


@pytest.fixture
def pins() -> MemoryPins:
    return MemoryPins()


@pytest.fixture
def client_key_file(tmp_path: Path) -> Path:
    write_key(tmp_path / "id_client")
    return tmp_path / "id_client"


@pytest.fixture
def host_key(tmp_path: Path) -> paramiko.PKey:
    return write_key(tmp_path / "host_key")


@pytest.fixture
def start(host_key: paramiko.PKey, client_key_file: Path) -> Iterator[Callable[..., SshPeer]]:
    """Start a peer that lets the client's key in; all are ended afterwards."""
    peers: list[SshPeer] = []

    def make(**settings: object) -> SshPeer:
        settings.setdefault("client_key", paramiko.PKey.from_path(client_key_file))
        peers.append(SshPeer(settings.pop("host_key", host_key), settings.pop("client_key"), **settings))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()
