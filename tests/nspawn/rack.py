"""Four real hosts, a mirror of dummy packages, and waves over both."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dummy_mirror import Mirror
from dummy_stack import GPUS, HARDWARE, PACKAGES, everything
from nspawn_hosts import USER, Host, Lab
from ssh_peer import MemoryPins, node, public_line, write_key

from provision.adapters.ansible import AnsibleWaves
from provision.adapters.ssh import ParamikoShell
from provision.model.node import Address, Node
from provision.model.secret import Secret
from provision.ports import WaveState, WaveVerdict

SITE = Path(__file__).parents[2] / "playbooks" / "site.yml"
CHECK = "/usr/local/sbin/provision-check"
SECRET = "hunter2-not-for-eyes"
# What a container cannot show: a kernel log of its own, drives.
CHECKS = [
    *("gpu-count", "disk-space", "systemd-units", "clock-offset", "driver-version", "nvidia-smi", "fabric-manager"),
    *("peer-memory", "ofed", "dkms", "dpkg-audit", "package-holds", "container-runtime", "dcgm", "exporters"),
    *("cpu-governor", "acs"),
]


class RealClock:
    """The clock on the wall."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Rack:
    """``told`` adds to what one host is told; ``packages`` are wanted of all."""

    lab: Lab
    folder: Path
    mirror: Mirror = field(init=False)
    url: str = field(init=False)
    waves: AnsibleWaves = field(init=False)
    shell: ParamikoShell = field(init=False)
    pins: MemoryPins = field(default_factory=MemoryPins)
    packages: dict[str, str] = field(default_factory=lambda: dict(PACKAGES))
    told: dict[str, dict[str, object]] = field(default_factory=dict)

    async def start(self, names: tuple[str, ...]) -> None:
        """Boot the hosts, build the mirror meanwhile, wait for the hosts."""
        client_key = write_key(self.folder / "id_client")
        self.shell = ParamikoShell(self.pins, user="root", key_file=self.folder / "id_client")
        for name in names:
            private = await self.shell.new_host_key(name)
            self.lab.start(name, host_key=private.reveal(), authorized_key=public_line(client_key), files=HARDWARE)
        self.mirror = Mirror(self.folder / "mirror")
        self.mirror.add(*everything())
        self.mirror.publish()
        self.url = self.mirror.serve(f"{self.lab.subnet}.1")
        self.waves = self.make()
        for host in self.lab.hosts.values():
            await asyncio.to_thread(host.wait)

    def make(self) -> AnsibleWaves:
        """Waves as the product has them: an ordinary user who becomes root by sudo."""
        return AnsibleWaves(
            SITE,
            self.variables,
            self.pins,
            ssh_user=USER,
            ssh_key_file=self.folder / "id_client",
            clock=RealClock(),
            artifacts_dir=self.folder / "waves",
            window_s=0.2,
            connect_timeout_s=5,
        )

    async def close(self) -> None:
        await self.waves.close()
        await self.shell.close()
        self.mirror.close()

    def variables(self, which: Node) -> Mapping[str, object]:
        """What a node is told."""
        repository = {"name": "site", "url": self.url, "suite": "./", "key": self.mirror.key}
        return {
            "provision_packages": dict(self.packages),
            "provision_mirror": {"repositories": [repository]},
            "provision_expected": {"gpus": GPUS},
            "provision_ntp": ["198.18.0.1"],
            "verify_checks": CHECKS,
            "tuning_governor": "performance",
            "tuning_acs": "disable",
            "tuning_sysctl": {"net.ipv4.tcp_mtu_probing": 1},
            "gpu_peer_memory": "peermem",
            "site_token": Secret(SECRET),
            **self.told.get(which.name, {}),
        }

    def host(self, name: str) -> Host:
        return self.lab.hosts[name]

    def root(self, name: str) -> Path:
        return self.lab.hosts[name].root

    async def run(self, *names: str, **elsewhere: Address) -> dict[str, WaveVerdict]:
        """One wave over hosts of this rack and over names that are said to be elsewhere."""
        for name in names:
            self.waves.join(node(name), self.host(name).address)
        for name, address in elsewhere.items():
            self.waves.join(node(name), address)
        everybody = (*names, *elsewhere)
        going_on = {WaveState.WAITING, WaveState.RUNNING}
        while any(self.waves.verdict(name).state in going_on for name in everybody):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        return {name: self.waves.verdict(name) for name in everybody}

    def way_through(self, name: str) -> str:
        """A ProxyCommand that leads through one of the hosts."""
        trust = f"-i {self.folder}/id_client -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        return f"ssh -F none {trust} -o BatchMode=yes -W %h:%p {USER}@{self.host(name).address.host}"

    async def by_hand(self, name: str, *options: str) -> str:
        """Plain ansible-playbook on one host, with the same variables; what it printed."""
        variables = {**self.variables(node(name)), "site_token": "", "ansible_user": USER}
        variables["ansible_host"] = self.host(name).address.host
        variables["ansible_ssh_private_key_file"] = str(self.folder / "id_client")
        known = self.folder / "known_by_hand"
        variables["ansible_ssh_common_args"] = f"-o StrictHostKeyChecking=no -o UserKnownHostsFile={known}"
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps({"all": {"hosts": {name: variables}}}))
        env = {"PATH": f"{Path(sys.prefix) / 'bin'}:/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        env |= {"ANSIBLE_PIPELINING": "1", "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=3s"}
        env["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(self.lab.folder)
        run = await asyncio.create_subprocess_exec(
            *("ansible-playbook", "-i", str(inventory), str(SITE), *options),
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said = (await run.communicate())[0].decode()
        assert run.returncode == 0, said
        return said

    async def sh(self, name: str, command: str) -> str:
        """What a command printed, which has to succeed."""
        result = await self.shell.run(node(name), self.host(name).address, command, deadline_s=60)
        assert result.status == 0, (command, result)
        return result.stdout.strip()

    async def report(self, name: str) -> dict[str, Any]:
        """What the host says of itself."""
        result = await self.shell.run(node(name), self.host(name).address, CHECK, deadline_s=60)
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    async def marked(self, name: str) -> str:
        """The hash that the host's marker carries, or nothing."""
        marker = await self.shell.marker(node(name), self.host(name).address)
        return marker.playbooks if marker is not None and marker.ok else ""


def said(found: Mapping[str, WaveVerdict]) -> str:
    """For a failing test."""
    return "\n".join(f"{name}: {v.state} {v.task}: {v.why}" for name, v in found.items())
