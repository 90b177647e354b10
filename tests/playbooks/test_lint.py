"""The playbooks keep to ansible-lint's production profile and to yamllint, without a network."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LINTERS = ("ansible-lint", "yamllint", "ansible-core")
BIN = Path(sys.prefix) / "bin"


@pytest.mark.parametrize(
    "command",
    [["yamllint", "--strict", ".yamllint", ".ansible-lint", "playbooks"], ["ansible-lint", "--offline", "playbooks"]],
    ids=lambda command: command[0],
)
def test_playbooks_are_clean(command: list[str], tmp_path: Path) -> None:
    """What was found clean once, by the same linter, is not looked at again on this checkout; CI always looks."""
    stamp = ROOT / ".cache" / "lint" / f"{command[0]}-{seen(command[0])}"
    if stamp.exists() and os.environ.get("PROVISION_CI") != "1":
        return
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path), "NO_COLOR": "1", "LANG": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env, check=False, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    stamp.parent.mkdir(parents=True, exist_ok=True)
    for old in stamp.parent.glob(f"{command[0]}-*"):
        old.unlink(missing_ok=True)
    stamp.touch()


def seen(tool: str, root: Path = ROOT) -> str:
    """A hash over everything that the answer follows from: names, contents, settings, and the linters' versions."""
    digest = hashlib.sha256(" ".join(metadata.version(name) for name in (tool, *LINTERS)).encode())
    files = [path for path in (root / "playbooks").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    files += [root / name for name in (".yamllint", ".ansible-lint", "ansible.cfg")]
    for path in sorted([*files, Path(__file__)]):
        digest.update(f"{path}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def test_what_was_changed_is_looked_at_again(tmp_path: Path) -> None:
    """The hash moves with names, contents and settings; a clean answer must not outlive what it was given for."""
    (tmp_path / "playbooks").mkdir()
    for name in (".yamllint", ".ansible-lint", "ansible.cfg", "playbooks/site.yml"):
        (tmp_path / name).write_text("one")
    hashes = [seen("yamllint", tmp_path)]
    for name in ("playbooks/site.yml", "playbooks/more.yml", ".ansible-lint"):
        (tmp_path / name).write_text("two")
        hashes.append(seen("yamllint", tmp_path))
    assert len(set(hashes)) == 4
    assert seen("yamllint", tmp_path) == hashes[-1] != seen("ansible-lint", tmp_path)


def test_every_role_is_run_in_its_order() -> None:
    """The clock before anything else, apt before packages, OFED before the driver, the proof last."""
    (play,) = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text())
    first = [task["ansible.builtin.import_role"]["name"] for task in play["pre_tasks"]]
    assert first == ["clock", "gpu"]
    names = "base apt clock kernel ofed gpu docker dcgm exporters zfs tuning verify"
    assert [role["role"] for role in play["roles"]] == names.split()


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "playbooks" / "roles").iterdir()))
def test_every_role_says_what_it_is(role: str) -> None:
    """Defaults, arguments, meta, handlers, tasks and a README; and only modules that come with ansible-core."""
    home = ROOT / "playbooks" / "roles" / role
    for part in ("defaults/main.yml", "meta/main.yml", "meta/argument_specs.yml", "handlers/main.yml", "README.md"):
        assert (home / part).is_file(), f"{role}: {part} is missing"
    text = "".join(path.read_text() for path in home.rglob("*.yml"))
    assert not [line for line in text.splitlines() if line.strip().startswith(("community.", "ansible.posix."))]
