"""The tables of a device's state, within one transaction: what was reported, by which responses, and which keys live.

A *value* here is a permanent response: values that share one (a hash, in LOLOHA) count once. The tag of a value is a
keyed hash under the device's secret, so the table says nothing to somebody who has it without the secret.

Each permanent response that is reported costs its own epsilon, so a metric may cap them. Past the cap a value is
replaced by the first one reported, or, on an ordered domain, by the nearest one reported, or it is dropped: then
*nothing* is reported, by one permanent response more. What is outside the domain is reported as nothing too, which
otherwise takes one of the cap's places. So whether there is a report says nothing of the value.

A metric's key is needed until the metric has ended and its last period's grace is over: reports made later are refused
by every collector. Then the metric's tags and permanent responses are blanked and its outbox rows deleted, in one
transaction, which also marks the key as destroyed; the secret file follows (`State.retire`). What stays is what a
ledger needs: how many responses there were, how many reports of each, and the cap and the attribute under which they
were made. A later registry may no longer list the metric, or may add a budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from overstory.client.outcomes import Fault, StateError
from overstory.client.state.database import select_of
from overstory.client.state.outbox import Bounds, Outbox
from overstory.protocol.metrics.period import Period

if TYPE_CHECKING:
    import sqlite3

    from overstory.privacy.terms import Terms
    from overstory.protocol.metrics import Metric

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


class Memo:
    """The table, within one transaction; what was read of a metric is not read again in it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._held: dict[str, dict[tuple[bytes, bytes], Response]] = {}  # by metric, account and tag, in order
        self._accounts: set[bytes] = set()  # with terms

    def read(self, metrics: Iterable[str]) -> None:
        """Read the responses of some metrics with one statement."""
        names = [*metrics]
        self._held |= {name: {} for name in names}
        for response in map(
            _response, select_of(self._connection, f"{_SELECT} WHERE metric IN ({{}}) {_ORDER}", names)
        ):
            self._held[response.metric][response.account, response.tag] = response
            self._accounts.add(response.account)

    def responses(self, metric: str | None = None) -> list[Response]:
        """Return all that was reported, in order of first report."""
        if metric is None:
            return [*map(_response, self._connection.execute(f"{_SELECT} {_ORDER}"))]
        return [*self._of(metric).values()]

    def _of(self, metric: str) -> dict[tuple[bytes, bytes], Response]:
        if metric not in self._held:
            self.read([metric])
        return self._held[metric]

    def distinct(self, metric: str, *, spare: bool = False) -> int:
        """Return how many permanent responses the cap counts, over all accounts; see `Metric.nothing_is_spare`."""
        return sum(not (spare and tag == NOTHING) for _, tag in self._of(metric))

    def charge(
        self,
        metric: str,
        account: bytes,
        tag: bytes,
        permanent: bytes,
        *,
        most: int | None,
        kept: bool,
        spare: bool = False,
    ) -> int | None:
        """Count a report of a permanent response; return its number, or None when it is one too many."""
        held = self._of(metric)
        response = held.get((account, tag))
        if response is None:
            place = not (spare and tag == NOTHING)
            if place and most is not None and self.distinct(metric, spare=spare) >= most:
                return None
            number = 1 + max((other.number for other in held.values()), default=-1)
            response = _response((metric, account, number, permanent, 0, 0, tag))
            self._connection.execute(
                "INSERT INTO responses VALUES (?, ?, ?, ?, ?, 0, 0)", (metric, account, number, tag, permanent)
            )
        elif response.permanent != _as_number(permanent):
            raise changed_response(metric)
        times = (response.reports + (not kept), response.kept + kept)
        self._connection.execute(
            "UPDATE responses SET reports = ?, kept = ? WHERE metric = ? AND account = ? AND tag = ?",
            (*times, metric, account, tag),
        )
        held[account, tag] = Response(metric, account, response.number, response.permanent, *times, tag)
        return response.number

    def keep_terms(self, metric: Metric) -> None:
        """Keep what an account's privacy rests on: the ledger outlives the registry."""
        if metric.account in self._accounts:
            return  # since its first response
        self._accounts.add(metric.account)
        row = self._connection.execute("SELECT 1 FROM terms WHERE account = ?", (metric.account,)).fetchone()
        if row is None:
            from overstory.privacy.payloads.registry import terms_of
            from overstory.protocol.mechanisms.base import canonical

            text = canonical(terms_of(metric.mechanism).canonical())
            self._connection.execute("INSERT INTO terms VALUES (?, ?)", (metric.account, text))

    def terms(self, account: bytes) -> Terms:
        row = self._connection.execute("SELECT terms FROM terms WHERE account = ?", (account,)).fetchone()
        return _terms(row[0])


_SELECT: Final = "SELECT metric, account, number, permanent, reports, kept, tag FROM responses"
_ORDER: Final = "ORDER BY metric, number"


def _response(row: Sequence[Any]) -> Response:
    metric, account, number, permanent, reports, kept, tag = row
    return Response(metric, account, number, _as_number(permanent), reports, kept, tag)


def _as_number(permanent: bytes) -> int | None:
    return int.from_bytes(permanent, "little") if permanent else None


@lru_cache(maxsize=64)
def _terms(text: str) -> Terms:
    import json

    from overstory.privacy.payloads.registry import terms_from_json

    return terms_from_json(json.loads(text))


def changed_response(metric: str) -> StateError:
    """Return the error for a permanent response that is not what it was."""
    return StateError(
        Fault.ALTERED, f"{metric}: a permanent response differs from the one reported before; it is reported as nothing"
    )


class Life(NamedTuple):
    """One metric's key."""

    ends: int  # unix time from which it is needed no more, by the latest end that any registry gave
    erased: bool  # whether it was destroyed


class Lifetimes:
    """The tables, within one transaction, in which the lifetimes are read once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

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


def ends_at(metric: Metric) -> int:
    """Return the unix time from which no collector takes a report of this metric any more."""
    return metric.accept_until(metric.period.number(metric.expires_at - 1))


def changes(lives: Mapping[str, Life], metrics: Mapping[str, Metric]) -> dict[str, int]:
    """Return the ends that a registry gives to stored metrics, where they differ from the stored ones."""
    ends = {name: ends_at(metrics[name]) for name, life in lives.items() if name in metrics and not life.erased}
    return {name: at for name, at in ends.items() if lives[name].ends < at}


def over(lives: Mapping[str, Life], now: float) -> frozenset[str]:
    """Return the metrics whose keys are to be destroyed."""
    return frozenset(name for name, life in lives.items() if not life.erased and life.ends <= now)


NO_CAP: Final = 0
"""What the state remembers of a metric that has had reports under no cap."""


def wider(before: int | None, now: int | None) -> int | None:
    """Return the larger of two caps; None where one of them is none."""
    return None if before is None or now is None else max(before, now)


PERIODS_KEPT: Final = 400
"""Periods remembered as reported, per metric; earlier ones are always refused."""


@dataclass(frozen=True)
class Claims:
    """Periods of a metric that have had their report, and the first that may have one, by number."""

    reported: frozenset[int]
    first: int | None
    length: int | None = None  # the period's length in seconds; None before the first report

    def by(self, period: Period) -> Claims:
        """Return the same claims in terms of the metric's present period.

        Where its length was different, every period that begins before the end of the last reported one is reported.
        """
        if self.length is None or self.length == period.seconds:
            return self
        last = max(self.reported, default=-1 if self.first is None else self.first - 1)
        end = Period(self.length).start(last + 1)
        return Claims(frozenset(), period.number(end - 1) + 1, period.seconds)


Past = tuple[Claims, list[Response]]
"""The periods and the permanent responses that a metric has reported."""

OF_METRIC: Final = ("first", "length", "kept cap", "kept attribute")
"""What `about` has of every metric, each under this word and the metric's id."""


class Rows:
    """The tables, within one transaction; what was read of a metric is not read again in it."""

    def __init__(self, connection: sqlite3.Connection, bounds: Bounds) -> None:
        self._connection, self._bounds = connection, bounds
        self.memo = Memo(connection)
        self.keys = Lifetimes(connection)
        self._periods: dict[str, set[int]] = {}  # with a report, by metric
        self._about: dict[str, str | int | float | None] = {}

    @cached_property
    def outbox(self) -> Outbox:
        return Outbox(self._connection, self._bounds)

    @property
    def fingerprint(self) -> bytes | None:
        """The fingerprint of the secret that everything here was made with."""
        row = self._connection.execute("SELECT value FROM about WHERE key = 'fingerprint'").fetchone()
        return None if row is None else bytes(row[0])

    @property
    def machine(self) -> bytes | None:
        """The hash of the id of the machine where the state was created; None without an id."""
        row = self._connection.execute("SELECT value FROM about WHERE key = 'machine'").fetchone()
        return None if row is None else bytes(row[0])

    def bind(self, machine: bytes) -> None:
        """Store the hash of another machine's id."""
        self._connection.execute("REPLACE INTO about VALUES ('machine', ?)", (machine,))

    def read(self, metrics: Iterable[str]) -> None:
        """Read what a flush asks of some metrics, with a statement for all of them and not several for each."""
        names = [*metrics]
        keys = [f"{what} {name}" for name in names for what in OF_METRIC]
        self._about |= dict.fromkeys(keys)
        self._about.update(select_of(self._connection, "SELECT key, value FROM about WHERE key IN ({})", keys))
        self._periods |= {name: set() for name in names}
        for name, period in select_of(
            self._connection, "SELECT metric, period FROM reported WHERE metric IN ({})", names
        ):
            self._periods[name].add(period)

    def claims(self, metric: str) -> Claims:
        """Return which periods of a metric have had their report."""
        first, length = self._number(f"first {metric}"), self._number(f"length {metric}")
        return Claims(frozenset(self._periods_of(metric)), first, length)

    def past(self, metric: Metric) -> Past:
        """Return what a metric has reported, in terms of its present period."""
        return self.claims(metric.id).by(metric.period), self.memo.responses(metric.id)

    def _periods_of(self, metric: str) -> set[int]:
        if metric not in self._periods:
            self.read([metric])
        return self._periods[metric]

    def claim(self, metric: Metric, period: int) -> bool:
        """Take a period of a metric for one report; return False when it has had one."""
        self._number_by(metric)
        first, periods = self._number(f"first {metric.id}") or 0, self._periods_of(metric.id)
        if period in periods or period < first:
            return False
        self._connection.execute("INSERT INTO reported VALUES (?, ?)", (metric.id, period))
        periods.add(period)
        if len(periods) > PERIODS_KEPT:
            oldest = sorted(periods)[-PERIODS_KEPT - 1]
            self._connection.execute("DELETE FROM reported WHERE metric = ? AND period <= ?", (metric.id, oldest))
            periods.difference_update([number for number in periods if number <= oldest])
            self._set(f"first {metric.id}", oldest + 1)
        return True

    def _number_by(self, metric: Metric) -> None:
        """Renumber a metric's claims by its present period; reports that wait with an old number are not sent."""
        length = self._number(f"length {metric.id}")
        if length == metric.period.seconds:
            return
        if length is not None:
            claims, before = self.claims(metric.id).by(metric.period), Period(length)
            self._connection.execute("DELETE FROM reported WHERE metric = ?", (metric.id,))
            self._periods[metric.id].clear()
            self._set(f"first {metric.id}", claims.first)
            self.outbox.renumber(metric.id, lambda number: metric.period.number(before.start(number)))
        self._set(f"length {metric.id}", metric.period.seconds)

    def _number(self, key: str) -> int | None:
        value = self._get(key)
        return None if value is None else int(value)

    def _get(self, key: str) -> str | int | float | None:
        if key not in self._about:
            row = self._connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
            self._about[key] = None if row is None else row[0]
        return self._about[key]

    def _set(self, key: str, value: str | float | None) -> None:
        self._connection.execute("REPLACE INTO about VALUES (?, ?)", (key, value))
        self._about[key] = value

    def recall(self, what: str) -> str | int | float | None:
        """Return what `remember` stored under this name."""
        return self._get(f"kept {what}")

    def remember(self, what: str, value: str | float) -> None:
        self._set(f"kept {what}", value)

    def count(self, what: str, by: int = 1) -> None:
        self._connection.execute(
            "INSERT INTO counts VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET number = number + ?2", (what, by)
        )

    def counts(self) -> dict[str, int]:
        return dict(self._connection.execute("SELECT what, number FROM counts ORDER BY what"))

    def cap_of(self, metric: str) -> int | None:
        """Return the largest cap that a metric's reports so far were made under; None where one had none."""
        return int(self.recall(f"cap {metric}") or NO_CAP) or None

    def keep(self, metric: Metric) -> None:
        """Store the cap and the attribute of a report that is about to be written."""
        cap, before = metric.max_responses, self.recall(f"cap {metric.id}")
        if before is not None:
            cap = wider(int(before) or None, cap)
        for what, value in (("cap", NO_CAP if cap is None else cap), ("attribute", metric.attribute or "")):
            if self.recall(f"{what} {metric.id}") != value:
                self.remember(f"{what} {metric.id}", value)
