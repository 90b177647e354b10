"""What ``ansible-inventory`` printed for these very files, remembered.

It costs half a second of every command and minutes for thousands of nodes. The key is the content of every file of the
inventory, so a changed byte asks Ansible again. What is not only files is never remembered: scripts, plugins, an
``ansible.cfg`` that has a say in how inventories are read. Neither is anything whose files are encrypted as a whole,
for Ansible prints it in clear.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from provision.config.listing import Done, configuration, environment, is_configured, run_ansible

_KEPT = 64
_LARGEST = 64 * 1024 * 1024
_PLUGIN = re.compile(rb"^\s*[\"']?plugin[\"']?\s*:", re.MULTILINE)
_FORMAT = "1"


def list_inventory(path: Path, *arguments: str) -> Done:
    """``ansible-inventory -i PATH --list ARGUMENTS``, from memory where that is the same.

    Raises:
        MisconfiguredError: as ``run_ansible``.
    """
    argv = ("-i", str(path), "--list", *arguments)
    try:
        key = _key(path, argv)
    except OSError:
        key = None
    place = None if key is None else _folder() / f"{key}.json"
    if place is not None and (known := _read(place)) is not None:
        return known
    done = run_ansible("ansible-inventory", *argv)
    if place is not None and done.status == 0:
        _write(place, done)
    return done


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "provision" / "listings"


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        # Variables beside a single hosts file count as well.
        for name in ("group_vars", "host_vars"):
            if (path.parent / name).is_dir():
                yield from _files(path.parent / name)
        return
    for item in sorted(path.iterdir()):
        yield from _files(item) if item.is_dir() else (item,)


def _key(path: Path, argv: tuple[str, ...]) -> str | None:
    """A digest of everything that the answer depends on; None if it depends on more than files."""
    if is_configured():
        return None
    told = sorted((name, value) for name, value in environment().items() if name not in {"PATH", "HOME", "TMPDIR"})
    digest = hashlib.sha256(repr((_FORMAT, version("ansible-core"), str(path.absolute()), argv, told)).encode())
    size = 0
    if (settings := configuration()) is not None:
        digest.update(settings.read_bytes())
    for file in _files(path):
        content = file.read_bytes()
        size += len(content)
        encrypted = content.startswith(b"$ANSIBLE_VAULT")
        program = os.access(file, os.X_OK) or content.startswith(b"#!")
        if encrypted or program or _PLUGIN.search(content) or size > _LARGEST:
            return None
        digest.update(f"\0{file}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def _read(place: Path) -> Done | None:
    """What is remembered; None for nothing, and for what somebody else wrote or nobody can read."""
    try:
        with place.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            data = json.loads(file.read())
        os.utime(place)
        return Done(0, data["stdout"], data["stderr"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(place: Path, done: Done) -> None:
    """Remember, as a file that only we can read. A memory that cannot be kept is no fault."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=place.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"stdout": done.stdout, "stderr": done.stderr}, file)
        os.replace(name, place)
        known = sorted(place.parent.glob("*.json"), key=lambda item: item.stat().st_mtime, reverse=True)
        for old in known[_KEPT:]:
            old.unlink(missing_ok=True)
