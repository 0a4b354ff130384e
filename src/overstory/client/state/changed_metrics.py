"""Destroys the keys of metrics that are over, and stores what a later registry may no longer contain.

That is the cap and the attribute under which a metric's reports were made. Both are stored with every report, also
without a budget: a later registry may add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from overstory.client.state.lifetimes import changes, over

if TYPE_CHECKING:
    from overstory.client.state.state import Rows, State
    from overstory.protocol.metrics import Metric


def retire(state: State, metrics: Mapping[str, Metric], now: float) -> frozenset[str]:
    """Destroy every key whose time is over; return all metrics whose keys are gone, by whichever process.

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
