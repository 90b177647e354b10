"""The small process that runs one wave: ``python -m provision.adapters.ansible.child FOLDER``.

It is a process of its own because ansible-runner replaces signal handlers, polls its cancel callback by the second
and leaves orphans (facts: ansible §3). It becomes the subreaper of everything below it, reads ``FOLDER/job.json``,
streams compact JSON lines on its standard output, and ends the run when its standard input closes: that happens
when the parent asks for it and also when the parent dies.

Lines: ``{"e": "start"|"ok"|"failed"|"item"|"unreachable"|"stats"|"said"|"garbled"|"end", …}``, see ``compact``.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from provision.adapters.ansible.reap import TAG, Marks, reap

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
_MESSAGE = 600
_STATS = ("ok", "changed", "skipped", "dark", "failures", "rescued", "ignored", "processed")
Line = dict[str, Any]


def compact(event: Mapping[str, Any]) -> Line | None:
    """One event of ansible-runner as a short line, None for those nobody needs. Task arguments never travel."""
    kind, data = event.get("event"), event.get("event_data") or {}
    task = f"{data['role']} : {data.get('task')}" if data.get("role") else data.get("task")
    line: Line = {"host": data.get("host"), "task": task}
    match kind:
        case "runner_on_start":
            return {"e": "start", **line}
        case "runner_on_ok":
            return {"e": "ok", **line, "changed": bool((data.get("res") or {}).get("changed"))}
        case "runner_on_failed" | "runner_on_async_failed":
            return {"e": "failed", **line, "ignored": bool(data.get("ignore_errors")), "msg": message(data.get("res"))}
        case "runner_item_on_failed":
            return {"e": "item", **line, "msg": message(data.get("res"))}
        case "runner_on_unreachable":
            return {"e": "unreachable", **line, "msg": message(data.get("res"))}
        case "playbook_on_stats":
            return {"e": "stats", "stats": {name: data.get(name) or {} for name in _STATS}}
        case "playbook_on_no_hosts_matched":
            return {"e": "said", "msg": "no host matched the play"}
        case "error" | "verbose":
            text = str(event.get("stdout", "")).strip()
            return {"e": "said", "msg": text[:_MESSAGE]} if "ERROR" in text else None
    return None


def message(res: Any) -> str:
    """What a failed task said: three lines at most. A bare "non-zero return code" is filled from its output."""
    if not isinstance(res, Mapping):
        return str(res)[:_MESSAGE]
    if "censored" in res:
        return "(hidden by no_log)"
    parts = [str(res.get("msg") or "").removeprefix("Task failed: ")]
    if "Host key verification failed" in parts[0]:
        # ssh frames this in twelve lines of asterisks and advice that does not fit a known_hosts file of ours.
        return "the host shows another SSH host key than the pinned one; `provision adopt` pins it if that is right"
    if not parts[0] or parts[0].startswith("non-zero return code"):
        parts += [f"status {res.get('rc')}", str(res.get("stderr") or res.get("stdout") or "")]
    lines = [line.strip() for part in parts for line in part.splitlines() if line.strip()]
    return "; ".join(lines[:3])[:_MESSAGE]


def handler(
    lines: queue.SimpleQueue[Line | None], shorten: Callable[[Mapping[str, Any]], Line | None] = compact
) -> Any:
    """An event handler that only enqueues and never raises: a raising one makes ansible-runner wait for ever.

    It answers False, so that ansible-runner writes no event file.
    """

    def handle(event: Mapping[str, Any]) -> bool:
        try:
            line = shorten(event)
        except Exception as error:  # whatever it is, the run must go on and the parent must hear of it
            line = {"e": "garbled", "msg": f"{type(error).__name__} in event {str(event.get('event'))[:80]}"}
        if line is not None:
            lines.put(line)
        return False

    return handle


def _write_lines(lines: queue.SimpleQueue[Line | None], out: int) -> None:
    """Write until None comes. A parent that is gone is not an error here: its end stops the run another way."""
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        while (line := lines.get()) is not None:
            try:
                stream.write(json.dumps(line, default=str) + "\n")
                stream.flush()
            except OSError:
                return


def _watch_parent(stop: threading.Event, done: threading.Event, marks: Marks) -> None:
    """When standard input closes, end the run by force: ansible-runner alone would wait five seconds for orphans."""
    while os.read(0, 4096):
        pass
    stop.set()
    reap(marks)
    if not done.wait(5):
        shutil.rmtree(marks.folder, ignore_errors=True)
        os._exit(70)


def run_wave(job: Mapping[str, Any], lines: queue.SimpleQueue[Line | None], stop: threading.Event) -> None:
    """Run the job; whatever happens, the last line says how it ended."""
    import ansible_runner

    try:
        result = ansible_runner.run(
            private_data_dir=job["folder"],
            ident="wave",
            playbook=job["playbook"],
            inventory=job["inventory"],
            limit=job["limit"],
            forks=job["forks"],
            timeout=job["timeout_s"],
            cmdline=job["cmdline"] or None,
            quiet=True,
            suppress_env_files=True,
            suppress_output_file=True,
            settings={"pexpect_timeout": 1},
            event_handler=handler(lines),
            cancel_callback=stop.is_set,
        )
        lines.put({"e": "end", "status": result.status, "rc": result.rc})
    except Exception as error:  # ansible-runner lets pexpect's errors through, OSError and its own
        lines.put({"e": "said", "msg": f"ansible-runner: {type(error).__name__}: {error}"[:_MESSAGE]})
        lines.put({"e": "end", "status": "error", "rc": None})


def main(folder: str) -> int:
    """Run the wave that is described in ``folder``."""
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    # Ansible must not see what was only needed to find this module.
    os.environ.pop("PYTHONPATH", None)
    job = json.loads((Path(folder) / "job.json").read_text(encoding="utf-8"))
    out = os.dup(1)
    os.dup2(2, 1)  # stray prints of libraries belong into the error log, not between the lines
    stop, done = threading.Event(), threading.Event()
    marks = Marks(tag=os.environ[TAG], folder=folder, spare=frozenset({os.getpid()}))
    lines: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
    writer = threading.Thread(target=_write_lines, args=(lines, out), daemon=True)
    writer.start()
    threading.Thread(target=_watch_parent, args=(stop, done, marks), daemon=True).start()
    run_wave(job, lines, stop)
    reap(marks, subreaper=True)
    lines.put(None)
    writer.join(10)
    if stop.is_set():
        # Perhaps nobody is left who would do it, and there are secrets inside.
        shutil.rmtree(folder, ignore_errors=True)
    done.set()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
