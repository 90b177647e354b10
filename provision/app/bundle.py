"""Judging evidence files without any machine: a pasted log, the output of a command, a support bundle's folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from provision.app.looks import finding_row
from provision.errors import MisconfiguredError
from provision.model.finding import Action, Category
from provision.model.node import Node
from provision.triage.paste import judge_text, kind_of, thinned
from provision.triage.rules import Rule

_MOST_BYTES = 64 * 1024 * 1024
_MOST_FILES = 500


def triage_files(source: Path, kind: str | None, rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """One row per file: ``file``, ``kind``, ``findings`` (as of ``triage``), ``why_not`` where it could not be read.

    ``kind`` None: told from each file's name and first lines. Files of a folder are judged one by one: what stands in
    one of them is not context of another, because nobody says that they are of one machine and one moment.

    Raises:
        MisconfiguredError: there is no such file or folder, or nothing in it.
    """
    rows = [_one(path, source, kind, rules) for path in _files(source)]
    if not rows:
        raise MisconfiguredError(f"{source} holds no file; give a file, or a folder with logs in it")
    return rows


def is_sign(row: dict[str, Any]) -> bool:
    """True for a finding that somebody should read; known noise is none."""
    return not (row["category"] == Category.NOT_HARDWARE.value and row["action"] == Action.NONE.value)


def _files(source: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
    elif source.is_dir():
        found = sorted(path for path in source.rglob("*") if path.is_file() and not path.is_symlink())
        if len(found) > _MOST_FILES:
            raise MisconfiguredError(
                f"{source} holds {len(found)} files; at most {_MOST_FILES} are read: name a subfolder"
            )
        yield from found
    else:
        raise MisconfiguredError(f"there is no file or folder {source}; --from wants a log or a folder of logs")


def _one(path: Path, source: Path, kind: str | None, rules: Sequence[Rule]) -> dict[str, Any]:
    name = str(path.relative_to(source)) if source.is_dir() else path.name
    row: dict[str, Any] = {"file": name, "kind": kind or "", "findings": [], "why_not": ""}
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES)
    except OSError as error:
        return row | {"why_not": f"cannot be read: {error.strerror}"}
    if b"\x00" in raw[:4096]:
        return row | {"why_not": "is not text; unpack archives first"}
    text = raw.decode("utf-8", errors="replace")
    row["kind"] = kind or kind_of(name, text)
    node = Node(path.stem, "any", "", "")
    found = judge_text(thinned(text), row["kind"], node, datetime.now(UTC), rules)
    return row | {"findings": [finding_row(finding) for finding in found]}
