"""The promises of docs/security.md: each names its tests, and those that no other room keeps are here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from provision.cli.common import print_csv, print_json, print_table

HERE = Path(__file__).parent
ROOT = HERE.parent
PROMISES = ROOT / "docs" / "security.md"
HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "\u202egnp.exe",
    "=cmd|' /C calc'!A0",
    "a\r\nprovision: all is well",
    "\x9b31m",
]

# Whatever would hand a text to a shell, or run what a file says.
SHELLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
}
RUNS_DATA = {"eval", "exec", "pickle.load", "pickle.loads", "marshal.loads", "yaml.load", "yaml.unsafe_load"}


@cache
def _calls() -> tuple[tuple[str, ast.Call, str], ...]:
    return tuple(_read_calls())


def _read_calls() -> Iterator[tuple[str, ast.Call, str]]:
    for path in sorted((ROOT / "provision").rglob("*.py")):
        for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(item, ast.Call):
                yield f"{path.relative_to(ROOT)}:{item.lineno}", item, ast.unparse(item.func)


def test_no_shell_is_given_a_text() -> None:
    """Programs are started with a list of arguments; nothing on this side of a connection parses a command line."""
    found = [
        where
        for where, call, name in _calls()
        if name in SHELLS or (name.startswith("subprocess.") and any(word.arg == "shell" for word in call.keywords))
    ]
    assert found == []


def test_nothing_that_we_read_is_run() -> None:
    found = [where for where, _, name in _calls() if name in RUNS_DATA]
    assert found == []


def test_commands_on_hosts_are_constants() -> None:
    """What runs on a host by SSH holds nothing that an inventory, a BMC or a host has said."""
    seen = []
    for where, call, name in _calls():
        if re.search(r"shell(\(\))?\.run$", name):
            command = call.args[2]
            seen.append(where)
            constant = isinstance(command, ast.Constant) or (isinstance(command, ast.Name) and command.id.isupper())
            assert constant, f"{where}: {ast.unparse(command)}"
    assert len(seen) >= 2, "the look for them finds none"


def test_sql_is_never_put_together_from_texts() -> None:
    """Values travel as parameters; only words of our own stand in statements."""
    for where, call, name in _calls():
        if (
            where.startswith("provision/store/")
            and name.rpartition(".")[2] in {"text", "exec_driver_sql"}
            and call.args
        ):
            assert _own_words(call.args[0]), f"{where}: {ast.unparse(call.args[0])}"


def _own_words(value: ast.expr) -> bool:
    """A constant, a name of the module's or of a table of ours, a choice between such, or a text made of them."""
    match value:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name.lstrip("_").isupper() or name == "sequence"
        case ast.IfExp(body=body, orelse=orelse):
            return _own_words(body) and _own_words(orelse)
        case ast.JoinedStr(values=parts):
            return all(_own_words(part) for part in parts)
        case ast.FormattedValue(value=inner):
            return _own_words(inner)
        case _:
            return False


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_text_reaches_neither_terminal_nor_spreadsheet(
    hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of nodes, users, racks and runs pass the same tables as everything else."""
    print_table(["node"], [[hostile]], empty="")
    print_json([{"node": hostile}])
    print_csv(["node"], [[hostile]])
    out = capsys.readouterr().out
    assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", out)
    assert not any(line.lstrip('"').startswith(("=", "provision:")) for line in out.splitlines()[-2:])


def test_every_promise_names_tests_that_exist() -> None:
    """``tests/…::name`` in the text: the file is there and holds a test or class of that name."""
    text = PROMISES.read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/.]+)::(\w+)`", text)
    assert len(named) >= 25
    for file, name in named:
        path = ROOT / file
        assert path.exists(), file
        assert re.search(rf"^(async )?(def|class) {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE), (
            file,
            name,
        )


def test_every_promise_has_a_test() -> None:
    """Each row of the promises ends with at least one test."""
    rows = [line for line in PROMISES.read_text(encoding="utf-8").splitlines() if line.startswith("| P")]
    assert len(rows) >= 15
    for row in rows:
        assert "`tests/" in row, row
