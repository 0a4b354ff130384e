"""Makes one metric's reports, in memory, and writes them to the state; what waits in between holds no value."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from overstory.client.consent.consent import Choice
from overstory.client.outcomes import Outcome
from overstory.client.randomizer import randomizer_of
from overstory.client.state.rows import ALL_VALUES, NEAREST_STEPS, NOTHING, TAG_BYTES, Response, RowState
from overstory.protocol.sampling import context
from overstory.protocol.wire.upload import Upload, encode_reports, encode_upload

if TYPE_CHECKING:
    from overstory.client.consent.policy import EffectiveChoice
    from overstory.client.state.rows import Past, Rows
    from overstory.protocol.metrics import Metric

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
