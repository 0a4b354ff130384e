"""The device's state: a secret, and a database of what was reported and what waits.

A connection lives as long as one transaction, so nothing is open across a fork, and every process sees what the others
did. SQLite keeps a rollback journal and waits for the disk at every commit: after a crash a transaction is there as a
whole or not at all.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from overstory.client.errors import Fault, StateError
from overstory.client.state import database
from overstory.client.state.database import committed, connected, saying
from overstory.client.state.files import locked, make_folder, refuse_foreign
from overstory.client.state.fork_guard import no_fork
from overstory.client.state.lifecycle import elsewhere, mark_of, open_or_create
from overstory.client.state.lifetimes import Lifetimes
from overstory.client.state.memo import Memo
from overstory.client.state.outbox import Bounds, Outbox
from overstory.client.state.paths import StatePaths
from overstory.client.state.secret_file import DeviceSecret, read_secret
from overstory.protocol.metrics.metric import Period

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric

PERIODS_KEPT: Final = 400
"""How many periods are remembered as reported, per metric; earlier ones are refused altogether."""


@dataclass(frozen=True)
class Claims:
    """Periods of a metric that have had their report, and the first that may have one.

    Attributes
    ----------
    reported, first
        Their numbers.
    """

    reported: frozenset[int]
    first: int | None
    length: int | None = None  # the seconds of the period that they number; None where an earlier version did not say

    def by(self, period: Period) -> Claims:
        """Return the same by the metric's period of now.

        Where its length was another, every period that begins before the end of the last one reported counts as
        reported: a day of which an hour had its report has had it.
        """
        if self.length is None or self.length == period.seconds:
            return self
        last = max(self.reported, default=-1 if self.first is None else self.first - 1)
        end = Period(self.length).start(last + 1)
        return Claims(frozenset(), period.number(end - 1) + 1, period.seconds)


class Rows:
    """The tables, within one transaction."""

    def __init__(self, connection: sqlite3.Connection, bounds: Bounds) -> None:
        self._connection = connection
        self.outbox = Outbox(connection, bounds)
        self.memo = Memo(connection)
        self.keys = Lifetimes(connection)

    @property
    def fingerprint(self) -> bytes | None:
        """The fingerprint of the secret that everything here was made with."""
        found = self._connection.execute("SELECT value FROM about WHERE key = 'fingerprint'").fetchone()
        return None if found is None else bytes(found[0])

    @property
    def machine(self) -> bytes | None:
        """What was kept of the machine that the state was begun on; None where it had no id, or by an older version."""
        found = self._connection.execute("SELECT value FROM about WHERE key = 'machine'").fetchone()
        return None if found is None else bytes(found[0])

    def bind(self, machine: bytes) -> None:
        """Keep the mark of another machine."""
        self._connection.execute("REPLACE INTO about VALUES ('machine', ?)", (machine,))

    def claims(self, metric: str) -> Claims:
        """Return which periods of a metric have had their report."""
        found = self._connection.execute("SELECT period FROM reported WHERE metric = ?", (metric,))
        return Claims(frozenset(row[0] for row in found), self._number(f"first {metric}"), self._length(metric))

    def claim(self, metric: Metric, period: int) -> bool:
        """Take a period of a metric for one report; return False when it has had one."""
        self._number_by(metric)
        return self._taken(metric.id, period)

    def _number_by(self, metric: Metric) -> None:
        """Number a metric's claims by its period of now; what waits with the number of another is not sent."""
        length = self._length(metric.id)
        if length == metric.period.seconds:
            return
        if length is not None:
            claims, before = self.claims(metric.id).by(metric.period), Period(length)
            self._connection.execute("DELETE FROM reported WHERE metric = ?", (metric.id,))
            self._connection.execute("REPLACE INTO about VALUES (?, ?)", (f"first {metric.id}", claims.first))
            self.outbox.renumber(metric.id, lambda number: metric.period.number(before.start(number)))
        self._connection.execute("REPLACE INTO about VALUES (?, ?)", (f"length {metric.id}", metric.period.seconds))

    def _taken(self, metric: str, period: int) -> bool:
        first = self._number(f"first {metric}")
        if first is not None and period < first:
            return False
        taken = self._connection.execute("INSERT OR IGNORE INTO reported VALUES (?, ?)", (metric, period)).rowcount
        self._forget_periods(metric)
        return taken == 1

    def _length(self, metric: str) -> int | None:
        return self._number(f"length {metric}")

    def _number(self, key: str) -> int | None:
        found = self._connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return None if found is None else int(found[0])

    def _forget_periods(self, metric: str) -> None:
        oldest = self._connection.execute(
            "SELECT period FROM reported WHERE metric = ? ORDER BY period DESC LIMIT 1 OFFSET ?",
            (metric, PERIODS_KEPT),
        ).fetchone()
        if oldest is not None:
            self._connection.execute("DELETE FROM reported WHERE metric = ? AND period <= ?", (metric, oldest[0]))
            self._connection.execute("REPLACE INTO about VALUES (?, ?)", (f"first {metric}", oldest[0] + 1))

    def recall(self, what: str) -> str | int | float | None:
        """Return what `remember` kept under this name."""
        found = self._connection.execute("SELECT value FROM about WHERE key = ?", (f"kept {what}",)).fetchone()
        value: str | int | float | None = None if found is None else found[0]
        return value

    def remember(self, what: str, value: str | float) -> None:
        """Keep a word or a number under a name."""
        self._connection.execute("REPLACE INTO about VALUES (?, ?)", (f"kept {what}", value))

    def count(self, what: str, by: int = 1) -> None:
        """Add to a tally."""
        self._connection.execute(
            "INSERT INTO counts VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET number = number + ?2", (what, by)
        )

    def counts(self) -> dict[str, int]:
        """Return the tallies."""
        return dict(self._connection.execute("SELECT what, number FROM counts ORDER BY what"))


class State:
    """One application's state on this device.

    Parameters
    ----------
    timeout
        For how many seconds to wait for other processes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     state = State(StatePaths(Path(folder) / "state"))
    ...     secret = state.begin()
    ...     with state.transaction() as rows:
    ...         rows.count("sent")
    ...     with state.snapshot() as rows:
    ...         rows.counts()
    {'sent': 1}
    """

    def __init__(self, paths: StatePaths, *, timeout: float = 1.0, bounds: Bounds | None = None) -> None:
        self.paths, self.timeout, self.bounds = paths, timeout, bounds or Bounds()
        self._secret: DeviceSecret | None = None

    def __repr__(self) -> str:
        return f"State({os.fspath(self.paths.folder)!r})"

    @property
    def exists(self) -> bool:
        """Whether there is a database, in whatever condition."""
        return self.paths.database.exists()

    def begin(self, timeout: float | None = None) -> DeviceSecret:
        """Make the state, or open and check the one that is there; return its secret."""
        wait = self.timeout if timeout is None else timeout
        with saying(self.paths.folder), no_fork():
            make_folder(self.paths.folder)
            refuse_foreign(self.paths)
            with locked(self.paths.lock, wait) as lock:
                secret = open_or_create(self.paths, lock, wait)
        self._secret = secret
        return secret

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[Rows]:
        """Read and write in one transaction: durable when the block ends, undone when it raises."""
        wait = self.timeout if timeout is None else timeout
        path = self.paths.database
        refuse_foreign(self.paths)
        with saying(path), connected(path, "rw", wait) as connection, committed(connection):
            version = database.version_of(connection)
            if version != database.VERSION:
                self._check_there(version)
                database.upgrade(connection, version)
            yield self._mine(Rows(connection, self.bounds))

    @contextmanager
    def snapshot(self) -> Iterator[Rows]:
        """Read one consistent picture; works where nothing may be written."""
        path = self.paths.database
        refuse_foreign(self.paths)
        self._roll_back()
        with saying(path), connected(path, "ro", self.timeout) as connection:
            connection.execute("BEGIN")
            version = database.version_of(connection)
            if version >= database.VERSION:
                if version > database.VERSION:
                    database.upgrade(connection, version)
                yield self._mine(Rows(connection, self.bounds))
                return
            self._check_there(version)
            connection.execute("ROLLBACK")
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
                connection.backup(copy)
                database.upgrade(copy, version)
                yield self._mine(Rows(copy, self.bounds))

    def check_machine(self) -> None:
        """Raise StateError where the state was begun on another machine; a state without a mark is accepted."""
        secret = self._secret or read_secret(self.paths.secret)
        here = None if secret is None else mark_of(secret.fingerprint)
        if here is None or not self.exists:
            return
        with self.snapshot() as rows:
            if rows.machine not in (None, here):
                raise elsewhere(self.paths.folder)

    def move_here(self) -> None:
        """Bind the state to this machine, secret, ledger and all: it replaces the one where it was begun."""
        secret = read_secret(self.paths.secret)
        here = None if secret is None else mark_of(secret.fingerprint)
        if here is not None and self.exists:
            with self.transaction() as rows:
                rows.bind(here)

    def _roll_back(self) -> None:
        """Undo what a process that was killed left half done: a connection that may only read cannot."""
        path = self.paths.database
        if os.path.exists(f"{path}-journal"):  # noqa: PTH110 - one stat for every reading
            with suppress(sqlite3.Error, StateError, OSError), connected(path, "rw", self.timeout) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _check_there(self, version: int) -> None:
        if version == 0:
            raise StateError(Fault.LOST, f"{self.paths.database}: what was reported so far is lost, or was forgotten")

    def _mine(self, rows: Rows) -> Rows:
        if self._secret is not None and rows.fingerprint != self._secret.fingerprint:
            raise StateError(Fault.CHANGED, f"{self.paths.folder}: this state was forgotten, and another one begun")
        return rows
