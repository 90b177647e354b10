"""The benchmark of waves leaves nothing behind, also when it is ended from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nspawn_hosts import Lab

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.nspawn, pytest.mark.lab, pytest.mark.timeout(180)]


def left_of(tag: str) -> list[str]:
    """Namespaces, mounts, cgroups and processes that carry the tag."""
    found = [f"namespace {name}" for name in os.listdir("/run/netns") if name == tag]
    found += [
        f"mount {line.split()[1]}" for line in Path("/proc/mounts").read_text().splitlines() if f"/{tag}-" in line
    ]
    found += [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"*/{tag}-*")]
    found += [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"{tag}-*")]
    for entry in Path("/proc").iterdir():
        try:
            found += [f"process {entry.name}"] if f"/{tag}-".encode() in (entry / "cmdline").read_bytes() else []
        except OSError:
            continue
    return found


def wait_for(what: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_ended_benchmark_takes_its_hosts_with_it(lab: Lab, how: signal.Signals) -> None:
    """``lab`` says whether hosts can be made here at all; the benchmark makes its own."""
    assert lab.folder.is_dir()
    bench = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.configure", "--hosts", "1"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    tag = f"pvt{bench.pid:x}"
    try:
        booted = wait_for(lambda: any(item.startswith("cgroup") for item in left_of(tag)), 60)
        assert booted, "no host was started"
        bench.send_signal(how)
        said = bench.communicate(timeout=100)[1]
        assert (bench.returncode, said) == (130, "interrupted: its hosts are gone\n")
        assert wait_for(lambda: left_of(tag) == [], 10), left_of(tag)
    finally:
        if bench.poll() is None:
            os.killpg(bench.pid, signal.SIGKILL)
