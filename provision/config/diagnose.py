"""Why an inventory cannot be read, as one sentence with file and line instead of Ansible's warnings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from provision.config.complaints import InventoryError

_YAML_ENDINGS = {".yml", ".yaml", ".json"}
_LARGEST_BYTES = 64 * 1024 * 1024
_ORIGIN = re.compile(r"^Origin: (?P<file>[^\n<]+?):(?P<line>\d+)(?::\d+)?$", re.MULTILINE)
_ERROR = re.compile(r"\[(?:ERROR|WARNING)\]: (?P<text>[^\n]+)")


def check_path(inventory: Path) -> Path:
    """The absolute path, if it is there and can be read.

    Raises:
        InventoryError: it is not; the sentence says what to do.
    """
    path = Path(os.path.abspath(inventory.expanduser()))
    if not path.exists():
        raise InventoryError([f"{path} does not exist: expected an inventory directory; name it with -i/--inventory"])
    if not (path.is_dir() or path.is_file()):
        raise InventoryError([f"{path} is neither a directory nor a file: expected an inventory directory"])
    if closed := sorted(_unreadable(path)):
        raise InventoryError(f"{item} cannot be read: permission denied; ask its owner or chmod it" for item in closed)
    return path


def _unreadable(path: Path) -> Iterator[Path]:
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        yield path
    elif path.is_dir():
        for folder in (path, path / "group_vars", path / "host_vars"):
            if folder.is_dir() and os.access(folder, os.R_OK | os.X_OK):
                yield from (item for item in folder.iterdir() if not item.is_symlink() and not os.access(item, os.R_OK))


def why_unreadable(path: Path, stderr: str) -> list[str]:
    """Sentences for an inventory that ``ansible-inventory`` gave up on, from the files and from its own words."""
    if found := broken_files(path):
        return found
    if "no vault secrets found" in stderr or "Decryption failed" in stderr:
        return [f"{path}: Ansible Vault has no password for it; set ANSIBLE_VAULT_PASSWORD_FILE to its password file"]
    if not _files(path):
        return [f"{path} is empty: expected an Ansible inventory; see docs/reference/inventory.md for an example"]
    error = _ERROR.search(stderr)
    text = error["text"].strip() if error else "no reason given"
    origin = _ORIGIN.search(stderr)
    where = f"{origin['file']}:{origin['line']}" if origin else str(path)
    return [f"{where}: Ansible cannot read it: {text}; run: ansible-inventory -i {path} --list"]


def broken_files(path: Path) -> list[str]:
    """A sentence for each file of the inventory that is binary or broken YAML."""
    return [sentence for file in _files(path) if (sentence := _broken(file))]


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())


def _broken(file: Path) -> str | None:
    """What is wrong with one file by itself: binary, or YAML that is none."""
    try:
        raw = file.read_bytes()[:_LARGEST_BYTES]
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}"
    if raw.startswith(b"$ANSIBLE_VAULT;"):
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return f"{file}:{line}: a binary file or not UTF-8 text: expected YAML or INI; take it out of the inventory"
    if "\0" in text:
        return f"{file}:{text.count(chr(10), 0, text.index(chr(0))) + 1}: a binary file: expected YAML or INI text"
    if file.suffix not in _YAML_ENDINGS:
        return None
    try:
        seen: list[str] = []
        _duplicates(yaml.compose(text, Loader=yaml.SafeLoader), seen, set())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        return f"{file}:{line}: broken YAML: {error.problem or error.context}; correct the line"
    except (yaml.YAMLError, RecursionError):
        return f"{file}: broken YAML; correct the file"
    return f"{file}:{seen[0]}" if seen else None


def _duplicates(node: yaml.Node | None, seen: list[str], visited: set[int]) -> None:
    """Keys that stand twice in one mapping. Aliases lead to nodes that were visited already."""
    if node is None or id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys and key.value != "<<":
                    seen.append(f"{key.start_mark.line + 1}: {key.value} stands there twice; take one out")
                keys.add(key.value)
            _duplicates(value, seen, visited)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _duplicates(item, seen, visited)
