"""What operators watch and write down: refusals, heartbeats of collectors, notes.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; `overstory.collector.store.schema` says what they hold."""
    op.create_table(
        "tallies",
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("period", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("reason", sa.Text, primary_key=True),
        sa.Column("refused", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "collectors",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("last_seen", sa.BigInteger, nullable=False),
        sa.Column("waiting", sa.BigInteger, nullable=False),
        sa.Column("commit_p95", sa.Double),
    )
    op.create_table(
        "notes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
