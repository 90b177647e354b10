"""Ansible's own programs, run as children: ``ansible-inventory`` and ``ansible-vault`` of our environment."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from provision.errors import MisconfiguredError

_DEADLINE_S = 120.0
_PASSED = {
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "ANSIBLE_CONFIG",
    "ANSIBLE_HOME",
    "ANSIBLE_COLLECTIONS_PATH",
    "ANSIBLE_INVENTORY_ENABLED",
    "ANSIBLE_INVENTORY_PLUGINS",
    "ANSIBLE_VAULT_PASSWORD_FILE",
    "ANSIBLE_VAULT_IDENTITY_LIST",
    "ANSIBLE_VAULT_IDENTITY",
    "ANSIBLE_VAULT_ID_MATCH",
}
# Inventory plugins read their server and token from here (netbox.netbox.nb_inventory and its kind).
_PASSED_PREFIXES = ("NETBOX_",)
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "PYTHONUTF8": "1",
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_DEPRECATION_WARNINGS": "False",
    # Group names with a dash (rack-12) are what racks are called.
    "ANSIBLE_TRANSFORM_INVALID_GROUP_CHARS": "ignore",
    # By default a broken file is a warning and the hosts in it are silently absent.
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
    # By default the second of two hosts with one name wins with a warning.
    "ANSIBLE_DUPLICATE_YAML_DICT_KEY": "error",
}
# An ansible.cfg without any of these words leaves the reading of inventories as it is by default.
_SAY = re.compile(
    rb"^\s*(\[inventory\]|enable_plugins|inventory_|vars_plugins|collections_|\w*vault|\w*cach)",
    re.MULTILINE | re.IGNORECASE,
)
# Ansible's own list with yaml before auto: auto reads every YAML file whole only to pass it on, and reading is what
# takes the time (512 hosts with ten cables each: 3 s of CPU in place of 5).
_YAML_FIRST = "host_list,script,yaml,auto,ini,toml"


@dataclass(frozen=True, slots=True)
class Done:
    """How the child ended."""

    status: int
    stdout: str
    stderr: str


def run_ansible(program: str, *arguments: str, stdin: str = "", deadline_s: float = _DEADLINE_S) -> Done:
    """Run one of Ansible's programs that lies beside our Python.

    Raises:
        MisconfiguredError: it is not installed or gives no answer in time (a dynamic inventory that hangs).
    """
    path = Path(sys.executable).parent / program
    try:
        child = subprocess.Popen(
            [str(path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            # Its own session: an inventory plugin's children hold the pipes open and end with it.
            start_new_session=True,
        )
    except OSError as error:
        raise MisconfiguredError(
            f"cannot start {path}: {error.strerror}; install ansible-core into this environment"
        ) from None
    try:
        stdout, stderr = child.communicate(stdin.encode("utf-8", "surrogateescape"), timeout=deadline_s)
    except subprocess.TimeoutExpired:
        raise MisconfiguredError(
            f"{program} gave no answer in {deadline_s:g} s; run it by hand: {program} {' '.join(arguments)}"
        ) from None
    finally:
        _end(child)
    return Done(child.returncode, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"))


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def configuration() -> Path | None:
    """The ansible.cfg that Ansible would take: of the environment, this folder, the user, the machine."""
    named = os.environ.get("ANSIBLE_CONFIG")
    places = (named,) if named else ("ansible.cfg", os.path.expanduser("~/.ansible.cfg"), "/etc/ansible/ansible.cfg")
    return next((Path(place) for place in places if os.path.exists(place)), None)


def is_configured() -> bool:
    """True if an ansible.cfg may have a say in how inventories are read, which the environment would override."""
    file = configuration()
    if file is None:
        return "ANSIBLE_CONFIG" in os.environ
    try:
        return _SAY.search(file.read_bytes()) is not None
    except OSError:
        return True


def environment() -> dict[str, str]:
    """What Ansible may see of our environment, and what it must be told."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES) or name.startswith("ANSIBLE_VAULT_")
    }
    search = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    plugins = {} if is_configured() else {"ANSIBLE_INVENTORY_ENABLED": _YAML_FIRST}
    return {**plugins, **passed, **_FIXED, "PATH": search}
