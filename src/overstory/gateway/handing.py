"""From the device's outbox to a sink: what is due is taken under a lease, handed over, and written down."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from overstory.client.delivering import Covers, Health, Permit, settle, without_asking
from overstory.client.outbox import OutboxRow
from overstory.client.sending import Decision
from overstory.client.state import State
from overstory.gateway.sinks import Handed, Sink
from overstory.protocol.metrics import Metric

AT_ONCE: Final = 500
"""Reports taken together, as many as one request carries."""


@dataclass(frozen=True)
class Hand:
    """Whoever hands reports over.

    Attributes
    ----------
    state, metrics
        Where reports wait, and the registry's metrics.
    sink
        Where they go.
    permit, covers
        Asked before every request; see `overstory.client.delivering`.
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
    covers: Covers = lambda _: True
    shuffle: Callable[[list[OutboxRow]], None] = field(default_factory=lambda: random.SystemRandom().shuffle)

    def over(self, now: float, handed: Handed) -> None:
        """Hand over what is due at `now`, until nothing is, or the sink fails; count it in `handed`."""
        while (allowed := self.permit()) is not None:
            health, taken = self._take(now)
            if not taken:
                return
            decisions = self._without_asking(taken, now)
            asked = [row for row in taken if row.id not in decisions]
            answers = self.sink.hand(asked, now, health.failures, partial(self._still, allowed))
            self._settle(taken, decisions, answers, health)
            handed.note(decisions | answers)
            if len(answers) < len(asked) or _failed(answers) is not None:
                return

    def _take(self, now: float) -> tuple[Health, list[OutboxRow]]:
        with self.state.transaction() as rows:
            health = Health.of(rows)
            if health.resting(now):
                return health, []
            taken = rows.outbox.take_due(now, AT_ONCE, self.lease)
        self.shuffle(taken)
        return health, taken

    def _still(self, allowed: object) -> bool:
        return self.permit() == allowed

    def _without_asking(self, taken: Sequence[OutboxRow], now: float) -> dict[int, Decision]:
        found = ((row.id, without_asking(row, self.metrics.get(row.metric), now, self.covers)) for row in taken)
        return {number: decision for number, decision in found if decision is not None}

    def _settle(
        self,
        taken: Sequence[OutboxRow],
        decisions: Mapping[int, Decision],
        answers: Mapping[int, Decision],
        health: Health,
    ) -> None:
        """Write down what became of the rows; those that were not tried wait as before."""
        after = health.after(_failed(answers) or next(iter(answers.values()))) if answers else health
        with self.state.transaction() as rows:
            if after != health:
                after.keep(rows)
            for row in taken:
                decision = answers.get(row.id) or decisions.get(row.id)
                if decision is None:
                    rows.outbox.postpone(row.id, row.due, row.attempts, row.answer)
                else:
                    settle(rows, row, decision, tried=row.id in answers)


def _failed(answers: Mapping[int, Decision]) -> Decision | None:
    """Return the decision that says that the sink failed, if one does."""
    return next((decision for decision in answers.values() if decision.resume is not None), None)
