"""The pool module as Ansible runs it: packed by Ansible, started with JSON arguments, over stand-in programs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.packed import PLAYBOOKS, execute, pack
from tests.playbooks.zfs_shim import World, eui, install, load, save

# What this module never does: grow, shrink or force a pool, or wake every drive of the box at once.
NEVER = [["zpool", verb] for verb in ("add", "remove", "replace", "attach", "detach", "destroy", "offline")]
NEVER += [["zpool", "create", "-f"], ["partprobe"], ["nvme"]]


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("packed")
    return pack(home, "provision_zpool", f"pool=tank expected_drives=0 mountpoint=/x root={home}")


class Node:
    """A machine with stand-in programs: a system drive and six blank ones."""

    def __init__(self, folder: Path, packed: Path) -> None:
        self.file, self.packed, self.folder = folder / "world.json", packed, folder
        install(folder)
        for name in ("proc", "etc", "sys/class/block"):
            (folder / "root" / name).mkdir(parents=True)
        system = [{"n": 1, "fstype": "vfat", "on": "/boot/efi"}, {"n": 2, "fstype": "ext4", "on": "/"}]
        drives: World = {"nvme0n1": {"serial": "OS0", "size": 10**12, "pttype": "gpt", "parts": system}}
        drives |= {f"nvme{n}n1": {"serial": f"S{n}", "size": 4 * 10**12, "parts": []} for n in range(1, 7)}
        world = {"drives": drives, "pools": [], "hostid": "0badcafe", "says": {}}
        (folder / "root/etc/hostid").write_bytes(bytes.fromhex("fecaad0b"))
        save(self.file, world)

    @property
    def world(self) -> World:
        """The world as it stands."""
        return load(self.file)

    def change(self, how: Callable[[World], object]) -> None:
        """Hands in the data centre."""
        world = self.world
        how(world)
        save(self.file, world)

    def run(self, *, check: bool = False, **more: Any) -> dict[str, Any]:
        """One run of the module. The result carries ``calls``: what was called with which words."""
        (self.folder / "log").write_text("")
        args = {
            "pool": "tank",
            "expected_drives": 6,
            "mountpoint": "/scratch",
            "root": str(self.folder / "root"),
        } | more
        result = execute(self.packed, self.folder, f"{self.folder}/bin:/usr/bin:/bin", check=check, **args)
        result["calls"] = [line.split("\037")[:-1] for line in (self.folder / "log").read_text().splitlines()]
        for call in result["calls"]:
            for never in NEVER:
                assert not set(never) <= set(call), call
        return result


@pytest.fixture
def node(tmp_path: Path, packed: Path) -> Node:
    return Node(tmp_path, packed)


def reimage(node: Node, **pool: Any) -> None:
    """A new system on the old system drive; the pool's drives stay as they were."""
    assert not node.run().get("failed")
    node.change(lambda world: world["pools"][0].update({"imported": False} | pool))


def test_a_pool_is_created_and_the_second_run_changes_nothing(node: Node) -> None:
    first = node.run()
    assert first["changed"]
    assert not first.get("failed"), first["msg"]
    (create,) = first["commands"]
    assert create[:2] == ["zpool", "create"]
    assert create[-8:] == ["tank", "raidz1"] + [f"/dev/disk/by-id/{eui(f'S{n}')}" for n in range(1, 7)]
    options = "-o ashift=12 -o autotrim=on -o cachefile=/etc/zfs/zpool.cache -O compression=lz4 -O xattr=sa"
    assert " ".join(create[2:-8]) == f"{options} -O acltype=posix -O mountpoint=/scratch -O atime=off"
    dry = [call for call in first["calls"] if call[:3] == ["zpool", "create", "-n"]]
    assert [["zpool", "create", *call[3:]] for call in dry] == [create]
    second = node.run()
    assert (second["changed"], second["commands"], second["plan"]["action"]) == (False, [], "nothing")
    assert not (node.folder / "root/etc/provision/zfs-create.json").exists()


def test_one_drive_is_asked_at_a_time(node: Node) -> None:
    looks = [call for call in node.run(check=True)["calls"] if call[0] == "lsblk"]
    assert sorted(call[-1] for call in looks) == [f"/dev/nvme{n}n1" for n in range(7)]


def test_check_mode_only_says(node: Node) -> None:
    before = node.world
    result = node.run(check=True)
    assert result["changed"]
    assert result["commands"][0][:2] == ["zpool", "create"]
    assert node.world == before
    assert not (node.folder / "root/etc/provision").exists()
    node.run()
    assert not node.run(check=True)["changed"]


def test_a_pool_is_imported_after_a_reimage(node: Node) -> None:
    reimage(node)
    result = node.run()
    (command,) = result["commands"]
    assert command[:2] == ["zpool", "import"]
    assert command[-3:] == ["-o", "cachefile=/etc/zfs/zpool.cache", "4711"]
    assert f"/dev/disk/by-id/{eui('S3')}-part1" in command
    assert not node.run()["changed"]


def test_a_pool_of_another_host_is_refused_until_its_host_id_is_named(node: Node) -> None:
    reimage(node, hostid="000000aa", hostname="db7")
    refused = node.run()
    assert (refused["failed"], refused["changed"]) == (True, False)
    assert "host id 000000aa (db7)" in refused["msg"]
    taken = node.run(hostids=["000000aa"])
    assert "-f" in taken["commands"][0]
    assert not node.run()["changed"]


def test_a_degraded_pool_is_imported_and_reported(node: Node) -> None:
    reimage(node)
    node.change(lambda world: world["drives"]["nvme3n1"].update(pulled=True))
    known = [{"serial": f"S{n}", "bay": f"{n + 10}"} for n in range(1, 7)]
    result = node.run(drives=known)
    assert (result["failed"], result["changed"]) == (True, True)
    assert "drive S3 of bay 13 is missing" in result["msg"]
    assert node.world["pools"][0]["imported"]
    again = node.run(degraded_ok=1)
    assert (again.get("failed"), again["changed"], len(again["degraded"])) == (None, False, 1)


def test_a_pool_with_too_few_drives_is_never_made_again(node: Node) -> None:
    reimage(node)
    node.change(lambda world: [world["drives"][name].update(pulled=True) for name in ("nvme3n1", "nvme4n1")])
    result = node.run(wipe_allow=[f"S{n}" for n in range(1, 7)])
    assert (result["failed"], result["commands"]) == (True, [])
    assert "UNAVAIL" in result["msg"]


def test_only_the_named_drives_are_wiped(node: Node) -> None:
    old = {"pttype": "gpt", "parts": [{"n": 1, "fstype": "zfs_member", "label": "old"}, {"n": 9, "fstype": None}]}
    node.change(
        lambda world: [world["drives"][name].update(json.loads(json.dumps(old))) for name in ("nvme2n1", "nvme5n1")]
    )
    refused = node.run(wipe_allow=["S2"])
    assert refused["commands"] == []
    assert "drive S5 (/dev/nvme5n1) is not blank" in refused["msg"]
    done = node.run(wipe_allow=["S2", "S5"])
    wiped = [call[-1] for call in done["commands"] if call[0] == "wipefs"]
    assert wiped == [f"/dev/disk/by-id/{eui(f'S{n}')}{part}" for n in (2, 5) for part in ("-part1", "-part9", "")]
    assert not done.get("failed")
    assert not node.run()["changed"]


def test_a_creation_that_breaks_leaves_drives_that_the_next_run_takes_up(node: Node) -> None:
    node.change(lambda world: world.update(breaks=True))
    broken = node.run()
    assert broken["failed"]
    assert "refer to the same device" in broken["msg"]
    assert node.world["drives"]["nvme1n1"]["parts"]
    done = node.run()
    assert not done.get("failed"), done["msg"]
    assert not node.run()["changed"]


def test_a_quarantined_drive_is_never_named_to_any_program(node: Node) -> None:
    node.change(lambda world: world["drives"]["nvme4n1"].update(hangs=True, firmware="BAD1"))
    shunned = [{"model": "NV4", "firmware": "BAD1"}]
    refused = node.run(quarantine=shunned)
    assert "drive S4 (/dev/nvme4n1) is in quarantine" in refused["msg"]
    done = node.run(quarantine=shunned, expected_drives=5)
    assert not done.get("failed"), done["msg"]
    for call in refused["calls"] + done["calls"]:
        words = [
            word for word in call if call[0] != "pvs" and ("nvme4n1" in word or "_S4" in word or eui("S4") in word)
        ]
        assert words == [], call
    assert [call for call in done["calls"] if call[0] == "pvs" and "r|^/dev/nvme4n1|" in call[-1]]


def test_a_drive_that_hangs_is_named_in_time(node: Node) -> None:
    node.change(lambda world: world["drives"]["nvme4n1"].update(hangs=True))
    began = time.monotonic()
    result = node.run(probe_timeout_s=2)
    assert time.monotonic() - began < 20
    assert "did not answer in 2 s" in result["msg"]
    assert "nvme4n1" in result["msg"]
    assert "zfs_quarantine" in result["msg"]


@pytest.mark.parametrize(
    ("program", "says", "words"),
    [
        ("zpool list", [1, "The ZFS modules are not loaded."], "modules are not loaded"),
        ("zpool status", [1, "internal error"], "zpool status -P ended with 1"),
        ("zpool import", [1, "cannot discover pools: permission denied"], "zpool import ended with 1"),
        ("findmnt -J", [0, "<html>"], "findmnt printed no JSON"),
        ("lsblk -J", [0, "[]"], "lsblk printed a list; an object was expected"),
        ("lsblk -J", [32, "not a block device"], "lsblk -J -b ended with 32"),
        ("zpool create", [1, "unsupported"], "zpool create -n ended with 1: unsupported"),
    ],
)
def test_a_program_that_fails_is_no_absent_pool(node: Node, program: str, says: list[Any], words: str) -> None:
    node.change(lambda world: world["says"].update({program: says}))
    result = node.run()
    assert (result["failed"], result["changed"]) == (True, False)
    assert words in result["msg"]
    assert not node.world["pools"]


def test_no_pool_to_import_may_be_an_error_or_not(node: Node) -> None:
    node.change(lambda world: world["says"].update({"zpool import": [1, "no pools available to import"]}))
    assert not node.run().get("failed")


def test_a_program_that_is_not_there_is_named(node: Node) -> None:
    # Not executable, so not there; the machine that runs the tests may have a findmnt of its own.
    (node.folder / "bin/zpool").unlink()
    (node.folder / "bin/zpool").mkdir()
    assert re.search(r"zpool (cannot be run|list -H ended with)", node.run()["msg"])


def test_properties_converge(node: Node) -> None:
    node.run()
    node.change(lambda world: world["pools"][0]["fs"].update(compression="off", mounted="no"))
    node.change(lambda world: world["pools"][0]["props"].update(autotrim="off", cachefile="-", ashift="9"))
    result = node.run()
    assert result["commands"] == [
        ["zpool", "set", "autotrim=on", "tank"],
        ["zfs", "set", "compression=lz4", "tank"],
        ["zfs", "mount", "tank"],
    ]
    assert "ashift 9, 12 was expected" in result["reports"][0]
    assert not node.run()["changed"]


def test_a_locked_pool_is_named(node: Node) -> None:
    reimage(node)
    node.change(lambda world: world["pools"][0]["fs"].update(keystatus="unavailable"))
    assert "zfs load-key tank" in node.run()["msg"]


def test_a_damaged_label_does_not_stop_the_wipe(node: Node) -> None:
    node.change(lambda world: world.update(bad_labels=True))
    node.change(lambda world: world["drives"]["nvme2n1"].update(fstype="zfs_member", label="old"))
    assert not node.run(wipe_allow=["S2"]).get("failed")


OWN = ["library/provision_zpool.py", "library/provision_hostid.py"] + [
    f"module_utils/provision_{name}.py" for name in ("disks", "disks_seen", "disks_read", "zpool_text")
]


@pytest.mark.parametrize("name", OWN)
def test_the_code_runs_on_old_pythons(name: str) -> None:
    """Targets have Python 3.8 and later: no newer grammar, none of the newer methods."""
    text = (PLAYBOOKS / name).read_text()
    ast.parse(text, feature_version=(3, 8))
    assert [word for word in ("removeprefix", "removesuffix", "strict=True") if word in text] == []
    assert len(text.splitlines()) < 420


@pytest.mark.parametrize(("name", "needed"), [("provision_zpool", "expected_drives"), ("provision_hostid", "hostid")])
def test_the_modules_are_documented(name: str, needed: str) -> None:
    env = os.environ | {"ANSIBLE_LIBRARY": str(PLAYBOOKS / "library")}
    argv = [str(Path(sys.executable).parent / "ansible-doc"), "-j", "-t", "module", name]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=True)
    options = json.loads(done.stdout)[name]["doc"]["options"]
    assert options[needed]["required"]
    assert all(each["description"] for each in options.values())
