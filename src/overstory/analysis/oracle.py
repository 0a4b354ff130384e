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
from overstory.analysis.reports import ReportBatch
from overstory.analysis.simulation import SimulatedDevices
from overstory.analysis.support import Support
from overstory.analysis.support_families import support_of
from overstory.analysis.variance import error_bound, frequency_variance
from overstory.protocol.channels import BinaryChannel, SymbolChannel
from overstory.protocol.entropy import Entropy
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Mechanism, Report
from overstory.protocol.mechanisms.registry import mechanism as build_mechanism
from overstory.protocol.wire import Batch

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

    mechanism: Mechanism

    @property
    def support(self) -> Support[Any]:
        """The server's half: how reports of this encoding are simulated and counted."""
        return support_of(self.mechanism)

    @property
    def name(self) -> str:
        """The registry's name."""
        return self.mechanism.name

    @property
    def channel(self) -> BinaryChannel | SymbolChannel:
        """P(report | truth) over both rounds: of a bit, of a symbol, or of lying in a set."""
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
        """Return one report of a device that nobody has seen before; see `Mechanism.randomize`."""
        return self.mechanism.randomize(value, entropy, cohort=cohort)

    def devices(
        self, symbols: ArrayLike, rng: np.random.Generator, *, candidates: Sequence[str] | None = None
    ) -> SimulatedDevices:
        """Make a population of devices, for experiments: see `simulate` for its parameters."""
        size, held = self.support.domain_size, np.asarray(symbols)
        if size is not None:
            return SimulatedDevices.holding(self.mechanism, range(size), held, rng)
        if candidates is not None:
            return SimulatedDevices.holding(self.mechanism, candidates, held, rng)
        distinct, indices = np.unique(held.astype(np.str_), return_inverse=True)
        return SimulatedDevices.holding(self.mechanism, distinct.tolist(), indices, rng)

    def simulate(
        self, symbols: ArrayLike, rng: np.random.Generator, *, candidates: Sequence[str] | None = None
    ) -> ReportBatch:
        """Return one report of each of n simulated devices.

        Parameters
        ----------
        symbols : array_like, shape (n,)
            The symbols; without a domain the strings or, with `candidates`, indices into them.
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

    def accumulate(
        self, reports: ReportBatch | Batch | Iterable[Report], candidates: Sequence[Any] | None = None
    ) -> SupportCounts:
        """Reduce reports to support counts; counts of several batches add up in any order.

        Parameters
        ----------
        reports
            A batch, as arrays or from the wire, or reports one by one.
        candidates
            Which values to count: strings, needed where a hashing oracle has no domain; or some symbols of a domain.
            Bloom filters and sampled bits take theirs when estimating.

        Raises
        ------
        ParameterError
            When the reports are another mechanism's, or candidates are missing or outside the domain.
        """
        batch = reports if isinstance(reports, ReportBatch) else self._batch(reports)
        shape = self.mechanism.payload_bits, self.mechanism.num_cohorts
        if (batch.num_bits, batch.num_cohorts) != shape:
            raise ParameterError(
                f"{self.name} reports have {shape[0]} bits and {shape[1]} cohorts, "
                f"not {batch.num_bits} and {batch.num_cohorts}"
            )
        return self.support.count(batch, candidates)

    def _batch(self, reports: Batch | Iterable[Report]) -> ReportBatch:
        if isinstance(reports, Batch):
            return ReportBatch.from_wire(reports)
        return ReportBatch.of(self.mechanism, reports)

    def estimate(
        self,
        counts: SupportCounts,
        candidates: Sequence[str] | None = None,
        *,
        reports_per_device: float = 1.0,
        **choices: Any,
    ) -> Estimate:
        """Estimate how many devices hold each value.

        Parameters
        ----------
        counts
            Support counts of the collection.
        candidates
            Names for what was counted (numbers unless given). Bloom: the strings to look for; more can be tried later.
        reports_per_device
            How many of the reports one device sent, its value unchanged: they share its permanent response, and
            standard errors grow by that. For uneven numbers see `overstory.analysis.repeated.reports_per_device`.
        **choices
            For Bloom filters, `decode`'s: method, correction, alpha, complete.

        Returns
        -------
        Estimate
            For Bloom filters a `Decoded`, which is one.

        Raises
        ------
        ParameterError
            When a Bloom collection is to be read without candidates, the counts are another mechanism's, or a device
            sends less than one report.
        """
        return self.support.estimate(counts, candidates, reports_per_device=reports_per_device, **choices)

    def variance(self, num_reports: float, frequency: float = 0.0, *, num_candidates: int | None = None) -> float:
        """Variance of a frequency estimate from that many reports; see `frequency_variance`."""
        return frequency_variance(self.mechanism, num_reports, frequency, num_candidates=num_candidates)

    def error_bound(self, num_reports: float, beta: float = 0.05) -> float:
        """Bound that a frequency's error exceeds with probability `beta` at most; see `variance.error_bound`."""
        return error_bound(self.mechanism, num_reports, beta)


def frequency_oracle(name: str, **parameters: Any) -> FrequencyOracle:
    """Return the oracle of that registry name; see `overstory.oracle`."""
    return FrequencyOracle(build_mechanism(name, **parameters))
