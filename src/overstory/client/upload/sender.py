"""One round of sending: what is due, in random order, each in a request of its own, within a given time."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from overstory.client.consent.consent import origin
from overstory.client.outcomes import WarnsOnce
from overstory.client.state.lifetimes import COPIED
from overstory.client.state.outbox import LONGEST_DELAY, OutboxRow, RowState
from overstory.client.state.state import Rows, State
from overstory.client.upload.http import Request, Transport, endpoint
from overstory.client.upload.retry import DAY, Decision, Pace, Uniform, decide, known, problem_words, unasked
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.wire.upload import MEDIA_TYPE

LEAST: Final = 0.05  # seconds: with less left, no request is begun
AT_ONCE: Final = 64  # reports taken, and shuffled, together

Permit = Callable[[], object]
"""Answers None when nothing may be sent; else something equal as long as it is the same consent that allows it."""

Covers = Callable[[Metric], bool]
"""Answers whether that consent covers a metric as it is now."""

NOT_ASKED: Final = "not asked about as it is now"
ASKED: Final = "asked"
"""Under which name a state keeps the origin of the collector that was asked last."""
HELD: Final = 3600.0  # seconds until a report that no consent covers is looked at again


@dataclass(frozen=True)
class Health:
    """How a collector has been doing, or how it takes one metric.

    Attributes
    ----------
    resume, pause
        Until when it is left alone, in unix seconds, and for how long that was.
    problem, since
        What somebody has to see to, as the answer of a decision, and the day on which it began, counted from 1970:
        no finer time is kept. A network that is lost on top of it changes neither.
    """

    failures: int = 0  # failures in a row
    resume: float = 0.0
    pause: float = 0.0
    problem: str = ""
    since: int = 0

    @classmethod
    def of(cls, rows: Rows, metric: str = "") -> Health:
        """Return what was kept, of the collector or of one metric there."""
        failures = rows.recall(_kept("failures", metric)) or 0
        if not failures:
            return cls()
        resume, pause, problem, since = (rows.recall(_kept(name, metric)) or 0 for name in _KEPT[1:])
        return cls(int(failures), float(resume), float(pause), str(problem or ""), int(since))

    def after(self, decision: Decision, now: float) -> Health:
        """Return how it is doing after an answer at `now` that led to `decision`."""
        if decision.resume is None:
            return Health()
        problem, since = self.problem, self.since
        if problem_words(decision.answer) is not None and decision.answer != problem:
            problem, since = decision.answer, int(now // DAY)
        return Health(self.failures + 1, decision.resume, decision.pause, problem, since)

    def resting(self, now: float) -> bool:
        """Whether the collector is to be left alone; not where the clock was set back since it was said how long."""
        return now < self.resume <= now + LONGEST_DELAY

    def until(self, due: float) -> float:
        """Return the time by which a report that is due at `due` may have gone."""
        return self.resume + self.pause if due < self.resume else due

    def spread(self, rows: Rows, now: float, uniform: Uniform, metric: str | None = None) -> None:
        """Give every report that has to wait for the collector a time of its own, so that they do not come together."""
        if self.resume and self.resume <= now + LONGEST_DELAY:
            for number in rows.outbox.due_before(self.resume, metric):
                rows.outbox.put_off(number, self.resume + uniform() * self.pause)

    def keep(self, rows: Rows, metric: str = "") -> None:
        """Write it down."""
        for name in _KEPT:
            rows.remember(_kept(name, metric), getattr(self, name))


_KEPT: Final = ("failures", "resume", "pause", "problem", "since")


def _kept(name: str, metric: str) -> str:
    return f"{name} {metric}" if metric else name


def turn_to(rows: Rows, server: str, metrics: Mapping[str, Metric], covers: Covers) -> None:
    """Begin afresh where reports go to another address than before: what failed there says nothing about this one.

    Parameters
    ----------
    covers
        Which of them may go there: an address that may get none is not turned to.
    """
    before, now = rows.recall(ASKED), origin(server)
    if before == now or not any(map(covers, metrics.values())):
        return
    rows.remember(ASKED, now)
    for metric in ("", *metrics) if before is not None else ():  # without one, an earlier version wrote the state
        if Health.of(rows, metric) != Health():
            Health().keep(rows, metric)


def take_due(rows: Rows, now: float, limit: int, lease: float, uniform: Uniform) -> tuple[Health, list[OutboxRow]]:
    """Lease what is due; nothing while the collector is left alone, and nothing of a metric that it refuses for now.

    Of a metric that is refused one report asks at a time, and the others come at times of their own after it: sent
    together again and again, they could be known as one device's.
    """
    health = Health.of(rows)
    health.spread(rows, now, uniform)
    if health.resting(now):
        return health, []
    for metric in rows.outbox.due_metrics(now):
        Health.of(rows, metric).spread(rows, now, uniform, metric)
    return health, rows.outbox.take_due(now, limit, lease)


def keep_health(rows: Rows, health: Health, metrics: Mapping[str, Decision], now: float) -> Health:
    """Write down how the collector is doing after it was asked, and how it takes metrics; return the former.

    Parameters
    ----------
    metrics
        One decision of each metric that was asked about: a failure, where one of its reports led to one.
    now
        The time, in unix seconds.
    """
    failed = next((one for one in metrics.values() if one.resume is not None and not one.of_metric), None)
    for metric, decision in metrics.items():
        before = Health.of(rows, metric)
        after = before.after(decision, now) if failed is None or decision.of_metric else before
        if after != before:
            after.keep(rows, metric)
    after = Health() if failed is None else health.after(failed, now)
    if after != health:
        after.keep(rows)
    return after


def warn(decision: Decision, server: str) -> None:
    """Warn, once a process about each, of an answer that somebody has to see to; what passes by itself is none."""
    reason = known(decision.answer)
    if problem_words(decision.answer) is None:
        return
    if reason is None:
        message = "%s does not answer as a collector does (%s): reports wait; is the address right, or a proxy between?"
        _warn_once(decision.answer, message, server, decision.answer)
    else:
        ends = "it was dropped" if reason.final else "reports wait until their grace is over"
        _warn_once(decision.answer, "%s refuses (%s): %s; %s", server, reason, reason.said.rstrip("."), ends)


_warn_once: Final = WarnsOnce(logging.getLogger("overstory.client"))


@dataclass(frozen=True)
class Round:
    """What a round of sending did."""

    sent: int = 0  # reports that the collector has
    dropped: Mapping[str, int] = field(default_factory=dict)  # reports given up, by reason
    put_off: int = 0  # reports that were tried and wait again
    trouble: str = ""  # what went wrong last; empty when nothing did

    def after(self, decision: Decision) -> Round:
        """Return the round with one more decision."""
        if decision.state is RowState.SENT:
            return replace(self, sent=self.sent + 1)
        if decision.state is RowState.DROPPED:
            return replace(self, dropped=dict(Counter(self.dropped) + Counter({decision.answer: 1})))
        return replace(self, put_off=self.put_off + 1, trouble=decision.answer)


@dataclass(frozen=True)
class Courier:
    """Whoever takes reports to one collector.

    Attributes
    ----------
    server, token
        The collector's address, and the application's write token.
    uniform
        Draws the jitter and the order, from the operating system unless this is an experiment.
    """

    server: str
    transport: Transport  # how requests travel
    token: str = field(default="", repr=False)
    pace: Pace = field(default_factory=Pace)  # how patient to be
    timeout: float = 30.0  # seconds for one request, at most
    clock: Callable[[], float] = time.time  # the time of day, in unix seconds
    uniform: Uniform = field(default_factory=lambda: random.SystemRandom().random)

    def __post_init__(self) -> None:
        endpoint(self.server)

    def ask(self, row: OutboxRow, failures: int, left: float, metric_failures: int = 0) -> Decision:
        """Send a row's bytes within so many seconds and return what the answer means for it."""
        request = Request(endpoint(self.server), row.body, MEDIA_TYPE, self.token, min(left, self.timeout))
        decision = decide(
            row,
            self.transport(request),
            now=self.clock(),
            failures=failures,
            pace=self.pace,
            uniform=self.uniform,
            metric_failures=metric_failures,
        )
        warn(decision, self.server)
        return decision

    def deliver(
        self,
        state: State,
        metrics: Mapping[str, Metric],
        *,
        seconds: float,
        permit: Permit = lambda: True,
        covers: Covers = lambda _: True,
    ) -> Round:
        """Send what is due and return what became of it.

        The round ends when nothing is due any more, the time is over, the collector fails or the consent is another.

        Parameters
        ----------
        seconds
            How long it may take, all together.
        """
        return _Delivery(self, state, metrics, permit, covers, time.monotonic() + seconds).run()


@dataclass
class _Delivery:
    """A round under way."""

    by: Courier
    state: State
    metrics: Mapping[str, Metric]
    permit: Permit
    covers: Covers
    until: float
    health: Health = field(default_factory=Health)
    refused: dict[str, int] = field(default_factory=dict)
    done: Round = field(default_factory=Round)

    def run(self) -> Round:
        allowed = self.permit()
        while allowed is not None and (taken := self._take()):
            while taken:
                left = self.until - time.monotonic()
                if left < LEAST or self.permit() != allowed:
                    self._give_back(taken)
                    return self.done
                row = taken.pop(0)
                decision = self._one(row, left)
                if decision.of_metric:
                    self._give_back([other for other in taken if other.metric == row.metric])
                    taken = [other for other in taken if other.metric != row.metric]
                elif decision.resume is not None:
                    self._give_back(taken)
                    return self.done
        return self.done

    def _take(self) -> list[OutboxRow]:
        """Lease what is due, in random order."""
        now, lease = self.by.clock(), self.by.pace.lease + max(self.until - time.monotonic(), 0.0)
        with self.state.transaction() as rows:
            turn_to(rows, self.by.server, self.metrics, self.covers)
            self.health, taken = take_due(rows, now, AT_ONCE, lease, self.by.uniform)
            self.refused = {name: Health.of(rows, name).failures for name in {row.metric for row in taken}}
        return sorted(taken, key=lambda _: self.by.uniform())

    def _give_back(self, untried: list[OutboxRow]) -> None:
        if untried:
            with self.state.transaction() as rows:
                for row in untried:
                    rows.outbox.postpone(row.id, self.by.clock(), row.attempts, row.answer)

    def _one(self, row: OutboxRow, left: float) -> Decision:
        """Decide on a row, asking the collector if need be, and write down what became of it."""
        by, metric = self.by, self.metrics.get(row.metric)
        found = without_asking(row, metric, by.clock(), self.covers)
        decision = found or by.ask(row, self.health.failures, left, self.refused[row.metric])
        with self.state.transaction() as rows:
            if found is None:
                self.health = keep_health(rows, self.health, {row.metric: decision}, by.clock())
            settle(rows, row, decision, tried=found is None)
            if decision.state is RowState.SENT and metric is not None:
                rows.remember(f"sent {row.metric}", metric.period.number(by.clock()))
        self.done = self.done.after(decision)
        return decision


def without_asking(row: OutboxRow, metric: Metric | None, now: float, covers: Covers) -> Decision | None:
    """Return what happens to a row that is not sent now: it is too late for it, or no consent covers it; else None."""
    decision = unasked(row, metric, now)
    if decision is None and metric is not None and not covers(metric):
        return Decision(RowState.WAITING, NOT_ASKED, now + HELD)
    return decision


def settle(rows: Rows, row: OutboxRow, decision: Decision, *, tried: bool) -> None:
    """Write down what became of a row; one that has ended meanwhile, because consent was withdrawn, stays as it is.

    Parameters
    ----------
    tried
        Whether its bytes left.
    """
    if tried and decision.answer == "duplicate" and not row.attempts:
        rows.remember(COPIED, 1)  # it never left here, and is there: another copy of this state has sent it
    rows.outbox.postpone(row.id, decision.due, row.attempts + tried, decision.answer)
    if decision.state is not RowState.WAITING and rows.outbox.settle(row.id, decision.state, decision.answer):
        rows.count("sent" if decision.state is RowState.SENT else f"dropped: {decision.answer}")
