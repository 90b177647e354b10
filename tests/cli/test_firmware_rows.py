"""Firmware against the profile, as `provision bmc info` shows it; and how a profile writes it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from provision.app.bmc_care import judged
from provision.config.profile import ProfileSchema
from provision.model.bmc import Firmware
from provision.model.profile import FirmwareSpec

FOUND = (
    Firmware("bmc", "BMC", "16G", "7.10.30.00"),
    Firmware("bios", "BIOS", None, None),
    Firmware("nic", "Slot 31", "NVIDIA ConnectX-7", "28.39.1002"),
    Firmware("nic", "Slot 35", "BCM57414", "22.31.6"),
)


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (FirmwareSpec("bmc", "7.10.30.00"), [("as wanted", True), ("", None), ("", None), ("", None)]),
        (FirmwareSpec("bmc", "7.20"), [("differs", False), ("", None), ("", None), ("", None)]),
        (FirmwareSpec("bios", "2.2.3"), [("", None), ("not told", False), ("", None), ("", None)]),
        (
            FirmwareSpec("nic", "28.39.1002", "connectx-7"),
            [("", None), ("", None), ("as wanted", True), ("", None)],
        ),
        (FirmwareSpec("nic", "22.31.6"), [("", None), ("", None), ("differs", False), ("as wanted", True)]),
        (
            FirmwareSpec("gpu", "96.00.99"),
            [("", None)] * 4 + [("no such part tells its version", False)],
        ),
    ],
)
def test_each_part_beside_its_wish(wish: FirmwareSpec, expected: list[tuple[str, bool | None]]) -> None:
    assert [(row["result"], row["ok"]) for row in judged(FOUND, [wish])] == expected


def test_without_a_wish_nothing_is_judged() -> None:
    assert {row["ok"] for row in judged(FOUND, [])} == {None}


def test_a_profile_lists_versions() -> None:
    base = {"image": {"series": "jammy"}, "boot_disk": {"model": "BOSS"}}
    profile = ProfileSchema.model_validate(
        base | {"firmware": [{"part": "nic", "model": "ConnectX-7", "version": "28.39.1002"}]}
    ).to_model("h100")
    assert profile.firmware == (FirmwareSpec("nic", "28.39.1002", "ConnectX-7"),)
    for wrong in ([{"part": "fan", "version": "1"}], [{"part": "bmc"}], [{"part": "bmc", "version": 7.1}]):
        with pytest.raises(ValidationError):
            ProfileSchema.model_validate(base | {"firmware": wrong})
