"""Destroying the keys of metrics that are over, when a program looks at its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from overstory.client.lifetimes import changes, over

if TYPE_CHECKING:
    from overstory.client.state import State
    from overstory.protocol.metrics import Metric


def retire(state: State, metrics: Mapping[str, Metric], now: float) -> frozenset[str]:
    """Destroy every key whose time is over; return all metrics whose keys are gone, by whichever process.

    First the database forgets, in one transaction; then the secret file is written without the keys. Where that was
    cut off, whoever opens the state next completes it.

    Parameters
    ----------
    state
        A state that was begun.
    metrics
        The registry's: what it says of a metric's end is remembered.
    now
        The time, in unix seconds.

    Raises
    ------
    StateError
        When the state cannot be read, or a key is over and the state cannot be written.
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
