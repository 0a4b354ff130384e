"""The server's half of an oracle: what its devices would send, and which values a report supports.

A report supports the values that speak for it (Wang et al. 2017): those whose bit it sets, whose hash it names, whose
set holds it. Counting the support of every value is all that differs between oracles on the server; what follows,
debiasing by p* and q*, is the same for all. A family of encodings is a class here, and `support_families` says
which encoding belongs to which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.support.positions import symbols_of
from overstory.analysis.support.work import Work
from overstory.protocol.encodings.base import MAX_COHORTS
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Mechanism

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate

M_co = TypeVar("M_co", bound=LocalRandomizer, covariant=True)
Words = NDArray[np.uint64]
Cohorts = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True)
class StreamKey:
    """Which random stream a simulated report takes: with the value it decides the report.

    Parameters
    ----------
    key
        32 bytes.
    first_device
        The first row's device; a device's report does not depend on the rows that it is computed with.
    report_index
        Which of a device's reports; its permanent response does not depend on it.
    """

    key: bytes
    first_device: int = 0
    report_index: int = 0


@dataclass(frozen=True)
class ServerHalf(ABC, Generic[M_co]):
    """What a server does with the reports of a mechanism: it counts them; and what simulated devices send to it."""

    mechanism: M_co

    @abstractmethod
    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Return the counts of a batch, of `values` where each is counted; counts of two batches add up."""

    @abstractmethod
    def num_counts(self, labels: Sequence[str]) -> int:
        """Return how many counts a period has, where the metric has these labels."""

    @abstractmethod
    def count_names(self, size: int, labels: Sequence[str]) -> list[str]:
        """Return what each of the `size` counts of a cohort is called."""

    @abstractmethod
    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return what a value is encoded from, a row (of the last but one axis, or the only one) for each."""

    @abstractmethod
    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        """Return the packed reports of devices that hold ``table[symbols]``."""

    def assign_cohorts(self, key: bytes, num_devices: int) -> Cohorts:
        """Return the cohort of each device, drawn uniformly."""
        many = self.mechanism.num_cohorts
        if many > MAX_COHORTS:
            from overstory.kernels.devices import assign_seeds

            return assign_seeds(key, many, num_devices)
        from overstory.kernels.devices import assign_cohorts

        return assign_cohorts(key, many, num_devices)


O_co = TypeVar("O_co", bound=Mechanism, covariant=True)


@dataclass(frozen=True)
class Support(ServerHalf[O_co]):
    """The server's half of the oracles with one kind of encoding."""

    work: ClassVar[Work]
    """What counting the support of all d values in n reports takes, in words and in seconds."""
    counts_apart: ClassVar[bool] = False
    """Whether each value is looked for in each report by itself, so that the values of one count can be divided."""

    def core_seconds(self, num_reports: int, num_values: int) -> float:
        """Return about how many seconds one core counts that many reports and estimates that many values."""
        return self.work.core_seconds(num_reports, self.width(num_values), num_values, self.mechanism.num_cohorts)

    def width(self, num_values: int) -> int:  # noqa: ARG002 - where candidates are looked for in each report
        """Return how many counters each report is added to."""
        return self.mechanism.payload_bits

    @property
    def domain_size(self) -> int | None:
        """How many values there are; None where they are strings."""
        return self.mechanism.domain_size

    @property
    def num_outputs(self) -> int:
        """Payloads that a device can send are below this number."""
        return 1 << self.mechanism.payload_bits

    @abstractmethod
    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Return how many reports support each of `values`, or each value of the domain."""

    def num_counts(self, labels: Sequence[str]) -> int:
        """Return the number of values, or of what each cohort counts."""
        encoding, mechanism = self.mechanism.encoding, self.mechanism
        if encoding.by_seed:
            return int(mechanism.num_cohorts * encoding.num_symbols)
        if encoding.decoded or not encoding.pure:
            return int(mechanism.num_cohorts * mechanism.payload_bits)
        return int(mechanism.domain_size or len(labels) or mechanism.payload_bits)

    def count_names(self, size: int, labels: Sequence[str]) -> list[str]:
        """Return the labels where a count belongs to a label, else the numbers of bits."""
        encoding = self.mechanism.encoding
        if encoding.by_seed:
            return [f"symbol{symbol}" for symbol in range(size)]
        if not encoding.pure or len(labels) != size:
            return [f"bit{bit}" for bit in range(size)]
        return list(labels)

    def estimate(
        self, counts: SupportCounts, names: Sequence[str] | None, *, reports_per_device: float = 1.0, **choices: Any
    ) -> Estimate:
        """Debias the counts: (supports - n q*) / (p* - q*)."""
        from overstory.analysis.estimate import debias
        from overstory.analysis.support.covariance import SupportErrors
        from overstory.analysis.variance import clustering

        values = [str(symbol) for symbol in range(counts.num_bits)] if names is None else names
        shared = clustering(self.mechanism, reports_per_device)
        joint = SupportErrors.of(self.mechanism)
        p_star, q_star = float(self.mechanism.p_star), float(self.mechanism.q_star)
        return debias(counts, p_star, q_star, values, shared, joint, **choices)

    def outputs(self, batch: ReportBatch) -> NDArray[np.int64]:
        """Return the payloads as numbers."""
        drawn = batch.bits[:, 0]
        if drawn.size and int(drawn.max()) >= self.num_outputs:
            raise ParameterError(
                f"a report of {self.mechanism.name} is a number below {self.num_outputs}, not {int(drawn.max())}"
            )
        return drawn.astype(np.int64)


def pooled(ones: NDArray[np.integer[Any]], num_reports: int) -> SupportCounts:
    """Return counts in which every report could have supported every value."""
    return SupportCounts([num_reports], ones.reshape(1, -1))


def chosen(counts: SupportCounts, values: Sequence[Any] | None) -> SupportCounts:
    """Return the counts of some symbols, in their order; of all without `values`."""
    if values is None:
        return counts
    return SupportCounts(counts.totals, counts.ones[:, symbols_of(values, counts.num_bits)])
