"""What all reports of any year reveal together, whatever the person holds and however it changes: the headline.

A year is any 365 days, not one of the calendar. Epsilons of one person add up, over metrics and over answers; those of
metrics that share a panel do not, for a device answers one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from overstory.presentation.formats import plural
from overstory.privacy.payloads.registry import metric_terms
from overstory.privacy.statements import ALWAYS, NOT_BOUNDED, Claim, why_unbounded
from overstory.privacy.terms import add_up
from overstory.protocol.metrics import Metric, PersonBudget
from overstory.protocol.metrics.period import YEAR

HIGH: Final = 8.0
"""The epsilon of a year above which a registry is warned about."""

ANY_TWO: Final = "Between any two histories of what the person holds."
KEPT: Final = "A device adds up what a year's reports cost, and stops there, whatever happens to the registry."
ADDS_UP: Final = "Every further year adds at most as much."


class Part(NamedTuple):
    """What one metric, or all that share a panel, add to a year."""

    epsilon: float
    words: str  # what a device sends
    metrics: tuple[Metric, ...]


def parts_of_a_year(metrics: Iterable[Metric]) -> Iterator[Part]:
    """Yield what adds up to a year's epsilon, budgets aside: the panel that metrics share, then every other metric."""
    listed = tuple(metrics)
    shared = tuple(metric for metric in listed if metric.panel is not None and not metric.panel.own)
    if shared:
        most = max(metric.panel.most_in_a_year for metric in shared if metric.panel is not None)
        epsilon = add_up([(most, max(metric_terms(metric).epsilon_any(1) for metric in shared))])
        of = "" if len(shared) == 1 else f" to one of {len(shared)} questions"
        yield Part(epsilon, plural(most, "answer") + of, shared)
    for metric in listed:
        if metric not in shared:
            reports = most_in_a_year(metric)
            yield Part(
                metric_terms(metric).epsilon_any(reports), f"{plural(reports, 'report')} of {metric.id}", (metric,)
            )


def most_in_a_year(metric: Metric) -> int:
    """Return how many reports of a metric a device makes within any 365 days, at most: all that these days touch."""
    if metric.panel is not None:
        return metric.panel.most_in_a_year
    return 1 if metric.once else -(-YEAR // metric.period.seconds) + 1


def yearly(metrics: Iterable[Metric], budget: PersonBudget | None = None) -> Claim:
    """Return the headline of all metrics of an application: by how much any two histories of a year are told apart.

    It is the first number on every page for a person.
    """
    parts = [*parts_of_a_year(metrics)]
    epsilon = add_up((1, part.epsilon) for part in parts)
    words = ", ".join(part.words for part in parts)
    unbounded = [metric_terms(metric) for part in parts if math.isinf(part.epsilon) for metric in part.metrics]
    reason = why_unbounded(unbounded) if unbounded else NOT_BOUNDED
    if budget is not None and budget.against == "any-history" and budget.epsilon < epsilon:
        epsilon, words = budget.epsilon, f"{words}, until the budget is used up"
    return Claim(f"{ALWAYS}, in any year: {words}", epsilon, _rests(parts, budget), kind="any", reason=reason)


def _rests(parts: Iterable[Part], budget: PersonBudget | None) -> str:
    metrics = [metric for part in parts for metric in part.metrics]
    counted = any(metric.panel is not None for metric in metrics) or (budget is not None and budget.per == "year")
    # Noise that is memoized from year to year tells more of two years than twice that of one.
    afresh = all(metric.fresh or metric.once for metric in metrics)
    return " ".join((ANY_TWO, *((KEPT,) if counted else ()), *((ADDS_UP,) if afresh else ())))
