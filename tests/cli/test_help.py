"""Every command explains itself with an example, and a help text costs no heavy import."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from provision.cli import VERBS, cli

# python-libmaas puts an empty name `maas` into every interpreter by a .pth file; what costs is its client.
HEAVY = (
    "redfish",
    "maas.client",
    "ansible_runner",
    "paramiko",
    "sqlalchemy",
    "rich",
    "aiohttp",
    "pydantic",
    "cryptography",
)


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            found += commands(child, (*path, name))
    return found


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_imports_nothing_heavy(verb: str) -> None:
    """A fresh interpreter prints the help of the verb and of all its children; then its modules are counted."""
    program = f"""
import sys, click
from provision.cli import cli
def walk(command, path):
    ctx = click.Context(command, info_name=path[-1])
    text = command.get_help(ctx)
    print("=", " ".join(path)); print(text)
    if isinstance(command, click.Group) and (len(path) > 1 or not {verb!r}):
        for name in command.list_commands(ctx):
            if len(path) > 1: walk(command.get_command(ctx, name), (*path, name))
    elif isinstance(command, click.Group):
        walk(command.get_command(ctx, {verb!r}), (*path, {verb!r}))
walk(cli, ("provision",))
print("LOADED", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "LOADED []" in done.stdout
    assert "Example:" in done.stdout


def test_every_command_has_an_example() -> None:
    for path in commands(cli):
        command: click.Command = cli
        for name in path:
            assert isinstance(command, click.Group)
            child = command.get_command(click.Context(command), name)
            assert child is not None
            command = child
        assert command.help, path
        assert "Example:" in command.help, f"provision {' '.join(path)} --help gives no example"


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "provision", *argv], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("no-such-verb",), "No such command"),
        (("reimage", "gpu-12-03"), "--yes-erase gpu-12-03"),
        (("reimage", "gpu-12-03", "--yes-erase", "gpu-12-04"), "'gpu-12-04'"),
        (("bringup", "all", "-i", "/nowhere"), "/nowhere"),
        (("inventory", "check", "-i", "/nowhere"), "/nowhere"),
        (("bringup",), "Missing argument"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(argv: tuple[str, ...], says: str) -> None:
    done = run(*argv)
    assert done.returncode == 2, done
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_completion_is_clicks_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "provision"],
        env={"_PROVISION_COMPLETE": "bash_source", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "complete" in done.stdout
