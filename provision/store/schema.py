"""Tables of the store, for SQLite and PostgreSQL alike. ``HEAD`` is the version that this program reads and writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)

HEAD = "0003"

# Names for constraints, so that later migrations can name what they change.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts rows in INTEGER only; PostgreSQL's INTEGER ends at two thousand million.
Id = BigInteger().with_variant(Integer, "sqlite")


class Utc(TypeDecorator[datetime]):
    """An aware time in UTC. SQLite has no time zones, so they are taken off and put on again here."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Into the database."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; the store keeps aware times")
        moved = value.astimezone(UTC)
        return moved.replace(tzinfo=None) if dialect.name == "sqlite" else moved

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Out of the database."""
        if value is None:
            return None
        assert isinstance(value, datetime)  # noqa: S101 - the driver's promise, told to the type checker
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


runs = Table(
    "runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("verb", String(64), nullable=False),
    Column("target", Text, nullable=False),
    Column("nodes", Text, nullable=False),
    Column("user", String(200), nullable=False),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    # Which process that pid was: boot, pid namespace, start time. Empty where the system does not say.
    Column("process", String(200), nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("heartbeat_at", Utc, nullable=False),
    Column("ended_at", Utc),
    Column("exit_status", Integer),
    Column("taken_over_by", String(64)),
    # Seconds of silence after which others take over; empty: see leases.is_live.
    Column("lease_s", Float),
    Index(None, "started_at"),
)

leases = Table(
    "leases",
    metadata,
    Column("node", String(255), primary_key=True),
    Column("run", String(64), ForeignKey("runs.id"), nullable=False),
    Index(None, "run"),
)

goals = Table(
    "goals",
    metadata,
    Column("node", String(255), primary_key=True),
    Column("image_epoch", Integer, nullable=False),
    Column("raised_at", Utc, nullable=False),
    Column("why", Text, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("run", String(64), ForeignKey("runs.id"), nullable=False),
    Column("node", String(255), nullable=False),
    Column("stage", String(64), nullable=False),
    Column("step", String(64), nullable=False),
    Column("why", Text, nullable=False),
    Column("opened_at", Utc, nullable=False),
    Column("closed_at", Utc),
    Column("result", String(32)),
    Column("detail", Text, nullable=False),
    Index(None, "node", "id"),
    Index(None, "run"),
)

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("run", String(64), nullable=False),
    Column("node", String(255)),
    Column("at", Utc, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("payload", Text, nullable=False),
    Index(None, "node", "id"),
    Index(None, "run", "id"),
)

evidence = Table(
    "evidence",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("run", String(64), nullable=False),
    Column("node", String(255), nullable=False),
    Column("part_kind", String(32), nullable=False),
    Column("part_name", Text, nullable=False),
    Column("locator", Text, nullable=False),
    Column("parent", Text),
    Column("reading", String(32), nullable=False),
    Column("source", String(200), nullable=False),
    Column("seen_at", Utc, nullable=False),
    Column("text", Text, nullable=False),
    Column("code", String(200)),
    Column("severity", String(32), nullable=False),
    Column("figures", Text, nullable=False),
    Column("cleared", Boolean(create_constraint=False), nullable=False),
    Index(None, "node", "id"),
    Index(None, "run"),
)

gaps = Table(
    "gaps",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("run", String(64), nullable=False),
    Column("node", String(255)),
    Column("kept_at", Utc, nullable=False),
    Column("source", String(200), nullable=False),
    Column("place", Text, nullable=False),
    Column("why", Text, nullable=False),
    Index(None, "run"),
)

states = Table(
    "states",
    metadata,
    Column("node", String(255), primary_key=True),
    Column("run", String(64), nullable=False),
    Column("stage", String(64), nullable=False),
    Column("since", Utc, nullable=False),
    Column("what", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("outcome", String(32)),
    Column("updated_at", Utc, nullable=False),
)

tickets = Table(
    "tickets",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("dedupe_key", Text, nullable=False),
    Column("status", String(32), nullable=False),
    Column("node", String(255), nullable=False),
    Column("opened_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    # The other fields of model.ticket.Ticket as JSON: they are read together, never searched.
    Column("body", Text, nullable=False),
    Index(None, "node"),
    Index(
        "uq_tickets_open",
        "dedupe_key",
        unique=True,
        sqlite_where=text("status <> 'verified'"),
        postgresql_where=text("status <> 'verified'"),
    ),
)

ticket_moves = Table(
    "ticket_moves",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("ticket", Integer, ForeignKey("tickets.number"), nullable=False),
    Column("run", String(64), nullable=False),
    Column("at", Utc, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("why", Text, nullable=False),
    Index(None, "ticket"),
)

pins = Table(
    "pins",
    metadata,
    Column("kind", String(64), nullable=False),
    Column("name", String(255), nullable=False),
    Column("value", Text, nullable=False),
    Column("set_at", Utc, nullable=False),
    PrimaryKeyConstraint("kind", "name"),
)

slots = Table(
    "slots",
    metadata,
    Column("node", String(255), primary_key=True),
    Column("operation", String(64), nullable=False),
    Column("run", String(64), nullable=False),
    Column("since", Utc, nullable=False),
)

slot_places = Table(
    "slot_places",
    metadata,
    Column("node", String(255), nullable=False),
    Column("place", String(255), nullable=False),
    PrimaryKeyConstraint("node", "place"),
    Index(None, "place"),
)

turns = Table(
    "turns",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("place", String(255), nullable=False),
    Column("node", String(255), nullable=False),
    Column("run", String(64), nullable=False),
    Column("at", Utc, nullable=False),
    Column("made_at", Utc, nullable=False),
    Index(None, "place", "at"),
)

tallies = Table(
    "tallies",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("place", String(255), nullable=False),
    Column("node", String(255), nullable=False),
    Column("stage", String(64), nullable=False),
    Column("ok", Boolean(create_constraint=False), nullable=False),
    Column("at", Utc, nullable=False),
    Column("run", String(64), nullable=False),
    Index(None, "place"),
    Index(None, "node"),
)

brakes = Table(
    "brakes",
    metadata,
    Column("place", String(255), primary_key=True),
    Column("open", Boolean(create_constraint=False), nullable=False),
    Column("why", Text, nullable=False),
    Column("run", String(64), nullable=False),
    Column("at", Utc, nullable=False),
)

# What one operator asks of a run that another process carries: to end.
requests = Table(
    "requests",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("what", String(64), nullable=False),
    Column("by", String(500), nullable=False),
    Column("at", Utc, nullable=False),
)

# Who typed what, when and where; also what wrote to no machine.
commands = Table(
    "commands",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("at", Utc, nullable=False),
    Column("user", String(200), nullable=False),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("verb", String(64), nullable=False),
    Column("words", Text, nullable=False),
    Index(None, "at"),
)

wanted = Table(
    "wanted",
    metadata,
    Column("node", String(255), primary_key=True),
    Column("target", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("asked_at", Utc, nullable=False),
    # The run of the worker that carries it, since when; empty while nobody does.
    Column("run", String(64)),
    Column("claimed_at", Utc),
    Column("done_at", Utc),
    Column("outcome", String(32)),
    Column("why", Text, nullable=False),
    Index(None, "done_at"),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process", String(200), nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("heartbeat_at", Utc, nullable=False),
    Column("lease_s", Float, nullable=False),
)
