"""Plans as files: what a bring-up may write, made by looking; carried out only while the world is still the same."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from provision.app.wiring import Wiring, whoami
from provision.engine.plan import NodePlan
from provision.engine.writes import writes_from
from provision.errors import MisconfiguredError
from provision.model.node import Node
from provision.stages import BRING_UP

FORMAT = 1
_LARGEST = 64 * 1024 * 1024
_SHOWN = 5
_STAGES = tuple(stage.name for stage in BRING_UP)
_VERDICTS = {"ready", "act", "wait", "stuck"}


async def as_file(wiring: Wiring, target: str, nodes: Sequence[Node], plans: Sequence[NodePlan]) -> dict[str, Any]:
    """The plan as plain values: every node where it stands, with every write that it may receive."""
    user, host, _ = whoami()
    site = wiring.settings.site
    listed = []
    for node, item in zip(nodes, plans, strict=True):
        writes = [] if item.verdict in {"ready", "stuck"} else list(writes_from(item.stage, _STAGES, site))
        listed.append(
            {
                "node": node.name,
                "stage": item.stage,
                "verdict": item.verdict,
                "step": item.step,
                "what": item.what,
                "erases": item.erases,
                "goal": await _goal(wiring, node),
                "writes": [
                    {
                        "stage": write.stage,
                        "step": write.step,
                        "risk": write.risk.value,
                        "what": write.what,
                        "next": (write.stage, write.step) == (item.stage, item.step),
                    }
                    for write in writes
                ],
            }
        )
    return {
        "format": FORMAT,
        "made_at": wiring.clock.now().isoformat(timespec="seconds"),
        "made_by": f"{user}@{host}",
        "target": target,
        "nodes": listed,
        "afterwards": "a node that ends with a ticket and is not deployed is marked broken in MAAS (a record)",
    }


async def _goal(wiring: Wiring, node: Node) -> str:
    """What the node is and is to become; another value means that inventory, profile or wish has changed."""
    epoch = await wiring.store.epoch(node.name)
    text = f"{node!r} {wiring.profile(node)!r} {epoch} {wiring.settings.site!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write(plan: Mapping[str, Any], file: Path) -> None:
    """Write the plan, whole or not at all.

    Raises:
        MisconfiguredError: the place cannot be written.
    """
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(plan, indent=2, ensure_ascii=True) + "\n", encoding="ascii")
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise MisconfiguredError(f"cannot write {file}: {error.strerror}; give another path with --out") from error


def read(file: Path) -> dict[str, Any]:
    """A plan that holds together.

    Raises:
        MisconfiguredError: no file, no JSON, no plan of ours, or one of another version; one sentence.
    """
    again = "make one with: provision plan TARGET --out FILE"
    try:
        if file.stat().st_size > _LARGEST:
            raise MisconfiguredError(f"{file} is larger than any plan; {again}")
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise MisconfiguredError(f"cannot read {file}: {error.strerror}; {again}") from None
    except (ValueError, RecursionError):
        raise MisconfiguredError(f"{file} is no plan: it is not JSON; {again}") from None
    if not isinstance(data, dict) or not isinstance(data.get("format"), int) or not isinstance(data.get("target"), str):
        raise MisconfiguredError(f"{file} is no plan: expected an object with format and target; {again}")
    if data["format"] != FORMAT:
        raise MisconfiguredError(f"{file} has format {data['format']}, this program reads {FORMAT}; {again}")
    nodes = data.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise MisconfiguredError(f"{file} is no plan: expected a list of nodes that is not empty; {again}")
    for number, item in enumerate(nodes, 1):
        if complaint := _complaint(item):
            raise MisconfiguredError(f"{file}: node {number}: {complaint}; {again}")
    names = [item["node"] for item in nodes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MisconfiguredError(f"{file}: {twice[0]} stands twice in the plan; {again}")
    return data


def _complaint(item: object) -> str:
    if not isinstance(item, dict):
        return "expected an object"
    for key in ("node", "stage", "verdict", "step", "goal"):
        if not isinstance(item.get(key), str):
            return f"{key} is missing or not a text"
    if item["stage"] not in _STAGES or item["verdict"] not in _VERDICTS:
        return f"no such stage or verdict: {item['stage']!r}, {item['verdict']!r}"
    writes = item.get("writes")
    if not isinstance(writes, list):
        return "writes is missing or not a list"
    if not all(
        isinstance(w, dict) and isinstance(w.get("stage"), str) and isinstance(w.get("step"), str) for w in writes
    ):
        return "a write without stage and step"
    return ""


def allowed(plan: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The acts that may be sent, as ``stage/step`` by node."""
    return {
        item["node"]: frozenset(f"{write['stage']}/{write['step']}" for write in item["writes"])
        for item in plan["nodes"]
    }


async def differences(
    wiring: Wiring, plan: Mapping[str, Any], nodes: Sequence[Node], seen: Sequence[NodePlan]
) -> list[str]:
    """How the world has outrun the plan, one line per node; empty if it has not."""
    planned = {item["node"]: item for item in plan["nodes"]}
    found = []
    for node, current in zip(nodes, seen, strict=True):
        item = planned[node.name]
        if await _goal(wiring, node) != item["goal"]:
            found.append(f"{node.name}: inventory, profile, site settings or wish have changed since")
            continue
        was, now = (
            _place(item["stage"], item["verdict"], item["step"]),
            _place(current.stage, current.verdict, current.step),
        )
        if was != now:
            found.append(f"{node.name}: the plan says {was}, at this moment it is {now}")
    return found


def refuse(file: Path, target: str, found: Sequence[str]) -> None:
    """Say how the world has outrun the plan.

    Raises:
        MisconfiguredError: there is a difference; it is named.
    """
    if not found:
        return
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise MisconfiguredError(
        f"{file} is outrun: {'; '.join(found[:_SHOWN])}{more}; nothing was written, plan again: "
        f"provision plan '{target}' --out {file}"
    )


def _place(stage: str, verdict: str, step: str) -> str:
    return {
        "ready": "ready",
        "act": f"{step} at {stage}",
        "wait": f"waiting at {stage}",
        "stuck": f"stuck at {stage}",
    }[verdict]
