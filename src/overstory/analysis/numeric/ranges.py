"""Range queries, the server's half: shares of any run of symbols, with standard errors, and quantiles.

A tree of noisy shares made consistent: the best linear unbiased estimate of all nodes from all nodes.

Hay et al. (VLDB 2010), for unequal variances and short last nodes. With s the variance of a node's own estimate and V
the sum of its children's:

    up      z = (own / s + (sum of children) / V) / (1 / s + 1 / V),  of variance 1 / (1 / s + 1 / V)
    down    child = z of the child + (child's variance / V) (parent - sum of the children's z)

The root is everybody: exactly 1. With equal variances and full nodes of B children, a node l levels above the leaves
takes its own estimate with weight ``(B**(l+1) - B**l) / (B**(l+1) - 1)`` (Cormode et al., VLDB 2019, section 4.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.kinds.split import LevelSupport
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import SupportCounts
from overstory.analysis.selection import IntervalKind, normal_reach
from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric.ranges import LevelTree, RangeRandomizer

if TYPE_CHECKING:
    from overstory.analysis.selection import F64


@dataclass(frozen=True, eq=False)
class ConsistentTree:
    """The linear map from every node's own estimate to consistent ones, and back to what each node contributes."""

    tree: LevelTree
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
    consistent = ConsistentTree(randomizer.tree, noise)
    levels = tuple(consistent.consistent(raw))
    return RangeEstimate(oracles, reports, consistent, levels, reports_per_device, interval_kind)
