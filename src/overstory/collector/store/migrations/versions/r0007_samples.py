"""PostgreSQL takes no samples of what came from devices, and forgets those that it has; chunks have random ids.

Its ANALYZE, which it also runs by itself, copied reports and batch ids into `pg_statistic`, where they outlived the
compaction that deleted them. Chunks were numbered as they were written, over all metrics: beside those of an hourly
metric, the number of a weekly metric's chunk told the hour.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import secrets

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
    """Give chunks random ids; take no samples from now on, and delete those that there are."""
    connection = op.get_bind()
    _draw_ids(connection)
    if connection.dialect.name != "postgresql":
        return
    days = connection.execute(sa.text("SELECT day FROM batch_ids")).scalars()
    for table, columns in {**COLUMNS, **{f"batch_ids_{day}": ("id",) for day in days}}.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")
            # The same type as before: the rows are not written again, and the samples are deleted.
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE bytea")
    op.execute("ALTER TABLE chunks ALTER COLUMN id DROP DEFAULT")
    op.execute("DROP SEQUENCE IF EXISTS chunks_id_seq")
    for table in ("pg_statistic", "chunks"):  # the next compaction rewrites them
        op.execute(
            f"INSERT INTO about (key, value) VALUES ('owed to {table}', '0007') "  # noqa: S608 - own words
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        )


def _draw_ids(connection: sa.Connection) -> None:
    """Give each chunk a random id, but for those of a backup: its digests are of the old ids; restoring draws new."""
    if connection.execute(sa.text("SELECT count(*) FROM about WHERE key = 'digest of chunks'")).scalar():
        return
    before = list(connection.execute(sa.text("SELECT id FROM chunks")).scalars())
    secrets.SystemRandom().shuffle(before)
    for number in before:
        drawn = {"drawn": 1 + secrets.randbelow((1 << 63) - 1), "number": number}
        connection.execute(sa.text("UPDATE chunks SET id = :drawn WHERE id = :number"), drawn)
