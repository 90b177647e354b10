"""A MAAS region for the simulated fleet: API 2.0 over HTTP, network boots, power over Redfish."""

from provision.sim.maas.server import MaasFaults, MaasServer

__all__ = ["MaasFaults", "MaasServer"]
