"""What a node's playbooks are told, and the hash that says whether a host was made by just that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provision.model.secret import Secret


def tree_hash(root: Path) -> str:
    """SHA-256 over names, modes and contents below ``root``, as hexadecimal.

    Left out, because no host can tell the difference: hidden files, ``__pycache__``, ``*.pyc``, ``*.retry``, ``*.md``.

    Raises:
        OSError: something in it cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in inside.parts)
        if hidden or path.suffix in {".pyc", ".retry", ".md"} or not path.is_file():
            continue
        content = path.read_bytes()
        executable = path.stat().st_mode & 0o100
        digest.update(f"{inside.as_posix()}\0{bool(executable)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def marker_hash(tree: str, variables: Mapping[str, object]) -> str:
    """The hash a marker carries: 32 hexadecimal digits over the playbooks and what this node is told.

    A secret counts by its presence, not its value: the marker is readable for everybody on the host.
    """
    told = json.dumps(plain(variables, reveal=False), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{tree}\0{told}".encode()).hexdigest()[:32]


def plain(value: object, *, reveal: bool) -> Any:
    """``value`` as JSON can write it. Secrets become their value (for the vars file) or ``***``."""
    if isinstance(value, Secret):
        return value.reveal() if reveal else "***"
    if isinstance(value, Mapping):
        return {str(key): plain(item, reveal=reveal) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, reveal=reveal) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item, reveal=reveal) for item in value), key=str)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def secrets_in(value: object) -> frozenset[str]:
    """Every secret text inside ``value``, so that it can be scrubbed from messages. Under 4 letters: none."""
    if isinstance(value, Secret):
        return frozenset({value.reveal()} if len(value.reveal()) >= 4 else ())
    if isinstance(value, Mapping):
        return frozenset().union(*(secrets_in(item) for item in value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return frozenset().union(*(secrets_in(item) for item in value))
    return frozenset()


def scrub(text: str, secrets: frozenset[str]) -> str:
    """``text`` with every secret replaced by ``***``; the longest first, one may contain another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
