"""Limits, brakes and operators that share one store."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.DateTime(timezone=True)


def _text(name: str, length: int) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=length), nullable=False)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "slots",
        _text("node", 255),
        _text("operation", 64),
        _text("run", 64),
        sa.Column("since", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("node", name="pk_slots"),
    )
    op.create_table(
        "slot_places",
        _text("node", 255),
        _text("place", 255),
        sa.PrimaryKeyConstraint("node", "place", name="pk_slot_places"),
    )
    op.create_index("ix_slot_places_place", "slot_places", ["place"], unique=False)
    op.create_table(
        "turns",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        _text("place", 255),
        _text("node", 255),
        _text("run", 64),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("made_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
    )
    op.create_index("ix_turns_place_at", "turns", ["place", "at"], unique=False)
    op.create_table(
        "tallies",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        _text("place", 255),
        _text("node", 255),
        _text("stage", 64),
        sa.Column("ok", sa.Boolean(), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        _text("run", 64),
        sa.PrimaryKeyConstraint("id", name="pk_tallies"),
    )
    op.create_index("ix_tallies_place", "tallies", ["place"], unique=False)
    op.create_index("ix_tallies_node", "tallies", ["node"], unique=False)
    op.create_table(
        "brakes",
        _text("place", 255),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        _text("run", 64),
        sa.Column("at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("place", name="pk_brakes"),
    )
    op.create_table(
        "requests",
        _text("run", 64),
        _text("what", 64),
        _text("by", 500),
        sa.Column("at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("run", name="pk_requests"),
    )
    op.create_table(
        "commands",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        _text("user", 200),
        _text("host", 255),
        sa.Column("pid", sa.Integer(), nullable=False),
        _text("verb", 64),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_commands"),
    )
    op.create_index("ix_commands_at", "commands", ["at"], unique=False)
