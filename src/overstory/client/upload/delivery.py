"""Sends reports: one request to a collector and what follows from its answer, and a round over all that is due.

A round leases the reports that are due, sends them in random order, and saves the decisions; a crash loses none: what
was leased waits until the lease ends, and is sent again with the same bytes.

Reports of an oblivious metric travel by Oblivious HTTP (RFC 9458): encrypted for the collector, and posted to a relay,
which learns from which address a message comes, when, and how long it is in steps of 512 bytes. Each message has a key
of its own, and every device takes the same cipher, because a relay can read which one it is.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from overstory.client.consent import origin
from overstory.client.outcomes import Round, WarnsOnce
from overstory.client.state.rows import LONGEST_DELAY, OutboxRow, Rows, RowState
from overstory.client.state.state import State
from overstory.client.upload.http import Request, Response, Transport, endpoint, parse_object
from overstory.client.upload.retry import (
    COLLECTOR,
    DAY,
    NO_KEY,
    RELAY,
    UNOPENED,
    Covers,
    Decision,
    Failures,
    RetryPolicy,
    Uniform,
    decide,
    decide_before_sending,
    parse_reason,
    problem_words,
)
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE

if TYPE_CHECKING:
    from overstory.protocol.metrics import MetricRegistry
    from overstory.protocol.metrics.tables import ObliviousRoute
    from overstory.protocol.oblivious.messages import SealedRequest

LEAST: Final = 0.05  # seconds: with less time left, no request is started

Permit = Callable[[], object]
"""Returns None when nothing may be sent, else a value that stays equal while the same consent allows it."""

Allowed = Callable[[], bool]  # returns whether reports may still be sent: a person may withdraw consent at any moment

Send = Callable[[Sequence[OutboxRow], float, Failures, Allowed], Mapping[int, Decision]]
"""Sends rows at a time, while it is allowed; returns the decisions on those that were sent, by row id."""

_uniform: Final = random.SystemRandom().random


class Sink(Protocol):
    """A destination of reports; one that is a collector has its address, `server`, and `through` a relay."""

    def deliver(
        self, rows: Sequence[OutboxRow], now: float, failures: Failures, allowed: Allowed
    ) -> Mapping[int, Decision]:
        """Deliver the bodies of these rows while it is allowed; return the decisions on those delivered, by row id."""
        ...


@dataclass(frozen=True)
class Collector:
    """A collector over HTTP. A device sends each report in a request of its own, and a gateway several together."""

    server: str  # its address
    transport: Transport  # how requests travel
    token: str = field(default="", repr=False)  # the application's write token
    policy: RetryPolicy = field(default_factory=RetryPolicy)  # when to send again
    timeout: float = 30.0  # seconds for one request, at most
    uniform: Uniform = _uniform  # draws delays, and the order
    clock: Callable[[], float] = time.time  # the time of day, in unix seconds
    until: float = math.inf  # the end of the round, as `time.monotonic` measures it
    most_uploads: int = 1  # of one request
    most_bytes: int = 1 << 20  # of one request with several uploads

    def __post_init__(self) -> None:
        endpoint(self.server)

    def deliver(
        self,
        rows: Sequence[OutboxRow],
        now: float,  # noqa: ARG002 - a response is judged by the time at which it came
        failures: Failures,
        allowed: Allowed,
    ) -> Mapping[int, Decision]:
        """Send the rows in as many requests as needed; after a failure, none."""
        return self._deliver_groups(self._groups(rows), failures, allowed)

    def through(self, route: ObliviousRoute) -> Send:
        """Return what sends rows through a relay, each upload in a message of its own: nothing links them."""
        return replace(self, transport=oblivious_transport(route, self.transport), most_uploads=1).deliver

    def _deliver_groups(
        self, groups: Iterable[Sequence[OutboxRow]], failures: Failures, allowed: Allowed
    ) -> dict[int, Decision]:
        decisions: dict[int, Decision] = {}
        refused: set[str] = set()
        for group in groups:
            rows = [row for row in group if row.metric not in refused]
            if not rows:
                continue
            if not allowed():
                break
            made = self._post(rows, failures, allowed)
            decisions |= made
            refused |= {row.metric for row in rows if row.id in made and made[row.id].of_metric}
            if any(decision.resume is not None and not decision.of_metric for decision in made.values()):
                break
        return decisions

    def _groups(self, rows: Sequence[OutboxRow]) -> Iterator[list[OutboxRow]]:
        group, size = list[OutboxRow](), 0
        for row in rows:
            if group and (len(group) == self.most_uploads or size + len(row.body) > self.most_bytes):
                yield group
                group, size = [], 0
            group.append(row)
            size += len(row.body)
        if group:
            yield group

    def _post(self, rows: Sequence[OutboxRow], failures: Failures, allowed: Allowed) -> dict[int, Decision]:
        """Send rows in one request, or in halves where one of them spoils it; return the decisions."""
        body, left = b"".join(row.body for row in rows), self.until - time.monotonic()
        request = Request(endpoint(self.server), body, MEDIA_TYPE, self.token, min(left, self.timeout))
        response = self.transport(request)
        if len(rows) > 1 and _may_split(response):
            half = len(rows) // 2
            return self._deliver_groups((rows[:half], rows[half:]), failures, allowed)
        now, policy, uniform = self.clock(), self.policy, self.uniform
        decisions = {
            row.id: decide(row, response, now=now, failures=failures, policy=policy, uniform=uniform) for row in rows
        }
        for decision in decisions.values():
            warn(decision, self.server)
        return decisions

    def send_due(
        self,
        state: State,
        registry: MetricRegistry,
        *,
        seconds: float,
        permit: Permit = lambda: True,
        covers: Covers = lambda _: True,
        prepare: Callable[[Rows], object] = lambda _: None,
    ) -> Round:
        """Send the reports of a device that are due, within a time limit, and return the result."""
        until = time.monotonic() + seconds
        return Delivery(
            state,
            registry,
            replace(self, until=until),
            permit,
            covers,
            clock=self.clock,
            until=until,
            lease=self.policy.lease + max(seconds, 0.0),
            prepare=prepare,
            order=self.uniform,
            spread=self.uniform,
        ).run()


def _may_split(response: Response) -> bool:
    """Whether a refused request may succeed in halves: one upload in it is damaged, or it is too large."""
    body = parse_object(response) or {}
    return not body.get("results") and (response.status == 413 or body.get("reason") == Reason.DAMAGED)


COPIED: Final = "copied"  # the name under which a state remembers that a copy of it has sent a report too

ASKED: Final = "asked"  # the name under which a state stores the origin of the collector that was asked last


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
        failures = rows.recall(f"failures {metric}".rstrip()) or 0
        if not failures:
            return cls()
        resume, pause, problem, since = (rows.recall(f"{name} {metric}".rstrip()) or 0 for name in _SAVED[1:])
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
                rows.outbox.postpone(number, self.resume + uniform() * self.pause)

    def save(self, rows: Rows, metric: str = "") -> None:
        if self != CollectorHealth.of(rows, metric):
            for name in _SAVED:
                rows.remember(f"{name} {metric}".rstrip(), getattr(self, name))


_SAVED: Final = ("failures", "resume", "pause", "problem", "since")


@dataclass
class Delivery:
    """A round in progress; it ends when nothing is due, the time is over, sending fails, or the consent has changed."""

    state: State
    registry: MetricRegistry
    sink: Sink
    permit: Permit
    covers: Covers = lambda _: True
    clock: Callable[[], float] = time.time  # the time of day, in unix seconds
    until: float = math.inf  # the end of the round, as `time.monotonic` measures it
    lease: float = 120.0  # seconds for which leased reports are this process's; 0 where the time of one is simulated
    at_once: int = 64  # how many reports are leased and shuffled together
    batch: int = 1  # how many are sent and saved together
    prepare: Callable[[Rows], object] = lambda _: None  # called in the first transaction; raises: nothing is leased
    order: Uniform = _uniform  # draws the order in which reports are sent
    spread: Uniform = _uniform  # draws their delays after a failure
    done: Round = field(default_factory=Round)
    _health: CollectorHealth = field(default_factory=CollectorHealth)
    _failures: Failures = field(default_factory=dict)

    def run(self) -> Round:
        allowed = self.permit()
        if allowed is None:
            return self.done
        with self.state.transaction() as rows:
            self.prepare(rows)
            self._notice_move(rows)
            taken = self._take(rows)
        while taken:
            if self._is_over(allowed):
                with self.state.transaction() as rows:
                    _give_back(rows, taken)
                break
            taken = self._process(taken, allowed)
        return self.done

    def _notice_move(self, rows: Rows) -> None:
        """Clear the failures where reports go to another address that may get some: they were the other collector's."""
        metrics = self.registry.metrics
        server = getattr(self.sink, "server", None)
        now = None if server is None else origin(server)
        if now is None or rows.recall(ASKED) == now or not any(map(self.covers, metrics.values())):
            return
        rows.remember(ASKED, now)
        for metric in (COLLECTOR, *metrics):
            CollectorHealth().save(rows, metric)

    def _is_over(self, allowed: object) -> bool:
        return self.until - time.monotonic() < LEAST or self.permit() != allowed

    def _take(self, rows: Rows) -> list[OutboxRow]:
        """Lease what is due; of a refused metric one report at a time: together they could be known as one device's."""
        now, self._health = self.clock(), CollectorHealth.of(rows)
        self._health.spread(rows, now, self.spread)
        if now < self._health.resume <= now + LONGEST_DELAY:  # the backoff lasts, unless the clock was set back since
            return []
        for metric in rows.outbox.due_metrics(now):
            CollectorHealth.of(rows, metric).spread(rows, now, self.spread, metric)
        taken = rows.outbox.take_due(now, self.at_once, self.lease)
        self._failures = {row.metric: CollectorHealth.of(rows, row.metric).failures for row in taken}
        return sorted(taken, key=lambda _: self.order())

    def _process(self, taken: list[OutboxRow], allowed: object) -> list[OutboxRow]:
        """Send a batch and save the decisions; return what is left of the rows taken, or the next ones."""
        batch, rest, now = taken[: self.batch], taken[self.batch :], self.clock()
        has_relay = self._through is not None and self.registry.oblivious is not None
        metrics = self.registry.metrics
        decisions = {
            row.id: decide_before_sending(row, metrics.get(row.metric), now, self.covers, has_relay=has_relay)
            for row in batch
        }
        asked = [row for row in batch if decisions[row.id] is None]
        answers = self._send(asked, now, lambda: self.permit() == allowed)
        refused = {row.metric for row in asked if row.id in answers and answers[row.id].of_metric}
        stopped = any(row.id not in answers and row.metric not in refused for row in asked) or any(
            decision.resume is not None and not decision.of_metric for decision in answers.values()
        )
        untried = [row for row in rest if stopped or row.metric in refused]
        with self.state.transaction() as rows:
            self._save_health(rows, asked, answers)
            for row in batch:
                decision = answers.get(row.id) or decisions[row.id]
                if decision is None:
                    untried.append(row)
                else:
                    self._save(rows, row, decision, tried=row.id in answers)
            _give_back(rows, untried)
            rest = [] if stopped else [row for row in rest if row.metric not in refused]
            return rest or ([] if stopped or self._is_over(allowed) else self._take(rows))

    def _send(self, rows: Sequence[OutboxRow], now: float, allowed: Callable[[], bool]) -> dict[int, Decision]:
        """Send rows: those of oblivious metrics through the relay, and in no other way."""
        metrics = self.registry.metrics
        failures = {COLLECTOR: self._health.failures} | dict(self._failures)
        relayed = [row for row in rows if metrics[row.metric].is_oblivious]
        direct = [row for row in rows if not metrics[row.metric].is_oblivious]
        answers = dict(self.sink.deliver(direct, now, failures, allowed)) if direct else {}
        if relayed and self._through is not None and self.registry.oblivious is not None:
            answers |= self._through(self.registry.oblivious)(relayed, now, failures, allowed)
        return answers

    @property
    def _through(self) -> Callable[[ObliviousRoute], Send] | None:
        """What sends by a registry's relay; None: reports that have to go through one wait."""
        return getattr(self.sink, "through", None)

    def _save_health(self, rows: Rows, asked: Iterable[OutboxRow], answers: Mapping[int, Decision]) -> None:
        """Save the health of the collector and of each metric that was sent: a failure where there was one."""
        by_metric: dict[str, Decision] = {}
        for row in asked:
            if row.id in answers and (row.metric not in by_metric or by_metric[row.metric].resume is None):
                by_metric[row.metric] = answers[row.id]
        if not by_metric:
            return
        now = self.clock()
        failures = (each for each in by_metric.values() if each.resume is not None and not each.of_metric)
        failed = next(failures, None)
        for metric, decision in by_metric.items():
            if failed is None or decision.of_metric:
                CollectorHealth.of(rows, metric).after(decision, now).save(rows, metric)
        self._health = CollectorHealth() if failed is None else self._health.after(failed, now)
        self._health.save(rows)

    def _save(self, rows: Rows, row: OutboxRow, decision: Decision, *, tried: bool) -> None:
        """Save the decision on a row; a row that ended meanwhile, because consent was withdrawn, does not change."""
        if tried and decision.answer == "duplicate" and not row.attempts:
            rows.remember(COPIED, 1)  # this state never sent it, so another copy of the state did
        rows.outbox.postpone(row.id, decision.due, row.attempts + tried, decision.answer)
        ended = decision.state is not RowState.WAITING and rows.outbox.finish(row.id, decision.state, decision.answer)
        if decision.state is RowState.SENT:
            self.done = replace(self.done, sent=self.done.sent + 1)
            metric = self.registry.metrics.get(row.metric)
            if metric is not None:
                rows.remember(f"sent {row.metric}", metric.period.number(self.clock()))
        elif decision.state is RowState.DROPPED:
            self.done = self.done.plus(Round(dropped={decision.answer: 1}))
        else:
            self.done = replace(self.done, put_off=self.done.put_off + 1, error=decision.answer)
        if ended:
            rows.count("sent" if decision.state is RowState.SENT else f"dropped: {decision.answer}")


def _give_back(rows: Rows, untried: Sequence[OutboxRow]) -> None:
    for row in untried:
        rows.outbox.postpone(row.id, row.due, row.attempts, row.answer)


def warn(decision: Decision, server: str) -> None:
    """Warn once per process of an answer that needs action; not of a passing problem."""
    reason = parse_reason(decision.answer)
    if problem_words(decision.answer) is None:
        return
    if decision.answer.startswith(RELAY):
        message = "%s: %s; reports wait, and are never sent another way"
        _warn_once(decision.answer, message, server, problem_words(decision.answer))
    elif reason is None:
        message = "%s does not answer as a collector does (%s): reports wait; is the address right, or a proxy between?"
        _warn_once(decision.answer, message, server, decision.answer)
    else:
        ends = "it was dropped" if reason.final else "reports wait until their grace is over"
        _warn_once(decision.answer, "%s refuses (%s): %s; %s", server, reason, reason.detail.rstrip("."), ends)


_warn_once: Final = WarnsOnce()


def oblivious_transport(route: ObliviousRoute, over: Transport) -> Transport:
    """Return the transport that encrypts each request anew for the collector and posts it to the relay."""
    from overstory.protocol.oblivious import formats
    from overstory.protocol.oblivious.formats import PADDED_TO, REQUEST_TYPE
    from overstory.protocol.oblivious.messages import seal_request, usable_key

    def send(request: Request) -> Response:
        began, parts = time.monotonic(), urlsplit(request.url)
        fields = tuple((name, value) for name, value in request.headers().items() if name != "Connection")
        try:
            inner = formats.Request("POST", parts.scheme, parts.netloc, parts.path, fields, request.body)
            sealed = seal_request(inner.encode(PADDED_TO), usable_key(route.keys))
        except (WireError, ParameterError):
            return Response(None, error=NO_KEY, relay=True)
        left = max(request.timeout - (time.monotonic() - began), 0.001)
        return opened(over(Request(route.relay, sealed.body, REQUEST_TYPE, timeout=left)), sealed)

    return send


def opened(answer: Response, sealed: SealedRequest) -> Response:
    """Return the collector's response in a relay's answer; the answer itself where there is none in it."""
    from overstory.protocol.oblivious.formats import RESPONSE_TYPE, read_response

    encrypted = answer.headers.get("content-type", "").partition(";")[0].strip().lower() == RESPONSE_TYPE
    if answer.status != 200 or not encrypted:
        return replace(answer, relay=True)
    try:
        inner = read_response(sealed.open(answer.body))
    except (ParameterError, WireError):
        return Response(None, error=UNOPENED, relay=True)
    return Response(inner.status, {name.lower(): value for name, value in inner.fields}, inner.body)
