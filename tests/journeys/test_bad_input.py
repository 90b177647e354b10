"""What people give us that is not as it should be, and what a machine's owner does in the middle of it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.sim.inventory import profile
from tests.journeys.conftest import DEADLINE_S, Answer, Site, Start, kill

ONE, TWO = "gpu-12-01", "gpu-12-02"


class Bare(Site):
    """Commands over an inventory without a fleet: nothing may get as far as a BMC."""

    fleet: Any

    def __init__(self, folder: Path) -> None:  # a fleet is an inventory and a world; here is only the inventory
        self.inventory = folder / "inventory"
        self.state = folder / "state"
        self.fleet = self
        self.from_scratch = False

    def write(self, hosts: dict[str, Any], **changes: Any) -> None:
        """A site of two nodes, with ``changes`` laid over its hosts file."""
        shutil.rmtree(self.inventory, ignore_errors=True)
        self.inventory.mkdir(parents=True)
        site = {
            "bmc": {"user": "root", "password": "env:NOWHERE"},
            "maas": {"url": "http://127.0.0.1:1/MAAS", "key": "env:X"},
        }
        variables = {"profile": "h100", "profiles": {"h100": profile()}, "provision": site} | changes
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": variables, "hosts": hosts}}))


def host(number: int, **more: Any) -> dict[str, Any]:
    return {"bmc_address": f"127.99.0.{number}:1", "rack": "rack-12", "rack_unit": number} | more


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path)


def refused(answer: Answer, *said: str) -> None:
    """Exit 2; every line of stderr is a sentence of ours; nothing on stdout."""
    assert (answer.status, answer.out) == (2, ""), answer.err
    assert all(line.startswith("provision: ") for line in answer.err.splitlines()), answer.err
    for words in said:
        assert words in answer.err


async def test_inventories_that_cannot_be_read(bare: Bare) -> None:
    refused(await bare.provision("bringup", "all"), f"{bare.inventory} does not exist", "-i/--inventory")
    bare.inventory.mkdir()
    refused(await bare.provision("bringup", "all"), f"{bare.inventory} is empty: expected an Ansible inventory")
    hosts = bare.inventory / "hosts.yml"
    hosts.write_text("all:\n  hosts:\n    gpu-1: {bmc_address: 10.1.1.1\n  oops: [\n")
    refused(await bare.provision("bringup", "all"), f"{hosts}:", "broken YAML", "correct the line")
    hosts.write_bytes(b"\x7fELF\x02\x01\x01\x00\x80\xff" * 50)
    refused(await bare.provision("bringup", "all"), f"{hosts}:1: a binary file")
    assert not bare.state.exists(), "nothing was begun"


async def test_targets_that_name_nobody(bare: Bare) -> None:
    bare.write({ONE: host(1), TWO: host(2)})
    refused(
        await bare.provision("bringup", "gpu-12-99"),
        "no host or group matches gpu-12-99",
        f"mean {TWO} or {ONE}?",
    )
    refused(await bare.provision("bringup", "all:!gpu-12-0l"), "no host or group matches")
    refused(await bare.provision("status", ""), "the target is empty")


async def test_hosts_that_cannot_both_be_right(bare: Bare) -> None:
    same = ["b8:3f:d2:00:00:01"]
    bare.write({ONE: host(1, macs=same), TWO: host(2, macs=["B83FD2000001"])})
    refused(
        await bare.provision("bringup", "all"), f"MAC address {same[0]} is given to {ONE} and {TWO}: it belongs to one"
    )
    bare.write(
        {ONE: host(1, macs=["00:00:00:00:00:00"]), TWO: host(1, service_tag="A"), "gpu-3": host(1, service_tag="a")}
    )
    answer = await bare.provision("bringup", "all")
    refused(
        answer,
        f"host {ONE}: macs",
        "BMC address 127.99.0.1:1 is given to",
        "rack unit rack-12 U1 is given to",
        "service tag A",
    )
    assert "00:00:00:00:00:00" in answer.err


async def test_a_table_of_machines_from_a_spreadsheet(bare: Bare, tmp_path: Path) -> None:
    sheet = tmp_path / "racks.csv"
    head = "Hostname;iDRAC IP;Rack;U;Serial;Colour;Profile\r\n"
    sheet.write_bytes(
        (
            "\ufeff"
            + head
            + "gpu-1;10.1.1.1;rack-1;1;ABC1234;red;h100\r\n\r\ngpu-2;10.1.1.2;rack-1;7;ABC1235;;h100\r\n"
        ).encode()
    )
    done = await _import(bare, sheet)
    assert done.status == 0, done.err
    assert "ignored column(s): Colour" in done.err
    hosts = yaml.safe_load((bare.inventory / "hosts.yml").read_text())
    assert "10.1.1.2" in str(hosts)
    refused(await _import(bare, sheet), "hosts.yml")

    rows = [
        "=HYPERLINK(1);10.1.1.1;rack-1;1;;;h100",
        "gpu-3;10.1.1.3;rack-1;3;=1+1;;h100",
        "gpu-2;10.1.1.2;rack-1;20;;;h100",
        "gpu-2;10.1.1.4;rack-1;40;;;h100",
    ]
    sheet.write_text(head + "\r\n".join(rows))
    answer = await _import(bare, sheet, "--replace")
    refused(
        answer, f"{sheet}:2: ", f"{sheet}:3: ", "is a formula: export values, not formulas", f"{sheet}:5: ", "gpu-2"
    )
    assert yaml.safe_load((bare.inventory / "hosts.yml").read_text()) == hosts, "the old file stands"
    sheet.write_bytes(b"PK\x03\x04\x00\x00binary\x00")
    refused(await _import(bare, sheet, "--replace"), "CSV")


async def _import(bare: Bare, sheet: Path, *more: str) -> Answer:
    """`inventory import` knows no --state."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "provision", "inventory", "import", str(sheet), "-i", str(bare.inventory), *more),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    return Answer(process.returncode or 0, out.decode(), err.decode())


async def test_state_directories_that_cannot_be_used(bare: Bare, tmp_path: Path) -> None:
    bare.write({ONE: host(1)})
    (tmp_path / "file").write_text("here is no room for a folder")
    bare.state = tmp_path / "file" / "state"
    refused(await bare.provision("status", "--offline"), "--state")
    bare.state = tmp_path / "file"
    refused(
        await bare.provision("status", "--offline"), f"state directory {bare.state} is a file; expected a directory"
    )
    bare.state = Path("/proc/no-such-place")
    refused(await bare.provision("status", "--offline"), "/proc/no-such-place", "--state")

    bare.state = tmp_path / "state"
    assert (await bare.provision("status", "--offline")).status == 1
    store = bare.state / "store.db"
    assert list(store.parent.glob("store.db*"))
    raw = bytearray(store.read_bytes())
    raw[100:6000] = os.urandom(5900)
    store.write_bytes(raw)
    for name in ("store.db-wal", "store.db-shm"):
        (bare.state / name).unlink(missing_ok=True)
    refused(await bare.provision("tickets", "list"), f"store {store}: ", "move it away")
    store.write_bytes(b"this was never a database, whatever its name says\n" * 40)
    refused(await bare.provision("tickets", "list"), f"{store}", "move it away")
    store.unlink()
    with sqlite3.connect(store) as other:
        other.execute("CREATE TABLE songs (title TEXT)")
    other.close()
    refused(await bare.provision("tickets", "list"), "a database of another program")


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "tiny"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take the last byte of a file system."""
    filler = place / "filler"
    handle = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (4096, 1):
            with suppress(OSError):
                while os.write(handle, b"\0" * size):
                    pass
    finally:
        os.close(handle)
    return filler


def make_read_only(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)


async def test_a_disk_that_is_full_ends_the_run_with_a_sentence_and_not_the_machines(
    site_of: Start, tiny: Path
) -> None:
    site: Site = await site_of(nodes=1)
    site.state = tiny / "state"
    assert (await site.provision("status", "--offline")).status == 1
    filler = fill(tiny)
    answer = await site.provision("bringup", "all")
    assert answer.status in {1, 2}, answer.err
    assert "disk" in answer.err.lower() or "space" in answer.err.lower(), answer.err
    assert str(site.state) in answer.err
    filler.unlink()
    make_read_only(tiny)
    refused(await site.provision("bringup", "all"), str(site.state), "--state")
    assert site.world.by_name(ONE).deployed_count == 0
    site.state = tiny.parent / "state"
    assert (await site.bringup()).status == 0
    assert site.world.by_name(ONE).deployed_count == 1


async def test_a_boot_disk_rule_that_fits_none_or_two_installs_nothing(site_of: Start) -> None:
    site: Site = await site_of(nodes=1)
    file = site.fleet.inventory / "group_vars" / "all" / "profiles.yml"
    right = file.read_text()
    boot = next(drive for drive in site.world.by_name(ONE).drives if drive.boot)
    data = [drive for drive in site.world.by_name(ONE).drives if not drive.boot]
    for rule, found, candidates in (
        ({"model": "Samsung"}, "none of 9 drives matches", [boot, data[0]]),
        ({"min_size": "5TB"}, "8 drives match", data),
    ):
        file.write_text(yaml.safe_dump({"profiles": {"h100-8gpu": profile() | {"boot_disk": rule}}}))
        answer = await site.bringup()
        assert answer.status == 1
        (row,) = (await site.provision("status", "--offline", "--output", "json")).json
        assert row["stage"] == "deploy"
        assert found in row["why"]
        assert all(drive.serial in row["why"] for drive in candidates), "who may choose is shown the drives"
    machine = site.world.by_name(ONE)
    assert machine.writes["maas:deploy"] == machine.writes["maas:set_boot_disk"] == machine.deployed_count == 0
    file.write_text(right)
    assert (await site.bringup()).status == 0
    assert machine.installed is not None
    assert machine.installed.disk_serial == boot.serial


async def test_two_bmcs_that_show_one_mac(site_of: Start) -> None:
    """A card that was cloned, or one chassis cabled to two BMCs: both stop, and each is told of the other."""
    site: Site = await site_of(nodes=2)
    one, two = site.world.by_name(ONE), site.world.by_name(TWO)
    mac = one.boot_nic.mac
    for nics in (two._healthy.nics, two._parts.nics):
        nics[0].mac = mac
    answer = await site.bringup()
    assert answer.status == 1
    rows = {row["node"]: row for row in (await site.provision("status", "--offline", "--output", "json")).json}
    stuck = [row for row in rows.values() if row["outcome"] == "needs-us"]
    assert stuck, rows
    assert any(mac in row["why"] and (ONE in row["why"] or TWO in row["why"]) for row in stuck), rows
    # A create is counted for each machine that has one of its addresses, so the one of TWO counts for both.
    assert max(machine.writes["maas:create"] for machine in (one, two)) <= 1
    assert len(site.fleet.maas.region.machines) <= 1, "two nodes, one machine in MAAS"
    assert two.deployed_count + one.deployed_count <= 1


async def test_two_runs_over_one_rack(site_of: Start) -> None:
    site: Site = await site_of(nodes=1)
    site.world.inject(ONE, "bmc_busy", "3600")  # the first run waits here until everything was asked
    first = await site.start("bringup", "rack-12", "--output", "json")
    assert first.stdout is not None
    try:
        began = json.loads(await asyncio.wait_for(first.stdout.readline(), DEADLINE_S))
        second = await site.provision("power", "cycle", ONE)
        refused(
            second, f"{ONE} is held by bringup rack-12 of ", f"process {first.pid}", "since ", f"(run {began['run']})"
        )
        who = second.err.split(" of ", 1)[1].split(",", 1)[0]
        assert "@" in who, "who, and on which machine"
        # Looking is allowed meanwhile.
        (row,) = (await site.provision("status", "--offline", "--output", "json")).json
        assert f"goes on in run {began['run']}" in row["next"]
        site.world.repair(ONE)
        reading = asyncio.create_task(first.stdout.read())
        assert await asyncio.wait_for(first.wait(), DEADLINE_S) == 0
        await reading
    finally:
        if first.returncode is None:
            kill(first)
            await first.wait()
    assert site.world.by_name(ONE).deployed_count == 1


async def test_a_killed_run_is_not_said_to_go_on(site_of: Start) -> None:
    site: Site = await site_of(nodes=1, faults=[(ONE, "bmc_busy:3600")])
    first = await site.start("bringup", "rack-12", "--output", "json")
    assert first.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        async for line in first.stdout:
            if json.loads(line).get("node") == ONE:
                break
    kill(first)
    await first.wait()
    (row,) = (await site.provision("status", "--offline", "--output", "json")).json
    assert row["outcome"] in {"interrupted", "unknown"}
    assert "goes on in run" not in row["next"]
    assert f"provision bringup {ONE}" in row["next"]


async def test_ctrl_c_once_says_what_goes_on_and_the_same_command_finishes(site_of: Start) -> None:
    site: Site = await site_of(nodes=2, speed=300.0)
    process = await site.start("bringup", "all", "--output", "json")
    assert process.stdout is not None
    said: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            async for line in process.stdout:
                said.append(json.loads(line))
                if said[-1]["event"] == "acted" and said[-1]["step"] == "deploy":
                    process.send_signal(signal.SIGINT)
                    break
            at = len(said)
            async for line in process.stdout:
                said.append(json.loads(line))
            assert await process.wait() == 130
    finally:
        if process.returncode is None:
            kill(process)
            await process.wait()
    assert len([line for line in said[at:] if line["event"] == "acted"]) <= 1, "no new act but one that was on its way"
    (sentence,) = [line["text"] for line in said if line["event"] == "said"]
    assert "in MAAS; the same command goes on from here" in sentence
    assert said[-1]["exit_status"] == 130
    outcomes = await site.outcomes()
    assert set(outcomes.values()) == {"interrupted"}
    deploys = sum(machine.writes["maas:deploy"] for machine in site.world.machines.values())
    assert deploys >= 1
    again = await site.bringup()
    assert again.status == 0, again.out
    for machine in site.world.machines.values():
        assert (machine.deployed_count, machine.writes["maas:deploy"]) == (1, 1)


async def test_ctrl_c_twice_leaves_at_once(site_of: Start) -> None:
    site: Site = await site_of(nodes=1)
    site.world.by_name(ONE).bmc_latency_s = 20.0
    process = await site.start("bringup", "all", "--output", "json")
    assert process.stdout is not None
    try:
        while json.loads(await asyncio.wait_for(process.stdout.readline(), DEADLINE_S))["event"] != "stage-started":
            pass
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.3)
        assert process.returncode is None, "the first one waits for what is on its way"
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 5)
    finally:
        if process.returncode is None:
            kill(process)
            await process.wait()
    assert process.returncode == 130
    assert b"Traceback" not in err
    site.world.by_name(ONE).bmc_latency_s = 0.0
    assert (await site.bringup()).status == 0, "nobody holds the node"
