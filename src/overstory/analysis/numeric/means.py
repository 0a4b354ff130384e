"""Means: from numeric reports to exact sums, and from sums to a mean with its standard error."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.kinds.base import Rng, generator
from overstory.analysis.kinds.numbers import (
    GeneratorDraws,
    MeanSupport,
    draw_payloads,
    in_branches,
    positions,
    sums_of_pairs,
)
from overstory.analysis.reports import SupportCounts
from overstory.analysis.selection import normal_reach
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.numeric.mechanisms import MeanRandomizer
from overstory.protocol.numeric.randomizer import NumericRandomizer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


SPLIT = 17  # a payload has at most 34 bits: two halves, whose products can be added 2**29 times


@dataclass(frozen=True)
class ReportSums:
    """What a collection for a mean is reduced to: exact integers, a commutative monoid under ``+``.

    Attributes
    ----------
    counts, totals, squares : tuple of int
        Number, sum and sum of squares of payloads, by branch (Hybrid has two, the others one).

    Examples
    --------
    >>> ReportSums((2,), (5,), (13,)) + ReportSums((1,), (1,), (1,))
    ReportSums(counts=(3,), totals=(6,), squares=(14,))
    """

    counts: tuple[int, ...]
    totals: tuple[int, ...]
    squares: tuple[int, ...]

    @classmethod
    def empty(cls, branches: int = 1) -> ReportSums:
        """Return the sums of no reports, the neutral element of ``+``."""
        return cls(*((0,) * branches,) * 3)

    @classmethod
    def of_counts(cls, mechanism: MeanRandomizer, counts: SupportCounts) -> ReportSums:
        """Return the sums that stored counts hold, exactly.

        Raises
        ------
        ParameterError
            When the counts are another mechanism's.
        """
        half = MeanSupport(mechanism)
        if counts.ones.shape != half.shape(()):
            raise ParameterError(f"counts of shape {counts.ones.shape} are not those of {mechanism.name}")
        both = [sums_of_pairs(ones, width) for ones, width in zip(counts.ones, half.branch_bits, strict=True)]
        totals, squares = zip(*both, strict=True)
        return cls(tuple(counts.totals.tolist()), totals, squares)

    def __add__(self, other: ReportSums) -> ReportSums:
        """Merge with the sums of other reports of the same collection."""
        if not isinstance(other, ReportSums):
            return NotImplemented
        if len(self.counts) != len(other.counts):
            raise ParameterError("cannot merge sums of different collections: one has two branches")
        pairs = ((self.counts, other.counts), (self.totals, other.totals), (self.squares, other.squares))
        return ReportSums(*(tuple(a + b for a, b in zip(*pair, strict=True)) for pair in pairs))

    @property
    def num_reports(self) -> int:
        """Reports over all branches."""
        return sum(self.counts)


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over people.

    Attributes
    ----------
    value : float
        Unbiased; noise may carry it outside the domain.
    standard_error : float
        From the reports' own spread, so it holds both the noise and who happened to report; infinite for one report.
    num_reports : int
        The number of reports behind the estimate.
    limits : tuple of float
        The domain's lower and upper end.
    """

    value: float
    standard_error: float
    num_reports: int
    limits: tuple[float, float]

    @property
    def clamped(self) -> float:
        """The value moved to the nearest end when it is outside: closer to the truth, and no longer unbiased."""
        return min(max(self.value, self.limits[0]), self.limits[1])

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the two-sided normal interval.

        Raises
        ------
        ParameterError
            If the level is not between 0 and 1.
        """
        reach = normal_reach(level) * self.standard_error
        return self.value - reach, self.value + reach


@dataclass(frozen=True)
class NumericOracle:
    """From numbers to reports, and back."""

    randomizer: NumericRandomizer

    @property
    def epsilon_report(self) -> float:
        """Epsilon of one report, in nats, rounded up."""
        return self.randomizer.epsilon_report

    def simulate(self, values: ArrayLike, rng: Rng = None) -> NDArray[np.int64]:
        """Return one report's payload of each of n simulated people."""
        places = positions(self.randomizer, values)
        return draw_payloads(self.randomizer, places, GeneratorDraws(generator(rng), places.size))


@dataclass(frozen=True)
class MeanOracle(NumericOracle):
    """From numbers to reports, and from reports to their mean.

    Parameters
    ----------
    randomizer
        `Duchi`, `Piecewise` or `Hybrid`; `SquareWave` too, whose reports have a larger variance.

    Examples
    --------
    >>> from overstory.protocol.numeric import Hybrid
    >>> oracle = MeanOracle(Hybrid(1.0))
    >>> rng = np.random.default_rng(1)
    >>> mean = oracle.estimate(oracle.accumulate(oracle.simulate(rng.uniform(-1, 0, 100_000), rng)))
    >>> round(mean.standard_error, 4), abs(mean.value + 0.5) < 4 * mean.standard_error
    (0.0066, True)
    """

    def accumulate(self, reports: ArrayLike | Iterable[Report]) -> ReportSums:
        """Add up payloads, or reports; sums of several batches add up in any order.

        Raises
        ------
        ParameterError
            When a payload is too wide for the randomizer.
        """
        payloads = as_payloads(reports, 1 << self.randomizer.payload_bits)
        branches = in_branches(payloads, len(self.randomizer.branches))
        totals = tuple(int(branch.sum()) for branch in branches)
        return ReportSums(tuple(map(len, branches)), totals, tuple(map(_sum_of_squares, branches)))

    def estimate(self, sums: ReportSums, *, reports_per_device: float = 1.0) -> MeanEstimate:
        """Estimate the mean of everybody's values.

        Parameters
        ----------
        sums
            Sums of the reports.
        reports_per_device
            How many of the reports one device sent. They are all alike while its value does not change, which is
            assumed: the standard error grows by the square root.

        Raises
        ------
        ParameterError
            When there are no reports, or the sums are another randomizer's.
        """
        affine = self._affine()
        if len(affine) != len(sums.counts) or not sums.num_reports:
            raise ParameterError(f"these are not sums of reports of {self.randomizer.name}, or of none")
        # Of each branch: number n, sum s and sum of squares q of payloads x, which debias to a + b x.
        columns = list(zip(affine, sums.counts, sums.totals, sums.squares, strict=True))
        number = sums.num_reports
        # sum (a + b x) = a n + b s, and sum (a + b x)^2 = a^2 n + 2 a b s + b^2 q; as fractions, nothing is rounded.
        total = sum((a * n + b * s for (a, b), n, s, _ in columns), Fraction(0))
        squares = sum((a * a * n + 2 * a * b * s + b * b * q for (a, b), n, s, q in columns), Fraction(0))
        # The sample variance (sum of squares - total^2 / n) / (n - 1), over n for the mean.
        variance = (squares - total * total / number) / (number * (number - 1)) if number > 1 else math.inf
        error = math.sqrt(float(variance) * reports_per_device)
        domain = self.randomizer.domain
        return MeanEstimate(float(total / number), error, number, (domain.minimum, domain.maximum))

    def _affine(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """By branch, (a, b) with debias(payload) = a + b * (the payload within its branch)."""
        debias, branches = self.randomizer.debias, len(self.randomizer.branches)
        return tuple((debias(i), debias(i + branches) - debias(i)) for i in range(branches))


def as_payloads(reports: ArrayLike | Iterable[Report], bound: int) -> NDArray[np.int64]:
    """Return payloads as an array, from an array or from reports one by one."""
    if not isinstance(reports, np.ndarray):
        reports = np.array([r.bits if isinstance(r, Report) else r for r in reports])  # type: ignore[union-attr]
    if reports.ndim != 1 or (reports.size and reports.dtype.kind not in "iu"):
        raise ParameterError(f"payloads are a list of whole numbers, not {reports.dtype} of shape {reports.shape}")
    if reports.size and not 0 <= int(reports.min()) <= int(reports.max()) < bound:
        raise ParameterError(f"payloads must lie in 0 .. {bound - 1}, not {reports.min()} .. {reports.max()}")
    return reports.astype(np.int64, copy=False)


def _sum_of_squares(payloads: NDArray[np.int64]) -> int:
    """Exactly, where the squares themselves would not fit 64 bits."""
    # x = 2^S h + l, so sum x^2 = 2^2S sum h^2 + 2^(S + 1) sum h l + sum l^2.
    high, low = payloads >> SPLIT, payloads & ((1 << SPLIT) - 1)
    return (int(high @ high) << 2 * SPLIT) + (int(high @ low) << SPLIT + 1) + int(low @ low)
