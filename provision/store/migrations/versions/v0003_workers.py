"""Workers, and what they are wanted for."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables."""
    op.add_column("runs", sa.Column("lease_s", sa.Float(), nullable=True))
    op.create_table(
        "wanted",
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("asked_at", _TIME, nullable=False),
        sa.Column("run", sa.String(length=64), nullable=True),
        sa.Column("claimed_at", _TIME, nullable=True),
        sa.Column("done_at", _TIME, nullable=True),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", name="pk_wanted"),
    )
    op.create_index("ix_wanted_done_at", "wanted", ["done_at"], unique=False)
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process", sa.String(length=200), nullable=False),
        sa.Column("started_at", _TIME, nullable=False),
        sa.Column("heartbeat_at", _TIME, nullable=False),
        sa.Column("lease_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
