"""The table of the disk decision where a pool is there or can be imported, and what the ZFS commands print."""

from __future__ import annotations

import pytest

from tests.playbooks.disk_case import ALL, FORCE, KNOWN, NAMES, OTHER, Case, judge, pooled, waiting
from tests.playbooks.disk_machines import drive, importable, label, status, zpool_text

CASES = [
    # The pool is there
    Case(
        "imported and right",
        pooled(status(*ALL)),
        "nothing",
        check=lambda plan: len(plan["drives"]) == 6 and not plan["reports"],
    ),
    Case("zfs-fuse style", pooled(status(*ALL, scan="scrub")), "nothing"),
    Case(
        "drive pulled",
        pooled(status(*ALL[:5], f"815 UNAVAIL was {ALL[5]}", state="DEGRADED")),
        "nothing",
        check=lambda plan: plan["degraded"] == [f"{ALL[5]} is UNAVAIL"],
    ),
    Case(
        "faulted member",
        pooled(status(*ALL[:5], f"{ALL[5]} FAULTED", state="DEGRADED")),
        "nothing",
        {"drives": KNOWN},
        check=lambda plan: plan["degraded"] == ["drive S6 (/dev/nvme6n1, bay 6) is FAULTED"],
    ),
    Case(
        "suspended pool",
        pooled(status(*ALL, state="SUSPENDED", note="One or more devices are faulted")),
        "refuse",
        words=("SUSPENDED",),
    ),
    Case(
        "imported with fewer drives",
        pooled(status(*ALL[:5])),
        "refuse",
        words=("stands on 5 drives, 6 were expected", "never grown"),
    ),
    Case(
        "a drive beside the pool",
        lambda: pooled(status(*ALL))().put(drive("nvme7n1", "S7")),
        "nothing",
        check=lambda plan: plan["reports"] == ["drive S7 (/dev/nvme7n1) is not in pool tank"],
    ),
    Case("own label elsewhere", pooled(status(*ALL), zpool_import=importable(*NAMES, number="99")), "nothing"),
    Case(
        "imported, and another of that name",
        pooled(status(*ALL), zpool_import=importable(*NAMES)),
        "refuse",
        words=("2 pools are named tank",),
    ),
    # The pool can be imported
    Case(
        "after a reimage",
        waiting(importable(*NAMES)),
        "import",
        check=lambda plan: plan["import"] == {"id": "4711", "force": False},
    ),
    Case("a longer name is another pool", waiting(importable(*NAMES, name="tank2")), "refuse", words=("not blank",)),
    Case(
        "degraded import",
        waiting(importable(*NAMES[:5], f"{NAMES[5]} UNAVAIL cannot open", state="DEGRADED")),
        "import",
        check=lambda plan: len(plan["degraded"]) == 1,
    ),
    Case(
        "cannot be imported",
        waiting(importable(*NAMES[:4], f"{NAMES[4]} UNAVAIL", f"{NAMES[5]} UNAVAIL", state="UNAVAIL", note="too few")),
        "refuse",
        {"drives": [*KNOWN, {"serial": "S9", "bay": "9"}]},
        ("UNAVAIL", "S9 of bay 9 is missing"),
    ),
    Case("faulted import", waiting(importable(*NAMES, state="FAULTED")), "refuse", words=("FAULTED",)),
    Case(
        "two of one name",
        waiting(importable(*NAMES[:3]) + importable(*NAMES[3:], number="4712")),
        "refuse",
        words=("2 pools are named tank (4711, 4712)",),
    ),
    Case(
        "own earlier host id",
        waiting(importable(*NAMES, note=OTHER, action=FORCE), labels=[label(hostid=0xAA)]),
        "import",
        {"hostids": ["000000aa"]},
        check=lambda plan: plan["import"]["force"],
    ),
    Case(
        "strange host id",
        waiting(importable(*NAMES, note=OTHER, action=FORCE), labels=[label(hostid=0xBB, hostname="db7")]),
        "refuse",
        words=("000000bb (db7)", "zfs_hostids"),
    ),
    Case(
        "one strange label among own",
        waiting(importable(*NAMES, note=OTHER, action=FORCE), labels=[label(), label(hostid=0xBB)]),
        "refuse",
        words=("000000bb",),
    ),
    Case(
        "no label to judge by",
        waiting(importable(*NAMES, note=OTHER, action=FORCE), labels=["cannot open"]),
        "refuse",
        words=("no label says which",),
    ),
    Case(
        "imported by a living system",
        waiting(importable(*NAMES, note="The pool is currently imported by another system."), labels=[label()]),
        "refuse",
        words=("never forced",),
    ),
    Case(
        "import of a pool with fewer drives", waiting(importable(*NAMES[:5])), "refuse", words=("stands on 5 drives",)
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pools(case: Case) -> None:
    judge(case)


def test_pool_texts() -> None:
    """Groups are told from leaves by indentation, special sections by name; a replacement is one place."""
    text = """  pool: tank
 state: DEGRADED
status: One or more devices is currently being resilvered.  The pool will
\tcontinue to function, possibly in a degraded state.
action: Wait for the resilver to complete.
  scan: resilver in progress
config:

\tNAME                  STATE     READ WRITE CKSUM
\ttank                  DEGRADED     0     0     0
\t  raidz1-0            DEGRADED     0     0     0
\t    /dev/a1           ONLINE       0     0     0
\t    replacing-1       DEGRADED     0     0     0
\t      123             UNAVAIL      0     0     0  was /dev/b1
\t      /dev/c1         ONLINE       0     0     0  (resilvering)
\tlogs
\t  /dev/l1             ONLINE       0     0     0
\tcache
\t  /dev/k1             ONLINE       0     0     0
\tspares
\t  /dev/s1             AVAIL

errors: No known data errors
"""
    (pool,) = zpool_text.parse_pools(text)
    assert pool["status"].endswith("continue to function, possibly in a degraded state.")
    rows = [(leaf["name"], leaf["section"], leaf["state"], leaf["was"]) for leaf in pool["leaves"]]
    assert rows == [
        ("/dev/a1", "", "ONLINE", ""),
        ("123", "", "UNAVAIL", "/dev/b1"),
        ("/dev/c1", "", "ONLINE", ""),
        ("/dev/l1", "logs", "ONLINE", ""),
        ("/dev/k1", "cache", "ONLINE", ""),
        ("/dev/s1", "spares", "AVAIL", ""),
    ]
    assert len({leaf["slot"] for leaf in pool["leaves"] if not leaf["section"]}) == 2
    assert zpool_text.parse_pools("no pools available\n") == []
    assert zpool_text.parse_label(label(hostid=None))["hostid"] == ""
    assert zpool_text.parse_label("failed to unpack label 0") is None
