"""What the collector could conclude about this device's value: exact Bayes, beside what it guessed without reports."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from overstory.privacy.attackers import posterior
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
    epsilon
        What the mechanism promises for so many reports of one value: no odds move by more than e to this.
    """

    reports: int
    candidates: int
    prior: float
    beliefs: tuple[Belief, ...]
    epsilon: float

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
    best = sorted(believed.items(), key=lambda pair: -pair[1])[:SHOWN]
    beliefs = tuple(Belief(_label(metric, value), probability) for value, probability in best)
    return Inference(len(reports), len(values), prior, beliefs, metric.mechanism.epsilon_n(len(reports)))


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


def odds_words(epsilon: float) -> str:
    """Return how far an epsilon lets the odds of two values move, in words.

    Examples
    --------
    >>> odds_words(1.0743), odds_words(25.2), odds_words(math.inf)
    ('odds move at most 2.93-fold', 'odds may move more than a million-fold', 'odds may move without bound')
    """
    from overstory.privacy.words import factor

    if math.isinf(epsilon):
        return "odds may move without bound"
    said = factor(epsilon)
    return f"odds may move {said}-fold" if said.startswith("more") else f"odds move at most {said}-fold"
