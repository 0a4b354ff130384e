"""Turns readings into one durable report per period; no period is reported twice, even if the process is killed."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, Literal

from overstory.client import Client
from overstory.client.budget import ledger_of
from overstory.client.consent import CI_VARIABLES, Choice, choose, origin
from overstory.client.outcomes import MADE, Fault, Outcome, Round
from overstory.client.state.files import introduce
from overstory.client.state.rows import Bounds, RowState
from overstory.client.state.state import State
from overstory.client.upload.delivery import Collector
from overstory.gateway.readings import LONGEST, Alignment, BadLine, Due, Pick, Reading
from overstory.presentation.formats import finite
from overstory.privacy.approximate import DELTA
from overstory.privacy.ledger import Ledger
from overstory.privacy.registry.cost import metric_cost, yearly
from overstory.privacy.terms import metric_terms
from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.metrics import Metric, MetricRegistry
from overstory.protocol.metrics.groups import OTHER
from overstory.supervision.clock import ClockWatch

Clock = Literal["real", "readings"]  # the source of the time: the machine's clock, or the readings' own times

AT_ONCE: Final = 500  # reports in one transaction while readings are replayed, and in one request
BOUNDS: Final = Bounds(waiting_rows=20_000, waiting_bytes=1 << 26)
PASSING: Final = frozenset({Fault.BUSY, Fault.FULL, Fault.READ_ONLY, Fault.UNREADABLE})
"""What may be over later: a gateway that follows a stream waits for that."""
PAUSE: Final = 1.0
ROUND: Final = 30.0  # seconds for writing and sending together; what is left is sent in the next round
LOG: Final = logging.getLogger("overstory.gateway")
FATAL: Final = frozenset({Outcome.OFF, Outcome.NOT_ASKED, Outcome.UNKNOWN, Outcome.UNAVAILABLE, Outcome.CLOSED})


class GatewayError(OverstoryError):
    """Reports cannot be made, stored or delivered; earlier reports remain stored."""


class _PeriodClock:
    """The client's clock: the end of a period while that period is reported, else the current time."""

    def __init__(self, clock: Clock, now: Callable[[], float]) -> None:
        self._real, self._now = clock == "real", now
        self.at, self.reporting = 0.0, False  # the end of the last period reported; whether it is being reported

    def __call__(self) -> float:
        return self._now() if self._real and not self.reporting else self.at

    def not_after_today(self) -> float:
        """Return the earlier of the readings' time and the day's: a reading with a wrong time ends no metric."""
        return min(self(), self._now())


@dataclass(frozen=True)
class Settings:
    """What an operator chooses."""

    metric: str  # its id in the registry
    state: str | os.PathLike[str] | None = None  # the folder; None: the platform's, for an application "gateway"
    pick: Pick = "last"
    clock: Clock = "readings"  # by which a period is over
    spread: float | None = None  # seconds of random delay, at most; None: the client's with the real clock, else 0
    agree: Choice | None = None  # the consent given with this call; None: the earlier choice applies
    group: str | None = None  # the device's public group; None: it is in no listed one


def _groups(metric: Metric, group: str | None) -> dict[str, str]:
    """Return what decides on the device's group; refuse one that the metric does not list."""
    groups = metric.groups
    if groups is None:
        if group is not None:
            raise ParameterError(f"{metric.id} has no groups: its reports name none")
        return {}
    if group is not None:
        groups.share(group)
    return {groups.by: OTHER if group is None else group}


class Gateway:
    """One metric's readings on one device; GatewayError where nobody has agreed, or reports would have no way to go."""

    def __init__(
        self,
        registry: MetricRegistry,
        settings: Settings,
        collector: Collector | None = None,
        *,
        environ: Mapping[str, str] | None = None,  # the process's, unless given; marks of continuous integration apart
    ) -> None:
        self.metric: Metric = registry[settings.metric]
        self.now = ClockWatch().read  # a jump must not end a period, nor refuse a reading, nor give up a report
        self.settings, self._clock = settings, _PeriodClock(settings.clock, self.now)
        around = os.environ if environ is None else environ
        named = {name: value for name, value in around.items() if name not in CI_VARIABLES}
        spread = settings.spread if settings.clock == "real" or settings.spread is not None else 0.0
        Alignment(self.metric, pick=settings.pick)  # refuses choices before anything is made
        server = None if collector is None else collector.server
        if collector is not None:  # by the readings' clock no lease can end
            lease = collector.lease if settings.clock == "real" else 0.0
            collector = replace(collector, clock=self._clock, lease=lease)
        self.client = Client(
            "gateway",
            registry=registry,
            server=collector,
            state=settings.state,
            clock=self._clock,
            end_clock=self._clock.not_after_today,
            environ=named,
            spread=spread,
            bounds=BOUNDS,
            groups=_groups(self.metric, settings.group),
        )
        self._allow(server)
        self._state = State(self.client.paths, timeout=10.0, bounds=BOUNDS)
        done = self._begin()
        self.alignment = Alignment(self.metric, pick=settings.pick, done=done)
        self.dispatched, self.outcomes = Round(), Counter[str]()
        self._pending, self._held = 0, False

    def _allow(self, server: str | None) -> None:
        if self.settings.agree is not None:
            # On the day that it is, whatever the readings' own time.
            today = datetime.now(UTC).date()
            agreed = choose(self.client.paths, self.client.registry, self.settings.agree, today, server=server)
            introduce(self.client.paths, self.client.app, self.client.registry, agreed.server)
        effective = self.client.effective
        if not effective.asked:
            raise GatewayError(
                "nobody has agreed that this gateway reports: --agree on does, for the metrics of this registry "
                "(--agree local keeps the reports here)"
            )
        if effective.choice is Choice.OFF:
            raise GatewayError(f"nothing may be reported: {effective.cause}")
        consent, to = effective.consent, None if server is None else origin(server)
        if consent is not None and (reasons := [*consent.reasons(self.metric, self.client.registry, to)]):
            raise GatewayError(
                f"nobody has agreed to {self.metric.id} as it is (--agree on does): {'; '.join(reasons)}"
            )
        if effective.choice is Choice.ON and server is None:
            raise GatewayError("name a collector (--server): reports must go somewhere")

    def _begin(self) -> int | None:
        """Open the state, making it the first time; return the last period that was reported."""
        self._state.begin()
        with self._state.snapshot() as rows:
            claims = rows.claims(self.metric.id).by(self.metric.period)
        done = max(claims.reported, default=None if claims.first is None else claims.first - 1)
        if done is not None:
            self._clock.at = float(self.metric.period.start(done + 1) - 1)
        return done

    def take(self, reading: Reading) -> None:
        self._report(self.alignment.feed(reading))

    def pass_time(self, now: float) -> None:
        self._report(self.alignment.pass_time(now))
        self.flush()

    def finish(self) -> None:
        self._report(self.alignment.finish())
        self.flush()

    def flush(self) -> None:
        """Write what is in memory to the disk, and deliver what is due, round after round."""
        more = True
        while more:
            flushed = self.client.flush(timeout=ROUND)
            for word in ("withdrawn", "already", "spent", "ended"):
                self.outcomes[word] += flushed.written.get(word, 0)
            done = flushed.sent or Round()
            self.dispatched = self.dispatched.plus(done)
            more = bool(done.sent or done.dropped or flushed.problem is not None)
            if flushed.written or flushed.problem is None:
                self._pending = 0
            if flushed.problem is not None:
                self._wait(GatewayError(f"reports cannot be written or sent: {flushed.problem}"), self.client.fault)
                if not self._pending:
                    return  # what could not be delivered waits in the state, and for the next time
        if self._held:
            LOG.warning("the gateway goes on: everything is written")
            self._held = False

    def _wait(self, error: GatewayError, fault: Fault | None) -> None:
        """Wait where a stream is followed and the fault may pass, and say so once; else raise the error."""
        if self.settings.clock != "real" or fault not in PASSING:
            self._pending = 0
            raise error
        if not self._held:
            LOG.error("%s; what was read is kept until it can be written", error)
        self._held = True
        time.sleep(PAUSE)

    def close(self) -> None:
        """Write what is in memory to the disk; the next run delivers what waits."""
        self.client.close()

    def _report(self, dues: Iterable[Due]) -> None:
        for due in dues:
            self._clock.at, self._clock.reporting = float(self.metric.period.start(due.period + 1) - 1), True
            outcome = self.client.record(self.metric.id, due.value)
            while outcome is Outcome.UNAVAILABLE:
                self._wait(self._unreportable(outcome), self.client.fault)
                outcome = self.client.record(self.metric.id, due.value)
            self._clock.reporting = False
            self.outcomes[str(outcome)] += 1
            if outcome in FATAL:
                raise self._unreportable(outcome)
            self._pending += outcome in MADE
            # A panel counts a report in memory as one of this cycle, and a file may have many cycles.
            if self._pending >= (AT_ONCE if self.settings.clock == "readings" and self.metric.panel is None else 1):
                self.flush()

    def _unreportable(self, outcome: Outcome) -> GatewayError:
        problem = self.client.status().problem or self.client.effective.cause
        return GatewayError(f"nothing can be reported ({outcome}): {problem}")

    def summary(self) -> dict[str, Any]:
        """Return what became of the readings and the reports, and what was spent, as JSON values."""
        with self._state.snapshot() as rows:
            mine, waiting = ledger_of(rows).of({self.metric.id}), rows.outbox.tally()
        return {
            "metric": self.metric.id,
            "period": str(self.metric.period),
            "readings": asdict(self.alignment.seen),
            "reports": {word: number for word, number in sorted(self.outcomes.items()) if number},
            "handed_over": self.dispatched.sent,
            "dropped": dict(self.dispatched.dropped),
            "waiting": waiting[RowState.WAITING],
            "trouble": self.dispatched.error or None,
            "privacy": self._privacy(mine),
        }

    def _privacy(self, mine: Ledger) -> dict[str, Any]:
        built, cost = self.metric.mechanism, metric_cost(self.metric, so_far=mine)
        terms, window = metric_terms(self.metric), self.metric.window
        in_window = None if window is None else terms.epsilon_any(window)
        year = yearly([self.metric], self.client.registry.budget)
        return {
            "headline": year.sentence,
            "epsilon_year": finite(year.epsilon),
            "reports": cost.made,
            "distinct_values": cost.distinct,
            "epsilon_report": built.epsilon_report,
            "window": window,
            "epsilon_window": finite(in_window),
            "windows": None if window is None else cost.made / window,
            "epsilon_any": finite(mine.epsilon_any),
            "delta": DELTA,
            "epsilon_at_delta": finite(mine.epsilon_at(DELTA)),
        }


MOST_SHOWN: Final = 20
QUEUED: Final = 1000
LONGEST_SLEEP: Final = 30.0


def bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines; of one that is too long, as much as shows that it is."""
    while line := stream.readline(LONGEST + 2):
        yield line
        rest = line
        while len(rest) == LONGEST + 2 and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST + 2)


@dataclass
class Lines:
    """What lines were, counted."""

    source: str  # what errors call the lines: the file's name
    read: int = 0
    bad: int = 0  # those that had no time or no value
    shown: list[BadLine] = field(default_factory=list)  # the first bad ones

    def good(self, item: Reading | BadLine) -> Reading | None:
        """Count an item, and whether its line is bad; return it if it is a reading."""
        self.read += 1
        reading = item if isinstance(item, Reading) else None
        bad = item.fault if isinstance(item, Reading) else item
        if bad is not None:
            self.bad += 1
            if len(self.shown) < MOST_SHOWN:
                self.shown.append(bad)
        return reading

    def to_json(self) -> dict[str, Any]:
        return {"read": self.read, "bad": self.bad, "bad_lines": [asdict(bad) for bad in self.shown]}


def replay(gateway: Gateway, items: Iterable[Reading | BadLine], lines: Lines) -> None:
    """Report a file's readings by their own time; the last period is taken for complete."""
    try:
        for item in items:
            reading = lines.good(item)
            if reading is not None:
                gateway.take(reading)
    except BaseException:
        gateway.flush()  # what was read before the error is reported all the same
        raise
    gateway.finish()


def follow(gateway: Gateway, items: Iterator[Reading | BadLine], lines: Lines, *, wait: float = 60.0) -> None:
    """Report a stream's readings as time passes, each period `wait` seconds after its end; an open one is left out."""
    incoming: queue.Queue[Reading | BadLine | BaseException | None] = queue.Queue(QUEUED)
    threading.Thread(target=_read, args=(items, incoming), name="overstory-readings", daemon=True).start()
    while True:
        ends, now = gateway.alignment.ends, gateway.now()
        until = LONGEST_SLEEP if ends is None else ends + wait - now
        try:
            item = incoming.get(timeout=min(max(until, 0.01), LONGEST_SLEEP))
        except queue.Empty:
            gateway.pass_time(gateway.now() - wait)
            continue
        if item is None:
            break
        if isinstance(item, BaseException):
            raise item
        if isinstance(item, Reading) and item.time > gateway.now() + gateway.metric.period.seconds:
            # It would close every period before it.
            item = BadLine(item.line, "time", "it lies in the future: is the time zone right, and the clock?")
        reading = lines.good(item)
        if reading is not None:
            gateway.take(reading)
    gateway.pass_time(gateway.now())


def _read(items: Iterator[Reading | BadLine], incoming: queue.Queue[Any]) -> None:
    try:
        for item in items:
            incoming.put(item)
        incoming.put(None)
    except BaseException as error:  # noqa: BLE001 - it is raised where the reading is done
        incoming.put(error)
