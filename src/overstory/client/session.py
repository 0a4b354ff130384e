"""One application's state in one process: it opens with the first record, makes reports and holds them until written.

A flush is one transaction: for all reports or for none it claims the period, counts the permanent response and queues
the upload. So a crash loses at most what was not flushed, and a state has one report per period. A state that cannot be
opened is tried again later; one that was forgotten closes the session, and the next record opens the new one. What
waits in memory holds no value.
"""

from __future__ import annotations

import hashlib
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from overstory.client.consent import Choice
from overstory.client.outcomes import Fault, Outcome, StateError
from overstory.client.randomizer import randomizer_of
from overstory.client.state.rows import ALL_VALUES, NEAREST_STEPS, NOTHING, TAG_BYTES, Response, RowState
from overstory.protocol.sampling import context
from overstory.protocol.wire.upload import Upload, encode_reports, encode_upload

if TYPE_CHECKING:
    from overstory.client.budget import Allowance
    from overstory.client.consent import EffectiveChoice, PermissionSources
    from overstory.client.state.rows import Past, Rows
    from overstory.client.state.secret_file import DeviceSecret
    from overstory.client.state.state import State
    from overstory.protocol.metrics import Metric, MetricRegistry
    from overstory.protocol.metrics.panel import Places
    from overstory.protocol.metrics.period import Period


MAX_RESPONSES: Final = 1024  # permanent responses cached in memory, by tag


@dataclass(frozen=True, slots=True)
class PendingReport:
    """A report that no transaction holds yet."""

    metric: str  # the metric's id
    period: int
    batch: bytes = field(repr=False)  # the upload's id
    body: bytes = field(repr=False)  # the upload's bytes
    tag: bytes = field(repr=False)  # the tag of the permanent response, see `Tagger`
    permanent: bytes = field(repr=False)  # the permanent response; empty where all noise is fresh
    due: float = field(default=0.0, repr=False)  # unix time from which it may be sent
    allowed: EffectiveChoice | None = field(default=None, repr=False)  # what allowed to record it
    outcome: Outcome = Outcome.RECORDED  # what the program gets as its result
    altered: bool = False  # whether the value's permanent response was another one before; the report is of nothing

    @property
    def local(self) -> bool:
        """Whether it is recorded for the person alone, and never sent."""
        return self.allowed is not None and self.allowed.choice is Choice.LOCAL


def key_of_answer(key: bytes, period: int) -> bytes:
    """Return the key that the noise of a panel's answer follows from: another one for each period."""
    return hashlib.blake2b(context(period), key=key, digest_size=32, person=b"panel answer").digest()


class Tagger:
    """Names one metric's permanent responses on this device, by its key and cohort, without revealing values."""

    def __init__(self, metric: Metric, key: bytes, cohort: int) -> None:
        self._key, self._cohort = metric.mechanism.response_key, cohort
        self._hash = hashlib.blake2b(digest_size=TAG_BYTES, key=key, person=b"tag")
        self._hash.update(context(metric.id, metric.account))

    def tag(self, encoded: Any) -> bytes:
        key: Any = self._key(encoded, self._cohort)
        state = self._hash.copy()
        state.update(context(key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key))
        return state.digest()


class MetricRecorder:
    """One metric on this device; the caller holds a lock.

    Whether there is a report never depends on the value: past the cap, or outside the domain, it is replaced, or
    nothing is reported, by a permanent response of its own. Noise and batch ids never depend on the group, which may
    change. No value, and no true encoding, is held once `make` has returned: what is known of values is keyed by tags.
    """

    def __init__(self, metric: Metric, key: bytes, group: str = "", asks: Callable[[int], bool] | None = None) -> None:
        mechanism = metric.mechanism
        self.metric, self._group, self._key = metric, group, key
        self._asks = asks  # whether the device is asked in a period, by number; None: in all
        self._randomizer = randomizer_of(metric, key)
        self._tagger = Tagger(metric, key, self._randomizer.cohort)
        self._width = (mechanism.payload_bits + 7) // 8
        self._every_bit = (1 << mechanism.payload_bits) - 1
        self._fresh = metric.fresh
        self._once = metric.once
        self._responses: dict[bytes, bytes] = {}  # of this account, in order of first report
        self._elsewhere = 0  # permanent responses of other accounts that the metric had before
        self._reported: set[int] = set()
        self._answered: set[bool] = set()  # where a device answers once: whether it was for the person alone, and sent
        self._first: int | None = None
        self._by_tag: dict[bytes, bytes] = {}
        self._nearest: dict[bytes, bytes] = {}

    def learn(self, past: Past, pending: Iterable[PendingReport] = ()) -> None:
        (claims, responses), mine, self._elsewhere = past, {}, 0
        self._answered.clear()
        for response in responses:
            if response.account == self.metric.account:
                self._answered |= _answers(response)
                held = response.permanent
                mine[response.tag] = b"" if held is None else held.to_bytes(self._width, "little")
            elif response.tag != NOTHING or not self.metric.nothing_is_spare:
                self._elsewhere += 1
        self._reported, self._first = set(claims.reported), claims.first
        for report in pending:
            mine.setdefault(report.tag, report.permanent)
            self._reported.add(report.period)
            self._answered.add(report.local)
        self._responses = mine
        self._nearest.clear()

    def refusal(self, period: int, *, local: bool = False) -> Outcome | None:
        """Return why there is no report in this period, which stays here if `local`; None when there may be one."""
        if self._asks is not None and not self._asks(period):
            return Outcome.UNASKED
        if period in self._reported or (self._once and (False in self._answered or (local and True in self._answered))):
            return Outcome.ALREADY
        if period < (self._first or 0):
            return Outcome.PAST
        if self.metric.expired(self.metric.period.start(period)):
            return Outcome.EXPIRED
        return None

    def make(
        self, value: Any, period: int, *, due: float = 0.0, allowed: EffectiveChoice | None = None
    ) -> PendingReport:
        """Return the period's report and take the period; a value that cannot be reported counts as nothing."""
        tag, outcome, altered = ALL_VALUES, Outcome.RECORDED, False
        if self.metric.panel is not None:
            self._randomizer = randomizer_of(self.metric, key_of_answer(self._key, period))
        try:
            encoded = self.metric.encode(value)
            if self._fresh:
                noisy = self._randomizer.permanent(encoded)
            else:
                tag, outcome, altered = self._chosen(encoded)
        except Exception:  # noqa: BLE001 - a value of the program's own class may raise anything
            outcome = Outcome.UNFIT
            if self._fresh:
                noisy = self._randomizer.nothing()
            else:
                tag = self._no_value()
        permanent = b"" if self._fresh else self._responses[tag]
        batch, body = self._encoded(noisy if self._fresh else self._encoding(permanent), period)
        self._reported.add(period)
        report = PendingReport(
            self.metric.id, period, batch, body, tag, permanent, due, allowed, outcome=outcome, altered=altered
        )
        self._answered.add(report.local)
        return report

    def nothing(self) -> bytes:
        return self._randomizer.nothing().to_bytes(self._width, "little")

    def _encoding(self, permanent: bytes) -> int:
        return int.from_bytes(permanent, "little") & self._every_bit

    def _encoded(self, noisy: int, period: int) -> tuple[bytes, bytes]:
        batch, report = self._randomizer.report_in(period, noisy)
        reports = encode_reports(self.metric.mechanism, [report])
        return batch, encode_upload(Upload(batch, self.metric.id, period, reports, self._group))

    def _chosen(self, encoded: Any) -> tuple[bytes, Outcome, bool]:
        tag = self._tagger.tag(encoded)
        response = self._responses.get(tag)
        if response is None and self._full:
            return self._over_cap(encoded)
        permanent = self._derived(tag, encoded)
        if response is None:
            self._responses[tag] = permanent
            self._nearest.clear()
        elif response != permanent:
            return self._no_value(), Outcome.RECORDED, True
        return tag, Outcome.RECORDED, False

    def _derived(self, tag: bytes, encoded: Any) -> bytes:
        permanent = self._by_tag.get(tag)
        if permanent is None:
            permanent = self._randomizer.permanent(encoded).to_bytes(self._width, "little")
            if len(self._by_tag) >= MAX_RESPONSES:
                self._by_tag.clear()
            self._by_tag[tag] = permanent
        return permanent

    @property
    def _full(self) -> bool:
        most, spare = self.metric.max_values, self.metric.nothing_is_spare and NOTHING in self._responses
        return most is not None and len(self._responses) - spare + self._elsewhere >= most

    def _over_cap(self, encoded: Any) -> tuple[bytes, Outcome, bool]:
        rule = self.metric.over_cap
        if rule == "drop":
            return self._no_value(), Outcome.CAPPED, False
        if rule == "nearest" and self._responses:
            tag = self._tagger.tag(encoded)
            if tag not in self._nearest:  # walk outward to one that was reported, of two the lower; else the first
                near = map(self._tagger.tag, self.metric.mechanism.neighbours(encoded, NEAREST_STEPS))
                self._nearest[tag] = next((tag for tag in near if tag in self._responses), self._first_tag())
            return self._nearest[tag], Outcome.RECORDED, False
        return self._first_tag(), Outcome.RECORDED, False

    def _no_value(self) -> bytes:
        """Return the tag of nothing, or where it would be one response too many, of the first response."""
        if NOTHING not in self._responses and self._full and not self.metric.nothing_is_spare:
            return self._first_tag()
        self._responses.setdefault(NOTHING, self.nothing())
        return NOTHING

    def _first_tag(self) -> bytes:
        """Return the first response's; nothing's, where the metric's earlier parameters have used the cap up."""
        if not self._responses:
            self._responses[NOTHING] = self.nothing()
        return next(iter(self._responses))

    # --- writing to the state -------------------------------------------------------------------------------------

    def write(self, rows: Rows, report: PendingReport, *, local: bool) -> bool:
        """Claim the period, count the permanent response, queue the upload; return False where it is taken."""
        metric = self.metric
        if self._once:  # the state may hold an answer by these parameters, perhaps from another process
            mine = [row for row in rows.responses(metric.id) if row.account == metric.account]
            answered = set().union(*map(_answers, mine))
            if False in answered or (local and True in answered):
                return False
        if not rows.claim(metric, report.period, kept=local):
            return False
        rows.keep(metric)
        most = metric.max_values if report.permanent else None
        number = rows.charge(metric, report.tag, report.permanent, most=most, kept=local)
        if number is None:
            report = self._replacement(rows, report)
            number = rows.charge(metric, report.tag, report.permanent, most=None, kept=local)
        rows.outbox.add(
            report.batch,
            metric.id,
            report.period,
            report.body,
            account=metric.account,
            due=report.due,
            state=RowState.LOCAL if local else RowState.WAITING,
            response=number if report.permanent else None,
        )
        return True

    def _replacement(self, rows: Rows, report: PendingReport) -> PendingReport:
        """Return what is sent where another process used the cap up, or drew otherwise: a missing one would show it."""
        metric = self.metric
        held = {
            response.tag: response.permanent
            for response in rows.responses(metric.id)
            if response.account == metric.account and response.permanent is not None
        }
        altered = report.tag in held
        tag = NOTHING if altered or metric.nothing_is_spare or not held else next(iter(held))
        permanent = held[tag].to_bytes(len(report.permanent), "little") if tag in held else self.nothing()
        batch, body = self._encoded(self._encoding(permanent), report.period)
        return replace(report, batch=batch, body=body, tag=tag, permanent=permanent)


def _answers(response: Response) -> set[bool]:
    return {local for local, times in ((True, response.kept), (False, response.reports)) if times}


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
