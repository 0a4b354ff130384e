"""What is learned of numbers, as rows: means, quantiles and shares, in one form for the three ways to collect them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from overstory.analysis.numeric.distribution import Spread, SquareWaveOracle, fitted_spread
from overstory.analysis.numeric.means import MeanEstimate, MeanOracle, ReportSums
from overstory.analysis.numeric.ranges import RangeEstimate, RangeOracle
from overstory.analysis.reports import SupportCounts
from overstory.analysis.selection import adjusted_p_values, normal_reach, upper_p_values
from overstory.protocol.domains.domains import AnyDomain
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.numeric.mechanisms import MeanRandomizer, SquareWave
from overstory.protocol.numeric.ranges import RangeRandomizer

LEVEL: Final = 0.95
QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
FITTED_BINS: Final = 60
"""Bins of a fitted distribution; three of them are one row."""
MOST_ROWS: Final = 20
"""Rows of shares."""

FITTED: Final = (
    "shares and quantiles are fitted by maximum likelihood, which smooths; their intervals come from simulated "
    "collections"
)


@dataclass(frozen=True)
class Quantity:
    """One number that was learned."""

    kind: Literal["mean", "quantile", "share"]
    of: str  # of which share the quantile is, or which values the share is of; empty for the mean
    value: float | str
    standard_error: float | None  # a quantile has none
    low: float | str
    high: float | str
    start: float | None = None  # of a share: where its values start and stop, where these are numbers
    stop: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key not in {"start", "stop"} or value is not None}


@dataclass(frozen=True, eq=False)
class NumberEstimate:
    """What is learned of numbers from the counts of some periods."""

    reading: str  # "mean", "distribution" or "ranges"
    num_reports: int
    # the mean first, then quantiles, then shares; empty where there are too few reports for any
    quantities: tuple[Quantity, ...]
    notes: tuple[str, ...] = ()  # what a reader must know before trusting the numbers

    @property
    def mean(self) -> Quantity | None:
        return next(self.of_kind("mean"), None)

    def of_kind(self, kind: str) -> Iterator[Quantity]:
        return (quantity for quantity in self.quantities if quantity.kind == kind)

    def to_json(self) -> dict[str, Any]:
        rows = [quantity.to_json() for quantity in self.quantities]
        return {"reports": self.num_reports, "level": LEVEL, "notes": list(self.notes), "estimates": rows}


def estimate_numbers(
    mechanism: Kind,
    domain: AnyDomain,
    counts: SupportCounts,
    *,
    reports_per_device: float = 1.0,
    ranges: Sequence[tuple[int, int]] = (),  # (first symbol, one past the last) of further shares, of ranges alone
) -> NumberEstimate:
    """Estimate all that a mechanism of numbers can say; a device's reports are taken to be alike, the worst case."""
    estimator = _ESTIMATORS.get(mechanism.reading)
    if estimator is None:
        raise ParameterError(f"{mechanism.name} collects no numbers")
    if not counts.num_reports:
        return NumberEstimate(mechanism.reading, 0, (), ("there are no reports",))
    asked = {"ranges": ranges} if ranges else {}
    quantities, notes = estimator(mechanism, domain, counts, reports_per_device, **asked)
    return NumberEstimate(mechanism.reading, counts.num_reports, tuple(quantities), tuple(notes))


Estimated = tuple[list[Quantity], list[str]]


def _mean(mechanism: MeanRandomizer, _domain: AnyDomain, counts: SupportCounts, per_device: float) -> Estimated:
    sums = ReportSums.of_counts(mechanism, counts)
    learned = MeanOracle(mechanism).estimate(sums, reports_per_device=per_device)
    if not math.isfinite(learned.standard_error):
        return [], ["one report has no standard error"]
    step = mechanism.domain.width / (2 * mechanism.resolution)
    notes = []
    if step > learned.standard_error / 10:
        notes.append(
            f"a device rounds its value to one of {mechanism.num_positions:,} positions, by at most {step:.3g}: the "
            "mean of the true values may differ by as much, which no interval holds"
        )
    return [_mean_quantity(learned)], notes


def _mean_quantity(learned: MeanEstimate) -> Quantity:
    return Quantity("mean", "", learned.value, learned.standard_error, *learned.confidence_interval(LEVEL))


def _distribution(mechanism: SquareWave, _domain: AnyDomain, counts: SupportCounts, per_device: float) -> Estimated:
    oracle = SquareWaveOracle(mechanism)
    if counts.num_reports < 2:
        return [], ["one report has no standard error"]
    bins = min(FITTED_BINS, mechanism.resolution, oracle.cells.size - 1)
    fitted = fitted_spread(oracle, counts, num_bins=bins, reports_per_device=per_device)
    rows = [_mean_quantity(oracle.mean(counts, reports_per_device=per_device))]
    for q in QUANTILES:
        value, *ends = fitted.quantile(q, LEVEL)
        rows.append(Quantity("quantile", f"{q:g}", value, None, *ends))
    for start, stop in _groups(bins):
        low, high = float(fitted.edges[start]), float(fitted.edges[stop])
        of = f"[{low:g}, {high:g}{']' if stop == bins else ')'}"
        rows.append(Quantity("share", of, *fitted.share(start, stop, LEVEL), low, high))
    return rows, list(_fitted_notes(fitted))


def _fitted_notes(fitted: Spread) -> Iterator[str]:
    yield FITTED
    for spike, share in zip(fitted.spikes, fitted.shares[fitted.edges.size - 1 :], strict=True):
        yield f"a spike: about {share:.0%} of the people hold one value, between {spike.low:.4g} and {spike.high:.4g}"
    if fitted.smallest < 1:
        missed = f"one value that less than about {fitted.smallest:.0%} of the people hold can be smoothed over"
        yield f"{missed}: the intervals next to it then miss more often than they say"
    if not fitted.converged:
        yield "stopped at the limit on steps"


def _ranges(
    mechanism: RangeRandomizer,
    domain: AnyDomain,
    counts: SupportCounts,
    per_device: float,
    *,
    ranges: Sequence[tuple[int, int]] = (),
) -> Estimated:
    if not counts.totals.all():
        return [], [f"{int((counts.totals == 0).sum())} levels of the tree have no report yet: there are too few"]
    learned = RangeOracle(mechanism).estimate_stored(counts, reports_per_device=per_device)
    rows = [_quantile(learned, domain, q) for q in QUANTILES]
    for start, stop in dict.fromkeys((*ranges, *_groups(mechanism.domain_size))):
        share = learned.range(start, stop)
        interval = share.confidence_interval(LEVEL)
        first, last = domain.ends(start), domain.ends(stop - 1)
        ends = (None, None) if first is None or last is None else (first[0], last[1])
        of = group_name(domain, start, stop)
        rows.append(Quantity("share", of, share.value, share.standard_error, *interval, *ends))
    return rows, []


def _quantile(learned: RangeEstimate, domain: AnyDomain, share: float) -> Quantity:
    """Return a quantile: the greatest number of its symbol, and of its interval the outer ends."""
    symbol, lowest, highest = learned.quantile(share, LEVEL)
    at, below, above = (domain.ends(place) for place in (symbol, lowest, highest))
    if at is None or below is None or above is None:
        value, low, high = (domain.label(place) for place in (symbol, lowest, highest))
        return Quantity("quantile", f"{share:g}", value, None, low, high)
    return Quantity("quantile", f"{share:g}", at[1], None, below[0], above[1])


def group_name(domain: AnyDomain, start: int, stop: int) -> str:
    """Return what the symbols ``start .. stop - 1`` are called."""
    first, last = domain.label(start), domain.label(stop - 1)
    if first == last:
        return first
    if first[:1] == "[" and last[-1:] in "])":  # bins that touch
        return f"{first.partition(',')[0]},{last.rpartition(',')[2]}"
    return f"{first} .. {last}"


def _groups(size: int) -> Iterator[tuple[int, int]]:
    """Yield the ends of at most `MOST_ROWS` runs of equal length; the last one may be shorter."""
    step = -(-size // MOST_ROWS)
    return ((start, min(start + step, size)) for start in range(0, size, step))


_ESTIMATORS: Final[Mapping[str, Callable[..., Estimated]]] = {
    "mean": _mean,
    "distribution": _distribution,
    "ranges": _ranges,
}
"""By the name of the reading."""


@dataclass(frozen=True)
class NumberDifference:
    """A quantity of one range of periods less that of another, with its interval."""

    kind: str
    of: str
    a: float
    b: float
    difference: float
    standard_error: float
    low: float  # as `high`, not corrected for how many are compared
    high: float
    q_value: float = 1.0  # the smallest false discovery rate, over all that are compared, at which it is a change
    alpha: float = 0.05

    @property
    def changed(self) -> bool:
        """Whether it surely differs, at the false discovery rate `alpha` over all that are compared."""
        return self.q_value <= self.alpha


def subtract(a: NumberEstimate, b: NumberEstimate, alpha: float = 0.05) -> list[NumberDifference]:
    """Return `a` less `b`, every mean and share; where devices are in both, intervals are too long, never too short."""
    reach, others = normal_reach(LEVEL), {(q.kind, q.of): q for q in b.quantities}
    rows = []
    for one in a.quantities:
        other = others.get((one.kind, one.of))
        if one.kind == "quantile" or other is None or one.standard_error is None or other.standard_error is None:
            continue
        first, second = float(one.value), float(other.value)
        error, less = math.hypot(one.standard_error, other.standard_error), first - second
        ends = less - reach * error, less + reach * error
        rows.append(NumberDifference(one.kind, one.of, first, second, less, error, *ends, alpha=alpha))
    sizes = np.array([[abs(row.difference), row.standard_error] for row in rows]).reshape(-1, 2)
    q_values = adjusted_p_values(np.minimum(2.0 * upper_p_values(sizes[:, 0], sizes[:, 1]), 1.0), "fdr")
    return [replace(row, q_value=float(q)) for row, q in zip(rows, q_values, strict=True)]
