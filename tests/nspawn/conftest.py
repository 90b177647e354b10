"""Real hosts for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from nspawn_hosts import Lab, LabError, missing


@pytest.fixture
def lab() -> Iterator[Lab]:
    """An empty lab; its hosts end with the test, however it ends.

    Where none can be made the test is skipped with the reason; with PROVISION_CI=1 (set by .ci/run) or
    PROVISION_TESTS_NSPAWN=required it fails.
    """
    made = Lab()
    try:
        reason = missing()
        if reason is None:
            try:
                made.open()
            except LabError as error:
                reason = str(error)
        if reason is not None:
            if os.environ.get("PROVISION_TESTS_NSPAWN") == "required" or os.environ.get("PROVISION_CI") == "1":
                pytest.fail(f"no real hosts: {reason}")
            pytest.skip(f"no real hosts: {reason}")
        yield made
    finally:
        made.close()
