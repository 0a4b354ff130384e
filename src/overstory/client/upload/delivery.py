"""One round of delivery: leases the reports that are due, sends them in random order, and saves the decisions.

A device sends one report in a request and saves each decision; a gateway sends and saves several hundred at once. The
decisions on a batch, what it leaves untried and the next lease are one transaction. A crash loses no report: what was
leased waits until the lease ends, and is sent again with the same bytes.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from overstory.client.consent.consent import origin
from overstory.client.outcomes import Round
from overstory.client.state.outbox import LONGEST_DELAY, OutboxRow, RowState
from overstory.client.state.rows import Rows
from overstory.client.state.state import State
from overstory.client.upload.retry import DAY, Covers, Decision, Uniform, decide_before_sending, problem_words
from overstory.protocol.metrics.metric import Metric

if TYPE_CHECKING:
    from overstory.protocol.metrics.tables import ObliviousRoute

LEAST: Final = 0.05  # seconds: with less time left, no request is started

Permit = Callable[[], object]
"""Returns None when nothing may be sent, else a value that stays equal while the same consent allows it."""

Failures = Mapping[str, int]
"""Consecutive failures of the collector, and consecutive refusals of each metric."""

COLLECTOR: Final = ""
"""The key of the collector among those of the metrics."""

Send = Callable[[Sequence[OutboxRow], float, Failures, Callable[[], bool]], Mapping[int, Decision]]
"""Sends rows at a time, while the last argument allows it; returns the decisions on those that were sent, by row id."""

COPIED: Final = "copied"
"""The name under which a state remembers that a copy of it has sent a report too."""

ASKED: Final = "asked"
"""The name under which a state stores the origin of the collector that was asked last."""


@dataclass(frozen=True)
class CollectorHealth:
    """Recent failures of a collector, or of one metric at it. A network that is lost as well changes no problem."""

    failures: int = 0  # failures in a row
    resume: float = 0.0  # the end of the backoff, in unix seconds
    pause: float = 0.0  # its length in seconds
    problem: str = ""  # one that somebody has to solve, as the answer of a decision
    since: int = 0  # the day on which that began, counted from 1970: no finer time is stored

    @classmethod
    def of(cls, rows: Rows, metric: str = "") -> CollectorHealth:
        """Load what was saved, of the collector or of one metric there."""
        failures = rows.recall(_state_key("failures", metric)) or 0
        if not failures:
            return cls()
        resume, pause, problem, since = (rows.recall(_state_key(name, metric)) or 0 for name in _SAVED[1:])
        return cls(int(failures), float(resume), float(pause), str(problem or ""), int(since))

    def after(self, decision: Decision, now: float) -> CollectorHealth:
        """Return the health after a response at `now` that led to `decision`."""
        if decision.resume is None:
            return CollectorHealth()
        problem, since = self.problem, self.since
        if problem_words(decision.answer) is not None and decision.answer != problem:
            problem, since = decision.answer, int(now // DAY)
        return CollectorHealth(self.failures + 1, decision.resume, decision.pause, problem, since)

    def until(self, due: float) -> float:
        """Return the latest time at which a report that is due at `due` may be sent."""
        return self.resume + self.pause if due < self.resume else due

    def spread(self, rows: Rows, now: float, uniform: Uniform, metric: str | None = None) -> None:
        """Give every report that waits for the collector its own random time, so that they are not sent together."""
        if self.resume and self.resume <= now + LONGEST_DELAY:
            for number in rows.outbox.due_before(self.resume, metric):
                rows.outbox.put_off(number, self.resume + uniform() * self.pause)

    def save(self, rows: Rows, metric: str = "") -> None:
        for name in _SAVED:
            rows.remember(_state_key(name, metric), getattr(self, name))


_SAVED: Final = ("failures", "resume", "pause", "problem", "since")


def _state_key(name: str, metric: str) -> str:
    return f"{name} {metric}" if metric else name


def switch_collector(rows: Rows, server: str, metrics: Mapping[str, Metric], covers: Covers) -> None:
    """Clear the failures where reports go to another address that may get some: they were the other collector's."""
    now = origin(server)
    if rows.recall(ASKED) == now or not any(map(covers, metrics.values())):
        return
    rows.remember(ASKED, now)
    for metric in ("", *metrics):
        if CollectorHealth.of(rows, metric) != CollectorHealth():
            CollectorHealth().save(rows, metric)


def take_due(
    rows: Rows, now: float, limit: int, lease: float, uniform: Uniform
) -> tuple[CollectorHealth, list[OutboxRow]]:
    """Lease what is due; nothing during the collector's backoff, and nothing of a metric that it refuses for now.

    Of a refused metric one report is sent at a time, and the others follow at their own random times: if they were sent
    together again and again, they could be recognized as one device's.
    """
    health = CollectorHealth.of(rows)
    health.spread(rows, now, uniform)
    if now < health.resume <= now + LONGEST_DELAY:  # the backoff lasts, unless the clock was set back since
        return health, []
    for metric in rows.outbox.due_metrics(now):
        CollectorHealth.of(rows, metric).spread(rows, now, uniform, metric)
    return health, rows.outbox.take_due(now, limit, lease)


def save_health(rows: Rows, health: CollectorHealth, metrics: Mapping[str, Decision], now: float) -> CollectorHealth:
    """Save the health of the collector, and of each metric by its decision; return the collector's."""
    failed = next(
        (decision for decision in metrics.values() if decision.resume is not None and not decision.of_metric), None
    )
    for metric, decision in metrics.items():
        before = CollectorHealth.of(rows, metric)
        after = before.after(decision, now) if failed is None or decision.of_metric else before
        if after != before:
            after.save(rows, metric)
    after = CollectorHealth() if failed is None else health.after(failed, now)
    if after != health:
        after.save(rows)
    return after


@dataclass
class Delivery:
    """A round in progress; it ends when nothing is due, the time is over, sending fails, or the consent has changed."""

    state: State
    metrics: Mapping[str, Metric]
    send: Send
    permit: Permit
    covers: Covers = lambda _: True
    clock: Callable[[], float] = time.time  # the time of day, in unix seconds
    until: float = math.inf  # the end of the round, as `time.monotonic` measures it
    lease: float = 120.0  # seconds for which leased reports are this process's; 0 where the time of one is simulated
    at_once: int = 64  # how many reports are leased and shuffled together
    batch: int = 1  # how many are sent and saved together
    server: str | None = None  # the collector's address; None where reports go to a file
    through: Callable[[ObliviousRoute], Send] | None = None  # what sends by a registry's relay; None: reports wait
    prepare: Callable[[Rows], object] = lambda _: None  # called in the first transaction; raises: nothing is leased
    order: Uniform = random.SystemRandom().random  # draws the order in which reports are sent
    spread: Uniform = random.SystemRandom().random  # draws their delays after a failure
    done: Round = field(default_factory=Round)
    _health: CollectorHealth = field(default_factory=CollectorHealth)
    _failures: Failures = field(default_factory=dict)

    def run(self) -> Round:
        allowed = self.permit()
        if allowed is None:
            return self.done
        with self.state.transaction() as rows:
            self.prepare(rows)
            if self.server is not None:
                switch_collector(rows, self.server, self.metrics, self.covers)
            taken = self._take(rows)
        while taken:
            if self._is_over(allowed):
                with self.state.transaction() as rows:
                    _give_back(rows, taken)
                break
            taken = self._process(taken, allowed)
        return self.done

    def _is_over(self, allowed: object) -> bool:
        return self.until - time.monotonic() < LEAST or self.permit() != allowed

    def _take(self, rows: Rows) -> list[OutboxRow]:
        self._health, taken = take_due(rows, self.clock(), self.at_once, self.lease, self.spread)
        metrics = {row.metric for row in taken}
        self._failures = {name: CollectorHealth.of(rows, name).failures for name in metrics}
        return sorted(taken, key=lambda _: self.order())

    def _process(self, taken: list[OutboxRow], allowed: object) -> list[OutboxRow]:
        """Send a batch and save the decisions; return what is left of the rows taken, or the next ones."""
        batch, rest, now = taken[: self.batch], taken[self.batch :], self.clock()
        has_relay = self.through is not None and self._route is not None
        decisions = {
            row.id: decide_before_sending(row, self.metrics.get(row.metric), now, self.covers, has_relay=has_relay)
            for row in batch
        }
        asked = [row for row in batch if decisions[row.id] is None]
        failures = {COLLECTOR: self._health.failures} | dict(self._failures)
        answers = self._send(asked, now, failures, lambda: self.permit() == allowed)
        refused = {row.metric for row in asked if row.id in answers and answers[row.id].of_metric}
        stopped = any(row.id not in answers and row.metric not in refused for row in asked) or any(
            decision.resume is not None and not decision.of_metric for decision in answers.values()
        )
        untried = [row for row in rest if stopped or row.metric in refused]
        with self.state.transaction() as rows:
            self._save(rows, asked, answers)
            for row in batch:
                decision = answers.get(row.id) or decisions[row.id]
                if decision is None:
                    untried.append(row)
                else:
                    save_decision(rows, row, decision, tried=row.id in answers)
                    self._count(rows, row, decision)
            _give_back(rows, untried)
            rest = [] if stopped else [row for row in rest if row.metric not in refused]
            return rest or ([] if stopped or self._is_over(allowed) else self._take(rows))

    def _send(
        self, rows: Sequence[OutboxRow], now: float, failures: Failures, allowed: Callable[[], bool]
    ) -> dict[int, Decision]:
        """Send rows: those of oblivious metrics through the relay, and in no other way."""
        relayed = [row for row in rows if self.metrics[row.metric].is_oblivious]
        direct = [row for row in rows if not self.metrics[row.metric].is_oblivious]
        answers = dict(self.send(direct, now, failures, allowed)) if direct else {}
        if relayed and self.through is not None and self._route is not None:
            answers |= self.through(self._route)(relayed, now, failures, allowed)
        return answers

    @property
    def _route(self) -> ObliviousRoute | None:
        return getattr(self.metrics, "oblivious", None)  # a mapping of metrics that is no registry has none

    def _save(self, rows: Rows, asked: Sequence[OutboxRow], answers: Mapping[int, Decision]) -> None:
        """Save the health of the collector and of each metric that was sent: a failure where there was one."""
        by_metric: dict[str, Decision] = {}
        for row in asked:
            if row.id in answers and (row.metric not in by_metric or by_metric[row.metric].resume is None):
                by_metric[row.metric] = answers[row.id]
        if by_metric:
            self._health = save_health(rows, self._health, by_metric, self.clock())

    def _count(self, rows: Rows, row: OutboxRow, decision: Decision) -> None:
        if decision.state is RowState.SENT:
            self.done = replace(self.done, sent=self.done.sent + 1)
        elif decision.state is RowState.DROPPED:
            self.done = self.done.plus(Round(dropped={decision.answer: 1}))
        else:
            self.done = replace(self.done, put_off=self.done.put_off + 1, error=decision.answer)
        metric = self.metrics.get(row.metric)
        if decision.state is RowState.SENT and metric is not None:
            rows.remember(f"sent {row.metric}", metric.period.number(self.clock()))


def _give_back(rows: Rows, untried: Sequence[OutboxRow]) -> None:
    """End the lease of rows that were not tried: they wait as before."""
    for row in untried:
        rows.outbox.postpone(row.id, row.due, row.attempts, row.answer)


def save_decision(rows: Rows, row: OutboxRow, decision: Decision, *, tried: bool) -> None:
    """Save the decision on a row; a row that ended meanwhile, because consent was withdrawn, does not change."""
    if tried and decision.answer == "duplicate" and not row.attempts:
        rows.remember(COPIED, 1)  # this state never sent it, so another copy of the state did
    rows.outbox.postpone(row.id, decision.due, row.attempts + tried, decision.answer)
    if decision.state is not RowState.WAITING and rows.outbox.finish(row.id, decision.state, decision.answer):
        rows.count("sent" if decision.state is RowState.SENT else f"dropped: {decision.answer}")
