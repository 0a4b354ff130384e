"""From a value to an encoded report of one metric, in memory: what waits for the next flush holds no value."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from overstory.client.memo import ALL_VALUES, NEAREST_STEPS, Response, Tagger, changed_response
from overstory.client.outcomes import Outcome
from overstory.client.randomizer import Randomizer
from overstory.privacy.kinds import terms_of
from overstory.protocol.domains import Domain
from overstory.protocol.upload import ID_BYTES, Upload, encode_upload
from overstory.protocol.wire import encode_reports

if TYPE_CHECKING:
    from overstory.client.secret_file import DeviceSecret
    from overstory.client.state import Claims
    from overstory.protocol.entropy import Entropy
    from overstory.protocol.metrics import Metric


@dataclass(frozen=True, slots=True)
class Pending:
    """A report that no transaction holds yet.

    Attributes
    ----------
    metric, period
        What it reports on.
    batch, body
        Its random id, and the upload's bytes.
    tag, permanent
        What it adds to the memo.
    due
        When it may be sent.
    kept
        Whether it is for the person's eyes alone.
    mark
        Of the consent that it was recorded under.
    """

    metric: str
    period: int
    batch: bytes = field(repr=False)
    body: bytes = field(repr=False)
    tag: bytes = field(repr=False)
    permanent: bytes = field(repr=False)
    due: float = field(repr=False)
    kept: bool
    mark: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Made:
    """A report, encoded, and the permanent response it was made from."""

    batch: bytes = field(repr=False)
    body: bytes = field(repr=False)
    tag: bytes = field(repr=False)
    permanent: bytes = field(repr=False)


class MetricRecorder:
    """One metric on this device; the caller holds a lock.

    Parameters
    ----------
    metric
        What is recorded.
    secret
        The device's.
    entropy
        Where instantaneous noise comes from: the system, unless this is an experiment.

    Notes
    -----
    Where all noise is fresh (the window mechanisms, f = 0) the "permanent response" is the true encoding: none is kept,
    nowhere, and no cap applies, for a further value costs nothing that its report does not. All values are one row.
    """

    def __init__(self, metric: Metric, secret: DeviceSecret, entropy: Entropy | None) -> None:
        mechanism = metric.mechanism
        self.metric = metric
        self._randomizer = Randomizer(mechanism, secret=secret.reveal(), metric=metric.id, entropy=entropy)
        self._tagger = Tagger(mechanism, metric.id, secret.reveal(), self._randomizer.cohort)
        self._width = (mechanism.payload_bits + 7) // 8
        self._fresh = terms_of(mechanism).fresh
        self._responses: dict[bytes, bytes] = {}  # of this mechanism, in order of first report
        self._elsewhere = 0  # permanent responses by other mechanisms that the metric had before
        self._reported: set[int] = set()
        self._first: int | None = None
        self._nearest: dict[Any, bytes | None] = {}

    def __repr__(self) -> str:
        return f"MetricRecorder({self.metric.id!r})"

    def learn(self, claims: Claims, responses: Iterable[Response], pending: Iterable[Pending]) -> None:
        """Take over what the state says, and what waits to be written to it."""
        mine, self._elsewhere = {}, 0
        for response in responses:
            if response.mechanism == self.metric.mechanism.digest:
                held = response.permanent
                mine[response.tag] = b"" if held is None else held.to_bytes(self._width, "little")
            else:
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

    def make(self, value: Any, period: int) -> Made | None:
        """Return a fresh report and take the period; None when the cap drops the value.

        Raises
        ------
        ParameterError
            When the value is outside the domain, or the period has no number on the wire.
        StateError
            `altered` when the permanent response is not what it was.
        """
        encoded, mechanism = self.metric.encode(value), self.metric.mechanism
        tag = ALL_VALUES if self._fresh else self._chosen(encoded)
        if tag is None:
            return None
        if self._fresh:
            permanent, report = b"", self._randomizer.report(encoded)
        else:
            permanent = self._responses[tag]
            report = self._randomizer.report_of(int.from_bytes(permanent, "little"))
        batch = os.urandom(ID_BYTES)
        body = encode_upload(Upload(batch, self.metric.id, period, encode_reports(mechanism, [report])))
        self._reported.add(period)
        return Made(batch, body, tag, permanent)

    def _chosen(self, encoded: Any) -> bytes | None:
        """Return the tag of what is reported: the value's, or where it is one too many, what the rule says."""
        tag = self._tagger.tag(encoded)
        known = self._responses.get(tag)
        most = self.metric.max_values
        if known is None and most is not None and len(self._responses) + self._elsewhere >= most:
            return self._beyond(encoded)
        permanent = self._randomizer.permanent(encoded).to_bytes(self._width, "little")
        if known is None:
            self._responses[tag] = permanent
            self._nearest.clear()
        elif known != permanent:
            raise changed_response(self.metric.id)
        return tag

    def _beyond(self, encoded: Any) -> bytes | None:
        if self.metric.beyond == "first":
            return next(iter(self._responses), None)
        if self.metric.beyond == "nearest" and self._responses:
            if encoded not in self._nearest:
                self._nearest[encoded] = self._nearest_tag(encoded)
            return self._nearest[encoded]
        return None

    def _nearest_tag(self, symbol: int) -> bytes | None:
        """Walk outward from a symbol until one was reported; of two as near, the lower."""
        size = self.metric.domain.size if isinstance(self.metric.domain, Domain) else 0
        for step in range(1, min(NEAREST_STEPS, size) + 1):
            for neighbour in (symbol - step, symbol + step):
                if 0 <= neighbour < size and (tag := self._tagger.tag(neighbour)) in self._responses:
                    return tag
        return None
