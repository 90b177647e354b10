"""The playbooks keep to ansible-lint's production profile and to yamllint, without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.prefix) / "bin"


@pytest.mark.parametrize(
    "command",
    [["yamllint", "--strict", ".yamllint", ".ansible-lint", "playbooks"], ["ansible-lint", "--offline", "playbooks"]],
    ids=lambda command: command[0],
)
def test_playbooks_are_clean(command: list[str], tmp_path: Path) -> None:
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path), "NO_COLOR": "1", "LANG": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env, check=False, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "playbooks" / "roles").iterdir()))
def test_every_role_says_what_it_is(role: str) -> None:
    """Defaults, arguments, meta, handlers, tasks and a README; and only modules that come with ansible-core."""
    home = ROOT / "playbooks" / "roles" / role
    for part in ("defaults/main.yml", "meta/main.yml", "meta/argument_specs.yml", "handlers/main.yml", "README.md"):
        assert (home / part).is_file(), f"{role}: {part} is missing"
    text = "".join(path.read_text() for path in home.rglob("*.yml"))
    assert not [line for line in text.splitlines() if line.strip().startswith(("community.", "ansible.posix."))]
