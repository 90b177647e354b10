"""One SSH connection, blocking: connect, compare the host key, log in, run commands. Called from threads only."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import paramiko

from provision.adapters.ssh.hostkeys import fingerprint, same_key, signature_types
from provision.adapters.ssh.tunnel import Tunnel
from provision.errors import CredentialRefusedError, MisconfiguredError, RefusedError, UnavailableError
from provision.model.node import Address
from provision.ports import CommandResult

OUTPUT_LIMIT = 1024 * 1024
_CHUNK = 32 * 1024
_LOG_IN = "log in by SSH"

# paramiko logs a traceback for every peer that misbehaves; what matters of it is in our errors.
_QUIET = "provision.adapters.ssh.paramiko"
logging.getLogger(_QUIET).addHandler(logging.NullHandler())
logging.getLogger(_QUIET).propagate = False


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in, and how. Without ``key_file`` the operator's ssh agent is asked."""

    user: str
    key_file: Path | None = None


def load_key(path: Path) -> paramiko.PKey:
    """The private key of a file, of any type that paramiko knows.

    Raises:
        MisconfiguredError: no such file, not a key, or one with a passphrase (Ansible could not ask for it either).
    """
    try:
        return paramiko.PKey.from_path(path)
    except (OSError, ValueError, TypeError, paramiko.SSHException) as error:
        wants = "an OpenSSH private key without passphrase was expected; for one with a passphrase use ssh-agent"
        raise MisconfiguredError(f"ssh key file {path}: {type(error).__name__}: {wants}") from error


def connect(
    peer: str, address: Address, login: Login, pinned: str | None, *, adopt: bool, timeout_s: float, proxy: str = ""
) -> tuple[paramiko.Transport, str]:
    """Open a connection that is logged in. Returns it with the host's public key (``ssh-ed25519 AAAA…``).

    The key is compared before anything of ours is sent, the user's name included. ``proxy`` is a command that leads
    to the host, see ``Tunnel``; it ends with the connection.

    Raises:
        UnavailableError: nobody listens, nobody answers, or what answers is not (yet) an SSH server.
        RefusedError: the host's key is not the pinned one, or none is pinned and ``adopt`` is off.
        CredentialRefusedError: this user and key are not let in.
    """
    keys = _keys(login)
    if proxy:
        transport = _open_through(peer, address, pinned, timeout_s, proxy, login.user)
    else:
        transport = _open(peer, address, pinned, timeout_s)
    try:
        shown = transport.get_remote_server_key()
        public = f"{shown.get_name()} {shown.get_base64()}"
        _judge_key(peer, public, pinned, adopt=adopt)
        transport.auth_timeout = timeout_s
        _log_in(peer, transport, login, keys)
        transport.set_keepalive(30)
    except BaseException:
        transport.close()
        raise
    return transport, public


def _open_through(
    peer: str, address: Address, pinned: str | None, timeout_s: float, proxy: str, user: str
) -> paramiko.Transport:
    try:
        tunnel = Tunnel(proxy, address, user)
    except OSError as error:
        raise UnavailableError(peer, f"connect to {address}", f"{proxy[:80]}: {error.strerror}") from error
    try:
        return _shake_hands(peer, address, pinned, timeout_s, tunnel.sock)
    except RefusedError:
        tunnel.end()
        raise
    except UnavailableError as error:
        tunnel.end()
        # What the jump host's ssh said names the cause; "no session" alone would send somebody to the wrong machine.
        words = tunnel.words() or "it said nothing"
        raise UnavailableError(peer, error.operation, f"through {proxy[:120]}: {words}; {error.detail}") from error
    finally:
        tunnel.release()


def _open(peer: str, address: Address, pinned: str | None, timeout_s: float) -> paramiko.Transport:
    try:
        sock = socket.create_connection((address.host, address.port), timeout=timeout_s)
    except (OSError, UnicodeError) as error:
        words = getattr(error, "strerror", None) or f"no answer in {timeout_s:g} s"
        detail = f"{words}; is the host up and its SSH server running?"
        raise UnavailableError(peer, f"connect to {address}", detail) from error
    return _shake_hands(peer, address, pinned, timeout_s, sock)


def _shake_hands(
    peer: str, address: Address, pinned: str | None, timeout_s: float, sock: socket.socket
) -> paramiko.Transport:
    operation = f"connect to {address}"
    transport = paramiko.Transport(sock)
    transport.daemon = True
    transport.set_log_channel(_QUIET)
    transport.banner_timeout = timeout_s
    try:
        if pinned:
            _ask_for(transport, pinned)
        transport.start_client(timeout=timeout_s)
        # A time-out ends start_client in silence; asking for the key says whether there was a handshake.
        transport.get_remote_server_key()
    except (paramiko.ssh_exception.IncompatiblePeer, ValueError) as error:
        transport.close()
        kind = pinned.split()[0] if pinned and pinned.split() else "any known"
        detail = f"the host has no key of type {kind}, which is the one pinned as {fingerprint(pinned or '')}"
        raise RefusedError(peer, operation, detail, code="host-key") from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        transport.close()
        detail = f"no SSH session came about ({error or type(error).__name__}); the host may still be starting"
        raise UnavailableError(peer, operation, detail) from error
    return transport


def _ask_for(transport: paramiko.Transport, pinned: str) -> None:
    transport.get_security_options().key_types = signature_types(pinned)


def _judge_key(peer: str, public: str, pinned: str | None, *, adopt: bool) -> None:
    if pinned is None and not adopt:
        detail = (
            f"no host key is pinned and the host shows {fingerprint(public)}; "
            "if that is the right machine, let `provision adopt` pin it"
        )
        raise RefusedError(peer, "check the host key", detail, code="host-key")
    if pinned is not None and not same_key(public, pinned):
        detail = (
            f"the host shows {fingerprint(public)}, pinned is {fingerprint(pinned)}: another machine answers here, or "
            "this one was installed by somebody else; if that is right, `provision adopt` pins the other key"
        )
        raise RefusedError(peer, "check the host key", detail, code="host-key")


def _keys(login: Login) -> list[paramiko.PKey]:
    if login.key_file is not None:
        return [load_key(login.key_file)]
    return list(paramiko.Agent().get_keys())


def _log_in(peer: str, transport: paramiko.Transport, login: Login, keys: list[paramiko.PKey]) -> None:
    for key in keys:
        try:
            transport.auth_publickey(login.user, key)
        except paramiko.AuthenticationException:
            continue
        except (paramiko.SSHException, EOFError, OSError) as error:
            detail = f"the connection broke ({error or type(error).__name__})"
            raise UnavailableError(peer, _LOG_IN, detail) from error
        if transport.is_authenticated():
            return
    what = f"key {login.key_file}" if login.key_file else f"{len(keys)} keys of the ssh agent"
    detail = f"user {login.user} with {what} is not let in; the deployment must have put its public half on the host"
    raise CredentialRefusedError(peer, _LOG_IN, detail)


def execute(peer: str, transport: paramiko.Transport, command: str, deadline_s: float) -> CommandResult:
    """Run one command, with at most 1 MB of each output kept. Its status is -1 if a signal ended it.

    Raises:
        UnavailableError: the connection broke, or no end within ``deadline_s``.
    """
    until = time.monotonic() + deadline_s
    operation = f"run {command[:60]!r}"
    try:
        channel = transport.open_session(timeout=deadline_s)
        try:
            # Messages are compared in English; sshd takes LC_* by Debian's configuration, others ignore it.
            with contextlib.suppress(paramiko.SSHException):
                channel.set_environment_variable("LC_ALL", "C")
            channel.exec_command(command)
            return _read(channel, until)
        finally:
            channel.close()
    except TimeoutError as error:
        raise UnavailableError(peer, operation, f"no end within {deadline_s:g} s") from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        detail = f"the connection broke ({error or type(error).__name__})"
        raise UnavailableError(peer, operation, detail) from error


def _read(channel: paramiko.Channel, until: float) -> CommandResult:
    out, err = bytearray(), bytearray()
    channel.shutdown_write()
    pause_s = 0.001
    while True:
        # Asked before reading: what arrives before the end is then certainly read below.
        over = channel.closed or (channel.exit_status_ready() and channel.eof_received)
        busy = False
        while channel.recv_ready():
            busy = _keep(out, channel.recv(_CHUNK))
        while channel.recv_stderr_ready():
            busy = _keep(err, channel.recv_stderr(_CHUNK))
        if over:
            break
        if time.monotonic() > until:
            raise TimeoutError
        pause_s = 0.001 if busy else min(pause_s * 2, 0.05)
        time.sleep(pause_s)
    status = channel.recv_exit_status()
    # paramiko says -1 both for a command that a signal ended and for a connection that did.
    if status == -1 and not channel.get_transport().is_active():
        raise EOFError("closed before the command's status came")
    return CommandResult(status, out.decode(errors="replace"), err.decode(errors="replace"))


def _keep(buffer: bytearray, chunk: bytes) -> bool:
    """Read on beyond the limit, so that the command can end, but keep no more. True if there was something."""
    buffer += chunk[: max(0, OUTPUT_LIMIT - len(buffer))]
    return bool(chunk)
