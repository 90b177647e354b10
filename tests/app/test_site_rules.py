"""A site's own rule replaces ours by its id in everything that judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.app.wiring import Wiring
from provision.errors import MisconfiguredError

HOSTS = """
all:
  vars:
    provision: {bmc: {user: root, password: "env:NOBODY"}, rules: rules}
    profiles: {h100: {image: {series: jammy}, boot_disk: {model: BOSS}}}
  hosts:
    gpu-1: {bmc_address: 127.0.0.1, rack: rack-1, rack_unit: 1, profile: h100}
"""


def site(tmp_path: Path, rule: str) -> Wiring:
    folder = tmp_path / "site"
    (folder / "rules").mkdir(parents=True)
    (folder / "hosts.yml").write_text(HOSTS)
    (folder / "rules" / "ours.yml").write_text(rule)
    return Wiring(folder / "hosts.yml", None)


def test_a_rule_that_cannot_be_used_is_named_before_anything_is_judged(tmp_path: Path) -> None:
    wiring = site(tmp_path, "- id: PSU-NO-INPUT\n  source: redfish/psus\n")
    with pytest.raises(MisconfiguredError, match=r"ours\.yml.*PSU-NO-INPUT"):
        _ = wiring.judge


def test_no_folder_means_our_rules(tmp_path: Path) -> None:
    wiring = site(tmp_path, "[]")
    node = wiring.select("gpu-1")[0]
    assert wiring.judge(node, wiring.profile(node), (), (), wiring.clock.now()).findings == ()
