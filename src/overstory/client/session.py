"""One opened state in one process: reports are held in memory and written to the disk together.

A report that `record` made is in memory until the next flush. A flush is one transaction: for all reports or for none
it claims the period, counts the permanent response and queues the upload. So a crash loses at most what was not
flushed, and a state has one report per period. A state that is restored from a backup makes the period's report again;
from the same permanent response it makes the same bytes, with the same batch id.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from overstory.client.consent.consent import Choice
from overstory.client.errors import Fault, StateError
from overstory.client.outcomes import Outcome
from overstory.client.recorder import MetricRecorder, Pending
from overstory.client.state.changed_metrics import keep, retire
from overstory.client.state.keys import metric_key
from overstory.client.state.lifetimes import changes, ends_at, over
from overstory.client.state.memo import NOTHING, changed_response
from overstory.client.state.outbox import RowState
from overstory.client.state.state import Rows, State

if TYPE_CHECKING:
    from overstory.client.consent.allowance import Allowance
    from overstory.client.consent.policy import EffectiveChoice, PermissionSources
    from overstory.protocol.metrics import Metric, MetricRegistry

MOST_PENDING: Final = 1000
"""Reports held in memory while the disk cannot take them; further ones are refused."""


@dataclass(frozen=True)
class RecordPermission:
    """Permission to record one report: whether it stays local, under which consent, and when it is due."""

    local: bool
    consent_id: str
    due: float


class Session:
    """The state as this process knows it.

    Parameters
    ----------
    clock
        The time of day, in unix seconds.
    """

    def __init__(self, state: State, metrics: MetricRegistry, clock: Callable[[], float]) -> None:
        self.state, self._metrics, self._clock = state, metrics, clock
        self._secret = state.begin()
        self._decide()
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._pending: list[Pending] = []
        self._recorders: dict[str, MetricRecorder] = {}
        self._put_off = False  # whether keys that were over could not be destroyed when a metric was introduced
        self._allowance: Allowance | None = None  # none yet, or no budget to keep to
        self._silent: set[tuple[str, int]] = set()  # periods without a report since the budget was used up
        self._counted: set[tuple[str, int]] = set()  # those of them that the state counts

    def __repr__(self) -> str:
        return f"Session({self.state!r}, {len(self._pending)} reports in memory)"

    @property
    def pending(self) -> int:
        """How many reports are in memory alone."""
        return len(self._pending)

    @property
    def dues(self) -> list[float]:
        """The due times of those that may be sent."""
        return [report.due for report in list(self._pending) if not report.local]

    def after_fork(self) -> None:
        """Continue in a child: the parent writes its own reports, and locks that its threads held are replaced."""
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._pending, self._allowance = [], None

    def record(self, metric: Metric, value: Any, period: int, permission: RecordPermission) -> Outcome:
        """Make a report and hold it in memory; a value that cannot be reported becomes a report of nothing."""
        with self._lock:
            recorder = self._recorders.get(metric.id) or self._introduce(metric)
            if recorder is None:
                return Outcome.EXPIRED
            refused = recorder.refusal(period)
            if refused is not None:
                return refused
            if not permission.local and not self._allows(metric):
                self._silent.add((metric.id, period))
                return Outcome.SPENT
            if len(self._pending) >= MOST_PENDING:
                raise StateError(Fault.FULL, f"{MOST_PENDING} reports wait in memory for a disk that takes none")
            made = recorder.make(value, period)
            self._pending.append(
                Pending(
                    metric=metric.id,
                    period=period,
                    batch=made.batch,
                    body=made.body,
                    tag=made.tag,
                    permanent=made.permanent,
                    due=permission.due,
                    local=permission.local,
                    consent_id=permission.consent_id,
                )
            )
            if self._allowance is not None and not permission.local:
                self._allowance.take(metric)
            if made.altered:
                raise changed_response(metric.id)
            return made.outcome

    def flush(self, sources: PermissionSources, timeout: float) -> Counter[str]:
        """Write the reports in memory in one transaction; return how many had which result."""
        if not self._writing.acquire(timeout=timeout):
            raise StateError(Fault.BUSY, f"{self.state.paths.folder}: another thread writes to it")
        try:
            return self._flush(sources, timeout)
        finally:
            self._writing.release()

    def _flush(self, sources: PermissionSources, timeout: float) -> Counter[str]:
        with self._lock:
            reports, silent = list(self._pending), self._silent - self._counted
        if not reports and not silent:
            return Counter()
        with self.state.transaction(timeout) as rows:
            # Inside the transaction: a choice made before is obeyed, one made after withdraws what is written here.
            allowed = sources.now()
            rows.keys.decide(rows.memo, self._metrics)  # where a backup of before came back under this process
            allowance = self._allowance_in(rows)
            fates = Counter(self._write(rows, report, allowed, allowance) for report in reports)
            fates += Counter(spent=len(silent))
            for fate, number in (*fates.items(), ("made-room", rows.outbox.trim())):
                if number:
                    rows.count(fate, number)
            gone = rows.keys.erased() if "ended" in fates else ()
            seen = {
                name: (rows.claims(name).by(self._metrics[name].period), rows.memo.responses(name))
                for name in {report.metric for report in reports}
            }
        with self._lock:
            del self._pending[: len(reports)]
            self._counted |= silent
            self._allowance = None  # another process may have reported as well: it is counted again at the next record
            for name, (claims, responses) in seen.items():
                if name in self._recorders:
                    self._recorders[name].learn(claims, responses, self._pending_of(name))
            with suppress(StateError):  # what was written is written; the next round looks for the secret again
                self._forget(gone)
        return fates

    def retire(self) -> None:
        """Destroy the keys of metrics that are over, on the disk and here."""
        with self._lock:
            self._retire()

    def _retire(self) -> None:
        self._forget(retire(self.state, self._metrics, self._clock()))

    def _forget(self, gone: Collection[str]) -> None:
        """Drop the recorders of metrics whose keys were destroyed, here or by another process."""
        for name in gone:
            self._recorders.pop(name, None)
        if any(self._secret.key(name) is not None for name in gone):
            self._secret = self.state.begin()

    def _decide(self) -> None:
        """Decide which metrics continue with the secret of version 1, in the first transaction that has a registry."""
        if self._secret.legacy is None:
            return
        with self.state.snapshot() as rows:
            undecided = rows.keys.undecided
        if undecided:
            with self.state.transaction() as rows:
                rows.keys.decide(rows.memo, self._metrics)

    def _introduce(self, metric: Metric) -> MetricRecorder | None:
        """Return the recorder of a metric that this process records for the first time; None where its key is gone."""
        with self.state.snapshot() as rows:
            claims, responses = rows.claims(metric.id).by(metric.period), rows.memo.responses(metric.id)
            lives, legacy = rows.keys.lives(), self._secret.legacy is not None
            legacy = legacy and rows.keys.goes_on_with_legacy(metric, rows.memo, self._metrics)
        if metric.id in lives and lives[metric.id].erased:
            return None  # by another process: what this one holds of the secret may still have the key
        if not self._put_off and (changes(lives, self._metrics) or over(lives, self._clock())):
            try:
                self._retire()
            except StateError as error:
                if error.fault is Fault.ELSEWHERE:
                    raise
                self._put_off = True  # the hourly look of `flush` does it; this metric may be recorded all the same
        derived = metric_key(self._secret, metric, legacy=legacy)
        if derived is None:
            return None
        recorder = MetricRecorder(metric, derived)
        recorder.learn(claims, responses, ())
        self._recorders[metric.id] = recorder
        return recorder

    def _pending_of(self, metric: str) -> list[Pending]:
        return [report for report in self._pending if report.metric == metric]

    def _allows(self, metric: Metric) -> bool:
        """Whether the budget, if there is one, allows one more report than those stored and in memory."""
        if self._metrics.budget is None:
            return True
        if self._allowance is None:
            with self.state.snapshot() as rows:
                pending = [self._metrics[report.metric] for report in self._pending if not report.local]
                self._allowance = self._allowance_in(rows, pending)
        return self._allowance is None or self._allowance.allows(metric)

    def _allowance_in(self, rows: Rows, pending: Iterable[Metric] = ()) -> Allowance | None:
        budget = self._metrics.budget
        if budget is None:
            return None
        from overstory.client.consent.allowance import Allowance

        return Allowance(self._metrics, budget, rows, pending)

    def _withheld(
        self, report: Pending, allowed: EffectiveChoice, allowance: Allowance | None, *, local: bool
    ) -> str | None:
        """Return why a report must not be written, "withdrawn" or "spent"; None where it may be."""
        metric, consent = self._metrics[report.metric], allowed.consent
        if allowed.choice is Choice.OFF or consent is None or consent.consent_id != report.consent_id:
            return "withdrawn"
        if not consent.covers(metric, budget=self._metrics.budget):
            return "withdrawn"
        return "spent" if allowance is not None and not local and not allowance.allows(metric) else None

    def _write(self, rows: Rows, report: Pending, allowed: EffectiveChoice, allowance: Allowance | None) -> str:
        """Write one report; return the result in one word."""
        metric = self._metrics[report.metric]
        local = report.local or allowed.choice is Choice.LOCAL
        withheld = self._withheld(report, allowed, allowance, local=local)
        if withheld is not None:
            return withheld
        if report.metric in rows.keys.erased():
            return "ended"
        if not rows.claim(metric, report.period):
            return "already"
        keep(rows, metric)
        number = self._charge(rows, report, local=local)
        if number is None:
            report = self._replacement(rows, report)
            number = self._charge(rows, report, local=local, capped=False)
        rows.memo.keep_terms(self._metrics[report.metric].mechanism)
        rows.keys.extend(report.metric, ends_at(self._metrics[report.metric]))
        state = RowState.LOCAL if local else RowState.WAITING
        rows.outbox.add(
            report.batch,
            report.metric,
            report.period,
            report.body,
            due=report.due,
            state=state,
            response=number if report.permanent else None,
        )
        if allowance is not None and not local:
            allowance.take(metric)
        return "kept" if local else "queued"

    def _charge(self, rows: Rows, report: Pending, *, local: bool, capped: bool = True) -> int | None:
        """Count a report's permanent response and return its number; None where another has to be sent."""
        metric = self._metrics[report.metric]
        try:
            return rows.memo.charge(
                metric.id,
                metric.mechanism.digest,
                report.tag,
                report.permanent,
                most=metric.max_values if report.permanent and capped else None,
                kept=local,
                spare=metric.nothing_is_spare,
            )
        except StateError as error:
            if error.fault is not Fault.ALTERED:
                raise
            return None

    def _replacement(self, rows: Rows, report: Pending) -> Pending:
        """Return what is sent in place of a report that would be one response too many, or another than before.

        Since this report was made, another process has reported the last value that the cap allows, or the memo holds
        another response of the value. A missing report would reveal that something changed.
        """
        metric, recorder = self._metrics[report.metric], self._recorders[report.metric]
        held = {
            response.tag: response.permanent
            for response in rows.memo.responses(metric.id)
            if response.mechanism == metric.mechanism.digest and response.permanent is not None and not response.shared
        }
        altered = report.tag in held
        tag = NOTHING if altered or metric.nothing_is_spare or not held else next(iter(held))
        permanent = held[tag].to_bytes(len(report.permanent), "little") if tag in held else recorder.nothing()
        made = recorder.repeated(tag, permanent, report.period)
        return replace(report, batch=made.batch, body=made.body, tag=tag, permanent=permanent)
