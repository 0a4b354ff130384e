"""Which reports of a batch a metric can have: `ReportFormat` checks them, `TemplateCache` checks single ones faster.

An upload with the bytes of an accepted one, but for id, cohort, payload and checksum, has only those checked.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.collector.ingest.received import Received
from overstory.protocol.kinds.base import Kind
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import HEADER, ID_BYTES, MAGIC, TRAILER, UPLOAD_HEADER, VERSION, cohort_width

FEW: Final = 16  # up to this many reports are checked one by one: that is faster than calling NumPy

_LEAST: Final = HEADER.size + TRAILER.size
Flags = NDArray[np.bool_]
Zones = tuple[tuple[int, int], ...]


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


LONGEST: Final = 1024  # longer uploads take the full path: the saving would be small
MOST: Final = 4096  # the most templates that are remembered; a registry has fewer metrics with open periods

_ID_AT: Final = 8
_ID_ENDS: Final = _ID_AT + ID_BYTES
_NAME_LENGTH_AT: Final = 6
_GROUP_LENGTH_AT: Final = 7
_TRAILER: Final = TRAILER.size

Key = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Template:
    """What uploads of one report with the same fixed bytes have in common."""

    report_format: ReportFormat  # of the metric's reports
    like: Received  # a valid batch
    length: int  # of the upload
    opens: float  # the unix times between which such uploads are taken
    closes: float


class TemplateCache:
    """The templates seen so far."""

    def __init__(self) -> None:
        self._by_key: dict[Key, Template] = {}

    def remember(self, body: bytes, template: Template) -> None:
        if len(self._by_key) >= MOST:
            self._by_key.clear()
        self._by_key[_key(body, _batch_at(body))] = template

    def recognise(self, body: bytes, now: float) -> Received | None:
        """Return the batch of a valid upload that has a template here; None for anything else."""
        if not _ID_ENDS < len(body) <= LONGEST:
            return None
        at = _batch_at(body)
        template = self._by_key.get(_key(body, at))
        if template is None or len(body) != template.length or not template.opens <= now < template.closes:
            return None
        if zlib.crc32(body[at:-_TRAILER]) != int.from_bytes(body[-_TRAILER:], "little"):
            return None
        report_format, like = template.report_format, template.like
        columns = at + HEADER.size
        split = columns + report_format.cohort_bytes
        cohort, bits = body[columns:split], body[split:-_TRAILER]
        if report_format.refuse(cohort, bits) is not None:
            return None
        return Received(
            like.metric,
            like.period,
            body[_ID_AT:_ID_ENDS],
            like.digest,
            like.num_bits,
            like.num_cohorts,
            1,
            cohort,
            bits,
            like.forget_after,
            like.ends,
            like.group,
        )


def _batch_at(body: bytes) -> int:
    return UPLOAD_HEADER.size + body[_NAME_LENGTH_AT] + body[_GROUP_LENGTH_AT]


def _key(body: bytes, at: int) -> Key:
    """Return the bytes that all uploads of a template share: around the batch id, up to the packed batch's columns."""
    return body[:_ID_AT], body[_ID_ENDS : at + HEADER.size]
