"""What provision_service does beside packages: files, and what systemd is asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.test_names import load

units, files = load("provision_units"), load("provision_write")
SHOWN = """\
Id=docker.service
Names=docker.service
LoadState=loaded
ActiveState=active
UnitFileState=enabled
NeedDaemonReload=no

Id=openibd.service
Names=openibd.service rdma-load.service
LoadState=loaded
ActiveState=inactive
UnitFileState=disabled
NeedDaemonReload=yes

Id=gone.service
Names=gone.service
LoadState=not-found
ActiveState=inactive
UnitFileState=
NeedDaemonReload=no
"""
SEEN = units.parse_show(SHOWN)
DROPIN = "/etc/systemd/system/docker.service.d/provision.conf"
DAEMON = "/etc/docker/daemon.json"
Unit = dict[str, Any]


@pytest.mark.parametrize(
    ("unit", "changed", "calls"),
    [
        # What is right is left alone: a reload takes the GPUs away from running containers.
        ({"name": "docker.service", "enabled": True, "state": "started", "restart_on": [DAEMON]}, [], []),
        ({"name": "docker.service", "restart_on": [DAEMON]}, ["/etc/other"], []),
        ({"name": "docker.service", "restart_on": [DAEMON]}, [DAEMON], [["restart", "docker.service"]]),
        (
            {"name": "docker.service", "restart_on": [DROPIN]},
            [DROPIN],
            [["daemon-reload"], ["restart", "docker.service"]],
        ),
        ({"name": "docker.service"}, [DROPIN], []),
        ({"name": "docker.service", "restart_now": True}, [], [["restart", "docker.service"]]),
        ({"name": "docker.service", "state": "stopped"}, [], [["stop", "docker.service"]]),
        # Not running: it is started, not restarted; systemd says itself that it has not read the file.
        (
            {"name": "openibd.service", "enabled": True, "state": "started", "restart_on": [DAEMON]},
            [DAEMON],
            [["daemon-reload"], ["enable", "--quiet", "openibd.service"], ["start", "openibd.service"]],
        ),
        (
            {"name": "rdma-load.service", "enabled": True},
            [],
            [["enable", "--quiet", "rdma-load.service"]],
        ),
        ({"name": "openibd.service", "restart_on": [DAEMON]}, [DAEMON], []),
        ({"name": "gone.service", "state": "stopped"}, [], []),
        (
            {"name": "mine.service", "enabled": True, "state": "started"},
            ["/etc/systemd/system/mine.service"],
            [["daemon-reload"], ["enable", "--quiet", "mine.service"], ["start", "mine.service"]],
        ),
    ],
)
def test_systemd_is_asked_for_what_differs(unit: Unit, changed: list[str], calls: list[list[str]]) -> None:
    assert units.plan([unit], SEEN, changed) == (calls, [])


def test_a_unit_that_no_package_brought_is_named() -> None:
    calls, missing = units.plan([{"name": "gone.service", "state": "started"}], SEEN, [])
    assert (calls, len(missing)) == ([], 1)
    assert "unit gone.service is not there" in missing[0]


def told(**more: Any) -> dict[str, Any]:
    return {"files": [], "json": {}, "links": {}, "absent": []} | more


def test_files_are_settled_once(tmp_path: Path) -> None:
    """Whole or not at all, with their mode; the second time nothing is to do."""
    (tmp_path / "old.list").write_text("deb x")
    daemon = tmp_path / "daemon.json"
    daemon.write_text('{"data-root": "/data", "log-opts": {"max-size": "1g", "own": 1}}')
    want = told(
        files=[
            {"path": f"{tmp_path}/new/a", "content": "1\n"},
            {"path": f"{tmp_path}/b", "content": "2", "mode": "0755"},
        ],
        json={str(daemon): {"log-opts": {"max-size": "100m"}}},
        links={f"{tmp_path}/timer": "/dev/null"},
        absent=[f"{tmp_path}/old.list", f"{tmp_path}/never"],
    )
    names = [f"{tmp_path}/{name}" for name in ("new/a", "b", "daemon.json", "timer", "old.list")]
    assert files.settle(want, pretend=True) == names
    assert not (tmp_path / "b").exists()
    if os.geteuid() != 0:
        pytest.skip("what is written belongs to root")
    assert files.settle(want, pretend=False) == names
    assert files.settle(want, pretend=False) == []
    assert json.loads(daemon.read_text()) == {"data-root": "/data", "log-opts": {"max-size": "100m", "own": 1}}
    assert ((tmp_path / "b").stat().st_mode & 0o777, os.readlink(tmp_path / "timer")) == (0o755, "/dev/null")
    (tmp_path / "b").chmod(0o644)
    assert files.settle(want, pretend=False) == [f"{tmp_path}/b"]


@pytest.mark.parametrize("text", ["{", "[1]", "nonsense"])
def test_a_file_that_is_no_json_object_is_not_overwritten(tmp_path: Path, text: str) -> None:
    (tmp_path / "daemon.json").write_text(text)
    with pytest.raises(ValueError, match=r"daemon\.json: not readable JSON .* it is not overwritten"):
        files.settle(told(json={f"{tmp_path}/daemon.json": {"a": 1}}), pretend=False)
    assert (tmp_path / "daemon.json").read_text() == text
