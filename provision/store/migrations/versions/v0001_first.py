"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OPEN = sa.text("status <> 'verified'")


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "events",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_node_id", "events", ["node", "id"], unique=False)
    op.create_index("ix_events_run_id", "events", ["run", "id"], unique=False)
    op.create_table(
        "evidence",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("part_kind", sa.String(length=32), nullable=False),
        sa.Column("part_name", sa.Text(), nullable=False),
        sa.Column("locator", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("reading", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=200), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("code", sa.String(length=200), nullable=True),
        sa.Column("severity", sa.String(length=32), nullable=False),
        sa.Column("figures", sa.Text(), nullable=False),
        sa.Column("cleared", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evidence"),
    )
    op.create_index("ix_evidence_node_id", "evidence", ["node", "id"], unique=False)
    op.create_index("ix_evidence_run", "evidence", ["run"], unique=False)
    op.create_table(
        "gaps",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("kept_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("source", sa.String(length=200), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_gaps"),
    )
    op.create_index("ix_gaps_run", "gaps", ["run"], unique=False)
    op.create_table(
        "goals",
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("image_epoch", sa.Integer(), nullable=False),
        sa.Column("raised_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", name="pk_goals"),
    )
    op.create_table(
        "pins",
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_pins"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("verb", sa.String(length=64), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("user", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process", sa.String(length=200), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exit_status", sa.Integer(), nullable=True),
        sa.Column("taken_over_by", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_started_at", "runs", ["started_at"], unique=False)
    op.create_table(
        "states",
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("stage", sa.String(length=64), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("node", name="pk_states"),
    )
    op.create_table(
        "tickets",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("dedupe_key", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_tickets"),
    )
    op.create_index("ix_tickets_node", "tickets", ["node"], unique=False)
    op.create_index(
        "uq_tickets_open", "tickets", ["dedupe_key"], unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN
    )
    op.create_table(
        "attempts",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("stage", sa.String(length=64), nullable=False),
        sa.Column("step", sa.String(length=64), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("result", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_attempts_run"),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    op.create_index("ix_attempts_node_id", "attempts", ["node", "id"], unique=False)
    op.create_index("ix_attempts_run", "attempts", ["run"], unique=False)
    op.create_table(
        "leases",
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_leases_run"),
        sa.PrimaryKeyConstraint("node", name="pk_leases"),
    )
    op.create_index("ix_leases_run", "leases", ["run"], unique=False)
    op.create_table(
        "ticket_moves",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("ticket", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["ticket"], ["tickets.number"], name="fk_ticket_moves_ticket"),
        sa.PrimaryKeyConstraint("id", name="pk_ticket_moves"),
    )
    op.create_index("ix_ticket_moves_ticket", "ticket_moves", ["ticket"], unique=False)
