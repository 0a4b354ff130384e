"""One round of sending: the reports that are due, in random order, one request each, within a time limit."""

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
from overstory.client.upload.retry import (
    DAY,
    Decision,
    RetryPolicy,
    Uniform,
    decide,
    decide_locally,
    parse_reason,
    problem_words,
)
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.wire.upload import MEDIA_TYPE

LEAST: Final = 0.05  # seconds: with less time left, no request is started
AT_ONCE: Final = 64  # reports taken, and shuffled, together

Permit = Callable[[], object]
"""Returns None when nothing may be sent, else a value that stays equal while the same consent allows it."""

Covers = Callable[[Metric], bool]
"""Returns whether that consent covers a metric as it is now."""

NOT_ASKED: Final = "not asked about as it is now"
ASKED: Final = "asked"
"""The name under which a state stores the origin of the collector that was asked last."""
HELD: Final = 3600.0  # seconds until a report that no consent covers is looked at again


@dataclass(frozen=True)
class CollectorHealth:
    """Recent failures of a collector, or of one metric at it.

    Attributes
    ----------
    resume, pause
        The end of the backoff, in unix seconds, and its length in seconds.
    problem, since
        A problem that somebody has to solve, as the answer of a decision, and the day on which it began, counted from
        1970: no finer time is stored. A network that is lost as well changes neither.
    """

    failures: int = 0  # failures in a row
    resume: float = 0.0
    pause: float = 0.0
    problem: str = ""
    since: int = 0

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

    def backing_off(self, now: float) -> bool:
        """Whether the backoff lasts; it does not where the clock was set back since it began."""
        return now < self.resume <= now + LONGEST_DELAY

    def until(self, due: float) -> float:
        """Return the latest time at which a report that is due at `due` may be sent."""
        return self.resume + self.pause if due < self.resume else due

    def spread(self, rows: Rows, now: float, uniform: Uniform, metric: str | None = None) -> None:
        """Give every report that waits for the collector its own random time, so that they are not sent together."""
        if self.resume and self.resume <= now + LONGEST_DELAY:
            for number in rows.outbox.due_before(self.resume, metric):
                rows.outbox.put_off(number, self.resume + uniform() * self.pause)

    def save(self, rows: Rows, metric: str = "") -> None:
        """Store it in the state."""
        for name in _SAVED:
            rows.remember(_state_key(name, metric), getattr(self, name))


_SAVED: Final = ("failures", "resume", "pause", "problem", "since")


def _state_key(name: str, metric: str) -> str:
    return f"{name} {metric}" if metric else name


def switch_collector(rows: Rows, server: str, metrics: Mapping[str, Metric], covers: Covers) -> None:
    """Clear the failures where reports go to another address than before: they were the other collector's.

    Parameters
    ----------
    covers
        Which metrics may go there; an address that may get none changes nothing.
    """
    before, now = rows.recall(ASKED), origin(server)
    if before == now or not any(map(covers, metrics.values())):
        return
    rows.remember(ASKED, now)
    for metric in ("", *metrics) if before is not None else ():  # without one, an earlier version wrote the state
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
    if health.backing_off(now):
        return health, []
    for metric in rows.outbox.due_metrics(now):
        CollectorHealth.of(rows, metric).spread(rows, now, uniform, metric)
    return health, rows.outbox.take_due(now, limit, lease)


def save_health(rows: Rows, health: CollectorHealth, metrics: Mapping[str, Decision], now: float) -> CollectorHealth:
    """Save the health of the collector and of each metric after requests; return the collector's.

    Parameters
    ----------
    metrics
        One decision for each metric of which a report was sent: a failure where there was one.
    now
        The time, in unix seconds.
    """
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


def warn(decision: Decision, server: str) -> None:
    """Warn of an answer that somebody has to act on, once per process; not of what passes by itself."""
    reason = parse_reason(decision.answer)
    if problem_words(decision.answer) is None:
        return
    if reason is None:
        message = "%s does not answer as a collector does (%s): reports wait; is the address right, or a proxy between?"
        _warn_once(decision.answer, message, server, decision.answer)
    else:
        ends = "it was dropped" if reason.final else "reports wait until their grace is over"
        _warn_once(decision.answer, "%s refuses (%s): %s; %s", server, reason, reason.detail.rstrip("."), ends)


_warn_once: Final = WarnsOnce(logging.getLogger("overstory.client"))


@dataclass(frozen=True)
class Round:
    """The result of a round of sending."""

    sent: int = 0  # reports that the collector has accepted
    dropped: Mapping[str, int] = field(default_factory=dict)  # reports given up, by reason
    put_off: int = 0  # reports that were tried and wait again
    error: str = ""  # what went wrong last; empty when nothing did

    def after(self, decision: Decision) -> Round:
        """Return the round with one more decision."""
        if decision.state is RowState.SENT:
            return replace(self, sent=self.sent + 1)
        if decision.state is RowState.DROPPED:
            return replace(self, dropped=dict(Counter(self.dropped) + Counter({decision.answer: 1})))
        return replace(self, put_off=self.put_off + 1, error=decision.answer)


@dataclass(frozen=True)
class ReportSender:
    """Sends reports to one collector.

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
    policy: RetryPolicy = field(default_factory=RetryPolicy)  # when to send again
    timeout: float = 30.0  # seconds for one request, at most
    clock: Callable[[], float] = time.time  # the time of day, in unix seconds
    uniform: Uniform = field(default_factory=lambda: random.SystemRandom().random)

    def __post_init__(self) -> None:
        endpoint(self.server)

    def ask(self, row: OutboxRow, failures: int, left: float, metric_failures: int = 0) -> Decision:
        """Send a row's bytes within `left` seconds and return the decision that follows from the response."""
        request = Request(endpoint(self.server), row.body, MEDIA_TYPE, self.token, min(left, self.timeout))
        decision = decide(
            row,
            self.transport(request),
            now=self.clock(),
            failures=failures,
            policy=self.policy,
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
        """Send the reports that are due, and return the result.

        The round ends when nothing is due, the time is over, the collector fails, or the consent has changed.

        Parameters
        ----------
        seconds
            The time limit of the round.
        """
        return _Delivery(self, state, metrics, permit, covers, time.monotonic() + seconds).run()


@dataclass
class _Delivery:
    """A round in progress."""

    sender: ReportSender
    state: State
    metrics: Mapping[str, Metric]
    permit: Permit
    covers: Covers
    until: float
    health: CollectorHealth = field(default_factory=CollectorHealth)
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
                decision = self._process(row, left)
                if decision.of_metric:
                    self._give_back([other for other in taken if other.metric == row.metric])
                    taken = [other for other in taken if other.metric != row.metric]
                elif decision.resume is not None:
                    self._give_back(taken)
                    return self.done
        return self.done

    def _take(self) -> list[OutboxRow]:
        """Lease what is due, in random order."""
        now, lease = self.sender.clock(), self.sender.policy.lease + max(self.until - time.monotonic(), 0.0)
        with self.state.transaction() as rows:
            switch_collector(rows, self.sender.server, self.metrics, self.covers)
            self.health, taken = take_due(rows, now, AT_ONCE, lease, self.sender.uniform)
            self.refused = {name: CollectorHealth.of(rows, name).failures for name in {row.metric for row in taken}}
        return sorted(taken, key=lambda _: self.sender.uniform())

    def _give_back(self, untried: list[OutboxRow]) -> None:
        if untried:
            with self.state.transaction() as rows:
                for row in untried:
                    rows.outbox.postpone(row.id, self.sender.clock(), row.attempts, row.answer)

    def _process(self, row: OutboxRow, left: float) -> Decision:
        """Decide on a row, with a request if one is needed, and save the decision."""
        sender, metric = self.sender, self.metrics.get(row.metric)
        local = decide_before_sending(row, metric, sender.clock(), self.covers)
        decision = local or sender.ask(row, self.health.failures, left, self.refused[row.metric])
        with self.state.transaction() as rows:
            if local is None:
                self.health = save_health(rows, self.health, {row.metric: decision}, sender.clock())
            save_decision(rows, row, decision, tried=local is None)
            if decision.state is RowState.SENT and metric is not None:
                rows.remember(f"sent {row.metric}", metric.period.number(sender.clock()))
        self.done = self.done.after(decision)
        return decision


def decide_before_sending(row: OutboxRow, metric: Metric | None, now: float, covers: Covers) -> Decision | None:
    """Return the decision on a row that is not sent now: it is too late, or no consent covers it; else None."""
    decision = decide_locally(row, metric, now)
    if decision is None and metric is not None and not covers(metric):
        return Decision(RowState.WAITING, NOT_ASKED, now + HELD)
    return decision


def save_decision(rows: Rows, row: OutboxRow, decision: Decision, *, tried: bool) -> None:
    """Save the decision on a row; a row that ended meanwhile, because consent was withdrawn, does not change.

    Parameters
    ----------
    tried
        Whether its bytes were sent.
    """
    if tried and decision.answer == "duplicate" and not row.attempts:
        rows.remember(COPIED, 1)  # this state never sent it, so another copy of the state did
    rows.outbox.postpone(row.id, decision.due, row.attempts + tried, decision.answer)
    if decision.state is not RowState.WAITING and rows.outbox.finish(row.id, decision.state, decision.answer):
        rows.count("sent" if decision.state is RowState.SENT else f"dropped: {decision.answer}")
