"""One application's state in one process: it opens with the first record, and holds reports until they are written.

A flush is one transaction: for all reports or for none it claims the period, counts the permanent response and queues
the upload. So a crash loses at most what was not flushed, and a state has one report per period. A state that cannot be
opened is tried again later; one that was forgotten closes the session, and the next record opens the new one.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from overstory.client.consent.consent import Choice
from overstory.client.outcomes import Fault, Outcome, StateError
from overstory.client.recorder import MetricRecorder, PendingReport

if TYPE_CHECKING:
    from overstory.client.budget import Allowance
    from overstory.client.consent.policy import EffectiveChoice, PermissionSources
    from overstory.client.state.rows import Rows
    from overstory.client.state.secret_file import DeviceSecret
    from overstory.client.state.state import State
    from overstory.protocol.metrics import Metric, MetricRegistry
    from overstory.protocol.metrics.panel import Places
    from overstory.protocol.metrics.period import Period

MOST_PENDING: Final = 1000  # reports held in memory while the disk cannot take them; further ones are refused

RETRY: Final = 10.0  # seconds until a state that could not be opened is tried again

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
LONGEST_SPREAD: Final = 6 * HOUR
_uniform: Final = random.SystemRandom().random


class Session:
    """The state as this process knows it."""

    def __init__(
        self,
        state: State,
        registry: MetricRegistry,
        clock: Callable[[], float],  # unix seconds, by which metrics end and their keys are destroyed
        groups: Mapping[str, str] = MappingProxyType({}),
        *,
        spread: float | None = None,  # the longest random delay of a report; None: its period, six hours at most
    ) -> None:
        self.state, self._clock, self._spread, self._groups = state, clock, spread, groups
        self._registry, self._metrics = registry, registry.metrics
        # Whether the reports so far decide on further ones.
        self._counts = registry.budget is not None or any(metric.panel for metric in registry.values())
        self.last_error: StateError | None = None  # None once an opening or a flush has succeeded after it
        self.retry_at = 0.0  # monotonic time before which a state that could not be opened is not tried again
        self._retired_at = -math.inf
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self.state.secret = None
        self._pending: list[PendingReport] = []
        self._recorders: dict[str, MetricRecorder] = {}
        self._looked = False  # whether `_introduce` has looked for keys that are over since the state was opened
        self._places: Places | None = None  # None as long as no metric with a panel was recorded
        self._allowances: dict[int, Allowance] = {}  # by the length of a period; empty without budget and panels
        self._silent: set[tuple[str, int]] = set()  # periods without a report since the budget was used up
        self._counted: set[tuple[str, int]] = set()  # those of them that the state counts

    def to_show(self) -> dict[str, Any]:
        """Return what only this process knows, for `read_status`: reports in memory, when they are due, the error."""
        reports = list(self._pending)
        dues = [report.due for report in reports if not report.local]
        problem = None if self.last_error is None else str(self.last_error)
        return {"pending": len(reports), "dues": dues, "problem": problem}

    def after_fork(self) -> None:
        """Continue in a child: the parent writes its own reports, and locks that its threads held are replaced."""
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._pending, self._allowances = [], {}

    # --- opening --------------------------------------------------------------------------------------------------

    def _opened(self) -> DeviceSecret:
        """Open the state, or create it, unless it is open; one that failed is tried again after `RETRY` seconds."""
        if self.state.secret is not None:
            return self.state.secret
        if self.last_error is not None and time.monotonic() < self.retry_at:
            raise StateError(self.last_error.fault, str(self.last_error))
        try:
            secret = self.state.begin()
        except StateError:
            self.retry_at = time.monotonic() + RETRY
            raise
        self.last_error = None
        self._retired_at = self._clock()  # `_introduce` looks as well
        return secret

    # --- recording ------------------------------------------------------------------------------------------------

    def record(self, metric: Metric, value: Any, now: float, allowed: EffectiveChoice) -> Outcome:
        """Make a report and hold it in memory; a value that cannot be reported becomes a report of nothing."""
        period = metric.period.number(now)
        if metric.expired(now):
            return Outcome.EXPIRED
        with self._lock:
            secret = self._opened()
            recorder = self._recorders.get(metric.id) or self._introduce(metric, secret)
            if recorder is None:
                return Outcome.EXPIRED
            local = allowed.choice is Choice.LOCAL
            refused = recorder.refusal(period, local=local)
            if refused is not None:
                return refused
            allowance = None if local else self._allowance_of(metric.period, period)
            if allowance is not None and allowance.answered(metric):
                return Outcome.ALREADY
            if allowance is not None and not allowance.allows(metric):
                self._silent.add((metric.id, period))
                return Outcome.SPENT
            if len(self._pending) >= MOST_PENDING:
                raise StateError(Fault.FULL, f"{MOST_PENDING} reports wait in memory for a disk that takes none")
            report = recorder.make(value, period, due=self._due(metric, now, period), allowed=allowed)
            self._pending.append(report)
            for counted in () if local else self._allowances.values():
                counted.take(metric)
            if report.altered:
                words = "a permanent response differs from the one reported before; it is reported as nothing"
                raise StateError(Fault.ALTERED, f"{metric.id}: {words}")
            return report.outcome

    def _due(self, metric: Metric, now: float, period: int) -> float:
        most = min(metric.period.seconds, LONGEST_SPREAD) if self._spread is None else self._spread
        # Without a random delay, no time finer than the period is stored.
        return now + _uniform() * most if most else float(metric.period.start(period))

    def _introduce(self, metric: Metric, secret: DeviceSecret) -> MetricRecorder | None:
        """Return the recorder of a metric that this process records for the first time; None where its key is gone."""
        with self.state.snapshot() as rows:
            past, gone = rows.past(metric), rows.erased()
            pending = not self._looked and rows.has_news(self._metrics, self._clock())
        if metric.id in gone:
            return None  # by another process: what this one holds of the secret may still have the key
        if pending:
            try:
                secret = self._retire() or secret
            except StateError as error:
                if error.fault is Fault.ELSEWHERE:
                    raise
                # The hourly look of `flush` does it; this metric may be recorded all the same.
        self._looked = True
        key = secret.key(metric.id)
        if key is None:
            return None
        groups = metric.groups
        group = "" if groups is None else groups.of(self._groups.get(groups.by))
        recorder = MetricRecorder(metric, key, group, self._asks(metric, secret))
        recorder.learn(past)
        self._recorders[metric.id] = recorder
        return recorder

    def _asks(self, metric: Metric, secret: DeviceSecret) -> Callable[[int], bool] | None:
        """Return what says in which periods the device is asked; None of a metric without a panel."""
        if metric.panel is None:
            return None
        if self._places is None:
            from overstory.protocol.metrics.panel import ASKED, Places

            key = secret.key(ASKED)
            assert key is not None  # it is no metric's, so it is never destroyed
            self._places = Places(key, self._metrics)
        return partial(self._places.asks, metric)

    def _allowance_of(self, length: Period, number: int) -> Allowance | None:
        """Return what budget and panels allow after the reports stored and in memory; None where there are neither."""
        if not self._counts:
            return None
        now, held = length.start(number), self._allowances.get(length.seconds)
        if held is None or not 0 <= now - held.now < DAY:  # a year later a report counts no more
            with self.state.snapshot() as rows:
                pending = [self._metrics[report.metric] for report in self._pending if not report.local]
                held = self._allowances[length.seconds] = self._allowance_in(rows, now, pending)
        return held

    def _allowance_in(self, rows: Rows, now: float, pending: Iterable[Metric] = ()) -> Allowance:
        from overstory.client.budget import Allowance

        return Allowance(self._registry, rows, now, pending)

    # --- flushing -------------------------------------------------------------------------------------------------

    def flush(self, sources: PermissionSources, timeout: float) -> Counter[str]:
        """Write the reports in memory in one transaction; return how many had which result."""
        if self.state.secret is None:
            return Counter()
        if not self._writing.acquire(timeout=timeout):
            raise StateError(Fault.BUSY, f"{self.state.paths.folder}: another thread writes to it")
        try:
            results = self._flush(sources, timeout)
        except StateError as error:
            if error.fault in {Fault.CHANGED, Fault.LOST}:
                with self._lock:  # the state was forgotten, and with it what its secret made
                    self._clear()
            raise
        finally:
            self._writing.release()
        self.last_error = None
        return results

    def _flush(self, sources: PermissionSources, timeout: float) -> Counter[str]:
        with self._lock:
            reports, silent = list(self._pending), self._silent - self._counted
        if not reports and not silent:
            return Counter()
        with self.state.transaction(timeout) as rows:
            # Inside the transaction: a choice made before is obeyed, one made after withdraws what is written here.
            allowed = sources.now()
            names = {report.metric for report in reports}
            rows.read(names)
            starts = {self._start(report) for report in reports} if self._counts else ()
            allowances, gone = {start: self._allowance_in(rows, start) for start in starts}, rows.erased()
            results = Counter(self._write(rows, report, allowed, allowances, gone) for report in reports)
            results += Counter(spent=len(silent))
            for result, number in (*results.items(), ("made-room", rows.outbox.trim())):
                if number:
                    rows.count(result, number)
            written = {name: rows.past(self._metrics[name]) for name in names}
        with self._lock:
            del self._pending[: len(reports)]
            self._counted |= silent
            self._allowances = {}  # another process may have reported as well: it is counted again at the next record
            for name, recorder in self._recorders.items():
                if name in written:
                    recorder.learn(written[name], [report for report in self._pending if report.metric == name])
            with suppress(StateError):  # what was written is written; the next round looks for the secret again
                self._forget(gone if "ended" in results else ())
        return results

    def _write(
        self,
        rows: Rows,
        report: PendingReport,
        allowed: EffectiveChoice,
        allowances: Mapping[int, Allowance],  # by when a report's period begins
        gone: Collection[str],
    ) -> str:
        metric = self._metrics[report.metric]
        local = report.local or allowed.choice is Choice.LOCAL
        if not self._permits(report, metric, allowed):
            return "withdrawn"
        allowance = None if local else allowances.get(self._start(report))
        if allowance is not None:
            if allowance.answered(metric):
                return "already"
            if not allowance.allows(metric):
                return "spent"
        recorder = self._recorders.get(report.metric)
        if recorder is None or report.metric in gone:
            return "ended"
        if not recorder.write(rows, report, local=local):
            return "already"
        for counted in () if local else allowances.values():
            counted.take(metric)
        return "kept" if local else "queued"

    def _start(self, report: PendingReport) -> int:
        return self._metrics[report.metric].period.start(report.period)

    def _permits(self, report: PendingReport, metric: Metric, allowed: EffectiveChoice) -> bool:
        """Whether the choice in force covers a report that was recorded under the same or another one."""
        if report.allowed is allowed:
            return True  # neither it nor the metric ever changes, and it covered the metric
        recorded, consent = None if report.allowed is None else report.allowed.consent, allowed.consent
        if allowed.choice is Choice.OFF or consent is None or recorded is None:
            return False
        return consent.consent_id == recorded.consent_id and consent.covers(metric, self._registry)

    # --- keys of metrics that are over ----------------------------------------------------------------------------

    def retire_hourly(self) -> None:
        """Destroy the keys of metrics that are over, on the disk and here; looks for some once an hour."""
        now = self._clock()
        if abs(now - self._retired_at) >= HOUR:
            with self._lock:
                self._retire()
            self._retired_at = now

    def _retire(self) -> DeviceSecret | None:
        return self._forget(self.state.retire(self._metrics, self._clock()))

    def _forget(self, gone: Collection[str]) -> DeviceSecret | None:
        """Drop the recorders of metrics whose keys were destroyed, here or by another process; return the secret."""
        for name in gone:
            self._recorders.pop(name, None)
        secret = self.state.secret
        if secret is not None and any(secret.key(name) is not None for name in gone):
            secret = self.state.begin()
        return secret
