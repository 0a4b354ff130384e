"""The frequency oracle: a mechanism paired with the server's half.

The server's half is generic. It reads the mechanism's encoding and channels, so a new mechanism needs no code here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from overstory.analysis.counts import SupportCounts
from overstory.analysis.reports import ReportBatch, empty_counts
from overstory.analysis.simulation import SimulatedDevices
from overstory.analysis.variance import frequency_variance
from overstory.protocol.channels import BinaryChannel
from overstory.protocol.encodings import Bloom, OneHot
from overstory.protocol.entropy import Entropy
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.mechanisms.mechanism import Report
from overstory.protocol.mechanisms.registry import mechanism as build_mechanism

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate


@dataclass(frozen=True)
class FrequencyOracle:
    """From values to reports, and from reports to frequencies.

    Parameters
    ----------
    mechanism
        The device's half.

    Examples
    --------
    >>> import numpy as np, overstory
    >>> basic = overstory.oracle("basic-rappor", domain_size=4, f=0.25, p=0.25, q=0.75)
    >>> values = np.random.default_rng(1).choice(4, size=100_000, p=[0.4, 0.3, 0.2, 0.1])
    >>> reports = basic.simulate(values, np.random.default_rng(2))
    >>> estimate = basic.estimate(basic.accumulate(reports))
    >>> bool(abs(estimate.frequencies[0] - 0.4) < 0.02)
    True
    """

    mechanism: BitMechanism

    @property
    def name(self) -> str:
        """The registry's name."""
        return self.mechanism.name

    @property
    def channel(self) -> BinaryChannel:
        """P(report bit | true bit), over both rounds."""
        return self.mechanism.channel

    @property
    def epsilon_report(self) -> float:
        """Epsilon of one report, in nats, rounded up."""
        return self.mechanism.epsilon_report

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value, in nats, rounded up."""
        return self.mechanism.epsilon_permanent

    def randomize(self, value: Any, entropy: Entropy, *, cohort: int | None = None) -> Report:
        """Return one report of a device that nobody has seen before; see `BitMechanism.randomize`."""
        return self.mechanism.randomize(value, entropy, cohort=cohort)

    def devices(
        self, symbols: ArrayLike, rng: np.random.Generator, *, candidates: Sequence[str] | None = None
    ) -> SimulatedDevices:
        """Make a population of devices, for experiments: see `simulate` for its parameters."""
        encoding = self.mechanism.encoding
        if isinstance(encoding, OneHot):
            return SimulatedDevices.holding(self.mechanism, range(encoding.domain_size), np.asarray(symbols), rng)
        if candidates is None:
            distinct, indices = np.unique(np.asarray(symbols, dtype=np.str_), return_inverse=True)
            return SimulatedDevices.holding(self.mechanism, distinct.tolist(), indices, rng)
        return SimulatedDevices.holding(self.mechanism, candidates, np.asarray(symbols), rng)

    def simulate(
        self, symbols: ArrayLike, rng: np.random.Generator, *, candidates: Sequence[str] | None = None
    ) -> ReportBatch:
        """Return one report of each of n simulated devices.

        Parameters
        ----------
        symbols : array_like, shape (n,)
            One-hot: the symbols. Bloom: the strings, or, with `candidates`, indices into them.
        rng
            Where all randomness comes from: the same generator state gives the same reports.
        candidates
            The strings that `symbols` index.

        Raises
        ------
        ParameterError
            When a value is outside the domain.
        """
        return self.devices(symbols, rng, candidates=candidates).report()

    def accumulate(self, reports: ReportBatch | Iterable[Report]) -> SupportCounts:
        """Reduce reports to support counts; counts of several batches add up in any order."""
        encoding = self.mechanism.encoding
        if isinstance(reports, ReportBatch):
            if (reports.num_bits, reports.num_cohorts) != (encoding.num_bits, encoding.num_cohorts):
                raise ParameterError(
                    f"{self.name} reports have {encoding.num_bits} bits and {encoding.num_cohorts} cohorts, "
                    f"not {reports.num_bits} and {reports.num_cohorts}"
                )
            return reports.accumulate()
        totals = empty_counts(encoding).totals.copy()
        ones = empty_counts(encoding).ones.copy()
        for report in reports:
            totals[report.cohort] += 1
            ones[report.cohort] += [report.bits >> i & 1 for i in range(encoding.num_bits)]
        return SupportCounts(totals, ones)

    def estimate(self, counts: SupportCounts, candidates: Sequence[str] | None = None, **choices: Any) -> Estimate:
        """Estimate how many devices hold each value.

        Parameters
        ----------
        counts
            Support counts of the collection.
        candidates
            One-hot: names for the symbols (optional). Bloom: the strings to look for; more can be tried later.
        **choices
            For Bloom filters, `decode`'s: method, correction, alpha, complete.

        Returns
        -------
        Estimate
            For Bloom filters a `Decoded`, which is one.

        Raises
        ------
        ParameterError
            When a Bloom collection is to be read without candidates, or the counts are another mechanism's.
        """
        p_star, q_star = float(self.channel.keep_one), float(self.channel.raise_zero)
        encoding = self.mechanism.encoding
        if isinstance(encoding, Bloom):
            if candidates is None:
                raise ParameterError(
                    f"{self.name} needs candidates: a Bloom filter can only be asked for given strings"
                )
            from overstory.analysis.candidates import CandidateMap
            from overstory.analysis.decoding import decode
            from overstory.analysis.positions import positions_of

            candidate_map = CandidateMap(candidates, positions_of(encoding, candidates), encoding.num_bits)
            return decode(counts, candidate_map, p_star=p_star, q_star=q_star, **choices)
        from overstory.analysis.estimate import debias

        values = [str(symbol) for symbol in range(encoding.num_bits)] if candidates is None else candidates
        return debias(counts, p_star, q_star, values, **choices)

    def variance(self, num_reports: float, frequency: float = 0.0, *, num_candidates: int | None = None) -> float:
        """Variance of a frequency estimate from that many reports; see `frequency_variance`."""
        return frequency_variance(self.mechanism, num_reports, frequency, num_candidates=num_candidates)


def frequency_oracle(name: str, **parameters: Any) -> FrequencyOracle:
    """Return the oracle of that registry name; see `overstory.oracle`."""
    return FrequencyOracle(build_mechanism(name, **parameters))
