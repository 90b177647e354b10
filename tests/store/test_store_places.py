"""Where SQLite may be: on a disk of this machine, and opened twice in one process without losing its locks."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from provision.errors import MisconfiguredError
from provision.store.journal import open_store
from provision.store.sqlite import file_system, refuse_remote

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:20 / /home rw,nosuid shared:2 master:3 - nfs4 filer:/home rw,vers=4.2
24 23 8:2 / /home/anna/local rw - xfs /dev/sdb1 rw
25 22 0:30 / /mnt/two\\040words rw - cifs //filer/share rw
26 22 0:31 / /srv rw - ext4 /dev/sdc1 rw
27 26 0:32 / /srv rw - fuse.sshfs host:/srv rw
28 22 0:33 / /opt/bus rw - 9p share rw
a line that is none
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/provision/store.db", "ext4"),
        ("/home/anna/store.db", "nfs4"),
        ("/home/anna/local/store.db", "xfs"),
        ("/home/anna/locality/store.db", "nfs4"),
        ("/homer/store.db", "ext4"),
        ("/mnt/two words/state/store.db", "cifs"),
        ("/srv/state/store.db", "fuse.sshfs"),
        ("/opt/bus/store.db", "9p"),
    ],
)
def test_sqlite_on_a_network_file_system_is_refused(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind
    if kind in {"ext4", "xfs"}:
        refuse_remote(Path(path), MOUNTS)
        return
    with pytest.raises(MisconfiguredError) as caught:
        refuse_remote(Path(path), MOUNTS)
    assert str(caught.value).startswith(f"store {path} is on a network file system ({kind}), where SQLite's locks do")


def test_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    mounts = f"1 0 8:1 / / rw - ext4 a rw\n2 1 0:9 / {tmp_path}/far rw - nfs filer:/ rw\n"
    with pytest.raises(MisconfiguredError, match=r"network file system \(nfs\)"):
        refuse_remote(tmp_path / "near" / "store.db", mounts)


def test_this_machines_own_table_is_read(tmp_path: Path) -> None:
    assert file_system(tmp_path.resolve(), Path("/proc/self/mountinfo").read_text())
    refuse_remote(tmp_path / "store.db")


TAKE = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
    print("took it")
except sqlite3.OperationalError as error:
    print(error)
"""


async def test_a_second_store_of_one_process_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    """Closing any handle of a file drops all locks that the process has on it (sqlite.org, How To Corrupt, 2.2)."""
    first = open_store(tmp_path)
    path = tmp_path / "store.db"

    def another_process() -> str:
        done = subprocess.run([sys.executable, "-c", TAKE, str(path)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    holder = sqlite3.connect(path, isolation_level=None)
    # Rollback journal: there the lock of the database file itself is what keeps others out.
    await first.close()
    holder.execute("PRAGMA journal_mode = DELETE")
    holder.execute("BEGIN IMMEDIATE")
    assert another_process() == "database is locked"
    with pytest.raises(MisconfiguredError, match="locked"):
        open_store(tmp_path, busy_s=0.1)
    assert another_process() == "database is locked"
    holder.execute("ROLLBACK")
    assert another_process() == "took it"
    holder.close()
