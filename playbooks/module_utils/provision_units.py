"""Units of systemd on this node: what has to be done with each, from one look at all of them. Pure but for ``run``.

Standard library of Python 3.8 and later: it runs on the nodes.
"""

from __future__ import annotations

SHOWN = "Id,Names,LoadState,ActiveState,UnitFileState,NeedDaemonReload"
# systemctl(1), is-enabled: what these say needs no ``enable``, or cannot have one.
ENABLED = {"enabled", "enabled-runtime", "static", "alias", "indirect", "generated", "transient"}
RUNNING = {"active", "activating", "reloading", "refreshing"}
MOUNTED_BELOW = "/etc/systemd/system/"


def parse_show(text):
    """What ``systemctl show --property SHOWN UNIT…`` printed: every name of a unit → its properties."""
    units = {}
    for block in text.strip().split("\n\n"):
        facts = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for name in {facts.get("Id", ""), *facts.get("Names", "").split()} - {""}:
            units[name] = facts
    return units


def plan(wanted, seen, changed):
    """Arguments of systemctl, in order, and sentences about what is not there.

    ``wanted``: name, enabled (true, or nothing), state (started, stopped, or nothing), restart_on (paths; a running
    unit is restarted if one was written), restart_now (it is restarted in any case). ``changed``: paths that were
    written just before. systemd is told to read its units again only where one is started or restarted and is not
    what it has read: a reload takes the GPUs away from running containers.
    """
    calls, missing, reload = [], [], False
    for unit in wanted:
        facts = seen.get(unit["name"], {})
        running = facts.get("ActiveState") in RUNNING
        own = any(path.startswith(MOUNTED_BELOW + unit["name"]) for path in changed)
        there = facts.get("LoadState") not in (None, "not-found") or own
        if unit.get("state") == "stopped":
            calls += [["stop", unit["name"]]] if running else []
            continue
        if not there:
            missing.append(f"unit {unit['name']} is not there, though its package is: look what the package brought")
            continue
        if unit.get("enabled") and facts.get("UnitFileState") not in ENABLED:
            calls.append(["enable", "--quiet", unit["name"]])
        if running:
            again = unit.get("restart_now") or set(changed) & set(unit.get("restart_on") or [])
            verb = "restart" if again else ""
        else:
            verb = "start" if unit.get("state") == "started" else ""
        if verb:
            calls.append([verb, unit["name"]])
            reload = reload or own or facts.get("NeedDaemonReload") == "yes"
    return ([["daemon-reload"]] if reload else []) + calls, missing
