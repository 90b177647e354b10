"""The port ``Playbooks``: nodes queue, waves run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from provision.adapters.ansible import job as jobs
from provision.adapters.ansible.canary import Canaries
from provision.adapters.ansible.reap import Marks, reap
from provision.adapters.ansible.tally import Tally
from provision.adapters.ansible.variables import marker_hash, secrets_in, tree_hash
from provision.errors import MisconfiguredError
from provision.model.node import Address, Node
from provision.ports import Clock, Pins, WaveState, WaveVerdict

_LINE_LIMIT = 8 * 1024 * 1024  # the summary of 128 hosts is one line
_KEPT_ARTIFACTS = 50
_NOT_ASKED = WaveVerdict(WaveState.NOT_ASKED)


class AnsibleWaves:
    """Ansible for many nodes at once.

    A node that joins waits ``window_s × pace`` seconds for company, then up to ``max_hosts`` nodes share one
    ansible-playbook. Up to ``max_waves`` run beside each other, as long as forks are left: forks all together are
    at most 6 per core and one per 100 MB of free memory (facts: ansible §4). Who joins beyond that waits.

    ``variables_for`` gives everything a node is told; each change of it, or of a file beside ``playbook``, changes
    ``wanted``. ``provision_node`` and ``provision_marker_hash`` are added to it. With ``inventory_dir`` the site's
    group_vars and host_vars apply as well; ``counts_for`` gives those that count in ``wanted`` besides.
    Without a word on ``become`` every user but root becomes root.

    Where more than ``canary_above`` nodes wait with playbooks that have converged nowhere in this run, one goes first
    (see Canaries). ``download_slots`` hosts may download at once, all waves together: waves beside each other share
    them, and with fewer slots than ``max_waves`` there are only so many waves.

    What failed is kept in ``artifacts_dir`` (mode 0600, scrubbed, the newest 50), nothing else.

    Raises:
        MisconfiguredError: the playbook, the key file or the inventory cannot be read.
    """

    def __init__(
        self,
        playbook: Path,
        variables_for: Callable[[Node], Mapping[str, object]],
        pins: Pins,
        *,
        ssh_user: str,
        clock: Clock,
        artifacts_dir: Path,
        ssh_key_file: Path | None = None,
        become: bool | None = None,
        window_s: float = 20.0,
        pace: float = 1.0,
        max_hosts: int = 128,
        max_waves: int = 2,
        canary_above: int = 0,
        download_slots: int = 0,
        counts_for: Callable[[Node], Mapping[str, object]] = lambda _: {},
        timeout_s: int = 3 * 3600,
        task_timeout_s: int = 3600,
        connect_timeout_s: int = 20,
        inventory_dir: Path | None = None,
        vault_password_file: Path | None = None,
        python: str = sys.executable,
    ) -> None:
        for what, path in (
            ("playbook", playbook),
            ("ssh key file", ssh_key_file),
            ("inventory", inventory_dir),
            ("vault password file", vault_password_file),
        ):
            if path is not None and not os.access(path, os.R_OK):
                raise MisconfiguredError(f"{what} {path}: it cannot be read; give a path that this user may read")
        self._playbook, self._variables_for, self._pins = playbook, variables_for, pins
        self._login = jobs.Login(ssh_user, ssh_key_file, ssh_user != "root" if become is None else become)
        self._clock, self._window_s = clock, window_s * pace
        self._max_hosts, self._max_waves = max_hosts, min(max_waves, download_slots or max_waves)
        self._slots = download_slots // self._max_waves
        self._canaries = Canaries(canary_above)
        self._counts_for = counts_for
        self._timeout_s, self._task_timeout_s = timeout_s, task_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._inventory_dir, self._vault = inventory_dir, vault_password_file
        self._artifacts, self._python = artifacts_dir, python
        self._id, self._count = uuid.uuid4().hex[:12], 0
        self._tree: str | None = None
        self._waiting: dict[str, tuple[Node, Address]] = {}
        self._verdicts: dict[str, WaveVerdict] = {}
        self._forks_used = 0
        self._room = asyncio.Event()
        self._gatherer: asyncio.Task[None] | None = None
        self._waves: set[asyncio.Task[None]] = set()
        self._bugs: dict[str, BaseException] = {}
        self._closed = False

    def wanted(self, node: Node) -> str:
        """The hash that this node's marker must carry."""
        if self._tree is None:
            self._tree = self._read_tree()
        told, counts = self._variables_for(node), self._counts_for(node)
        return marker_hash(self._tree, {**told, "inventory": dict(counts)} if counts else told)

    def join(self, node: Node, address: Address) -> None:
        """Let the node take part in the next wave. A node that waits or runs already is left where it is."""
        if self._closed or self.verdict(node.name).state in {WaveState.WAITING, WaveState.RUNNING}:
            return
        self._waiting[node.name] = (node, address)
        self._verdicts[node.name] = WaveVerdict(WaveState.WAITING)
        if self._gatherer is None or self._gatherer.done():
            self._gatherer = self._watched(self._gather())

    def verdict(self, node: str) -> WaveVerdict:
        """Where the node stands. A defect of ours in a wave comes out here, not as a verdict on a host."""
        if (bug := self._bugs.get(node)) is not None:
            raise bug
        return self._verdicts.get(node, _NOT_ASKED)

    async def close(self) -> None:
        """End what runs and reap its processes. Who waited stays unattempted. Never raises."""
        self._closed = True
        tasks = [task for task in (self._gatherer, *self._waves) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._leave(list(self._verdicts), WaveState.NOT_ATTEMPTED, "the run ended before the wave did")
        self._waiting.clear()

    async def _gather(self) -> None:
        while self._waiting:
            await self._clock.sleep(self._window_s)
            while (forks := self._forks_free()) < 1:
                self._room.clear()
                await self._room.wait()
            if why := self._canaries.refusal():
                self._leave(list(self._waiting), WaveState.NOT_ATTEMPTED, why)
                self._waiting.clear()
                return
            with contextlib.suppress(MisconfiguredError):  # the wave will say so
                self._tree = self._tree or await asyncio.to_thread(self._read_tree)
            most = self._canaries.take(self._tree, len(self._waiting)) or self._max_hosts
            names = list(self._waiting)[: min(most, self._max_hosts)]
            hosts = [self._waiting.pop(name) for name in names]
            self._verdicts.update({name: WaveVerdict(WaveState.RUNNING) for name in names})
            forks = min(len(hosts), forks)
            self._forks_used += forks
            self._waves.add(self._watched(self._wave(hosts, forks)))

    def _forks_free(self) -> int:
        """Forks the next wave may use; a second wave is not begun for fewer than a quarter of them."""
        if len(self._waves) >= self._max_waves or self._canaries.out:
            return 0
        most = fork_limit()
        free = most - self._forks_used
        return free if free >= max(1, most // 4) or not self._waves else 0

    def _watched(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._waves.discard(task)
        self._room.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # Only the queue itself can end like this; whoever stands in it would stand there for ever.
            self._bugs.update(dict.fromkeys(self._waiting, error))

    async def _wave(self, members: list[tuple[Node, Address]], forks: int) -> None:
        names = [node.name for node, _ in members]
        try:
            self._tree = await asyncio.to_thread(self._read_tree)
            hosts = self._describe(members)
            if hosts:
                await self._run(hosts, forks, agent=any(node.ssh_proxy for node, _ in members))
        except (OSError, MisconfiguredError) as error:
            self._leave(names, WaveState.NOT_ATTEMPTED, f"the wave could not be started here: {error}")
        except Exception as error:  # a defect of ours: raised where somebody asks for one of these hosts
            self._bugs.update(dict.fromkeys(names, error))
        finally:
            self._forks_used -= forks
            self._leave(names, WaveState.NOT_ATTEMPTED, "the wave was ended before this host had a verdict")
            self._canaries.judge((name, self._verdicts[name]) for name in names)

    def _leave(self, names: list[str], state: WaveState, why: str) -> None:
        """A verdict for those who still have none: nobody leaves a wave in silence."""
        for name in names:
            if self._verdicts[name].state in {WaveState.RUNNING, WaveState.WAITING}:
                self._verdicts[name] = WaveVerdict(state, why=why)

    def _describe(self, members: list[tuple[Node, Address]]) -> list[jobs.WaveHost]:
        hosts = []
        for node, address in members:
            key = self._pins.get_pin("ssh-host-key", node.name)
            if key is None:
                why = f"no SSH host key of {node.name} is pinned, so nobody can tell whether it is this host"
                self._verdicts[node.name] = WaveVerdict(WaveState.UNREACHABLE, "ssh host key", why)
                continue
            told = {
                **self._variables_for(node),
                "provision_node": node.name,
                "provision_marker_hash": self.wanted(node),
                **({"provision_download_slots": self._slots} if self._slots else {}),
            }
            hosts.append(jobs.WaveHost(node.name, address, key, told))
        return hosts

    async def _run(self, hosts: list[jobs.WaveHost], forks: int, *, agent: bool) -> None:
        self._count += 1
        tag = f"{self._id}.{self._count}"
        job = jobs.Job(
            playbook=self._playbook,
            hosts=tuple(hosts),
            login=self._login,
            forks=max(1, min(forks, len(hosts))),
            timeout_s=self._timeout_s,
            task_timeout_s=self._task_timeout_s,
            connect_timeout_s=self._connect_timeout_s,
            inventory_dir=self._inventory_dir,
            vault_password_file=self._vault,
            agent=agent,
        )
        tally = Tally((host.name for host in hosts), secrets_in([host.variables for host in hosts]))
        await asyncio.to_thread(jobs.sweep)
        folder = jobs.private_folder(tag)
        marks = Marks(tag=tag, folder=str(folder), spare=frozenset({os.getpid()}))
        try:
            await asyncio.to_thread(jobs.write, job, folder)
            cause = await self._follow(job, folder, tag, tally)
            await asyncio.to_thread(self._keep, tag, tally)
        finally:
            # Shielded: a second Ctrl-C must not leave a worker alive or a secret on the disk.
            await asyncio.shield(asyncio.to_thread(self._clear, marks, folder))
        # Last of all: who has a verdict goes on, and may join again.
        self._verdicts.update(tally.verdicts(cause=cause))

    async def _follow(self, job: jobs.Job, folder: Path, tag: str, tally: Tally) -> str:
        """Run the child to its end and read its lines. Returns why it has no summary, or nothing."""
        with os.fdopen(os.open(folder / "child.log", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as log:
            child = await asyncio.create_subprocess_exec(
                *(self._python, "-P", "-m", "provision.adapters.ansible.child", str(folder)),
                env=jobs.environment(job, folder, tag),
                cwd=folder,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                umask=0o077,
                limit=_LINE_LIMIT,
            )
        try:
            assert child.stdout is not None  # noqa: S101 - a pipe was asked for
            async for line in child.stdout:
                self._take(line, tally)
            status = await child.wait()
        except asyncio.CancelledError:
            await asyncio.shield(_end(child))
            raise
        if tally.ended is not None:
            return "" if tally.ended in {"successful", "failed"} else f"the run was ended: {tally.ended}"
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return f"the Ansible process died ({how}) {_tail(folder / 'child.log')}".rstrip()

    def _take(self, line: bytes, tally: Tally) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            tally.take({"e": "garbled", "msg": line[:80].decode(errors="replace")})
            return
        tally.take(told if isinstance(told, dict) else {})

    def _clear(self, marks: Marks, folder: Path) -> None:
        reap(marks)
        jobs.delete(folder)

    def _keep(self, tag: str, tally: Tally) -> None:
        """Write what failed. A full disk here costs the artifact, not the wave."""
        failures = tally.failures() + [{"garbled": text} for text in tally.garbled]
        if not failures:
            return
        try:
            self._artifacts.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._artifacts / f"wave-{tag}.jsonl"
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(failure) + "\n" for failure in failures)
            kept = sorted(self._artifacts.glob("wave-*.jsonl"), key=lambda item: item.stat().st_mtime)
            for old in kept[:-_KEPT_ARTIFACTS]:
                old.unlink(missing_ok=True)
        except OSError:
            return

    def _read_tree(self) -> str:
        try:
            return tree_hash(self._playbook.parent)
        except OSError as error:
            raise MisconfiguredError(f"playbooks {self._playbook.parent}: {error}; they must be readable") from error


def fork_limit(meminfo: Path = Path("/proc/meminfo")) -> int:
    """6 forks per core, and one per 100 MB of memory that is free at the moment. At least 1."""
    cores = os.cpu_count() or 1
    try:
        table = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines())
        by_memory = int(table["MemAvailable"].split()[0]) // (100 * 1024)
    except (OSError, KeyError, ValueError):
        by_memory = 6 * cores
    return max(1, min(6 * cores, by_memory))


async def _end(child: asyncio.subprocess.Process) -> None:
    """Ask the child to end by closing its input; kill it if it has not gone in ten seconds."""
    if child.stdin is not None:
        child.stdin.close()
    try:
        await asyncio.wait_for(child.wait(), 10)
    except TimeoutError:
        child.kill()
        await child.wait()


def _tail(log: Path) -> str:
    """The last line of the child's error output, for the sentence about its death."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""
