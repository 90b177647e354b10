"""A PostgreSQL server of the tests' own, from the distribution's programs; nothing of the machine's own is touched."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_DEADLINE_S = 60.0
_numbers = itertools.count(1)


def programs() -> Path:
    """The newest server's programs; skips the test where there are none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    if (path := shutil.which("postgres")) is not None:
        return Path(path).resolve().parent
    pytest.skip("no PostgreSQL here: apt-get install postgresql (.ci/run does)")


def _as_server_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return []
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("no user postgres here, and PostgreSQL refuses to run as root")
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]


class Server:
    """One cluster in a folder of its own. Local users are trusted on its socket; TCP on loopback wants a password."""

    def __init__(self) -> None:
        self._programs, self._user = programs(), _as_server_user()
        # A socket's path may have 107 characters: pytest's folders are too long for it.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        if self._user:
            shutil.chown(self.folder, "postgres", "postgres")
        # The server's user need not be able to stand where the tests run.
        self._run("initdb", "-D", "data", "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        (self.folder / "data" / "pg_hba.conf").write_text(
            "local all all trust\nhost all all 127.0.0.0/8 scram-sha-256\n"
        )

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._user, str(self._programs / program), *arguments],
            capture_output=True, text=True, timeout=120, check=False, cwd=self.folder,
        )  # fmt: skip
        assert done.returncode == 0, f"{program}: {done.stderr or done.stdout}"

    def start(self, *, addresses: str = "127.0.0.1") -> None:
        """Start and wait until it answers. No fsync: power loss is not what these tests are about."""
        settings = {
            "listen_addresses": addresses, "port": self.port, "unix_socket_directories": self.folder, "fsync": "off",
            "full_page_writes": "off", "max_connections": 60, "shared_buffers": "16MB", "max_wal_size": "64MB",
        }  # fmt: skip
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._user, str(self._programs / "postgres"), "-D", "data", *options],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
            )  # fmt: skip
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            try:
                self.sql("SELECT 1")
                return
            except Exception:
                assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, (self.folder / "log").read_text()[-2000:]
                time.sleep(0.05)

    def stop(self, *, crash: bool = False) -> None:
        """Shut down at once; ``crash``: as if the power had gone, without a checkpoint."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self.process.wait(timeout=60)
        self.process = None

    def close(self) -> None:
        """Stop, and leave nothing behind."""
        self.stop(crash=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, database: str = "postgres", user: str = "test") -> str:
        """For ``store:``, over the socket."""
        return f"postgresql://{user}@/{database}?host={self.folder}&port={self.port}"

    def tcp_address(self, database: str = "postgres", user: str = "test") -> str:
        """For ``store:``, over loopback: wants a password."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Carry out one statement in a session of its own."""
        psycopg = pytest.importorskip(
            "psycopg", reason="psycopg is not installed: pip install 'provision[distributed]'"
        )
        with psycopg.connect(self.address(database), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def database(self, template: str = "template1") -> str:
        """Make a database nobody else uses; its name."""
        name = f"t{next(_numbers)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server for all tests of this worker; skips where there is none."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'provision[distributed]'")
    made = Server()
    try:
        made.start()
        yield made
    finally:
        made.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
