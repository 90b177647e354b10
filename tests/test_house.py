"""The floors of the house: who may import whom. The tables are the architecture (docs/architecture.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "provision"

MAY = {
    "model": set[str](),
    "errors": set[str](),
    "ports": {"model", "errors"},
    "triage": {"model"},
    "report": {"model"},
    "config": {"model", "ports", "errors"},
    "sim": {"model"},
    "stages": {"ports", "model", "errors"},
    "adapters": {"ports", "model", "errors"},
    "store": {"ports", "model", "errors"},
    "engine": {"stages", "triage", "ports", "model", "errors"},
    "app": {
        "engine",
        "stages",
        "adapters",
        "store",
        "ports",
        "triage",
        "report",
        "config",
        "model",
        "errors",
    },
    "cli": {"app", "sim", "report", "errors", "model"},
}

# Third-party packages live in one room each; what is not named here may not be imported at all.
HOMES = {
    "redfish": {"adapters/redfish"},
    "maas": {"adapters/maas"},
    "aiohttp": {"adapters/redfish", "adapters/maas", "sim"},
    "ansible_runner": {"adapters/ansible"},
    "paramiko": {"adapters/ssh", "sim/host"},
    "cryptography": {"adapters/ssh", "sim"},
    "tenacity": {"adapters"},
    "sqlalchemy": {"store"},
    "alembic": {"store"},
    "psycopg": {"store"},
    "pydantic": {"config"},
    "yaml": {"config", "triage", "sim"},
    "click": {"cli"},
    "rich": {"cli", "report"},
}
STANDARD_ONLY = {"model", "errors", "ports", "stages", "engine", "app"}


def _imports(path: Path) -> Iterator[str]:
    for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(item, ast.Import):
            yield from (name.name for name in item.names)
        elif isinstance(item, ast.ImportFrom):
            assert item.level == 0, f"{path}: relative import; the house writes full names"
            yield item.module or ""
            if item.module == "provision":
                yield from (f"provision.{name.name}" for name in item.names)


def _files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _room(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


@pytest.mark.parametrize("path", _files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_floors_are_kept(path: Path) -> None:
    """Each module imports only from the floors below it, and third-party names only in their room."""
    room, here = _room(path), str(path.relative_to(ROOT).with_suffix(""))
    if room in {"__init__", "__main__"}:
        return
    for name in _imports(path):
        head = name.split(".")[0]
        if head == "provision":
            target = name.split(".")[1] if "." in name else room
            allowed = target == room or target in MAY[room] or target == "__version__"
            if room == "adapters" and target == "adapters":
                neighbour = name.split(".")[2] if name.count(".") > 1 else here.split("/")[1]
                allowed = neighbour == here.split("/")[1]
            assert allowed, f"{here} imports {name}: floor {room} may import {sorted(MAY[room])}"
        elif head in HOMES:
            assert any(here.startswith(home) for home in HOMES[head]), (
                f"{here} imports {name}; it lives in {HOMES[head]}"
            )
            assert room not in STANDARD_ONLY, f"{here} imports {name}; this floor has the standard library only"


def test_every_room_is_known() -> None:
    """A folder that the table does not know has no floor."""
    rooms = {_room(path) for path in _files()} - {"__init__", "__main__"}
    assert rooms <= set(MAY), f"rooms without a floor: {sorted(rooms - set(MAY))}"


def test_rooms_stay_small() -> None:
    """A file over 420 lines is two rooms."""
    long = {str(p.relative_to(ROOT)): n for p in _files() if (n := len(p.read_text().splitlines())) > 420}
    assert not long, f"files over 420 lines: {long}"


def test_the_list_of_slow_tests_is_current() -> None:
    """A file that was renamed would quietly come back into `make check`."""
    here = Path(__file__).parent
    names = ast.literal_eval((here / "conftest.py").read_text().split("SLOW = ")[1].split("\n}\n")[0] + "}")
    assert not [name for name in names if not (here / name).exists()]
