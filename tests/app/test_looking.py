"""What the app makes of a site without MAAS, and of peers that say nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from provision.app.looks import only_silent
from provision.app.wiring import Wiring
from provision.errors import MisconfiguredError
from provision.model.evidence import Evidence, Part, PartKind, Reading
from provision.model.finding import Action, Category, Dispatch, Finding
from provision.model.profile import Goal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PART = Part(PartKind.NODE, "gpu-1", "gpu-1")


def finding(*sources: str, hardware_category: bool = False) -> Finding:
    return Finding(
        rule="X",
        node="gpu-1",
        category=Category.BMC if hardware_category else Category.NOT_HARDWARE,
        component="host",
        part=PART,
        action=Action.COLLECT_MORE,
        dispatch=Dispatch.NEVER,
        ask="look",
        evidence=tuple(Evidence("gpu-1", PART, Reading.DOWN, source, NOW) for source in sources),
    )


def test_silence_is_no_no() -> None:
    """A host that does not answer is unknown; a reading, or a dead part, is a no."""
    assert only_silent(finding("ssh/answer"))
    assert only_silent(finding("ssh/answer", "bmc/answer"))
    assert not only_silent(finding("ssh/answer", "ssh/checks"))
    assert not only_silent(finding("bmc/answer", hardware_category=True))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("A_PASSWORD", "x")
    variables = {
        "profile": "any",
        "profiles": {"any": {"image": {"series": "jammy"}, "boot_disk": {"min_size": "1GB"}}},
        "provision": {"bmc": {"user": "root", "password": "env:A_PASSWORD"}},
    }
    hosts = {"gpu-1": {"bmc_address": "127.0.0.1:1", "rack": "rack-1"}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": variables, "hosts": hosts}}))
    return tmp_path


async def test_a_site_without_maas_has_tools_and_names_the_setting_when_it_is_asked(site: Path) -> None:
    wiring = Wiring(site / "hosts.yml", site / "state")
    try:
        (node,) = wiring.select("gpu-1")
        assert wiring.absent_peers(node) == {"maas", "ssh"}
        tools = wiring.tools(node, Goal(wiring.profile(node), 1))
        with pytest.raises(MisconfiguredError, match=r"maas is missing in .*: expected a mapping with url and key"):
            await tools.maas.machine(node, ())
        await tools.bmc.close()
    finally:
        await wiring.close()
