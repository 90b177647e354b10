"""Starting, breaking, repairing and ending a whole simulated fleet, from inside and from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest

from provision.cli import cli
from provision.config.inventory import load
from provision.errors import MisconfiguredError
from provision.model.site import PowerBy
from provision.sim.control import FILE, Control
from provision.sim.inventory import pace_for
from provision.sim.run import build_machines, start_fleet
from provision.sim.world import SimError

ROOT = Path(__file__).parents[2]


async def test_the_inventory_is_what_the_program_reads(tmp_path: Path) -> None:
    async with start_fleet(tmp_path, nodes=10, speed=600, power_by="provision") as fleet:
        site = await asyncio.to_thread(load, fleet.inventory)
        machines = fleet.world.machines
        assert set(site.nodes) == set(machines)
        assert {name for name in site.groups if name.startswith("rack-")} == {"rack-12", "rack-13"}
        for name, node in site.nodes.items():
            machine = machines[name]
            assert node.bmc_address == f"{machine.bmc_address}:{machine.bmc_port}"
            assert (node.service_tag, node.rack, node.unit) == (machine.service_tag, machine.rack, machine.unit)
            assert [c.nic for c in node.cabling] == [nic.name for nic in machine.nics]
            assert len(node.power_feeds) == 6
            assert node.ssh is not None
            assert (node.ssh.host, node.ssh.port) == (machine.ssh_address, machine.ssh_port)
        profile = site.profiles["h100-8gpu"]
        boot = [d for d in machines["gpu-12-01"].drives if d.boot]
        assert profile.boot_disk.model is not None
        assert profile.boot_disk.model in boot[0].model
        assert site.settings.site.power_by is PowerBy.PROVISION
        assert site.settings.site.pace == pytest.approx(pace_for(600))
        assert site.settings.bmc is not None
        assert site.settings.bmc.password.resolve().reveal() == fleet.world.bmc_password
        assert site.settings.need_maas().key.resolve().reveal().count(":") == 2
        assert site.settings.playbook is not None
        assert site.settings.playbook.is_file()
        version = await asyncio.to_thread(_get, f"{site.settings.need_maas().url}/api/2.0/version/")
        assert json.loads(version)["version"].startswith("3.")


async def test_secrets_are_private_and_kept_from_run_to_run(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with start_fleet(tmp_path, nodes=1, with_maas=False) as fleet:
            assert "token" not in repr(fleet.control)
            seen.append({path.name: path.read_text() for path in _private(tmp_path) if path.name != FILE})
            for path in _private(tmp_path):
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert seen[0] == seen[1]
    assert set(seen[0]) == {"bmc-password", "maas-key", "ssh-key", "gpu-12-01.pem"}
    written = "".join(path.read_text() for path in _below(tmp_path / "inventory"))
    assert not any(value.strip() in written for value in seen[0].values())


async def test_a_fleet_leaves_nothing_behind(tmp_path: Path) -> None:
    before = _open_files()
    async with start_fleet(tmp_path, nodes=4) as fleet:
        await fleet.machine("gpu-12-01").press("On")
        await asyncio.sleep(0.05)
        address = fleet.machine("gpu-12-01").bmc_address, fleet.machine("gpu-12-01").bmc_port
    await asyncio.sleep(0.05)
    assert not (tmp_path / FILE).exists()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert _open_files() <= before + 2


async def test_an_unknown_fault_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(SimError, match="there is no fault 'meteor'"):
        async with start_fleet(tmp_path, nodes=1, faults=[("gpu-12-01", "meteor")]):
            pass
    assert not (tmp_path / FILE).exists()


def test_makers_by_turns_by_rack_and_by_node() -> None:
    machines = build_machines(16, None, 1, ["idrac9", "ilo"], {"rack-13": "openbmc", "gpu-12-01": "xcc"})
    makers = {machine.name: machine.family.name for machine in machines}
    assert [makers[f"gpu-12-0{number}"] for number in range(1, 5)] == ["lenovo", "hpe", "idrac9", "hpe"]
    assert {maker for name, maker in makers.items() if name.startswith("gpu-13-")} == {"openbmc"}
    for families, places, says in (
        (["nokia"], {}, "no family of BMCs called 'nokia'"),
        (["idrac9"], {"gpu-99-01": "hpe"}, "no node or rack is called 'gpu-99-01'; there are 2 nodes in rack-12"),
    ):
        with pytest.raises(SimError, match=says):
            build_machines(2, None, 1, families, places)


async def test_the_control_channel_wants_its_token(tmp_path: Path) -> None:
    async with start_fleet(tmp_path, nodes=1, with_maas=False) as fleet:
        control = fleet.control
        stranger = Control(tmp_path, control.host, control.port, control.pid, "guessed")
        with pytest.raises(SimError, match="token"):
            await asyncio.to_thread(stranger.fault, "gpu-12-01", "psu_failed")
        assert fleet.machine("gpu-12-01").faults == []
        with pytest.raises(SimError, match="cannot be read"):
            await asyncio.to_thread(control.ask, "/fault", {"kind": "psu_failed"})
        with pytest.raises(SimError, match="knows no /toast"):
            await asyncio.to_thread(control.ask, "/toast")


class Sim:
    """``provision sim`` in the foreground of its own process."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        command = [sys.executable, "-m", "provision", "sim", "--dir", str(directory), *options]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def ready(self) -> Control:
        end = time.monotonic() + 20
        while not (self.directory / FILE).exists():
            assert self.process.poll() is None, self.process.stderr.read() if self.process.stderr else ""
            assert time.monotonic() < end, "the simulation did not start"
            time.sleep(0.02)
        return Control.open(self.directory)

    def end(self) -> str:
        if self.process.poll() is None:
            self.process.terminate()
        _, said = self.process.communicate(timeout=20)
        return said


def ask(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "provision", "sim", *words, "--dir", str(directory)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    running = Sim(
        tmp_path_factory.mktemp("sim"), "--nodes", "2", "--fault", "gpu-12-02:psu_cord_out:3", "--speed", "1000"
    )
    try:
        running.ready()
        yield running
    finally:
        running.end()


def test_faults_and_repairs_from_the_command_line(sim: Sim) -> None:
    shown = json.loads(ask(sim.directory, "show", "--output", "json").stdout)
    assert shown["machines"]["gpu-12-02"]["faults"] == ["psu_cord_out:3"]
    struck = ask(sim.directory, "fault", "gpu-12-01", "nvme_missing:6")
    assert (struck.returncode, struck.stderr) == (0, "gpu-12-01: nvme_missing:6\n")
    assert "nvme_missing:6" in ask(sim.directory, "show").stdout
    mended = ask(sim.directory, "repair", "gpu-12-01")
    assert mended.stderr == "gpu-12-01: repaired nvme_missing:6\n"
    again = ask(sim.directory, "repair", "gpu-12-01", "nvme_missing")
    assert "nothing, it has no such fault" in again.stderr
    for words, says in (
        (("fault", "gpu-12-01", "meteor"), "there is no fault 'meteor'; the kinds are cable_unplugged"),
        (("fault", "gpu-99-01", "psu_failed"), "there is no machine 'gpu-99-01'"),
        (("fault", "gpu-12-01", "gpu_missing:9"), "no such GPU; there are 1, 2"),
        (("repair", "gpu-12-01", "meteor"), "there is no fault 'meteor'"),
    ):
        wrong = ask(sim.directory, *words)
        assert wrong.returncode == 2
        assert says in wrong.stderr
        assert "Traceback" not in wrong.stderr


def test_writes_are_counted_per_machine_and_reset(sim: Sim) -> None:
    counted = json.loads(ask(sim.directory, "writes", "--output", "json").stdout)
    assert counted == {"gpu-12-01": {}, "gpu-12-02": {}}
    assert ask(sim.directory, "writes", "--reset").stdout.splitlines()[-1].split() == ["all", "0"]


def test_a_second_simulation_in_the_same_folder_is_refused(sim: Sim) -> None:
    second = Sim(sim.directory, "--nodes", "1")
    said = second.process.communicate(timeout=20)[1]
    assert second.process.returncode == 2
    assert f"process {sim.process.pid}" in said
    assert len(Control.open(sim.directory).show()["machines"]) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_it_is_and_ends_cleanly(tmp_path: Path, number: int) -> None:
    running = Sim(tmp_path / "fleet", "--nodes", "3", "--fault", "gpu-12-03:riser_loose")
    running.ready()
    running.process.send_signal(number)
    said = running.end()
    assert running.process.returncode == 0
    assert "3 simulated machines in rack-12" in said
    assert f"provision bringup rack-12 -i {tmp_path / 'fleet' / 'inventory'}" in said
    assert "gpu-12-03 riser_loose:2" in said
    assert said.endswith("the simulation has ended\n")
    assert not (tmp_path / "fleet" / FILE).exists()
    gone = ask(tmp_path / "fleet", "show")
    assert gone.returncode == 2
    assert "no simulation runs in" in gone.stderr


def test_stop_waits_until_it_is_gone_and_what_a_kill_left_does_not_matter(tmp_path: Path) -> None:
    killed = Sim(tmp_path, "--nodes", "1")
    killed.ready()
    killed.process.kill()
    killed.end()
    assert (tmp_path / FILE).exists()
    assert "does not answer" in ask(tmp_path, "show").stderr
    running = Sim(tmp_path, "--nodes", "1")
    try:
        end = time.monotonic() + 20
        while json.loads((tmp_path / FILE).read_text())["pid"] != running.process.pid:
            assert time.monotonic() < end
            time.sleep(0.02)
        stopped = ask(tmp_path, "stop")
        assert (stopped.returncode, stopped.stderr) == (0, "the simulation has ended\n")
        assert running.process.wait(timeout=5) == 0
    finally:
        running.end()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--fault", "gpu-12-01"), "expected NODE:KIND[:ARG]"),
        (("--fault", "gpu-12-01:meteor"), "there is no fault 'meteor'"),
        (("--fault", "gpu-12-09:psu_failed"), "there is no machine 'gpu-12-09'"),
        (("--nodes", "100", "--racks", "1"), "do not fit"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    with pytest.raises(MisconfiguredError) as refused:
        cli.main(["sim", "--dir", str(tmp_path), *options], standalone_mode=False)
    assert says in str(refused.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MisconfiguredError, match=r"file/fleet cannot be made .*--dir"):
        cli.main(["sim", "--dir", str(tmp_path / "file" / "fleet")], standalone_mode=False)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom provision.cli import main\n"
        "try:\n    main(['sim', '--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'aiohttp', 'yaml', 'cryptography', 'paramiko', 'rich'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "provision sim --nodes 8 --fault gpu-12-03:psu_cord_out:2 --speed 600" in done.stdout
    assert done.stderr == "[]\n"


def _get(url: str) -> str:
    with build_opener(ProxyHandler({})).open(url, timeout=5) as reply:
        return str(reply.read().decode())


def _below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _private(folder: Path) -> list[Path]:
    return [path for path in _below(folder) if "inventory" not in path.parts]


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
