"""The database of a device's state, within one transaction: its tables, and the statements that read and write them.

A *value* here is a permanent response. Its tag is a keyed hash under the device's secret, so the table says nothing to
somebody who has it without the secret. When a metric's key is needed no longer, its tags and permanent responses are
blanked, its outbox rows deleted and the key marked as destroyed, in one transaction; the secret file follows
(`State.retire`). What a ledger needs stays.

The outbox holds encoded uploads, never a value, and is bounded. When it is full, the *oldest* waiting report makes
room: its period is the first that the collector closes. What was dropped stays charged in the ledger. No time is kept
but `due`, which the random delay blurs; it is erased when the row is settled, and so is its batch id, by which a
collector's files could be searched for the report: `batch` then says so, and the upload has 16 zero bytes in its place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from overstory.client.outcomes import Fault, StateError, of_other_version
from overstory.protocol.metrics.period import MONDAY, WEEK, YEAR, Period

if TYPE_CHECKING:
    from overstory.privacy.terms import Terms
    from overstory.protocol.metrics import Metric

PAGE: Final = 1024
"""Bytes of a page: a report changes one in each of eight tables and indexes, and each is written twice."""
VERSION: Final = 1
TABLES: Final = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # One report per period and metric: the primary key is the promise. Rows by another length, in seconds, that a
    # metric's periods had before count for panels and yearly budgets alone.
    """CREATE TABLE reported (
        metric TEXT, length INTEGER, period INTEGER, account BLOB NOT NULL, kept INTEGER NOT NULL,
        PRIMARY KEY (metric, length, period)) WITHOUT ROWID""",
    # One row per permanent response that was reported; `tag` is a keyed hash, so no value is here.
    """CREATE TABLE responses (
        metric TEXT NOT NULL, account BLOB NOT NULL, number INTEGER NOT NULL, tag BLOB NOT NULL,
        permanent BLOB NOT NULL, reports INTEGER NOT NULL, kept INTEGER NOT NULL,
        PRIMARY KEY (metric, account, tag), UNIQUE (metric, number)) WITHOUT ROWID""",
    # What an account's privacy rests on: the ledger outlives the registry.
    "CREATE TABLE terms (account BLOB PRIMARY KEY, terms TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT, batch BLOB NOT NULL UNIQUE, metric TEXT NOT NULL, account BLOB NOT NULL,
        period INTEGER NOT NULL, body BLOB NOT NULL, due REAL NOT NULL, attempts INTEGER NOT NULL, state TEXT NOT NULL,
        answer TEXT, response INTEGER)""",
    "CREATE INDEX outbox_by_state ON outbox (state, due)",
    "CREATE TABLE counts (what TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID",
    # When each metric's key may go.
    """CREATE TABLE keys (
        metric TEXT PRIMARY KEY, ends INTEGER NOT NULL, erased INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
)


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there; a state of another version is refused."""
    try:
        row = connection.execute("SELECT value FROM about WHERE key = 'schema'").fetchone()
    except sqlite3.OperationalError:  # no table, or none that can be read: then this raises again
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
            raise
        return False
    if row is None or not isinstance(row[0], int):
        raise StateError(Fault.DAMAGED, "state.db does not say which version it has")
    if row[0] != VERSION:
        raise of_other_version("state.db", row[0], VERSION)
    return True


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, in the caller's transaction."""
    for statement in TABLES:
        connection.execute(statement)
    connection.execute("INSERT INTO about VALUES ('schema', ?)", (VERSION,))


TAG_BYTES: Final = 16
NEAREST_STEPS: Final = 4096
"""How far to look for the nearest value reported; past that, a value beyond the cap is reported as the first one."""

ALL_VALUES: Final = bytes(TAG_BYTES)
"""The tag of the one row of a metric whose noise is all fresh: it has no permanent responses, only reports."""

NOTHING: Final = b"nothing".ljust(TAG_BYTES, b"\0")
"""The tag of the permanent response to no value, whatever the secret: no value's keyed hash is this."""


@dataclass(frozen=True)
class Response:
    """A permanent response that was reported."""

    metric: str  # the metric's id
    account: bytes  # `Metric.account`
    number: int  # in order of the metric's first reports, from 0
    permanent: int | None = field(repr=False)  # None where it was erased, and where all noise is fresh
    reports: int  # how often it was queued for sending: what the ledger charges
    kept: int  # how often it was recorded under the choice `local`: never sent
    tag: bytes = field(repr=False, default=b"")


class Life(NamedTuple):
    """One metric's key."""

    ends: int  # unix time from which it is needed no more, by the latest end that any registry gave
    erased: bool  # whether it was destroyed


def ends_at(metric: Metric) -> int:
    """Return the unix time from which no collector takes a report of this metric any more."""
    return metric.accept_until(metric.period.number(metric.expires_at - 1))


PERIODS_KEPT: Final = 400  # periods remembered as reported, per metric; earlier ones are always refused


@dataclass(frozen=True)
class Claims:
    """Periods of a metric that have had their report, and the first that may have one, by number."""

    reported: frozenset[int]
    first: int | None
    length: int | None = None  # the period's length in seconds; None before the first report

    def by(self, period: Period) -> Claims:
        """Return the claims by the present period: all that begins before the end of the last one is reported."""
        if self.length is None or self.length == period.seconds:
            return self
        last = max(self.reported, default=-1 if self.first is None else self.first - 1)
        end = Period(self.length).start(last + 1)
        return Claims(frozenset(), period.number(end - 1) + 1, period.seconds)


Past = tuple[Claims, list[Response]]  # the periods and the permanent responses that a metric has reported

OF_METRIC: Final = ("first", "length", "kept attribute")
"""What `about` has of every metric, each under this word and the metric's id."""
_RESPONSES: Final = "SELECT metric, account, number, permanent, reports, kept, tag FROM responses"


class Rows:
    """The tables, within one transaction; what was read of a metric is not read again in it."""

    def __init__(self, connection: sqlite3.Connection, bounds: Bounds) -> None:
        self._connection, self.outbox = connection, Outbox(connection, bounds)
        self._about: dict[str, Any] = {}
        self._periods: dict[str, set[int]] = {}  # with a report, by metric
        self._responses: dict[str, dict[tuple[bytes, bytes], Response]] = {}  # by metric, account and tag, in order
        self._accounts: set[bytes] = set()  # with terms

    def read(self, metrics: Iterable[str]) -> None:
        """Read what a flush asks of some metrics, with a statement for all of them and not several for each."""
        names = [*metrics]
        keys = [f"{what} {name}" for name in names for what in OF_METRIC]
        self._about |= dict.fromkeys(keys)
        self._about.update(self._select("SELECT key, value FROM about WHERE key IN ({})", keys))
        self._periods |= {name: set() for name in names}
        for name, length, period in self._select(
            "SELECT metric, length, period FROM reported WHERE metric IN ({})", names
        ):
            if length == self._about[f"length {name}"]:
                self._periods[name].add(period)
        self._responses |= {name: {} for name in names}
        found = self._select(f"{_RESPONSES} WHERE metric IN ({{}}) ORDER BY metric, number", names)
        for response in map(_response, found):
            self._responses[response.metric][response.account, response.tag] = response
            self._accounts.add(response.account)

    def _select(self, query: str, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query whose ``IN ({})`` takes any number of names: SQLite may take 999 at once."""
        for first in range(0, len(names), 500):
            some = names[first : first + 500]
            yield from self._connection.execute(query.format(", ".join("?" * len(some))), some)

    def past(self, metric: Metric) -> Past:
        return self.claims(metric.id).by(metric.period), self.responses(metric.id)

    # --- about the device, and what is remembered -----------------------------------------------------------------

    @property
    def fingerprint(self) -> bytes | None:
        """The fingerprint of the secret that everything here was made with."""
        value: bytes | None = self._get("fingerprint")
        return value

    @property
    def machine(self) -> bytes | None:
        """The hash of the id of the machine where the state was created; None without an id."""
        value: bytes | None = self._get("machine")
        return value

    def bind(self, machine: bytes) -> None:
        self._set("machine", machine)

    def _get(self, key: str) -> Any:
        if key not in self._about:
            row = self._connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
            self._about[key] = None if row is None else row[0]
        return self._about[key]

    def _set(self, key: str, value: str | float | bytes | None) -> None:
        self._connection.execute("REPLACE INTO about VALUES (?, ?)", (key, value))
        self._about[key] = value

    def recall(self, what: str) -> str | int | float | None:
        value: str | int | float | None = self._get(f"kept {what}")
        return value

    def remember(self, what: str, value: str | float) -> None:
        self._set(f"kept {what}", value)

    def count(self, what: str, by: int = 1) -> None:
        self._connection.execute(
            "INSERT INTO counts VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET number = number + ?2", (what, by)
        )

    def counts(self) -> dict[str, int]:
        return dict(self._connection.execute("SELECT what, number FROM counts ORDER BY what"))

    def keep(self, metric: Metric) -> None:
        """Store what a later registry may no longer say: the attribute, the account's terms, the key's end."""
        if self.recall(f"attribute {metric.id}") != (metric.attribute or ""):
            self.remember(f"attribute {metric.id}", metric.attribute or "")
        self.extend(metric.id, ends_at(metric))
        if metric.account in self._accounts:
            return  # since its first response
        self._accounts.add(metric.account)
        if self._connection.execute("SELECT 1 FROM terms WHERE account = ?", (metric.account,)).fetchone() is None:
            from overstory.privacy.terms import metric_terms
            from overstory.protocol.kinds.base import canonical

            text = canonical(metric_terms(metric).canonical())
            self._connection.execute("INSERT INTO terms VALUES (?, ?)", (metric.account, text))

    # --- periods --------------------------------------------------------------------------------------------------

    def claims(self, metric: str) -> Claims:
        first, length = self._get(f"first {metric}"), self._get(f"length {metric}")
        return Claims(frozenset(self._periods_of(metric)), first, length)

    def _periods_of(self, metric: str) -> set[int]:
        if metric not in self._periods:
            self.read([metric])
        return self._periods[metric]

    def claim(self, metric: Metric, period: int, *, kept: bool) -> bool:
        """Take a period for one report; False when it has had one. None of the year before is forgotten."""
        self._number_by(metric)
        first, periods = self._get(f"first {metric.id}") or 0, self._periods_of(metric.id)
        if period in periods or period < first:
            return False
        length, year = metric.period.seconds, metric.period.number(metric.period.start(period) - YEAR)
        row = (metric.id, length, period, metric.account, kept)
        self._connection.execute("INSERT INTO reported VALUES (?, ?, ?, ?, ?)", row)
        periods.add(period)
        if len(periods) > PERIODS_KEPT:
            oldest = min(sorted(periods)[-PERIODS_KEPT - 1], year - 1)
            self._connection.execute(
                "DELETE FROM reported WHERE metric = ? AND length = ? AND period <= ?", (metric.id, length, oldest)
            )
            periods.difference_update([number for number in periods if number <= oldest])
            self._set(f"first {metric.id}", oldest + 1)
        return True

    def _number_by(self, metric: Metric) -> None:
        """Renumber a metric's claims by its present period; reports that wait with an old number are not sent."""
        length = self._get(f"length {metric.id}")
        if length == metric.period.seconds:
            return
        if length is not None:
            claims, before = self.claims(metric.id).by(metric.period), Period(length)
            self._periods[metric.id].clear()
            self._set(f"first {metric.id}", claims.first)
            self.outbox.renumber(metric.id, lambda number: metric.period.number(before.start(number)))
        self._set(f"length {metric.id}", metric.period.seconds)

    # --- permanent responses --------------------------------------------------------------------------------------

    def responses(self, metric: str | None = None) -> list[Response]:
        if metric is None:
            return [*map(_response, self._connection.execute(f"{_RESPONSES} ORDER BY metric, number"))]
        return [*self._responses_of(metric).values()]

    def _responses_of(self, metric: str) -> dict[tuple[bytes, bytes], Response]:
        if metric not in self._responses:
            self.read([metric])
        return self._responses[metric]

    def charge(self, metric: Metric, tag: bytes, permanent: bytes, *, most: int | None, kept: bool) -> int | None:
        """Count a report of a permanent response; None where it is one too many, or not the one reported before."""
        held, account, spare = self._responses_of(metric.id), metric.account, metric.nothing_is_spare
        response = held.get((account, tag))
        if response is None:
            # The cap counts the responses of all accounts, and nothing only where it is not spare.
            counted = [other for _, other in held if not (spare and other == NOTHING)]
            if most is not None and len(counted) >= most and not (spare and tag == NOTHING):
                return None
            number = 1 + max((other.number for other in held.values()), default=-1)
            response = _response((metric.id, account, number, permanent, 0, 0, tag))
            self._connection.execute(
                "INSERT INTO responses VALUES (?, ?, ?, ?, ?, 0, 0)", (metric.id, account, number, tag, permanent)
            )
        elif response.permanent != _as_number(permanent):
            return None
        times = (response.reports + (not kept), response.kept + kept)
        self._connection.execute(
            "UPDATE responses SET reports = ?, kept = ? WHERE metric = ? AND account = ? AND tag = ?",
            (*times, metric.id, account, tag),
        )
        held[account, tag] = Response(metric.id, account, response.number, response.permanent, *times, tag)
        return response.number

    def reports_since(self, moment: float) -> list[tuple[str, bytes, int]]:
        """Return (metric, account, number) of the reports queued for sending whose period lasted past a moment."""
        query = (
            "SELECT metric, account, count(*) FROM reported WHERE kept = 0"
            " AND (period + 1) * length - (length = ?1) * ?2 > ?3 GROUP BY metric, account"
        )
        return [*self._connection.execute(query, (WEEK, MONDAY, moment))]

    def terms(self, account: bytes) -> Terms:
        row = self._connection.execute("SELECT terms FROM terms WHERE account = ?", (account,)).fetchone()
        return _terms(row[0])

    # --- keys -----------------------------------------------------------------------------------------------------

    @cached_property
    def lives(self) -> dict[str, Life]:
        rows = self._connection.execute("SELECT metric, ends, erased FROM keys")
        return {metric: Life(ends, bool(erased)) for metric, ends, erased in rows}

    def erased(self) -> frozenset[str]:
        """Return the metrics whose keys were destroyed, or are to be as soon as the secret file can be written."""
        return frozenset(name for name, life in self.lives.items() if life.erased)

    def extend(self, metric: str, ends: int) -> None:
        """Store when a metric's key may be destroyed; an end earlier than the stored one changes nothing."""
        life = self.lives.get(metric)
        if life is None or life.ends < ends:
            self._connection.execute(
                "INSERT INTO keys (metric, ends) VALUES (?1, ?2) ON CONFLICT (metric) DO UPDATE SET ends = ?2",
                (metric, ends),
            )
            self.lives[metric] = Life(ends, life is not None and life.erased)

    def _later_ends(self, metrics: Mapping[str, Metric]) -> dict[str, int]:
        living = {name: life.ends for name, life in self.lives.items() if name in metrics and not life.erased}
        return {name: at for name, ends in living.items() if ends < (at := ends_at(metrics[name]))}

    def _over(self, now: float) -> frozenset[str]:
        return frozenset(name for name, life in self.lives.items() if not life.erased and life.ends <= now)

    def has_news(self, metrics: Mapping[str, Metric], now: float) -> bool:
        return bool(self._later_ends(metrics) or self._over(now))

    def retire(self, metrics: Mapping[str, Metric], now: float) -> frozenset[str]:
        """Take over the ends that a registry gives; erase the metrics that are over, and return them."""
        for name, ends in self._later_ends(metrics).items():
            self.extend(name, ends)
        ended = self._over(now)
        for name in ended:
            self.erase(name)
        return ended

    def erase(self, metric: str) -> None:
        """Forget everything that a value of this metric could be tested against, and mark its key as destroyed."""
        self._connection.execute("UPDATE keys SET erased = 1 WHERE metric = ?", (metric,))
        self.lives[metric] = self.lives[metric]._replace(erased=True)
        self._connection.execute(
            "UPDATE responses SET permanent = x'', tag = CASE WHEN tag IN (?2, ?3) THEN tag"
            " ELSE CAST('erased ' || number AS BLOB) END WHERE metric = ?1",
            (metric, ALL_VALUES, NOTHING),  # tags of no value in particular
        )
        self._connection.execute("DELETE FROM outbox WHERE metric = ?", (metric,))


def _response(row: Sequence[Any]) -> Response:
    metric, account, number, permanent, reports, kept, tag = row
    return Response(metric, account, number, _as_number(permanent), reports, kept, tag)


def _as_number(permanent: bytes) -> int | None:
    return int.from_bytes(permanent, "little") if permanent else None


@lru_cache(maxsize=64)
def _terms(text: str) -> Terms:
    import json

    from overstory.privacy.terms import terms_from_json

    return terms_from_json(json.loads(text))


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
    """How large the outbox may grow."""

    waiting_rows: int = 1000  # reports that wait to be sent, at most
    waiting_bytes: int = 1 << 20  # bytes of the uploads of these reports, at most
    kept_rows: int = 500  # finished reports, stored to be shown


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


_COLUMNS: Final = "id, batch, metric, period, body, due, attempts, state, answer, account, response"
ERASE_ID: Final = (
    "batch = CAST('erased ' || id AS BLOB),"
    " body = CASE WHEN length(body) < 24 THEN body"
    " ELSE CAST(substr(body, 1, 8) || zeroblob(16) || substr(body, 25) AS BLOB) END"
)
"""What takes the batch id out of a row of the outbox, and out of the upload in it."""


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
            (batch, metric, period, body, due if state is RowState.WAITING else 0.0, state, account, response),
        )

    def rows(self, metric: str | None = None, state: RowState | None = None) -> list[OutboxRow]:
        where = [f"{name} = ?" for name, value in (("metric", metric), ("state", state)) if value is not None]
        values = [value for value in (metric, state) if value is not None]
        clause = f"WHERE {' AND '.join(where)}" if where else ""
        return self._select(f"{clause} ORDER BY id", values)

    def take_due(self, now: float, limit: int, lease: float) -> list[OutboxRow]:
        """Return up to `limit` reports that are due, leased for `lease` seconds; each counts as an attempt."""
        due = self._select(
            "WHERE state = ? AND (due <= ? OR due > ?) ORDER BY due LIMIT ?",
            [RowState.WAITING, now, now + LONGEST_DELAY, limit],
        )
        for row in due:
            self._connection.execute(
                "UPDATE outbox SET due = ?, attempts = attempts + 1 WHERE id = ?", (now + lease, row.id)
            )
        return due

    def finish(self, number: int, state: RowState, answer: str | None) -> bool:
        """Say what became of a waiting report; return False when it waits no longer."""
        return self._end(state, answer, "id = ?", (number,)) == 1

    def postpone(self, number: int, due: float, attempts: int | None = None, answer: str | None = None) -> None:
        """Let a waiting report wait until `due`; what is None of the others stays as it is."""
        self._connection.execute(
            "UPDATE outbox SET due = ?1, attempts = coalesce(?2, attempts), answer = coalesce(?3, answer)"
            " WHERE id = ?4 AND state = ?5",
            (due, attempts, answer, number, RowState.WAITING),
        )

    def due_before(self, moment: float, metric: str | None = None) -> list[int]:
        query = "SELECT id FROM outbox WHERE state = ?1 AND due < ?2 AND (?3 IS NULL OR metric = ?3)"
        return [number for (number,) in self._connection.execute(query, (RowState.WAITING, moment, metric))]

    def due_metrics(self, moment: float) -> list[str]:
        query = "SELECT DISTINCT metric FROM outbox WHERE state = ? AND due <= ?"
        return [metric for (metric,) in self._connection.execute(query, (RowState.WAITING, moment))]

    def dues(self) -> list[tuple[str, float]]:
        return list(self._connection.execute("SELECT metric, due FROM outbox WHERE state = ?", (RowState.WAITING,)))

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
        changed = self._connection.execute(
            f"UPDATE outbox SET state = ?, answer = ?, due = 0, {ERASE_ID} WHERE state = ? AND {of}",  # noqa: S608 - own words
            (to, answer, RowState.WAITING, *values),
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
            "SELECT id, length(body) FROM outbox WHERE state = ? ORDER BY id DESC", (RowState.WAITING,)
        ).fetchall()
        sizes = accumulate(size for _, size in waiting)
        fitting = sum(
            place == 0 or (place < self._bounds.waiting_rows and held <= self._bounds.waiting_bytes)
            for place, held in enumerate(sizes)
        )
        if fitting == len(waiting):
            self._forget_oldest()
            return 0
        newest, _ = waiting[fitting]
        return self._end(RowState.DROPPED, "made room for newer reports", "id <= ?", (newest,))

    def _forget_oldest(self) -> None:
        self._connection.execute(
            "DELETE FROM outbox WHERE state <> ?1 AND id <= (SELECT id FROM outbox WHERE state <> ?1"
            " ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            (RowState.WAITING, self._bounds.kept_rows),
        )
