"""Batch ids have a table for each day; those that were accepted before stay together, and are looked up there.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rename the table of ids, so that a collector of before, which may run still, can accept nothing into it."""
    op.rename_table("batch_ids", "batch_ids_before")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER INDEX batch_ids_pkey RENAME TO batch_ids_before_pkey")
    op.create_table(
        "batch_ids",
        sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("forget_after", sa.BigInteger, nullable=False),
    )
    # What was noted about the table under its name of before: a backup's digest; when it was rewritten is forgotten.
    op.execute("UPDATE about SET key = 'digest of batch_ids_before' WHERE key = 'digest of batch_ids'")
    op.execute("DELETE FROM about WHERE key IN ('owed to batch_ids', 'rest of batch_ids')")
