"""``make bench-harvest``: every MAC and network boot once with read-back, on N simulated BMCs, by us and by others.

The BMCs run in one process on the first core, the client on the second. Rounds are interleaved: each client has its
turn in each round. Success is what the BMCs have stored, not what a client believes. See README.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS, Peer, install
from benchmarks.table import markdown

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "provision-bench"
ROUNDS = 3
NOT_STORED = "not stored"  # what a client reports that read back something else than it wrote


@dataclass
class Turn:
    """One client's turn: what it took and what came of it. Seconds, mebibytes; p50 and p95 per BMC without ill ones."""

    client: str
    profile: str
    nodes: int
    round: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    simulator_cpu_s: float
    requests: int
    connections: int
    p50_s: float
    p95_s: float
    stored: int
    well: int
    macs_complete: int
    believed_wrongly: int
    lies: int
    lies_caught: int
    hung: int
    hung_named: int
    failed_wrongly: int
    logins_left: int
    cut_off: bool
    errors: list[str]


class Fleet:
    """The process of the simulated BMCs."""

    def __init__(self, nodes: int, profile: str, core: int) -> None:
        argv = [
            *pinned(core),
            sys.executable,
            "-m",
            "benchmarks.fleet",
            str(CACHE / "certificates"),
            str(nodes),
            profile,
        ]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, cwd=HERE.parent)
        if self._process.stdin is None or self._process.stdout is None:
            raise SystemExit("no pipes to the simulated BMCs")
        self._in, self._out = self._process.stdin, self._process.stdout
        self.about = self._heard()

    def ask(self, word: str) -> dict[str, Any]:
        """``reset`` or ``count``."""
        self._in.write(word + "\n")
        self._in.flush()
        return self._heard()

    def _heard(self) -> dict[str, Any]:
        line = self._out.readline()
        if not line:
            raise SystemExit("the simulated BMCs ended before their time")
        return dict(json.loads(line))

    def end(self) -> None:
        """Close its stdin and wait."""
        self._in.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def pinned(core: int) -> list[str]:
    """The begin of a command line that runs on one core."""
    return ["taskset", "--cpu-list", str(core)]


@contextmanager
def fleet_of(nodes: int, profile: str, core: int) -> Iterator[Fleet]:
    """A running fleet."""
    fleet = Fleet(nodes, profile, core)
    try:
        yield fleet
    finally:
        fleet.end()


def run_client(peer: Peer, job: Path, report: Path, core: int, deadline_s: float) -> tuple[float, Any, bool]:
    """Run a client to its end or its deadline. Returns wall seconds, resource usage and whether it was cut off."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE / 'clients'}{os.pathsep}{HERE.parent if peer.ours else ''}"}
    begun = time.monotonic()
    process = subprocess.Popen(
        [*pinned(core), str(peer.python(CACHE)), str(HERE / "clients" / peer.script), str(job), str(report)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    cut_off = threading.Event()

    def cut() -> None:
        cut_off.set()
        os.kill(process.pid, signal.SIGKILL)

    timer = threading.Timer(deadline_s, cut)
    timer.start()
    try:
        errors = process.stderr.read() if process.stderr is not None else b""
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:  # Ctrl-C or SIGTERM: nothing of ours goes on behind us
        process.kill()
        process.wait()
        raise
    finally:
        timer.cancel()
    wall = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 and not cut_off.is_set():
        raise SystemExit(f"{peer.name} ended with {process.returncode}: {errors.decode(errors='replace')[-2000:]}")
    return wall, usage, cut_off.is_set()


def turn(fleet: Fleet, peer: Peer, profile: str, number: int, core: int, deadline_s: float) -> Turn:
    """One client, once over all BMCs."""
    fleet.ask("reset")
    with tempfile.TemporaryDirectory() as folder:
        job, report = Path(folder) / "job.json", Path(folder) / "report.jsonl"
        job.write_text(json.dumps(fleet.about), encoding="utf-8")
        report.touch()
        wall, usage, cut_off = run_client(peer, job, report, core, deadline_s)
        told = {line["name"]: line for line in map(json.loads, report.read_text(encoding="utf-8").splitlines())}
    count = fleet.ask("count")
    return judged(fleet.about, told, count, peer.name, profile, number, wall, usage, cut_off)


def judged(
    about: dict[str, Any],
    told: dict[str, Any],
    count: dict[str, Any],
    client: str,
    profile: str,
    number: int,
    wall: float,
    usage: Any,
    cut_off: bool,
) -> Turn:
    """Compare what the client says with what the BMCs know."""
    lies, hung = set(about["ill"]["lie"]), set(about["ill"]["hang"])
    well = [node["name"] for node in about["nodes"] if node["name"] not in lies | hung]
    stored = set(count["stored"])
    believed = {name for name, line in told.items() if line["ok"]}
    times = sorted(told[name]["s"] for name in well if name in told) or [math.nan]
    return Turn(
        client=client,
        profile=profile,
        nodes=len(about["nodes"]),
        round=number,
        wall_s=wall,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss / 1024,
        simulator_cpu_s=count["cpu_s"],
        requests=count["requests"],
        connections=count["connections"],
        p50_s=percentile(times, 50),
        p95_s=percentile(times, 95),
        stored=len(stored & set(well)),
        well=len(well),
        macs_complete=sum(told[name]["macs"] == 10 for name in well if name in told),
        believed_wrongly=len(believed - stored),
        lies=len(lies),
        lies_caught=sum(told[name]["error"] == NOT_STORED for name in lies & set(told)),
        hung=len(hung),
        hung_named=len(hung & set(told) - believed),
        failed_wrongly=len(set(well) & set(told) - believed),
        logins_left=count["logins"] - count["logouts"],
        cut_off=cut_off,
        errors=[told[name]["error"] for name in well if name in told and name not in believed][:3],
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The value that so many percent do not exceed."""
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * percent / 100) - 1)]


def floor_of(profile: str, cores: tuple[int, int]) -> float:
    """Seconds that our client takes for one BMC alone: requests on the critical path times the latency."""
    ours = next(peer for peer in PEERS if peer.ours)
    with fleet_of(1, "idrac" if profile in {"sick", "busy"} else profile, cores[0]) as fleet:
        latency = fleet.about["latency_s"]
        best = min(turn(fleet, ours, profile, 0, cores[1], 60).p50_s for _ in range(3))
        return int(best / latency + 0.1) * latency


def machine_words() -> str:
    """What this ran on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "unknown CPU",
    )
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores of {cpu}, Python {sys.version.split()[0]}, load at the start {load:.1f}"


def main() -> None:
    """Measure, print the table, write both files."""
    options = _options()
    peers = [peer for peer in PEERS if peer.name in options.clients]
    for peer in peers:
        install(peer, CACHE)
    cores = tuple(sorted(os.sched_getaffinity(0)))[:2]
    if len(cores) < 2:
        raise SystemExit("this benchmark needs two cores: one for the BMCs, one for the client")
    pair = (cores[0], cores[1])
    turns: list[Turn] = []
    result: dict[str, Any] = {"machine": machine_words(), "floors_s": {}, "turns": []}
    if options.add and options.json.exists():
        result = {**json.loads(options.json.read_text(encoding="utf-8")), "machine": result["machine"]}
    for profile in options.profiles:
        result["floors_s"][profile] = floor_of(profile, pair)
        for nodes in options.nodes:
            with fleet_of(nodes, profile, pair[0]) as fleet:
                for number in range(1, options.rounds + 1):
                    for peer in peers if profile != "busy" or options.all_busy else peers[:1]:
                        done = turn(fleet, peer, profile, number, pair[1], options.deadline)
                        turns.append(done)
                        say(done)
                        keep(result, done, options.json)
    text = markdown(result)
    sys.stdout.write(text)
    if options.markdown is not None:
        options.markdown.write_text(text, encoding="utf-8")
    if wrong := complaints(turns):
        raise SystemExit("our own client failed:\n  " + "\n  ".join(wrong))


def keep(result: dict[str, Any], done: Turn, path: Path) -> None:
    """Add a turn to the result, in place of an older one of the same client, profile, number and round; write it down.

    Hours of measuring do not hang on the end of the run.
    """
    fresh = asdict(done)
    same = ("client", "profile", "nodes", "round")
    result["turns"] = [one for one in result["turns"] if any(one[key] != fresh[key] for key in same)] + [fresh]
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def say(done: Turn) -> None:
    """One line while it runs."""
    sys.stderr.write(
        f"{done.profile:6} N={done.nodes:<4} round {done.round} {done.client:8} {done.wall_s:7.1f} s wall, "
        f"{done.cpu_s:6.2f} s CPU, stored {done.stored}/{done.well}\n"
    )


def complaints(turns: Sequence[Turn]) -> list[str]:
    """Where our own client did less than everything: on every well BMC, with every lie caught, no session left."""
    ours = next(peer.name for peer in PEERS if peer.ours)
    found = []
    for one in turns:
        where = f"{one.client}, {one.profile}, {one.nodes} BMCs, round {one.round}"
        if one.client != ours:
            continue
        if one.stored != one.well or one.macs_complete != one.well or one.failed_wrongly:
            found.append(f"{where}: {one.stored} of {one.well} stored, {one.macs_complete} complete: {one.errors}")
        if one.lies_caught != one.lies or one.believed_wrongly:
            found.append(f"{where}: {one.lies_caught} of {one.lies} lies caught, {one.believed_wrongly} believed")
        if one.cut_off or one.logins_left:
            found.append(f"{where}: cut off {one.cut_off}, {one.logins_left} sessions left")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [peer.name for peer in PEERS]
    parser.add_argument("--nodes", type=int, nargs="+", default=[32, 128, 512])
    profiles = ["fast", "idrac", "sick", "busy"]
    parser.add_argument("--profiles", nargs="+", default=profiles, choices=profiles)
    parser.add_argument("--all-busy", action="store_true", help="busy, the measure of sick, for the other clients too")
    parser.add_argument("--clients", nargs="+", default=names, choices=names)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--deadline", type=float, default=300.0, help="seconds after which a client is ended")
    parser.add_argument("--json", type=Path, default=CACHE / "harvest.json")
    parser.add_argument(
        "--add", action="store_true", help="keep the other turns of the JSON file, so that a run may come in parts"
    )
    parser.add_argument("--markdown", type=Path, default=None, help="also write the table here")
    return parser.parse_args()


def _stopped(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stopped)
    main()
