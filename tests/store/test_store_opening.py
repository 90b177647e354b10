"""A store that cannot be used says why in one sentence; one that can is closed to others and up to date."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from provision.errors import MisconfiguredError, UnavailableError
from provision.model.run import Run
from provision.store.journal import Store, open_store
from provision.store.opening import open_database
from provision.store.schema import HEAD, metadata

NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root: another user, or a file system of its own")


def run_of(run_id: str = "r1", *nodes: str) -> Run:
    return Run(run_id, "bringup", nodes, "anna", os.uname().nodename, os.getpid(), datetime.now(UTC), "rack-12")


def as_nobody(work: Callable[[], None]) -> int:
    """Run ``work`` in a child without root's rights; 0 if it raised nothing."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            work()
        except BaseException as error:  # noqa: BLE001, RUF100 - the child ends here in any case
            print(error, file=sys.stderr)  # noqa: T201
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def test_directory_and_files_are_closed_to_others(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    store = open_store(state)
    await store.start_run(run_of())
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}
    await store.close()
    await store.close()


async def test_a_store_that_others_could_read_is_closed_again(tmp_path: Path) -> None:
    await open_store(tmp_path / "x.db").close()
    (tmp_path / "x.db").chmod(0o644)
    await open_store(f"sqlite:///{tmp_path}/x.db").close()
    assert stat.S_IMODE((tmp_path / "x.db").stat().st_mode) == 0o600


def test_migrations_make_the_schema_that_the_code_speaks(tmp_path: Path) -> None:
    database = open_database(tmp_path)
    differences = database.call(
        "compare", lambda connection: compare_metadata(MigrationContext.configure(connection), metadata)
    )
    database.close()
    assert differences == []
    scripts = ScriptDirectory(str(Path(open_database.__code__.co_filename).parent / "migrations"))
    assert scripts.get_current_head() == HEAD


async def test_a_newer_store_is_refused_with_both_versions(tmp_path: Path) -> None:
    await open_store(tmp_path).close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    with pytest.raises(MisconfiguredError, match=rf"has version 0999, this program reads up to version {HEAD}; use"):
        open_store(tmp_path)
    with sqlite3.connect(tmp_path / "store.db") as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0999",)]


async def test_intents_wait_for_the_disk_and_events_do_not(tmp_path: Path) -> None:
    database = open_database(tmp_path)
    levels = [
        database.call("look", lambda c: c.exec_driver_sql("PRAGMA synchronous").scalar(), writes=True, durable=durable)
        for durable in (True, False, True)
    ]
    assert levels == [2, 1, 2]  # FULL, NORMAL
    assert database.call("look", lambda c: c.exec_driver_sql("PRAGMA journal_mode").scalar()) == "wal"
    assert database.call("look", lambda c: c.exec_driver_sql("PRAGMA foreign_keys").scalar()) == 1
    database.close()


def test_a_state_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("x")
    with pytest.raises(MisconfiguredError, match=r"state directory .*/state is a file; expected a directory"):
        open_store(tmp_path / "state")
    (tmp_path / "x.db").mkdir()
    with pytest.raises(MisconfiguredError, match=r"x\.db cannot be opened: Is a directory"):
        open_store(tmp_path / "x.db")


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@db/provision", "mysql://x", "sqlite://", "sqlite:///", "sqlite:memory://"]
)
def test_other_addresses_are_refused_without_their_password(url: str) -> None:
    with pytest.raises(
        MisconfiguredError, match=r"is not supported: expected a directory, sqlite:///PATH or"
    ) as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "raw", [b"hello, this is a text\n" * 500, os.urandom(8192), b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_a_file_that_is_no_database(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "store.db").write_bytes(raw)
    with pytest.raises(MisconfiguredError, match=r"store\.db: the file is (not a database|damaged); move it away"):
        open_store(tmp_path)
    assert (tmp_path / "store.db").read_bytes() == raw


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("CREATE TABLE photos (id INTEGER)")
    with pytest.raises(MisconfiguredError, match="is a database of another program"):
        open_store(tmp_path)


async def test_damaged_pages_are_found_at_opening(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.start_run(run_of("r1", *(f"node-{n}" for n in range(2000))))
    await store.close()
    path = tmp_path / "store.db"
    raw = bytearray(path.read_bytes())
    raw[8 * 4096 : -4096] = os.urandom(len(raw) - 9 * 4096)
    path.write_bytes(raw)
    with pytest.raises(MisconfiguredError, match=r"store\.db: the file is damaged; move it away \(and keep it\)"):
        open_store(tmp_path)


async def test_a_store_damaged_while_it_is_open(tmp_path: Path) -> None:
    """More than SQLite keeps in memory, so that it must read what was damaged."""
    store = open_store(tmp_path)
    await store.start_run(run_of("r1", *(f"{n:0200d}" for n in range(20000))))
    await store.close()
    store = open_store(tmp_path)
    path = tmp_path / "store.db"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with pytest.raises(MisconfiguredError, match="the file is damaged"):
        await store.runs()
    await store.close()


async def test_locked_by_another_program(tmp_path: Path) -> None:
    store = open_store(tmp_path, busy_s=0.2)
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match=r"another program has held it locked for 0\.2 s; find it with: fuser"):
        await store.raise_epoch("a", why="x")
    assert await store.epoch("a") == 1
    other.execute("ROLLBACK")
    assert await store.raise_epoch("a", why="x") == 2
    await store.close()
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(MisconfiguredError, match="another program has held it locked"):
        open_store(tmp_path, busy_s=0.2)
    other.close()


def _reachable(path: Path) -> None:
    """Let other users walk to ``path``: pytest closes its folders."""
    for folder in (path, *path.parents):
        if "pytest" in str(folder):
            folder.chmod(folder.stat().st_mode | 0o055)


@needs_root
async def test_a_state_directory_that_may_not_be_written(tmp_path: Path) -> None:
    _reachable(tmp_path)
    await open_store(tmp_path / "state").close()
    (tmp_path / "state").chmod(0o755)
    (tmp_path / "state" / "store.db").chmod(0o644)

    def refused(where: Path, sentence: str) -> Callable[[], None]:
        def work() -> None:
            with pytest.raises(MisconfiguredError, match=sentence):
                open_store(where)

        return work

    assert as_nobody(refused(tmp_path / "state", "/state cannot be written; name another with --state")) == 0
    assert as_nobody(refused(tmp_path / "no" / "such", "cannot be opened: Permission denied; name another")) == 0
    shutil.chown(tmp_path / "state", NOBODY, NOBODY)
    assert as_nobody(refused(tmp_path / "state", r"store\.db cannot be opened: Permission denied")) == 0


FULL_DISK = """
import asyncio, os, sys
from datetime import UTC, datetime
from pathlib import Path
from provision.errors import MisconfiguredError, UnavailableError
from provision.model.event import Said
from provision.model.run import Run
from provision.store.journal import open_store

async def main(state):
    filler = state.parent / "filler"
    store = open_store(state)
    await store.start_run(Run("r1", "bringup", ("a",), "u", os.uname().nodename, os.getpid(), datetime.now(UTC)))
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    try:
        for _ in range(2000):
            await store.record(Said(datetime.now(UTC), "r1", "x" * 4000, node="a"))
    except UnavailableError as error:
        print(error)
    try:
        open_store(state.parent / "second")
    except MisconfiguredError as error:
        print(error)
    filler.unlink()
    before = len(await store.history("a", limit=5000))
    await store.record(Said(datetime.now(UTC), "r1", "there is room again", node="a"))
    print(len(await store.history("a", limit=5000)) - before)
    await store.close()

asyncio.run(main(Path(sys.argv[1])))
"""


@needs_root
def test_a_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    """A real file system of 2 MB, in a mount namespace of its own."""
    script = tmp_path / "full.py"
    script.write_text(FULL_DISK)
    disk = tmp_path / "disk"
    disk.mkdir()
    command = f"mount -t tmpfs -o size=2m none {disk} && exec {sys.executable} {script} {disk}/state"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    first, second, written = done.stdout.splitlines()
    assert first == f"store {disk}/state/store.db: record an event: the disk is full; free some space", done.stderr
    assert "second" in second
    assert "the disk is full" in second or "No space left on device" in second
    assert written == "1"


OPENER = """
import asyncio, sys
from provision.store.journal import open_store
store = open_store(sys.argv[1])
store.set_pin("k", sys.argv[2], "v")
asyncio.run(store.close())
"""


def test_many_processes_open_a_fresh_store_at_once(tmp_path: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", OPENER, str(tmp_path / "s"), str(n)], stderr=subprocess.PIPE)
        for n in range(4)
    ]
    for child in children:
        _, stderr = child.communicate(timeout=60)
        assert child.returncode == 0, stderr.decode()
    store: Store = open_store(tmp_path / "s")
    assert [store.get_pin("k", str(n)) for n in range(4)] == ["v"] * 4
    store._database.close()
