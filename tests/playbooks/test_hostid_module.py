"""The host id: written once, kept under an imported pool, refused where it is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.packed import execute, pack


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("packed")
    return pack(home, "provision_hostid", f"hostid=none root={home}")


class Host:
    """A folder that stands for the root of a host."""

    def __init__(self, folder: Path, packed: Path) -> None:
        self.root, self.packed, self.folder = folder / "root", packed, folder
        (self.root / "etc").mkdir(parents=True)
        self.file = self.root / "etc/hostid"

    def run(self, hostid: str = "5e1fc0de", *, check: bool = False) -> dict[str, Any]:
        """One run of the module."""
        return execute(self.packed, self.folder, "/usr/bin:/bin", check=check, hostid=hostid, root=str(self.root))


@pytest.fixture
def host(tmp_path: Path, packed: Path) -> Host:
    return Host(tmp_path, packed)


def test_it_is_written_once_in_the_order_of_the_machine(host: Host) -> None:
    assert host.run(check=True)["changed"]
    assert not host.file.exists()
    assert host.run() | {"invocation": None} == {"changed": True, "hostid": "5e1fc0de", "invocation": None}
    assert host.file.read_bytes() == bytes.fromhex("dec01f5e")
    assert not host.run()["changed"]


@pytest.mark.parametrize("old", [b"abcd", b"abc", b"abcde", b""])
def test_a_random_or_broken_one_gives_way(host: Host, old: bytes) -> None:
    host.file.write_bytes(old)
    assert host.run()["changed"]
    assert host.file.read_bytes() == bytes.fromhex("dec01f5e")


def test_it_stays_under_an_imported_pool(host: Host) -> None:
    host.file.write_bytes(b"\1\0\0\0")
    (host.root / "proc/spl/kstat/zfs/tank").mkdir(parents=True)
    result = host.run()
    assert (result["changed"], result["hostid"]) == (False, "00000001")
    assert "pool tank is imported" in str(result["warnings"])
    host.file.unlink()
    assert host.run()["changed"], "a pool without a host id gets one"


@pytest.mark.parametrize("bad", ["", "00000000", "5e1fc0d", "5e1fc0de0", "5e1fc0dg", "-e1fc0de"])
def test_what_is_none_is_refused(host: Host, bad: str) -> None:
    result = host.run(bad)
    assert result["failed"]
    assert "eight hex digits" in result["msg"]
    assert not host.file.exists()


def test_a_folder_that_is_missing_is_named(host: Host) -> None:
    (host.root / "etc").rmdir()
    assert "etc/hostid cannot be written" in host.run()["msg"]
