"""What the collector could conclude about this device's value: exact Bayes, beside what it guessed without reports."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from overstory.privacy.attackers import posterior
from overstory.privacy.metric_cost import unchanged_cost
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Report
from overstory.protocol.metrics.metric import Metric, Strings

MOST_CANDIDATES: Final = 20_000
SHOWN: Final = 5


@dataclass(frozen=True)
class Belief:
    """How likely one value is to the collector, after what it has seen."""

    label: str
    probability: float


@dataclass(frozen=True)
class Inference:
    """What some reports tell.

    Attributes
    ----------
    reports
        How many reports it rests on.
    candidates, prior
        How many values are thought possible, and how likely each was before: all alike.
    beliefs
        The likeliest values, likeliest first.
    epsilon, promise
        What is promised of so many reports, and the same in words, with its condition.
    """

    reports: int
    candidates: int
    prior: float
    beliefs: tuple[Belief, ...]
    epsilon: float
    promise: str

    @property
    def moved(self) -> float:
        """How many times likelier the likeliest value has become."""
        return self.beliefs[0].probability / self.prior


def infer(metric: Metric, reports: Sequence[Report]) -> Inference | str:
    """Return what reports of one unchanged value tell whoever can link them, or why that is not computed.

    Parameters
    ----------
    metric
        The metric; its labels are the values thought possible, all alike beforehand.
    reports
        At least one report of this device.
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
    beliefs = tuple(Belief(_label(metric, value), probability) for value, probability in best)
    promised = unchanged_cost(metric, len(reports))
    return Inference(len(reports), len(values), prior, beliefs, promised.epsilon, promised.words)


def _values(metric: Metric) -> Sequence[Hashable] | str:
    """Return what the mechanism would take for each value thought possible."""
    labels = metric.labels
    if not labels:
        return "the registry at hand has no list of candidates, so there is nothing to compare"
    if len(labels) > MOST_CANDIDATES:
        return f"{len(labels)} candidates are more than are computed here ({MOST_CANDIDATES})"
    return labels if isinstance(metric.domain, Strings) else range(len(labels))


def _label(metric: Metric, value: Any) -> str:
    return str(value) if isinstance(metric.domain, Strings) else metric.labels[value]
