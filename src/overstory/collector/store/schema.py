"""The tables, the same in SQLite and PostgreSQL.

    batch_ids   of which days batches were accepted, and until when their ids are remembered; see `ids_table`
    inbox       reports as they came, merged per transaction: not counted yet
    chunks      reports already counted, shuffled within (metric, period, digest, group); under random ids
    counts      support counts per (metric, period, digest, group) of all that is in chunks, and how many reports came;
                past retention, fewer are in the counts that stay. Beside them, as long as the reports are stored, what
                was summed of them to notice crafted ones
    metrics     what a mechanism's digest stands for, so that counting and retention need no registry
    tokens      SHA-256 of bearer tokens
    about       facts about the store itself, under the keys below
    tallies     how much was refused and why: by day, or by metric and the metric's period
    collectors  the last heartbeat of each collecting process
    notes       what an operator or analyst wrote down about a day
    releases    how many new messages of a metric and period each release of a shuffling relay held

For each day of `batch_ids` there is one more table, of ids and nothing else. Nothing joins them to reports: they have
no number, no time of arrival, no metric, and in SQLite no row id.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    and_,
    event,
    func,
    select,
    text,
    update,
)

from overstory.collector.settings import DAY

SCHEMA: Final = 1  # the number of the schema that this program reads and writes; a store of another one is refused

METADATA: Final = MetaData()

UNSAMPLED: Final = {"unsampled": True}
"""What a column says of itself whose values come from devices. For its planner, PostgreSQL copies samples of a column's
values into a table of its own, `pg_statistic`, where they stay when their rows are deleted: not of these columns."""

_ROW_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def random_id() -> int:
    """Return a chunk's id: numbered as they are written, chunks would show their order over all metrics."""
    return 1 + secrets.randbelow((1 << 63) - 1)


def _without_samples(table: Table) -> Table:
    """Let PostgreSQL take no samples of the table's unsampled columns, from the transaction on that makes the table."""
    changes = ", ".join(f"ALTER COLUMN {column.name} SET STATISTICS 0" for column in table.columns if column.info)

    def change(_: Table, connection: Connection, **_options: object) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"ALTER TABLE {table.name} {changes}"))

    event.listen(table, "after_create", change)
    return table


def _key(*, primary: bool = False) -> tuple[Column[str], Column[int], Column[bytes], Column[str]]:
    return (
        Column("metric", Text, primary_key=primary, nullable=False),
        Column("period", Integer, primary_key=primary, nullable=False, autoincrement=False),
        Column("digest", LargeBinary, primary_key=primary, nullable=False),
        # Empty: the upload named no group.
        Column("device_group", Text, primary_key=primary, nullable=False, server_default=""),
    )


def _reports(name: str, number: Column[int]) -> Table:
    table = Table(
        name,
        METADATA,
        number,
        *_key(),
        Column("num_bits", Integer, nullable=False),
        Column("num_cohorts", BigInteger, nullable=False),
        Column("num_reports", Integer, nullable=False),
        Column("cohorts", LargeBinary, nullable=False, info=UNSAMPLED),
        Column("bits", LargeBinary, nullable=False, info=UNSAMPLED),
        Index(f"{name}_by_key", "metric", "period", "digest", "device_group"),
        # A number is never used again: folding deletes rows by their numbers, and must not meet others under them.
        sqlite_autoincrement=True,
    )
    return _without_samples(table)


def put_row(connection: Connection, table: Table, key: Mapping[str, Any], **values: Any) -> None:
    """Change the row that has this key, or make it; the caller keeps others from making it at the same time."""
    of_key = and_(*(table.c[name] == value for name, value in key.items()))
    if not connection.execute(update(table).where(of_key).values(values)).rowcount:
        connection.execute(table.insert(), [{**key, **values}])


def read_fact(connection: Connection, key: str) -> str | None:
    """Return a fact about the store itself, by its key in the table `about`; None where it is not stored."""
    return connection.execute(select(ABOUT.c.value).where(ABOUT.c.key == key)).scalar()


BATCH_IDS: Final = Table(
    "batch_ids",
    METADATA,
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("forget_after", BigInteger, nullable=False),
)


def day_of_ids(ends: int) -> int:
    """Return the first day, counted from 1970, that begins when a period is over which ends at this unix time."""
    return -(-ends // DAY)


def ids_table_name(day: int) -> str:
    """Return the name of the table of `ids_table`."""
    return f"{BATCH_IDS.name}_{day}"


@lru_cache(maxsize=1024)
def ids_table(day: int) -> Table:
    """Return the table of ids of a day, which follows from a batch's own bytes: sent again, it meets its id there."""
    table = Table(
        ids_table_name(day),
        MetaData(),
        Column("id", LargeBinary, primary_key=True, info=UNSAMPLED),
        sqlite_with_rowid=False,
    )
    return _without_samples(table)


def read_id_days(connection: Connection) -> dict[int, int]:
    """Return the days that have a table of ids, in order, and after which time each table is dropped.

    On PostgreSQL, none is dropped before this transaction has ended.
    """
    return {row.day: row.forget_after for row in connection.execute(select(BATCH_IDS).order_by(BATCH_IDS.c.day))}


def count_ids(connection: Connection) -> int:
    """Return the number of ids that are remembered."""
    counts = (select(func.count()).select_from(ids_table(day)) for day in read_id_days(connection))
    return sum(connection.execute(count).scalar_one() for count in counts)


INBOX: Final = _reports("inbox", Column("id", _ROW_NUMBER, primary_key=True))
CHUNKS: Final = _reports("chunks", Column("id", _ROW_NUMBER, primary_key=True, autoincrement=False, default=random_id))

COUNTS: Final = _without_samples(
    Table(
        "counts",
        METADATA,
        *_key(primary=True),
        Column("counts_digest", LargeBinary, nullable=False),
        Column("num_reports", BigInteger, nullable=False),
        Column("counts", LargeBinary, nullable=False, info=UNSAMPLED),
        Column("sums", LargeBinary, info=UNSAMPLED),
    )
)

METRICS: Final = Table(
    "metrics",
    METADATA,
    Column("metric", Text, primary_key=True),
    Column("digest", LargeBinary, primary_key=True),
    Column("period_seconds", Integer, nullable=False),
    Column("retention_days", Integer, nullable=False),
    Column("counts_digest", LargeBinary, nullable=False),
    Column("mechanism", Text, nullable=False),
)

TOKENS: Final = Table(
    "tokens",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("sha256", LargeBinary, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("application", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Column("revoked", BigInteger),
)

ABOUT: Final = Table("about", METADATA, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

TALLIES: Final = Table(
    "tallies",
    METADATA,
    # Empty: `period` is a day, counted from 1970. Never a day with a metric: its period may be a week.
    Column("metric", Text, primary_key=True),
    Column("period", Integer, primary_key=True, autoincrement=False),
    Column("reason", Text, primary_key=True),
    Column("refused", BigInteger, nullable=False),
)

COLLECTORS: Final = Table(
    "collectors",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Column("waiting", BigInteger, nullable=False),
)

NOTES: Final = Table(
    "notes",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("metric", Text, nullable=False),  # empty: all metrics
    Column("day", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
)

RELEASES: Final = Table(
    "releases",
    METADATA,
    Column("metric", Text, primary_key=True),
    Column("period", Integer, primary_key=True, autoincrement=False),
    # Drawn by the relay for all messages that it released together. Empty: how many reports came in all releases.
    Column("release", LargeBinary, primary_key=True),
    Column("messages", BigInteger, nullable=False),
)

OF_REPORTS: Final = (CHUNKS.name, COUNTS.name)
"""The tables that retention deletes from. Of sums of pairs none stay: of few reports they are the reports."""

# Keys of the table `about`. A key that ends in a space is followed by the name of a table.

IDS_DELETED: Final = "forgotten"  # the last day, counted from 1970, on which expired batch ids were deleted
SCHEMA_NUMBER: Final = "schema"  # the number of the schema; see `SCHEMA`


DELETED_FROM: Final = "owed to "
"""A mark of the last transaction that deleted rows from the table; empty once the table was rewritten."""

REWRITTEN: Final = "rest of "
"""When the table was last rewritten, until when it is not rewritten again (both by the server's clock), and why
rewriting failed, if it did."""

STORE_ID: Final = "store"  # a random id that manifests name; a backup and what is restored from it have the same
