"""PostgreSQL: a server that several machines share. Needs psycopg (``provision[distributed]``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from provision.errors import MisconfiguredError, ProvisionError, UnavailableError
from provision.store.address import PostgresServer
from provision.store.database import Repeat

if TYPE_CHECKING:
    import psycopg

# libpq's own words (PostgreSQL 15 manual, 34.1.2): a server or a network that is gone is noticed within seconds.
_DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "application_name": "provision",
    # After a failover several addresses may answer; only one of them can be written.
    "target_session_attrs": "read-write",
}
_IDLE_S = 10


@dataclass(frozen=True, slots=True)
class _Mark:
    """One transaction: its number, and on which timeline of the server. A failover begins another timeline."""

    number: int
    timeline: str


class PostgresBackend:
    """Fulfils database.Backend.

    READ COMMITTED throughout; what must be decided alone takes a row lock or ``locks.alone``. A connection is not
    pinged before use (a round trip for each transaction): a transaction that finds it dead is repeated.
    """

    def __init__(self, server: PostgresServer, *, busy_s: float) -> None:
        self.name = server.name
        self._busy_s = busy_s
        parameters: dict[str, Any] = _parameters(server, busy_s)
        secret = server.password

        def connect() -> psycopg.Connection[Any]:
            import psycopg

            password: dict[str, Any] = {} if secret is None else {"password": secret.reveal()}
            return psycopg.connect(**parameters, **password)

        # The address stays out of SQLAlchemy's hands: libpq reads lists of hosts, and no repr can show a password.
        self.engine = create_engine(
            "postgresql+psycopg://", creator=connect, poolclass=QueuePool, pool_size=1, max_overflow=0
        )

    def begin(self, connection: Connection, *, writes: bool, durable: bool) -> _Mark | None:
        """How long the commit waits for the disk; and the mark by which a commit without answer is looked up."""
        if not writes:
            return None
        row = connection.execute(_BEGIN, {"commit": "on" if durable else "off"}).one()
        return _Mark(int(row.number), str(row.timeline))

    def repeat(self, error: DBAPIError) -> Repeat:
        """See database.Backend."""
        code = _code(error)
        if code in _RACES:
            return Repeat.AT_ONCE
        if code == "25006":
            # The server became a standby under us: another of its addresses may be the one to write to.
            self.engine.dispose()
            return Repeat.WHEN_BACK
        if error.connection_invalidated or code[:2] in _AWAY_CLASSES or code in _AWAY:
            return Repeat.WHEN_BACK
        # libpq gives no code for what happens before there is a connection.
        return Repeat.WHEN_BACK if not code and _operational(error) and not _told_no(error) else Repeat.NOT

    def outcome(self, connection: Connection, mark: object) -> bool | None:
        """Ask the server by the transaction's number (PostgreSQL 15 manual, 9.26.7: txid_status)."""
        assert isinstance(mark, _Mark)  # noqa: S101 - our own, told to the type checker
        if str(connection.execute(_TIMELINE).scalar()) != mark.timeline:
            raise self._unknown("the server failed over at the commit")
        status = connection.execute(text("SELECT txid_status(:number)"), {"number": mark.number}).scalar()
        if status is None:
            raise self._unknown("the server has forgotten the transaction")
        return {"committed": True, "aborted": False}.get(str(status))

    def _unknown(self, why: str) -> UnavailableError:
        return UnavailableError(f"store {self.name}", "commit", f"{why}; whether it was written is not known")

    def sentence(self, error: SQLAlchemyError, what: str) -> ProvisionError | SQLAlchemyError:
        """See database.Backend."""
        if not isinstance(error, DBAPIError):
            return error
        code, said = _code(error), _said(error)
        peer = f"store {self.name}"
        if (told := _told_no(error)) or code in _NEVER:
            return MisconfiguredError(f"{peer}: {told or _NEVER[code]} (the server says: {said})")
        if code in _LATER:
            return UnavailableError(peer, what, _LATER[code].format(busy_s=self._busy_s), code=code)
        if self.repeat(error) is Repeat.WHEN_BACK:
            return UnavailableError(
                peer, what, f"the server does not answer ({said}); see that it runs and can be reached from here",
                code=code or None,
            )  # fmt: skip
        return error

    def compact(self, connection: Connection) -> None:
        """Nothing: the server's autovacuum does that."""


_TIMELINE = text("SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)")
_BEGIN = text(
    "SELECT txid_current() AS number, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AS timeline, "
    "set_config('synchronous_commit', :commit, true)"
)

# Appendix A of the PostgreSQL manual.
_RACES = {"40001", "40P01", "23505"}
_AWAY = {"57P01", "57P02", "57P03", "57P05", "25P03", "53300"}
_AWAY_CLASSES = {"08"}
_LATER = {
    "53100": "the server's disk is full; free some space there",
    "53200": "the server is out of memory",
    "55P03": "another program has held it locked for {busy_s:g} s; find it in pg_stat_activity",
    "58030": "the server's disk reports an error; look at its log",
}
_PERMISSION = "permission denied; give the database to this user: ALTER DATABASE … OWNER TO …"
_NEVER = {
    "42501": _PERMISSION,
    "3D000": "there is no such database; make it with: createdb",
    "28P01": "the server refused user or password; correct store and store_password",
    "28000": "the server refused this user; correct store, or pg_hba.conf on the server",
    "XX001": "the server reports damaged data; restore it from a backup",
    "XX002": "the server reports a damaged index; REINDEX it",
}
# What libpq reports of a refused connection has no code, only the server's words (in English by its lc_messages).
_WORDS = {
    "password authentication failed": _NEVER["28P01"],
    "no password supplied": "the server wants a password; name it with store_password, PGPASSFILE or ~/.pgpass",
    "no pg_hba.conf entry": _NEVER["28000"],
    "authentication failed": _NEVER["28000"],
    "is not permitted to log in": _NEVER["28000"],
    "permission denied for database": _PERMISSION,
    "certificate verify failed": "its certificate is not trusted; correct sslrootcert",
    "does not support SSL": "it speaks no TLS, and store asks for it; correct sslmode",
    "root certificate file": "the file of sslrootcert cannot be read",
}


def _parameters(server: PostgresServer, busy_s: float) -> dict[str, str]:
    try:
        from psycopg.conninfo import conninfo_to_dict
        from psycopg.errors import Error
    except ImportError as error:
        raise MisconfiguredError(
            f"store {server.name}: psycopg is not installed here ({error}); install it with: "
            f"pip install 'provision[distributed]'"
        ) from None
    try:
        given = {key: str(value) for key, value in conninfo_to_dict(server.url).items() if value is not None}
    except Error as error:
        raise MisconfiguredError(f"store {server.name} cannot be read: {str(error).strip()}; correct it") from None
    ours = (
        f"-c lock_timeout={int(busy_s * 1000)} "
        # A process that is stopped in the middle of a transaction must not keep the others out.
        f"-c idle_in_transaction_session_timeout={_IDLE_S * 1000}"
    )
    return {**_DEFAULTS, **given, "options": f"{ours} {given.get('options', '')}".strip()}


def _code(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def _said(error: DBAPIError) -> str:
    """The server's own first sentence."""
    lines = [line.strip() for line in str(error.orig).splitlines() if line.strip()]
    return (lines[0] if lines else type(error.orig).__name__)[:300]


def _operational(error: DBAPIError) -> bool:
    import psycopg

    return isinstance(error.orig, psycopg.OperationalError | psycopg.InterfaceError)


def _told_no(error: DBAPIError) -> str:
    """What to do about a connection that the server refused for good; empty if it may work later."""
    if _code(error) or not _operational(error):
        return ""
    words = str(error.orig)
    for known, text_ in _WORDS.items():
        if known in words:
            return text_
    if 'database "' in words and "does not exist" in words:
        return _NEVER["3D000"]
    if 'role "' in words and "does not exist" in words:
        return _NEVER["28000"]
    return ""
