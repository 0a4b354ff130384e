"""Range queries, the server's half: shares of any run of symbols, with standard errors, and quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis.numeric.consistency import ConsistentTree
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.positions import symbols_of
from overstory.analysis.selection import normal_reach
from overstory.analysis.simulation import Rng, generator
from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric.levels import LevelReport, RangeRandomizer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    F64 = NDArray[np.float64]


@dataclass(frozen=True)
class RangeSum:
    """The share of people in a run of symbols.

    Attributes
    ----------
    value : float
        Unbiased.
    standard_error : float
        Of the noise, and of who happened to report at which level.
    """

    value: float
    standard_error: float

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the two-sided normal interval.

        Raises
        ------
        ParameterError
            If the level is not between 0 and 1.
        """
        reach = normal_reach(level) * self.standard_error
        return self.value - reach, self.value + reach


@dataclass(frozen=True, eq=False)
class RangeEstimate:
    """Consistent shares of all nodes of the tree.

    Attributes
    ----------
    levels : tuple of ndarray
        Shares, level 1 first; parents are the sums of their children, each level sums to 1, single ones may be
        negative. They are unbiased: never project them (Norm-Sub) before asking for ranges.
    raw_levels : tuple of ndarray
        Each level's own estimate.
    """

    oracle: RangeOracle
    level_reports: tuple[int, ...]
    consistent: ConsistentTree
    levels: tuple[F64, ...]
    raw_levels: tuple[F64, ...]

    @property
    def frequencies(self) -> F64:
        """Shares of the symbols."""
        return self.levels[-1]

    @cached_property
    def cumulated(self) -> F64:
        """Share of people below each symbol, and 1: not quite monotone, for noise is not."""
        return np.concatenate(([0.0], np.cumsum(self.frequencies)))

    def range(self, start: int, stop: int) -> RangeSum:
        """Return the share of the symbols ``start .. stop - 1``.

        Raises
        ------
        ParameterError
            When they are not in the domain.
        """
        size = self.oracle.randomizer.domain_size
        if not 0 <= start <= stop <= size:
            raise ParameterError(f"symbols {start} .. {stop} (excluded) are not within 0 .. {size}")
        value = float(self.cumulated[stop] - self.cumulated[start])
        return RangeSum(value, math.sqrt(self._variance(start, stop)))

    def quantile(self, share: float, level: float = 0.95) -> tuple[int, int, int]:
        """Return the first symbol with `share` of the people at or below it, and the ends of an interval for it.

        The interval inverts the cumulated share's own (Woodruff 1952).

        Raises
        ------
        ParameterError
            When `share` or `level` is not between 0 and 1.
        """
        if not 0 < share < 1:
            raise ParameterError(f"a quantile is asked for by a share between 0 and 1, not {share}")
        found = self._first(share)
        reach = normal_reach(level) * math.sqrt(self._variance(0, found + 1))
        return found, self._first(share - reach), self._first(share + reach)

    def _first(self, share: float) -> int:
        rising = np.maximum.accumulate(self.cumulated[1:])
        return min(int(np.searchsorted(rising, share)), rising.size - 1)

    def _variance(self, start: int, stop: int) -> float:
        """Add up noise and the luck of the levels: people are a sample at each, drawn without replacement."""
        _, weights = self.consistent.weights(start, stop)
        total, reports = 0.0, sum(self.level_reports)
        for level, oracle in enumerate(self.oracle.oracles):
            weight, shares, mine = weights[level], self.levels[level], self.level_reports[level]
            held = np.asarray(np.clip(shares, 0.0, 1.0), np.float64)
            nobody, everybody = oracle.variance(mine, 0.0), oracle.variance(mine, 1.0)
            noise = weight**2 @ (nobody + held * (everybody - nobody))
            luck = max(float(weight**2 @ held - (weight @ held) ** 2), 0.0) * (1 - mine / reports) / mine
            total += float(noise + luck)
        return total


@dataclass(frozen=True)
class RangeOracle:
    """From symbols to reports, and from reports to shares of ranges.

    Parameters
    ----------
    randomizer
        The device's half.

    Examples
    --------
    >>> oracle = RangeOracle(RangeRandomizer(64, 1.0))
    >>> rng = np.random.default_rng(1)
    >>> counts = oracle.accumulate(oracle.simulate(rng.integers(0, 64, 200_000), rng))
    >>> found = oracle.estimate(counts).range(16, 48)
    >>> abs(found.value - 0.5) < 4 * found.standard_error, found.standard_error < 0.01
    (True, True)
    """

    randomizer: RangeRandomizer

    @property
    def epsilon_report(self) -> float:
        """Epsilon of one report, in nats, rounded up."""
        return self.randomizer.epsilon_report

    @cached_property
    def oracles(self) -> tuple[FrequencyOracle, ...]:
        """Each level's frequency oracle."""
        return tuple(FrequencyOracle(mechanism) for mechanism in self.randomizer.mechanisms)

    def simulate(self, symbols: ArrayLike, rng: Rng = None) -> list[Any]:
        """Return one report of each of n simulated people, by level; levels are drawn uniformly.

        Raises
        ------
        ParameterError
            When a symbol is outside the domain.
        """
        tree = self.randomizer.tree
        given = symbols_of(symbols, tree.domain_size)
        drawn = generator(rng)
        chosen = drawn.integers(1, tree.num_levels + 1, size=given.size)
        nodes = (given[chosen == level] // tree.leaves_under(level) for level in range(1, tree.num_levels + 1))
        return [oracle.simulate(some, drawn) for oracle, some in zip(self.oracles, nodes, strict=True)]

    def accumulate(self, reports: Sequence[Any] | Iterable[LevelReport]) -> tuple[Any, ...]:
        """Reduce reports, by level or mixed, to each level's support counts; add them up level by level."""
        held = list(reports)
        if all(isinstance(report, LevelReport) for report in held):
            held = [[r.report for r in held if r.level == level] for level in range(1, len(self.oracles) + 1)]
        return tuple(oracle.accumulate(some) for oracle, some in zip(self.oracles, held, strict=True))

    def estimate(self, counts: Sequence[Any]) -> RangeEstimate:
        """Estimate every node's share, consistently.

        Raises
        ------
        ParameterError
            When a level has no reports.
        """
        found = [oracle.estimate(level) for oracle, level in zip(self.oracles, counts, strict=True)]
        reports = tuple(estimate.num_reports for estimate in found)
        if not all(reports):
            raise ParameterError(f"every level needs a report; by level there are {', '.join(map(str, reports))}")
        raw = tuple(estimate.raw_frequencies for estimate in found)
        # The weights are those of absent nodes: they must not depend on the reports, or the estimate is biased.
        noise = tuple(oracle.variance(mine) for oracle, mine in zip(self.oracles, reports, strict=True))
        consistent = ConsistentTree(self.randomizer.tree, noise)
        return RangeEstimate(self, reports, consistent, tuple(consistent.consistent(raw)), raw)
