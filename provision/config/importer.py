"""A data-centre spreadsheet (CSV) in, an Ansible hosts file (YAML) out."""

from __future__ import annotations

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from provision.config.complaints import InventoryError
from provision.config.sheet import Row, read_sheet
from provision.errors import MisconfiguredError

_GROUP = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_GROUP_VARIABLES = ("site", "room", "rack", "profile")


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a spreadsheet. ``ignored`` are columns that nobody knows; ``notes`` are for the operator."""

    target: Path
    hosts: int
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def import_csv(source: Path, target: Path, *, replace: bool = False) -> Imported:
    """Write the spreadsheet's machines into ``target`` as YAML that ``load`` accepts.

    Args:
        target: the file to write (``inventory/hosts.yml``).
        replace: overwrite a file that is there.

    Raises:
        InventoryError: complaints about the spreadsheet, each with its line.
        MisconfiguredError: the target is there already or cannot be written.
    """
    rows, ignored = read_sheet(source)
    text = to_yaml(rows, source.name)
    _write(target, text, replace=replace)
    return Imported(target, len(rows), ignored, tuple(_notes(rows, ignored)))


def to_yaml(rows: tuple[Row, ...], source: str) -> str:
    """Racks as groups; what all machines of a rack share becomes a variable of the group."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[_group(str(row.variables["rack"]))].append(row)
    names = {row.name for row in rows}
    if both := sorted(names & set(groups)):
        raise InventoryError(f"rack {name} has the name of a host; rename one of them" for name in both)
    tree = {"all": {"children": {name: _rack(members) for name, members in sorted(groups.items())}}}
    head = f"# From {source.encode('ascii', 'replace').decode()} by `provision inventory import`.\n"
    return "---\n" + head + yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=118)


def _rack(rows: list[Row]) -> Mapping[str, Any]:
    shared = {
        key: rows[0].variables[key]
        for key in _GROUP_VARIABLES
        if key in rows[0].variables and all(row.variables.get(key) == rows[0].variables[key] for row in rows)
    }
    hosts = {row.name: {k: v for k, v in row.variables.items() if k not in shared} for row in rows}
    return {"vars": shared, "hosts": hosts}


def _group(rack: str) -> str:
    """``rack-12`` stays, ``12`` becomes ``rack-12``, ``Hall 2/A 7`` becomes ``rack-hall-2-a-7``."""
    if _GROUP.fullmatch(rack):
        return rack
    return "rack-" + re.sub(r"[^a-z0-9]+", "-", rack.lower()).strip("-")


def _notes(rows: tuple[Row, ...], ignored: tuple[str, ...]) -> Iterator[str]:
    if ignored:
        yield f"columns ignored: {', '.join(ignored)}"
    if any("profile" not in row.variables for row in rows):
        yield "no profile for some machines: set the variable profile of their groups before load accepts them"


def _write(target: Path, text: str, *, replace: bool) -> None:
    """Whole or not at all, and never over a file that somebody else has made."""
    try:
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp~", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            if replace:
                os.replace(name, target)
            else:
                os.link(name, target)
        finally:
            Path(name).unlink(missing_ok=True)
    except FileExistsError:
        if not target.parent.is_dir():
            raise MisconfiguredError(f"{target} cannot be written: {target.parent} is a file; name another") from None
        raise MisconfiguredError(
            f"{target} exists already and is left as it is; name another file or ask to replace it"
        ) from None
    except OSError as error:
        raise MisconfiguredError(f"{target} cannot be written: {error.strerror}; name another file") from None
