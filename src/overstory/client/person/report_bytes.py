"""Names the meaning of every byte of a queued report; nothing else is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overstory.privacy.payloads.registry import disclosure_of
from overstory.privacy.text import plural
from overstory.protocol.errors import WireError
from overstory.protocol.mechanisms.base import LocalRandomizer, Report
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.wire.upload import Batch, Upload, cohort_width, decode_batch, decode_uploads


@dataclass(frozen=True)
class Part:
    """Consecutive bytes of an upload with one meaning.

    Attributes
    ----------
    name, raw, meaning
        The field's name, its bytes, and their meaning in words.
    """

    name: str
    raw: bytes
    meaning: str


def annotate(body: bytes, metric: Metric | None) -> tuple[Part, ...]:
    """Return every byte of an upload in order, each part with its meaning; joined, the parts are the upload.

    Parameters
    ----------
    body
        The bytes of one upload with one report.
    """
    upload, report = report_in(body)
    batch = decode_batch(upload.reports)
    cut = _Cutter(body)
    version = (
        "version 2, and the lengths of two names" if upload.group else "version 1, and the length of the metric's name"
    )
    cut("format", 8, f"an upload, {version}")
    with_id = "from this device's secret; a second copy of this report is known by it and not counted"
    cut("batch id", 16, with_id if any(upload.batch) else "erased here once the report was settled")
    cut("period", 4, f"{_period(metric, upload.period)}; no finer time is sent")
    cut("length", 4, f"{len(upload.reports)} bytes of reports follow")
    cut("metric", len(upload.metric), upload.metric)
    if upload.group:
        cut("group", len(upload.group), f"{upload.group}, in clear: the group that this device is in")
    cut("format", 6, "a batch of reports, version 1")
    cut("bits", 2, f"a report has {plural(batch.num_bits, 'bit')}")
    cut("cohorts", 4, f"there {_are(batch.num_cohorts)} {batch.num_cohorts}")
    cut("reports", 4, "there is 1")
    cut("parameters", 16, _parameters(metric, batch.digest))
    cut("cohort", cohort_width(batch.num_cohorts), _cohort(report.cohort, batch.num_cohorts))
    cut("report", (batch.num_bits + 7) // 8, _payload(metric, report, batch))
    cut("checksum", 4, "of the batch, against damage on the way")
    return tuple(cut.parts)


class _Cutter:
    """Cuts bytes into parts from the front."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at, self.parts = body, 0, list[Part]()

    def __call__(self, name: str, length: int, meaning: str) -> None:
        self.parts.append(Part(name, self._body[self._at : self._at + length], meaning))
        self._at += length


def report_in(body: bytes) -> tuple[Upload, Report]:
    """Return the upload, and the one report in it."""
    (upload,) = decode_uploads(body, 1)
    reports = list(decode_batch(upload.reports))
    if len(reports) != 1:
        raise WireError("length", f"a device sends one report at a time; {len(reports)} are here")
    return upload, reports[0]


def matches(body: bytes, metric: Metric) -> bool:
    """Whether the bytes are one report that was made with the metric's present parameters."""
    try:
        (upload,) = decode_uploads(body, 1)
        batch = decode_batch(upload.reports)
    except WireError:
        return False
    return batch.num_reports == 1 and batch.digest == metric.mechanism.digest


def _period(metric: Metric | None, number: int) -> str:
    if metric is None or number not in metric.period.numbers:  # of another length, by an earlier registry
        return f"number {number}"
    return metric.period.label(number)


def _parameters(metric: Metric | None, digest: bytes) -> str:
    if metric is None or digest != metric.mechanism.digest:
        return "the digest of parameters that the registry at hand does not list"
    return f"the digest of this metric's parameters ({metric.mechanism.name})"


def _cohort(cohort: int, cohorts: int) -> str:
    if cohorts == 1:
        return "0: all devices encode alike"
    return f"{cohort}: how this device encodes values; drawn from its secret, the same for ever"


def _payload(metric: Metric | None, report: Report, batch: Batch) -> str:
    if metric is None or batch.digest != metric.mechanism.digest:
        return "what the device says, after all noise"
    return f"what the device says, after all noise: {payload_words(metric.mechanism, report.bits, metric.labels)}"


def payload_words(mechanism: LocalRandomizer, payload: int, labels: Sequence[str] = ()) -> str:
    """Return a permanent response's or a report's payload in words.

    Parameters
    ----------
    labels
        The names of the metric's values, where the payload may be one of them.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> payload_words(mechanism("grr", domain_size=2, epsilon=1.0), 1, ("html", "latex"))
    'says "latex" (by chance, not necessarily yours)'
    >>> [payload_words(mechanism("basic-rappor", domain_size=4), bits) for bits in (0b1010, 0b1000)]
    ['2 of 4 bits are 1', '1 of 4 bits is 1']
    """
    return disclosure_of(mechanism).words(payload, labels)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def bit_string(mechanism: LocalRandomizer, payload: int) -> str:
    """Return a payload's bits, bit 0 first, in groups of eight.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> bit_string(mechanism("basic-rappor", domain_size=10), 0b1000000101)
    '10100000 01'
    """
    bits = f"{payload:0{mechanism.payload_bits}b}"[::-1]
    return " ".join(bits[start : start + 8] for start in range(0, len(bits), 8))
