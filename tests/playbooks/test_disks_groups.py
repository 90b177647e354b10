"""Machines with drives of several sizes: the profile says which belong to the pool, or nothing is created."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.playbooks.disk_case import Case, judge
from tests.playbooks.disk_machines import TB, Box, drive

FOUR = {"gb": 4000.0, "count": 4}
EIGHT = {"gb": 8000.0, "count": 4}
BOTH = {"groups": [FOUR, EIGHT], "expected_drives": 8}


def box(fours: int, eights: int) -> Callable[[], Box]:
    """So many drives of 4 TB and, after them, of 8 TB; as sold: a little more than what is printed on them."""

    def make() -> Box:
        made = Box(fours)
        for n in range(fours + 1, fours + eights + 1):
            made.put(drive(f"nvme{n}n1", f"S{n}", size=8 * TB + TB // 100))
        return made

    return make


CASES = [
    Case("nobody said which", box(4, 4), "refuse", {"expected_drives": 8}, ("not of one size", "zfs_groups")),
    Case(
        "one size belongs, the other is left alone",
        box(4, 2),
        "create",
        {"groups": [FOUR], "expected_drives": 4},
        chosen="S1 S2 S3 S4",
        check=lambda plan: [each["serial"] for each in plan["excluded"] if "zfs_groups" in each["why"]] == ["S5", "S6"],
    ),
    Case(
        "each size has a vdev of its own",
        box(4, 4),
        "create",
        BOTH,
        chosen="S1 S2 S3 S4 S5 S6 S7 S8",
        check=lambda plan: (
            [(vdev["type"], vdev["serials"]) for vdev in plan["vdevs"]]
            == [("raidz1", ["S1", "S2", "S3", "S4"]), ("raidz1", ["S5", "S6", "S7", "S8"])]
        ),
    ),
    Case(
        "one is missing, and its bay is named",
        box(3, 2),
        "refuse",
        {"groups": [FOUR], "expected_drives": 4, "drives": [{"serial": "S9", "bay": "9"}]},
        (
            "3 drives of 4000 GB could be used, 4 were expected",
            "S5",
            "of no size in zfs_groups",
            "S9 of bay 9 is missing",
        ),
    ),
    Case("one too many", box(5, 4), "refuse", BOTH, ("5 drives of 4000 GB could be used, 4 were expected",)),
    Case("a size nobody has", box(4, 0), "refuse", BOTH, ("0 drives of 8000 GB could be used, 4 were expected: none",)),
    Case(
        "the sum is another",
        box(4, 4),
        "refuse",
        BOTH | {"expected_drives": 7},
        ("zfs_groups names 8 drives, zfs_expected_drives says 7",),
    ),
    Case(
        "ZFS would refuse the shapes",
        box(4, 2),
        "refuse",
        {"groups": [FOUR, {"gb": 8000.0, "count": 2}], "expected_drives": 6},
        ("vdevs of different shape (mirror over 2 and raidz1 over 4)",),
    ),
    Case("spares of which size", box(4, 4), "refuse", BOTH | {"spares": 1}, ("use no spares",)),
    Case(
        "a group of nothing",
        box(4, 0),
        "refuse",
        {"groups": [FOUR, {"gb": 0.0, "count": 0}], "expected_drives": 4},
        ("a size above 0",),
    ),
    Case(
        "a drive of the other size that carries something is nobody's business",
        lambda: box(4, 0)().put(drive("nvme9n1", "S9", size=TB, fstype="ext4")),
        "create",
        {"groups": [FOUR], "expected_drives": 4},
        chosen="S1 S2 S3 S4",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_which_size_belongs_to_the_pool(case: Case) -> None:
    judge(case)
