"""The decision about a request's body, without socket, clock and store: reports to store, and a result per upload."""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.collector.settings import Limits
from overstory.protocol.errors import WireError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.metrics import Metric, MetricRegistry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import (
    HEADER,
    MAGIC,
    MEDIA_TYPE,
    TRAILER,
    VERSION,
    Upload,
    cohort_width,
    decode_uploads,
    uploads_from_json,
)

FEW: Final = 16  # up to this many reports are checked one by one: that is faster than calling NumPy

_LEAST: Final = HEADER.size + TRAILER.size
Flags = NDArray[np.bool_]
Zones = tuple[tuple[int, int], ...]


class Released(NamedTuple):
    """Where a batch came in a message that a shuffling relay released together with others."""

    release: bytes  # 16 bytes, drawn by the relay for each release
    message: int  # that batches of one message share, and those of others in the same call do not


class Received(NamedTuple):
    """One accepted batch of reports; a tuple, because a frozen dataclass takes several times as long to make."""

    metric: str
    period: int  # its number
    batch: bytes  # 16 bytes from the sender's secret or drawn: it is stored once, however often it is sent
    digest: bytes  # of the mechanism that made the reports, 16 bytes
    num_bits: int  # of a report's payload
    num_cohorts: int  # of the mechanism
    num_reports: int  # in the batch
    cohorts: bytes  # columns as they travel, as `bits`: see `overstory.protocol.wire.upload.Batch`
    bits: bytes
    forget_after: int  # unix time in seconds after which no copy of the batch can be accepted any more
    # Unix time at which its period ends: with the batch's own bytes it never changes, whatever the registry says.
    ends: int
    group: str = ""  # of its devices; empty where the upload named none
    released: Released | None = None  # the message that it came in, where a shuffling relay released it


class Columns(NamedTuple):
    """The valid reports of a batch as wire columns; and which others are refused, and why."""

    num_reports: int
    cohorts: bytes
    bits: bytes
    rejected: tuple[tuple[int, Reason], ...] = ()


@dataclass(frozen=True)
class ReportFormat:
    """The form of a mechanism's reports; digest, bits and cohorts must be in the header of a batch."""

    digest: bytes
    num_bits: int
    num_cohorts: int
    below: int  # every payload is a number below this
    weight: int | None = None  # how many bits of a payload are set, where that is fixed (subset selection); else None
    zones: Zones = ()  # where the limit depends on the cohort: `Kind.zones`

    @classmethod
    def of(cls, mechanism: Kind) -> ReportFormat:
        shape = mechanism.payload_bits, mechanism.num_cohorts, mechanism.payload_limit, mechanism.payload_weight
        return cls(mechanism.digest, *shape, mechanism.zones if len(mechanism.zones) > 1 else ())

    @cached_property
    def width(self) -> int:
        return (self.num_bits + 7) // 8

    @cached_property
    def cohort_bytes(self) -> int:
        return cohort_width(self.num_cohorts)

    def read(self, raw: bytes, most: int) -> Columns | Reason:
        """Read a packed batch, or return why all of it is refused; reports that the metric cannot have are left out."""
        if len(raw) < _LEAST:
            return Reason.DAMAGED
        magic, version, zero, num_bits, num_cohorts, num_reports, digest = HEADER.unpack_from(raw)
        end = len(raw) - TRAILER.size
        checksum = zlib.crc32(memoryview(raw)[:end])
        if magic != MAGIC or version != VERSION or zero or TRAILER.unpack_from(raw, end) != (checksum,):
            return Reason.DAMAGED
        if digest != self.digest or num_bits != self.num_bits or num_cohorts != self.num_cohorts:
            return Reason.WRONG_PARAMETERS
        split = HEADER.size + num_reports * self.cohort_bytes
        if not num_reports or split + num_reports * self.width != end:
            return Reason.DAMAGED
        if num_reports > most:
            return Reason.TOO_MANY
        cohorts, bits = raw[HEADER.size : split], raw[split:end]
        return self._few(num_reports, cohorts, bits) if num_reports <= FEW else self._many(num_reports, cohorts, bits)

    def _few(self, num_reports: int, cohorts: bytes, bits: bytes) -> Columns:
        if num_reports == 1:
            reason = self.refuse(cohorts, bits)
            return Columns(1, cohorts, bits) if reason is None else Columns(0, b"", b"", ((0, reason),))
        wide, width = self.cohort_bytes, self.width
        places = [(slice(i * wide, (i + 1) * wide), slice(i * width, (i + 1) * width)) for i in range(num_reports)]
        reasons = [self.refuse(cohorts[cohort], bits[payload]) for cohort, payload in places]
        rejected = tuple((i, reason) for i, reason in enumerate(reasons) if reason is not None)
        if not rejected:
            return Columns(num_reports, cohorts, bits)
        valid = [place for place, reason in zip(places, reasons, strict=True) if reason is None]
        joined = (b"".join(cohorts[cohort] for cohort, _ in valid), b"".join(bits[payload] for _, payload in valid))
        return Columns(len(valid), *joined, rejected)

    def refuse(self, cohort: bytes, bits: bytes) -> Reason | None:
        number, below = int.from_bytes(cohort, "little"), self.below
        if self.zones and number < self.num_cohorts:
            below = self.zones[bisect_right(self.zones, (number, self.below))][1]
        if number >= self.num_cohorts:
            return Reason.COHORT
        payload = int.from_bytes(bits, "little")
        if payload >= below or (self.weight is not None and payload.bit_count() != self.weight):
            return Reason.BITS
        return None

    def _many(self, num_reports: int, cohorts: bytes, bits: bytes) -> Columns:
        rows = np.frombuffer(bits, np.uint8).reshape(num_reports, self.width)
        numbers = np.frombuffer(cohorts, f"<u{self.cohort_bytes}")
        stray, wrong = numbers >= self.num_cohorts, _not_below(rows, self.below)
        if self.weight is not None:
            wrong |= np.bitwise_count(rows).sum(axis=1, dtype=np.int64) != self.weight
        for (start, _), (stop, below) in pairwise(((0, 0), *self.zones)):
            inside = (numbers >= start) & (numbers < stop)
            wrong |= inside & _not_below(rows, below)
        bad = stray | wrong
        if not bad.any():
            return Columns(num_reports, cohorts, bits)
        rejected = tuple((int(i), Reason.COHORT if stray[i] else Reason.BITS) for i in np.flatnonzero(bad))
        valid = ~bad
        return Columns(int(valid.sum()), numbers[valid].tobytes(), rows[valid].tobytes(), rejected)


def _not_below(rows: NDArray[np.uint8], below: int) -> Flags:
    """Return which rows, as little-endian numbers, are at least `below`; by their last bytes where these suffice."""
    width = rows.shape[1]
    if below == 1 << 8 * width:
        return np.zeros(len(rows), np.bool_)
    top, rest = divmod(below, 1 << 8 * (width - 1))
    if not rest:
        above: Flags = rows[:, -1] >= top
        return above
    greater: Flags = np.zeros(len(rows), np.bool_)
    equal: Flags = np.ones(len(rows), np.bool_)
    for place in range(width - 1, -1, -1):
        digit = below >> 8 * place & 255
        greater |= equal & (rows[:, place] > digit)
        equal &= rows[:, place] == digit
    return greater | equal


JSON: Final = "application/json"
EARLY: Final = 1  # a device's clock may be ahead by this many periods
OVERHEAD: Final = 256  # about how many bytes of memory a waiting batch takes in addition to its own


class Times(NamedTuple):
    """When reports of one period are taken, in unix time: clocks differ, and reports are late."""

    opens: int  # the first second
    closes: int  # the first second after the last
    expired: bool  # the metric was not collected any more when the period began
    forget_after: int  # as in `Received`, as `ends`
    ends: int

    @classmethod
    def of(cls, metric: Metric, period: int) -> Times:
        start = metric.period.start(period)
        closes, final = metric.accept_until(period), metric.final_from(period)
        opens, ends = metric.period.start(period - EARLY), metric.period.start(period + 1)
        return cls(opens, closes, metric.expired(start), final, ends)


@dataclass(slots=True)
class Result:
    """The decision about one upload: the reason of its refusal, or the number of its valid reports."""

    batch: bytes
    metric: str
    accepted: int = 0
    reason: Reason | None = None
    rejected: tuple[tuple[int, Reason], ...] = ()


@dataclass(slots=True)
class Decision:
    """The decision about a request."""

    refused: Reason | None = None  # why the body was refused as such
    results: list[Result] = field(default_factory=list)  # one per upload, in the body's order
    # The batches to commit: those of the results without a reason, in the same order.
    received: list[Received] = field(default_factory=list)
    num_reports: int = 0  # of `received`
    num_bytes: int = 0  # of `received`
    where: str = ""  # what is wrong in the body, and where, if that is known
    num_read: int = 0  # how many reports were looked at, the refused ones too


class Ingest:
    """Decides about request bodies by a registry."""

    def __init__(self, registry: MetricRegistry, limits: Limits | None = None) -> None:
        self.registry, self.limits = registry, limits or Limits()
        self._metrics = {
            name: (metric, ReportFormat.of(metric.mechanism), lru_cache(maxsize=64)(partial(Times.of, metric)))
            for name, metric in registry.metrics.items()
        }

    def decide(self, body: bytes, content_type: str, now: float, *, oblivious: bool = False) -> Decision:
        """Decide about one request's body; `content_type` is in lower case, without parameters."""
        try:
            uploads = self._uploads(body, content_type)
        except WireError as error:
            return Decision(Reason.of(error), where=str(error))
        decision = Decision()
        for upload in uploads:
            if not self._take(upload, now, decision, oblivious=oblivious):
                return Decision(Reason.TOO_MANY)
        return decision

    def _uploads(self, body: bytes, content_type: str) -> list[Upload]:
        most = self.limits.json_bytes if content_type == JSON else self.limits.body_bytes
        if len(body) > most:
            raise WireError("too-large", f"the body has more than {most} bytes")
        if content_type == MEDIA_TYPE:
            return decode_uploads(body, self.limits.uploads)
        if content_type != JSON:
            raise WireError("wrong-type", f"send {MEDIA_TYPE} or {JSON}")
        try:
            parsed = json.loads(body, object_pairs_hook=_object)
        except WireError:
            raise
        except ValueError as error:
            raise WireError("damaged", f"the body is not JSON: {error}") from None
        except RecursionError:
            raise WireError("damaged", "the body is nested too deeply") from None
        return uploads_from_json(parsed, self.registry.metrics, self.limits.uploads)

    def _take(self, upload: Upload, now: float, decision: Decision, *, oblivious: bool) -> bool:
        """Add one upload to the decision; False when the request holds too many reports."""
        result = Result(upload.batch, upload.metric)
        decision.results.append(result)
        entry = self._metrics.get(upload.metric)
        if entry is None:
            result.reason = Reason.UNKNOWN_METRIC
            return True
        metric, report_format, times_of = entry
        times = times_of(upload.period)
        result.reason = _out_of_place(metric, upload, times, now, oblivious=oblivious)
        if result.reason is not None:
            return True
        columns = report_format.read(upload.reports, self.limits.reports - decision.num_read)
        if columns is Reason.TOO_MANY:
            return False
        if isinstance(columns, Reason):
            result.reason = columns
            return True
        result.rejected = columns.rejected
        decision.num_read += columns.num_reports + len(columns.rejected)
        if not columns.num_reports:
            result.reason = columns.rejected[0][1]
            return True
        result.accepted = columns.num_reports
        decision.num_reports += columns.num_reports
        decision.num_bytes += len(upload.reports) + OVERHEAD
        decision.received.append(
            Received(
                upload.metric,
                upload.period,
                upload.batch,
                report_format.digest,
                report_format.num_bits,
                report_format.num_cohorts,
                columns.num_reports,
                columns.cohorts,
                columns.bits,
                times.forget_after,
                times.ends,
                upload.group,
            )
        )
        return True


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; refuse a key that appears twice, because it is unclear which value was meant."""
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in values if keys.count(key) > 1)
        raise WireError("json", f"the key {twice!r:.50} appears twice in one object")
    return values


def _out_of_place(metric: Metric, upload: Upload, times: Times, now: float, *, oblivious: bool) -> Reason | None:
    """Return why an upload is not taken, whatever its reports are: its way here, its time, its group; or None."""
    if metric.is_oblivious and not oblivious:
        return Reason.WRONG_TRANSPORT
    if now < times.opens:
        return Reason.PERIOD_FUTURE
    if times.expired:
        return Reason.METRIC_EXPIRED
    if now >= times.closes:
        return Reason.PERIOD_CLOSED
    if upload.group and (metric.groups is None or upload.group not in metric.groups.names):
        return Reason.UNKNOWN_GROUP
    return None
