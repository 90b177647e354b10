"""The verbs beside bringup, on machines that are up, that were deployed by hand, or that are to be erased."""

from __future__ import annotations

import asyncio
import csv
import json
import signal
from pathlib import Path

from provision.model.machine import Status
from tests.journeys.conftest import DEADLINE_S, Answer, Site, Start, kill

ONE, TWO = "gpu-12-01", "gpu-12-02"


def only_json(answer: Answer) -> object:
    """stdout is one JSON value or JSON lines, and nothing else."""
    try:
        return json.loads(answer.out)
    except ValueError:
        return [json.loads(line) for line in answer.out.splitlines()]


def words(answer: Answer) -> str:
    return answer.out + answer.err


async def test_every_verb_answers_with_json_and_nothing_else(site_of: Start) -> None:
    site: Site = await site_of(nodes=1, faults=[(ONE, "psu_cord_out:2")])
    for argv in (
        ("plan", "all"),
        ("bringup", "all"),
        ("status",),
        ("check", ONE),
        ("triage", ONE),
        ("macs", ONE),
        ("history", ONE),
        ("power", "status", ONE),
        ("tickets", "list"),
        ("tickets", "show", "t-0001"),
        ("inventory", "check"),
    ):
        answer = await site.provision(*argv, "--output", "json")
        assert answer.status in {0, 1}, (argv, answer.err)
        assert only_json(answer), argv
        assert answer.out.isascii(), argv
    (row,) = json.loads((await site.provision("tickets", "export", "--format", "json")).out)
    assert (row["hostname"], row["category"], row["locator_label"]) == (ONE, "psu", "PSU 2")
    exported = (await site.provision("tickets", "export")).out
    (row,) = csv.DictReader(exported.removeprefix("\ufeff").splitlines())
    assert (row["Hostname"], row["Category"], row["Status"]) == (ONE, "psu", "open")
    shown = await site.provision("tickets", "show", "T-0001")
    assert "PSU 2" in shown.out
    missing = await site.provision("tickets", "show", "T-0099")
    assert (missing.status, "there is no ticket 'T-0099'" in missing.err) == (2, True)
    assert site.writes() == 0


async def test_looking_at_a_machine_that_is_up_and_its_power(site_of: Start) -> None:
    site: Site = await site_of(nodes=2)
    machine = site.world.by_name(ONE)
    unknown = await site.provision("check", ONE, "--output", "json")
    assert (unknown.status, unknown.json[0]["healthy"]) == (1, "unknown"), "nothing is installed: nobody can say"
    assert (await site.bringup(ONE)).status == 0
    site.world.reset_writes()

    healthy = await site.provision("check", ONE, "--output", "json")
    assert (healthy.status, healthy.json) == (0, [{"node": ONE, "healthy": "yes", "evidence": []}])
    ports = (await site.provision("macs", ONE, "--output", "json")).json
    assert {port["mac"] for port in ports if port["kind"] == "ethernet"} == {
        nic.mac for nic in machine.nics if nic.kind == "ethernet"
    }
    assert [(port["switch"], port["switch_port"]) for port in ports if port["boot"]] == [
        (machine.boot_nic.planned_switch, machine.boot_nic.planned_port)
    ]
    table = await site.provision("macs", ONE)
    rows = list(csv.DictReader((await site.provision("macs", ONE, "--output", "csv")).out.splitlines()))
    assert {row["mac"] for row in rows if row["mac"]} == {port["mac"] for port in ports if port["mac"]}
    assert all(port["mac"] in table.out for port in ports if port["mac"])
    history = (await site.provision("history", ONE, "--output", "json")).json
    assert [row["stage"] for row in history if row["event"] == "stage-ended"] == [
        "discover", "preflight", "enlist", "commission", "deploy", "configure", "accept",
    ]  # fmt: skip
    assert history[-1]["event"] == "node-ended"
    rows = (await site.provision("status", "--offline", "--output", "json")).json
    assert {row["node"]: (row["outcome"], row["next"]) for row in rows} == {
        ONE: ("ready", "nothing"),
        TWO: ("unknown", f"provision bringup {TWO}"),
    }
    assert site.writes() == 0, "looking wrote something"

    site.world.inject(ONE, "gpu_missing", "5")
    sick = await site.provision("check", ONE, "--output", "json")
    assert (sick.status, sick.json[0]["healthy"]) == (1, "no")
    assert any("GPU" in line for line in sick.json[0]["evidence"])
    site.world.repair(ONE)

    async def power(verb: str, *more: str) -> tuple[int, str, str]:
        answer = await site.provision("power", verb, ONE, *more, "--output", "json")
        (row,) = answer.json
        return answer.status, row["power"], row["result"]

    assert await power("status") == (0, "on", "on")
    assert await power("on") == (0, "on", "already on")
    assert site.writes() == 0
    assert await power("off") == (0, "off", "switched off")
    assert dict(machine.writes) == {"bmc:reset:GracefulShutdown": 1}
    assert await power("cycle") == (0, "on", "switched on")
    assert await power("cycle", "--force") == (0, "on", "restarted")
    assert sum(machine.writes.values()) == 4
    assert site.world.by_name(TWO).writes == {}


async def test_a_machine_that_was_deployed_by_hand_is_left_alone_until_it_is_adopted(site_of: Start) -> None:
    site: Site = await site_of(nodes=1)
    assert (await site.bringup()).status == 0
    machine = site.world.by_name(ONE)
    record = site.fleet.maas.record_of(machine)
    record.owner_data.clear()
    site.world.reset_writes()

    left = await site.bringup()
    assert left.status == 1
    (why,) = [row["why"] for row in (await site.provision("status", "--offline", "--output", "json")).json]
    assert f"provision adopt {ONE}" in why
    assert f"provision reimage {ONE} --yes-erase {ONE}" in why
    assert site.writes() == 0

    adopted = await site.provision("adopt", ONE)
    assert (adopted.status, adopted.out) == (0, "")
    assert f"{ONE} is adopted as epoch 1, its SSH key is pinned" in adopted.err
    assert dict(machine.writes) == {"maas:set_workload_annotations": 1}
    assert (await site.bringup()).status == 0
    assert (machine.deployed_count, machine.writes["maas:deploy"], machine.writes["maas:release"]) == (1, 0, 0)
    twice = await site.provision("adopt", ONE)
    assert "has its receipt already" in twice.err
    assert machine.writes["maas:set_workload_annotations"] == 1
    several = await site.provision("adopt", "rack-12")
    assert (several.status, "exactly one node" in several.err) == (2, True)


async def test_reimage_erases_the_named_node_alone_and_once(site_of: Start) -> None:
    site: Site = await site_of(nodes=2)
    assert (await site.bringup()).status == 0
    one, two = site.world.by_name(ONE), site.world.by_name(TWO)
    first = one.installed
    site.world.reset_writes()

    for argv, said in (
        (("reimage", ONE), f"add: --yes-erase {ONE}"),
        (("reimage", ONE, "--yes-erase", TWO), f"it says '{TWO}'"),
        (("reimage", "rack-12", "--yes-erase", ONE), f"it says '{ONE}'"),
    ):
        refused = await site.provision(*argv)
        assert (refused.status, said in refused.err) == (2, True), refused.err
    assert site.writes() == 0

    done = await site.provision("reimage", ONE, "--yes-erase", ONE, "--output", "json")
    assert done.status == 0, done.out
    assert (one.deployed_count, two.deployed_count) == (2, 1)
    assert (one.writes["maas:release"], one.writes["maas:deploy"]) == (1, 1)
    assert two.writes == {}
    assert one.installed is not first
    boot = next(drive for drive in one.drives if drive.boot)
    assert one.installed is not None
    assert one.installed.disk_serial == boot.serial, "the data drives are not the system's"
    record = site.fleet.maas.record_of(one)
    used = {disk.serial for disk in record.disks if disk.partitions}
    assert used <= {boot.serial}
    assert "2" in " ".join(record.owner_data.values()), "the receipt names the epoch"

    # Interrupted in the middle of the second one; bringup, which may erase nothing, brings it to its end.
    process = await site.start("reimage", ONE, "--yes-erase", ONE, "--output", "json")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            async for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "acted" and event["step"] == "release":
                    kill(process)
            assert await process.wait() == -signal.SIGKILL
    finally:
        if process.returncode is None:
            kill(process)
    again = await site.bringup()
    assert again.status == 0, again.out
    assert (one.deployed_count, one.writes["maas:release"], one.writes["maas:deploy"]) == (3, 2, 2)
    assert (two.deployed_count, two.writes) == (1, {})
    writes = site.writes()
    assert (await site.bringup()).status == 0
    assert site.writes() == writes, "nothing is erased a third time"
    assert record.status is Status.DEPLOYED


async def test_tickets_go_into_a_file(site_of: Start, tmp_path: Path) -> None:
    site: Site = await site_of(nodes=2, faults=[(ONE, "nvme_failing:2"), (TWO, "psu_failed:3")], with_maas=True)
    file = tmp_path / "t.csv"
    text = await site.provision("bringup", "rack-12", "--tickets", str(file))
    assert text.status == 1
    assert text.out == "", "messages go to stderr"
    assert f"2 open ticket(s): {file}" in text.err
    assert "0 of 2 ready; after the repair: provision bringup 'rack-12'" in text.err
    with file.open(newline="", encoding="utf-8-sig") as handle:
        assert [row["Hostname"] for row in csv.DictReader(handle)] == [ONE, TWO]
    part = await site.provision("tickets", "export", TWO, "-o", str(tmp_path / "two.csv"))
    assert "1 ticket(s) written" in part.err
    bad = await site.provision("tickets", "export", "-o", str(tmp_path / "no" / "where.csv"))
    assert (bad.status, "give another --file" in bad.err) == (2, True)
    listed = await site.provision("tickets", "list", "--output", "csv")
    assert len(listed.out.splitlines()) == 3
