"""One round of sending: what is due, in random order, each in a request of its own, within a given time."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from overstory.client.sending import Decision, Pace, Queued, State, Uniform, decide, unasked
from overstory.client.upload import Request, Transport, endpoint
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.upload import MEDIA_TYPE

LEAST: Final = 0.05  # seconds: with less left, no request is begun


@dataclass(frozen=True)
class Health:
    """How a collector has been doing: its failures in a row, and the time before which it is left alone."""

    failures: int = 0
    resume: float = 0.0


class Outbox(Protocol):
    """What sending asks of the queue on disk. Every method is one transaction, whole or not at all."""

    def due(self, now: float, furthest: float) -> list[int]:
        """Return the numbers of the rows that wait and whose time has come, by `sending.is_due`."""
        ...

    def claim(self, row: int, now: float, furthest: float, until: float) -> Queued | None:
        """Lease a row: if it still waits and is due, set its due time to `until` and count an attempt; else None."""
        ...

    def settle(self, row: Queued, decision: Decision, now: float) -> bool:
        """Write a decision down, unless the row has ended already; return whether it was written."""
        ...

    def health(self) -> Health:
        """Return how the collector has been doing."""
        ...

    def keep_health(self, health: Health) -> None:
        """Remember how the collector is doing."""
        ...


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
        if decision.state is State.SENT:
            return replace(self, sent=self.sent + 1)
        if decision.state is State.DROPPED:
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

    def deliver(self, outbox: Outbox, metrics: Mapping[str, Metric], *, seconds: float) -> Round:
        """Send what is due and return what became of it; end after so many seconds, or when the collector fails.

        Parameters
        ----------
        outbox
            Where reports wait.
        metrics
            The registry's, by id.
        seconds
            How long it may take, all together.
        """
        deadline, done = time.monotonic() + seconds, Round()
        now, health = self.clock(), outbox.health()
        if now < health.resume <= now + self.pace.furthest:
            return done
        for number in self._shuffled(outbox.due(now, self.pace.furthest)):
            left = deadline - time.monotonic()
            if left < LEAST:
                break
            now = self.clock()
            row = outbox.claim(number, now, self.pace.furthest, now + self._lease)
            if row is None:
                continue  # another process has it
            decision = unasked(row, metrics.get(row.metric), now)
            if decision is None:
                decision = self._asked(row, health, left)
                health = self._after(decision, health, outbox)
            outbox.settle(row, decision, self.clock())
            done = done.after(decision)
            if decision.resume is not None:
                break
        return done

    def _after(self, decision: Decision, before: Health, outbox: Outbox) -> Health:
        """Return how the collector is doing now; written down only where that is news."""
        now = Health() if decision.resume is None else Health(before.failures + 1, decision.resume)
        if now != before:
            outbox.keep_health(now)
        return now

    def _asked(self, row: Queued, health: Health, left: float) -> Decision:
        request = Request(endpoint(self.server), row.body, MEDIA_TYPE, self.token, min(left, self.timeout))
        answer = self.transport(request)
        return decide(row, answer, now=self.clock(), failures=health.failures, pace=self.pace, uniform=self.uniform)

    @property
    def _lease(self) -> float:
        return max(self.pace.lease, 2 * self.timeout)

    def _shuffled(self, rows: list[int]) -> list[int]:
        return sorted(rows, key=lambda _: self.uniform())
