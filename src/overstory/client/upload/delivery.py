"""Sends reports: one request to a collector, what follows from its answer, and a round over all that is due.

A round leases the reports that are due, sends them in random order, and saves the decisions; a crash loses none: what
was leased waits until the lease ends, and is sent again with the same bytes.

A report waits until it is **sent** or **dropped**; "What the collector answers" in docs/how-to/client.md says what each
answer does. A refusal is the collector's own when its body is a JSON refusal whose reason this version defines, with
the status of that reason. Each report draws its own delay from a Retry-After, uniform from once to twice as long. If it
came back in the minute asked for, a collector could recognize a device by the minute that it assigned to it.

Reports of an oblivious metric travel by Oblivious HTTP (RFC 9458): encrypted for the collector, and posted to a relay,
which learns from which address a message comes, when, and how long it is in steps of 512 bytes. Each message has a key
of its own, and every device takes the same cipher, because a relay can read which one it is.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from overstory.client.consent import origin
from overstory.client.outcomes import Round, WarnsOnce
from overstory.client.state.rows import LONGEST_DELAY, OutboxRow, Rows, RowState
from overstory.client.state.state import State
from overstory.client.upload.http import Request, Response, Transport, endpoint, parse_object
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.wire.reasons import KEY_PROBLEM, Reason, is_own_problem
from overstory.protocol.wire.upload import MEDIA_TYPE

if TYPE_CHECKING:
    from overstory.protocol.metrics import MetricRegistry
    from overstory.protocol.metrics.tables import ObliviousRoute
    from overstory.protocol.oblivious.messages import SealedRequest

Uniform = Callable[[], float]  # draws from [0, 1)

Covers = Callable[[Metric], bool]  # returns whether the person's consent covers a metric as it is now

Failures = Mapping[str, int]  # consecutive failures of the collector, and consecutive refusals of each metric

COLLECTOR: Final = ""  # the key of the collector among those of the metrics

RETRIED: Final = frozenset({408, 425, 429})
DAY: Final = 86_400.0
_REASON: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_STRANGER: Final = re.compile(r"http-[0-9]+, .*")
RELAY: Final = "relay: "  # how the answer of a decision begins when it came from a relay, or none came
RELAYED: Final = "relayed"
NO_RELAY: Final = "none in the registry"
NO_KEY: Final = "no usable key"
KEYS_REFUSED: Final = "keys refused"
UNOPENED: Final = "an answer that does not open"
_RELAY_PROBLEMS: Final = {
    f"{RELAY}{NO_KEY}": "this version can use no key of the registry",
    f"{RELAY}{KEYS_REFUSED}": "the collector refuses the registry's keys",
    f"{RELAY}{UNOPENED}": "the answers are encrypted for another request",
}
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


FIRST_BACKOFF: Final = 60.0  # seconds after one failure: the upper end of a uniform draw, which doubles with each
LONGEST_BACKOFF: Final = 6 * 3600.0  # the most that it grows to
LONGEST_ASKED: Final = 24 * 3600.0  # seconds for which a Retry-After can make a report wait: half is obeyed at most


@dataclass(frozen=True)
class Decision:
    """What happens to a row next."""

    state: RowState  # sent, dropped, or still waiting
    answer: str  # why, in a word or a few
    due: float = 0.0  # when to try again; meaningless unless it waits
    resume: float | None = None  # nothing else is sent to this collector before; None when it takes reports
    pause: float = 0.0  # over how many seconds after `resume` the reports that have to wait for it are spread
    of_metric: bool = False  # whether `resume` and `pause` hold for the row's metric alone


def backoff(failures: int, uniform: Uniform) -> float:
    """Return the seconds to wait after consecutive failures: full jitter, uniform from 0; the upper end doubles."""
    doublings = min(max(failures - 1, 0), 64)
    return uniform() * min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0**doublings)


def retry_after(response: Response, now: float) -> float:
    """Return the bounded seconds that Retry-After asks for, or 0; a date is measured against the response's Date."""
    asked = response.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(asked):
        wished = float(asked)
    else:
        until, since = _date(asked), _date(response.headers.get("date", ""))
        wished = 0.0 if until is None else until - (now if since is None else since)
    return min(max(wished, 0.0), LONGEST_ASKED)


def _date(text: str) -> float | None:
    import datetime as dt
    from email.utils import parsedate_to_datetime

    try:
        read = parsedate_to_datetime(text)
        return (read if read.tzinfo else read.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def decide_before_sending(
    row: OutboxRow,
    metric: Metric | None,  # None where it is not listed
    now: float,
    covers: Covers = lambda _: True,
    *,
    has_relay: bool = False,
) -> Decision | None:
    """Return a decision on a row that is too late, not covered or without its relay; None when it has to be sent."""
    if metric is None:
        return Decision(RowState.DROPPED, Reason.UNKNOWN_METRIC)
    begins = metric.period.start(row.period)  # in the future only after the clock was set back
    if now < begins:
        return Decision(RowState.WAITING, Reason.PERIOD_FUTURE, min(begins, now + DAY))
    if metric.expired(begins) or now >= metric.accept_until(row.period):
        return Decision(RowState.DROPPED, Reason.METRIC_EXPIRED if metric.expired(begins) else Reason.PERIOD_CLOSED)
    if not covers(metric):
        return Decision(RowState.WAITING, NOT_ASKED, now + HELD)
    if metric.is_oblivious and not has_relay:
        return Decision(RowState.WAITING, f"{RELAY}{NO_RELAY}", now + HELD)
    return None


NOT_ASKED: Final = "not asked about as it is now"
HELD: Final = 3600.0  # seconds until a report that may not be sent is looked at again


def decide(
    row: OutboxRow,  # its `attempts` do not count this one
    response: Response,
    *,
    now: float,
    failures: Failures,  # without this one
    uniform: Uniform,
) -> Decision:
    """Return what an answer means for a row."""
    state, why = _judge(response, row.batch)
    if state is not RowState.WAITING:
        return Decision(state, why)
    reason = parse_reason(why)
    of_metric = response.relay or (reason is not None and reason.of_metric)
    in_a_row = failures.get(row.metric if of_metric else COLLECTOR, 0)
    asked = min(retry_after(response, now), LONGEST_ASKED / 2)
    again = now + asked * (1 + uniform()) + backoff(max(row.attempts, in_a_row) + 1, uniform)
    if reason is Reason.PERIOD_FUTURE:
        return Decision(RowState.WAITING, why, again)
    rest = asked + backoff(in_a_row + 1, uniform)
    return Decision(RowState.WAITING, why, again, resume=now + rest, pause=rest, of_metric=of_metric)


def parse_reason(word: object) -> Reason | None:
    """Return the reason of this name; None where there is none."""
    return Reason(word) if isinstance(word, str) and word in set(Reason) else None


def problem_words(why: str, metric: str = "") -> str | None:
    """Describe what is wrong by the `answer` of a decision; None for what passes by itself, such as a lost network."""
    if why.startswith(RELAY):
        problem = _RELAY_PROBLEMS.get(why)
        if problem is None and _STRANGER.fullmatch(why.removeprefix(RELAY)):
            problem = f"the answers are not a relay's ({why.removeprefix(RELAY)})"
        return f"{problem} for {metric}" if problem and metric else problem
    reason = parse_reason(why)
    if reason is not None and not reason.passing:
        return f"the collector refuses{metric and ' '}{metric} ({why})"
    return f"the answers are not the collector's ({why})" if _STRANGER.fullmatch(why) else None


def _judge(response: Response, batch: bytes) -> tuple[RowState, str]:
    """Return the new state of a batch after a response, and the reason in a few words."""
    if response.relay:
        return _judge_relay(response)
    if response.status is None:
        return RowState.WAITING, response.error or "no answer"
    body = parse_object(response) or {}
    refusal = _refusal(body, response.status)
    results = body.get("results") if refusal is not None or 200 <= response.status < 300 else None
    listed = results if isinstance(results, list) else []
    result = next((each for each in listed if isinstance(each, dict) and each.get("batch") == batch.hex()), None)
    if result is not None:
        return _read_result(result) or (RowState.WAITING, _describe_stranger(response))
    if refusal is None or results:  # it refuses other batches, and not this one
        return RowState.WAITING, _describe_stranger(response)
    return _end_state(refusal), refusal


def _judge_relay(response: Response) -> tuple[RowState, str]:
    """Likewise, of what a relay answered: it has stored the message, or there is a problem that passes."""
    if response.status == 202 and not response.body:
        return RowState.SENT, RELAYED
    if response.status is None:
        return RowState.WAITING, f"{RELAY}{response.error or 'no answer'}"
    if (parse_object(response) or {}).get("type") == KEY_PROBLEM:
        return RowState.WAITING, f"{RELAY}{KEYS_REFUSED}"
    return RowState.WAITING, f"{RELAY}{_describe_stranger(response)}"


def _refusal(body: dict[str, Any], status: int) -> Reason | None:
    reason = parse_reason(body.get("reason"))
    if reason is None or reason.status != status or not isinstance(body.get("results"), list):
        return None
    return reason if is_own_problem(body, reason) else None


def _read_result(result: dict[str, Any]) -> tuple[RowState, str] | None:
    """Return the state and reason that a collector gives for one batch; None where its reason is not defined here."""
    if result.get("duplicate") is True:
        return RowState.SENT, "duplicate"
    accepted, rejected = result.get("accepted"), result.get("rejected")
    if isinstance(accepted, int) and accepted > 0:
        return RowState.SENT, "accepted"
    first = rejected[0] if isinstance(rejected, list) and rejected and isinstance(rejected[0], dict) else result
    reason = parse_reason(first.get("reason"))
    return None if reason is None else (_end_state(reason), reason)


def _end_state(reason: Reason) -> RowState:
    return RowState.DROPPED if reason.final else RowState.WAITING


def _describe_stranger(response: Response) -> str:
    """Describe a response that no collector sent: its status, and the kind of its body."""
    status = f"http-{response.status}"
    if response.status in RETRIED or 500 <= (response.status or 0) < 600:
        return status  # busy or broken, a relay or the collector
    body, start = parse_object(response), response.body.lstrip()[:1]
    if body is not None:
        reason = body.get("reason")
        return f"{status}, {reason if isinstance(reason, str) and _REASON.fullmatch(reason) else 'JSON'}"
    return f"{status}, {'a page' if start == b'<' else 'other bytes' if start else 'empty'}"


LEAST: Final = 0.05  # seconds: with less time left, no request is started
AT_ONCE: Final = 64  # reports that are leased and shuffled together

Permit = Callable[[], object]
"""Returns None when nothing may be sent, else a value that stays equal while the same consent allows it."""


@dataclass(frozen=True)
class Collector:
    """A collector over HTTP. A device sends each report in a request of its own, and a gateway several together."""

    server: str  # its address
    transport: Transport  # how requests travel
    token: str = field(default="", repr=False)  # the application's write token
    # seconds for which reports are those of the process that took them, beside the round's; a crash delays them by it
    lease: float = 120.0
    timeout: float = 30.0  # seconds for one request, at most
    uniform: Uniform = random.SystemRandom().random  # draws delays, and the order
    clock: Callable[[], float] = time.time  # the time of day, in unix seconds
    most_uploads: int = 1  # of one request; several need no random delays of their own
    most_bytes: int = 1 << 20  # of one request with several uploads

    def __post_init__(self) -> None:
        endpoint(self.server)

    def send_due(
        self,
        state: State,
        registry: MetricRegistry,
        *,
        seconds: float = math.inf,
        permit: Permit = lambda: True,
        covers: Covers = lambda _: True,
    ) -> Round:
        """Send what is due, within a time limit; a request of many uploads that has begun has all of its own time."""
        last = self.timeout if self.most_uploads > 1 else 0.0
        lease = self.lease and self.lease + last + (max(seconds, 0.0) if math.isfinite(seconds) else 0.0)
        return Delivery(self, state, registry, permit, covers, time.monotonic() + seconds, lease).run()

    def spread(self) -> float:
        """Draw the delay of a report after a failure, as a share of the longest one."""
        return self.uniform() if self.most_uploads == 1 else 0.0


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

    collector: Collector
    state: State
    registry: MetricRegistry
    permit: Permit
    covers: Covers
    until: float  # the end of the round, as `time.monotonic` measures it
    lease: float  # seconds for which leased reports are this process's; 0 where the time of one is simulated
    done: Round = field(default_factory=Round)
    _permitted: object = None  # what `permit` returned at the beginning
    _health: CollectorHealth = field(default_factory=CollectorHealth)
    _failures: dict[str, int] = field(default_factory=dict)

    def run(self) -> Round:
        self._permitted = self.permit()
        if self._permitted is None:
            return self.done
        with self.state.transaction() as rows:
            self._notice_move(rows)
            taken = self._take(rows)
        while taken:
            if self._is_over():
                with self.state.transaction() as rows:
                    _give_back(rows, taken)
                break
            taken = self._process(taken)
        return self.done

    def _notice_move(self, rows: Rows) -> None:
        """Clear the failures where reports go to another address that may get some: they were the other collector's."""
        metrics, now = self.registry.metrics, origin(self.collector.server)
        if rows.recall(ASKED) == now or not any(map(self.covers, metrics.values())):
            return
        rows.remember(ASKED, now)
        for metric in (COLLECTOR, *metrics):
            CollectorHealth().save(rows, metric)

    def _allowed(self) -> bool:
        """Whether reports may still be sent: a person may withdraw consent at any moment."""
        return self.permit() == self._permitted

    def _is_over(self) -> bool:
        return self.until - time.monotonic() < LEAST or not self._allowed()

    def _take(self, rows: Rows) -> list[OutboxRow]:
        """Lease what is due; of a refused metric one report at a time: together they could be known as one device's."""
        to, self._health = self.collector, CollectorHealth.of(rows)
        now = to.clock()
        self._health.spread(rows, now, to.spread)
        if now < self._health.resume <= now + LONGEST_DELAY:  # the backoff lasts, unless the clock was set back since
            return []
        for metric in rows.outbox.due_metrics(now):
            CollectorHealth.of(rows, metric).spread(rows, now, to.spread, metric)
        taken = rows.outbox.take_due(now, max(AT_ONCE, to.most_uploads), self.lease)
        self._failures = {row.metric: CollectorHealth.of(rows, row.metric).failures for row in taken}
        return sorted(taken, key=lambda _: to.uniform())

    def _process(self, taken: list[OutboxRow]) -> list[OutboxRow]:
        """Send a request's rows and save the decisions; return what is left of the rows taken, or the next ones."""
        most, now, metrics = self.collector.most_uploads, self.collector.clock(), self.registry.metrics
        batch, rest, has_relay = taken[:most], taken[most:], self.registry.oblivious is not None
        decisions = {
            row.id: decide_before_sending(row, metrics.get(row.metric), now, self.covers, has_relay=has_relay)
            for row in batch
        }
        asked = [row for row in batch if decisions[row.id] is None]
        answers = self.send(asked)
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
            return rest or ([] if stopped or self._is_over() else self._take(rows))

    # --- requests -------------------------------------------------------------------------------------------------

    def send(self, rows: Sequence[OutboxRow]) -> dict[int, Decision]:
        """Send rows: those of oblivious metrics through the relay, a message each, and in no other way."""
        direct: list[OutboxRow] = []
        relayed: list[OutboxRow] = []
        for row in rows:
            (relayed if self.registry.metrics[row.metric].is_oblivious else direct).append(row)
        answers = self._send_groups(self._groups(direct), self.collector.transport)
        if relayed and self.registry.oblivious is not None:
            through = oblivious_transport(self.registry.oblivious, self.collector.transport)
            answers |= self._send_groups(([row] for row in relayed), through)
        return answers

    def _groups(self, rows: Sequence[OutboxRow]) -> Iterator[list[OutboxRow]]:
        group, size = list[OutboxRow](), 0
        for row in rows:
            if group and size + len(row.body) > self.collector.most_bytes:
                yield group
                group, size = [], 0
            group.append(row)
            size += len(row.body)
        if group:
            yield group

    def _send_groups(self, groups: Iterable[Sequence[OutboxRow]], transport: Transport) -> dict[int, Decision]:
        """Send each group in a request of its own, while it is allowed; after a failure, none."""
        decisions: dict[int, Decision] = {}
        refused: set[str] = set()
        for group in groups:
            rows = [row for row in group if row.metric not in refused]
            if not rows:
                continue
            if self._is_over():
                break
            made = self._post(rows, transport)
            decisions |= made
            refused |= {row.metric for row in rows if row.id in made and made[row.id].of_metric}
            if any(decision.resume is not None and not decision.of_metric for decision in made.values()):
                break
        return decisions

    def _post(self, rows: Sequence[OutboxRow], transport: Transport) -> dict[int, Decision]:
        """Send rows in one request, or in halves where one of them spoils it; return the decisions."""
        to, body, left = self.collector, b"".join(row.body for row in rows), self.until - time.monotonic()
        seconds = to.timeout if to.most_uploads > 1 else min(left, to.timeout)
        response = transport(Request(endpoint(to.server), body, MEDIA_TYPE, to.token, seconds))
        if len(rows) > 1 and _may_split(response):
            half = len(rows) // 2
            return self._send_groups((rows[:half], rows[half:]), transport)
        now, failures = to.clock(), {COLLECTOR: self._health.failures} | self._failures
        decisions = {row.id: decide(row, response, now=now, failures=failures, uniform=to.uniform) for row in rows}
        for decision in decisions.values():
            warn(decision, to.server)
        return decisions

    # --- what is saved --------------------------------------------------------------------------------------------

    def _save_health(self, rows: Rows, asked: Iterable[OutboxRow], answers: Mapping[int, Decision]) -> None:
        """Save the health of the collector and of each metric that was sent: a failure where there was one."""
        by_metric: dict[str, Decision] = {}
        for row in asked:
            if row.id in answers and (row.metric not in by_metric or by_metric[row.metric].resume is None):
                by_metric[row.metric] = answers[row.id]
        if not by_metric:
            return
        now = self.collector.clock()
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
                rows.remember(f"sent {row.metric}", metric.period.number(self.collector.clock()))
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
