"""A module of the playbooks, packed by Ansible and run as the process that Ansible starts on a host."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"


def pack(home: Path, name: str, words: str) -> Path:
    """A module as Ansible sends it, unfolded so that its arguments can be changed. ``words`` change nothing."""
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    env |= {"ANSIBLE_LIBRARY": str(PLAYBOOKS / "library"), "ANSIBLE_MODULE_UTILS": str(PLAYBOOKS / "module_utils")}
    env |= {"ANSIBLE_KEEP_REMOTE_FILES": "1", "ANSIBLE_REMOTE_TMP": str(home / "tmp"), "ANSIBLE_PIPELINING": "0"}
    argv = ["ansible", "localhost", "-i", "localhost,", "-c", "local", "-m", name, "-a", words]
    argv += ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "expected" in done.stdout + done.stderr, "the module did not refuse"
    (program,) = (home / "tmp").rglob(f"AnsiballZ_{name}.py")
    for verb in ("explode", "execute"):  # the second leaves compiled code for all that follow
        subprocess.run([sys.executable, str(program), verb], check=False, capture_output=True, timeout=60)
    return program.parent


def execute(packed: Path, folder: Path, path: str, *, check: bool, **args: Any) -> dict[str, Any]:
    """Run a packed module with other arguments, as the process that Ansible starts on a host."""
    if not (folder / "module").exists():
        shutil.copytree(packed, folder / "module")
    told = json.loads((packed / "debug_dir/args").read_text())
    own = {key: value for key, value in told["ANSIBLE_MODULE_ARGS"].items() if key.startswith("_")}
    told["ANSIBLE_MODULE_ARGS"] = own | args | {"_ansible_check_mode": check}
    (folder / "module/debug_dir/args").write_text(json.dumps(told))
    (program,) = (folder / "module").glob("AnsiballZ_*.py")
    argv = [sys.executable, str(program), "execute"]
    env = {"PATH": path, "LANG": "C.UTF-8"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "", done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result
