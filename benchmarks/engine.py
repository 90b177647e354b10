"""What the engine and the store cost by themselves: many nodes through all stages, on peers in memory and no waiting.

``python -m benchmarks.engine --nodes 100 1000 10000``: for each number of nodes and each store (SQLite with one worker;
PostgreSQL with 1, 2 and 4 workers) real workers on a real store bring up machines that live in memory, on a clock that
jumps to the next event as soon as nobody works. Printed: passes a second, processor time of the product and of the
database server for a pass, peak memory of a process, size of the store, and the slope of processor time over nodes on
log-log paper. Exit status 1 if a figure is over its limit or a node is not ready.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from provision.adapters.redfish.process import ready_for_many_connections
from provision.app.clock import SystemClock
from provision.app.runs import new_run
from provision.engine.fleet import Fleet
from provision.engine.worker import Worker
from provision.model.decision import Seen
from provision.model.node import Node
from provision.model.profile import Goal
from provision.model.run import Run
from provision.model.site import CanaryRule, Limits, Site
from provision.ports import Stage, Tools
from provision.stages import BRING_UP
from provision.store import upkeep
from provision.store.gates import gates_of
from provision.store.journal import Store, open_store
from provision.store.wanted import wanted_of
from provision.triage.desk import desk
from tests.fakes import PROFILE, World, _metal, judge_simply, no_causes, tools_for
from tests.postgres import Server
from tests.working import Busy, WorkClock

PER_RACK = 32
CONFIGURATIONS = (("sqlite", 1), ("postgresql", 1), ("postgresql", 2), ("postgresql", 4))
MOST_SLOPE, MOST_MIB = 1.15, 400.0


class Counted:
    """A stage that counts how often it looks."""

    def __init__(self, stage: Stage, counts: dict[str, int]) -> None:
        self._stage, self._counts = stage, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)

    async def observe(self, node: Node, tools: Tools) -> Seen:
        self._counts["looks"] = self._counts.get("looks", 0) + 1
        return await self._stage.observe(node, tools)


def site_of(count: int) -> tuple[list[Node], Site]:
    """Racks of 32 nodes; limits so wide that only the engine's own work is left."""
    nodes = [
        Node(
            f"gpu-{n // PER_RACK:03d}-{n % PER_RACK:02d}", "h100", f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}",
            f"rack-{n // PER_RACK:03d}", unit=n % PER_RACK + 1, site="bench", service_tag=f"TAG{n}",
            power_feeds=(f"pdu-{n // PER_RACK}a/{n % PER_RACK}",),
        )
        for n in range(count)
    ]  # fmt: skip
    limits = Limits(in_flight=count, per_rack=count, per_power_feed=count, deployments=count, reboots_per_minute=None)
    return nodes, Site(limits=limits, canary=CanaryRule(nodes=0))


def machine_of(node: Node, number: int, clock: WorkClock, site: Site) -> Callable[[Node, Goal], Tools]:
    """One node's own small world: what a call costs there does not depend on how many others there are."""
    world = World([node])
    world.metal[node.name] = _metal(node, number)
    world.clock = clock
    return tools_for(world, site=site)


async def child(address: str, count: int, index: int) -> dict[str, Any]:
    """One worker, until nothing is wanted any more."""
    ready_for_many_connections()
    nodes, site = site_of(count)
    clock, counts = WorkClock(), dict[str, int]()
    numbers = {node.name: number for number, node in enumerate(nodes)}
    store = open_store(address)
    journal, gates = Busy(store, clock, counts), Busy(gates_of(store), clock, counts)

    def build(node: Node, goal: Goal) -> Tools:
        return machine_of(node, numbers[node.name], clock, site)(node, goal)

    async def fleet_of(run: Run, nodes: Sequence[Node]) -> Fleet:
        return Fleet(
            stages=[Counted(stage, counts) for stage in BRING_UP],  # type: ignore[misc]
            journal=journal,  # type: ignore[arg-type]
            clock=clock,
            site=site,
            judge=judge_simply,
            desk=desk,
            fleet_causes=no_causes,
            tools_for=build,
            emit=lambda event: None,
            gates=gates,  # type: ignore[arg-type]
        )

    class Here:
        clock = SystemClock()

    worker = Worker(
        name=f"bench-{index}",
        host="bench",
        pid=os.getpid(),
        book=wanted_of(store),
        journal=store,
        clock=SystemClock(),
        nodes={node.name: node for node in nodes},
        profiles={"h100": PROFILE},
        new_run=lambda: new_run(Here(), "bringup", "bench", ()),  # type: ignore[arg-type]
        fleet_of=fleet_of,
        tell=lambda text: sys.stderr.write(text + "\n") and None,
        most=count,
        lease_s=60.0,
    )
    await wanted_of(store).alive(f"bench-{index}", "bench", os.getpid(), 60.0)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    before, began = time.process_time(), time.monotonic()
    await worker.serve(once=True)
    used = {"cpu_s": time.process_time() - before, "wall_s": time.monotonic() - began}
    await store.close()
    passes = counts.get("looks", 0) - counts.get("open_attempt", 0)
    return {**used, "passes": passes, "calls": counts, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


async def prepared(address: str, nodes: Sequence[Node]) -> Store:
    """A store in which all nodes are wanted."""
    store = open_store(address)
    await wanted_of(store).ask([node.name for node in nodes], "all", "bench")
    return store


def server_cpu_s(server: Server | None) -> float:
    """What the database server and its ended sessions have used (proc(5), stat: utime, stime, cutime, cstime)."""
    if server is None or server.process is None:
        return 0.0
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def measure(kind: str, workers: int, count: int, folder: Path, server: Server | None) -> dict[str, Any]:
    """One configuration, once."""
    nodes, _ = site_of(count)
    if server is not None:
        address = server.address(server.database())
    else:
        address = str(Path(tempfile.mkdtemp(dir=folder)) / "state")
    store = asyncio.run(prepared(address, nodes))
    server_before = server_cpu_s(server)
    crowd = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.engine", "--child", address, str(count), str(index)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for index in range(workers)
    ]  # fmt: skip
    try:
        for process in crowd:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"  # noqa: PT018, S101
        for process in crowd:
            assert process.stdin is not None  # noqa: S101
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [json.loads(process.communicate()[0]) for process in crowd]
    finally:
        for process in crowd:
            process.kill()
            process.wait()
    server_s = server_cpu_s(server) - server_before
    ready = asyncio.run(_ready(store))
    size = upkeep.info(store._database, SystemClock().now()).bytes
    asyncio.run(store.close())
    # The last sweeps find nothing: that is waiting, not work.
    wall_s = max(answer["wall_s"] for answer in answers)
    passes, cpu_s = sum(a["passes"] for a in answers), sum(a["cpu_s"] for a in answers)
    return {
        "store": kind, "workers": workers, "nodes": count, "ready": ready, "wall_s": wall_s, "passes": passes,
        "passes_s": passes / wall_s, "cpu_s": cpu_s, "cpu_ms_pass": cpu_s / passes * 1e3,
        "server_ms_pass": server_s / passes * 1e3, "mib": max(a["mib"] for a in answers), "mb": size / 1e6,
        "calls_node": sum(sum(a["calls"].values()) for a in answers) / count,
        "took": [a["passes"] for a in answers],
    }  # fmt: skip


async def _ready(store: Store) -> int:
    return sum(state.outcome is not None and state.outcome.value == "ready" for state in await store.states())


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least squares on log-log paper: 1 is linear growth."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)


HEAD = ("store", "workers", "nodes", "wall s", "passes", "passes/s", "CPU ms/pass", "server ms/pass", "MiB", "store MB")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """For people."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for r in rows:
        cells = (
            r["store"], r["workers"], r["nodes"], f"{r['wall_s']:.1f}", r["passes"], f"{r['passes_s']:.0f}",
            f"{r['cpu_ms_pass']:.2f}", f"{r['server_ms_pass']:.2f}", f"{r['mib']:.0f}", f"{r['mb']:.1f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--only", choices=["sqlite", "postgresql"], help="one store")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="on PostgreSQL")
    parser.add_argument("--json", type=Path, help="keep the figures here")
    options = parser.parse_args()
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as folder:
        for kind, workers in CONFIGURATIONS:
            if options.only not in {None, kind} or (kind == "postgresql" and workers not in options.workers):
                continue
            for count in options.nodes:
                server = Server() if kind == "postgresql" else None
                try:
                    if server is not None:
                        server.start()
                    rows.append(measure(kind, workers, count, Path(folder), server))
                finally:
                    if server is not None:
                        server.close()
                sys.stderr.write(json.dumps(rows[-1]) + "\n")
    sys.stdout.write(table(rows) + "\n")
    for kind, workers in CONFIGURATIONS:
        mine = [r for r in rows if (r["store"], r["workers"]) == (kind, workers)]
        wrong += [f"{r['nodes'] - r['ready']} of {r['nodes']} are not ready" for r in mine if r["ready"] != r["nodes"]]
        wrong += [f"{r['mib']:.0f} MiB at {r['nodes']} nodes" for r in mine if r["mib"] > MOST_MIB]
        if len(mine) > 1:
            grows = slope([(r["nodes"], r["cpu_s"]) for r in mine])
            sys.stdout.write(f"{kind}, {workers} worker(s): processor time grows with nodes^{grows:.2f}\n")
            if grows > MOST_SLOPE:
                wrong.append(f"{kind}, {workers} worker(s): slope {grows:.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    for line in wrong:
        sys.stdout.write(f"over its limit: {line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.stdout.write(json.dumps(asyncio.run(child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))) + "\n")
    else:
        sys.exit(main())
