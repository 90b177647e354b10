"""The private folder of one wave: inventory with variables, known hosts, job description, and a clean environment.

The folder is made with mode 0700, every file in it 0600, and it is deleted when the wave is over: secrets are
nowhere else, not in argv, not in the environment, not in an artifact.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from provision.adapters.ansible.reap import TAG, Marks, find
from provision.adapters.ansible.variables import plain
from provision.model.node import Address

GROUP = "provision_wave"
# A control socket's path may have 107 letters; ssh appends 17 while it makes one, Ansible's own name has 10.
_LONGEST_BASE = 50
_PREFIX = "provision-"
_STALE_S = 60


@dataclass(frozen=True, slots=True)
class Login:
    """How Ansible logs in. Without ``key_file`` the operator's ssh agent is asked."""

    user: str
    key_file: Path | None
    become: bool


@dataclass(frozen=True, slots=True)
class WaveHost:
    """One host of a wave: where it is, the public host key it must show, and its variables (secrets inside)."""

    name: str
    address: Address
    host_key: str
    variables: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Job:
    """What one wave runs. Times are seconds. ``inventory_dir`` is the site's own inventory, for its group_vars.

    With ``agent`` the operator's ssh agent is handed down also beside a key file: the ssh to a jump host may need it.
    """

    playbook: Path
    hosts: tuple[WaveHost, ...]
    login: Login
    forks: int
    timeout_s: int
    task_timeout_s: int
    connect_timeout_s: int
    inventory_dir: Path | None = None
    vault_password_file: Path | None = None
    agent: bool = False


def _base() -> Path:
    base = tempfile.gettempdir()
    return Path(base if len(base) <= _LONGEST_BASE else "/tmp")  # noqa: S108 - mkdtemp makes a private folder there


def private_folder(tag: str) -> Path:
    """An empty folder with mode 0700 and a short path, so that ssh's control sockets fit below it."""
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{tag[-8:]}-", dir=_base()))


def sweep() -> None:
    """Delete folders of waves whose processes were all killed: secrets may lie in them."""
    for described in _base().glob(f"{_PREFIX}*/job.json"):
        folder = described.parent
        try:
            stat = folder.stat()
            ours = stat.st_uid == os.getuid() and time.time() - stat.st_mtime > _STALE_S
        except OSError:
            continue
        # Every process of a wave shows the folder: the child in its arguments, ssh in its options.
        if ours and not find(Marks(tag="", folder=str(folder))):
            delete(folder)


def write(job: Job, folder: Path) -> None:
    """Fill ``folder``.

    Raises:
        OSError: no space, no permission.
    """
    for name in ("home", "tmp", "cp"):
        (folder / name).mkdir(mode=0o700)
    wave = folder / "wave.json"
    _write(wave, json.dumps({GROUP: {"hosts": {host.name: _host_variables(host, job) for host in job.hosts}}}))
    _write(folder / "known_hosts", "".join(f"{host.name} {host.host_key}\n" for host in job.hosts))
    # host_pinned looks every millisecond whether a host has answered: a quarter of a wave's CPU (benchmarks/configure).
    _write(folder / "ansible.cfg", "[defaults]\ninternal_poll_interval = 0.02\n")
    # The wave's own file comes last: where both speak of a host, the last source wins.
    sources = ([str(job.inventory_dir.resolve())] if job.inventory_dir else []) + [str(wave)]
    cmdline = f"--vault-password-file {job.vault_password_file.resolve()}" if job.vault_password_file else ""
    described = {
        "folder": str(folder),
        "playbook": str(job.playbook.resolve()),
        "inventory": sources,
        "limit": GROUP,
        "forks": job.forks,
        "timeout_s": job.timeout_s,
        "cmdline": cmdline,
    }
    _write(folder / "job.json", json.dumps(described))


def environment(job: Job, folder: Path, tag: str) -> dict[str, str]:
    """The child's whole environment; nothing is inherited but the agent's socket, and that only where it is needed."""
    ssh = [
        # No compression: modules are compressed already, and the network is the site's own.
        "-F none -o Compression=no",
        "-o ControlMaster=auto -o ControlPersist=60s",
        # One spelling for host keys whatever the address: the node's name. It stands in known_hosts and nowhere else.
        f"-o StrictHostKeyChecking=yes -o UserKnownHostsFile={folder}/known_hosts -o GlobalKnownHostsFile=/dev/null",
        "-o BatchMode=yes -o ServerAliveInterval=15 -o ServerAliveCountMax=4",
    ]
    if job.login.key_file:
        ssh.append("-o IdentitiesOnly=yes")
    path = [
        str(Path(sys.prefix) / "bin"),
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ]
    env = {
        TAG: tag,
        "PATH": os.pathsep.join(path),
        "HOME": str(folder / "home"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "PYTHONUNBUFFERED": "1",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
        "ANSIBLE_SSH_ARGS": " ".join(ssh),
        "ANSIBLE_SSH_RETRIES": "2",
        "ANSIBLE_TIMEOUT": str(job.connect_timeout_s),
        "ANSIBLE_TASK_TIMEOUT": str(job.task_timeout_s),
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        # Debian's and Ubuntu's own; looking for one costs a round trip per host. A site's variable still wins.
        "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        "ANSIBLE_TRANSFORM_INVALID_GROUP_CHARS": "ignore",
        "ANSIBLE_NOCOLOR": "1",
    }
    if (job.agent or not job.login.key_file) and "SSH_AUTH_SOCK" in os.environ:
        env["SSH_AUTH_SOCK"] = os.environ["SSH_AUTH_SOCK"]
    return env


def delete(folder: Path) -> None:
    """Take the folder away. What cannot be deleted is left: nobody waits for it."""
    shutil.rmtree(folder, ignore_errors=True)


def _host_variables(host: WaveHost, job: Job) -> dict[str, object]:
    """Set per host and not per play, so that they win over the site's group_vars.

    ``ansible_ssh_common_args`` stays free for the site (a jump host). The ssh executable is told the host key's name.
    """
    key = {"ansible_ssh_private_key_file": str(job.login.key_file.resolve())} if job.login.key_file else {}
    return {
        **plain(host.variables, reveal=True),
        **key,
        "ansible_connection": "ssh",
        "ansible_host": host.address.host,
        "ansible_port": host.address.port,
        "ansible_user": job.login.user,
        "ansible_become": job.login.become,
        "ansible_ssh_extra_args": f"-o HostKeyAlias={host.name}",
        # Ansible's own name is made of address, port and user: a second node that is said to be at the same address
        # would ride on the first one's connection, and nobody would ask for its key.
        "ansible_control_path": f"%(directory)s/{hashlib.sha256(host.name.encode()).hexdigest()[:10]}",
    }


def _write(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
