"""MAAS: find, create, adopt, commission, deploy and release machines of a region (API 2.0, MAAS 3.4 to 3.7)."""

from __future__ import annotations

from provision.adapters.maas.client import MaasRegion
from provision.adapters.maas.userdata import user_data

__all__ = ["MaasRegion", "user_data"]
