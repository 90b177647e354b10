"""The port ``Shell`` against real SSH servers on loopback."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import paramiko
import pytest
from ssh_peer import MemoryPins, SshPeer, node, public_line, write_key

from provision.adapters.ssh import ParamikoShell
from provision.adapters.ssh.hostkeys import fingerprint, new_key
from provision.errors import (
    CredentialRefusedError,
    GarbledError,
    MisconfiguredError,
    RefusedError,
    UnavailableError,
)
from provision.model.node import Address

Start = Callable[..., SshPeer]
MARKER = "cat /etc/provision/marker.json"


@pytest.fixture
async def shell(pins: MemoryPins, client_key_file: Path, host_key: paramiko.PKey) -> AsyncIterator[ParamikoShell]:
    """A shell that knows the host key of gpu-12-01."""
    pins.set_pin("ssh-host-key", "gpu-12-01", public_line(host_key))
    shell = ParamikoShell(pins, user="root", key_file=client_key_file, connect_timeout_s=2)
    yield shell
    await shell.close()


async def test_a_command_gives_status_and_both_outputs(shell: ParamikoShell, start: Start) -> None:
    result = await shell.run(node(), start().address, "echo out; echo err >&2; exit 3", deadline_s=5)
    assert (result.status, result.stdout, result.stderr) == (3, "out\n", "err\n")


async def test_one_connection_serves_many_commands_and_is_renewed_when_it_broke(
    shell: ParamikoShell, start: Start
) -> None:
    peer = start()
    results = await asyncio.gather(*(shell.run(node(), peer.address, f"echo {n}", deadline_s=5) for n in range(8)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(8)]
    assert peer.connections == 1
    peer.drop_connections()
    while shell._hosts["gpu-12-01"].transport.is_active():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert (await shell.run(node(), peer.address, "echo again", deadline_s=5)).stdout == "again\n"
    assert peer.connections == 2


async def test_output_is_cut_at_one_megabyte_and_the_command_still_ends(shell: ParamikoShell, start: Start) -> None:
    result = await shell.run(node(), start().address, "head -c 3000000 /dev/zero | tr '\\0' x; exit 4", deadline_s=20)
    assert (len(result.stdout), result.status) == (1024 * 1024, 4)


async def test_a_command_over_its_deadline_is_unavailable_and_the_next_one_works(
    shell: ParamikoShell, start: Start
) -> None:
    peer, began = start(), time.monotonic()
    with pytest.raises(UnavailableError, match=r"no end within 0\.3 s"):
        await shell.run(node(), peer.address, "sleep 20", deadline_s=0.3)
    assert time.monotonic() - began < 3
    assert (await shell.run(node(), peer.address, "echo on", deadline_s=5)).stdout == "on\n"


async def test_another_host_key_is_refused_with_both_fingerprints_before_anybody_logs_in(
    shell: ParamikoShell, start: Start, host_key: paramiko.PKey, tmp_path: Path
) -> None:
    other = write_key(tmp_path / "other")
    peer = start(host_key=other)
    with pytest.raises(RefusedError) as caught:
        await shell.run(node(), peer.address, "true", deadline_s=5)
    assert fingerprint(public_line(host_key)) in str(caught.value)
    assert fingerprint(public_line(other)) in str(caught.value)
    assert (caught.value.code, peer.logins) == ("host-key", [])


async def test_a_host_without_the_pinned_type_of_key_is_refused(shell: ParamikoShell, start: Start) -> None:
    peer = start(host_key=paramiko.RSAKey.generate(2048))
    with pytest.raises(RefusedError, match="no key of type ssh-ed25519"):
        await shell.run(node(), peer.address, "true", deadline_s=5)


async def test_an_unknown_key_is_pinned_only_if_adoption_is_allowed(
    pins: MemoryPins, client_key_file: Path, start: Start, host_key: paramiko.PKey, tmp_path: Path
) -> None:
    peer = start()
    strict = ParamikoShell(pins, user="root", key_file=client_key_file)
    with pytest.raises(RefusedError, match="no host key is pinned"):
        await strict.run(node(), peer.address, "true", deadline_s=5)
    assert pins.pins == {}
    adopting = ParamikoShell(pins, user="root", key_file=client_key_file, adopt=True)
    assert (await adopting.run(node(), peer.address, "true", deadline_s=5)).status == 0
    assert pins.get_pin("ssh-host-key", "gpu-12-01") == public_line(host_key)
    stranger = start(host_key=write_key(tmp_path / "stranger"))
    with pytest.raises(RefusedError, match="pinned is SHA256:"):
        await adopting.run(node(), stranger.address, "true", deadline_s=5)
    await strict.close()
    await adopting.close()


async def test_a_user_that_is_not_let_in_is_a_refused_credential_after_one_try(
    shell: ParamikoShell, start: Start, tmp_path: Path
) -> None:
    peer = start(client_key=write_key(tmp_path / "somebody-else"))
    with pytest.raises(CredentialRefusedError, match="user root with key"):
        await shell.run(node(), peer.address, "true", deadline_s=5)
    assert [good for _, good in peer.logins] == [False]


async def test_nobody_listens_or_nobody_speaks_is_unavailable(shell: ParamikoShell, start: Start) -> None:
    peer = start()
    peer.close()
    with pytest.raises(UnavailableError, match="Connection refused"):
        await shell.run(node(), peer.address, "true", deadline_s=5)
    began = time.monotonic()
    with pytest.raises(UnavailableError, match="may still be starting"):
        await shell.run(node(), start(mute=True).address, "true", deadline_s=5)
    assert time.monotonic() - began < 8
    with pytest.raises(UnavailableError):
        await shell.run(node(), Address("no such host.invalid"), "true", deadline_s=5)


@pytest.mark.parametrize("content", [None, b"", b"not a key", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
async def test_a_key_file_that_is_none_is_our_mistake(
    content: bytes | None, pins: MemoryPins, start: Start, tmp_path: Path, host_key: paramiko.PKey
) -> None:
    path = tmp_path / "id_broken"
    if content is not None:
        path.write_bytes(content)
    peer = start()
    shell = ParamikoShell(pins, user="root", key_file=path, adopt=True)
    with pytest.raises(MisconfiguredError, match=r"ssh key file .*id_broken"):
        await shell.run(node(), peer.address, "true", deadline_s=5)
    assert peer.connections == 0
    await shell.close()


async def test_marker_of_a_converged_host(shell: ParamikoShell, start: Start) -> None:
    told = {
        "playbooks": "ab12",
        "ok": True,
        "finished_at": "2026-11-29T19:05:01+00:00",
        "checks": [{"name": "disk", "ok": True, "why": "12 %"}, {"name": "clock", "ok": None, "why": "no chrony"}],
    }
    marker = await shell.marker(node(), start(answers={MARKER: (0, json.dumps(told).encode(), b"")}).address)
    assert marker is not None
    assert (marker.playbooks, marker.ok, marker.checks) == ("ab12", True, (("disk", True, "12 %"),))
    assert marker.finished_at is not None
    assert marker.finished_at.utcoffset() is not None


async def test_no_marker_and_a_marker_that_may_not_be_read(shell: ParamikoShell, start: Start) -> None:
    peer = start(answers={MARKER: (1, b"", b"cat: /etc/provision/marker.json: No such file or directory\n")})
    assert await shell.marker(node(), peer.address) is None
    peer.answers[MARKER] = (1, b"", b"cat: /etc/provision/marker.json: Permission denied\n")
    with pytest.raises(RefusedError, match="Permission denied"):
        await shell.marker(node(), peer.address)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b'{"ok": true}',
        b'{"playbooks": 3, "ok": true}',
        b'{"playbooks": "a", "ok": "yes"}',
        b'{"playbooks": "a", "ok": true, "finished_at": "yesterday"}',
        b'{"playbooks": "a", "ok": true, "finished_at": 5}',
        b'{"playbooks": "a", "ok": true, "checks": 5}',
        b'{"playbooks": "a", "ok": true, "checks": [{"name": "x"}]}',
        b'{"playbooks": "a", "ok": true, "checks": [{"name": "x", "ok": "no"}]}',
        b"\xff\xfe\x00",
    ],
)
async def test_a_garbled_marker_says_so_and_keeps_the_payload(text: bytes, shell: ParamikoShell, start: Start) -> None:
    with pytest.raises(GarbledError, match=r"read /etc/provision/marker\.json") as caught:
        await shell.marker(node(), start(answers={MARKER: (0, text, b"")}).address)
    assert caught.value.payload.decode(errors="replace") == text.decode(errors="replace")[:200]


async def test_become_runs_the_whole_command_under_sudo(pins: MemoryPins, client_key_file: Path, start: Start) -> None:
    wrapped = "sudo -n -- /bin/sh -c 'echo \"a b\"; id'"
    peer = start(answers={wrapped: (0, b"yes", b"")})
    shell = ParamikoShell(pins, user="root", key_file=client_key_file, adopt=True, become=True)
    assert (await shell.run(node(), peer.address, 'echo "a b"; id', deadline_s=5)).stdout == "yes"
    await shell.close()


async def test_a_new_host_key_is_pinned_and_its_private_half_stays_secret(
    pins: MemoryPins, client_key_file: Path, start: Start, tmp_path: Path
) -> None:
    shell = ParamikoShell(pins, user="root", key_file=client_key_file)
    private = await shell.new_host_key("gpu-12-01")
    assert "PRIVATE" not in f"{private} {private!r} {shell.__dict__} {pins.pins}"
    path = tmp_path / "ssh_host_ed25519_key"
    path.touch(mode=0o600)
    path.write_text(private.reveal())
    peer = start(host_key=paramiko.PKey.from_path(path))
    assert (await shell.run(node(), peer.address, "true", deadline_s=5)).status == 0
    await shell.close()


def test_fingerprints_are_those_of_ssh_keygen(tmp_path: Path) -> None:
    _, public = new_key()
    (tmp_path / "key.pub").write_text(public + "\n")
    try:
        said = subprocess.run(["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("ssh-keygen is not installed")
    assert fingerprint(public) in said.stdout
    assert fingerprint("nonsense") == "'nonsense'"


async def test_close_ends_what_runs_and_later_calls_say_so(
    pins: MemoryPins, client_key_file: Path, start: Start
) -> None:
    peer = start()
    shell = ParamikoShell(pins, user="root", key_file=client_key_file, adopt=True)
    running = asyncio.create_task(shell.run(node(), peer.address, "sleep 20", deadline_s=30))
    while not peer.commands:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await shell.close()
    with pytest.raises(UnavailableError):
        await asyncio.wait_for(running, 5)
    with pytest.raises(UnavailableError, match="ending"):
        await shell.run(node(), peer.address, "true", deadline_s=5)
