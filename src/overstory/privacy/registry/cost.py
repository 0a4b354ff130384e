"""What reports of a metric cost the person who sends them: the one place from which every page and command prints.

The first line says by how much any two histories of as many reports can be told apart, whatever the person holds and
however it changes. Every other line holds under a condition, and names it in the same line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from overstory.privacy.caveats import cautions
from overstory.privacy.claims import CHANGE, FRESH, MEMO, NO_CEILING, PERMANENT, REPORT, SAME_PATTERN, Claim, finite
from overstory.privacy.ledger import Ledger
from overstory.privacy.payloads.registry import terms_of
from overstory.privacy.registry.lifetime import most_responses
from overstory.privacy.terms import Terms, add_up
from overstory.privacy.text import CERTAIN as PRACTICALLY
from overstory.privacy.text import MOST, epsilon_text, factor, plural
from overstory.protocol.metrics import Metric

PLANNED: Final = 30
"""Reports that a metric without a window is stated for, before there are any."""
MOST_CHANGES: Final = 100
"""Up to so many reports the line on a change is computed; past that it takes more than a second."""

ALWAYS: Final = "whatever you hold and however it changes"
UNCHANGED: Final = "only while the value never changes"
PATTERN: Final = "only with the same pattern of changes"
ONCE: Final = "only on whether the value changed once"
ONLY: Final = ", the only one that a device sends by these parameters"

ANY: Final = (
    "Between any two histories of as many reports, whatever the values and however often they change; never below the "
    "truth."
)
CERTAIN: Final = "the same value always sends the same report, so a change of value is certain"
NOT_BOUNDED: Final = "no bound on it is computed"
NO_CAP: Final = "the metric has no cap on different values, and each further one costs as much as the first"
ADDS_UP: Final = "nothing is kept between reports, so each one adds its own"
FORGOTTEN: Final = "an earlier version did not keep what the noise of some reports was"


@dataclass(frozen=True)
class CostLine:
    """One epsilon, with its condition in its own words."""

    kind: str  # "any", "report", "unchanged", "permanent", "values", "pattern" or "change"
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
        """The epsilon as it is printed."""
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
        """The line as a claim of a privacy statement."""
        return Claim(self.about, self.epsilon, self.assumption, self.caution)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null, with its reason."""
        plain = {"kind": self.kind, "about": self.about, "epsilon": finite(self.epsilon), "assumption": self.assumption}
        more = {"reason": self.reason if math.isinf(self.epsilon) else None, "caution": self.caution}
        return plain | {name: text for name, text in more.items() if text}


@dataclass(frozen=True)
class MetricCost:
    """What a metric costs, or has cost.

    Attributes
    ----------
    metric, attribute
        The metric's id, and what it tells of.
    """

    metric: str
    attribute: str | None
    reports: int  # how many reports the first line is about
    planned: bool  # whether they are still to come
    lines: tuple[CostLine, ...]  # the first is `headline`; the others have a condition, but for "one report"
    pattern: float  # what these reports cost against values that change at the same times

    @property
    def headline(self) -> CostLine:
        """What holds whatever the person holds and however it changes."""
        return self.lines[0]

    def line(self, kind: str) -> CostLine | None:
        """Return the line of a kind, where there is one."""
        return next((line for line in self.lines if line.kind == kind), None)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The lines as claims of a privacy statement."""
        return tuple(line.claim for line in self.lines)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Return each line as the epsilon and its words."""
        yield from ((line.amount, line.words) for line in self.lines)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "metric": self.metric,
            "attribute": self.attribute,
            "reports": self.reports,
            "planned": self.planned,
            "epsilon_any": finite(self.headline.epsilon),
            "epsilon_same_pattern": finite(self.pattern),
            "lines": [line.to_json() for line in self.lines],
        }


def metric_cost(
    metric: Metric, reports: int | None = None, *, so_far: Ledger | None = None, forgotten: bool = False
) -> MetricCost:
    """Return what reports of a metric cost.

    Parameters
    ----------
    reports
        How many reports to state it for, before there are any; unless given, the metric's window, or 30.
    so_far
        The reports that a device has made of this metric, under any parameters; where it has made none, what is stated
        is planned.

    Examples
    --------
    >>> from overstory.protocol.metrics.registry import EXAMPLE, parse_registry
    >>> for line in metric_cost(parse_registry(EXAMPLE)["colour"]).lines:
    ...     print(f"{line.amount}: {line.about}")
    no bound: whatever you hold and however it changes: 30 reports
    epsilon 1.0000: one report
    epsilon 1.0000: 30 reports, only while the value never changes
    epsilon 1.0000: any number of reports, only while the value never changes
    epsilon 4.0000: any number of reports of 3 values and nothing, only with the same pattern of changes
    no bound: 30 reports, only on whether the value changed once
    """
    made = 0 if so_far is None else sum(account.reports for account in so_far.accounts)
    if so_far is None or not (made or forgotten):
        return _planned(metric, 1 if metric.mechanism.once else reports or metric.window or PLANNED)
    return _so_far(metric, so_far, made, forgotten=forgotten)


def _planned(metric: Metric, reports: int) -> MetricCost:
    terms = terms_of(metric.mechanism)
    lines = [
        _any(terms, plural(reports, "report"), terms.epsilon_any(reports), metric),
        *_of_the_parameters(metric, terms, reports),
        *_change(metric, terms, reports),
    ]
    distinct = min(number for number in (reports, most_responses(metric)) if number is not None)
    pattern = terms.epsilon_any(reports) if terms.fresh else add_up([(distinct, terms.epsilon_permanent)])
    return MetricCost(metric.id, metric.attribute, reports, True, tuple(lines), pattern)


def _so_far(metric: Metric, ledger: Ledger, made: int, *, forgotten: bool) -> MetricCost:
    terms = terms_of(metric.mechanism)
    yours = f"your {plural(made, 'report')}"
    alone = made if not forgotten and all(account.terms == terms for account in ledger.accounts) else 0
    unbounded = FORGOTTEN if forgotten else None
    any_history, pattern = (math.inf, math.inf) if forgotten else (ledger.epsilon_any, ledger.epsilon)
    lines = [
        _any(terms, yours, any_history, metric, unbounded),
        CostLine("pattern", f"{yours}, {PATTERN}", pattern, f"Holds {SAME_PATTERN}", unbounded),
        *_of_the_parameters(metric, terms, alone, "" if alone or not made else ", by the parameters in force"),
        *(_change(metric, terms, alone) if alone else ()),
    ]
    return MetricCost(metric.id, metric.attribute, made, False, tuple(lines), pattern)


def _any(terms: Terms, reports: str, epsilon: float, metric: Metric, reason: str | None = None) -> CostLine:
    assumption = FRESH if terms.fresh else ANY
    caution = cautions(metric.mechanism, terms).get("any")
    about = f"{ALWAYS}: {reports}{ONLY if terms.once else ''}"
    return CostLine("any", about, epsilon, assumption, reason or _why(terms), caution)


def _of_the_parameters(metric: Metric, terms: Terms, reports: int, under: str = "") -> Iterator[CostLine]:
    """Return what the parameters in force promise of one value, and of several."""
    warn = cautions(metric.mechanism, terms).get
    yield unchanged_cost(metric, 1, under)
    if terms.once:
        return
    if reports > 1:
        yield unchanged_cost(metric, reports)
    about, rests = f"any number of reports{under}, {UNCHANGED}", NO_CEILING if terms.fresh else PERMANENT
    yield CostLine("permanent", about, terms.epsilon_permanent, rests, ADDS_UP, warn("permanent"))
    if not terms.fresh:
        yield _values(metric, terms, under, warn("values"))


def unchanged_cost(metric: Metric, reports: int, under: str = "") -> CostLine:
    """Return what some reports of one unchanged value tell; of one report, whatever the value."""
    terms = terms_of(metric.mechanism)
    epsilon, warn = terms.epsilon_n(reports), cautions(metric.mechanism, terms).get
    if reports == 1:
        return CostLine("report", f"one report{under}", epsilon, REPORT, caution=warn("report"))
    about, rests = f"{plural(reports, 'report')}, {UNCHANGED}", FRESH if terms.fresh else MEMO
    return CostLine("unchanged", about, epsilon, rests, ADDS_UP, warn("several"))


def _values(metric: Metric, terms: Terms, under: str, caution: str | None) -> CostLine:
    most, rests = most_responses(metric), f"Each of the values costs the permanent epsilon; {SAME_PATTERN}"
    if most is None:
        return CostLine(
            "values", f"any number of reports of any values{under}, {PATTERN}", math.inf, rests, NO_CAP, caution
        )
    about = f"any number of reports of {_values_words(metric, terms, most)}{under}, {PATTERN}"
    return CostLine("values", about, add_up([(most, terms.epsilon_permanent)]), rests, caution=caution)


def _change(metric: Metric, terms: Terms, reports: int) -> Iterator[CostLine]:
    if terms.fresh or not 1 < reports <= MOST_CHANGES:
        return  # the first line says as much
    caution = cautions(metric.mechanism, terms).get("change")
    about = f"{plural(reports, 'report')}, {ONCE}"
    yield CostLine("change", about, terms.change_leak(reports), CHANGE, _why(terms), caution)


def _values_words(metric: Metric, terms: Terms, most: int) -> str:
    """Return how many values a device may tell of, and whether it may report nothing by a response of its own."""
    values = min(number for number in (metric.max_values, terms.most_values) if number is not None)
    return plural(values, "value") + (" and nothing" if most > values else "")


def _why(terms: Terms) -> str:
    """Say why any two histories have no bound, where they have none."""
    return CERTAIN if math.isinf(terms.change_leak(2)) else NOT_BOUNDED
