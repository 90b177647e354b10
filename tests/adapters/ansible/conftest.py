"""Fixtures of this room."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from ansible_bench import Bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for waves in made.made:
        await waves.close()
    for peer in made.peers.values():
        peer.close()


@pytest.fixture
def leftovers() -> Callable[[], list[str]]:
    """Private folders of waves that are still there and were not before."""

    def folders() -> set[str]:
        bases = {Path(tempfile.gettempdir()), Path("/tmp")}
        return {str(path) for base in bases for path in base.glob("provision-*") if (path / "job.json").exists()}

    before = folders()
    return lambda: sorted(folders() - before)
