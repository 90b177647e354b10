"""Fixtures of the Redfish client's tests; they live in ``redfish_lab``, for every room has a ``conftest``."""

from redfish_lab import _forget_refusals, certificates, client, pins, serve, stack

__all__ = ["_forget_refusals", "certificates", "client", "pins", "serve", "stack"]
