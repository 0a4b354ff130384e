"""A fleet of simulated devices on the client's own path: each has a secret, a state and an outbox like a real one.

What is the client's: the session that records, the recorder, the memo with its cap, the budget, the outbox, the round
of sending and what an answer means. What differs from real devices: the state is in memory and no disk is waited for,
the clock is simulated, reports are sent without a random delay, and a relay posts the uploads of many devices in one
request and gives each device the answer that its own upload would have had.
"""

from __future__ import annotations

import json
import random
import secrets
import sqlite3
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.client.consent import Agreement, Choice, Consent, EffectiveChoice
from overstory.client.outcomes import MADE, Outcome
from overstory.client.session import Session
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import VERSION, Rows, RowState, create_tables
from overstory.client.state.secret_file import DeviceSecret
from overstory.client.state.state import State, committed
from overstory.client.upload.delivery import Collector, retry_after
from overstory.client.upload.http import Request, Response, Transport, endpoint, parse_object
from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.metrics import Metric, MetricRegistry
from overstory.protocol.metrics.panel import ASKED, Places
from overstory.protocol.metrics.period import YEAR
from overstory.protocol.wire.reasons import Reason, problem_detail
from overstory.protocol.wire.upload import MEDIA_TYPE

if TYPE_CHECKING:
    from overstory.files.columns import Form


GROUP: Final = 256  # devices that are in memory together, and uploads of one request

PATIENCE: Final = 60.0  # for how many seconds a collector that is busy is waited for

TIMEOUT: Final = 30.0
MOST_DEVICES: Final = 10_000_000
MOST_PERIODS: Final = 10_000
MOST_YEARS: Final = 10


class FleetError(OverstoryError):
    """The collector does not answer, or refuses every request."""


class MemoryState(State):
    """A device's state without files: the client's tables and transactions, gone when the process ends."""

    def __init__(self, secret: DeviceSecret) -> None:
        super().__init__(StatePaths(Path("memory")))
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        with committed(self._connection):
            create_tables(self._connection)
        self._tables = [
            name for (name,) in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        self.renew(secret)

    def renew(self, secret: DeviceSecret) -> None:
        """Become the state of another device: the statements that SQLite has prepared are most of a device's time."""
        self._root = self.secret = secret
        with committed(self._connection):
            for table in self._tables:
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - the schema's own names
            about = [("schema", VERSION), ("fingerprint", secret.fingerprint)]
            self._connection.executemany("INSERT INTO about VALUES (?, ?)", about)

    @property
    def exists(self) -> bool:
        return True

    def begin(self) -> DeviceSecret:
        """Return the secret, without the keys of metrics that are over."""
        self._root = self._root.without(Rows(self._connection, self.bounds).erased())
        self.secret = self._root
        return self._root

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[Rows]:  # noqa: ARG002
        with committed(self._connection):
            yield Rows(self._connection, self.bounds)

    @contextmanager
    def snapshot(self) -> Iterator[Rows]:
        yield Rows(self._connection, self.bounds)


@dataclass(frozen=True)
class Moment:
    """A period of a metric in which every device records once."""

    metric: Metric
    period: int

    @property
    def time(self) -> float:
        return float(self.metric.period.start(self.period))


def moments(metrics: Iterable[Metric], periods: int, now: float, years: int | None = None) -> list[Moment]:
    """Return the last periods of each metric in order of time; old ones only by years, if the collector has a clock."""
    if not 1 <= periods <= MOST_PERIODS:
        raise ParameterError(f"--periods {periods}: give a whole number from 1 to {MOST_PERIODS:,}")
    if years is not None and not 1 <= years <= MOST_YEARS:
        raise ParameterError(f"--years {years}: give a whole number from 1 to {MOST_YEARS}")
    listed = []
    for metric in metrics:
        last, many = metric.period.number(now), periods
        if metric.expired(now):
            raise ParameterError(f"metric {metric.id} expired on {metric.expires}: choose others with --metric ID")
        if years is not None:
            many = max(years * YEAR // metric.period.seconds, 1)
            if many > MOST_PERIODS:
                these = f"{many:,} periods of {metric.id}, and {MOST_PERIODS:,} are simulated at most"
                raise ParameterError(f"--years {years}: these are {these}: choose others with --metric ID")
        elif metric.accept_until(last - many + 1) <= now:
            taken = next(n for n in range(many) if metric.accept_until(last - n) <= now)
            raise ParameterError(
                f"--periods {periods}: a collector takes reports of {metric.id} until {metric.grace_days} days after "
                f"their {metric.period}, so give at most {taken}, or --years"
            )
        listed += [Moment(metric, last - n) for n in range(many)]
    return sorted(listed, key=lambda moment: (moment.time, moment.metric.id))


@dataclass
class Outcomes:
    """What became of one metric's reports."""

    made: int = 0  # reports that devices made
    not_made: Counter[str] = field(default_factory=Counter)  # reports that no device made, by the answer of `record`
    accepted: int = 0  # reports that the collector has
    dropped: Counter[str] = field(default_factory=Counter)  # reports that it refused for good, by reason

    def to_json(self) -> dict[str, Any]:
        return {"reports": self.made, "accepted": self.accepted} | {
            "refused": dict(self.dropped),
            "not_made": dict(self.not_made),
        }


class Fleet:
    """Devices that agreed to a registry, and the way to its collector."""

    def __init__(
        self,
        registry: MetricRegistry,
        server: str,
        transport: Transport,
        *,
        token: str = "",
        roots: Callable[[], bytes] | None = None,  # gives each device's root secret, 32 bytes; random unless given
        groups: Callable[[], Mapping[str, str]] = dict,  # gives what each device's groups are decided by
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._registry, self._transport, self._token, self._sleep = registry, transport, token, sleep
        self._roots = roots or (lambda: secrets.token_bytes(32))
        self._server, self._url, self._groups = server, endpoint(server), groups
        self._now = 0.0
        self.most_in_a_year = 0  # the most reports that one device made within any 366 days
        listed = {name: Agreement.to(metric) for name, metric in registry.items()}
        self._consent = Consent(Choice.ON, "", registry.version, listed, "simulated", None, registry.budget)
        self._effective = EffectiveChoice(Choice.ON, "simulated people agree", self._consent)
        self._covered: dict[str, bool] = {}
        self._states: list[MemoryState] = []
        self.outcomes: dict[str, Outcomes] = {}

    def run(
        self,
        devices: Iterable[Sequence[Any]],
        when: Sequence[Moment],
        advance: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Let every device live through all moments, group by group."""
        oblivious = sorted({moment.metric.id for moment in when if moment.metric.is_oblivious})
        if oblivious:
            raise ParameterError(
                f"{', '.join(oblivious)}: reports go through a relay, and simulated devices post to the collector: "
                "choose other metrics with --metric ID"
            )
        self.outcomes = {moment.metric.id: Outcomes() for moment in when}
        held = iter(devices)
        while values := list(islice(held, GROUP)):
            self._live(values, when, advance)

    def now(self) -> EffectiveChoice:
        """Return what may be done, as a client's authority does: everything that the registry lists."""
        return self._effective

    def _covers(self, metric: Metric) -> bool:
        if metric.id not in self._covered:
            self._covered[metric.id] = self._consent.covers(metric, self._registry)
        return self._covered[metric.id]

    def clock(self) -> float:
        return self._now

    def _live(self, values: Sequence[Sequence[Any]], when: Sequence[Moment], advance: Callable[[int], object]) -> None:
        self._now = when[0].time
        states = self._devices(len(values))
        sessions = [Session(state, self._registry, self.clock, self._groups(), spread=0.0) for state in states]
        made: list[list[float]] = [[] for _ in states]  # when each device made its reports
        for number, (moment, asked) in enumerate(zip(when, self._who_is_asked(states, when), strict=True)):
            self._now = moment.time
            outcomes = self.outcomes[moment.metric.id]
            if len(asked) < len(states):
                outcomes.not_made[Outcome.UNASKED] += len(states) - len(asked)
            for device in asked:
                session = sessions[device]
                outcome = session.record(moment.metric, values[device][number], moment.time, self._effective)
                if outcome in MADE:
                    outcomes.made += 1
                    made[device].append(moment.time)
                else:
                    outcomes.not_made[outcome] += 1
                session.flush(self, 0.0)  # type: ignore[arg-type] # it asks `now`, as of a client's authority
            self._deliver([states[device] for device in asked], moment.metric)
            advance(len(values))
        self.most_in_a_year = max(self.most_in_a_year, *map(_most_in_a_year, made))

    def _who_is_asked(self, states: Sequence[MemoryState], when: Sequence[Moment]) -> list[list[int]]:
        """Return the devices that each moment asks, by their places: in a panel few are, and the others do nothing."""
        stretches: dict[str, tuple[int, int]] = {}
        for moment in when:
            first, last = stretches.get(moment.metric.id, (moment.period, moment.period))
            stretches[moment.metric.id] = min(first, moment.period), max(last, moment.period)
        asked: dict[tuple[str, int], list[int]] = {(moment.metric.id, moment.period): [] for moment in when}
        for device, state in enumerate(states):
            key = state.begin().key(ASKED)
            assert key is not None  # it is no metric's, so it is never destroyed
            places = Places(key, self._registry)
            for name, stretch in stretches.items():
                for period in places.asked(self._registry[name], *stretch):
                    asked[name, period].append(device)
        return [*asked.values()]

    def _devices(self, count: int) -> list[MemoryState]:
        """Return states of devices that never were, in the memory of those before them."""
        fresh = [DeviceSecret.of_root(self._roots()) for _ in range(count)]
        for state, secret in zip(self._states, fresh, strict=False):
            state.renew(secret)
        self._states += [MemoryState(secret) for secret in fresh[len(self._states) :]]
        return self._states[:count]

    def _deliver(self, states: Sequence[MemoryState], metric: Metric) -> None:
        """Send what waits: the uploads of all go together, and each device decides by its own answer."""
        outcomes, held = self.outcomes[metric.id], [(state, sent) for state in states if (sent := _waiting(state))]
        if not held:
            return
        bodies = [body for _, sent in held for body in sent]  # one of each device: nothing waits from before
        answer, listed = self._posted(bodies)
        answers = {body: _alone(entry, answer) for body, entry in zip(bodies, listed, strict=True)}
        sender = Collector(self._server, lambda request: answers[request.body], self._token, clock=self.clock)
        for state, _ in held:
            done = sender.send_due(state, self._registry, seconds=TIMEOUT, permit=lambda: True, covers=self._covers)
            outcomes.accepted += done.sent
            outcomes.dropped.update(done.dropped)
            for reason in _given_up(state, answers):
                outcomes.accepted += reason is None
                outcomes.dropped.update([reason] if reason else ())

    def _posted(self, bodies: Sequence[bytes]) -> tuple[Response, list[dict[str, Any]]]:
        """Return the answer to uploads, and each one's part; a busy collector is left alone as long as it asks."""
        waited, pause, request = 0.0, 0.1, Request(self._url, b"".join(bodies), MEDIA_TYPE, self._token, TIMEOUT)
        while True:
            answer = self._transport(request)
            result = parse_object(answer) or {}
            listed = result.get("results")
            if isinstance(listed, list) and len(listed) == len(bodies):
                return answer, listed
            self._refuse(answer, result)
            pause = min(2 * pause, 5.0)
            wait = max(retry_after(answer, self._now), pause)
            if waited + wait > PATIENCE:
                why = result.get("reason", f"http-{answer.status}")
                raise FleetError(f"{self._server}: {why}; gave up after {waited:.0f} s of trying again")
            self._sleep(wait)
            waited += wait

    def _refuse(self, answer: Response, result: Mapping[str, Any]) -> None:
        """Raise FleetError where asking again cannot help."""
        if answer.status is not None and (answer.status in {408, 425, 429} or answer.status >= 500):
            return
        if answer.status is None:
            raise FleetError(f"{self._server}: {answer.error or 'no answer'}; is a collector running there?")
        if 200 <= answer.status < 300 or "reason" not in result:
            raise FleetError(
                f"{self._server} answers, but not as a collector (HTTP {answer.status}): check the address"
            )
        hint = "; give its token in OVERSTORY_WRITE_TOKEN" if answer.status == Reason.NO_TOKEN.status else ""
        raise FleetError(f"{self._server} refuses reports ({result['reason']}): {problem_detail(result) or ''}{hint}")


def _alone(entry: Mapping[str, Any], together: Response) -> Response:
    """Return the answer that a request with this upload alone would have had."""
    reason = entry.get("reason")
    status = 200 if reason is None else Reason(reason).status
    return Response(status, together.headers, json.dumps({"reason": reason, "results": [entry]}).encode())


def _given_up(state: MemoryState, answers: Mapping[bytes, Response]) -> Iterator[str | None]:
    """End what a device would send again, for no minute changes the collector's answer; give its reasons."""
    with state.transaction() as rows:
        for row in rows.outbox.rows(state=RowState.WAITING):
            reason = (parse_object(answers[row.body]) or {}).get("reason")
            rows.outbox.finish(row.id, RowState.DROPPED if reason else RowState.SENT, reason or "accepted")
            yield reason


def _most_in_a_year(times: Sequence[float]) -> int:
    """Return how many of some times, in order, lie within 366 days, at most."""
    return max((bisect_left(times, time + YEAR) - number for number, time in enumerate(times)), default=0)


def _waiting(state: MemoryState) -> list[bytes]:
    with state.snapshot() as rows:
        return [row.body for row in rows.outbox.rows(state=RowState.WAITING)]


OUTSIDE: Final = "outside the domain"
"""The label of values that a metric does not take: a device reports nothing in their place."""


@dataclass(frozen=True)
class ValueDistribution:
    """The values of a metric, and how often each is held."""

    values: Sequence[Any]  # what a program records
    labels: Sequence[str]  # what each is counted as
    weights: Sequence[float]  # their shares, in any unit

    @classmethod
    def of_values(cls, metric: Metric, candidates: Sequence[str] | None = None) -> ValueDistribution:
        """Return one over a metric's values, the n-th with a share proportional to 1/n."""
        values = metric.domain.examples() or candidates or metric.candidates
        if not values:
            raise ParameterError(
                f"metric {metric.id} takes any string: give --candidates FILE, one a line, or --data FILE --column C"
            )
        weights = [1.0 / n for n in range(1, len(values) + 1)]
        return cls(values, [label_of(metric, value) for value in values], weights)

    @classmethod
    def of_texts(cls, metric: Metric, counts: Mapping[str, int]) -> ValueDistribution:
        """Return one of the texts of a file, read as the metric's values."""
        values = [_read(metric, text) for text in counts]
        return cls(values, [label_of(metric, value) for value in values], list(counts.values()))


def label_of(metric: Metric, value: Any) -> str:
    """Return what a value is counted as."""
    try:
        encoded = metric.encode(value)
    except ParameterError:
        return OUTSIDE
    return metric.domain.label(encoded)


def _read(metric: Metric, text: str) -> Any:
    try:
        return metric.domain.read(text)
    except ValueError:
        return text


class Holders:
    """Draws what each device holds at each moment, another value with a chance of `change`, and counts it."""

    def __init__(
        self, populations: Mapping[str, ValueDistribution], when: Sequence[Moment], change: float, rng: random.Random
    ) -> None:
        if not 0 <= change <= 1:
            raise ParameterError(f"--change {change:g}: give a share from 0 to 1")
        self._distributions, self._when, self._change, self._rng = populations, when, change, rng
        self._edges = {name: list(accumulate(values.weights)) for name, values in populations.items()}
        # How many devices held each label, for each moment: what no collector sees.
        self.truth: list[Counter[str]] = [Counter() for _ in when]

    def devices(self, count: int) -> Iterator[list[Any]]:
        for _ in range(count):
            held: dict[str, int] = {}
            values = []
            for moment, truth in zip(self._when, self.truth, strict=True):
                name = moment.metric.id
                distribution = self._distributions[name]
                if name not in held or (self._change and self._rng.random() < self._change):
                    places = range(len(distribution.values))
                    held[name] = self._rng.choices(places, cum_weights=self._edges[name])[0]
                values.append(distribution.values[held[name]])
                truth[distribution.labels[held[name]]] += 1
            yield values


def read_texts(path: str, column: str, form: Form | None = None) -> Counter[str]:
    """Return how often each text occurs in a column of a CSV or Parquet file; what is missing is left out."""
    from overstory.files.columns import ANY_FORM
    from overstory.files.recognition import recognize
    from overstory.trial.population import count_texts

    form = form or ANY_FORM
    counts, _ = count_texts(path, column, form=form)
    return Counter(recognize(column, counts, replace(form, words=True)).added(counts))
