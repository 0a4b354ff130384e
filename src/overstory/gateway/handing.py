"""From the device's outbox to a sink: what is due is taken under a lease, handed over, and written down."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from overstory.client.delivering import Covers, Health, Permit, keep_health, settle, take_due, turn_to, without_asking
from overstory.client.outbox import OutboxRow
from overstory.client.sending import Decision
from overstory.client.state import State
from overstory.gateway.sinks import COLLECTOR, CollectorSink, Failures, Handed, Sink
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
            health, failures, taken = self._take(now)
            if not taken:
                return
            decisions = self._without_asking(taken, now)
            asked = [row for row in taken if row.id not in decisions]
            answers = self.sink.hand(asked, now, failures, partial(self._still, allowed))
            self._settle(taken, decisions, answers, health, now)
            handed.note(decisions | answers)
            refused = {row.metric for row in asked if row.id in answers and answers[row.id].of_metric}
            if any(row.id not in answers and row.metric not in refused for row in asked) or _failed(answers):
                return

    def _take(self, now: float) -> tuple[Health, Failures, list[OutboxRow]]:
        with self.state.transaction() as rows:
            if isinstance(self.sink, CollectorSink):
                turn_to(rows, self.sink.server, self.metrics, self.covers)
            # What a gateway sends travels together anyhow, so what has to wait comes back together.
            health, taken = take_due(rows, now, AT_ONCE, self.lease, lambda: 0.0)
            refused = {metric: Health.of(rows, metric).failures for metric in {row.metric for row in taken}}
        self.shuffle(taken)
        return health, {COLLECTOR: health.failures} | refused, taken

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
        now: float,
    ) -> None:
        """Write down what became of the rows; those that were not tried wait as before."""
        asked: dict[str, Decision] = {}
        for row in taken:
            if row.id in answers and (row.metric not in asked or asked[row.metric].resume is None):
                asked[row.metric] = answers[row.id]
        with self.state.transaction() as rows:
            if asked:
                keep_health(rows, health, asked, now)
            for row in taken:
                decision = answers.get(row.id) or decisions.get(row.id)
                if decision is None:
                    rows.outbox.postpone(row.id, row.due, row.attempts, row.answer)
                else:
                    settle(rows, row, decision, tried=row.id in answers)


def _failed(answers: Mapping[int, Decision]) -> bool:
    """Whether the sink takes nothing at all for now."""
    return any(decision.resume is not None and not decision.of_metric for decision in answers.values())
