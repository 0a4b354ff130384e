"""Reports and counts by the group of their devices; what was there before has none.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

KEY = ["metric", "period", "digest", "device_group"]
REPORTS = ["id", "metric", "period", "digest", "num_bits", "num_cohorts", "num_reports", "cohorts", "bits"]
COUNTS = ["metric", "period", "digest", "counts_digest", "num_reports", "counts"]


def upgrade() -> None:
    """Add the column, which is part of the keys; SQLite makes the tables again, for it cannot change a key."""
    if op.get_bind().dialect.name == "sqlite":
        for name in ("inbox", "chunks"):
            op.drop_index(f"{name}_by_key", name)
            op.rename_table(name, f"{name}_0002")
            _make_reports(name)
            # A number is never used again: folding deletes rows by their numbers.
            op.execute(
                f"INSERT INTO sqlite_sequence (name, seq) SELECT '{name}', seq FROM sqlite_sequence "  # noqa: S608 - own words
                f"WHERE name = '{name}_0002'"
            )
            _move(name, REPORTS)
        op.execute("DELETE FROM sqlite_sequence WHERE seq = 0")  # of tables that never had a row
        op.rename_table("counts", "counts_0002")
        _make_counts()
        _move("counts", COUNTS)
    else:
        for name in ("inbox", "chunks", "counts"):
            op.add_column(name, _group())
        op.drop_constraint("counts_pkey", "counts")
        op.create_primary_key("counts_pkey", "counts", KEY)
        for name in ("inbox", "chunks"):
            op.drop_index(f"{name}_by_key", name)
    for name in ("inbox", "chunks"):
        op.create_index(f"{name}_by_key", name, KEY)


def _group(*, primary: bool = False) -> sa.Column[str]:
    return sa.Column("device_group", sa.Text, primary_key=primary, nullable=False, server_default="")


def _make_reports(name: str) -> None:
    op.create_table(
        name,
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("period", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        _group(),
        sa.Column("num_bits", sa.Integer, nullable=False),
        sa.Column("num_cohorts", sa.BigInteger, nullable=False),
        sa.Column("num_reports", sa.Integer, nullable=False),
        sa.Column("cohorts", sa.LargeBinary, nullable=False),
        sa.Column("bits", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )


def _make_counts() -> None:
    op.create_table(
        "counts",
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("period", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        _group(primary=True),
        sa.Column("counts_digest", sa.LargeBinary, nullable=False),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
    )


def _move(name: str, columns: list[str]) -> None:
    listed = ", ".join(columns)
    op.execute(f"INSERT INTO {name} ({listed}) SELECT {listed} FROM {name}_0002 ORDER BY {columns[0]}")  # noqa: S608 - own words
    op.drop_table(f"{name}_0002")
