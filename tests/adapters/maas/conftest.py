"""Fixtures of the MAAS client's tests; they live in ``maas_lab``, for every room has a ``conftest``."""

from maas_lab import client, clock, region

__all__ = ["client", "clock", "region"]
