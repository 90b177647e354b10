"""What stages read out of answers: ports, addresses, reasons, check output."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from provision.errors import GarbledError
from provision.model.bmc import BmcIdentity, Harvest, Link, NicPort, Power
from provision.model.decision import Seen
from provision.model.evidence import PartKind, Reading
from provision.model.machine import MaasEvent, Machine, ScriptResult, Status
from provision.model.node import Address, MacAddress, Node
from provision.model.profile import DiskRule, Goal, Image, Profile
from provision.model.site import PowerBy
from provision.stages import BRING_UP, boot
from provision.stages.accept import parse_checks
from provision.stages.discover import Discovered
from provision.stages.lookup import address_of, boot_port, failure_reason, macs_of, narrow
from tests.fakes import START, World, tools_for

NODE = Node("gpu-1", "h100", "10.1.0.1", "rack-12")
PROFILE = Profile("h100", Image("jammy"), DiskRule())


def mac(last: int) -> MacAddress:
    return MacAddress(f"b8:3f:d2:00:00:{last:02x}")


def port(number: int, **more: object) -> NicPort:
    return NicPort(f"NIC.{number}", f"Slot {number}", mac(number), **more)  # type: ignore[arg-type]


def harvest(*ports: NicPort) -> Harvest:
    return Harvest(BmcIdentity("Dell Inc.", "R750", "TAG1", None, "dell"), ports)


def test_the_boot_port_is_the_profiles_then_the_bmcs_then_the_one_with_a_link() -> None:
    plain, linked, booting = port(1), port(2, link=Link.UP), port(3, network_boot=True)
    named = Profile("h100", Image("jammy"), DiskRule(), boot_nic="slot 1")
    assert boot_port(named, harvest(booting, linked, plain)) == plain
    assert boot_port(PROFILE, harvest(plain, linked, booting)) == booting
    assert boot_port(PROFILE, harvest(plain, linked)) == linked
    assert boot_port(PROFILE, harvest(plain)) == plain
    assert boot_port(PROFILE, harvest()) is None


def test_macs_begin_with_the_boot_port_and_leave_infiniband_out() -> None:
    ports = harvest(port(1), port(2, network_boot=True), port(3, kind="infiniband"), NicPort("x", "x", None))
    known = Node("gpu-1", "h100", "10.1.0.1", "rack-12", macs=(mac(1), mac(9)))
    assert macs_of(known, PROFILE, ports) == (mac(2), mac(1), mac(9))


def test_a_port_asks_by_its_current_address() -> None:
    assert macs_of(NODE, PROFILE, harvest(port(1, current_mac=mac(7)))) == (mac(7),)


def test_the_inventorys_address_wins_over_maass() -> None:
    machine = Machine("abc", "gpu-1", Status.DEPLOYED, (), addresses=("10.2.0.9", "10.2.0.10"))
    assert address_of(NODE, machine) == Address("10.2.0.9")
    assert address_of(NODE, None) is None
    assert address_of(Node("a", "p", "b", "r", ssh=Address("h", 2222)), machine) == Address("h", 2222)


def test_a_failure_is_named_by_script_status_and_last_lines() -> None:
    results = (
        ScriptResult("30-ok", "commissioning", "passed", 0),
        ScriptResult("memtester", "testing", "failed", 2),
        ScriptResult("50-disks", "commissioning", "timed out", None, "one\ntwo\nthree\nfour\n", START),
    )
    reason = failure_reason("commissioning", results, ())
    assert reason == "50-disks timed out with exit status None: two / three / four"
    # A script that never ran is no reason: MAAS ends it as timed out when the machine was never heard.
    never = ScriptResult("20-x", "commissioning", "timed out", None)
    gave_up = MaasEvent(START, "ERROR", "Marking node failed", "timed out after 30 minutes")
    assert failure_reason("commissioning", (never,), (gave_up,)) == "Marking node failed: timed out after 30 minutes"
    events = (MaasEvent(START, "INFO", "Script", "20-x failed"), MaasEvent(START, "INFO", "PXE", "x"))
    assert failure_reason("installation", results, events) == "Script: 20-x failed"
    assert failure_reason("installation", (), ()) == "MAAS names no reason"


def test_hearing_of_a_machine() -> None:
    before, after = START - timedelta(minutes=5), START + timedelta(minutes=5)
    pending, running = (ScriptResult("a", "commissioning", status, None) for status in ("pending", "running"))
    pxe, old = MaasEvent(after, "INFO", "Performing PXE boot", ""), MaasEvent(before, "INFO", "Performing PXE boot", "")
    deploying = MaasEvent(START, "INFO", "Deploying", "")
    since = boot.began((pxe, deploying, old), "deploying")
    assert since == START
    assert boot.heard((running,), (), "commissioning", None)
    by_maas = tuple(ScriptResult("a", "commissioning", s, None) for s in ("skipped", "aborted", "timed out"))
    assert not boot.heard(by_maas, (), "commissioning", None)
    assert not boot.heard((ScriptResult("bmc", "commissioning", "skipped", 0, "", START),), (), "commissioning", None)
    assert not boot.heard((pending,), (old, deploying), "commissioning", since)
    assert not boot.heard((running,), (), "installation", since)
    assert boot.heard((), (pxe,), "installation", since)
    assert not boot.heard((), (pxe,), "installation", None)


@pytest.mark.parametrize(("begun_by_us", "pressed"), [(False, True), (True, False)])
async def test_the_reset_of_the_operation_before_is_not_ours(begun_by_us: bool, pressed: bool) -> None:
    """Within what the clocks may differ only a run that did not begin the operation goes by the last reset."""
    world = World([NODE], power_by=PowerBy.PROVISION)
    tools = tools_for(world)(NODE, Goal(PROFILE, 1))
    metal = world.metal[NODE.name]
    metal.power, metal.last_reset = Power.ON, START - timedelta(seconds=60)
    if begun_by_us:
        boot.forget(tools, "deployment")
    seen = await boot.observe_boot(tools, "deployment", START, contact=False)
    assert seen.pressed is pressed
    tools.notes["deployment.pressed"] = True
    assert (await boot.observe_boot(tools, "deployment", START, contact=False)).pressed


CHECK = {"name": "ecc", "ok": False, "why": "GPU 3", "part": {"kind": "gpu", "name": "3", "locator": "GPU 3"}}


def test_checks_become_readings() -> None:
    text = json.dumps(
        {
            "format": 1,
            "checks": [
                CHECK,
                {"name": "disk", "ok": True, "values": {"free": 3, "x": [1]}},
                {"name": "ib", "ok": None},
            ],
        }
    )
    one, two, three = parse_checks("gpu-1", text, START)
    assert (one.part.kind, one.part.locator, one.reading, one.text) == (PartKind.GPU, "GPU 3", Reading.FAILED, "GPU 3")
    assert (two.part.kind, two.part.name, two.reading) == (PartKind.NODE, "gpu-1", Reading.OK)
    assert dict(two.values) == {"check": "disk", "free": 3, "x": "[1]"}
    assert three.reading is Reading.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Traceback (most recent call last):",
        "[]",
        "null",
        "1",
        '{"format": 2, "checks": []}',
        '{"checks": []}',
        '{"format": 1}',
        '{"format": 1, "checks": {"a": 1}}',
        '{"format": 1, "checks": [1]}',
        '{"format": 1, "checks": [{"ok": true}]}',
        '{"format": 1, "checks": [{"name": "a", "ok": "yes"}]}',
        '{"format": 1, "checks": [{"name": "a", "ok": 1}]}',
        '{"format": 1, "checks": [{"name": "a", "ok": true, "values": 3}]}',
        '{"format": 1, "checks": [{"name": "a", "ok": true, "part": "gpu"}]}',
        '{"format": 1, "checks": [{"name": "a", "ok": true, "part": {"kind": ["x"]}}]}',
        "[" * 100_000,
    ],
)
def test_what_nobody_can_read_is_garbled_and_never_a_traceback(text: str) -> None:
    with pytest.raises(GarbledError, match="provision-check"):
        parse_checks("gpu-1", text, START)


def test_a_stage_refuses_what_another_stage_saw() -> None:
    with pytest.raises(TypeError):
        narrow(Seen(), Discovered)


def test_the_stages_in_order() -> None:
    names = [stage.name for stage in BRING_UP]
    assert names == ["discover", "preflight", "enlist", "commission", "deploy", "configure", "accept"]
    assert all(stage.deadline_s > 0 and stage.max_acts > 0 for stage in BRING_UP)
