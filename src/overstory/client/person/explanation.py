"""Explains what one value becomes (symbol or bits, permanent response, report) and what the collector can infer.

The caller gives the value; nothing is stored. The inference is exact Bayes, shown with the prior.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from overstory.client.outcomes import Fault, StateError
from overstory.client.person.report_bytes import bit_string, matches, payload_words, report_in
from overstory.client.randomizer import Randomizer, new_secret
from overstory.client.recorder import Tagger
from overstory.client.state.secret_file import MetricKey, metric_key, read_secret
from overstory.client.state.state import State
from overstory.privacy.attacks import posterior
from overstory.privacy.payloads.registry import disclosure_of
from overstory.privacy.registry.cost import unchanged_cost
from overstory.privacy.text import plural
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Report
from overstory.protocol.metrics.metric import Metric

MOST_CANDIDATES: Final = 20_000
SHOWN: Final = 5


@dataclass(frozen=True)
class Belief:
    """The collector's posterior probability of one value."""

    label: str
    probability: float


@dataclass(frozen=True)
class Inference:
    """What a collector can infer from some reports.

    Attributes
    ----------
    candidates, prior
        The number of possible values, and the prior probability of each, which is uniform.
    epsilon, promise
        The privacy guarantee of these reports, and the same in words, with its condition.
    """

    reports: int  # the number of reports
    candidates: int
    prior: float
    beliefs: tuple[Belief, ...]  # the likeliest values, likeliest first
    epsilon: float
    promise: str

    @property
    def moved(self) -> float:
        """Posterior over prior probability of the likeliest value."""
        return self.beliefs[0].probability / self.prior


def infer(metric: Metric, reports: Sequence[Report]) -> Inference | str:
    """Return what can be inferred from linked reports of one unchanged value, or why that is not computed.

    Parameters
    ----------
    metric
        The metric; its labels are the possible values, with a uniform prior.
    """
    values = _values(metric)
    if isinstance(values, str):
        return values
    prior = 1 / len(values)
    try:
        believed = posterior(metric.mechanism, reports, dict.fromkeys(values, prior))
    except ParameterError as error:
        return f"nothing consistent: {error}"
    best = sorted(believed.items(), key=lambda pair: -pair[1])
    best = best if len(best) == SHOWN + 1 else best[:SHOWN]  # a row for all others would be as long
    beliefs = tuple(Belief(metric.domain.label(value), probability) for value, probability in best)
    promised = unchanged_cost(metric, len(reports))
    return Inference(len(reports), len(values), prior, beliefs, promised.epsilon, promised.words)


def _values(metric: Metric) -> Sequence[Hashable] | str:
    """Return the mechanism's input for each possible value."""
    labels = metric.labels
    if not labels:
        return "the registry at hand has no list of candidates, so there is nothing to compare"
    if len(labels) > MOST_CANDIDATES:
        return f"{len(labels)} candidates are more than are computed here ({MOST_CANDIDATES})"
    return metric.domain.encodings(labels)


@dataclass(frozen=True)
class Explanation:
    """What a value becomes on its way to the collector.

    Attributes
    ----------
    metric, value
        The metric's id, and the value as it was given.
    true, true_words
        The payload without noise, which never leaves the device.
    permanent, permanent_words
        The permanent response, and how it differs from the truth; none where all noise is fresh.
    known
        The number of the permanent response with which this device reported it before, from 1; None if it never did,
        or if that is unknown because all noise is fresh.
    report, report_words
        A report: the newest one made from it, or an example.
    """

    metric: str
    value: str
    encoded: str  # the metric's encoding: a symbol and its name, or the string
    cohort: int  # how this device encodes values
    true: str
    true_words: str
    permanent: str
    permanent_words: str
    known: int | None  # the number of its permanent response, if it was reported before
    cap: str  # what is reported instead once the cap on distinct values is reached; else empty
    report: str
    report_words: str
    example: bool  # whether the report is an example, drawn now and not kept
    is_example_device: bool  # whether the device has no secret yet and an example device stands in
    inference: Inference | str  # what the report alone tells the collector


def explain(state: State, metric: Metric, value: Any) -> Explanation:
    """Explain what a value becomes on this device."""
    encoded = metric.encode(value)
    derived = _derived(state, metric)
    mechanism = metric.mechanism
    own = derived or MetricKey(mechanism, new_secret())
    device = Randomizer(own.mechanism, secret=own.key, metric=metric.id, memo_size=0)
    permanent = device.permanent(encoded)
    fresh = mechanism.fresh
    before = (
        ReportedBefore() if fresh or derived is None else _before(state, metric, derived.key, device.cohort, encoded)
    )
    report = before.newest or device.report(encoded)
    true, true_text = _truth(mechanism, encoded, device.cohort)
    base, what = (true, "the truth") if fresh else (permanent, "the permanent response")
    return Explanation(
        metric=metric.id,
        value=str(value),
        encoded=metric.domain.encoded_text(encoded) + _asked(mechanism, device.cohort),
        cohort=device.cohort,
        true="" if true is None else bit_string(mechanism, true),
        true_words=true_text,
        permanent="" if fresh else bit_string(mechanism, permanent),
        permanent_words=FRESH if fresh else _changes(metric, true, permanent, "the truth"),
        known=before.number,
        cap=before.cap,
        report=bit_string(mechanism, report.bits),
        report_words=_changes(metric, base, report.bits, what),
        example=before.newest is None,
        is_example_device=derived is None,
        inference=infer(metric, [report]),
    )


def read_value(metric: Metric, text: str) -> Any:
    """Return the value that a text stands for in a metric's domain."""
    try:
        return metric.domain.read(text)
    except ValueError:
        raise ParameterError(f"{metric.id}: {text!r} is no number, and this metric takes one") from None


def _derived(state: State, metric: Metric) -> MetricKey | None:
    """Return the metric's key and mechanism on this device; None where nothing was recorded yet."""
    if not state.exists:
        return None
    secret = read_secret(state.paths.secret)
    with state.snapshot() as rows:
        if secret is None or secret.fingerprint != rows.fingerprint:
            raise StateError(Fault.LOST, f"{state.paths.secret}: the secret of the reports so far is not here")
        legacy = rows.keys.goes_on_with_legacy(metric, rows.memo, {metric.id: metric})
    derived = metric_key(secret, metric, legacy=legacy)
    if derived is None:
        raise StateError(Fault.LOST, f"{metric.id}: it has ended, and this device has destroyed its key")
    return derived


@dataclass(frozen=True)
class ReportedBefore:
    """Earlier reports of the value: its response's number, the newest report, and the effect of the cap."""

    number: int | None = None
    newest: Report | None = None
    cap: str = ""


def _before(state: State, metric: Metric, secret: bytes, cohort: int, encoded: Any) -> ReportedBefore:
    tag = Tagger(metric.mechanism, metric.id, secret, cohort).tag(encoded)
    with state.snapshot() as rows:
        matching = [response for response in rows.memo.responses(metric.id) if response.tag == tag]
        queue, distinct = rows.outbox.rows(metric.id), rows.memo.distinct(metric.id, spare=metric.nothing_is_spare)
    if not matching:
        full = metric.max_values is not None and distinct >= metric.max_values
        return ReportedBefore(
            cap=CAPPED.format(plural(distinct, "distinct value"), OVER_CAP[metric.over_cap]) if full else ""
        )
    number = matching[0].number
    made = [report_in(row.body)[1] for row in queue if row.response == number and matches(row.body, metric)]
    return ReportedBefore(number + 1, made[-1] if made else None)


SPEAKING: Final = "a set of outputs, any of which speaks for the value"
FRESH: Final = "none: the noise of every report is fresh"
CAPPED: Final = "this device has reported {}, the most it may: {}"
OVER_CAP: Final = {
    "drop": "nothing would be reported instead, as a response of its own",
    "first": "the first one would be reported instead",
    "nearest": "the nearest would be reported instead",
}


def _asked(mechanism: LocalRandomizer, cohort: int) -> str:
    about = mechanism.question_text(cohort)
    return f"; this device is asked about {about}" if about else ""


def _truth(mechanism: LocalRandomizer, encoded: Any, cohort: int) -> tuple[int | None, str]:
    true = mechanism.encode(encoded, cohort)
    return true, SPEAKING if true is None else payload_words(mechanism, true)


def _changes(metric: Metric, before: int | None, after: int, what: str) -> str:
    texts = payload_words(metric.mechanism, after, metric.labels)
    return texts if before is None else f"{texts}; {disclosure_of(metric.mechanism).compared(before, after)} {what}"
