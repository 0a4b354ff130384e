"""How long each metric's key lives: the rows of `keys` and `legacy`, and what goes when a key does.

A key is needed until the metric has ended and its last period's grace is over: reports made later are refused by every
collector. Then the metric's tags and permanent responses are blanked and its outbox rows deleted, here, in one
transaction, which also marks the key as destroyed; the secret file follows (`overstory.client.state.lifecycle`). What
stays is what a ledger needs: how many responses there were, how many reports of each, and the cap and the attribute
under which they were made. A later registry may no longer list the metric, or may add a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from overstory.client.state.memo import ALL_VALUES, LEGACY, NOTHING

if TYPE_CHECKING:
    import sqlite3

    from overstory.client.state.memo import Memo
    from overstory.client.state.state import Rows, State
    from overstory.protocol.metrics import Metric

Account = tuple[str, bytes]
"""A metric's id, and the digest of a mechanism that it was reported by."""

COPIED: Final = "copied"
"""The name under which a state remembers that a copy of it has sent a report too."""


@dataclass(frozen=True)
class Life:
    """One metric's key.

    Attributes
    ----------
    ends
        The unix time from which it is needed no more, by the latest end that any registry gave the metric; None while
        no registry was seen that lists it.
    """

    ends: int | None
    erased: bool  # whether it was destroyed


class Lifetimes:
    """The tables, within one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def lives(self) -> dict[str, Life]:
        """Return the stored lifetimes, by metric."""
        rows = self._connection.execute("SELECT metric, ends, erased FROM keys")
        return {metric: Life(ends, bool(erased)) for metric, ends, erased in rows}

    def erased(self) -> frozenset[str]:
        """Return the metrics whose keys were destroyed, or are to be as soon as the secret file can be written."""
        return frozenset(row[0] for row in self._connection.execute("SELECT metric FROM keys WHERE erased"))

    def extend(self, metric: str, ends: int) -> None:
        """Store when a metric's key may be destroyed; an end earlier than the stored one changes nothing."""
        self._connection.execute(
            "INSERT INTO keys (metric, ends) VALUES (?1, ?2) ON CONFLICT (metric) DO UPDATE SET ends = ?2"
            " WHERE ends IS NULL OR ends < ?2",
            (metric, ends),
        )

    def erase(self, metric: str) -> None:
        """Forget everything that a value of this metric could be tested against, and mark its key as destroyed."""
        self._connection.execute("UPDATE keys SET erased = 1 WHERE metric = ?", (metric,))
        self._connection.execute(
            "UPDATE responses SET permanent = x'', tag = CASE WHEN tag IN (?2, ?3) THEN tag"
            " ELSE CAST('erased ' || number AS BLOB) END WHERE metric = ?1",
            (metric, ALL_VALUES, NOTHING),  # tags of no value in particular
        )
        self._connection.execute("DELETE FROM outbox WHERE metric = ?", (metric,))

    # --- the secret of version 1 ----------------------------------------------------------------------------------

    def needs_legacy(self) -> bool:
        """Whether a metric lives that was reported on with the secret of version 1."""
        query = "SELECT 1 FROM legacy LEFT JOIN keys USING (metric) WHERE NOT coalesce(erased, 0) LIMIT 1"
        return self._connection.execute(query).fetchone() is not None

    def goes_on_with_legacy(self, metric: Metric, memo: Memo, metrics: Mapping[str, Metric]) -> bool:
        """Whether a metric's permanent responses follow from the secret of version 1, and may go on to."""
        account = (metric.id, metric.mechanism.digest)
        return account in self._legacy() and account not in self.shared(memo, metrics)

    @property
    def undecided(self) -> bool:
        """Whether there are responses of version 1 of which no transaction has decided if they shared their noise."""
        return None in self._legacy().values()

    def decide(self, memo: Memo, metrics: Mapping[str, Metric]) -> None:
        """Decide once which accounts go on with the secret of version 1, before anything is written with another.

        What is known of mechanisms changes later, with the registry and with what is reported. A permanent response
        must not: so the answer is kept. A response that shared its noise loses its tag, by which it would be reported
        again: the same value, or in place of one too many.
        """
        if not self.undecided:
            return
        shared = self.shared(memo, metrics)
        for account in self._legacy():
            self._connection.execute(
                "UPDATE legacy SET shared = ? WHERE metric = ? AND mechanism = ?", (account in shared, *account)
            )
        self._connection.executemany(
            "UPDATE responses SET tag = CAST(? || number AS BLOB)"
            " WHERE metric = ? AND mechanism = ? AND length(permanent) AND tag <> ?",
            [(LEGACY.decode(), *account, NOTHING) for account in shared],
        )

    def shared(self, memo: Memo, metrics: Mapping[str, Metric]) -> frozenset[Account]:
        """Return the accounts whose permanent responses shared their noise, if there are two or more.

        Version 1 gave all metrics of Google's hash family one key, and so one stream of noise. The answer is the one
        that was decided; before that, what would be decided now.

        Parameters
        ----------
        metrics
            The registry's, for mechanisms whose terms an earlier version did not keep.
        """
        accounts = self._legacy()
        if None not in accounts.values():
            return frozenset(account for account, shared in accounts.items() if shared)
        if len(accounts) < 2:
            return frozenset()
        from overstory.privacy.payloads.registry import terms_of

        listed = {metric.mechanism.digest: terms_of(metric.mechanism) for metric in metrics.values()}

        def answered_filters(mechanism: bytes) -> bool:
            """Whether two values with one filter had one response; also where that can no longer be determined."""
            terms = listed.get(mechanism) or memo.terms(mechanism)
            return terms is None or terms.equal_bits_share

        sharing = frozenset(account for account in accounts if answered_filters(account[1]))
        return sharing if len(sharing) > 1 else frozenset()

    def _legacy(self) -> dict[Account, bool | None]:
        """Return the accounts of version 1, and whether each shared its noise; None where that is not decided."""
        rows = self._connection.execute("SELECT metric, mechanism, shared FROM legacy")
        return {(metric, mechanism): None if shared is None else bool(shared) for metric, mechanism, shared in rows}


def caveats(keys: Lifetimes, memo: Memo, metrics: Mapping[str, Metric], *, copied: bool) -> Iterator[str]:
    """Yield what a state's ledger does not know, in sentences for a person."""
    if copied:
        yield (
            "this state was restored from a backup, or copied: a report of its own had been counted before it left; "
            "what was reported cost at least what is said here"
        )
    shared = keys.shared(memo, metrics)
    if shared:
        names = ", ".join(sorted({metric for metric, _ in shared}))
        yield (
            f"reports up to an earlier version shared the noise of their permanent responses ({names}): together they "
            "may tell the values; reports from now on do not share it"
        )


def ends_at(metric: Metric) -> int:
    """Return the unix time from which no collector takes a report of this metric any more."""
    return metric.accept_until(metric.period.number(metric.expires_at - 1))


def changes(lives: Mapping[str, Life], metrics: Mapping[str, Metric]) -> dict[str, int]:
    """Return the ends that a registry gives to stored metrics, where they differ from the stored ones."""
    ends = {name: ends_at(metrics[name]) for name, life in lives.items() if name in metrics and not life.erased}
    return {name: at for name, at in ends.items() if (end := lives[name].ends) is None or end < at}


def over(lives: Mapping[str, Life], now: float) -> frozenset[str]:
    """Return the metrics whose keys are to be destroyed."""
    ended = (name for name, life in lives.items() if not life.erased and life.ends is not None and life.ends <= now)
    return frozenset(ended)


def retire(state: State, metrics: Mapping[str, Metric], now: float) -> frozenset[str]:
    """Destroy every key whose metric is over; return all metrics whose keys are gone, also by other processes.

    First the database forgets, in one transaction; then the secret file is written without the keys. Where that was
    interrupted, the next opening of the state completes it.

    Parameters
    ----------
    now
        The time, in unix seconds.
    """
    with state.snapshot() as rows:
        lives, gone = rows.keys.lives(), rows.keys.erased()
    news = changes(lives, metrics)
    ended: frozenset[str] = frozenset()
    if news or over(lives, now):
        with state.transaction() as rows:
            for name, at in news.items():
                rows.keys.extend(name, at)
            ended = over(rows.keys.lives(), now)
            for name in ended:
                rows.keys.erase(name)
    if ended:
        state.begin()
    return gone | ended


NO_CAP: Final = 0
"""What the state remembers of a metric that has had reports under no cap, or under one that nobody knows any more."""


def cap_of(rows: Rows, metric: str) -> int | None:
    """Return the largest cap that a metric's reports so far were made under; None where one had none, or is unknown."""
    return int(rows.recall(f"cap {metric}") or NO_CAP) or None


def wider(before: int | None, now: int | None) -> int | None:
    """Return the larger of two caps; None where one of them is none."""
    return None if before is None or now is None else max(before, now)


def keep(rows: Rows, metric: Metric) -> None:
    """Store the cap and the attribute of a report that is about to be written."""
    cap = metric.max_responses
    if rows.recall(f"cap {metric.id}") is not None or rows.memo.responses(metric.id):
        cap = wider(cap_of(rows, metric.id), cap)
    for what, value in (("cap", NO_CAP if cap is None else cap), ("attribute", metric.attribute or "")):
        if rows.recall(f"{what} {metric.id}") != value:
            rows.remember(f"{what} {metric.id}", value)
