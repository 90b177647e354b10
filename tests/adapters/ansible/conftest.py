"""Fixtures of this room."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
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
def leftovers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Private folders of waves that are still there; all lie in a short folder of this test's own."""
    base = tempfile.mkdtemp(prefix="pw-", dir="/tmp")
    monkeypatch.setattr(tempfile, "tempdir", base)
    yield lambda: sorted(str(path) for path in Path(base).glob("provision-*") if (path / "job.json").exists())
    shutil.rmtree(base, ignore_errors=True)
