"""Tables about the odd cases of MAAS: adoption, swapped boards, wiping regions, replaced drives, memory only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provision.model.bmc import BmcStatus, Power
from provision.model.decision import Act, Decision, Done, Step, Stuck, Wait
from provision.model.evidence import Evidence, Part, PartKind, Reading
from provision.model.machine import MaasDisk, Machine, MachineSpec, Receipt, ScriptResult, Status
from provision.model.node import Address, MacAddress
from provision.model.profile import DiskFacts, DiskRule, Goal, Image, Profile
from provision.model.site import Limits, PowerBy, Site
from provision.stages import accept, boot, commission, deploy, disk, enlist, steps
from provision.stages.lookup import failure_reason, marked_by_us, same_serial
from tests.fakes import START

MAC, OTHER = MacAddress("b8:3f:d2:00:00:01"), MacAddress("b8:3f:d2:00:00:02")
PROFILE = Profile("h100", Image("jammy"), DiskRule(model="BOSS"))
GOAL = Goal(PROFILE, 2)
WIPE = Goal(PROFILE, 2, erase_data=True)
BOSS = MaasDisk(7, "nvme3n1", DiskFacts("BOSS-SERIAL-7", "BOSS-N1", 480_000_000_000))
DATA = MaasDisk(3, "nvme0n1", DiskFacts("DATA-SERIAL-3", "NVMe 7450", 3_840_000_000_000))
SPEC = MachineSpec("gpu-1", "amd64/generic", (MAC, OTHER), PowerBy.MAAS, "10.1.0.1", None, tags=("h100",))


def machine(status: Status, **more: object) -> Machine:
    base = Machine(
        "abc123", "gpu-1", status, (MAC, OTHER), power_type="redfish", disks=(DATA, BOSS), boot_disk_id=7,
        root_disk_ids=(7,), layout="flat", tags=("h100",), architecture="amd64/generic",
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def step_of(decision: Decision) -> Step:
    assert isinstance(decision, Act), decision
    return decision.step


def why(decision: Decision) -> str:
    assert isinstance(decision, Stuck | Act | Wait), decision
    return decision.why


# enlist


@pytest.mark.parametrize(
    ("has", "drift", "said"),
    [
        ({"tags": ()}, "", "tag h100 is missing"),
        ({"macs": (MAC,)}, "", f"MAC {OTHER} is missing"),
        ({"architecture": "arm64/generic"}, "", "architecture arm64/generic → amd64/generic"),
        ({}, "power address 10.1.0.9 → 10.1.0.1", "power address 10.1.0.9 → 10.1.0.1"),
    ],
)
def test_what_is_half_there_is_completed_and_named(has: dict[str, object], drift: str, said: str) -> None:
    decision = enlist.decide(GOAL, enlist.Enlisted(machine(Status.NEW, **has), SPEC, "", drift))
    assert isinstance(step_of(decision), enlist.AdoptMachine)
    assert why(decision) == said


def test_cards_that_commissioning_did_not_see_are_not_asked_for_again() -> None:
    for status in (Status.READY, Status.DEPLOYED, Status.COMMISSIONING):
        assert isinstance(enlist.decide(GOAL, enlist.Enlisted(machine(status, macs=(MAC,)), SPEC, "")), Done)


def test_a_machine_of_ours_without_cards_or_with_new_ones_is_adopted() -> None:
    bare = machine(Status.NEW, macs=())
    assert isinstance(step_of(enlist.decide(GOAL, enlist.Enlisted(bare, SPEC, ""))), enlist.AdoptMachine)
    alien = machine(Status.NEW, macs=(MacAddress("b8:3f:d2:00:00:77"),), hostname="ruling-leech")
    assert isinstance(enlist.decide(GOAL, enlist.Enlisted(alien, SPEC, "")), Stuck)
    known = enlist.decide(GOAL, enlist.Enlisted(alien, SPEC, "", same_board=True))
    assert "ruling-leech → gpu-1" in why(known)


def test_a_handed_over_node_stays_so_until_it_is_installed_again() -> None:
    site = Site(power_by=PowerBy.PROVISION, handover_power=True)
    done = machine(Status.DEPLOYED, receipt=Receipt(2, "jammy"))
    assert enlist.hand_of(GOAL, site, done) is PowerBy.MAAS
    assert enlist.hand_of(GOAL, site, replace(done, power_type="manual")) is PowerBy.PROVISION
    assert enlist.hand_of(Goal(PROFILE, 3), site, done) is PowerBy.PROVISION
    assert enlist.hand_of(GOAL, replace(site, handover_power=False), done) is PowerBy.PROVISION
    assert enlist.hand_of(GOAL, site, None) is PowerBy.PROVISION


# commission

DRIVES = (DiskFacts("NEW-SERIAL-9", "Dell BOSS-N1", 480_000_000_000, slot="Bay 0"),)


def test_a_replaced_boot_drive_or_card_is_looked_at_again_once() -> None:
    ready = machine(Status.READY)
    said = disk.stale(GOAL, ready, DRIVES, MAC)
    assert "NEW-SERIAL-9" in said
    seen = commission.Commissioning(ready, stale=said)
    assert isinstance(step_of(commission.decide(GOAL, seen)), commission.Commission)
    assert isinstance(commission.decide(GOAL, replace(seen, sent=1)), Done)
    assert isinstance(commission.decide(GOAL, replace(seen, machine=machine(Status.DEPLOYED))), Done)
    card = MacAddress("b8:3f:d2:00:00:77")
    assert "boot card" in disk.stale(GOAL, ready, (), card)


def test_what_is_not_sure_to_be_replaced_is_not_looked_at_again() -> None:
    ready = machine(Status.READY)
    same = (replace(DRIVES[0], serial="boss-serial-7 "),)
    assert disk.stale(GOAL, ready, same, MAC) == ""
    assert disk.stale(GOAL, ready, (), MAC) == ""
    assert disk.stale(GOAL, ready, DRIVES * 2, MAC) == "", "two that match: the rule is to blame"
    assert disk.stale(GOAL, replace(ready, disks=()), DRIVES, MAC) == ""


def test_our_own_broken_mark_is_taken_away_and_nobody_elses() -> None:
    ours = machine(Status.BROKEN, error_description="provision: T-0007")
    assert marked_by_us(ours)
    assert isinstance(step_of(commission.decide(GOAL, commission.Commissioning(ours))), commission.MarkFixed)
    theirs = machine(Status.BROKEN, error_description="anna looks at it")
    assert isinstance(commission.decide(GOAL, commission.Commissioning(theirs)), Stuck)
    locked = replace(ours, locked=True)
    assert isinstance(commission.decide(GOAL, commission.Commissioning(locked)), Stuck)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (BmcStatus(Power.OFF), "off"),
        (BmcStatus(Power.ON, progress="MemoryInitializationStarted"), "hangs in POST"),
        (BmcStatus(Power.ON, progress="PCIResourceConfigStarted"), "hangs in POST"),
        (BmcStatus(Power.ON, progress="SystemHardwareInitializationComplete"), "POST is over"),
        (BmcStatus(Power.ON, progress="OSRunning"), "POST is over"),
        (BmcStatus(Power.ON, progress="None"), "does not say"),
        (None, "does not say"),
    ],
)
def test_a_dead_boot_is_told_from_a_network_that_is_silent(status: BmcStatus | None, said: str) -> None:
    assert said in commission.silence(status)


@pytest.mark.parametrize(
    "tail",
    [
        "E: Release file for x is not valid yet (invalid for another 3h)",
        "certificate has expired (_ssl.c:1000)",
        "Expired timestamp: given 1 and now 2",
    ],
)
def test_a_wrong_clock_is_named(tail: str) -> None:
    result = ScriptResult("20-lldpd", "commissioning", "failed", 100, tail, START)
    assert failure_reason("commissioning", (result,), ()).startswith("the machine's clock is wrong: 20-lldpd failed")
    two = (replace(result, output_tail="x"), result)
    assert failure_reason("commissioning", two, ()) == "20-lldpd failed with exit status 100: x (and 1 more failed)"


# deploy


def deployed(status: Status, goal: Goal = GOAL, **more: object) -> Decision:
    names = ("sent", "boot", "reason", "wipes", "wiped", "running_s")
    fields = {key: more.pop(key) for key in names if key in more}
    return deploy.decide(goal, replace(deploy.Deployment(machine(status, **more)), **fields))  # type: ignore[arg-type]


OLD, MINE = Receipt(1, "jammy"), Receipt(2, "jammy")


def test_a_region_that_wipes_is_stopped_before_it_does() -> None:
    for status, receipt in ((Status.DEPLOYED, OLD), (Status.DEPLOYED, None), (Status.FAILED_DEPLOYMENT, MINE)):
        decision = deployed(status, receipt=receipt, wipes=True)
        assert isinstance(decision, Stuck)
        assert "enable_disk_erasing_on_release" in decision.why
    assert step_of(deployed(Status.DEPLOYED, WIPE, receipt=OLD, wipes=True)) == steps.Release("abc123", erase_data=True)


def test_data_is_wiped_only_where_that_was_said_and_once() -> None:
    plain = deployed(Status.DEPLOYED, receipt=OLD)
    assert step_of(plain) == steps.Release("abc123", erase_data=False)
    for status in (Status.DEPLOYED, Status.FAILED_DEPLOYMENT, Status.ALLOCATED):
        decision = deployed(status, WIPE, receipt=OLD)
        assert isinstance(decision, Act)
        assert decision.erases
        assert decision.step == steps.Release("abc123", erase_data=True)
    assert isinstance(step_of(deployed(Status.ALLOCATED, WIPE, wiped=1)), steps.WriteReceipt)
    assert isinstance(step_of(deployed(Status.ALLOCATED, WIPE, receipt=MINE)), steps.Deploy)
    after = deployed(Status.FAILED_DEPLOYMENT, WIPE, receipt=MINE)
    assert isinstance(after, Act)
    assert (after.erases, after.step) == (False, steps.Release("abc123"))


def test_our_hand_boots_the_machine_that_is_to_wipe_its_drives() -> None:
    waiting = boot.Boot(BmcStatus(Power.OFF, "Pxe", "Once"), PROFILE.boot_method, 1, pressed=False)
    decision = deployed(Status.DISK_ERASING, WIPE, boot=waiting)
    assert isinstance(step_of(decision), boot.Press)
    assert isinstance(deployed(Status.DISK_ERASING, WIPE), Wait)


def test_memory_only_needs_no_drive() -> None:
    goal = Goal(replace(PROFILE, image=Image("jammy", ephemeral=True)), 2)
    assert isinstance(step_of(deployed(Status.READY, goal, disks=())), steps.Allocate)
    receipt = step_of(deployed(Status.ALLOCATED, goal, disks=()))
    assert receipt == steps.WriteReceipt("abc123", Receipt(2, "jammy in memory"))
    last = step_of(deployed(Status.ALLOCATED, goal, disks=(), receipt=Receipt(2, "jammy in memory")))
    assert last == steps.Deploy("abc123", "jammy", None, ephemeral=True)


def test_another_layout_on_the_right_drive_is_laid_out_anew() -> None:
    lvm = Goal(replace(PROFILE, image=Image("jammy", layout="lvm")), 2)
    assert step_of(deployed(Status.READY, lvm)) == steps.SetLayout("abc123", "lvm", 7)
    assert isinstance(step_of(deployed(Status.READY, lvm, layout="lvm")), steps.Allocate)
    custom = Goal(replace(PROFILE, image=Image("jammy", layout="custom")), 2)
    assert isinstance(step_of(deployed(Status.READY, custom, layout="other")), steps.Allocate)


def test_an_installation_without_an_end_is_stopped_and_tried_again() -> None:
    late = {"receipt": MINE, "running_s": 4300.0}
    assert isinstance(deployed(Status.DEPLOYING, receipt=MINE, running_s=4100.0), Wait)
    assert step_of(deployed(Status.DEPLOYING, sent=1, **late)) == steps.AbortDeployment("abc123")
    assert "72 minutes" in why(deployed(Status.DEPLOYING, sent=2, **late))
    assert isinstance(deployed(Status.DEPLOYING, sent=2, **late), Stuck)
    assert isinstance(deployed(Status.DEPLOYING, locked=True, **late), Stuck)


def test_a_rule_may_name_bus_and_slot() -> None:
    drives = (
        DiskFacts("DATA-SERIAL-3", "NVMe 7450", 1, "nvme", "Bay 4"),
        DiskFacts("BOSS-SERIAL-7", "x", 1, None, "M.2"),
    )
    seen = disk.placed(machine(Status.READY), drives)
    assert [one.facts.slot for one in seen.disks] == ["Bay 4", "M.2"]
    by_slot = Goal(replace(PROFILE, boot_disk=DiskRule(slot="m.2")), 1)
    assert disk.choose_disk(by_slot, seen) == seen.disks[1]
    by_bus = Goal(replace(PROFILE, boot_disk=DiskRule(bus="NVMe")), 1)
    assert disk.choose_disk(by_bus, seen) == seen.disks[0]
    nothing = disk.choose_disk(Goal(replace(PROFILE, boot_disk=DiskRule(slot="Bay 9")), 1), seen)
    assert isinstance(nothing, Stuck)
    assert "Bay 4" in nothing.why


def test_serial_numbers_of_one_drive() -> None:
    assert same_serial("PHLJ1234567890", "phlj1234567890 ")
    assert same_serial("PHLJ1234567890_1", "PHLJ1234567890")
    assert not same_serial("S1", "S12")
    assert not same_serial("", "")


# accept


def test_the_button_is_handed_over_last() -> None:
    part = Part(PartKind.GPU, "GPU 3", "GPU 3")
    yes = Evidence("gpu-1", part, Reading.OK, "ssh/checks", START, values={"check": "a"})
    step = accept.HandOver("abc123", SPEC)
    assert step_of(accept.decide(GOAL, accept.Checked(Address("h"), step, evidence=(yes,)))) == step
    no = replace(yes, reading=Reading.FAILED)
    assert isinstance(accept.decide(GOAL, accept.Checked(Address("h"), step, evidence=(no,))), Stuck)


# limits


@pytest.mark.parametrize(
    ("gbps", "gb", "many"), [(None, 8, None), (1, 8, 4), (10, 8, 46), (25, 4, 234), (0.01, 100, 1)]
)
def test_how_many_may_fetch_their_image_at_once(gbps: float | None, gb: float, many: int | None) -> None:
    assert Limits(image_gbps=gbps, image_gb=gb).per_rack_controller == many
