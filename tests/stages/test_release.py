"""The table of giving a machine back."""

from __future__ import annotations

import pytest

from provision.model.bmc import BmcStatus, Power
from provision.model.decision import Act, Decision, Done, Stuck, Wait
from provision.model.machine import Machine, Status
from provision.model.profile import BootMethod, DiskRule, Goal, Image, Profile
from provision.stages import release
from provision.stages.boot import Boot, Press
from provision.stages.steps import Release

PROFILE = Profile("h100", Image("jammy"), DiskRule(model="BOSS"))
GOAL, WIPE = Goal(PROFILE, 1), Goal(PROFILE, 1, erase_data=True)


def released(status: Status, goal: Goal = GOAL, *, locked: bool = False, **more: object) -> Decision:
    machine = Machine("abc123", "gpu-1", status, (), locked=locked)
    return release.decide(goal, release.Releasing(machine, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("status", list(Status))
def test_each_status_is_released_waited_for_or_named(status: Status) -> None:
    decision = released(status)
    match status:
        case Status.NEW | Status.READY | Status.COMMISSIONING | Status.TESTING:
            assert isinstance(decision, Done)
        case Status.FAILED_COMMISSIONING | Status.FAILED_TESTING:
            assert isinstance(decision, Done)
        case Status.RELEASING | Status.DISK_ERASING:
            assert isinstance(decision, Wait)
        case Status.BROKEN | Status.MISSING | Status.RETIRED | Status.UNRECOGNISED:
            assert isinstance(decision, Stuck)
        case _ if "rescue" in status.label.lower():
            assert isinstance(decision, Stuck)
        case _:
            assert isinstance(decision, Act)
            assert (decision.step, decision.erases) == (Release("abc123"), True)
            assert isinstance(released(status, sent=1), Stuck), "once"
            locked = released(status, locked=True)
            assert isinstance(locked, Stuck)
            assert "locked" in locked.why


def test_what_is_unknown_is_done() -> None:
    assert isinstance(release.decide(GOAL, release.Releasing(None)), Done)


def test_data_is_wiped_by_that_word_alone() -> None:
    refused = released(Status.DEPLOYED, wipes=True)
    assert isinstance(refused, Stuck)
    assert "--erase-data" in refused.why
    wiped = released(Status.DEPLOYED, WIPE, wipes=True)
    assert isinstance(wiped, Act)
    assert wiped.step == Release("abc123", erase_data=True)
    boot = Boot(BmcStatus(Power.OFF, "Pxe", "Once"), BootMethod.PXE, 1, pressed=False)
    pressed = released(Status.DISK_ERASING, WIPE, boot=boot)
    assert isinstance(pressed, Act)
    assert isinstance(pressed.step, Press)
