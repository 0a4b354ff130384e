"""The first schema.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _reports(name: str) -> None:
    op.create_table(
        name,
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("period", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("num_bits", sa.Integer, nullable=False),
        sa.Column("num_cohorts", sa.BigInteger, nullable=False),
        sa.Column("num_reports", sa.Integer, nullable=False),
        sa.Column("cohorts", sa.LargeBinary, nullable=False),
        sa.Column("bits", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(f"{name}_by_key", name, ["metric", "period", "digest"])


def upgrade() -> None:
    """Make the tables; `overstory.collector.store.schema` says what they hold."""
    op.create_table(
        "batch_ids",
        sa.Column("id", sa.LargeBinary, primary_key=True),
        sa.Column("forget_after", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    _reports("inbox")
    _reports("chunks")
    op.create_table(
        "counts",
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("period", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("counts_digest", sa.LargeBinary, nullable=False),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "metrics",
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("period_seconds", sa.Integer, nullable=False),
        sa.Column("retention_days", sa.Integer, nullable=False),
        sa.Column("counts_digest", sa.LargeBinary, nullable=False),
        sa.Column("mechanism", sa.Text, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("sha256", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("application", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("expires", sa.BigInteger),
        sa.Column("revoked", sa.BigInteger),
    )
    about = op.create_table(
        "about",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.bulk_insert(about, [{"key": "format", "value": "overstory store"}])
