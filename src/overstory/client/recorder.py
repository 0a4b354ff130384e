"""From a value to an encoded report of one metric, in memory: what waits for the next flush holds no value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from overstory.client.outcomes import Outcome
from overstory.client.randomizer import Randomizer
from overstory.client.state.memo import ALL_VALUES, NEAREST_STEPS, NOTHING, Response, Tagger
from overstory.protocol.domains import Domain
from overstory.protocol.wire.batch import encode_reports
from overstory.protocol.wire.upload import Upload, encode_upload

if TYPE_CHECKING:
    from overstory.client.state.keys import MetricKey
    from overstory.client.state.state import Claims
    from overstory.protocol.metrics import Metric

MAX_RESPONSES: Final = 1024
"""Permanent responses kept in memory, by tag."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A report that no transaction holds yet.

    Attributes
    ----------
    metric, period
        What it reports on.
    batch, body
        Its id, and the upload's bytes.
    tag, permanent
        What it adds to the memo.
    """

    metric: str
    period: int
    batch: bytes = field(repr=False)
    body: bytes = field(repr=False)
    tag: bytes = field(repr=False)
    permanent: bytes = field(repr=False)
    due: float = field(repr=False)  # when it may be sent
    local: bool  # whether it is recorded for the person alone and never sent
    consent_id: str = field(repr=False)  # the consent under which it was recorded


@dataclass(frozen=True, slots=True)
class Made:
    """A report, encoded, the permanent response it was made from, and what the program is told.

    `altered` says that the value's permanent response is not what it was; the report is of nothing.
    """

    batch: bytes = field(repr=False)
    body: bytes = field(repr=False)
    tag: bytes = field(repr=False)
    permanent: bytes = field(repr=False)
    outcome: Outcome = Outcome.RECORDED
    altered: bool = False


class MetricRecorder:
    """One metric on this device; the caller holds a lock.

    Notes
    -----
    Where all noise is fresh (the window mechanisms, f = 0) the "permanent response" is the true encoding: none is kept,
    nowhere, and no cap applies, for a further value costs nothing that its report does not. All values are one row.

    Whether there is a report never depends on the value: one that is outside the domain, or that the rule drops, is
    reported as nothing, by a permanent response of its own.

    No value, and no true encoding, is held once `make` has returned: what is known of values is keyed by their tags.
    """

    def __init__(self, metric: Metric, derived: MetricKey) -> None:
        mechanism = metric.mechanism
        self.metric = metric
        self._randomizer = Randomizer(derived.mechanism, secret=derived.key, metric=metric.id, memo_size=0)
        self._tagger = Tagger(mechanism, metric.id, derived.key, self._randomizer.cohort)
        self._width = (mechanism.payload_bits + 7) // 8
        self._every_bit = (1 << mechanism.payload_bits) - 1
        self._fresh = mechanism.fresh
        self._responses: dict[bytes, bytes] = {}  # of this mechanism, in order of first report
        self._elsewhere = 0  # permanent responses by other mechanisms that the metric had before
        self._reported: set[int] = set()
        self._first: int | None = None
        self._by_tag: dict[bytes, bytes] = {}
        self._nearest: dict[bytes, bytes] = {}

    def __repr__(self) -> str:
        return f"MetricRecorder({self.metric.id!r})"

    def learn(self, claims: Claims, responses: Iterable[Response], pending: Iterable[Pending]) -> None:
        """Take over what the state says, and what waits to be written to it."""
        mine, self._elsewhere = {}, 0
        for response in responses:
            if response.shared:
                continue
            if response.mechanism == self.metric.mechanism.digest:
                held = response.permanent
                mine[response.tag] = b"" if held is None else held.to_bytes(self._width, "little")
            elif response.tag != NOTHING or not self.metric.nothing_is_spare:
                self._elsewhere += 1
        self._reported, self._first = set(claims.reported), claims.first
        for report in pending:
            mine.setdefault(report.tag, report.permanent)
            self._reported.add(report.period)
        self._responses = mine
        self._nearest.clear()

    def refusal(self, period: int) -> Outcome | None:
        """Return why there is no report in this period; None when there may be one."""
        if period in self._reported:
            return Outcome.ALREADY
        if period < (self._first or 0):
            return Outcome.PAST
        if self.metric.expired(self.metric.period.start(period)):
            return Outcome.EXPIRED
        return None

    def make(self, value: Any, period: int) -> Made:
        """Return the period's report and take the period; a value that cannot be reported counts as nothing."""
        tag, outcome, altered = ALL_VALUES, Outcome.RECORDED, False
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
        made = self._encoded(noisy, period, tag) if self._fresh else self.repeated(tag, self._responses[tag], period)
        self._reported.add(period)
        if outcome is Outcome.RECORDED and not altered:
            return made
        return replace(made, outcome=outcome, altered=altered)

    def repeated(self, tag: bytes, permanent: bytes, period: int) -> Made:
        """Return the period's report of a permanent response that was reported before; the period is the caller's."""
        held = int.from_bytes(permanent, "little") & self._every_bit
        return self._encoded(held, period, tag, permanent)

    def nothing(self) -> bytes:
        """Return the permanent response to no value."""
        return self._randomizer.nothing().to_bytes(self._width, "little")

    def _encoded(self, noisy: int, period: int, tag: bytes, permanent: bytes = b"") -> Made:
        batch, report = self._randomizer.report_in(period, noisy)
        reports = encode_reports(self.metric.mechanism, [report])
        return Made(batch, encode_upload(Upload(batch, self.metric.id, period, reports)), tag, permanent)

    def _chosen(self, encoded: Any) -> tuple[bytes, Outcome, bool]:
        """Return the tag of what is reported, what to say of it, and whether its response was altered."""
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
        """Return a value's permanent response; those known by their tags are not derived again."""
        permanent = self._by_tag.get(tag)
        if permanent is None:
            permanent = self._randomizer.permanent(encoded).to_bytes(self._width, "little")
            if len(self._by_tag) >= MAX_RESPONSES:
                self._by_tag.clear()
            self._by_tag[tag] = permanent
        return permanent

    @property
    def _full(self) -> bool:
        """Whether the cap allows no further value."""
        most, spare = self.metric.max_values, self.metric.nothing_is_spare and NOTHING in self._responses
        return most is not None and len(self._responses) - spare + self._elsewhere >= most

    def _over_cap(self, encoded: Any) -> tuple[bytes, Outcome, bool]:
        """Return what is reported in place of one value too many."""
        rule = self.metric.over_cap
        if rule == "drop":
            return self._no_value(), Outcome.CAPPED, False
        if rule == "nearest" and self._responses:
            tag = self._tagger.tag(encoded)
            if tag not in self._nearest:
                self._nearest[tag] = self._nearest_tag(encoded)
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

    def _nearest_tag(self, symbol: int) -> bytes:
        """Walk outward from a symbol until one was reported; of two as near, the lower; else the first."""
        size = self.metric.domain.size if isinstance(self.metric.domain, Domain) else 0
        for step in range(1, min(NEAREST_STEPS, size) + 1):
            for neighbour in (symbol - step, symbol + step):
                if 0 <= neighbour < size and (tag := self._tagger.tag(neighbour)) in self._responses:
                    return tag
        return self._first_tag()
