"""`make demo`: the main job, explained on the screen.

Starts a simulated rack with faults, brings it up, shows the ticket list, repairs the machines, runs the same command
again, and ends with status 1 if anything was not as it says.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

FAULTS = (
    ("gpu-12-02", "cable_wrong_port", "its cable is in another switch port than planned"),
    ("gpu-12-03", "psu_cord_out:2", "the cord of PSU 2 is out"),
    ("gpu-12-05", "nvme_missing:4", "the NVMe drive of bay 4 is missing"),
    ("gpu-12-06", "pcie_width", "a PCIe card runs at x4 of x16"),
    ("gpu-12-08", "clock_off:3", "its BMC's clock is three hours off (nobody has to walk for that)"),
)
TICKETS = {"gpu-12-02": "cabling_ethernet", "gpu-12-03": "psu", "gpu-12-05": "nvme", "gpu-12-06": "pcie_link"}
PLACE = Path("demo")
CLI = (sys.executable, "-m", "provision")
SITE = ("-i", str(PLACE / "sim" / "inventory"), "--state", str(PLACE / "state"))
SIM = ("--dir", str(PLACE / "sim"))


def say(text: str = "") -> None:
    """A line of explanation."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run(*argv: str, show: bool = True) -> subprocess.CompletedProcess[str]:
    """One command of `provision`; its messages go to the screen."""
    if show:
        say(f"\n$ provision {' '.join(argv)}")
    return subprocess.run([*CLI, *argv], text=True, stdout=subprocess.PIPE, check=False)


def expect(what: str, holds: object) -> None:
    """Say what was expected, and stop the demo if it is not so."""
    say(f"  {'yes' if holds else 'NO '}  {what}")
    if not holds:
        raise SystemExit(1)


def start() -> subprocess.Popen[bytes]:
    """The simulated rack, in the background."""
    shutil.rmtree(PLACE, ignore_errors=True)
    faults = [part for node, fault, _ in FAULTS for part in ("--fault", f"{node}:{fault}")]
    argv = ["sim", "--nodes", "8", "--speed", "600", *faults, *SIM]
    say(f"$ provision {' '.join(argv)} &")
    fleet = subprocess.Popen([*CLI, *argv], stdout=subprocess.DEVNULL)
    for _ in range(300):
        if (PLACE / "sim" / "control.json").exists() and (PLACE / "sim" / "inventory" / "hosts.yml").exists():
            return fleet
        if fleet.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit("the simulated rack did not start")


def writes(*, reset: bool = False) -> dict[str, int]:
    """Writes that each simulated machine received."""
    done = run("sim", "writes", "--output", "json", *(["--reset"] if reset else []), *SIM, show=False)
    return {name: sum(kinds.values()) for name, kinds in json.loads(done.stdout).items() if isinstance(kinds, dict)}


def show_csv(file: Path) -> list[dict[str, str]]:
    """Print the columns that matter on a narrow screen; answers with all."""
    with file.open(newline="", encoding="utf-8-sig") as handle:
        rows = list(csv.DictReader(handle))
    for row in rows:
        say(f"  {row['Ticket ID']}  {row['Rack']} U{row['U position']:>2}  {row['Hostname']}  {row['Category']}")
        say(f"          {row['Locator label']}: {row['Instructions']}")
    return rows


def main() -> None:
    """The demo."""
    say("A rack of eight simulated 8-GPU servers, racked, cabled and powered. Five are not as they should be:")
    for node, _, about in FAULTS:
        say(f"  {node}: {about}")
    say("The BMCs speak Redfish over HTTPS, MAAS its API, the hosts SSH; time runs 600 times faster.\n")
    fleet = start()
    try:
        story()
    finally:
        fleet.terminate()
        try:
            fleet.wait(10)
        except subprocess.TimeoutExpired:
            fleet.kill()


def story() -> None:
    """Bring up, tickets, repair, the same command again."""
    say("\n1. First look: what would be done? Not one write.")
    plan = json.loads(run("plan", "rack-12", "--output", "json", *SITE).stdout)
    stuck = sorted(row["node"] for row in plan if row["next"] == "stuck")
    expect(f"the plan already names the machines with hard faults: {', '.join(stuck)}", stuck == sorted(TICKETS))
    expect("no machine received a write", sum(writes().values()) == 0)

    say("\n2. The main job.")
    tickets = PLACE / "tickets.csv"
    first = run("bringup", "rack-12", "--tickets", str(tickets), *SITE)
    expect("exit status 1: somebody must look", first.returncode == 1)

    say(f"\n3. What the data-centre staff get: {tickets}")
    rows = show_csv(tickets)
    given = sorted((row["Hostname"], row["Category"]) for row in rows)
    expect("four tickets, one per fault, the right kind each", given == sorted(TICKETS.items()))
    expect("nobody walks for the clock: it was set over the BMC", all(r["Hostname"] != "gpu-12-08" for r in rows))
    ready = sorted({row["node"] for row in plan} - set(TICKETS))

    say("\n4. The staff repair the four machines.")
    for node in TICKETS:
        run("sim", "repair", node, *SIM)

    say("\n5. The same command again: it touches only what is left.")
    writes(reset=True)
    again = run("bringup", "rack-12", *SITE)
    expect("exit status 0: all eight are ready", again.returncode == 0)
    counted = writes()
    expect(f"zero writes to the machines that were ready ({', '.join(ready)})", not any(counted[n] for n in ready))
    closed = json.loads(run("tickets", "list", "--all", "--output", "json", *SITE, show=False).stdout)
    expect(
        "all four tickets are closed, each after its part was looked at",
        [t["status"] for t in closed] == ["verified"] * 4,
    )

    say("\n6. And once more.")
    writes(reset=True)
    third = run("bringup", "rack-12", *SITE)
    expect("still all ready", third.returncode == 0)
    expect("not one write to any machine", sum(writes().values()) == 0)
    say(
        f"\nThat was it. The tickets are in {tickets}; the inventory that the simulator wrote is {PLACE}/sim/inventory."
    )


if __name__ == "__main__":
    main()
