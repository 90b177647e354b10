"""The simulated BMCs of a benchmark, in a process of their own that is steered by lines on stdin.

``python -m benchmarks.fleet FOLDER N PROFILE`` prints one JSON object when all BMCs listen, and one more for each
line it reads: ``reset`` starts counting anew, ``count`` tells what arrived since. The end of stdin ends it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.sim.bmc import BmcServers
from provision.sim.build import build_machine
from provision.sim.world import BootOverride, SimClock, SimMachine, World

PASSWORD = "benchmark-only"  # noqa: S105


@dataclass(frozen=True)
class Profile:
    """Latency of an answer in seconds; shares of BMCs that hang and that lie; ``flaky``: one answer in 20 is a 503."""

    latency_s: float
    hang: float = 0.0
    lie: float = 0.0
    flaky: bool = False


PROFILES = {
    "fast": Profile(0.05),
    "idrac": Profile(0.3),
    # The same without those that hang and lie, to see what those do to the others.
    "busy": Profile(0.3, flaky=True),
    "sick": Profile(0.3, hang=0.02, lie=0.01, flaky=True),
}


def machines(number: int) -> list[SimMachine]:
    """Machines with ten Ethernet ports on nine cards: badfish and others stumble over InfiniBand."""
    return [build_machine(1 + index // 100, 1 + index % 100, infiniband=False) for index in range(number)]


def afflict(machines: list[SimMachine], profile: Profile) -> dict[str, list[str]]:
    """Let BMCs fall ill, spread evenly over the fleet. Returns names by illness; each share is at least one BMC."""
    ill: dict[str, list[str]] = {"hang": [], "lie": []}
    wanted = {"hang": profile.hang, "lie": profile.lie}
    free = list(range(1, len(machines), 3))
    for kind, share in wanted.items():
        count = max(1, round(share * len(machines))) if share else 0
        step = max(1, len(free) // max(1, count))
        chosen = free[::step][:count]
        free = [index for index in free if index not in chosen]
        ill[kind] = [machines[index].name for index in chosen]
    by_name = {machine.name: machine for machine in machines}
    for name in ill["hang"]:
        by_name[name].inject("bmc_dead", "hang")
    for name in ill["lie"]:
        by_name[name].inject("bmc_stores_nothing")
    for machine in machines:
        if profile.flaky and machine.name not in ill["hang"]:
            machine.inject("bmc_sick", "flaky")
    return ill


def reset(world: World) -> dict[str, Any]:
    """Forget what was written and counted."""
    for machine in world.machines.values():
        machine.boot_override = BootOverride()
        machine.traffic.clear()
        machine.sick.clear()
    world.reset_writes()
    return {}


def count(world: World, since: float) -> dict[str, Any]:
    """What arrived, and on which BMCs the override is stored."""
    machines = world.machines.values()
    return {
        "stored": [m.name for m in machines if m.boot_override.network],
        "requests": sum(m.traffic["requests"] for m in machines),
        "connections": sum(m.traffic["connections"] for m in machines),
        "most_connections": max(m.traffic["connections"] for m in machines),
        "logins": sum(m.sessions["login"] for m in machines),
        "logouts": sum(m.sessions["logout"] for m in machines),
        "writes": dict(world.writes),
        "cpu_s": time.process_time() - since,
    }


def sessions_dropped(servers: BmcServers, world: World) -> None:
    """Sessions that a client left behind do not fill the table for the next one."""
    for name in world.machines:
        servers.service(name).door.forget()


async def run(folder: Path, number: int, profile: Profile) -> None:
    """Serve until stdin ends."""
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    world = World(SimClock(1), machines(number), 1)
    world.bmc_password = PASSWORD
    for machine in world.machines.values():
        machine.bmc_latency_s = profile.latency_s
    ill = afflict(list(world.machines.values()), profile)
    servers = BmcServers(world, folder)
    await servers.start()
    warm(servers, world)
    # What is there stays there: collecting it again and again is no part of answering.
    gc.collect()
    gc.freeze()
    nodes = [{"name": m.name, "address": m.bmc_address, "port": m.bmc_port} for m in world.machines.values()]
    tell({"nodes": nodes, "ill": ill, "user": world.bmc_user, "password": PASSWORD, "latency_s": profile.latency_s})
    begun = time.process_time()
    answers: dict[str, Callable[[], dict[str, Any]]] = {
        "reset": lambda: reset(world),
        "count": lambda: count(world, begun),
    }
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if line.strip() == "reset":
            begun = time.process_time()
            sessions_dropped(servers, world)
        tell(answers[line.strip()]())
    await servers.stop()
    await world.stop()


def warm(servers: BmcServers, world: World) -> None:
    """Build what a harvest reads before anybody asks."""
    for name in world.machines:
        servers.service(name).warm("Network", "Ethernet", "BootOptions")


def tell(value: dict[str, Any]) -> None:
    """One JSON object on one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]), PROFILES[sys.argv[3]]))
