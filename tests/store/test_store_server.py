"""A store on a server: its password, its refusals, its restarts, and commits whose answer is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from provision.errors import MisconfiguredError, UnavailableError
from provision.model.event import Said
from provision.model.run import Run
from provision.model.secret import Secret
from provision.store.journal import open_store
from tests.postgres import Server
from tests.store.conftest import Place
from tests.store.wire import Wire

PASSWORD = "hunter2-hunter2"
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def run_of(run_id: str, *nodes: str) -> Run:
    return Run(run_id, "bringup", nodes, "anna", os.uname().nodename, os.getpid(), datetime.now(UTC), "rack-12")


@pytest.fixture(scope="module")
def guarded(server: Server, shared_database: str) -> str:
    """An address that wants a password."""
    server.sql(f"CREATE ROLE anna LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    return server.tcp_address(shared_database, "anna")


async def test_the_password_is_a_secret(guarded: str, empty_server_place: Place) -> None:
    store = open_store(guarded, password=Secret(PASSWORD))
    assert await store.raise_epoch("a", why="x") == 2
    assert store.name == guarded
    database = store._database
    assert PASSWORD not in repr(vars(database)) + repr(vars(database._backend)) + str(database._backend.engine.url)
    await store.close()


def test_a_wrong_password_is_one_sentence(guarded: str, empty_server_place: Place) -> None:
    with pytest.raises(
        MisconfiguredError, match=r"^store postgresql://anna@127.*: the server refused user or pass"
    ) as caught:
        open_store(guarded, password=Secret("wrong-wrong"))
    assert "wrong-wrong" not in str(caught.value)
    with pytest.raises(MisconfiguredError, match="wants a password; name it with store_password, PGPASSFILE or"):
        open_store(guarded)


def test_libpq_finds_the_password_in_its_file(guarded: str, empty_server_place: Place, tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:*:*:anna:{PASSWORD}\n")
    file.chmod(stat.S_IRUSR | stat.S_IWUSR)
    code = "import sys; from provision.store.journal import open_store; open_store(sys.argv[1])._database.close()"
    environment = {**os.environ, "PGPASSFILE": str(file)}
    subprocess.run([sys.executable, "-c", code, guarded], check=True, env=environment, timeout=60)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://anna:hunter2@db/provision",
        "postgresql://anna:hun@ter2@db/provision",
        "postgres://db/provision?user=anna&password=hunter2",
        "postgresql://db/provision?sslpassword=hunter2",
    ],
)
def test_a_password_in_the_address_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(MisconfiguredError, match=r"holds a password, .*; take it out and name it with") as caught:
        open_store(address)
    assert "ter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("postgresql://anna@db", "names no database: expected a directory"),
        ("postgresql://[db/x", "cannot be read: expected"),
        ("postgresql://anna@db/x?no_such=1", "cannot be read: invalid URI query parameter.*correct it"),
        ("postgresql://anna@127.0.0.1:1/x", r"the server does not answer \(.*refused.*see that it runs"),
    ],
)
def test_an_address_that_leads_nowhere(address: str, sentence: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(MisconfiguredError, match=sentence):
        open_store(address)


def test_without_psycopg_there_is_a_sentence() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from provision.errors import MisconfiguredError\n"
        "from provision.store.journal import open_store\n"
        "try: open_store('postgresql://anna@db/x')\n"
        "except MisconfiguredError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert "psycopg is not installed here" in done.stdout
    assert "pip install 'provision[distributed]'" in done.stdout


def test_databases_that_are_not_ours(server: Server) -> None:
    with pytest.raises(MisconfiguredError, match="there is no such database; make it with: createdb"):
        open_store(server.address("nowhere"))
    with pytest.raises(MisconfiguredError, match="the server refused this user"):
        open_store(server.address("postgres", user="nobody-here"))
    name = server.database()
    server.sql("CREATE TABLE maas (id int)", name)
    with pytest.raises(MisconfiguredError, match="is a database of another program"):
        open_store(server.address(name))
    # MAAS keeps Alembic's table, too.
    server.sql("CREATE TABLE alembic_version (version_num text)", name)
    server.sql("INSERT INTO alembic_version VALUES ('a1b2c3d4e5f6')", name)
    with pytest.raises(MisconfiguredError, match="is a database of another program"):
        open_store(server.address(name))
    assert server.sql("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'", name) == [(2,)]
    server.sql("UPDATE alembic_version SET version_num = '0999'", name)
    with pytest.raises(MisconfiguredError, match="has version 0999, this program reads up to version 0"):
        open_store(server.address(name))
    server.sql("CREATE ROLE guest LOGIN")
    with pytest.raises(MisconfiguredError, match=r"permission denied; give the database to this user"):
        open_store(server.address(server.database(), user="guest"))


async def test_a_restart_and_a_crash_of_the_server_are_waited_for(server: Server, empty_server_place: Place) -> None:
    store = open_store(empty_server_place.address)
    await store.start_run(run_of("r1", "a"))
    for crash in (False, True):
        server.stop(crash=crash)
        writing = asyncio.create_task(store.open_attempt("r1", "a", "deploy", "deploy", "install"))
        reading = asyncio.create_task(store.epoch("a"))
        await asyncio.sleep(0.3)
        assert not writing.done()
        server.start()
        await writing
        assert await reading == 1
    assert len(await store.attempts("a")) == 2
    await store.close()


async def test_a_server_that_stays_away_is_a_sentence(server: Server, empty_server_place: Place) -> None:
    store = open_store(empty_server_place.address, patience_s=0.5)
    await store.start_run(run_of("r1", "a"))
    server.stop()
    try:
        with pytest.raises(UnavailableError, match=r"store postgresql://.*: heartbeat: the server does not answer"):
            await store.heartbeat("r1")
    finally:
        server.start()
    await store.heartbeat("r1")
    await store.close()


async def test_a_session_that_the_server_ends_costs_nothing(server: Server, empty_server_place: Place) -> None:
    store = open_store(empty_server_place.address)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'provision'"
    for _ in range(3):
        server.sql(end)
        await store.raise_epoch("a", why="x")
        server.sql(end)
        await store.epoch("a")
    assert await store.epoch("a") == 4
    await store.close()


async def test_a_server_that_takes_no_writes_is_waited_for(server: Server, empty_server_place: Place) -> None:
    """A standby, or the old primary after a failover."""
    store = open_store(empty_server_place.address, patience_s=0.5)
    name = empty_server_place.database
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'provision'"
    server.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        server.sql(end)
        with pytest.raises(UnavailableError, match="session is read-only"):
            await store.raise_epoch("a", why="x")
    finally:
        server.sql(f"ALTER DATABASE {name} RESET default_transaction_read_only", "postgres")
    assert await store.raise_epoch("a", why="x") == 2
    await store.close()


@pytest.fixture
def wire(server: Server, empty_server_place: Place) -> Iterator[Wire]:
    made = Wire(server.folder / f".s.PGSQL.{server.port}")
    yield made
    made.close()


@pytest.mark.parametrize("lost", ["cut_before", "cut_after"])
async def test_a_commit_without_answer_is_looked_up(wire: Wire, empty_server_place: Place, lost: str) -> None:
    """Whether the COMMIT or only its answer was lost: the write is there once, and its result is the right one."""
    store = open_store(f"postgresql://test@127.0.0.1:{wire.port}/{empty_server_place.database}")
    await store.start_run(run_of("r1", "a"))
    for n in range(3):
        setattr(wire, lost, True)
        attempt = await store.open_attempt("r1", "a", "deploy", str(n), "install")
        assert (await store.attempts("a"))[0].id == attempt
        setattr(wire, lost, True)
        await store.record(Said(NOW, "r1", f"said {n}", node="a"))
    assert wire.cuts == 6
    assert [a.step for a in await store.attempts("a")] == ["2", "1", "0"]
    assert [e["text"] for e in await store.history("a")] == ["said 0", "said 1", "said 2"]
    await store.close()


STOPPED = """
import sys, time
from sqlalchemy import text
from provision.store import locks
from provision.store.journal import open_store
store = open_store(sys.argv[1])
def work(connection):
    locks.alone(connection, "runs")
    print("holds", flush=True)
    time.sleep(120)
store._database.call("hold", work, writes=True)
"""


@pytest.mark.soak
def test_a_process_stopped_in_a_transaction_does_not_keep_others_out(empty_server_place: Place) -> None:
    """The server ends a transaction that says nothing for ten seconds, and with it its locks."""
    other = subprocess.Popen(
        [sys.executable, "-c", STOPPED, empty_server_place.address], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"holds\n"
        other.send_signal(signal.SIGSTOP)
        store = open_store(empty_server_place.address, busy_s=30)
        asyncio.run(store.start_run(run_of("r1", "a")))
        store._database.close()
    finally:
        other.kill()
        other.communicate()
