"""What all reports of any year reveal together, whatever the person holds and however it changes: the headline.

A year is any 366 days in a row, of the periods that reports are about. Epsilons of one person add up, over metrics and
over answers; those of metrics that share a panel do not, for a device answers one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from overstory.presentation.formats import MOST, guess_text, plural
from overstory.privacy.statements import ALWAYS, NOT_BOUNDED, Claim, why_unbounded
from overstory.privacy.terms import add_up, metric_terms
from overstory.protocol.metrics import Metric, MetricRegistry, PersonBudget
from overstory.protocol.metrics.period import YEAR

HIGH: Final = 8.0  # the epsilon of a year above which a registry is warned about

ANY_YEAR: Final = "in any year"
ANY_TWO: Final = "Between any two histories of what the person holds."
KEPT: Final = "A device adds up what a year's reports cost, and stops there, whatever happens to the registry."
ADDS_UP: Final = "Every further year adds at most as much."
WHEN: Final = "A year is counted by the periods that reports are of; one may arrive later, by the days of its grace."


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
        each = "" if most == 1 else ", each"
        of = "" if len(shared) == 1 else f"{each} to one of {len(shared)} questions"
        yield Part(epsilon, plural(most, "answer") + of, shared)
    for metric in listed:
        if metric not in shared:
            reports = most_in_a_year(metric)
            yield Part(
                metric_terms(metric).epsilon_any(reports), f"{plural(reports, 'report')} of {metric.id}", (metric,)
            )


def in_two_sentences(registry: MetricRegistry) -> tuple[str, str]:
    """Say to a person what one report tells, of the metric whose reports tell most, and what the headline says."""
    one = max(metric_terms(metric).epsilon_any(1) for metric in registry.values())
    year, budget = headline(registry), registry.budget
    stretch = "any year" if all(metric.is_afresh for metric in registry.values()) else "the first year"
    is_all = all(metric.once for metric in registry.values()) or (
        budget is not None and budget.per == "ever" and least_limit(registry.values(), budget) <= year.epsilon
    )
    first, second = (
        guess_text(one, "it", "answers is yours"),
        guess_text(year.epsilon, "them", "lists of answers is yours"),
    )
    if math.isinf(year.epsilon):
        second = f"there is no known limit to what they tell: {year.reason}"
    coin = " A coin is right in half." if one <= MOST else ""
    more = "" if is_all or math.isinf(year.epsilon) else " Later years can add to it."
    return f"One report from now on: {first}.{coin}", f"All reports of {stretch}: {second}.{more}"


def most_in_a_year(metric: Metric) -> int:
    """Return how many reports of a metric a device makes within any 366 days, at most: all that these days touch."""
    if metric.panel is not None:
        return metric.panel.most_in_a_year
    return 1 if metric.once else -(-YEAR // metric.period.seconds) + 1


def year_of(metrics: Iterable[Metric]) -> str:
    """Name the year that a sum is of: kept noise tells more together with the reports of earlier years."""
    return ANY_YEAR if all(metric.is_afresh for metric in metrics) else "in the first year"


def least_limit(metrics: Iterable[Metric], budget: PersonBudget | None) -> float:
    """Return the smallest limit that reports of all of these count against, whatever is held: infinite without one."""
    limits = [{*budget.limits_of(metric)} for metric in metrics] if budget is not None else []
    if budget is None or not limits or budget.against != "any-history":
        return math.inf
    return min(most for _, most in set.intersection(*limits))


def headline(registry: MetricRegistry) -> Claim:
    """Return what any year's reports of an application tell: the first number on every page for a person."""
    return yearly(registry.values(), registry.budget, is_counted=True)


def yearly(metrics: Iterable[Metric], budget: PersonBudget | None = None, *, is_counted: bool = False) -> Claim:
    """Return by how much any two histories of a year are told apart; `is_counted`: of all of an application."""
    parts = [*parts_of_a_year(metrics)]
    epsilon = add_up((1, part.epsilon) for part in parts)
    words = ", ".join(part.words for part in parts)
    unbounded = [metric_terms(metric) for part in parts if math.isinf(part.epsilon) for metric in part.metrics]
    reason = why_unbounded(unbounded) if unbounded else NOT_BOUNDED
    least, ends = least_limit((metric for part in parts for metric in part.metrics), budget), False
    if budget is not None and least < epsilon:
        epsilon, words = least, f"{words}, until the budget is used up"
        ends = budget.per == "year" and least == budget.epsilon  # an attribute's limit is not that of another registry
    year = year_of(metric for part in parts for metric in part.metrics)
    has_panel = any(metric.panel for part in parts for metric in part.metrics)
    is_kept = is_counted and math.isfinite(epsilon) and (ends or has_panel)
    rests = (ANY_TWO, *((KEPT,) if is_kept else ()), *((ADDS_UP, WHEN) if year == ANY_YEAR else ()))
    return Claim(f"{ALWAYS}, {year}: {words}", epsilon, " ".join(rests), kind="any", reason=reason)
