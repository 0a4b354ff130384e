"""What reports of a metric cost the person who sends them: the one place from which every page and command prints.

The first line says by how much any two histories of as many reports can be told apart, whatever the person holds and
however it changes. So does the one of one report. Every other line holds under a condition, and names it in the same
line. There are at most five lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from overstory.privacy.caveats import cautions
from overstory.privacy.claims import FRESH, MEMO, PERMANENT, REPORT, SAME_PATTERN, Claim, finite
from overstory.privacy.ledger import Ledger
from overstory.privacy.payloads.registry import terms_of
from overstory.privacy.terms import Terms, add_up
from overstory.privacy.text import CERTAIN as PRACTICALLY
from overstory.privacy.text import MOST, epsilon_text, factor, plural
from overstory.protocol.metrics import Metric

PLANNED: Final = 30
"""Reports that a metric without a window is stated for, before there are any."""

ALWAYS: Final = "whatever you hold and however it changes"
UNCHANGED: Final = "only while the value never changes"
PATTERN: Final = "not counting which reports share their noise"
ONLY: Final = ", the only one that a device sends by these parameters"
IN_FORCE: Final = ", by the parameters in force"

ANY: Final = (
    "Between any two histories of as many reports, whatever the values and however often they change; never below the "
    "truth."
)
CERTAIN: Final = "the same value always sends the same report, so two different ones prove a change"
PART_CERTAIN: Final = "a part of the report stays the same while its value does, so another one proves a change"
NOT_BOUNDED: Final = "no bound on it is computed"
NO_CAP: Final = "the metric has no cap on different values, and each further one costs as much as the first"
ACCOUNTS: Final = (
    "All reports are of one unchanged value. The metric's parameters, or what its values stand for, changed since the "
    "first one: the value had an independent permanent response before and after, and their epsilons add up."
)


@dataclass(frozen=True)
class CostLine:
    """One epsilon, with its condition in its own words."""

    kind: str  # "any", "report", "unchanged", "permanent", "values" or "pattern"
    about: str  # what is seen, and under which condition
    epsilon: float  # in nats, rounded up
    assumption: str  # what it rests on, at length
    reason: str | None = None  # why there is no bound; None where there is one
    caution: str | None = None  # where the number means less than it seems to

    @property
    def conditional(self) -> bool:
        """Whether it holds under a condition only."""
        return self.kind not in {"any", "report"}

    @property
    def amount(self) -> str:
        return "no bound" if math.isinf(self.epsilon) else f"epsilon {epsilon_text(self.epsilon)}"

    @property
    def words(self) -> str:
        """What it is about, with its condition, and how far the odds move."""
        if math.isinf(self.epsilon):
            return f"{self.about}; {self.reason or NOT_BOUNDED}"
        if self.epsilon > MOST:
            return f"{self.about}; somebody could be {PRACTICALLY}"
        return f"{self.about}; odds move by a factor of {'' if self.conditional else 'at most '}{factor(self.epsilon)}"

    @property
    def claim(self) -> Claim:
        return Claim(self.about, self.epsilon, self.assumption, self.caution)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null, with its reason."""
        plain = {"kind": self.kind, "about": self.about, "epsilon": finite(self.epsilon), "assumption": self.assumption}
        more = {"reason": self.reason if math.isinf(self.epsilon) else None, "caution": self.caution}
        return plain | {name: text for name, text in more.items() if text}


@dataclass(frozen=True)
class MetricCost:
    """What a metric costs, or has cost."""

    metric: str
    attribute: str | None
    reports: int  # how many reports the first line is about
    planned: bool  # whether they are still to come
    lines: tuple[CostLine, ...]  # the first is `headline`; the others have a condition, but for "one report"
    epsilon_pattern: float  # what these reports cost, not counting which reports share their noise

    @property
    def headline(self) -> CostLine:
        """What holds whatever the person holds and however it changes."""
        return self.lines[0]

    def line(self, kind: str) -> CostLine | None:
        return next((line for line in self.lines if line.kind == kind), None)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(line.claim for line in self.lines)

    def pairs(self) -> Iterator[tuple[str, str]]:
        yield from ((line.amount, line.words) for line in self.lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "attribute": self.attribute,
            "reports": self.reports,
            "planned": self.planned,
            "epsilon_any": finite(self.headline.epsilon),
            "epsilon_same_pattern": finite(self.epsilon_pattern),
            "lines": [line.to_json() for line in self.lines],
        }


def metric_cost(metric: Metric, reports: int | None = None, *, so_far: Ledger | None = None) -> MetricCost:
    """Return what reports of a metric cost: those made so far, under any parameters, or else so many to come.

    Unless given, `reports` is the metric's window, or 30.
    """
    made = 0 if so_far is None else sum(account.reports for account in so_far.accounts)
    if so_far is None or not made:
        return _planned(metric, 1 if metric.mechanism.once else reports or metric.window or PLANNED)
    return _so_far(metric, so_far, made)


def _planned(metric: Metric, reports: int) -> MetricCost:
    terms = terms_of(metric.mechanism)
    lines = [
        _any((terms,), f"{plural(reports, 'report')}{ONLY if terms.once else ''}", terms.epsilon_any(reports), metric),
        *_of_the_parameters(metric, terms),
    ]
    distinct = min(number for number in (reports, most_responses(metric)) if number is not None)
    pattern = terms.epsilon_any(reports) if terms.fresh else add_up([(distinct, terms.epsilon_permanent)])
    return MetricCost(metric.id, metric.attribute, reports, True, tuple(lines), pattern)


def _so_far(metric: Metric, ledger: Ledger, made: int) -> MetricCost:
    terms, every = terms_of(metric.mechanism), tuple(account.terms for account in ledger.accounts)
    yours = f"your {plural(made, 'report')}"
    alone = [account.digest for account in ledger.accounts] == [metric.account.hex()]
    about = f"{yours}{ONLY}" if alone and made == 1 and terms.once else yours
    lines = [
        _any(every, about, ledger.epsilon_any, metric),
        *without_times(ledger.epsilon_any, ledger.epsilon, f"{yours}, {PATTERN}"),
        *(_of_the_parameters(metric, terms) if alone else _of_all_accounts(metric, ledger, made)),
    ]
    return MetricCost(metric.id, metric.attribute, made, False, tuple(lines), ledger.epsilon)


def without_times(any_history: float, pattern: float, about: str) -> Iterator[CostLine]:
    """Return the line that leaves out which reports share their noise, where that is less than the first line."""
    if epsilon_text(pattern) != epsilon_text(any_history):
        yield CostLine("pattern", about, pattern, f"Holds {SAME_PATTERN}")


def _any(every: tuple[Terms, ...], reports: str, epsilon: float, metric: Metric) -> CostLine:
    assumption = FRESH if all(terms.fresh for terms in every) else ANY
    caution = cautions(metric.mechanism, terms_of(metric.mechanism)).get("any")
    return CostLine("any", f"{ALWAYS}: {reports}", epsilon, assumption, _why(every), caution)


def _of_the_parameters(metric: Metric, terms: Terms) -> Iterator[CostLine]:
    """Return what the parameters in force promise of one value, and of several; of fresh noise the first line is it."""
    warn = cautions(metric.mechanism, terms).get
    yield unchanged_cost(metric, 1)
    if terms.once or terms.fresh:
        return
    about = f"any number of reports, {UNCHANGED}"
    yield CostLine("permanent", about, terms.epsilon_permanent, PERMANENT, caution=warn("permanent"))
    yield _values(metric, terms, warn("values"))


def _of_all_accounts(metric: Metric, ledger: Ledger, made: int) -> Iterator[CostLine]:
    """Return what an unchanged value costs in all accounts: a response in each, independent of the others."""
    yield unchanged_cost(metric, 1, IN_FORCE)
    terms = terms_of(metric.mechanism)
    ceilings = {account.digest: account.terms.epsilon_permanent for account in ledger.accounts}
    ceilings[metric.account.hex()] = terms.epsilon_permanent
    ceiling = add_up((1, each) for each in ceilings.values())
    unchanged = add_up((1, account.terms.epsilon_n(account.reports)) for account in ledger.accounts)
    if made > 1 and epsilon_text(unchanged) not in {epsilon_text(ceiling), epsilon_text(ledger.epsilon_any)}:
        about = f"{plural(made, 'report')}, {UNCHANGED}"
        yield CostLine("unchanged", about, unchanged, ACCOUNTS)
    if not terms.once and not math.isinf(ceiling):  # fresh noise adds its own with every report
        about = f"any number of reports, {UNCHANGED}"
        yield CostLine("permanent", about, ceiling, ACCOUNTS)


def unchanged_cost(metric: Metric, reports: int, under: str = "") -> CostLine:
    """Return what some reports of one unchanged value tell; of one report, whatever the value."""
    terms = terms_of(metric.mechanism)
    epsilon, warn = terms.epsilon_n(reports), cautions(metric.mechanism, terms).get
    if reports == 1:
        return CostLine("report", f"one report{under}", epsilon, REPORT, caution=warn("report"))
    about, rests = f"{plural(reports, 'report')}, {UNCHANGED}", FRESH if terms.fresh else MEMO
    return CostLine("unchanged", about, epsilon, rests, caution=warn("several"))


def _values(metric: Metric, terms: Terms, caution: str | None) -> CostLine:
    most, rests = most_responses(metric), f"Each of the values costs the permanent epsilon; {SAME_PATTERN}"
    values = "any values" if most is None else _values_words(metric, terms, most)
    about = f"any number of reports of {values}, {PATTERN}"
    if most is None:
        return CostLine("values", about, math.inf, rests, NO_CAP, caution)
    return CostLine("values", about, add_up([(most, terms.epsilon_permanent)]), rests, caution=caution)


def _values_words(metric: Metric, terms: Terms, most: int) -> str:
    """Return how many values a device may tell of, and whether it may report nothing by a response of its own."""
    values = min(n for n in (metric.max_values, terms.most_values, metric.num_values) if n is not None)
    return plural(values, "value") + (" and nothing" if most > values else "")


def _why(every: Iterable[Terms]) -> str:
    """Say why any two histories have no bound, where they have none."""
    certain = next((terms for terms in every if math.isinf(terms.change_leak(2))), None)
    if certain is None:
        return NOT_BOUNDED
    return PART_CERTAIN if certain.in_parts else CERTAIN


def most_responses(metric: Metric) -> int | None:
    """Return how many permanent responses a device ever reports, at most: those of the values, and nothing's.

    Where the metric caps the values and does not drop further ones, nothing takes one of the cap's places.
    """
    terms = terms_of(metric.mechanism)
    if terms.once:
        return 1
    values = metric.num_values if terms.most_values is None else terms.most_values
    responses = None if values is None else values + 1
    return min((number for number in (metric.max_responses, responses) if number is not None), default=None)


def lifetime_epsilon(metric: Metric) -> float:
    """Return what all that a device may ever report costs, infinite without a bound: see `Terms.epsilon_values`."""
    most = most_responses(metric)
    return math.inf if most is None else add_up([(most, terms_of(metric.mechanism).epsilon_permanent)])
