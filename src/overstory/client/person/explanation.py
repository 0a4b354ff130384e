"""Explains every byte of a queued report, what one value becomes on its way, and what the collector can infer.

The caller gives the value; nothing is stored. The inference is exact Bayes, shown with the prior.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from overstory.client.outcomes import Fault, StateError
from overstory.client.randomizer import new_secret, randomizer_of
from overstory.client.recorder import Tagger
from overstory.client.state.rows import OutboxRow
from overstory.client.state.secret_file import read_secret
from overstory.client.state.state import State
from overstory.presentation.formats import date_words, plural
from overstory.privacy.attacks import posterior
from overstory.privacy.statements import Claims
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.kinds.base import Kind, Report
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.wire.upload import Upload, cohort_width, decode_batch, decode_uploads


@dataclass(frozen=True)
class Part:
    """Consecutive bytes of an upload, and their meaning in words."""

    name: str
    raw: bytes
    meaning: str


def annotate(body: bytes, metric: Metric | None) -> tuple[Part, ...]:
    """Return every byte of an upload with one report, each part with its meaning; joined, they are the upload."""
    upload, report = report_in(body)
    batch = decode_batch(upload.reports)
    made_by = "the parameters that it was made by"
    of = made_by if metric is None else f"this metric's parameters ({metric.mechanism.name})"
    encodes = "how this device encodes values; drawn from its secret, the same for ever"
    if metric is not None and metric.panel is not None:
        encodes = "how this answer encodes values; drawn from the device's secret, another in every answer"
    says = "" if metric is None else f": {payload_words(metric.mechanism, report.bits, metric.labels)}"
    lengths = "the lengths of two names" if upload.group else "the length of the metric's name"
    with_id = "from this device's secret; a second copy of this report is known by it and not counted"
    cuts = [
        ("format", 8, f"an upload, version 1, and {lengths}"),
        ("batch id", 16, with_id if any(upload.batch) else "erased here once the report was settled"),
        ("period", 4, f"{_period(metric, upload.period)}; no finer time is sent"),
        ("length", 4, f"{len(upload.reports)} bytes of reports follow"),
        ("metric", len(upload.metric), upload.metric),
        ("group", len(upload.group), f"{upload.group}, in clear: the group that this device is in"),
        ("format", 6, "a batch of reports, version 1"),
        ("bits", 2, f"a report has {plural(batch.num_bits, 'bit')}"),
        ("cohorts", 4, f"there {'is' if batch.num_cohorts == 1 else 'are'} {batch.num_cohorts}"),
        ("reports", 4, "there is 1"),
        ("parameters", 16, f"the digest of {of}"),
        (
            "cohort",
            cohort_width(batch.num_cohorts),
            "0: all devices encode alike" if batch.num_cohorts == 1 else f"{report.cohort}: {encodes}",
        ),
        ("report", (batch.num_bits + 7) // 8, f"what the device says, after all noise{says}"),
        ("checksum", 4, "of the batch, against damage on the way"),
    ]
    ends = accumulate(length for _, length, _ in cuts)
    parts = [
        Part(name, body[end - length : end], meaning) for end, (name, length, meaning) in zip(ends, cuts, strict=True)
    ]
    return tuple(part for part in parts if part.name != "group" or upload.group)


def report_in(body: bytes) -> tuple[Upload, Report]:
    """Return the upload, and the one report in it."""
    (upload,) = decode_uploads(body, 1)
    reports = list(decode_batch(upload.reports))
    if len(reports) != 1:
        raise WireError("length", f"a device sends one report at a time; {len(reports)} are here")
    return upload, reports[0]


def matches(row: OutboxRow, metric: Metric) -> bool:
    """Whether it is a report that can be read, of the metric as it is."""
    try:
        report_in(row.body)
    except WireError:
        return False
    return row.account == metric.account


def _period(metric: Metric | None, number: int) -> str:
    if metric is None or number not in metric.period.numbers:  # of another length, by an earlier registry
        return f"number {number}"
    return date_words(metric.period.label(number))


def payload_words(mechanism: Kind, payload: int, labels: Sequence[str] = ()) -> str:
    """Return a permanent response's or a report's payload in words; `labels` name the values that it may be."""
    return mechanism.payload_words(payload, labels)


def bit_string(mechanism: Kind, payload: int) -> str:
    """Return a payload's bits, bit 0 first, in groups of eight."""
    bits = f"{payload:0{mechanism.payload_bits}b}"[::-1]
    return " ".join(bits[start : start + 8] for start in range(0, len(bits), 8))


MOST_CANDIDATES: Final = 20_000
SHOWN: Final = 5


@dataclass(frozen=True)
class Inference:
    """What a collector can infer from some reports."""

    reports: int  # the number of reports
    candidates: int  # the number of possible values
    prior: float  # of each of them: it is uniform
    likeliest: tuple[dict[str, Any], ...]  # the label and the posterior probability of some values, likeliest first
    epsilon: float  # the privacy guarantee of these reports
    promise: str  # `epsilon` in words, with its condition


def infer(metric: Metric, reports: Sequence[Report]) -> Inference | str:
    """Return what linked reports of one unchanged value tell of a metric's labels, or why that is not computed.

    The answers of a panel are independent, given the value: each one changes what the ones before it left.
    """
    values = _values(metric)
    if isinstance(values, str):
        return values
    prior = 1 / len(values)
    posteriors = dict.fromkeys(values, prior)
    try:
        for together in [[report] for report in reports] if metric.panel is not None else [reports]:
            posteriors = posterior(metric.mechanism, together, posteriors)
    except ParameterError as error:
        return f"nothing consistent: {error}"
    best = sorted(posteriors.items(), key=lambda pair: -pair[1])
    best = best if len(best) == SHOWN + 1 else best[:SHOWN]  # a row for all others would be as long
    likeliest = tuple({"label": metric.domain.label(value), "probability": believed} for value, believed in best)
    promised = Claims.of(metric).unchanged(len(reports))
    return Inference(len(reports), len(values), prior, likeliest, promised.epsilon, promised.words)


def _values(metric: Metric) -> Sequence[Hashable] | str:
    labels = metric.labels
    if not labels:
        return "the registry at hand has no list of candidates, so there is nothing to compare"
    if len(labels) > MOST_CANDIDATES:
        return f"{len(labels)} candidates are more than are computed here ({MOST_CANDIDATES})"
    return metric.domain.encodings(labels)


@dataclass(frozen=True)
class Explanation:
    """What a value becomes on its way to the collector."""

    metric: str  # its id
    value: str  # as it was given
    encoded: str  # the metric's encoding: a symbol and its name, or the string
    cohort: int  # how this device encodes values
    true: str  # the payload without noise, which never leaves the device
    true_words: str
    permanent: str  # the permanent response; empty where all noise is fresh
    permanent_words: str  # how it differs from the truth
    known: int | None  # the number of its permanent response, if it was reported before
    cap: str  # what is reported instead once the cap on distinct values is reached; else empty
    report: str  # the newest one made from it, or an example
    report_words: str
    example: bool  # whether the report is an example, drawn now and not kept
    is_example_device: bool  # whether the device has no secret yet and an example device stands in
    inference: Inference | str  # what the report alone tells the collector


def explain(state: State, metric: Metric, value: Any) -> Explanation:
    """Explain what a value becomes on this device."""
    encoded = metric.encode(value)
    key = _key(state, metric)
    mechanism = metric.mechanism
    # Each answer of a panel has a key of its own: one that no device gives is shown.
    device = randomizer_of(metric, new_secret() if key is None or metric.panel is not None else key)
    permanent = device.permanent(encoded)
    fresh = metric.fresh
    nothing = None, None, ""
    known, newest, cap = nothing if fresh or key is None else _before(state, metric, key, device.cohort, encoded)
    report = newest or device.report(encoded)
    asked, true = mechanism.question_text(device.cohort), mechanism.encode(encoded, device.cohort)
    base, what = (true, "the truth") if fresh else (permanent, "the permanent response")
    return Explanation(
        metric=metric.id,
        value=str(value),
        encoded=metric.domain.encoded_text(encoded) + (asked and f"; this device is asked about {asked}"),
        cohort=device.cohort,
        true="" if true is None else bit_string(mechanism, true),
        true_words=SPEAKING if true is None else payload_words(mechanism, true),
        permanent="" if fresh else bit_string(mechanism, permanent),
        permanent_words=FRESH if fresh else _changes(metric, true, permanent, "the truth"),
        known=known,
        cap=cap,
        report=bit_string(mechanism, report.bits),
        report_words=_changes(metric, base, report.bits, what),
        example=newest is None,
        is_example_device=key is None,
        inference=infer(metric, [report]),
    )


def read_value(metric: Metric, text: str) -> Any:
    """Return the value that a text stands for in a metric's domain."""
    try:
        return metric.domain.read(text)
    except ValueError:
        raise ParameterError(f"{metric.id}: {text!r} is no number, and this metric takes one") from None


def _key(state: State, metric: Metric) -> bytes | None:
    if not state.exists:
        return None
    secret = read_secret(state.paths.secret)
    with state.snapshot() as rows:
        if secret is None or secret.fingerprint != rows.fingerprint:
            raise StateError(Fault.LOST, f"{state.paths.secret}: the secret of the reports so far is not here")
    key = secret.key(metric.id)
    if key is None:
        raise StateError(Fault.LOST, f"{metric.id}: it has ended, and this device has destroyed its key")
    return key


def _before(
    state: State, metric: Metric, key: bytes, cohort: int, encoded: Any
) -> tuple[int | None, Report | None, str]:
    """Return the number of the value's response, its newest report, and the effect of the cap, as far as there are."""
    tag = Tagger(metric, key, cohort).tag(encoded)
    with state.snapshot() as rows:
        matching = [response for response in rows.responses(metric.id) if response.tag == tag]
        queue, distinct = rows.outbox.rows(metric.id), rows.distinct(metric.id, spare=metric.nothing_is_spare)
    if not matching:
        full = metric.max_values is not None and distinct >= metric.max_values
        capped = CAPPED.format(plural(distinct, "distinct value"), OVER_CAP[metric.over_cap])
        return None, None, capped if full else ""
    number = matching[0].number
    made = [report_in(row.body)[1] for row in queue if row.response == number and matches(row, metric)]
    return number + 1, made[-1] if made else None, ""


SPEAKING: Final = "a set of outputs, any of which speaks for the value"
FRESH: Final = "none: the noise of every report is fresh"
CAPPED: Final = "this device has reported {}, the most it may: {}"
OVER_CAP: Final = {
    "drop": "nothing would be reported instead, as a response of its own",
    "first": "the first one would be reported instead",
    "nearest": "the nearest would be reported instead",
}


def _changes(metric: Metric, before: int | None, after: int, what: str) -> str:
    texts = payload_words(metric.mechanism, after, metric.labels)
    return texts if before is None else f"{texts}; {metric.mechanism.compared_words(before, after)} {what}"
