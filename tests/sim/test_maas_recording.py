"""The simulated region is held to what a real MAAS 3.6.3 answered, exchange by exchange."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("maas_replay", Path(__file__).with_name("maas_replay.py"))
assert _spec is not None
assert _spec.loader is not None
replay = importlib.util.module_from_spec(_spec)
sys.modules["maas_replay"] = replay
_spec.loader.exec_module(replay)

RECORDED = replay.exchanges()
ABSENT = pytest.mark.skip(reason=f"{replay.RECORDING.name} is not beside this checkout (../shared/facts)")
IDS = [exchange["id"] for exchange in RECORDED] or [pytest.param("all", marks=ABSENT)]

# Exchanges that the simulator does not answer as recorded, each with its reason. One that starts to pass fails here.
KNOWN_DIFFERENCES: dict[str, str] = {}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str | None]:
    run = replay.Replay(RECORDED)
    asyncio.run(run.run())
    return dict(run.outcomes)


@pytest.mark.parametrize("number", IDS)
def test_exchange_is_answered_as_recorded(number: str, outcomes: dict[str, str | None]) -> None:
    """Status, content type, texts and fields are those of the recording; volatile ones by shape."""
    mismatch = outcomes[number]
    if number in KNOWN_DIFFERENCES:
        assert mismatch is not None, f"{number} passes: strike it from KNOWN_DIFFERENCES"
        pytest.xfail(KNOWN_DIFFERENCES[number])
    assert mismatch is None, f"{number}: {mismatch}"
