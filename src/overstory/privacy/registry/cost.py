"""What reports of a metric cost the person who sends them: the one place from which every page and command prints.

The first line says by how much any two histories of as many reports can be told apart, whatever the person holds and
however it changes. Every other line but that of one report holds under a condition, which it names.

The headline is that of a year: any 366 days in a row, of the periods that reports are about. Epsilons of one person add
up, over metrics and over answers; those of metrics that share a panel do not, for a device answers one of them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from overstory.presentation.document import KeyValues
from overstory.presentation.formats import MOST, epsilon_text, finite, guess_text, plural
from overstory.privacy.ledger import Ledger
from overstory.privacy.statements import (
    ALWAYS,
    FRESH,
    NOT_BOUNDED,
    PATTERN,
    SAME_PATTERN,
    UNCHANGED,
    Claim,
    Claims,
    why_unbounded,
)
from overstory.privacy.terms import add_up, metric_terms
from overstory.protocol.metrics import Metric, MetricRegistry, PersonBudget
from overstory.protocol.metrics.period import YEAR

YEARS: Final = 10  # for how many years a panel's answers are added up, in a line of their own

IN_FORCE: Final = ", by the parameters in force"

ANY: Final = (
    "Between any two histories of as many reports, whatever the values and however often they change; never below the "
    "truth."
)
NO_CAP: Final = "the metric has no cap on different values, and each further one costs as much as the first"
ACCOUNTS: Final = (
    "All reports are of one unchanged value. The metric's parameters, or what its values stand for, changed since the "
    "first one: the value had an independent permanent response before and after, and their epsilons add up."
)

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
    return math.inf if not limits else min(most for _, most in set.intersection(*limits))


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


@dataclass(frozen=True)
class Cost:
    """What reports cost the person who sends them, as every surface prints it."""

    attribute: str | None
    lines: tuple[Claim, ...]  # the first is `headline`; the others have a condition, but for "one report"

    @property
    def headline(self) -> Claim:
        """What holds whatever the person holds and however it changes."""
        return self.lines[0]

    def line(self, kind: str) -> Claim | None:
        return next((line for line in self.lines if line.kind == kind), None)

    def pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple((line.amount, line.words) for line in self.lines)

    def block(self) -> KeyValues:
        return KeyValues(self.pairs(), "lines")

    def to_json(self) -> dict[str, Any]:
        return {
            "attribute": self.attribute,
            "epsilon_any": finite(self.headline.epsilon),
            "lines": [line.to_json() for line in self.lines],
        }


@dataclass(frozen=True)
class MetricCost(Cost):
    """What a metric costs, or has cost."""

    metric: str
    reports: int  # how many reports the first line is about
    planned: bool  # whether they are still to come
    distinct: int  # the noisy answers behind those so far, fresh ones one by one; 0 where all noise is fresh
    most_values: int | None  # the cap on distinct values; None without

    @property
    def made(self) -> int:
        return 0 if self.planned else self.reports

    def to_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("metric", "reports", "planned", "distinct", "most_values")}
        return own | super().to_json()


@dataclass(frozen=True)
class TotalCost(Cost):
    """What several metrics cost together: epsilons of one person add up."""

    metrics: tuple[str, ...]  # their ids; what they have in common is `attribute`, None for all metrics

    @property
    def about(self) -> str:
        what = "all metrics" if self.attribute is None else f"all that tells of {self.attribute}"
        return f"{what} ({', '.join(self.metrics)})"

    def to_json(self) -> dict[str, Any]:
        return {"metrics": list(self.metrics), "about": self.about} | super().to_json()


def metric_cost(
    metric: Metric, reports: int | None = None, *, so_far: Ledger | None = None, budget: PersonBudget | None = None
) -> MetricCost:
    """Return what reports of a metric cost: those so far, or else `reports` to come, or those of any year.

    A device that keeps to the registry's `budget` stops reporting there: the first line of a year is then no more.
    """
    mine = Ledger() if so_far is None else so_far.of({metric.id})
    if mine.reports:
        return _so_far(metric, mine)
    claims = Claims.of(metric)
    if reports is None and not metric.once:
        number, lines = most_in_a_year(metric), (*_of_a_year(metric, claims, budget),)
    else:
        number = 1 if metric.once else reports or 1
        lines = claims.any_history(number), *_of_the_parameters(metric, claims)
    return MetricCost(metric.attribute, lines, metric.id, number, True, 0, metric.max_values)


def _of_a_year(metric: Metric, claims: Claims, budget: PersonBudget | None) -> Iterator[Claim]:
    reports, window, word = most_in_a_year(metric), metric.window, "report" if metric.panel is None else "answer"
    year, kept = claims.in_years(reports, word=word), yearly([metric], budget, is_counted=True)
    yield kept if kept.epsilon < year.epsilon else year
    if metric.panel is not None:
        yield claims.unchanged()
        yield claims.in_years(reports, YEARS, word)
        return
    if window is not None and 1 < window < reports:
        yield claims.any_history(window)
    yield from _of_the_parameters(metric, claims)


def _so_far(metric: Metric, ledger: Ledger) -> MetricCost:
    claims, every = Claims.of(metric), [account.terms for account in ledger.accounts]
    made, yours = ledger.reports, f"your {plural(ledger.reports, 'report')}"
    if [account.digest for account in ledger.accounts] == [metric.account.hex()]:
        first, others = claims.any_history(made, "your "), _of_the_parameters(metric, claims)
    else:
        rests = FRESH if all(terms.fresh for terms in every) else ANY
        about, why = f"{ALWAYS}: {yours}", why_unbounded(every)
        first = Claim(about, ledger.epsilon_any, rests, claims.cautions.get("any"), kind="any", reason=why)
        others = _of_all_accounts(metric, claims, ledger)
    answers = (account.reports if account.terms.fresh else len(account.numbered) for account in ledger.accounts)
    distinct = 0 if all(terms.fresh for terms in every) else sum(answers)
    return MetricCost(metric.attribute, (first, *others), metric.id, made, False, distinct, metric.max_values)


def _of_the_parameters(metric: Metric, claims: Claims) -> Iterator[Claim]:
    """Return what the parameters in force promise of one value, and of several; of fresh noise the first line is it."""
    yield claims.unchanged()
    if claims.terms.once or claims.terms.fresh:
        return
    yield claims.permanent()
    most, rests = most_responses(metric), f"Each of the values costs the permanent epsilon; {SAME_PATTERN}"
    values = "any values"
    if most is not None:
        number = min(n for n in (metric.max_values, claims.terms.most_values, metric.num_values) if n is not None)
        values = plural(number, "value") + (" and nothing" if most > number else "")
    about = f"any number of reports of {values}, {PATTERN}"
    yield Claim(about, lifetime_epsilon(metric), rests, claims.cautions.get("values"), kind="values", reason=NO_CAP)


def _of_all_accounts(metric: Metric, claims: Claims, ledger: Ledger) -> Iterator[Claim]:
    """Return what an unchanged value costs in all accounts: a response in each, independent of the others."""
    yield claims.unchanged(under=IN_FORCE)
    ceilings = {account.digest: account.terms.epsilon_permanent for account in ledger.accounts}
    ceilings[metric.account.hex()] = claims.terms.epsilon_permanent
    ceiling = add_up((1, each) for each in ceilings.values())
    unchanged = add_up((1, account.terms.epsilon_n(account.reports)) for account in ledger.accounts)
    if ledger.reports > 1 and epsilon_text(unchanged) not in {epsilon_text(ceiling), epsilon_text(ledger.epsilon_any)}:
        about = f"{plural(ledger.reports, 'report')}, {UNCHANGED}"
        yield Claim(about, unchanged, ACCOUNTS, kind="unchanged")
    if not claims.terms.once and not math.isinf(ceiling):  # fresh noise adds its own with every report
        yield Claim(f"any number of reports, {UNCHANGED}", ceiling, ACCOUNTS, kind="permanent")


def most_responses(metric: Metric) -> int | None:
    """Return how many permanent responses a device reports at most: those of its values, and one of nothing."""
    terms = metric_terms(metric)
    if terms.once:
        return 1
    values = metric.num_values if terms.most_values is None else terms.most_values
    responses = None if values is None else values + 1
    return min((number for number in (metric.max_responses, responses) if number is not None), default=None)


def lifetime_epsilon(metric: Metric) -> float:
    """Return what all that a device may ever report costs, infinite without a bound: see `Terms.epsilon_values`."""
    most = most_responses(metric)
    return math.inf if most is None else add_up([(most, metric_terms(metric).epsilon_permanent)])


T = TypeVar("T")


def total_costs(costs: Sequence[MetricCost], registry: MetricRegistry) -> tuple[TotalCost, ...]:
    """Return what metrics cost together in a year: all of them, then those of each attribute that several share."""
    totals = []
    for attribute, group in together((cost.attribute, cost) for cost in costs):
        line = yearly([registry[cost.metric] for cost in group], registry.budget)
        totals.append(TotalCost(attribute, (line,), tuple(cost.metric for cost in group)))
    return tuple(totals)


def totals_so_far(ledger: Ledger) -> tuple[TotalCost, ...]:
    """Return the same of the reports so far."""
    rests, reason = f"The epsilons of one person's metrics add up. {ANY}", "no bound on one of them"
    attributes = {account.metric: account.attribute for account in ledger.accounts}
    totals = []
    for attribute, names in together((about, name) for name, about in attributes.items()):
        part = ledger.of(names)
        yours = f"your {plural(part.reports, 'report')}"
        line = Claim(f"{ALWAYS}: {yours}", part.epsilon_any, rests, kind="any", reason=reason)
        totals.append(TotalCost(attribute, (line,), tuple(names)))
    return tuple(totals)


def together(listed: Iterable[tuple[str | None, T]]) -> list[tuple[str | None, list[T]]]:
    """Return all of the list, then those of each attribute that several share."""
    shared: dict[str | None, list[T]] = {None: []}
    for attribute, each in listed:
        shared[None].append(each)
        if attribute:
            shared.setdefault(attribute, []).append(each)
    everything = shared.pop(None)
    several = sorted((str(attribute), some) for attribute, some in shared.items() if len(some) > 1)
    return [(None, everything), *several] if everything else []


MOST_REPORTS: Final = 1 << 20


def reports_until_the_end(budget: PersonBudget, metric: Metric) -> int | None:
    """Return after how many reports of a metric a budget ends that nothing else uses; None where it never does."""
    terms = metric_terms(metric)
    most, cost = min(limit for _, limit in budget.limits_of(metric)), terms.epsilon_any
    return None if cost(MOST_REPORTS) <= most else bisect_right(range(1, MOST_REPORTS), most, key=cost)


def budget_words(budget: PersonBudget, metrics: Iterable[Metric]) -> Iterator[str]:
    """Say what a budget allows, and what happens at its end, a sentence at a time."""
    is_yearly = budget.per == "year"
    all_reports = "All reports of any year" if is_yearly else "All reports together"
    until = " until some are a year old" if is_yearly else ""
    yield f"{all_reports} may cost epsilon {budget.epsilon:g}, {ALWAYS}; then no more are made{until}."
    for name, most in budget.attributes.items():
        yield f"All that tells of {name} may cost epsilon {most:g}, {ALWAYS}; then no more of that is reported{until}."
    for metric in metrics:
        if metric.panel is not None:
            continue
        end = reports_until_the_end(budget, metric)
        if end is None or (is_yearly and end >= most_in_a_year(metric)):
            yield f"{metric.id} alone never reaches its end."
        else:
            reports = f"{end:,} report{'s' * (end != 1)}"
            yield f"After {reports} of {metric.id}, were it alone, this application stops reporting it by itself."
