"""An installed program needs no checkout: the wheel carries the playbooks, modules and filters included."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(110)
def test_the_wheel_carries_the_playbooks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    done = subprocess.run([*command, "-w", str(tmp_path), str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    carried = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(["git", "ls-files", "playbooks"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode == 0:
        files = [ROOT / line for line in tracked.stdout.splitlines()]
    else:
        files = [path for path in (ROOT / "playbooks").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    wanted = {f"provision/_playbooks/{path.relative_to(ROOT / 'playbooks')}" for path in files if path.exists()}
    assert len(wanted) > 60
    assert wanted <= carried, sorted(wanted - carried)
    # A link here, a file there: the host's checks read pools by the same code as the module.
    link = "roles/verify/files/provision_zpool_text.py"
    text = (ROOT / "playbooks" / link).read_bytes()
    assert zipfile.ZipFile(wheel).read(f"provision/_playbooks/{link}") == text
