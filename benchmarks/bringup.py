"""A bring-up of many machines, from unknown to MAAS to deployed: what it asks of MAAS, and what it costs us.

``python -m benchmarks.bringup --nodes 512``: the simulated site runs in a process of its own, pinned to the first core;
the product runs in another one, on the second. Printed: writes to MAAS against those that are needed, list requests per
rack and interval, peak memory, and wall time against the simulator's own critical path, which is the longest time that
one machine itself was busy (network boots, commissioning, installation). Exit status 1 if a figure is over its limit;
143 when it was asked to end (SIGTERM, SIGINT): both processes are ended first.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from provision.app.clock import SystemClock
from provision.app.runs import new_run
from provision.app.wiring import Wiring
from provision.engine.fleet import Fleet
from provision.sim.run import start_fleet
from provision.stages import BRING_UP
from provision.triage.desk import desk
from provision.triage.fleet import fleet as fleet_causes
from provision.triage.judge import judge

# What a machine that MAAS does not know needs: its boot drive is the last one that MAAS numbers.
NEEDED = (
    "create",
    "commission",
    "set_boot_disk",
    "set_storage_layout",
    "allocate",
    "set_workload_annotations",
    "deploy",
)
MOST_WRITES, MOST_LISTS, MOST_MIB, MOST_WALL = 1.2, 1.0, 300.0, 1.15
INTERVAL_S = 10.0


def say(line: str) -> None:
    """To whoever reads our stdout: a person, or the other process."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def pin(core: int) -> None:
    """Leave the other core to the other process."""
    with contextlib.suppress(OSError, AttributeError):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})


async def serve(folder: Path, nodes: int, racks: int, speed: float) -> None:
    """The site: tells where its inventory is, and at the end what it saw."""
    limits: dict[str, int | None] = dict.fromkeys(("in_flight", "per_rack", "per_power_feed", "deployments"), nodes)
    # A site's caution is no cost of ours: nobody goes ahead, and machines may start as quickly as they can.
    settings = {"limits": limits | {"reboots_per_minute": None}, "canary": {"nodes": 0}}
    async with start_fleet(folder / "sim", nodes=nodes, racks=racks, speed=speed, settings=settings) as fleet:
        gc.freeze()
        say(json.dumps({"inventory": str(fleet.inventory)}))
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        writes: Counter[str] = Counter()
        wrong = 0
        for machine in fleet.world.machines.values():
            writes.update(
                {key.removeprefix("maas:"): n for key, n in machine.writes.items() if key.startswith("maas:")}
            )
            boot = next(drive.serial for drive in machine.drives if drive.boot)
            wrong += machine.installed is None or machine.installed.disk_serial != boot
        busy = [own_time(record.events) for record in fleet.maas.region.machines.values()]
        cpu_s = time.process_time()
        say(json.dumps({"writes": writes, "wrong": wrong, "critical_s": max(busy, default=0.0), "cpu_s": cpu_s}))


def own_time(events: list[Any]) -> float:
    """Seconds between the begin and the end of what a machine did by itself. Event logs show true time."""
    begins = {"Commissioning": "Ready", "Deploying": "Deployed"}
    total, open_since = 0.0, dict[str, datetime]()
    for event in events:
        if event.type in begins:
            open_since[begins[event.type]] = event.at
        elif event.type in open_since:
            total += (event.at - open_since.pop(event.type)).total_seconds()
    return total


async def client(inventory: Path, state: Path) -> None:
    """The product, from its inventory to deployed machines."""
    wiring = Wiring(inventory, state)
    began = time.monotonic()
    try:
        nodes = list(wiring.site.nodes.values())
        fleet = Fleet(
            stages=BRING_UP[:5], journal=wiring.store, clock=SystemClock(), site=wiring.settings.site, judge=judge,
            desk=desk, fleet_causes=fleet_causes, tools_for=wiring.tools, emit=lambda event: None,
        )  # fmt: skip
        ended = await fleet.run(new_run(wiring, "bringup", "all", nodes), nodes, wiring.site.profiles)
        lists = wiring.maas().lists  # type: ignore[attr-defined]  # more than the port promises
    finally:
        await wiring.close()
    outcomes = Counter(end.outcome.value for end in ended.values())
    whys = Counter(end.why for end in ended.values() if end.outcome.value != "ready")
    used = resource.getrusage(resource.RUSAGE_SELF)
    about = {
        "wall_s": time.monotonic() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mib": used.ru_maxrss / 1024,
        "outcomes": outcomes,
        "whys": dict(whys.most_common(3)),
        "lists": lists,
        "pace": wiring.settings.site.pace,
    }
    say(json.dumps(about))


async def measure(nodes: int, racks: int, speed: float) -> dict[str, Any]:
    """Run both processes; what both said. They end with us, also when we are asked to end."""
    me = asyncio.current_task()
    for sign in (signal.SIGTERM, signal.SIGINT):
        if me is not None:
            asyncio.get_running_loop().add_signal_handler(sign, me.cancel)
    with tempfile.TemporaryDirectory(prefix="bench-fleet-") as name:
        folder = Path(name)
        async with contextlib.AsyncExitStack() as children:
            where = ("--nodes", str(nodes), "--racks", str(racks), "--speed", str(speed))
            site = await child(children, "--serve", str(folder), *where)
            if site.stdout is None or site.stdin is None:
                raise RuntimeError("the site has no pipes")
            first = json.loads(await site.stdout.readline())
            ours = await child(children, "--client", first["inventory"], "--state", str(folder / "state"))
            told, _ = await ours.communicate()
            site.stdin.write(b"count\n")
            await site.stdin.drain()
            seen = json.loads(await site.stdout.readline())
            return {"ours": json.loads(told), "site": seen}


async def child(children: contextlib.AsyncExitStack, *argv: str) -> asyncio.subprocess.Process:
    """This file in a process of its own, ended with the stack."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.bringup", *argv, stdin=pipe, stdout=pipe, limit=2**24
    )

    async def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()

    children.push_async_callback(end)
    return process


def most(limit: float) -> str:
    """``at most 1.2``."""
    return f"at most {limit:g}"


def _verdict(ok: bool, wanted: str) -> str:
    return "" if not wanted else "ok" if ok else "OVER"


def report(found: dict[str, Any], nodes: int, racks: int) -> tuple[list[str], dict[str, Any]]:
    """Lines for people, and the same figures as data; ``ok`` says whether every one keeps its limit."""
    ours, site = found["ours"], found["site"]
    writes, needed = sum(site["writes"].values()), len(NEEDED) * nodes
    intervals = ours["wall_s"] / (INTERVAL_S * ours["pace"])
    lists = ours["lists"].get("poll", 0) / (racks * max(intervals, 1.0))
    wall = ours["wall_s"] / site["critical_s"] if site["critical_s"] else float("inf")
    ready = ours["outcomes"].get("ready", 0)
    share, peak = writes / needed, ours["peak_mib"]
    polls = f"{lists:.2f} ({ours['lists'].get('look', 0)} looks before writes)"
    shown = f"{ours['wall_s']:.1f} s / {site['critical_s']:.1f} s = {wall:.2f}"
    rows = [
        ("ready", f"{ready} of {nodes}", f"all {nodes}", ready == nodes),
        ("wrong disks", str(site["wrong"]), "none", site["wrong"] == 0),
        ("writes / needed", f"{writes} / {needed} = {share:.2f}", most(MOST_WRITES), share <= MOST_WRITES),
        ("polls per rack and interval", polls, most(MOST_LISTS), lists <= MOST_LISTS),
        ("peak memory", f"{peak:.0f} MiB", f"{most(MOST_MIB)} MiB", peak <= MOST_MIB),
        ("wall / critical path", shown, most(MOST_WALL), wall <= MOST_WALL),
        ("CPU, ours and the simulator's", f"{ours['cpu_s']:.1f} s, {site['cpu_s']:.1f} s", "", True),
    ]
    lines = [f"{what:32}{is_:52}{wanted:20}{_verdict(ok, wanted)}".rstrip() for what, is_, wanted, ok in rows]
    lines += [f"  {count} times: {why}" for why, count in ours["whys"].items()]
    figures = {
        "nodes": nodes,
        "racks": racks,
        "ready": ready,
        "wrong_disks": site["wrong"],
        "writes_per_needed": share,
        "polls_per_rack_and_interval": lists,
        "peak_mib": peak,
        "wall_s": ours["wall_s"],
        "critical_s": site["critical_s"],
        "wall_per_critical": wall,
        "limits": {"writes": MOST_WRITES, "polls": MOST_LISTS, "mib": MOST_MIB, "wall": MOST_WALL},
        "over": [what for what, _, _, ok in rows if not ok],
        "ok": all(ok for _, _, _, ok in rows),
    }
    return lines, figures | found


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--racks", type=int)
    parser.add_argument("--speed", type=float, default=2.0, help="simulated seconds in a second")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--client", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--state", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    racks = asked.racks or -(-asked.nodes // 32)
    if asked.serve:
        pin(0)
        asyncio.run(serve(asked.serve, asked.nodes, racks, asked.speed))
    elif asked.client:
        pin(1)
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        asyncio.run(client(asked.client, asked.state))
    else:
        say(f"{asked.nodes} machines in {racks} racks, {asked.speed:g} simulated seconds a second")
        try:
            found = asyncio.run(measure(asked.nodes, racks, asked.speed))
        except asyncio.CancelledError:
            sys.exit(143)
        lines, figures = report(found, asked.nodes, racks)
        say("\n".join(lines))
        if asked.json:
            asked.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        sys.exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    main()
