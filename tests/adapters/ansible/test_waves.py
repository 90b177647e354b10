"""The port ``Playbooks``: a real ansible-runner in its child process, over real SSH to loopback."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_bench import Bench
from ssh_peer import node

from provision.adapters.ansible import job as jobs
from provision.adapters.ansible import reap
from provision.adapters.ansible.waves import fork_limit
from provision.errors import MisconfiguredError
from provision.model.node import Node
from provision.model.secret import Secret
from provision.ports import WaveState, WaveVerdict

pytestmark = pytest.mark.timeout(60)
SECRET = "correct-horse-battery"


def processes(waves: object) -> list[int]:
    """Everything on this machine that carries the mark of one of these waves."""
    tags = [f"{waves._id}.{n}" for n in range(1, waves._count + 1)]
    return [pid for tag in tags for pid in reap.find(reap.Marks(tag, f"/provision-{tag[-8:]}-"))]


def proc(pid: int, what: str) -> bytes:
    return Path(f"/proc/{pid}/{what}").read_bytes()


def modes(folder: str, pattern: str) -> set[int]:
    """Permission bits of what matches, folders of the pattern ``.`` only."""
    paths = [Path(folder)] if pattern == "." else [path for path in Path(folder).glob(pattern) if path.is_file()]
    return {path.stat().st_mode & 0o777 for path in paths}


async def until(condition: Callable[[], object], patience_s: float = 15) -> None:
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.02)


async def test_one_wave_gives_every_host_its_own_verdict(bench: Bench, leftovers: Callable[[], list[str]]) -> None:
    """ok with its changes, failed, unreachable, without a pinned key: in one invocation, whatever its exit status."""
    for name in ("well", "broken", "gone", "unknown"):
        bench.host(name)
    bench.peers["gone"].close()
    del bench.pins.pins["ssh-host-key", "unknown"]
    play = bench.playbook(
        "Say: echo {{ provision_node }} {{ provision_marker_hash }}\nchanged_when: true",
        "Break: \"echo no space left >&2; exit {{ 7 if provision_node == 'broken' else 0 }}\"\nchanged_when: false",
        "Shrug: exit 3\nfailed_when: false\nchanged_when: false",
        "Ignore: exit 3\nignore_errors: true\nchanged_when: false",
    )
    waves = bench.waves(play)
    well, broken, gone, unknown = await bench.run(waves, "well", "broken", "gone", "unknown")
    assert well == WaveVerdict(WaveState.OK, changed=1)
    assert (broken.state, broken.task, broken.changed) == (WaveState.FAILED, "Break", 1)
    assert "status 7" in broken.why
    assert "no space left" in broken.why
    assert (gone.state, gone.task) == (WaveState.UNREACHABLE, "Say")
    assert "refused" in gone.why.lower()
    assert unknown.state is WaveState.UNREACHABLE
    assert "no SSH host key of unknown is pinned" in unknown.why
    assert waves.verdict("nobody").state is WaveState.NOT_ASKED
    assert bench.peers["well"].commands[0] == f"echo well {waves.wanted(node('well'))}"
    # One connection carries all tasks: ControlPersist works, and its master is gone with the wave.
    assert bench.peers["well"].connections == 1
    assert processes(waves) == []
    assert leftovers() == []
    assert waves._count == 1


async def test_secrets_reach_the_task_and_nothing_else(bench: Bench, leftovers: Callable[[], list[str]]) -> None:
    """Not argv, not an environment, not a verdict, not an artifact; looked for while the wave runs, too."""
    bench.host("one")
    play = bench.playbook('Leak: "echo the token is {{ site.token }} >&2; sleep 1; exit 1"')
    waves = bench.waves(play, lambda _: {"site": {"token": Secret(SECRET)}})
    waves.join(node("one"), bench.peers["one"].address)
    await until(lambda: bench.peers["one"].commands)
    running = processes(waves)
    assert running
    seen = b"".join(proc(pid, what) for pid in running for what in ("environ", "cmdline"))
    # The command of this task itself is in the argv of its ssh, because this playbook puts it there.
    others = b"\n".join(line for line in seen.split(b"\0") if b"the token is" not in line)
    assert SECRET.encode() not in others
    (folder,) = leftovers()
    assert modes(folder, ".") == {0o700}
    assert modes(folder, "*.*") == {0o600}
    (verdict,) = await bench.settled(waves, "one")
    assert verdict.why == "non-zero return code; status 1; the token is ***"
    kept = list(bench.artifacts.iterdir())
    assert [path.stat().st_mode & 0o777 for path in kept] == [0o600]
    assert json.loads(kept[0].read_text())["why"] == verdict.why
    assert leftovers() == []


async def test_who_joins_late_takes_the_next_wave_and_a_node_may_come_again(bench: Bench) -> None:
    for name in ("early", "late"):
        bench.host(name)
    waves = bench.waves(bench.playbook("Wait: sleep 1\nchanged_when: false"), max_waves=1)
    waves.join(node("early"), bench.peers["early"].address)
    await until(lambda: waves.verdict("early").state is WaveState.RUNNING)
    waves.join(node("late"), bench.peers["late"].address)
    waves.join(node("early"), bench.peers["early"].address)
    await asyncio.sleep(0.3)
    assert waves.verdict("late").state is WaveState.WAITING
    assert [v.state for v in await bench.settled(waves, "early", "late")] == [WaveState.OK, WaveState.OK]
    assert [v.state for v in await bench.run(waves, "early")] == [WaveState.OK]
    assert waves._count == 3
    assert (len(bench.peers["early"].commands), len(bench.peers["late"].commands)) == (2, 1)


async def test_a_second_wave_runs_beside_a_long_one(bench: Bench) -> None:
    for name in ("long", "short"):
        bench.host(name)
    waves = bench.waves(bench.playbook("Wait: sleep {{ 20 if provision_node == 'long' else 0 }}\nchanged_when: false"))
    waves.join(node("long"), bench.peers["long"].address)
    await until(lambda: bench.peers["long"].commands)
    assert [v.state for v in await bench.run(waves, "short")] == [WaveState.OK]
    assert waves.verdict("long").state is WaveState.RUNNING


def test_forks_follow_cores_and_free_memory(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable: 350000 kB\n")
    assert fork_limit(tmp_path / "meminfo") == 3
    (tmp_path / "meminfo").write_text("MemAvailable: 10 kB\n")
    assert fork_limit(tmp_path / "meminfo") == 1
    cores = os.cpu_count() or 1
    (tmp_path / "meminfo").write_text("MemAvailable: 900000000 kB\n")
    assert fork_limit(tmp_path / "meminfo") == fork_limit(tmp_path / "no-such-file") == 6 * cores


async def test_a_wave_holds_no_more_than_max_hosts(bench: Bench) -> None:
    names = [f"n{number}" for number in range(5)]
    for name in names:
        bench.host(name)
    waves = bench.waves(bench.playbook("Say: 'true'\nchanged_when: false"), max_hosts=3)
    assert {v.state for v in await bench.run(waves, *names)} == {WaveState.OK}
    assert waves._count == 2


async def test_close_leaves_no_process_and_no_folder(bench: Bench, leftovers: Callable[[], list[str]]) -> None:
    """ansible-core 2.19 workers and ssh masters sit in sessions of their own; they are found by their marks."""
    for name in ("one", "two"):
        bench.host(name)
    waves = bench.waves(bench.playbook("Hang: sleep 300"))
    for name in ("one", "two"):
        waves.join(node(name), bench.peers[name].address)
    await until(lambda: all(bench.peers[name].commands for name in ("one", "two")))
    assert len({os.getsid(pid) for pid in processes(waves)}) > 1
    began = time.monotonic()
    await waves.close()
    assert time.monotonic() - began < 10
    assert processes(waves) == []
    assert leftovers() == []
    assert {waves.verdict(name).state for name in ("one", "two")} == {WaveState.NOT_ATTEMPTED}
    waves.join(node("one"), bench.peers["one"].address)
    assert waves.verdict("one").state is WaveState.NOT_ATTEMPTED


@pytest.mark.parametrize("victim", ["child", "ansible-playbook"])
async def test_a_process_that_dies_is_a_verdict_and_not_silence(
    victim: str, bench: Bench, leftovers: Callable[[], list[str]]
) -> None:
    bench.host("one")
    waves = bench.waves(bench.playbook("Hang: sleep 300"))
    waves.join(node("one"), bench.peers["one"].address)
    await until(lambda: bench.peers["one"].commands)
    wanted = b"provision.adapters.ansible.child" if victim == "child" else b"ansible-playbook"
    pid = next(pid for pid in sorted(processes(waves)) if wanted in proc(pid, "cmdline"))
    os.kill(pid, signal.SIGKILL)
    (verdict,) = await bench.settled(waves, "one")
    assert (verdict.state, verdict.task) == (WaveState.FAILED, "Hang")
    assert "died (signal 9)" in verdict.why if victim == "child" else verdict.why
    await until(lambda: not processes(waves))
    assert leftovers() == []


async def test_a_child_whose_parent_dies_ends_everything(
    bench: Bench, tmp_path: Path, leftovers: Callable[[], list[str]]
) -> None:
    """The parent's end closes the child's input: nothing goes on behind the back of the next run."""
    bench.host("one")
    play = bench.playbook("Hang: sleep 300")
    address = bench.peers["one"].address
    program = f"""
import asyncio, sys
from pathlib import Path
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1] / "ssh")]!r}
from ansible_bench import RealClock
from ssh_peer import MemoryPins, node
from provision.adapters.ansible import AnsibleWaves
from provision.model.node import Address
async def main():
    pins = MemoryPins()
    pins.set_pin("ssh-host-key", "one", {bench.pins.get_pin("ssh-host-key", "one")!r})
    waves = AnsibleWaves(Path({str(play)!r}), lambda _: {{}}, pins, ssh_user="root", clock=RealClock(),
        ssh_key_file=Path({str(bench.folder / "id_client")!r}), artifacts_dir=Path({str(tmp_path)!r}), window_s=0)
    print(waves._id, flush=True)
    waves.join(node("one"), Address({address.host!r}, {address.port}))
    await asyncio.sleep(300)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    tag = (await parent.stdout.readline()).decode().strip() + ".1"
    await until(lambda: bench.peers["one"].commands)
    marks = reap.Marks(tag, f"/provision-{tag[-8:]}-")
    assert len(reap.find(marks)) >= 3
    parent.kill()
    await parent.wait()
    await until(lambda: not reap.find(marks) and not leftovers())


async def test_a_folder_that_everybody_was_killed_over_is_swept_by_the_next_wave(bench: Bench) -> None:
    """And one that is young, or that somebody still works in, is not."""
    old, young, used = (jobs.private_folder(f"swept{n}") for n in range(3))
    for folder in (old, young, used):
        (folder / "job.json").write_text("{}")
    for folder in (old, used):
        os.utime(folder, (time.time() - 3600,) * 2)
    user = await asyncio.create_subprocess_exec("/bin/sh", "-c", "sleep 60; true", str(used))
    try:
        bench.host("one")
        await bench.run(bench.waves(bench.playbook("Say: 'true'\nchanged_when: false")), "one")
        assert [folder.exists() for folder in (old, young, used)] == [False, True, True]
    finally:
        user.kill()
        await user.wait()
        jobs.delete(young)
        jobs.delete(used)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- hosts: [", "ERROR"),
        ("- hosts: nobody-here\n  gather_facts: false\n  tasks: []\n", "no"),
        ("- hosts: all\n  gather_facts: false\n  roles: [nonsense]\n", "nonsense"),
    ],
)
async def test_a_playbook_that_does_not_run_leaves_its_hosts_unattempted_with_the_reason(
    content: str, said: str, bench: Bench
) -> None:
    bench.host("one")
    play = bench.folder / "playbooks" / "play.yml"
    play.write_text(content)
    (verdict,) = await bench.run(bench.waves(play), "one")
    assert verdict.state is WaveState.NOT_ATTEMPTED
    assert said.lower() in verdict.why.lower()


async def test_a_task_that_hangs_is_cut_and_fails_alone(bench: Bench) -> None:
    for name in ("hangs", "well"):
        bench.host(name)
    play = bench.playbook("Maybe: sleep {{ 30 if provision_node == 'hangs' else 0 }}\nchanged_when: false")
    hangs, well = await bench.run(bench.waves(play, task_timeout_s=2), "hangs", "well")
    assert well.state is WaveState.OK
    assert hangs.state is WaveState.FAILED
    assert "timed out" in hangs.why.lower() or "timeout" in hangs.why.lower()


async def test_wanted_follows_playbooks_and_variables_and_nothing_else(bench: Bench) -> None:
    play = bench.playbook("Say: 'true'")
    told = {"provision_packages": {"linux": "6.8"}}
    first = bench.waves(play, lambda _: told).wanted(node("a"))
    assert first == bench.waves(play, lambda _: dict(told)).wanted(node("a"))
    assert first != bench.waves(play, lambda _: {"provision_packages": {"linux": "6.9"}}).wanted(node("a"))
    (play.parent / "README.md").write_text("words")
    (play.parent / ".hidden").write_text("words")
    assert first == bench.waves(play, lambda _: told).wanted(node("a"))
    (play.parent / "roles" / "x" / "tasks").mkdir(parents=True)
    (play.parent / "roles" / "x" / "tasks" / "main.yml").write_text("[]\n")
    assert first != bench.waves(play, lambda _: told).wanted(node("a"))
    secret = bench.waves(play, lambda _: {"token": Secret("one")}).wanted(node("a"))
    assert secret == bench.waves(play, lambda _: {"token": Secret("two")}).wanted(node("a"))


async def test_the_sites_group_vars_apply_and_only_the_waves_hosts_are_touched(bench: Bench) -> None:
    site = bench.folder / "inventory"
    (site / "group_vars").mkdir(parents=True)
    (site / "hosts.yml").write_text("rack-12:\n  hosts:\n    one: {ansible_host: 192.0.2.1}\n    two: {}\n")
    (site / "group_vars" / "rack-12.yml").write_text("colour: blue\nansible_user: nobody\n")
    for name in ("one", "two"):
        bench.host(name)
    waves = bench.waves(bench.playbook("Say: echo {{ colour }}\nchanged_when: false"), inventory_dir=site)
    (verdict,) = await bench.run(waves, "one")
    assert verdict.state is WaveState.OK
    assert bench.peers["one"].commands == ["echo blue"]
    assert bench.peers["two"].connections == 0


async def test_what_cannot_be_read_is_said_before_anything_runs(bench: Bench) -> None:
    with pytest.raises(MisconfiguredError, match=r"playbook .*missing\.yml: it cannot be read"):
        bench.waves(bench.folder / "missing.yml")


async def test_a_wave_that_cannot_start_is_a_verdict(bench: Bench) -> None:
    bench.host("one")
    (verdict,) = await bench.run(bench.waves(bench.playbook("Say: 'true'"), python="/nonexistent/python"), "one")
    assert verdict.state is WaveState.NOT_ATTEMPTED
    assert "could not be started here" in verdict.why


async def test_a_defect_of_ours_is_raised_for_its_hosts_and_for_no_others(bench: Bench) -> None:
    for name in ("one", "two"):
        bench.host(name)

    def told(which: Node) -> dict[str, object]:
        return {"ratio": 1 / 0} if which.name == "one" else {}

    waves = bench.waves(bench.playbook("Say: 'true'\nchanged_when: false"), told)
    waves.join(node("one"), bench.peers["one"].address)
    await until(lambda: waves._bugs)
    with pytest.raises(ZeroDivisionError):
        waves.verdict("one")
    assert [v.state for v in await bench.run(waves, "two")] == [WaveState.OK]
