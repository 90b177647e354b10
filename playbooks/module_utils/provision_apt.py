"""What apt and dpkg print, as values, and the decision what one transaction must do. Pure.

Standard library of Python 3.8 and later: it runs on the nodes.
"""

from __future__ import annotations

import re

_SIMULATED = re.compile(r"^(Inst|Remv) (\S+)(?: \[(\S+)\])?(?: \((\S+))?")


def parse_status(text):
    """``dpkg-query -W -f '${Package}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\n'``.

    Returns name → ``{"version", "held", "state"}`` of everything that is there in some way; ``state`` is
    ``installed``, ``half-configured``, ``unpacked``, ``config-files`` and so on. Of two architectures the last counts.
    """
    found = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 4 and fields[3] != "not-installed":
            found[fields[0]] = {"version": fields[1], "held": fields[2] == "hold", "state": fields[3]}
    return found


def parse_madison(text):
    """``apt-cache madison NAME…``: name → the versions on offer, as apt lists them. Source packages are left out."""
    offers = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 3 and not fields[2].endswith(" Sources"):
            offers.setdefault(fields[0], [])
            if fields[1] not in offers[fields[0]]:
                offers[fields[0]].append(fields[1])
    return offers


def parse_simulation(text):
    """``apt-get -s install …``: ``(installed, removed)``, both name → version."""
    installed, removed = {}, {}
    for line in text.splitlines():
        match = _SIMULATED.match(line)
        if match:
            kind, name, old, new = match.groups()
            name = name.split(":")[0]
            if kind == "Inst":
                installed[name] = new or ""
            else:
                removed[name] = old or ""
    return installed, removed


def differences(resolved, status):
    """The packages that are not there, not whole, or there in another version: name → version to install."""
    return {
        name: version
        for name, version in resolved.items()
        if status.get(name, {}).get("version") != version or status[name]["state"] != "installed"
    }


def rivals_installed(status, patterns, resolved):
    """Installed packages that match one of the regular expressions and are not wanted: they leave in the same step."""
    compiled = [re.compile(pattern) for pattern in patterns]
    return sorted(
        name
        for name, facts in status.items()
        if facts["state"] != "config-files"
        and name not in resolved
        and any(pattern.fullmatch(name) for pattern in compiled)
    )


def unasked_removals(removed, named, replaces):
    """What the transaction would remove although nobody named it: sorted names."""
    compiled = [re.compile(pattern) for pattern in replaces]
    return sorted(
        name for name in removed if name not in named and not any(pattern.fullmatch(name) for pattern in compiled)
    )


def unasked_moves(moved, status, wanted, ours):
    """Held packages of somebody else that the transaction would bring to another version: sorted names."""
    return sorted(
        name for name in moved if name not in wanted and status.get(name, {}).get("held", False) and not ours(name)
    )


def apt_words(text):
    """The lines of apt's output that say why: errors, unmet dependencies, who holds a lock. At most six."""
    lines = [line.strip() for line in text.splitlines()]
    keep = [
        line
        for line in lines
        if line.startswith(("E:", "dpkg: error", "Depends:", "Conflicts:"))
        or " : Depends:" in line
        or " : Conflicts:" in line
        or "held by process" in line
        or "is not valid yet" in line
    ]
    return "; ".join(dict.fromkeys(keep)) if len(keep) <= 6 else "; ".join(list(dict.fromkeys(keep))[:6])


def audit_words(text):
    """``dpkg --audit``: the names of packages that are not whole."""
    return re.findall(r"^ (\S+)", text, re.MULTILINE)
