"""A distribution over the bins of a range, as an estimate gives it.

Square Wave, the server's half: from reports to a distribution (Li et al., SIGMOD 2020, sections 5.4 and 5.5).

The table that Square Wave's decoder inverts: P(bucket of cells | bin of values), by exact integration.

A bin is a piece of the range, its people taken as spread evenly over it; a bucket is a run of cells. With
``r(x) = max(x, 0)``, a window of W cells at position s covers ``r(b-s) - r(a-s) - r(b-s-W) + r(a-s-W)`` of the bucket
[a, b). The sum of r over consecutive positions is a triangular number, so the table needs no quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from overstory.analysis.numeric.means import MeanEstimate, as_payloads, simulate
from overstory.analysis.postprocess.likelihood import expectation_maximization
from overstory.analysis.reports import SupportCounts
from overstory.analysis.support.numbers import WaveHalf
from overstory.analysis.support.registry import Rng
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.numeric.windows import SquareWave, WindowChannel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Distribution:
    """Shares of equal bins.

    Attributes
    ----------
    edges : ndarray of float64, shape (d + 1,)
        The edges of the bins, ascending.
    shares : ndarray of float64, shape (d,)
        Not negative, of sum 1. Made by maximum likelihood, so biased where many are near 0; there is no unbiased
        estimate of a bin from these reports with a variance worth having.
    method : str
        How it was fitted: "em", or "ems" with smoothing.
    num_reports : int
        The number of reports behind the estimate.
    iterations : int
        The number of steps that the fit took.
    observed, expected : ndarray of int64 and of float64, shape (m,)
        How many reports fell into each bucket, and how many these shares would send there.
    notes : tuple of str
        What a reader must know before trusting the numbers.
    """

    edges: F64
    shares: F64
    method: str
    num_reports: int
    iterations: int
    observed: NDArray[np.int64]
    expected: F64
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("edges", "shares", "observed", "expected"):
            array = np.array(getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @cached_property
    def cumulated(self) -> F64:
        """Share of people at or below each edge: 0 at the first, 1 at the last."""
        inner = np.cumsum(self.shares)
        return np.concatenate(([0.0], inner / inner[-1]))

    @property
    def mean(self) -> float:
        """Mean, everybody at the middle of their bin."""
        return float(self.shares @ (self.edges[:-1] + self.edges[1:]) / 2)

    def share_between(self, low: float, high: float) -> float:
        """Return the share of people from `low` to `high`, spread evenly within a bin."""
        below = np.interp([low, high], self.edges, self.cumulated)
        return float(below[1] - below[0])

    def quantile(self, share: float) -> float:
        """Return the value that `share` of the people are at or below.

        Raises
        ------
        ParameterError
            When it is no share.
        """
        if not 0 <= share <= 1:
            raise ParameterError(f"a quantile is asked for by a share from 0 to 1, not {share}")
        at = min(int(np.searchsorted(self.cumulated, share)), self.shares.size)
        if at == 0:
            return float(self.edges[0])
        return float(np.interp(share, self.cumulated[at - 1 : at + 1], self.edges[at - 1 : at + 1]))

    @property
    def chi_square(self) -> float:
        """Pearson's statistic of the buckets: near their number when the model fits."""
        return float(((self.observed - self.expected) ** 2 / self.expected).sum())

    def to_json(self) -> dict[str, Any]:
        """Return everything but the buckets, ready for JSON."""
        bins = zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), self.shares.tolist(), strict=True)
        return {
            "reports": self.num_reports,
            "method": self.method,
            "iterations": self.iterations,
            "mean": self.mean,
            "notes": list(self.notes),
            "bins": [{"low": low, "high": high, "frequency": share} for low, high, share in bins],
        }


def transition_table(channel: WindowChannel, cells: NDArray[np.int64], num_bins: int) -> F64:
    """Return P(bucket | bin), shape (len(cells) - 1, num_bins).

    Parameters
    ----------
    cells
        The buckets' first cells, and the number of cells (`bucket_edges`).
    num_bins
        Equal pieces of the range. They need not divide the positions: a position on an edge is shared.

    Examples
    --------
    >>> from fractions import Fraction
    >>> transition_table(WindowChannel(2, 1, Fraction(1, 2)), np.array([0, 1, 2]), 2).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    # The edges of the bins, in positions; one may lie within a position.
    positions = np.arange(num_bins + 1) * (channel.num_positions / num_bins)
    starts: F64 = cells[:, None].astype(np.float64)
    ends: F64 = positions[None, :].astype(np.float64)
    # The integral of r(b - s) - r(b - s - W) over positions s up to each edge of a bin: its difference over a bucket
    # and over a bin, divided by the bin's width, is the mean overlap of the window with the bucket.
    covered: F64 = _ramp_integral(starts, ends) - _ramp_integral(starts - channel.window, ends)
    overlap = np.diff(np.diff(covered, axis=0), axis=1) / np.diff(positions)[None, :]
    # With probability alpha the report is uniform over the window of W cells, else over all cells.
    alpha = float(channel.alpha)
    return np.asarray(overlap * (alpha / channel.window) + np.diff(cells)[:, None] * float(channel.outside))


def _ramp_integral(corner: F64, end: F64) -> F64:
    """Integrate ``r(corner - floor(u))`` over u from 0 to `end`: complete positions, and the share of the last one."""
    complete = np.floor(end)
    rest = (end - complete) * np.maximum(corner - complete, 0.0)
    return np.asarray(_triangular(corner) - _triangular(corner - complete) + rest)


def _triangular(count: F64) -> F64:
    """Return 1 + 2 + ... + count, the sum of r over a run of positions; 0 below 0."""
    positive = np.maximum(count, 0.0)
    return np.asarray(positive * (positive + 1) / 2)


Method = Literal["em", "ems"]

# A step that gains less log-likelihood than this fits noise. With it EM stops after some hundred steps, at about the
# least Wasserstein distance; run to its maximum it would be jagged (docs/explanation/numbers.md;
# `bench/numeric_accuracy.py`).
GAIN = {"em": 0.01, "ems": 0.001}


@dataclass(frozen=True)
class SquareWaveOracle:
    """From numbers to reports, and from reports to the distribution of the numbers.

    Parameters
    ----------
    randomizer
        The device's half: a Square Wave over the range.

    Examples
    --------
    >>> oracle = SquareWaveOracle(SquareWave(1.0))
    >>> rng = np.random.default_rng(1)
    >>> counts = oracle.accumulate(oracle.simulate(rng.beta(2, 5, 100_000), rng))
    >>> learned = oracle.estimate(counts, num_bins=20)
    >>> abs(learned.mean - 2 / 7) < 0.01, abs(learned.quantile(0.5) - 0.2644) < 0.02
    (True, True)
    """

    randomizer: SquareWave

    @property
    def epsilon_report(self) -> float:
        """Epsilon of one report, in nats, rounded up."""
        return self.randomizer.epsilon_report

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """Where the buckets begin in which reports are counted: at most 1,024 of them."""
        return WaveHalf(self.randomizer).cells

    def simulate(self, values: ArrayLike, rng: Rng = None) -> NDArray[np.int64]:
        """Return one report's payload of each of n simulated people; see `simulation.simulate`."""
        return simulate(self.randomizer, values, rng)

    def accumulate(self, reports: ArrayLike | Iterable[Report]) -> SupportCounts:
        """Count reports by bucket; counts of several batches add up in any order.

        Raises
        ------
        ParameterError
            When a payload is no cell.
        """
        payloads = as_payloads(reports, self.randomizer.channel.num_cells)
        return WaveHalf(self.randomizer).count_payloads(payloads)

    def mean(self, counts: SupportCounts, *, reports_per_device: float = 1.0) -> MeanEstimate:
        """Estimate the mean without a fit: unbiased, with its standard error; see `MeanOracle.estimate`.

        A bucket of several cells counts as its middle.
        """
        self._check(counts)
        number, seen = counts.num_reports, counts.ones[0].astype(np.float64)
        middles = (self.cells[:-1] + self.cells[1:] - 1) / 2
        # A report debiases to a + b (its cell).
        start = float(self.randomizer.debias(0))
        values = start + (float(self.randomizer.debias(1)) - start) * middles
        value = float(seen @ values / number)
        spread = float(seen @ (values - value) ** 2) / (number - 1) if number > 1 else math.inf
        domain = self.randomizer.domain
        error = math.sqrt(spread / number * reports_per_device)
        return MeanEstimate(value, error, number, (domain.minimum, domain.maximum))

    def _check(self, counts: SupportCounts) -> None:
        if counts.ones.shape != (1, self.cells.size - 1):
            raise ParameterError(f"these counts have shape {counts.ones.shape}, not (1, {self.cells.size - 1})")

    def estimate(
        self, counts: SupportCounts, *, num_bins: int = 100, method: Method = "em", tolerance: float | None = None
    ) -> Distribution:
        """Estimate the distribution by expectation maximization.

        Parameters
        ----------
        counts
            Reports by bucket.
        num_bins
            Equal bins of the range.
        method
            "em", or "ems" with smoothing after each step: better for few reports of a smooth distribution, worse
            for many or where it is steep.
        tolerance
            The least gain of log-likelihood for which another step is taken; .01 for EM and .001 for EMS unless
            given.

        Raises
        ------
        ParameterError
            When there are no reports, the counts are another collection's, or a choice is none.
        """
        if method not in GAIN:
            raise ParameterError(f"method = {method!r}: choose em or ems")
        if not isinstance(num_bins, int) or not 2 <= num_bins <= self.cells.size - 1:
            raise ParameterError(f"num_bins = {num_bins!r}: give a whole number from 2 to {self.cells.size - 1}")
        self._check(counts)
        # P(bucket | bin), inverted by maximum likelihood: the counts of the buckets are one multinomial.
        table = transition_table(self.randomizer.channel, self.cells, num_bins)
        observed, gain = counts.ones[0], GAIN[method] if tolerance is None else tolerance
        mixture = expectation_maximization(observed, table, tolerance=gain, smooth=method == "ems")
        domain = self.randomizer.domain
        return Distribution(
            edges=np.linspace(domain.minimum, domain.maximum, num_bins + 1),
            shares=mixture.shares,
            method=method,
            num_reports=counts.num_reports,
            iterations=mixture.iterations,
            observed=observed,
            expected=table @ mixture.shares * counts.num_reports,
            notes=() if mixture.converged else ("stopped at the limit on steps",),
        )
