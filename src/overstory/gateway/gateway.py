"""Turns readings into one durable report per period; no period is reported twice, even if the process is killed."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from overstory.client import Client
from overstory.client.budget import Spent, budget, spent
from overstory.client.consent.choice import choose
from overstory.client.consent.consent import Choice, Consent
from overstory.client.consent.policy import CI_VARIABLES
from overstory.client.outcomes import MADE, Outcome
from overstory.client.state.outbox import Bounds, RowState
from overstory.client.state.state import State
from overstory.client.upload.delivery import Round
from overstory.gateway.alignment import Alignment, Due, Missing, Pick
from overstory.gateway.readings import Reading
from overstory.gateway.sinks import GatewayError, Sink, dispatch
from overstory.privacy.approximate import DELTA
from overstory.privacy.claims import finite
from overstory.privacy.payloads.registry import terms_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric, MetricRegistry
from overstory.protocol.metrics.groups import OTHER

Clock = Literal["real", "readings"]
"""The source of the time: the machine's clock, or the readings' own times."""

AT_ONCE: Final = 500
"""Reports in one transaction while readings are replayed."""
BOUNDS: Final = Bounds(waiting_rows=20_000, waiting_bytes=1 << 26)
FATAL: Final = frozenset({Outcome.OFF, Outcome.NOT_ASKED, Outcome.UNKNOWN, Outcome.UNAVAILABLE, Outcome.CLOSED})


class _SettableClock:
    """The client's clock: set to the end of a period while that period is reported, else the current time."""

    def __init__(self, clock: Clock) -> None:
        self._real, self._at = clock == "real", 0.0
        self._fixed: float | None = None

    def __call__(self) -> float:
        if self._fixed is not None:
            return self._fixed
        return time.time() if self._real else self._at

    def not_after_today(self) -> float:
        """Return the earlier of the readings' time and the day's: a reading with a wrong time ends no metric."""
        return min(self(), time.time())

    def set(self, end: float) -> None:
        self._fixed = self._at = end

    def reset(self) -> None:
        self._fixed = None


@dataclass(frozen=True)
class Settings:
    """What an operator chooses.

    Attributes
    ----------
    metric
        The id of the metric in the registry.
    state
        The folder of this device's state; None: the platform's, for an application called "gateway".
    pick
        The value of a period with several readings: the "last", the "mean" or the "sum".
    missing
        What is reported of a period without a reading: nothing ("skip"), the value before ("repeat"), or "zero".
    clock
        When a period is over: by the "real" time, or by that of the "readings".
    spread
        Seconds of random delay before a report may leave; None: the client's default with the real clock, else 0.
    agree
        The consent given with this call: "on" or "local"; None: the earlier choice applies.
    group
        The public group of the device, of a metric with groups; None: it is in no listed one.
    """

    metric: str
    state: str | os.PathLike[str] | None = None
    pick: Pick = "last"
    missing: Missing = "skip"
    clock: Clock = "readings"
    spread: float | None = None
    agree: Choice | None = None
    group: str | None = None


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
    """One metric's readings on one device.

    Parameters
    ----------
    registry
        The metric registry; a person's consent is to its metrics.
    settings
        The metric, the folder of the state, and how readings become values.
    sink
        Where reports go; None under the choice `local`, where they stay.
    environ
        The environment to be honoured: the process's, unless given. Marks of continuous integration are not: readings
        are handed to a gateway on purpose, wherever it runs.

    Raises
    ------
    GatewayError
        When nobody has agreed, or there is no sink for reports that may leave.
    ParameterError
        When a setting does not fit the metric.

    Examples
    --------
    >>> import tempfile
    >>> from overstory.gateway.readings import Reading
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gateway = Gateway(parse_registry(EXAMPLE), Settings("colour", folder, agree="local"), environ={})
    ...     gateway.take(Reading(1, 1795219200.0, "red"))
    ...     gateway.finish()
    ...     gateway.outcomes["recorded"]
    1
    """

    def __init__(
        self,
        registry: MetricRegistry,
        settings: Settings,
        sink: Sink | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.metric: Metric = registry[settings.metric]
        self.settings, self._clock = settings, _SettableClock(settings.clock)
        around = os.environ if environ is None else environ
        named = {name: value for name, value in around.items() if name not in CI_VARIABLES}
        spread = settings.spread if settings.clock == "real" or settings.spread is not None else 0.0
        Alignment(self.metric, pick=settings.pick, missing=settings.missing)  # refuses choices before anything is made
        self.client = Client(
            "gateway",
            registry=registry,
            state=settings.state,
            clock=self._clock,
            end_clock=self._clock.not_after_today,
            environ=named,
            spread=spread,
            bounds=BOUNDS,
            groups=_groups(self.metric, settings.group),
        )
        self._server: str | None = getattr(sink, "server", None)
        self._permission, self._sink = self.client.permission(self._server), sink
        self._allow(sink)
        self._state = State(self.client.paths, timeout=10.0, bounds=BOUNDS)
        done = self._begin()
        self.alignment = Alignment(self.metric, pick=settings.pick, missing=settings.missing, done=done)
        self.dispatched, self.outcomes = Round(), Counter[str]()
        self._pending = 0

    def _allow(self, sink: Sink | None) -> None:
        if self.settings.agree is not None:
            # On the day that it is, whatever the readings' own time.
            today = datetime.now(UTC).date()
            choose(self.client.paths, self.client.registry, self.settings.agree, today, server=self._server)
        effective = self.client.effective
        if not effective.asked:
            raise GatewayError(
                "nobody has agreed that this gateway reports: --agree on does, for the metrics of this registry "
                "(--agree local keeps the reports here)"
            )
        if effective.choice is Choice.OFF:
            raise GatewayError(f"nothing may be reported: {effective.cause}")
        consent = effective.consent
        if consent is not None and not self._permission.covers(consent, self.metric):
            budget, route = self.client.registry.budget, self.client.registry.oblivious
            reasons = consent.reasons(self.metric, server=self._permission.server, budget=budget, route=route)
            raise GatewayError(
                f"nobody has agreed to {self.metric.id} as it is (--agree on does): {'; '.join(reasons)}"
            )
        if sink is not None and self.metric.is_oblivious and not hasattr(sink, "through"):
            raise GatewayError(
                f"{self.metric.id} is oblivious: its reports go through the registry's relay, and what is written to a "
                "file could only be posted directly; name a collector (--server)"
            )
        if effective.choice is Choice.ON and sink is None:
            raise GatewayError("name a collector (--server) or a file (--output): reports must go somewhere")

    def _begin(self) -> int | None:
        """Open the state, making it the first time; return the last period that was reported."""
        self._state.begin()
        with self._state.snapshot() as rows:
            claims = rows.claims(self.metric.id).by(self.metric.period)
        done = max(claims.reported, default=None if claims.first is None else claims.first - 1)
        if done is not None:
            self._clock.set(float(self.metric.period.start(done + 1) - 1))
            self._clock.reset()
        return done

    def take(self, reading: Reading) -> None:
        """Take a reading, and report the periods that are over by it."""
        self._report(self.alignment.feed(reading))

    def pass_time(self, now: float) -> None:
        """Report the periods that are over at a time, and deliver what is due."""
        self._report(self.alignment.pass_time(now))
        self.flush()

    def finish(self) -> None:
        """Report the open period, write everything to the disk, and deliver it."""
        self._report(self.alignment.finish())
        self.flush()

    def flush(self) -> None:
        """Write what is in memory to the disk, and deliver what is due."""
        if self._pending:
            flushed = self.client.flush(timeout=30.0)
            self._pending = 0
            if flushed.problem is not None:
                raise GatewayError(f"the device's state cannot be written: {flushed.problem}")
            for word in ("withdrawn", "already", "spent", "ended"):
                self.outcomes[word] += flushed.written.get(word, 0)
        consent = self._permission.sends()
        if self._sink is not None and consent is not None:
            self._dispatch(self._sink, consent)

    def _dispatch(self, sink: Sink, consent: Consent) -> None:
        done = dispatch(
            self._state,
            self.client.registry,
            sink,
            self._permission.sends,
            self._clock(),
            lease=120.0 if self.settings.clock == "real" else 0.0,
            covers=self._permission.may_send,
            prepare=lambda rows: self._permission.meet(rows, consent),
        )
        self.dispatched = self.dispatched.plus(done)

    def close(self) -> None:
        """Write what is in memory to the disk; the next run delivers what waits."""
        self.client.close()

    def _report(self, dues: Iterable[Due]) -> None:
        for due in dues:
            self._clock.set(float(self.metric.period.start(due.period + 1) - 1))
            outcome = self.client.record(self.metric.id, due.value)
            self._clock.reset()
            self.outcomes[str(outcome)] += 1
            if outcome in FATAL:
                problem = self.client.status().problem
                raise GatewayError(f"nothing can be reported ({outcome}): {problem or self.client.effective.cause}")
            self._pending += outcome in MADE
            if self._pending >= AT_ONCE or (self._pending and self.settings.clock == "real"):
                self.flush()

    def summary(self) -> dict[str, Any]:
        """Return what became of the readings and the reports, and what was spent, as JSON values."""
        with self._state.snapshot() as rows:
            cost, waiting = spent(rows, self.metric), rows.outbox.tally()
            mine = budget(rows, {self.metric.id: self.metric}, self.metric.id)
        any_two = (math.inf, math.inf) if mine.unknown else (mine.ledger.epsilon_any, mine.ledger.epsilon_at(DELTA))
        return {
            "metric": self.metric.id,
            "period": str(self.metric.period),
            "readings": asdict(self.alignment.seen),
            "reports": {word: number for word, number in sorted(self.outcomes.items()) if number},
            "handed_over": self.dispatched.sent,
            "dropped": dict(self.dispatched.dropped),
            "waiting": waiting[RowState.WAITING],
            "trouble": self.dispatched.error or None,
            "privacy": self._privacy(cost, *any_two),
        }

    def _privacy(self, cost: Spent, epsilon_any: float, epsilon_at_delta: float) -> dict[str, Any]:
        built = self.metric.mechanism
        terms, window = terms_of(built), self.metric.window
        in_window = None if window is None else terms.epsilon_values(window, reports=window)
        return {
            "reports": cost.reports,
            "distinct_values": cost.distinct,
            "epsilon_report": built.epsilon_report,
            "window": window,
            "epsilon_window": finite(in_window),
            "windows": None if window is None else cost.reports / window,
            "epsilon_total": finite(cost.epsilon),
            "epsilon_any": finite(epsilon_any),
            "delta": DELTA,
            "epsilon_at_delta": finite(epsilon_at_delta),
            "change_leak": finite(cost.change_leak),
        }
