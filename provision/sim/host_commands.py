"""What simulated hosts answer to commands. Nothing is ever executed: a command line is taken apart and looked up.

Shell wrappers (``/bin/sh -c '…'``, ``sudo …``) are taken off, lists with ``;``, ``&&`` and ``||`` are followed, as
Ansible's raw module over OpenSSH needs it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provision.sim.parts import SimHost
from provision.sim.world import SimMachine

MARKER = "/etc/provision/marker.json"
CHECK = "/usr/local/sbin/provision-check"
APPLY = "provision-sim-apply"
KERNELS = {"jammy": "5.15.0-130-generic", "noble": "6.8.0-51-generic"}
# A host whose hardware clock is further off than this is not brought back by its time servers in time.
CLOCK_LIMIT_S = 60.0
_SHELLS = {"sh", "bash", "dash"}
_SUDO_WITH_VALUE = {"-u", "-g", "-p", "-r", "-t", "-C", "-h", "-U"}


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    status: int = 0
    out: str = ""
    err: str = ""


def run(machine: SimMachine, host: SimHost, line: str) -> Answer:
    """Answer a command line as this host would; 127 for a command that it does not have, 2 for a broken line."""
    try:
        words = list(shlex.shlex(line, posix=True, punctuation_chars=";&|"))
        words = _split(line) if words else []
    except ValueError:
        return Answer(2, "", "sh: 1: Syntax error: Unterminated quoted string\n")
    out, err, status, skip = "", "", 0, False
    for part in _commands(words):
        if isinstance(part, str):
            skip = (part == "&&" and status != 0) or (part == "||" and status == 0)
            continue
        if skip:
            continue
        answer = _simple(machine, host, part)
        out, err, status = out + answer.out, err + answer.err, answer.status
    return Answer(status, out, err)


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _commands(words: list[str]) -> list[str | list[str]]:
    """Simple commands (lists of words) and the operators between them."""
    parts: list[str | list[str]] = []
    current: list[str] = []
    for word in words:
        if word and set(word) <= set(";&|"):
            if current:
                parts.append(current)
            parts.append(word)
            current = []
        else:
            current.append(word)
    return [*parts, current] if current else parts


def _simple(machine: SimMachine, host: SimHost, words: list[str]) -> Answer:
    name = words[0].rsplit("/", 1)[-1]
    if name in _SHELLS:
        if "-c" in words and words.index("-c") + 1 < len(words):
            return run(machine, host, words[words.index("-c") + 1])
        return Answer()
    if name == "sudo":
        rest = _without_sudo(words[1:])
        return _simple(machine, host, rest) if rest else Answer(1, "", "usage: sudo -h | -K | -k | -V\n")
    command = _COMMANDS.get(name)
    if command is None:
        return Answer(127, "", f"sh: 1: {words[0]}: not found\n")
    return command(machine, host, words[1:])


def _without_sudo(words: list[str]) -> list[str]:
    while words and (words[0].startswith("-") or "=" in words[0].split("/")[0]):
        words = words[2:] if words[0] in _SUDO_WITH_VALUE else words[1:]
    return words


def _cat(machine: SimMachine, host: SimHost, words: list[str]) -> Answer:
    out, err = "", ""
    for path in (word for word in words if not word.startswith("-")):
        text = host.files.get(path)
        if text is None:
            err += f"cat: {path}: No such file or directory\n"
        else:
            out += text
    return Answer(1 if err else 0, out, err)


def _test(machine: SimMachine, host: SimHost, words: list[str]) -> Answer:
    wanted = words[-1] if words and words[-1] != "]" else words[-2] if len(words) > 1 else ""
    return Answer(0 if wanted in host.files else 1)


def _uname(machine: SimMachine, host: SimHost, words: list[str]) -> Answer:
    series = host.image.rsplit("/", 1)[-1]
    return Answer(0, f"{KERNELS.get(series, KERNELS['jammy']) if '-r' in words else 'Linux'}\n")


def kernel_log(machine: SimMachine) -> list[str]:
    """The lines of this boot's kernel log."""
    lines = [
        "[    0.000000] Linux version (buildd@lcy02) (gcc) #1 SMP",
        f"[    0.000000] DMI: Dell Inc. {machine.model}/0XXXXX, BIOS 2.1.5",
    ]
    lines += [
        f"[   41.73200{at % 10}] EDAC MC{at % 4}: 1 UE memory read error on DIMM_{dimm.label}"
        f" (channel:0 slot:0 page:0x{4096 + at:x} offset:0x0 grain:32)"
        for at, dimm in enumerate(machine.dimms)
        if dimm.present and dimm.errors
    ]
    lines += [
        f"[   58.01400{at % 10}] critical medium error, dev nvme{at}n1, sector {8192 + at} op 0x0:(READ)"
        for at, drive in enumerate(machine.disk_order())
        if drive.failing
    ]
    return lines


def _dmesg(machine: SimMachine, host: SimHost, words: list[str]) -> Answer:
    return Answer(0, "\n".join(kernel_log(machine)) + "\n")


def _apply(machine: SimMachine, host: SimHost, words: list[str]) -> Answer:
    """Leave the marker as converged playbooks do; nothing changes if it carries this hash already."""
    if len(words) != 1:
        return Answer(2, "", f"usage: {APPLY} HASH\n")
    old = host.files.get(MARKER)
    if old is not None and json.loads(old).get("playbooks") == words[0]:
        return Answer(0, "unchanged\n")
    checks = [{"name": check["name"], "ok": check["ok"], "why": check["why"]} for check in checks_of(machine)]
    finished = machine.world.clock.now().isoformat(timespec="seconds")
    marker = {"playbooks": words[0], "ok": True, "finished_at": finished, "checks": checks}
    host.files[MARKER] = json.dumps(marker) + "\n"
    machine.writes["playbook"] += 1
    return Answer(0, "changed\n")


def _check(machine: SimMachine, host: SimHost, words: list[str]) -> Answer:
    checks = checks_of(machine)
    noes = [f"{check['name']}: {check['why']}" for check in checks if check["ok"] is not True]
    return Answer(1 if noes else 0, json.dumps({"format": 1, "checks": checks, "noes": noes}) + "\n")


def checks_of(machine: SimMachine) -> list[dict[str, Any]]:
    """The answers of the host's health checks, from what the machine is made of at the moment."""
    return [
        _count("gpu-count", "gpu", "all GPUs", [gpu.present for gpu in machine.gpus]),
        _count("nvme-count", "drive", "all NVMe drives", [drive.present for drive in machine.drives]),
        _count("nic-count", "nic", "all network cards", [nic.present for nic in machine.nics]),
        *_widths(machine),
        _pool(machine),
        _clock(machine),
        *_log_checks(machine),
    ]


def _said(
    name: str, ok: bool | None, why: str, part: tuple[str, str, str], values: dict[str, Any] | None = None
) -> dict[str, Any]:
    kind, part_name, locator = part
    where = {"kind": kind, "name": part_name, "locator": locator}
    return {"name": name, "ok": ok, "why": why, "part": where, "values": values or {}}


def _count(name: str, kind: str, locator: str, present: list[bool]) -> dict[str, Any]:
    found, expected = sum(present), len(present)
    values = {"expected": expected, "found": found}
    return _said(name, found == expected, f"{found} of {expected}", (kind, "*", locator), values)


def _widths(machine: SimMachine) -> list[dict[str, Any]]:
    narrow = [slot for slot in machine.slots if slot.present and slot.width < slot.max_width]
    if not narrow:
        return [_said("pcie-width", True, "every link has its full width", ("pcie", "*", "all PCIe links"))]
    return [
        _said(
            "pcie-width",
            False,
            f"Slot {slot.number}: x{slot.width} of x{slot.max_width}",
            ("pcie", f"PCIe.Slot.{slot.number}", f"Slot {slot.number}"),
            {"width": slot.width, "max_width": slot.max_width},
        )
        for slot in narrow
    ]


def _pool(machine: SimMachine) -> dict[str, Any]:
    data = [drive for drive in machine.drives if not drive.boot]
    gone = [drive.locator for drive in data if not drive.present]
    state = "ONLINE" if not gone else "DEGRADED" if len(gone) == 1 else "FAULTED"
    why = f"scratch is {state}" + (f": {', '.join(gone)} missing" if gone else "")
    return _said("zpool", not gone, why, ("software", "scratch", "scratch"), {"pool": "scratch", "state": state})


def _clock(machine: SimMachine) -> dict[str, Any]:
    off = machine.bmc_clock_offset_s
    good = abs(off) <= CLOCK_LIMIT_S
    shown = 0.0 if good else off
    part = ("clock", "host clock", "host clock")
    return _said("clock-offset", good, f"{shown:+.6f} s", part, {"offset_s": shown, "limit_s": 0.05})


def _log_checks(machine: SimMachine) -> list[dict[str, Any]]:
    bad_dimms = [dimm for dimm in machine.dimms if dimm.present and dimm.errors]
    bad_drives = [(at, drive) for at, drive in enumerate(machine.disk_order()) if drive.failing]
    lines = kernel_log(machine)
    found = [
        _said("dmesg-memory", False, _first(lines, f"DIMM_{dimm.label}"), ("dimm", dimm.name, f"DIMM {dimm.label}"))
        for dimm in bad_dimms
    ] + [
        _said(
            "dmesg-nvme",
            False,
            _first(lines, f"nvme{at}n1"),
            ("drive", f"nvme{at}", f"NVMe serial {drive.serial}"),
            {"serial": drive.serial},
        )
        for at, drive in bad_drives
    ]
    for name, kind, bad in (("dmesg-memory", "dimm", bad_dimms), ("dmesg-nvme", "drive", bad_drives)):
        if not bad:
            found.append(_said(name, True, "no such line since boot", (kind, "*", "kernel log"), {"lines": 0}))
    return found


def _first(lines: list[str], word: str) -> str:
    return next((line for line in lines if word in line), "")


_Command = Callable[[SimMachine, SimHost, list[str]], Answer]
_COMMANDS: dict[str, _Command] = {
    "cat": _cat,
    "test": _test,
    "[": _test,
    "uname": _uname,
    "dmesg": _dmesg,
    APPLY: _apply,
    CHECK.rsplit("/", 1)[-1]: _check,
    "true": lambda machine, host, words: Answer(),
    "false": lambda machine, host, words: Answer(1),
    "echo": lambda machine, host, words: Answer(0, " ".join(words) + "\n"),
    "hostname": lambda machine, host, words: Answer(0, f"{host.hostname}\n"),
    "id": lambda machine, host, words: Answer(0, "0\n" if "-u" in words else "uid=0(root) gid=0(root)\n"),
    "exit": lambda machine, host, words: Answer(int(words[0]) if words and words[0].isdigit() else 0),
}
