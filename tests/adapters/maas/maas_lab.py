"""A region on a loopback socket, clocks that can be wrong or fast, and clients of both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from maas_region import KEY, Region

from provision.adapters.maas import MaasRegion
from provision.model.machine import MachineSpec
from provision.model.node import MacAddress, Node
from provision.model.secret import Credential, Secret
from provision.model.site import PowerBy

BMC_PASSWORD = "bmcPassw0rd-calvin"


class LabClock:
    """Real time, with an error, a jump, and pauses a hundred times shorter."""

    def __init__(self) -> None:
        self.wrong_by_s = 0.0
        self.jumped_s = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.wrong_by_s)

    def monotonic(self) -> float:
        return time.monotonic() + self.jumped_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds / 100)


@pytest.fixture
def clock() -> LabClock:
    return LabClock()


@pytest.fixture
async def region() -> AsyncIterator[Region]:
    region = Region()
    runner = web.AppRunner(region.app(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    region.port, region.stop = runner.addresses[0][1], runner.cleanup
    yield region
    await runner.cleanup()


@pytest.fixture
async def client(region: Region, clock: LabClock) -> AsyncIterator[Callable[..., MaasRegion]]:
    """Makes clients of the region; they are closed at the end."""
    made: list[MaasRegion] = []

    def make(nodes: Any = (), key: str = KEY, **more: Any) -> MaasRegion:
        url = more.pop("url", f"http://127.0.0.1:{region.port}/MAAS")
        made.append(MaasRegion(url, Secret(key), list(nodes), clock=clock, **{"deadline_s": 5, **more}))
        return made[-1]

    yield make
    for one in made:
        await one.close()


def node_at(unit: int, rack: str = "rack-12", **more: Any) -> Node:
    """Node ``gpu-12-03`` of rack 12 for unit 3."""
    return Node(
        name=f"gpu-{rack[5:]}-{unit:02d}", profile="h100", bmc_address=f"10.0.12.{unit}", rack=rack, unit=unit, **more
    )


def mac(unit: int, port: int = 1) -> MacAddress:
    """The address of a port of a node."""
    return MacAddress.parse(f"b0:7b:25:00:{unit:02x}:{port:02x}")


def spec_of(node: Node, *macs: MacAddress, **more: Any) -> MachineSpec:
    """What MAAS is to know of a node."""
    values: dict[str, Any] = {
        "hostname": node.name,
        "architecture": "amd64/generic",
        "macs": macs,
        "power_by": PowerBy.MAAS,
        "bmc_address": node.bmc_address,
        "credential": Credential("bmc", "root", Secret(BMC_PASSWORD)),
    }
    return MachineSpec(**(values | more))
