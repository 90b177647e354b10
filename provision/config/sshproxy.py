"""How a host's SSH server is reached when it is not reached directly, from Ansible's own variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

# ssh -J starts a second ssh that has neither our files nor a terminal; the same one, as a command.
_JUMP = "ssh -F none -o BatchMode=yes"


def proxy_of(variables: Mapping[str, Any]) -> str:
    """The command that leads to the host, with ``%h`` and ``%p``, as OpenSSH's ProxyCommand has it; empty: directly.

    Read from ``ansible_ssh_common_args``, which Ansible gives to every ssh of the host: ``-J HOST``,
    ``-o ProxyJump=HOST[,HOST…]`` or ``-o ProxyCommand="…"``. As with ssh the first one counts, and ``none`` is none.
    A template is ``templated_way``'s to refuse, quotes that do not close are Ansible's. Source: ssh_config(5), ssh(1).
    """
    text = variables.get("ansible_ssh_common_args")
    if not isinstance(text, str) or "{{" in text:
        return ""
    try:
        words = shlex.split(text)
    except ValueError:
        return ""
    for key, value in _options(words):
        match key:
            case "proxyjump":
                return "" if value.lower() == "none" else _jump(value)
            case "proxycommand":
                return "" if value.lower() == "none" else value
    return ""


def templated_way(variables: Mapping[str, Any]) -> bool:
    """True if the way leads through another host and a template says which: only Ansible could tell."""
    text = variables.get("ansible_ssh_common_args")
    return isinstance(text, str) and "{{" in text and re.search(r"proxy(jump|command)|(^|\s)-J", text, re.I) is not None


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """``-J x`` and ``-o key=value`` in every spelling, keys in lower case."""
    rest = iter(words)
    for word in rest:
        letter, value = word[:2], word[2:]
        if letter not in ("-J", "-o"):
            continue
        value = value or next(rest, "")
        if letter == "-J":
            yield "proxyjump", value
            continue
        key, _, told = value.replace("=", " ", 1).strip().partition(" ")
        yield key.lower(), told.strip()


def _jump(hosts: str) -> str:
    """One or more hosts in ProxyJump's spelling; the last of them opens the way."""
    *before, last = hosts.split(",")
    via = f" -J {shlex.quote(','.join(before))}" if before else ""
    destination = last if last.startswith("ssh://") else f"ssh://{last}"
    return f"{_JUMP}{via} -W '[%h]:%p' {shlex.quote(destination)}"
