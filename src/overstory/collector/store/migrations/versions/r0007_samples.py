"""PostgreSQL takes no samples of what came from devices, and forgets those that it has.

Its ANALYZE, which it also runs by itself, copied reports and batch ids into `pg_statistic`, where they outlived the
compaction that deleted them.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

COLUMNS = {
    "inbox": ("cohorts", "bits"),
    "chunks": ("cohorts", "bits"),
    "counts": ("counts",),
    "checks": ("sums",),
    "batch_ids_before": ("id",),
}


def upgrade() -> None:
    """Take no samples from now on; delete those that there are, and let the next compaction rewrite their table."""
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    days = connection.execute(sa.text("SELECT day FROM batch_ids")).scalars()
    for table, columns in {**COLUMNS, **{f"batch_ids_{day}": ("id",) for day in days}}.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")
            # The same type as before: the rows are not written again, and the samples are deleted.
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE bytea")
    op.execute(
        "INSERT INTO about (key, value) VALUES ('owed to pg_statistic', '0007') "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    )
