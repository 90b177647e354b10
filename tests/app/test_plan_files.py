"""A file that is no plan says so in one sentence; one that is holds together after being written and read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.app import plans
from provision.errors import MisconfiguredError

NODE: dict[str, Any] = {
    "node": "gpu-12-01",
    "stage": "enlist",
    "verdict": "act",
    "step": "create-machine",
    "goal": "0123456789abcdef",
    "writes": [{"stage": "enlist", "step": "create-machine", "risk": "record", "what": "x", "next": True}],
}
GOOD: dict[str, Any] = {"format": 1, "target": "rack-12", "nodes": [NODE]}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in NODE.items() if name != key}


BAD = {
    "": "it is not JSON",
    "{": "it is not JSON",
    "\x00\x01": "it is not JSON",
    "[" * 100_000: "it is not JSON",
    "[]": "expected an object with format and target",
    '{"format": 1}': "expected an object with format and target",
    json.dumps({**GOOD, "format": 2}): "has format 2, this program reads 1",
    json.dumps({**GOOD, "nodes": []}): "expected a list of nodes that is not empty",
    json.dumps({**GOOD, "nodes": ["gpu-12-01"]}): "node 1: expected an object",
    json.dumps({**GOOD, "nodes": [NODE, NODE]}): "gpu-12-01 stands twice in the plan",
    json.dumps({**GOOD, "nodes": [NODE, without("goal")]}): "node 2: goal is missing or not a text",
    json.dumps({**GOOD, "nodes": [{**NODE, "stage": "launch"}]}): "no such stage or verdict: 'launch', 'act'",
    json.dumps({**GOOD, "nodes": [{**NODE, "writes": {}}]}): "writes is missing or not a list",
    json.dumps({**GOOD, "nodes": [{**NODE, "writes": [{"step": "deploy"}]}]}): "a write without stage and step",
}


@pytest.mark.parametrize(("text", "why"), BAD.items(), ids=[why[:40] for why in BAD.values()])
def test_a_bad_plan_is_refused_in_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(MisconfiguredError) as error:
        plans.read(file)
    said = str(error.value)
    assert why in said
    assert str(file) in said
    assert "provision plan TARGET --out FILE" in said
    assert "\n" not in said


def test_no_file_a_folder_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(MisconfiguredError, match="No such file"):
        plans.read(tmp_path / "none.json")
    with pytest.raises(MisconfiguredError, match="Is a directory"):
        plans.read(tmp_path)
    (tmp_path / "x").write_bytes(b"\xff\xfe{")
    with pytest.raises(MisconfiguredError, match="not JSON"):
        plans.read(tmp_path / "x")
    with pytest.raises(MisconfiguredError, match=r"cannot write .*give another path with --out"):
        plans.write(GOOD, tmp_path / "none" / "plan.json")


def test_a_plan_is_written_whole_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    hostile = {**GOOD, "nodes": [{**NODE, "what": "\x1b]0;owned\x07 ünïcode"}]}
    plans.write(hostile, file)
    assert plans.read(file) == hostile
    assert file.read_bytes().isascii()
    assert b"\x1b" not in file.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    assert plans.allowed(hostile) == {"gpu-12-01": frozenset({"enlist/create-machine"})}
