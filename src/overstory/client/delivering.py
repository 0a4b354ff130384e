"""One round of sending: what is due, in random order, each in a request of its own, within a given time."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from overstory.client.lifetimes import COPIED
from overstory.client.outbox import LONGEST_DELAY, OutboxRow, RowState
from overstory.client.sending import Decision, Pace, Uniform, decide, unasked
from overstory.client.state import Rows, State
from overstory.client.upload import Request, Transport, endpoint
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.upload import MEDIA_TYPE

LEAST: Final = 0.05  # seconds: with less left, no request is begun
AT_ONCE: Final = 64  # reports taken, and shuffled, together

Permit = Callable[[], object]
"""Answers None when nothing may be sent; else something equal as long as it is the same consent that allows it."""

Covers = Callable[[Metric], bool]
"""Answers whether that consent covers a metric as it is now."""

NOT_ASKED: Final = "not asked about as it is now"
HELD: Final = 3600.0  # seconds until a report that no consent covers is looked at again


@dataclass(frozen=True)
class Health:
    """How a collector has been doing: its failures in a row, until when it is left alone, and for how long that was."""

    failures: int = 0
    resume: float = 0.0
    pause: float = 0.0

    @classmethod
    def of(cls, rows: Rows) -> Health:
        """Return what was kept."""
        failures, resume, pause = (rows.recall(name) or 0 for name in ("failures", "resume", "pause"))
        return cls(int(failures), float(resume), float(pause))

    def after(self, decision: Decision) -> Health:
        """Return how it is doing after an answer that led to `decision`."""
        return Health() if decision.resume is None else Health(self.failures + 1, decision.resume, decision.pause)

    def resting(self, now: float) -> bool:
        """Whether the collector is to be left alone; not where the clock was set back since it was said how long."""
        return now < self.resume <= now + LONGEST_DELAY

    def spread(self, rows: Rows, now: float, uniform: Uniform) -> None:
        """Give every report that has to wait for the collector a time of its own, so that they do not come together."""
        if self.resume and self.resume <= now + LONGEST_DELAY:
            for number in rows.outbox.due_before(self.resume):
                rows.outbox.put_off(number, self.resume + uniform() * self.pause)

    def keep(self, rows: Rows) -> None:
        """Write it down."""
        rows.remember("pause", self.pause)
        rows.remember("failures", self.failures)
        rows.remember("resume", self.resume)


@dataclass(frozen=True)
class Round:
    """What a round of sending did.

    Attributes
    ----------
    sent
        Reports that the collector has.
    dropped
        Reports given up, by reason.
    put_off
        Reports that were tried and wait again.
    trouble
        What went wrong last; empty when nothing did.
    """

    sent: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    put_off: int = 0
    trouble: str = ""

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
    transport
        How requests travel.
    pace
        How patient to be.
    timeout
        Seconds for one request, at most.
    clock
        The time of day, in unix seconds.
    uniform
        Draws the jitter and the order, from the operating system unless this is an experiment.

    Raises
    ------
    ParameterError
        When the server is no address.
    """

    server: str
    transport: Transport
    token: str = field(default="", repr=False)
    pace: Pace = field(default_factory=Pace)
    timeout: float = 30.0
    clock: Callable[[], float] = time.time
    uniform: Uniform = field(default_factory=lambda: random.SystemRandom().random)

    def __post_init__(self) -> None:
        endpoint(self.server)

    def ask(self, row: OutboxRow, failures: int, left: float) -> Decision:
        """Send a row's bytes within so many seconds and return what the answer means for it."""
        request = Request(endpoint(self.server), row.body, MEDIA_TYPE, self.token, min(left, self.timeout))
        answer = self.transport(request)
        return decide(row, answer, now=self.clock(), failures=failures, pace=self.pace, uniform=self.uniform)

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
        state
            Where reports wait.
        metrics
            The registry's, by id.
        seconds
            How long it may take, all together.
        permit, covers
            Asked before every request.

        Raises
        ------
        StateError
            When the state cannot be used. A report that was sent and not settled is sent again, the same bytes.
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
    done: Round = field(default_factory=Round)

    def run(self) -> Round:
        allowed = self.permit()
        while allowed is not None and (taken := self._take()):
            for number, row in enumerate(taken):
                left = self.until - time.monotonic()
                if left < LEAST or self.permit() != allowed:
                    self._give_back(taken[number:])
                    return self.done
                if self._one(row, left).resume is not None:
                    self._give_back(taken[number + 1 :])
                    return self.done
        return self.done

    def _take(self) -> list[OutboxRow]:
        """Lease what is due, in random order; nothing while the collector is to be left alone."""
        now, lease = self.by.clock(), self.by.pace.lease + max(self.until - time.monotonic(), 0.0)
        with self.state.transaction() as rows:
            self.health = Health.of(rows)
            self.health.spread(rows, now, self.by.uniform)
            if self.health.resting(now):
                return []
            taken = rows.outbox.take_due(now, AT_ONCE, lease)
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
        decision = found or by.ask(row, self.health.failures, left)
        health = self.health.after(decision) if found is None else self.health
        with self.state.transaction() as rows:
            if health != self.health:
                health.keep(rows)
            settle(rows, row, decision, tried=found is None)
            if decision.state is RowState.SENT and metric is not None:
                rows.remember(f"sent {row.metric}", metric.period.number(by.clock()))
        self.health, self.done = health, self.done.after(decision)
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
    rows
        The state, within a transaction.
    row
        As it was taken.
    decision
        What became of it.
    tried
        Whether its bytes left.
    """
    if tried and decision.answer == "duplicate" and not row.attempts:
        rows.remember(COPIED, 1)  # it never left here, and is there: another copy of this state has sent it
    rows.outbox.postpone(row.id, decision.due, row.attempts + tried, decision.answer)
    if decision.state is not RowState.WAITING and rows.outbox.settle(row.id, decision.state, decision.answer):
        rows.count("sent" if decision.state is RowState.SENT else f"dropped: {decision.answer}")
