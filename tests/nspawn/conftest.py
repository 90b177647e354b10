"""Real hosts for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "adapters" / "ssh"))

from nspawn_hosts import Lab, missing


@pytest.fixture
def lab() -> Iterator[Lab]:
    """An empty lab; its hosts end with the test, however it ends."""
    reason = missing()
    if reason:
        pytest.skip(f"no real hosts: {reason}")
    with Lab() as made:
        yield made
