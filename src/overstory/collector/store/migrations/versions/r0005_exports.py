"""Which reports were exported and imported; the chunks of one export have its id.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables and the column; `overstory.collector.store.schema` says what they hold."""
    op.add_column("chunks", sa.Column("export_id", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "exports",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("destination", sa.Text, primary_key=True),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("period", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("device_group", sa.Text, nullable=False, server_default=""),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
    )
    op.create_table(
        "imports",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("row_groups", sa.Integer, nullable=False),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
    )
