"""The device's state: a secret, and a database of what was reported and what waits.

A connection lasts for one transaction, so none is open across a fork, and every process sees the others' changes.
SQLite keeps a rollback journal and waits for the disk at every commit: a crash leaves all of a transaction or nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from overstory.client.outcomes import Fault, StateError
from overstory.client.state import database
from overstory.client.state.database import committed, connected, fork_guard, translate_errors
from overstory.client.state.files import locked, make_folder, refuse_foreign
from overstory.client.state.lifecycle import elsewhere, machine_hash, open_or_create
from overstory.client.state.lifetimes import Lifetimes
from overstory.client.state.memo import Memo
from overstory.client.state.outbox import Bounds, Outbox
from overstory.client.state.paths import StatePaths
from overstory.client.state.secret_file import DeviceSecret, read_secret
from overstory.protocol.metrics.period import Period

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric

PERIODS_KEPT: Final = 400
"""Periods remembered as reported, per metric; earlier ones are always refused."""


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
    length: int | None = None  # the period's length in seconds; None where an earlier version did not store it

    def by(self, period: Period) -> Claims:
        """Return the same claims in terms of the metric's present period.

        Where its length was different, every period that begins before the end of the last reported one counts as
        reported: a report for one hour counts for its day.
        """
        if self.length is None or self.length == period.seconds:
            return self
        last = max(self.reported, default=-1 if self.first is None else self.first - 1)
        end = Period(self.length).start(last + 1)
        return Claims(frozenset(), period.number(end - 1) + 1, period.seconds)


class Rows:
    """The tables, within one transaction."""

    def __init__(self, connection: sqlite3.Connection, bounds: Bounds) -> None:
        self._connection, self._bounds = connection, bounds
        self.memo = Memo(connection)
        self.keys = Lifetimes(connection)

    @cached_property
    def outbox(self) -> Outbox:
        """The reports that wait, and those that were sent."""
        return Outbox(self._connection, self._bounds)

    @property
    def fingerprint(self) -> bytes | None:
        """The fingerprint of the secret that everything here was made with."""
        row = self._connection.execute("SELECT value FROM about WHERE key = 'fingerprint'").fetchone()
        return None if row is None else bytes(row[0])

    @property
    def machine(self) -> bytes | None:
        """The hash of the id of the machine where the state was created; None without an id or in an older version."""
        row = self._connection.execute("SELECT value FROM about WHERE key = 'machine'").fetchone()
        return None if row is None else bytes(row[0])

    def bind(self, machine: bytes) -> None:
        """Store the hash of another machine's id."""
        self._connection.execute("REPLACE INTO about VALUES ('machine', ?)", (machine,))

    def claims(self, metric: str) -> Claims:
        """Return which periods of a metric have had their report."""
        periods = self._connection.execute("SELECT period FROM reported WHERE metric = ?", (metric,))
        return Claims(frozenset(row[0] for row in periods), self._number(f"first {metric}"), self._length(metric))

    def claim(self, metric: Metric, period: int) -> bool:
        """Take a period of a metric for one report; return False when it has had one."""
        self._number_by(metric)
        return self._claim(metric.id, period)

    def _number_by(self, metric: Metric) -> None:
        """Renumber a metric's claims by its present period; reports that wait with an old number are not sent."""
        length = self._length(metric.id)
        if length == metric.period.seconds:
            return
        if length is not None:
            claims, before = self.claims(metric.id).by(metric.period), Period(length)
            self._connection.execute("DELETE FROM reported WHERE metric = ?", (metric.id,))
            self._connection.execute("REPLACE INTO about VALUES (?, ?)", (f"first {metric.id}", claims.first))
            self.outbox.renumber(metric.id, lambda number: metric.period.number(before.start(number)))
        self._connection.execute("REPLACE INTO about VALUES (?, ?)", (f"length {metric.id}", metric.period.seconds))

    def _claim(self, metric: str, period: int) -> bool:
        first = self._number(f"first {metric}")
        if first is not None and period < first:
            return False
        taken = self._connection.execute("INSERT OR IGNORE INTO reported VALUES (?, ?)", (metric, period)).rowcount
        self._forget_periods(metric)
        return taken == 1

    def _length(self, metric: str) -> int | None:
        return self._number(f"length {metric}")

    def _number(self, key: str) -> int | None:
        row = self._connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return None if row is None else int(row[0])

    def _forget_periods(self, metric: str) -> None:
        oldest = self._connection.execute(
            "SELECT period FROM reported WHERE metric = ? ORDER BY period DESC LIMIT 1 OFFSET ?",
            (metric, PERIODS_KEPT),
        ).fetchone()
        if oldest is not None:
            self._connection.execute("DELETE FROM reported WHERE metric = ? AND period <= ?", (metric, oldest[0]))
            self._connection.execute("REPLACE INTO about VALUES (?, ?)", (f"first {metric}", oldest[0] + 1))

    def recall(self, what: str) -> str | int | float | None:
        """Return what `remember` stored under this name."""
        row = self._connection.execute("SELECT value FROM about WHERE key = ?", (f"kept {what}",)).fetchone()
        value: str | int | float | None = None if row is None else row[0]
        return value

    def remember(self, what: str, value: str | float) -> None:
        """Store a string or a number under a name."""
        self._connection.execute("REPLACE INTO about VALUES (?, ?)", (f"kept {what}", value))

    def count(self, what: str, by: int = 1) -> None:
        """Add to a counter."""
        self._connection.execute(
            "INSERT INTO counts VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET number = number + ?2", (what, by)
        )

    def counts(self) -> dict[str, int]:
        """Return the counters."""
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
        """Whether there is a database file, which may be damaged."""
        return self.paths.database.exists()

    def begin(self, timeout: float | None = None) -> DeviceSecret:
        """Create the state, or open and check the existing one; return its secret."""
        wait = self.timeout if timeout is None else timeout
        with translate_errors(self.paths.folder), fork_guard():
            make_folder(self.paths.folder)
            refuse_foreign(self.paths)
            with locked(self.paths.lock, wait) as lock:
                secret = open_or_create(self.paths, lock, wait)
        self._secret = secret
        return secret

    def release(self) -> None:
        """Forget the secret: the state that is in the folder now is accepted."""
        self._secret = None

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[Rows]:
        """Read and write in one transaction: durable when the block ends, undone when it raises."""
        wait = self.timeout if timeout is None else timeout
        path = self.paths.database
        refuse_foreign(self.paths)
        with translate_errors(path), connected(path, "rw", wait) as connection, committed(connection):
            version = database.version_of(connection)
            if version != database.VERSION:
                self._check_there(version)
                database.upgrade(connection, version)
            yield self._check_secret(Rows(connection, self.bounds))

    @contextmanager
    def snapshot(self) -> Iterator[Rows]:
        """Read one consistent snapshot; works where nothing may be written."""
        path = self.paths.database
        refuse_foreign(self.paths)
        self._roll_back()
        with translate_errors(path), connected(path, "ro", self.timeout) as connection:
            connection.execute("BEGIN")
            version = database.version_of(connection)
            if version >= database.VERSION:
                if version > database.VERSION:
                    database.upgrade(connection, version)
                yield self._check_secret(Rows(connection, self.bounds))
                return
            self._check_there(version)
            connection.execute("ROLLBACK")
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
                connection.backup(copy)
                database.upgrade(copy, version)
                yield self._check_secret(Rows(copy, self.bounds))

    def check_machine(self, rows: Rows | None = None) -> None:
        """Raise StateError where the state was created on another machine; a state without a machine id is accepted.

        Parameters
        ----------
        rows
            The transaction to look in; None: a snapshot of its own.
        """
        here = self._machine()
        if here is None or not self.exists:
            return
        with self.snapshot() if rows is None else nullcontext(rows) as tables:
            if tables.machine not in (None, here):
                raise elsewhere(self.paths.folder)

    def _machine(self) -> bytes | None:
        """Return the hash of this machine's id for this state; None without such an id, or without a secret."""
        secret = self._secret or read_secret(self.paths.secret)
        return None if secret is None else machine_hash(secret.fingerprint)

    def move_here(self) -> None:
        """Bind the state to this machine, which replaces the one where it was created."""
        here = self._machine()
        if here is not None and self.exists:
            with self.transaction() as rows:
                rows.bind(here)

    def _roll_back(self) -> None:
        """Roll back what a killed process left: a read-only connection cannot."""
        path = self.paths.database
        if os.path.exists(f"{path}-journal"):  # noqa: PTH110 - one stat for every reading
            with suppress(sqlite3.Error, StateError, OSError), connected(path, "rw", self.timeout) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _check_there(self, version: int) -> None:
        if version == 0:
            raise StateError(Fault.LOST, f"{self.paths.database}: what was reported so far is lost, or was forgotten")

    def _check_secret(self, rows: Rows) -> Rows:
        if self._secret is not None and rows.fingerprint != self._secret.fingerprint:
            raise StateError(Fault.CHANGED, f"{self.paths.folder}: this state was forgotten, and another one begun")
        return rows
