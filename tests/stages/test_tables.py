"""Every line of every stage's table, as data: what is seen → what is decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provision.model.bmc import BmcClock, BmcStatus, BootReadiness, Button, Power
from provision.model.decision import Act, Decision, Done, Step, Stuck, Wait
from provision.model.evidence import Evidence, Part, PartKind, Reading
from provision.model.finding import Action, Category, Dispatch, Finding
from provision.model.machine import MaasDisk, Machine, MachineSpec, Receipt, Status
from provision.model.node import Address, MacAddress
from provision.model.profile import BootMethod, DiskFacts, DiskRule, Goal, Image, Profile
from provision.model.site import PowerBy
from provision.ports import Marker, WaveState, WaveVerdict
from provision.stages import accept, boot, commission, configure, deploy, discover, enlist, preflight
from tests.fakes import START

MAC, OTHER = MacAddress("b8:3f:d2:00:00:01"), MacAddress("b8:3f:d2:00:00:02")
PROFILE = Profile("h100", Image("jammy", "ga-22.04"), DiskRule(model="BOSS"), boot_nic="NIC.1")
GOAL = Goal(PROFILE, 2)
BOSS = MaasDisk(7, "nvme3n1", DiskFacts("S-7", "BOSS-N1", 480_000_000_000))
DATA = MaasDisk(3, "nvme0n1", DiskFacts("S-3", "NVMe 7450", 3_840_000_000_000))
ADDRESS = Address("10.2.0.9")


def machine(status: Status, **more: object) -> Machine:
    base = Machine(
        "abc123", "gpu-1", status, (MAC,), power_type="redfish", disks=(DATA, BOSS), boot_disk_id=7, root_disk_ids=(7,)
    )
    return replace(base, **more)  # type: ignore[arg-type]


def is_act(decision: Decision, step: type[Step], *, erases: bool = False) -> bool:
    return isinstance(decision, Act) and isinstance(decision.step, step) and decision.erases is erases


def is_stuck(decision: Decision, *words: str, ours: bool) -> bool:
    return isinstance(decision, Stuck) and decision.ours is ours and all(word in decision.why for word in words)


# discover

FOUND = discover.Discovered("gpu-1", "10.1.0.1", "TAG1", "TAG1", "", (MAC,), (), True, ("NIC.1",))


def test_discover_goes_on_with_the_machine_that_is_meant() -> None:
    assert isinstance(discover.decide(GOAL, FOUND), Done)
    assert isinstance(discover.decide(GOAL, replace(FOUND, tag_found="tag1 ")), Done)


def test_discover_goes_on_where_a_tag_is_not_shown_or_not_planned() -> None:
    assert isinstance(discover.decide(GOAL, replace(FOUND, tag_found=None)), Done)
    assert isinstance(discover.decide(GOAL, replace(FOUND, tag_wanted=None)), Done)


def test_discover_names_both_tags_and_the_owner() -> None:
    seen = replace(FOUND, tag_found="TAG2", tag_owner="gpu-2")
    assert is_stuck(discover.decide(GOAL, seen), "TAG1", "TAG2", "gpu-2", "10.1.0.1", ours=True)


def test_discover_stops_without_macs_and_leaves_the_cause_to_triage() -> None:
    assert is_stuck(discover.decide(GOAL, replace(FOUND, macs=())), "no network card", ours=False)


def test_discover_names_both_owners_of_one_mac() -> None:
    seen = replace(FOUND, clashes=((str(MAC), "gpu-2"),))
    assert is_stuck(discover.decide(GOAL, seen), str(MAC), "gpu-1", "gpu-2", ours=True)


def test_discover_names_a_boot_port_that_is_not_there() -> None:
    seen = replace(FOUND, has_boot_port=False, ports=("NIC.7",))
    assert is_stuck(discover.decide(GOAL, seen), "'NIC.1'", "h100", "NIC.7", ours=True)


# preflight

PSU = Part(PartKind.PSU, "PSU.2", "PSU 2")
BROKEN = Finding("PSU", "gpu-1", Category.PSU, "psu", PSU, Action.CHECK_POWER_FEED, Dispatch.NOW, "check the cord")
FREE, SHUT = BootReadiness(True, False), BootReadiness(False, True, ("JID_1",))
FLIGHT = preflight.Flight(BmcClock(3.0), 60.0, FREE, installed=False)


def test_preflight_passes_whole_machines_and_what_a_bmc_does_not_say() -> None:
    assert isinstance(preflight.decide(GOAL, FLIGHT), Done)
    assert isinstance(preflight.decide(GOAL, replace(FLIGHT, clock=None, readiness=BootReadiness())), Done)


@pytest.mark.parametrize("offset_s", [-61.0, 61.0, 7200.0])
def test_preflight_sets_the_clock_before_it_judges_parts(offset_s: float) -> None:
    seen = replace(FLIGHT, clock=BmcClock(offset_s), findings=(BROKEN,))
    assert is_act(preflight.decide(GOAL, seen), preflight.SetClock)


def test_preflight_cannot_set_a_clock_that_ntp_holds() -> None:
    seen = replace(FLIGHT, clock=BmcClock(7200.0, ntp=True))
    assert is_stuck(preflight.decide(GOAL, seen), "+7200 s", "NTP", ours=True)
    assert isinstance(preflight.decide(GOAL, replace(seen, installed=True)), Done)


def test_preflight_stops_for_broken_parts_also_where_the_image_is_installed() -> None:
    for installed in (True, False):
        seen = replace(FLIGHT, findings=(BROKEN,), installed=installed)
        assert is_stuck(preflight.decide(GOAL, seen), "PSU 2", "check the cord", ours=False)


def test_preflight_does_not_stop_for_what_nobody_goes_for() -> None:
    assert isinstance(
        preflight.decide(GOAL, replace(FLIGHT, findings=(replace(BROKEN, dispatch=Dispatch.NEVER),))), Done
    )


def test_preflight_stops_for_what_stops_a_boot_that_is_needed() -> None:
    seen = replace(FLIGHT, readiness=SHUT)
    assert is_stuck(preflight.decide(GOAL, seen), "lockdown", "network boot device", "JID_1", ours=True)
    assert isinstance(preflight.decide(GOAL, replace(seen, installed=True)), Done)


# enlist

SPEC = MachineSpec("gpu-1", "amd64/generic", (MAC,), PowerBy.MAAS, "10.1.0.1", None)


def test_enlist_creates_what_is_missing() -> None:
    assert is_act(enlist.decide(GOAL, enlist.Enlisted(None, SPEC, "")), enlist.CreateMachine)


def test_enlist_is_content_with_what_agrees() -> None:
    assert isinstance(enlist.decide(GOAL, enlist.Enlisted(machine(Status.NEW), SPEC, "")), Done)
    assert isinstance(enlist.decide(GOAL, enlist.Enlisted(machine(Status.NEW, locked=True), SPEC, "")), Done)


@pytest.mark.parametrize(
    ("has", "wants", "word"),
    [
        ({"hostname": "ruling-leech"}, {}, "ruling-leech → gpu-1"),
        ({"power_type": ""}, {}, "empty → redfish"),
        ({}, {"power_by": PowerBy.PROVISION}, "redfish → manual"),
        ({"zone": "default"}, {"zone": "hall-1"}, "default → hall-1"),
        ({"pool": "default"}, {"pool": "gpu"}, "default → gpu"),
    ],
)
def test_enlist_adopts_what_differs(has: dict[str, object], wants: dict[str, object], word: str) -> None:
    spec = replace(SPEC, **wants)  # type: ignore[arg-type]
    decision = enlist.decide(GOAL, enlist.Enlisted(machine(Status.NEW, **has), spec, ""))
    assert is_act(decision, enlist.AdoptMachine)
    assert isinstance(decision, Act)
    assert word in decision.why
    locked = enlist.decide(GOAL, enlist.Enlisted(machine(Status.NEW, locked=True, **has), spec, ""))
    assert is_stuck(locked, "locked", word, ours=True)


def test_enlist_takes_nobody_elses_machine() -> None:
    seen = enlist.Enlisted(machine(Status.NEW, hostname="gpu-2"), SPEC, "gpu-2")
    assert is_stuck(enlist.decide(GOAL, seen), "gpu-1", "gpu-2", str(MAC), ours=True)


def test_enlist_stops_where_only_the_name_agrees() -> None:
    seen = enlist.Enlisted(machine(Status.READY, macs=(OTHER,)), SPEC, "")
    assert is_stuck(enlist.decide(GOAL, seen), str(MAC), str(OTHER), "delete", ours=True)


# network boot by our own hand

OFF = BmcStatus(Power.OFF, "None", "Disabled")
SET = BmcStatus(Power.OFF, "Pxe", "Once")


@pytest.mark.parametrize(
    ("status", "asks", "pressed", "expected"),
    [
        (OFF, 0, True, None),
        (OFF, 0, False, boot.SetNetworkBoot(BootMethod.PXE)),
        (OFF, 1, False, boot.SetNetworkBoot(BootMethod.PXE)),
        (OFF, 2, False, Stuck),
        (SET, 1, False, boot.Press(Button.ON)),
        (replace(SET, power=Power.ON), 1, False, boot.Press(Button.RESTART)),
        (replace(SET, power=Power.TURNING_OFF), 1, False, Wait),
        (replace(SET, power=Power.UNKNOWN), 1, False, Wait),
    ],
)
def test_network_boot(status: BmcStatus, asks: int, pressed: bool, expected: object) -> None:
    move = boot.next_move(boot.Boot(status, BootMethod.PXE, asks, pressed), "commissioning")
    if isinstance(move, Act):
        assert move.step == expected
        assert move.operation == "commissioning"
    elif expected is None:
        assert move is None
    else:
        assert type(move) is expected


# commission


def commissioned(status: Status, **more: object) -> Decision:
    fields = {key: more.pop(key) for key in list(more) if key in commission.Commissioning.__dataclass_fields__}
    seen = commission.Commissioning(machine(status, **more), ("s",), ("t",))
    return commission.decide(GOAL, replace(seen, **fields))  # type: ignore[arg-type]


POWER = "Failed to query node's BMC - (admin) - Aborting COMMISSIONING and reverting to NEW"
WAITING = boot.Boot(SET, BootMethod.PXE, 1, pressed=False)


@pytest.mark.parametrize(
    "status", [Status.READY, Status.ALLOCATED, Status.DEPLOYING, Status.DEPLOYED, Status.FAILED_DEPLOYMENT]
)
def test_commission_is_over_from_ready_on(status: Status) -> None:
    assert isinstance(commissioned(status), Done)


@pytest.mark.parametrize(
    ("decision", "step"),
    [
        (commissioned(Status.NEW), commission.Commission),
        (commissioned(Status.NEW, status_message=POWER, sent=1), commission.Commission),
        (commissioned(Status.FAILED_COMMISSIONING), commission.Commission),
        (commissioned(Status.COMMISSIONING, boot=WAITING), boot.Press),
        (commissioned(Status.COMMISSIONING, silent_s=1201.0, contact=False), commission.Abort),
    ],
)
def test_commission_acts(decision: Decision, step: type[Step]) -> None:
    assert is_act(decision, step)


@pytest.mark.parametrize(
    "decision",
    [
        commissioned(Status.COMMISSIONING),
        commissioned(Status.TESTING),
        commissioned(Status.COMMISSIONING, silent_s=5000.0, contact=True),
        commissioned(Status.COMMISSIONING, boot=WAITING, contact=True),
        commissioned(Status.COMMISSIONING, boot=replace(WAITING, pressed=True)),
        commissioned(Status.RELEASING),
        commissioned(Status.DISK_ERASING),
    ],
)
def test_commission_waits(decision: Decision) -> None:
    assert isinstance(decision, Wait)


@pytest.mark.parametrize(
    ("decision", "words", "ours"),
    [
        (commission.decide(GOAL, commission.Commissioning(None)), ["no longer knows"], True),
        (commissioned(Status.NEW, locked=True), ["locked"], True),
        (commissioned(Status.NEW, status_message=POWER, sent=2), ["power button", POWER], False),
        (commissioned(Status.FAILED_COMMISSIONING, sent=1, reason="50-x exit status 1"), ["50-x exit status 1"], False),
        (commissioned(Status.FAILED_TESTING, reason="memtester"), ["memtester"], False),
        (commissioned(Status.COMMISSIONING, silent_s=1300.0, contact=False, aborted=1), ["twice", "DHCP"], False),
        (commissioned(Status.BROKEN, error_description="T-0007"), ["T-0007", "fixed"], True),
        (commissioned(Status.RESCUE_MODE), ["Rescue mode"], True),
        (commissioned(Status.RETIRED), ["Retired"], True),
        (commissioned(Status.UNRECOGNISED), ["Unrecognised"], True),
    ],
)
def test_commission_is_stuck(decision: Decision, words: list[str], ours: bool) -> None:
    assert is_stuck(decision, *words, ours=ours)


# deploy

IMAGE = "jammy/ga-22.04"


def deployed(status: Status, goal: Goal = GOAL, **more: object) -> Decision:
    fields = {key: more.pop(key) for key in ("sent", "boot", "reason") if key in more}
    seen = deploy.Deployment(machine(status, **more))
    return deploy.decide(goal, replace(seen, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("receipt", [Receipt(2, IMAGE), Receipt(3, IMAGE), Receipt(2, "focal")])
def test_deploy_is_done_by_the_receipts_number_alone(receipt: Receipt) -> None:
    assert isinstance(deployed(Status.DEPLOYED, receipt=receipt), Done)
    assert isinstance(deployed(Status.DEPLOYED, receipt=receipt, locked=True), Done)


FIRST = Goal(PROFILE, 1)
OLD, MINE = Receipt(1, IMAGE), Receipt(2, IMAGE)


@pytest.mark.parametrize(
    ("decision", "step", "erases"),
    [
        (deployed(Status.DEPLOYED, receipt=OLD), deploy.Release, True),
        (deployed(Status.DEPLOYED), deploy.Release, True),
        (deployed(Status.FAILED_DEPLOYMENT), deploy.Release, True),
        (deployed(Status.FAILED_DEPLOYMENT, receipt=MINE), deploy.Release, False),
        (deployed(Status.FAILED_DEPLOYMENT, receipt=OLD, sent=1), deploy.Release, False),
        (deployed(Status.READY, boot_disk_id=3), deploy.SetBootDisk, False),
        (deployed(Status.READY, root_disk_ids=(3,)), deploy.SetLayout, False),
        (deployed(Status.READY, root_disk_ids=(3, 7)), deploy.SetLayout, False),
        (deployed(Status.READY, root_disk_ids=()), deploy.SetLayout, False),
        (deployed(Status.READY), deploy.Allocate, False),
        (deployed(Status.ALLOCATED), deploy.WriteReceipt, False),
        (deployed(Status.ALLOCATED, receipt=OLD), deploy.WriteReceipt, False),
        (deployed(Status.ALLOCATED, receipt=Receipt(2, "focal")), deploy.WriteReceipt, False),
        (deployed(Status.ALLOCATED, receipt=MINE), deploy.Deploy, False),
        (deployed(Status.ALLOCATED, receipt=Receipt(9, IMAGE)), deploy.Deploy, False),
        (deployed(Status.DEPLOYING, receipt=MINE, boot=WAITING), boot.Press, False),
    ],
)
def test_deploy_acts(decision: Decision, step: type[Step], erases: bool) -> None:
    assert is_act(decision, step, erases=erases)


def test_deploy_never_writes_a_smaller_number() -> None:
    decision = deployed(Status.ALLOCATED, receipt=Receipt(9, "focal"))
    assert isinstance(decision, Act)
    assert decision.step == deploy.WriteReceipt("abc123", Receipt(9, IMAGE))


@pytest.mark.parametrize(
    "decision",
    [
        deployed(Status.DEPLOYING, receipt=MINE),
        deployed(Status.DEPLOYING, receipt=OLD),
        deployed(Status.DEPLOYING, receipt=MINE, boot=replace(WAITING, pressed=True)),
        deployed(Status.RELEASING),
        deployed(Status.DISK_ERASING),
    ],
)
def test_deploy_waits(decision: Decision) -> None:
    assert isinstance(decision, Wait)


@pytest.mark.parametrize(
    ("decision", "words", "ours"),
    [
        (deploy.decide(GOAL, deploy.Deployment(None)), ["no longer knows"], True),
        (deployed(Status.DEPLOYED, FIRST), ["by hand", "provision adopt gpu-1"], True),
        (deployed(Status.FAILED_DEPLOYMENT, FIRST), ["by hand", "--yes-erase gpu-1"], True),
        (deployed(Status.DEPLOYING), ["by hand"], True),
        (deployed(Status.DEPLOYED, locked=True), ["by hand"], True),
        (deployed(Status.DEPLOYED, receipt=OLD, locked=True), ["locked"], True),
        (deployed(Status.READY, locked=True), ["locked"], True),
        (deployed(Status.FAILED_DEPLOYMENT, receipt=MINE, sent=2, reason="curtin"), ["2 times: curtin"], False),
        (deployed(Status.READY, disks=(DATA,)), ["none of 1 drives", "'BOSS'", "S-3", "3840 GB"], False),
        (deployed(Status.READY, disks=(BOSS, replace(BOSS, id=8))), ["2 drives match", "S-7"], False),
        (deployed(Status.READY, disks=()), ["MAAS lists no drive"], False),
        (deployed(Status.ALLOCATED, disks=()), ["boot disk"], False),
        (deployed(Status.ALLOCATED, root_disk_ids=(3,)), ["another drive", "S-7"], True),
        (deployed(Status.BROKEN, error_description="T-0007"), ["T-0007"], True),
        (deployed(Status.RESCUE_MODE), ["Rescue mode"], True),
    ],
)
def test_deploy_is_stuck(decision: Decision, words: list[str], ours: bool) -> None:
    assert is_stuck(decision, *words, ours=ours)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.NEW, commission.Commission),
        (Status.FAILED_COMMISSIONING, commission.Commission),
        (Status.COMMISSIONING, Wait),
        (Status.FAILED_TESTING, Stuck),
    ],
)
def test_what_a_release_left_uncommissioned_is_commissioned_again(status: Status, kind: type) -> None:
    before = commission.Commissioning(machine(status), ("s",), ("t",), contact=True)
    decision = deploy.decide(GOAL, deploy.Deployment(machine(status), before=before))
    assert isinstance(decision.step if isinstance(decision, Act) else decision, kind)


# configure


def configured(state: WaveState = WaveState.NOT_ASKED, marker: Marker | None = None, joined: int = 0) -> Decision:
    wave = WaveVerdict(state, "gpu : driver", "no such package")
    return configure.decide(GOAL, configure.Configured(ADDRESS, "h1", marker, wave, joined))


GREEN = Marker("h1", ok=True)
RED = Marker("h1", ok=False, checks=(("disk", True, ""), ("gpu", False, "7 of 8")))


def test_configure_table() -> None:
    assert isinstance(configure.decide(GOAL, configure.Configured(None)), Wait)
    for state in WaveState:
        if state not in {WaveState.WAITING, WaveState.RUNNING}:
            assert isinstance(configured(state, GREEN), Done), state
    for before in (None, RED, Marker("h0", ok=True)):
        assert is_act(configured(marker=before), configure.JoinWave)
    assert isinstance(configured(WaveState.WAITING), Wait)
    assert isinstance(configured(WaveState.RUNNING), Wait)
    assert is_stuck(configured(WaveState.OK), "no marker", ours=True)
    assert is_stuck(configured(WaveState.OK, Marker("h0", ok=True)), "no marker", ours=True)
    assert is_stuck(configured(WaveState.OK, RED), "gpu: 7 of 8", ours=False)
    for state in (WaveState.FAILED, WaveState.UNREACHABLE, WaveState.NOT_ATTEMPTED):
        assert is_act(configured(state, joined=1), configure.JoinWave)
    assert is_stuck(configured(WaveState.FAILED, joined=2), "gpu : driver", "no such package", ours=False)
    assert is_stuck(configured(WaveState.UNREACHABLE, joined=2), "unreachable in 2 waves", ours=False)


# accept


def check(name: str, value: Reading) -> Evidence:
    part = Part(PartKind.GPU, "GPU 3", "GPU 3")
    return Evidence("gpu-1", part, value, "ssh/checks", START, text="why", values={"check": name})


YES, NO, BLIND = check("a", Reading.OK), check("b", Reading.FAILED), check("c", Reading.UNKNOWN)


def test_accept_table() -> None:
    def decide(*checks: Evidence) -> Decision:
        return accept.decide(GOAL, accept.Checked(ADDRESS, evidence=checks))

    assert isinstance(accept.decide(GOAL, accept.Checked(None)), Wait)
    assert isinstance(decide(YES), Done)
    assert is_stuck(decide(YES, NO, BLIND), "1 of 3 checks say no: b: why", ours=False)
    assert is_stuck(decide(YES, BLIND), "1 of 2 checks could not look: c: why", ours=True)
    assert is_stuck(decide(), "no checks", ours=True)
