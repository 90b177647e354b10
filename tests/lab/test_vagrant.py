"""The lab's files are such that Vagrant, bash and provision can read them. ``vagrant up`` is for a workstation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.lab


def run(*argv: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=110
    )


@pytest.fixture
def vagrant(tmp_path: Path) -> dict[str, str]:
    """Vagrant with a home of its own."""
    if shutil.which("vagrant") is None:
        pytest.skip("vagrant is not installed: apt install vagrant vagrant-libvirt")
    return {"VAGRANT_HOME": str(tmp_path / "home"), "VAGRANT_DEFAULT_PROVIDER": "libvirt", "VAGRANT_NO_COLOR": "1"}


def test_vagrant_takes_the_vagrantfile(vagrant: dict[str, str]) -> None:
    done = run("vagrant", "validate", **vagrant)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "validated successfully" in done.stdout


def test_vagrant_would_have_said_what_is_wrong(vagrant: dict[str, str], tmp_path: Path) -> None:
    text = (ROOT / "Vagrantfile").read_text(encoding="utf-8")
    assert "libvirt.memory = 4096" in text
    shutil.copytree(ROOT / "lab", tmp_path / "lab")
    (tmp_path / "Vagrantfile").write_text(text.replace("libvirt.memory = 4096", "libvirt.memmory = 4096"))
    done = run("vagrant", "validate", cwd=tmp_path, **vagrant)
    assert done.returncode != 0
    assert "memmory" in done.stdout + done.stderr


@pytest.mark.parametrize("script", sorted((ROOT / "lab").glob("*.sh")), ids=lambda path: path.name)
def test_bash_reads_the_scripts(script: Path) -> None:
    done = run("bash", "-n", str(script))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_labs_inventory_is_in_order() -> None:
    done = run(sys.executable, "-m", "provision", "inventory", "check", "-i", "lab/inventory")
    assert done.returncode == 0, done.stderr
    assert "3 node(s)" in done.stdout + done.stderr
