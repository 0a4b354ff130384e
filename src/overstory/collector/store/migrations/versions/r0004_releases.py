"""What shuffling relays released together, and what compaction counts to notice crafted reports.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; `overstory.collector.store.schema` says what they hold."""
    op.create_table(
        "releases",
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("period", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("release", sa.LargeBinary, primary_key=True),
        sa.Column("messages", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "checks",
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("period", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("device_group", sa.Text, primary_key=True, nullable=False, server_default=""),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("sums", sa.LargeBinary, nullable=False),
    )
