"""One row of the table of the disk decision, and how it is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.playbooks.disk_machines import Box, by_eui, disks, member, wanted

ALL = [by_eui(f"S{n}") for n in range(1, 7)]
NAMES = [path.rsplit("/", 1)[-1].replace("-part1", "") for path in ALL]
OTHER = "The pool was last accessed by another system."
FORCE = "The pool can be imported using its name or numeric identifier and\n\tthe '-f' flag."


@dataclass
class Case:
    """One row of the table."""

    name: str
    box: Callable[[], Box]
    action: str
    want: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    chosen: str | None = None  # serial numbers, only where a pool is created
    check: Callable[[dict[str, Any]], bool] = lambda plan: True


def six(*rows: dict[str, Any]) -> Callable[[], Box]:
    """Six blank drives, some of them replaced."""

    def make() -> Box:
        box = Box()
        for row in rows:
            box.put(row)
        return box

    return make


def pooled(text: str, **facts: Any) -> Callable[[], Box]:
    """Six members of an imported pool."""
    return lambda: six(*[member(f"nvme{n}n1", f"S{n}") for n in range(1, 7)])().tell(
        zpool_status=text, zpool_guids={"tank": "99"}, **facts
    )


def waiting(text: str, **facts: Any) -> Callable[[], Box]:
    """Six members of a pool that is not imported, as after a new installation."""
    return lambda: six(*[member(f"nvme{n}n1", f"S{n}") for n in range(1, 7)])().tell(zpool_import=text, **facts)


KNOWN = [{"serial": f"S{n}", "bay": str(n)} for n in range(1, 7)]
BLANKS = "S1 S2 S3 S4 S5 S6"


def judge(case: Case) -> None:
    """Hold the decision against the row."""
    plan = disks.decide(case.box().told(), wanted() | case.want)
    assert plan["action"] == case.action, plan["why"]
    said = "; ".join(plan["why"])
    assert [word for word in case.words if word not in said] == [], said
    assert bool(plan["why"]) == (case.action == "refuse")
    if case.chosen is not None:
        assert sorted(each["serial"] for each in plan["drives"]) == case.chosen.split()
    if case.action != "create":
        assert (plan["vdevs"], plan["wipe"]) == ([], [])
    assert case.check(plan), plan
