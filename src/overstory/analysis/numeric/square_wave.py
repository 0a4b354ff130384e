"""Square Wave, the server's half: from reports to a distribution (Li et al., SIGMOD 2020, sections 5.4 and 5.5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from overstory.analysis.counts import SupportCounts
from overstory.analysis.numeric.distribution import Distribution
from overstory.analysis.numeric.means import as_payloads
from overstory.analysis.numeric.simulation import simulate
from overstory.analysis.numeric.transition import bucket_edges, transition_table
from overstory.analysis.postprocess_mixture import expectation_maximization
from overstory.analysis.simulation import Rng
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Report
from overstory.protocol.numeric.square_wave import SquareWave

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Method = Literal["em", "ems"]

MOST_BUCKETS = 1024

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
        The device's half.

    Examples
    --------
    >>> oracle = SquareWaveOracle(SquareWave(1.0))
    >>> rng = np.random.default_rng(1)
    >>> counts = oracle.accumulate(oracle.simulate(rng.beta(2, 5, 100_000), rng))
    >>> found = oracle.estimate(counts, num_bins=20)
    >>> abs(found.mean - 2 / 7) < 0.01, abs(found.quantile(0.5) - 0.2644) < 0.02
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
        cells = self.randomizer.channel.num_cells
        return bucket_edges(cells, min(cells, MOST_BUCKETS))

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
        buckets = np.searchsorted(self.cells, payloads, side="right") - 1
        return SupportCounts([payloads.size], [np.bincount(buckets, minlength=self.cells.size - 1)])

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
        if counts.ones.shape != (1, self.cells.size - 1):
            raise ParameterError(f"these counts have shape {counts.ones.shape}, not (1, {self.cells.size - 1})")
        table = transition_table(self.randomizer.channel, self.cells, num_bins)
        observed, gain = counts.ones[0], GAIN[method] if tolerance is None else tolerance
        found = expectation_maximization(observed, table, tolerance=gain, smooth=method == "ems")
        domain = self.randomizer.domain
        return Distribution(
            edges=np.linspace(domain.minimum, domain.maximum, num_bins + 1),
            shares=found.shares,
            method=method,
            num_reports=counts.num_reports,
            iterations=found.iterations,
            observed=observed,
            expected=table @ found.shares * counts.num_reports,
            notes=() if found.converged else ("stopped at the limit on steps",),
        )
