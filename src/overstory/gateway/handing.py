"""From the device's outbox to a sink: what is due is taken under a lease, handed over, and written down."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from overstory.client.delivering import Health
from overstory.client.outbox import LONGEST_DELAY, OutboxRow, RowState
from overstory.client.sending import Decision, unasked
from overstory.client.state import Rows, State
from overstory.gateway.sinks import Handed, Sink
from overstory.protocol.metrics import Metric

AT_ONCE: Final = 500
"""Reports taken together, no more than one request carries: consent is asked for again before the next."""

Permit = Callable[[], str | None]
"""Answers None when nothing may leave; else the mark of the consent that allows it."""


@dataclass(frozen=True)
class Hand:
    """Whoever hands reports over.

    Attributes
    ----------
    state, metrics
        Where reports wait, and the registry's metrics.
    sink
        Where they go.
    permit
        Asked before every round.
    lease
        Seconds for which reports that were taken belong to this process. 0 where time is simulated: one process then.
    shuffle
        Puts them into an order that says nothing.
    """

    state: State
    metrics: Mapping[str, Metric]
    sink: Sink
    permit: Permit
    lease: float = 120.0
    shuffle: Callable[[list[OutboxRow]], None] = field(default_factory=lambda: random.SystemRandom().shuffle)

    def over(self, now: float, handed: Handed) -> None:
        """Hand over what is due at `now`, until nothing is, or the sink fails; count it in `handed`."""
        while self.permit() is not None:
            health, taken = self._take(now)
            if not taken:
                return
            decisions = self._decide(taken, now, health)
            self._settle(taken, decisions, health)
            handed.note(decisions)
            if any(decision.resume is not None for decision in decisions.values()):
                return

    def _take(self, now: float) -> tuple[Health, list[OutboxRow]]:
        with self.state.transaction() as rows:
            health = Health.of(rows)
            if now < health.resume <= now + LONGEST_DELAY:  # beyond that, the clock was set back
                return health, []
            taken = rows.outbox.take_due(now, AT_ONCE, self.lease)
        self.shuffle(taken)
        return health, taken

    def _decide(self, taken: Sequence[OutboxRow], now: float, health: Health) -> dict[int, Decision]:
        decisions = {row.id: unasked(row, self.metrics.get(row.metric), now) for row in taken}
        asked = [row for row in taken if decisions[row.id] is None]
        found = self.sink.hand(asked, now, health.failures) if asked else {}
        return found | {number: decision for number, decision in decisions.items() if decision is not None}

    def _settle(self, taken: Sequence[OutboxRow], decisions: Mapping[int, Decision], health: Health) -> None:
        """Write down what became of the rows; those that were not tried wait as before."""
        failed = next((d for d in decisions.values() if d.resume is not None), None)
        after = Health() if failed is None else health.after(failed)
        with self.state.transaction() as rows:
            if after != health:
                after.keep(rows)
            for row in taken:
                decision = decisions.get(row.id)
                if decision is None:
                    rows.outbox.postpone(row.id, row.due, row.attempts, row.answer)
                elif decision.state is RowState.WAITING:
                    rows.outbox.postpone(row.id, decision.due, row.attempts + 1, decision.answer)
                else:
                    _end(rows, row, decision)


def _end(rows: Rows, row: OutboxRow, decision: Decision) -> None:
    if rows.outbox.settle(row.id, decision.state, decision.answer):
        rows.count("sent" if decision.state is RowState.SENT else f"dropped: {decision.answer}")
