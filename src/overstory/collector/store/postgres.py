"""PostgreSQL, for several collectors at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, text

from overstory.collector.store.database import Database, said
from overstory.collector.store.retention import Eraser, owe

CLAIM: Final = text(
    "INSERT INTO batch_ids (id, forget_after) "
    "SELECT * FROM unnest(CAST(:ids AS bytea[]), CAST(:until AS bigint[])) "
    "ON CONFLICT (id) DO NOTHING RETURNING id"
)

DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)

TRY_LOCK: Final = text("SELECT pg_try_advisory_lock(:number)")

MIGRATING: Final = 0x6F766572  # "over": the number under which one process at a time migrates


class PostgresDatabase(Database):
    """A database of a server; any number of processes write at once."""

    kind = "postgresql"

    def __init__(self, url: URL) -> None:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            isolation_level="READ COMMITTED",
            hide_parameters=True,  # what is stored stays out of messages and logs
            pool_pre_ping=True,  # a server that was restarted is met with new connections
            connect_args={"connect_timeout": 10, "application_name": "overstory"},
        )
        event.listen(engine, "connect", _durable)
        super().__init__(url.render_as_string(hide_password=True), engine)
        self._eraser = Eraser(self)

    def _writing(self, engine: Engine) -> Engine:
        return engine

    def claim(self, connection: Connection, forget_after: Mapping[bytes, int]) -> set[bytes]:
        """Insert all ids in one statement and in their order: two transactions then wait, and never for each other."""
        ids = sorted(forget_after)
        rows = connection.execute(CLAIM, {"ids": ids, "until": [forget_after[batch] for batch in ids]})
        return {bytes(batch) for (batch,) in rows}

    def serve_alone(self) -> None:
        """Do nothing: any number of collectors may serve one database."""

    def size(self, connection: Connection) -> int:
        """Return the size of the database."""
        size: int = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        return size

    def alone(self, connection: Connection) -> None:
        """Take an advisory lock that ends with the transaction."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": MIGRATING})

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Open a repeatable read."""
        reading = self.engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with said(self.url), reading.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def claims(self) -> Iterator[Callable[[Hashable], bool]]:
        """Take advisory locks that end with their connection."""
        with said(self.url), self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:

            def claim(thing: Hashable) -> bool:
                number = int.from_bytes(blake2b(repr(thing).encode(), digest_size=8).digest(), "big", signed=True)
                taken: bool = connection.execute(TRY_LOCK, {"number": number}).scalar_one()
                return taken

            try:
                yield claim
            finally:
                connection.execute(text("SELECT pg_advisory_unlock_all()"))

    def check_sound(self, connection: Connection) -> None:
        """Do nothing: PostgreSQL checks the checksums of its pages whenever it reads them."""

    def in_place(self) -> bool:
        """Return True: the files are the server's."""
        return True

    def checkpoint(self) -> None:
        """Do nothing: the server's checkpointer does."""

    def owe(self, connection: Connection, tables: Iterable[str]) -> None:
        """Mark the tables as owed a rewriting, by whichever process comes first."""
        owe(connection, tables)

    def erase(self, at_once: Iterable[str] = ()) -> tuple[str, ...]:
        """Rewrite the tables into new files, and batch ids in their own order."""
        with said(self.url):
            return self._eraser.erase(at_once)

    def tidy(self) -> None:
        """Do nothing: rewriting a table gives its room back, and autovacuum does."""


def _durable(raw: Any, _: Any) -> None:
    """Let a commit wait for the disk, whatever the server, the database or the role was set to; any user may."""
    with raw.cursor() as cursor:
        cursor.execute(DURABLE)
    raw.commit()  # undone with its transaction otherwise
