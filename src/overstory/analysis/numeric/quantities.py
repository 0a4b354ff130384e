"""What is learned of numbers, as rows: means, quantiles and shares, in one form for the three ways to collect them.

*Ranges*: a tree of noisy shares made consistent, the best linear unbiased estimate of all nodes from all nodes: Hay et
al. (VLDB 2010), for unequal variances and short last nodes. With s the variance of a node's own estimate and V the sum
of its children's:

    up      z = (own / s + (sum of children) / V) / (1 / s + 1 / V),  of variance 1 / (1 / s + 1 / V)
    down    child = z of the child + (child's variance / V) (parent - sum of the children's z)

The root is everybody: exactly 1. With equal variances and full nodes of B children, a node l levels above the leaves
takes its own estimate with weight ``(B**(l+1) - B**l) / (B**(l+1) - 1)`` (Cormode et al., VLDB 2019, section 4.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from overstory.analysis.kinds.numbers import MeanSupport, WaveSupport, sums_of_pairs
from overstory.analysis.kinds.split import LevelSupport
from overstory.analysis.numeric.distribution import Spread, fitted_spread
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import SupportCounts
from overstory.analysis.selection import IntervalKind, adjusted_p_values, normal_reach, upper_p_values
from overstory.presentation.charts.numbers import with_intervals
from overstory.presentation.formats import significant
from overstory.protocol.domains.domains import AnyDomain
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.numeric.mechanisms import Hybrid, SquareWave
from overstory.protocol.numeric.ranges import RangeRandomizer

if TYPE_CHECKING:
    from overstory.analysis.selection import F64
    from overstory.presentation.svg import Picture

LEVEL: Final = 0.95
QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
FITTED_BINS: Final = 60  # bins of a fitted distribution; three of them are one row
MOST_ROWS: Final = 20  # rows of shares

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


def draw_quantities(
    name: str, caption: str, rows: Sequence[Quantity], names: Sequence[str] = (), truth: Sequence[float] = ()
) -> Picture:
    """Draw numbers of one kind and their intervals, and the truth where it is known; shares have names of their own."""
    numbers = [np.array([float(getattr(row, end)) for row in rows]) for end in ("value", "low", "high")]
    numbers += [np.array(truth)] if truth else []
    shown = names or [row.of if row.start is None else significant(row.start, 6) for row in rows]
    return with_intervals(name, caption, shown, numbers, is_histogram=not names)


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

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:  # noqa: ARG002 - there is nothing to leave out
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


def _mean(mechanism: Hybrid, _domain: AnyDomain, counts: SupportCounts, per_device: float) -> Estimated:
    value, error = estimate_mean(mechanism, counts, reports_per_device=per_device)
    if not math.isfinite(error):
        return [], ["one report has no standard error"]
    step = mechanism.domain.width / (2 * mechanism.resolution)
    notes = []
    if step > error / 10:
        notes.append(
            f"a device rounds its value to one of {mechanism.domain_size:,} positions, by at most "
            f"{significant(step, 3)}: the mean of the true values may differ by as much, which no interval holds"
        )
    return [_with_interval("mean", "", value, error)], notes


def estimate_mean(mechanism: Hybrid, counts: SupportCounts, *, reports_per_device: float = 1.0) -> tuple[float, float]:
    """Return the unbiased mean, and its standard error from the reports' own spread: infinite for one report."""
    half, number = MeanSupport(mechanism), counts.num_reports
    if counts.ones.shape != half.shape(()) or not number:
        raise ParameterError(f"counts of shape {counts.ones.shape} are not those of {mechanism.name}, or of no report")
    # Of each branch: number n, sum s and sum of squares q of payloads x, which debias to a + b x:
    # sum (a + b x) = a n + b s, and sum (a + b x)^2 = a^2 n + 2 a b s + b^2 q; as fractions, nothing is rounded.
    total, squares = Fraction(0), Fraction(0)
    for (a, b, width), n, ones in zip(half.lines(), counts.totals.tolist(), counts.ones, strict=True):
        s, q = sums_of_pairs(ones, width)
        total += a * n + b * s
        squares += a * a * n + 2 * a * b * s + b * b * q
    # The sample variance (sum of squares - total^2 / n) / (n - 1), over n for the mean.
    variance = (squares - total * total / number) / (number * (number - 1)) if number > 1 else math.inf
    return float(total / number), math.sqrt(float(variance) * reports_per_device)


def estimate_wave_mean(
    wave: SquareWave, counts: SupportCounts, *, reports_per_device: float = 1.0
) -> tuple[float, float]:
    """Return the same of Square Wave, without a fit; a bucket of several cells counts as its middle."""
    cells, number = WaveSupport(wave).cells, counts.num_reports
    if counts.ones.shape != (1, cells.size - 1):
        raise ParameterError(f"these counts have shape {counts.ones.shape}, not (1, {cells.size - 1})")
    seen, start = counts.ones[0].astype(np.float64), wave.debias(0)
    values = float(start) + float(wave.debias(1) - start) * ((cells[:-1] + cells[1:] - 1) / 2)
    value = float(seen @ values / number)
    spread = float(seen @ (values - value) ** 2) / (number - 1) if number > 1 else math.inf
    return value, math.sqrt(spread / number * reports_per_device)


def _with_interval(
    kind: Literal["mean", "share"], of: str, value: float, error: float, *ends: float | None
) -> Quantity:
    reach = normal_reach(LEVEL) * error
    return Quantity(kind, of, value, error, value - reach, value + reach, *ends)


def _distribution(mechanism: SquareWave, _domain: AnyDomain, counts: SupportCounts, per_device: float) -> Estimated:
    if counts.num_reports < 2:
        return [], ["one report has no standard error"]
    rows = [_with_interval("mean", "", *estimate_wave_mean(mechanism, counts, reports_per_device=per_device))]
    bins = min(FITTED_BINS, mechanism.resolution, counts.num_bits)
    fitted = fitted_spread(mechanism, counts, num_bins=bins, reports_per_device=per_device)
    for q in QUANTILES:
        value, *ends = fitted.quantile(q, LEVEL)
        rows.append(Quantity("quantile", f"{q:g}", value, None, *ends))
    for start, stop in _groups(bins):
        low, high = float(fitted.edges[start]), float(fitted.edges[stop])
        texts = (significant(end, 6).replace(",", "") for end in (low, high))
        of = f"[{', '.join(texts)}{']' if stop == bins else ')'}"
        rows.append(Quantity("share", of, *fitted.share(start, stop, LEVEL), low, high))
    return rows, list(_fitted_notes(fitted))


def _fitted_notes(fitted: Spread) -> Iterator[str]:
    yield FITTED
    for spike, share in zip(fitted.spikes, fitted.shares[fitted.edges.size - 1 :], strict=True):
        ends = f"between {significant(spike.low)} and {significant(spike.high)}"
        yield f"a spike: about {share:.0%} of the people hold one value, {ends}"
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
    learned = estimate_ranges(mechanism, counts, reports_per_device=per_device)
    rows = [_quantile(learned, domain, q) for q in QUANTILES]
    for start, stop in dict.fromkeys((*ranges, *_groups(mechanism.domain_size))):
        first, last = domain.ends(start), domain.ends(stop - 1)
        ends = (None, None) if first is None or last is None else (first[0], last[1])
        rows.append(_with_interval("share", group_name(domain, start, stop), *learned.range(start, stop), *ends))
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


@dataclass(frozen=True, eq=False)
class ConsistentTree:
    """The linear map from every node's own estimate to consistent ones, and back to what each node contributes."""

    tree: RangeRandomizer
    level_variances: tuple[float, ...]

    @cached_property
    def variances(self) -> tuple[F64, ...]:
        """Variance of each node's z, by level."""
        by_level = [np.full(self.tree.domain_size, self.level_variances[-1])]
        for level in range(self.tree.num_levels - 1, 0, -1):
            # Var z = 1 / (1 / s + 1 / V): two independent estimates, weighted by their inverse variances.
            by_level.insert(0, 1 / (1 / self.level_variances[level - 1] + 1 / self._sums(by_level[0])))
        return tuple(by_level)

    @cached_property
    def _child_variances(self) -> tuple[F64, ...]:
        """Sum of the children's variances, by level of the parent, the root first."""
        return tuple(self._sums(level) for level in self.variances)

    def consistent(self, own: Sequence[F64]) -> list[F64]:
        """Return consistent shares of all nodes, by level: parents are the sums of their children, the root is 1."""
        # Up: z = w own + (1 - w) (sum of the children's z), w = Var z / s.
        raised = [own[-1]]
        for level in range(self.tree.num_levels - 1, 0, -1):
            weight = self.variances[level - 1] / self.level_variances[level - 1]
            raised.insert(0, weight * own[level - 1] + (1 - weight) * self._sums(raised[0]))
        # Down: what the children's sum misses of the parent is divided among them by their variances.
        parents = np.ones(1)
        for level, below in enumerate(raised):
            missing = (parents - self._sums(below)) / self._child_variances[level]
            parents = raised[level] = below + self.variances[level] * self._spread(missing, below.size)
        return raised

    def weights(self, start: int, stop: int) -> tuple[float, list[F64]]:
        """Return (constant, weights by level): how own estimates make the consistent share of ``start .. stop-1``."""
        # b: the regression of the range's part on a node's total, in the node's subtree; 1 or 0 at a leaf.
        slopes = [((np.arange(self.tree.domain_size) >= start) & (np.arange(self.tree.domain_size) < stop)) * 1.0]
        for level in range(self.tree.num_levels - 1, -1, -1):
            # A parent's b: the children's, weighted with their variances.
            below = self._sums(slopes[0] * self.variances[level])
            slopes.insert(0, below / self._child_variances[level])
        shared, by_level = np.zeros(1), []
        for level, spread in enumerate(self.variances):
            # Covariance with a child: (its variance / V) (the parent's) + its variance (its b - the parent's b).
            upper = shared / self._child_variances[level] - slopes[level]
            shared = spread * (self._spread(upper, spread.size) + slopes[level + 1])
            by_level.append(np.asarray(shared / self.level_variances[level]))
        return float(slopes[0][0]), by_level

    def _sums(self, nodes: F64) -> F64:
        return np.asarray(np.add.reduceat(nodes, np.arange(0, nodes.size, self.tree.branching)))

    def _spread(self, parents: F64, size: int) -> F64:
        return np.repeat(parents, self.tree.branching)[:size]


@dataclass(frozen=True, eq=False)
class RangeEstimate:
    """Consistent shares of all nodes of the tree."""

    oracles: tuple[FrequencyOracle, ...]  # of each level
    level_reports: tuple[int, ...]
    consistent: ConsistentTree
    # Level 1 first; parents are the sums of their children, each level sums to 1, single shares may be negative. They
    # are unbiased: never project them (Norm-Sub) before asking for ranges.
    levels: tuple[F64, ...]
    reports_per_device: float = 1.0  # all alike: variances grow by as much
    interval_kind: IntervalKind = "population"

    @cached_property
    def cumulated(self) -> F64:
        """Share of people below each symbol, and 1: not quite monotone, for noise is not."""
        return np.concatenate(([0.0], np.cumsum(self.levels[-1])))

    def range(self, start: int, stop: int) -> tuple[float, float]:
        """Return the share of the symbols ``start .. stop - 1``, unbiased, and its standard error."""
        size = self.consistent.tree.domain_size
        if not 0 <= start <= stop <= size:
            raise ParameterError(f"symbols {start} .. {stop} (excluded) are not within 0 .. {size}")
        return float(self.cumulated[stop] - self.cumulated[start]), math.sqrt(self._variance(start, stop))

    def quantile(self, share: float, level: float = 0.95) -> tuple[int, int, int]:
        """Return the first symbol with `share` of the people at or below it, and its interval (Woodruff 1952)."""
        if not 0 < share < 1:
            raise ParameterError(f"a quantile is asked for by a share between 0 and 1, not {share}")
        symbol = self._first(share)
        reach = normal_reach(level) * math.sqrt(self._variance(0, symbol + 1))
        return symbol, self._first(share - reach), self._first(share + reach)

    def _first(self, share: float) -> int:
        rising = np.maximum.accumulate(self.cumulated[1:])
        return min(int(np.searchsorted(rising, share)), rising.size - 1)

    def _variance(self, start: int, stop: int) -> float:
        """Add up noise and the luck of the levels: people are a sample at each, drawn without replacement."""
        _, weights = self.consistent.weights(start, stop)
        total, reports = 0.0, sum(self.level_reports)
        for level, oracle in enumerate(self.oracles):
            weight, shares, mine = weights[level], self.levels[level], self.level_reports[level]
            # The noise of sum w_i f_i: an oracle's variance is linear in the share that is truly there.
            true = np.asarray(np.clip(shares, 0.0, 1.0), np.float64)
            nobody, everybody = oracle.variance(mine, 0.0), oracle.variance(mine, 1.0)
            noise = weight**2 @ (nobody + true * (everybody - nobody))
            # Var w of a person, over n_l of n people: (sum w^2 f - (sum w f)^2) (1 - n_l / n) / n_l.
            luck = max(float(weight**2 @ true - (weight @ true) ** 2), 0.0) * (1 - mine / reports) / mine
            total += float(noise + luck)
        if self.interval_kind == "population":
            share = min(max(float(self.cumulated[stop] - self.cumulated[start]), 0.0), 1.0)
            total += share * (1 - share) / reports
        return total * self.reports_per_device


def estimate_ranges(
    randomizer: RangeRandomizer,
    counts: SupportCounts,
    *,
    reports_per_device: float = 1.0,
    interval_kind: IntervalKind = "population",
) -> RangeEstimate:
    """Estimate every node's share, consistently, from counts as a store has them: a row of bits for each level."""
    widths = [mechanism.payload_bits for mechanism in randomizer.parts]
    if counts.ones.shape != (len(widths), max(widths)):
        raise ParameterError(f"counts of shape {counts.ones.shape} are not those of {randomizer.name}")
    reports = tuple(counts.totals.tolist())
    if not all(reports):
        raise ParameterError(f"every level needs a report; by level there are {', '.join(map(str, reports))}")
    oracles, half = tuple(map(FrequencyOracle, randomizer.parts)), LevelSupport(randomizer)
    raw = [oracle.estimate(half.counts_of(counts, place)).raw_frequencies for place, oracle in enumerate(oracles)]
    # The weights are those of absent nodes: they must not depend on the reports, or the estimate is biased.
    noise = tuple(oracle.variance(mine) for oracle, mine in zip(oracles, reports, strict=True))
    consistent = ConsistentTree(randomizer, noise)
    levels = tuple(consistent.consistent(raw))
    return RangeEstimate(oracles, reports, consistent, levels, reports_per_device, interval_kind)


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
