"""Stand-ins for the programs that the disk module calls, over one small world in a JSON file.

``install`` puts ``lsblk``, ``zpool``, ``zfs`` and so on into a folder of PATH: a few lines of shell that note the call
and print what was rendered beforehand, or ask this file where something changes or depends on the words.
The world: ``drives`` ``{name: {"serial", "size", "fstype", "pttype", "on", "parts": [{"n", "fstype", "label", "on"}],
"pulled", "hangs"}}``, ``pools`` ``[{"name", "guid", "serials", "type", "imported", "hostid", "hostname", "props",
"fs"}]``, ``hostid``, ``says`` ``{"zpool status": [status, text]}`` for a program that fails.
It refuses what ZFS refuses: drives that are not blank, pools of another host, unknown numbers.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path
from typing import IO, Any

World = dict[str, Any]
PROGRAMS = ["lsblk", "findmnt", "pvs", "udevadm", "zdb", "wipefs", "zpool", "zfs"]
# Calls that only read and always print the same for one world; the last word counts for lsblk and zdb.
SHELL = """#!/bin/sh
name=${{0##*/}}
{{ printf '%s\\037' "$name" "$@"; echo; }} >> {folder}/log
key="$name-$1"
for last; do :; done
case $name in lsblk|zdb) key="$name-${{last##*/}}" ;; esac
[ -e "{folder}/out/$key" ] && exec cat "{folder}/out/$key"
exec {python} -SE {shim} {folder}/world.json "$name" "$@"
"""


def install(folder: Path) -> None:
    """Make the programs of ``folder/bin``."""
    (folder / "bin").mkdir()
    for name in PROGRAMS:
        text = SHELL.format(folder=folder, python=sys.executable, shim=Path(__file__))
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)


def say(text: str, file: IO[str] | None = None) -> None:
    """A line of output."""
    (file or sys.stdout).write(text + "\n")


def load(path: Path) -> World:
    """Read the world."""
    world: World = json.loads(path.read_text())
    return world


def save(path: Path, world: World) -> None:
    """Write the world, and what follows from it: /dev/disk/by-id, sysfs, the answers to programs that only read."""
    path.write_text(json.dumps(world))
    render(path, world)
    root = path.parent / "root"
    links = root / "dev/disk/by-id"
    links.mkdir(parents=True, exist_ok=True)
    for old in links.iterdir():
        old.unlink()
    for name, drive in world["drives"].items():
        device = root / "sys/block" / name / "device"
        if drive.get("pulled"):
            device.parent.rename(root / f"sys/pulled-{name}") if device.parent.exists() else None
            continue
        device.mkdir(parents=True, exist_ok=True)
        for key, text in {
            "serial": drive["serial"],
            "model": "NV4",
            "firmware_rev": drive.get("firmware", "F1"),
        }.items():
            (device / key).write_text(f"{text}   \n")
        for link in (f"nvme-NV4_{drive['serial']}", f"nvme-NV4_{drive['serial']}_1", eui(drive["serial"])):
            (links / link).symlink_to(f"../../{name}")
            for each in drive["parts"]:
                (links / f"{link}-part{each['n']}").symlink_to(f"../../{name}p{each['n']}")


def render(path: Path, world: World) -> None:
    """Write down what programs print that only read."""
    folder = path.parent / "out"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    if world["says"]:
        return
    argvs = [["findmnt", "-J"], ["pvs", "--reportformat"], ["zpool", "list"], ["zpool", "status"]]
    for name, drive in world["drives"].items():
        if not drive.get("hangs"):
            argvs += [["lsblk", name]] + [["zdb", f"{name}p{each['n']}"] for each in drive["parts"]]
    for argv in argvs:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            Shim(path, argv, world).answer()
        (folder / "-".join(argv)).write_text(out.getvalue())


def eui(serial: str) -> str:
    """The World Wide Name of a drive in /dev/disk/by-id."""
    return f"nvme-eui.{serial.lower():0>16}"


class Shim:
    """One call of one program."""

    def __init__(self, path: Path, argv: list[str], world: World) -> None:
        self.path, self.argv, self.world = path, argv, world

    def answer(self) -> int:
        """Do as the program does; its exit status."""
        verb = " ".join(self.argv[:2])
        if verb in self.world["says"]:
            status, text = self.world["says"][verb]
            say(text, file=sys.stderr if status else sys.stdout)
        else:
            handler = getattr(self, f"{self.argv[0]}_{self.argv[1]}", None) if len(self.argv) > 1 else None
            status = (handler or getattr(self, self.argv[0]))(self.argv[1:])
        return int(status)

    def fail(self, text: str) -> int:
        """An error message."""
        say(text, file=sys.stderr)
        return 1

    def name_of(self, path: str) -> str:
        """The kernel name of a device behind a link."""
        return (self.path.parent / "root" / path.lstrip("/")).resolve().name

    def lsblk(self, argv: list[str]) -> int:
        name = argv[-1].rsplit("/", 1)[-1]
        drive = self.world["drives"][name]
        if drive.get("hangs"):
            time.sleep(60)
        row = self._row(name, "disk", drive) | {"serial": drive["serial"], "wwn": f"eui.{drive['serial']}"}
        row |= {"size": drive["size"], "model": "NV4", "tran": "nvme", "pttype": drive.get("pttype")}
        parts = [self._row(f"{name}p{each['n']}", "part", each) for each in drive["parts"]]
        say(json.dumps({"blockdevices": [row | ({"children": parts} if parts else {})]}))
        return 0

    def _row(self, name: str, kind: str, what: World) -> World:
        row = {"name": name, "kname": name, "path": f"/dev/{name}", "type": kind, "ro": False, "rm": False}
        return row | {
            "fstype": what.get("fstype"),
            "label": what.get("label"),
            "mountpoints": [what.get("on")],
            "maj:min": "1:1",
        }

    def findmnt(self, argv: list[str]) -> int:
        row = {"target": "/", "source": "/dev/nvme0n1p2", "fstype": "ext4", "maj:min": "259:2"}
        say(json.dumps({"filesystems": [row]}))
        return 0

    def pvs(self, argv: list[str]) -> int:
        say(json.dumps({"report": [{"pv": []}]}))
        return 0

    def udevadm(self, argv: list[str]) -> int:
        return 0

    def zdb(self, argv: list[str]) -> int:
        name = argv[-1].rsplit("/", 1)[-1]
        serial = self.world["drives"][name.rsplit("p", 1)[0]]["serial"]
        for pool in self.world["pools"]:
            if serial in pool["serials"]:
                say(f"    name: '{pool['name']}'\n    pool_guid: {pool['guid']}")
                say(f"    hostid: {int(pool['hostid'], 16)}\n    hostname: '{pool['hostname']}'")
        return 0

    def wipefs(self, argv: list[str]) -> int:
        name = self.name_of(argv[-1])
        if name in self.world["drives"]:
            self.world["drives"][name].update(fstype=None, pttype=None, parts=[])
        else:
            for each in self.world["drives"][name.rsplit("p", 1)[0]]["parts"]:
                if name.endswith(f"p{each['n']}"):
                    each.update(fstype=None, label=None)
        return 0

    def _pools(self, imported: bool) -> list[World]:
        return [pool for pool in self.world["pools"] if pool["imported"] == imported]

    def _here(self, serial: str) -> str | None:
        for name, drive in self.world["drives"].items():
            if drive["serial"] == serial and not drive.get("pulled"):
                return str(name)
        return None

    def _state(self, pool: World) -> str:
        lost = sum(self._here(serial) is None for serial in pool["serials"])
        return "ONLINE" if not lost else "DEGRADED" if lost == 1 else "UNAVAIL"

    def zpool_list(self, argv: list[str]) -> int:
        for pool in self._pools(True):
            say(f"{pool['name']}\t{pool['guid']}\t{self._state(pool)}")
        return 0

    def zpool_status(self, argv: list[str]) -> int:
        for pool in self._pools(True):
            state = self._state(pool)
            say(f"  pool: {pool['name']}\n state: {state}\n  scan: none requested\nconfig:\n\n\tNAME STATE")
            say(f"\t{pool['name']}  {state}  0 0 0\n\t  {pool['type']}-0  {state}  0 0 0")
            for number, serial in enumerate(pool["serials"]):
                path = f"/dev/disk/by-id/{eui(serial)}-part1"
                say(
                    f"\t    {path}  ONLINE 0 0 0"
                    if self._here(serial)
                    else f"\t    77{number}  UNAVAIL 0 0 0  was {path}"
                )
            say("\nerrors: No known data errors")
        return 0

    def zpool_import(self, argv: list[str]) -> int:
        asked = {self.name_of(argv[n + 1]) for n, word in enumerate(argv) if word == "-d"}
        number = argv[-1] if argv[-1].isdigit() else None
        for pool in self._pools(False):
            strange = pool["hostid"] != self.world["hostid"]
            seen = [name for serial in pool["serials"] if (name := self._here(serial)) and f"{name}p1" in asked]
            if number == pool["guid"]:
                if strange and "-f" not in argv:
                    return self.fail("cannot import: pool was previously in use from another system.")
                pool.update(imported=True, hostid=self.world["hostid"])
                pool["fs"]["mounted"] = "yes"
                return 0
            if number is None and seen:
                self._show(pool, strange)
        return self.fail("cannot import: no such pool available") if number else 0

    def _show(self, pool: World, strange: bool) -> None:
        state = self._state(pool)
        say(f"   pool: {pool['name']}\n     id: {pool['guid']}\n  state: {state}")
        if strange:
            say(" status: The pool was last accessed by another system.")
        say(f" action: The pool can be imported{' using the -f flag' if strange else ''}.\n config:\n")
        say(f"\t{pool['name']}  {state}\n\t  {pool['type']}-0  {state}")
        for serial in pool["serials"]:
            say(f"\t    {eui(serial)}  {'ONLINE' if self._here(serial) else 'UNAVAIL  cannot open'}")

    def zpool_labelclear(self, argv: list[str]) -> int:
        return self.fail("failed to clear label") if self.world.get("bad_labels") else self.wipefs(argv)

    def zpool_create(self, argv: list[str]) -> int:
        dry, words = "-n" in argv, [word for word in argv[1:] if word != "-n"]
        props: World = {"-o": {}, "-O": {}}
        while words[0] in props:
            key, _, value = words[1].partition("=")
            props[words[0]][key] = value
            words = words[2:]
        names = [self.name_of(word) for word in words[1:] if word.startswith("/")]
        for name in names:
            drive = self.world["drives"][name]
            if drive["parts"] or drive.get("fstype") or drive.get("pttype"):
                return self.fail(f"invalid vdev specification\nuse '-f' to override: {name} is in use")
        if dry:
            return 0
        for name in names:
            self.world["drives"][name].update(pttype="gpt", parts=[{"n": 1, "fstype": None}, {"n": 9, "fstype": None}])
        if self.world.pop("breaks", None):
            return self.fail(f"cannot create '{words[0]}': one or more vdevs refer to the same device")
        for name in names:
            self.world["drives"][name]["parts"][0].update(fstype="zfs_member", label=words[0])
        pool = {"name": words[0], "guid": "4711", "type": words[1], "imported": True, "hostid": self.world["hostid"]}
        pool |= {"serials": [self.world["drives"][name]["serial"] for name in names], "hostname": "here"}
        fs = {"mounted": "yes", "canmount": "on", "keystatus": "-"} | props["-O"]
        self.world["pools"].append(pool | {"props": {"ashift": "12"} | props["-o"], "fs": fs})
        return 0

    def _get(self, kind: str, argv: list[str]) -> int:
        (pool,) = [pool for pool in self._pools(True) if pool["name"] == argv[-1]]
        for key in argv[-2].split(","):
            say(f"{key}\t{pool[kind].get(key, '-')}")
        return 0

    def _set(self, kind: str, argv: list[str]) -> int:
        key, _, value = argv[0].partition("=")
        for pool in self._pools(True):
            pool[kind][key] = value
        return 0

    def zpool_get(self, argv: list[str]) -> int:
        return self._get("props", argv[1:])

    def zpool_set(self, argv: list[str]) -> int:
        return self._set("props", argv[1:])

    def zfs_get(self, argv: list[str]) -> int:
        return self._get("fs", argv[1:])

    def zfs_set(self, argv: list[str]) -> int:
        return self._set("fs", argv[1:])

    def zfs_mount(self, argv: list[str]) -> int:
        return self._set("fs", ["mounted=yes"])


def main(path: Path, argv: list[str]) -> int:
    """Answer one call, and keep what it changed."""
    shim = Shim(path, argv, load(path))
    before = json.dumps(shim.world)
    status = shim.answer()
    if json.dumps(shim.world) != before:
        save(path, shim.world)
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
