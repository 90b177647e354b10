"""Our client: ``RedfishBmc`` as the product uses it, all BMCs side by side."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from typing import Any

from client_lab import Report, job

from provision.adapters.redfish.bmc import RedfishBmc
from provision.adapters.redfish.process import ready_for_many_connections
from provision.errors import ProvisionError
from provision.model.node import Node
from provision.model.profile import BootMethod
from provision.model.secret import Credential, Secret


class WallClock:
    """The clock of the product."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Pins(dict[tuple[str, str], str]):
    """First use: every certificate is new."""

    def get_pin(self, kind: str, name: str) -> str | None:
        return self.get((kind, name))

    def set_pin(self, kind: str, name: str, value: str) -> None:
        self[(kind, name)] = value


async def one(node: dict[str, Any], credential: Credential, pins: Pins, report: Report) -> None:
    """Harvest, network boot once, read back, log out."""
    here = Node(node["name"], "h100-8gpu", f"{node['address']}:{node['port']}", "rack")
    begun = time.monotonic()
    bmc = RedfishBmc(here, credential, pins, clock=WallClock())
    macs, ok, error = 0, False, ""
    try:
        harvest = await bmc.harvest()
        macs = len({port.mac for port in harvest.ports if port.mac})
        await bmc.set_network_boot_once(BootMethod.PXE)
        ok = (await bmc.status()).network_boot_set
        error = "" if ok else "not stored"
    except ProvisionError as problem:
        error = str(problem)
    finally:
        await bmc.close()
    report.done(node["name"], time.monotonic() - begun, macs, ok, error)


async def main() -> None:
    told = job()
    credential = Credential("bmc", told["user"], Secret(told["password"]))
    pins, report = Pins(), Report(sys.argv[2])
    async with asyncio.TaskGroup() as group:
        for node in told["nodes"]:
            group.create_task(one(node, credential, pins, report))


ready_for_many_connections()
asyncio.run(main())
