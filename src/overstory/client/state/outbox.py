"""The outbox: reports that wait to be sent, and a bounded memory of those that were.

It holds encoded uploads, the bytes that every attempt sends, each with its batch id; never a value. It
is bounded in rows and bytes. When it is full, the *oldest* waiting report makes room: its period is the first that the
collector closes, and a queue that nobody empties must not keep a device from ever reporting again. What was dropped
stays charged in the ledger, so that the ledger errs on the safe side, and is counted.

No time is kept but `due`, when a waiting row may be sent, which the random delay blurs; it is erased when the row is
settled. So is its batch id, by which a collector's files could be searched for the report: `batch` then says that it is
erased, and the upload has 16 zero bytes in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from overstory.client.state.database import ERASE_ID

if TYPE_CHECKING:
    import sqlite3

_COLUMNS: Final = "id, batch, metric, period, body, due, attempts, state, answer, account, response"
LONGEST_DELAY: Final = 8 * 86_400.0
"""No row is due later than this many seconds from now, unless the clock was set back."""


class RowState(StrEnum):
    """What became of a report."""

    WAITING = "waiting"  # to be sent when it is due
    SENT = "sent"  # acknowledged by the collector, or by a relay that has stored it
    DROPPED = "dropped"  # never to be sent (again): refused, made room for others, or withdrawn
    LOCAL = "local"  # recorded under the choice `local`: shown, never sent


@dataclass(frozen=True)
class Bounds:
    """How large the outbox may grow.

    Attributes
    ----------
    waiting_rows, waiting_bytes
        Reports that wait, and the bytes of their uploads.
    kept_rows
        Finished reports, stored to be shown.
    """

    waiting_rows: int = 1000
    waiting_bytes: int = 1 << 20
    kept_rows: int = 500


@dataclass(frozen=True)
class OutboxRow:
    """One report."""

    id: int  # its number on this device; not sent
    batch: bytes = field(repr=False)  # the upload's id, 16 bytes; of a finished report, text instead
    metric: str
    period: int
    body: bytes = field(repr=False)  # the upload's bytes
    due: float  # unix time from which it may be sent; 0 once finished
    attempts: int  # how often it left, or may have left
    state: RowState
    answer: str | None  # what the collector said, or why it was dropped
    account: bytes  # `Metric.account` as it was when the report was made
    response: int | None = field(default=None, repr=False)


class Outbox:
    """The table, within one transaction."""

    def __init__(self, connection: sqlite3.Connection, bounds: Bounds) -> None:
        self._connection, self._bounds = connection, bounds

    def add(
        self,
        batch: bytes,
        metric: str,
        period: int,
        body: bytes,
        *,
        account: bytes,
        due: float,
        state: RowState,
        response: int | None = None,
    ) -> None:
        """Add a report; call `trim` before the transaction ends."""
        self._connection.execute(
            "INSERT INTO outbox (batch, metric, period, body, due, attempts, state, account, response)"
            " VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)",
            (batch, metric, period, body, due if state is RowState.WAITING else 0.0, state.value, account, response),
        )

    def rows(self, metric: str | None = None, state: RowState | None = None) -> list[OutboxRow]:
        """Return the reports, oldest first."""
        where = [f"{name} = ?" for name, value in (("metric", metric), ("state", state)) if value is not None]
        values = [value for value in (metric, None if state is None else state.value) if value is not None]
        clause = f"WHERE {' AND '.join(where)}" if where else ""
        return self._select(f"{clause} ORDER BY id", values)

    def take_due(self, now: float, limit: int, lease: float) -> list[OutboxRow]:
        """Return up to `limit` waiting reports that are due, and lease them for `lease` seconds.

        A report that is due later than any delay allows has seen another clock: it is due now. An attempt counts from
        here on, in the table and not yet in what is returned: after a crash nobody knows whether the bytes had left.
        """
        due = self._select(
            "WHERE state = ? AND (due <= ? OR due > ?) ORDER BY due LIMIT ?",
            [RowState.WAITING.value, now, now + LONGEST_DELAY, limit],
        )
        for row in due:
            self._connection.execute(
                "UPDATE outbox SET due = ?, attempts = attempts + 1 WHERE id = ?", (now + lease, row.id)
            )
        return due

    def finish(self, number: int, state: RowState, answer: str | None) -> bool:
        """Say what became of a waiting report; return False when it waits no longer."""
        return self._end(state, answer, "id = ?", (number,)) == 1

    def postpone(self, number: int, due: float, attempts: int, answer: str | None) -> None:
        """Let a waiting report wait until `due`."""
        self._connection.execute(
            "UPDATE outbox SET due = ?, attempts = ?, answer = ? WHERE id = ? AND state = ?",
            (due, attempts, answer, number, RowState.WAITING.value),
        )

    def due_before(self, moment: float, metric: str | None = None) -> list[int]:
        """Return the ids of the waiting reports, all or those of a metric, that are due before a moment."""
        query = "SELECT id FROM outbox WHERE state = ?1 AND due < ?2 AND (?3 IS NULL OR metric = ?3)"
        return [number for (number,) in self._connection.execute(query, (RowState.WAITING.value, moment, metric))]

    def due_metrics(self, moment: float) -> list[str]:
        """Return the metrics of the waiting reports that are due before a moment."""
        query = "SELECT DISTINCT metric FROM outbox WHERE state = ? AND due <= ?"
        return [metric for (metric,) in self._connection.execute(query, (RowState.WAITING.value, moment))]

    def dues(self) -> list[tuple[str, float]]:
        return list(
            self._connection.execute("SELECT metric, due FROM outbox WHERE state = ?", (RowState.WAITING.value,))
        )

    def put_off(self, number: int, due: float) -> None:
        """Let a waiting report wait until `due`."""
        self._connection.execute(
            "UPDATE outbox SET due = ? WHERE id = ? AND state = ?", (due, number, RowState.WAITING.value)
        )

    def withdraw(self, to: RowState, answer: str, spared: Collection[str] = ()) -> int:
        """Withdraw every waiting report except those of the spared metrics; return how many were withdrawn."""
        return self._end(to, answer, f"metric NOT IN ({', '.join('?' * len(spared))})", spared)

    def renumber(self, metric: str, number_of: Callable[[int], int]) -> None:
        """Give the rows of a metric other numbers of periods; what waits has the earlier one in its bytes: drop it."""
        self._end(RowState.DROPPED, "the metric's periods have another length now", "metric = ?", (metric,))
        self._connection.executemany(
            "UPDATE outbox SET period = ? WHERE id = ?", [(number_of(row.period), row.id) for row in self.rows(metric)]
        )

    def _end(self, to: RowState, answer: str | None, of: str, values: Collection[str | int]) -> int:
        """End the waiting reports that a condition describes; return how many."""
        changed = self._connection.execute(
            f"UPDATE outbox SET state = ?, answer = ?, due = 0, {ERASE_ID} WHERE state = ? AND {of}",  # noqa: S608 - own words
            (to.value, answer, RowState.WAITING.value, *values),
        )
        self._forget_oldest()
        return changed.rowcount

    def tally(self) -> dict[RowState, int]:
        counts = dict(self._connection.execute("SELECT state, count(*) FROM outbox GROUP BY state"))
        return {state: counts.get(state.value, 0) for state in RowState}

    def _select(self, clause: str, values: Sequence[object]) -> list[OutboxRow]:
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM outbox {clause}", values)  # noqa: S608 - own words
        return [
            OutboxRow(number, batch, metric, period, body, due, attempts, RowState(state), *rest)
            for number, batch, metric, period, body, due, attempts, state, *rest in rows
        ]

    def trim(self) -> int:
        """Drop the oldest waiting reports until the others fit; return how many. The newest always stays."""
        waiting = self._connection.execute(
            "SELECT id, length(body) FROM outbox WHERE state = ? ORDER BY id DESC", (RowState.WAITING.value,)
        ).fetchall()
        sizes = accumulate(size for _, size in waiting)
        fitting = sum(
            place == 0 or (place < self._bounds.waiting_rows and held <= self._bounds.waiting_bytes)
            for place, held in enumerate(sizes)
        )
        self._connection.executemany(
            f"UPDATE outbox SET state = ?, answer = 'made room for newer reports', due = 0, {ERASE_ID} WHERE id = ?",  # noqa: S608
            [(RowState.DROPPED.value, number) for number, _ in waiting[fitting:]],
        )
        self._forget_oldest()
        dropped: int = len(waiting) - fitting
        return dropped

    def _forget_oldest(self) -> None:
        """Delete the oldest finished reports beyond the bound."""
        self._connection.execute(
            "DELETE FROM outbox WHERE state <> ?1 AND id <= (SELECT id FROM outbox WHERE state <> ?1"
            " ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            (RowState.WAITING.value, self._bounds.kept_rows),
        )
