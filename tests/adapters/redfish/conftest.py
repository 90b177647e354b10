"""Fixtures of the Redfish client's tests; they live in ``redfish_lab``, for every room has a ``conftest``."""

import sys
from pathlib import Path

# The helpers of this folder have names of their own, whichever way pytest imports test files.
sys.path.insert(0, str(Path(__file__).parent))

from redfish_lab import _forget_refusals, certificates, client, pins, serve, stack

__all__ = ["_forget_refusals", "certificates", "client", "pins", "serve", "stack"]
