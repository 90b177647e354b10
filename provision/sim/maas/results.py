"""Result sets and events as the API writes them."""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime, timedelta
from typing import Any

from provision.sim.maas import render
from provision.sim.maas.state import TYPE_WORDS, Event, Record, ScriptRun, ScriptSet
from provision.sim.maas.statuses import SCRIPT_NAMES

LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50, "AUDIT": 0}


def _runtime(started: datetime | None, ended: datetime | None) -> str:
    if started is None or ended is None:
        return ""
    return str(timedelta(seconds=int((ended - started).total_seconds())))


def script_run(run: ScriptRun, *, output: bool) -> dict[str, Any]:
    """One result. ``starttime`` is a float, or the empty text while there is none."""
    body: dict[str, Any] = {
        "id": run.id,
        "created": render.stamp(run.created),
        "updated": render.stamp(run.updated),
        "name": run.name,
        "status": int(run.status),
        "status_name": SCRIPT_NAMES[run.status],
        "exit_status": run.exit_status,
        "started": render.stamp(run.started),
        "ended": render.stamp(run.ended),
        "runtime": _runtime(run.started, run.ended),
        "starttime": run.started.timestamp() if run.started else "",
        "endtime": run.ended.timestamp() if run.ended else "",
        "estimated_runtime": _runtime(run.started, run.ended) or "Unknown",
        "parameters": {},
        "script_id": run.script_id,
        "script_revision_id": None,
        "suppressed": False,
    }
    if output:
        body["output"] = b64encode(run.output).decode()
        body["stdout"] = b64encode(run.stdout).decode()
        body["stderr"] = b64encode(run.stderr).decode()
        body["result"] = ""
    return body


def chosen(item: ScriptSet, names: list[str]) -> list[ScriptRun]:
    """The results of these scripts, or all."""
    return [run for run in item.runs if not names or run.name in names]


def script_set(record: Record, item: ScriptSet, names: list[str], *, output: bool) -> dict[str, Any]:
    """A set with the chosen results. ``ended`` only when every result has ended."""
    starts = [run.started for run in item.runs if run.started]
    ends = [run.ended for run in item.runs if run.ended]
    ended = max(ends) if ends and len(ends) == len(item.runs) else None
    started = min(starts) if starts else None
    word = TYPE_WORDS[item.type]
    return {
        "last_ping": render.stamp(item.last_ping),
        "ended": render.stamp(ended),
        "results": [script_run(run, output=output) for run in chosen(item, names)],
        "type": item.type,
        "runtime": _runtime(started, ended),
        "status_name": render.set_name(item),
        "type_name": word.capitalize(),
        "status": int(item.status),
        "started": render.stamp(started),
        "system_id": record.system_id,
        "id": item.id,
        "resource_uri": f"{render.ROOT}/nodes/{record.system_id}/results/{item.id}/",
    }


def event(record: Record, item: Event) -> dict[str, Any]:
    """One event."""
    return {
        "username": item.user,
        "node": record.system_id,
        "hostname": record.hostname,
        "id": item.id,
        "level": item.level,
        "created": render.event_stamp(item.at),
        "type": item.type,
        "description": item.description,
    }
