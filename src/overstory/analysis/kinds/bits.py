"""Support of reports that are bits: unary encodings, Bloom filters, sampled bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import (
    Cohorts,
    SampledErrors,
    Support,
    Words,
    chosen,
    positions_of,
    symbols_of,
)
from overstory.analysis.kinds.work import PER_BIT, REGRESSION, Work
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.variance import support_noise
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.bits import BitMechanism, SampledBits

if TYPE_CHECKING:
    from overstory.analysis.decoding.candidates import CandidateMap
    from overstory.analysis.estimate import Estimate
    from overstory.kernels.devices import StreamKey


BITS: Final = "bits, not values: give candidates to `estimate`"


class OneHotSupport(Support[BitMechanism]):
    """A bit per symbol: a report supports the symbols whose bits it sets."""

    work = Work("n d bits added", cell=PER_BIT)
    watched: ClassVar[frozenset[str]] = frozenset({"ones", "pairs"})

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return symbols_of(values, self.encoding.domain_size).astype(np.int32).reshape(1, -1, 1)

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        return self.simulate(table, symbols, cohorts, stream, self.encoding.num_bits)

    def simulate(
        self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey, num_bits: int
    ) -> Words:
        """Return the noisy bits of devices by the positions that ``table`` gives to their cohort and symbol."""
        from overstory.kernels.devices import simulate_bits

        rounds = self.mechanism.rounds.permanent, self.mechanism.rounds.instantaneous
        permanent, instantaneous = (None if channel.is_identity else channel.thresholds for channel in rounds)
        return simulate_bits(
            table,
            symbols,
            cohorts.astype(np.uint16, copy=False),
            permanent,
            instantaneous,
            stream,
            num_bits=num_bits,
        )

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        return chosen(batch.accumulate(), values)


class BloomSupport(OneHotSupport):
    """Filters of strings: what is counted are the bits of each cohort, and candidates are tried on the counts."""

    work = REGRESSION
    watched: ClassVar[frozenset[str]] = frozenset({"ones"})

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return positions_of(self.encoding, values)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        self.refuse_values(values, BITS)
        return batch.accumulate()

    def estimate(
        self,
        counts: SupportCounts,
        names: Sequence[str] | CandidateMap | None,
        *,
        reports_per_device: float = 1.0,
        **choices: Any,
    ) -> Estimate:
        if names is None:
            raise ParameterError(
                f"{self.mechanism.name} needs candidates: a Bloom filter can only be asked for given strings"
            )
        from overstory.analysis.decoding import decode
        from overstory.analysis.decoding.candidates import CandidateMap

        if isinstance(names, CandidateMap):
            candidates = names
        else:
            candidates = CandidateMap(names, self.table(names), self.encoding.num_bits)
        p_star, q_star = self.rates
        return decode(
            counts,
            candidates,
            p_star=p_star,
            q_star=q_star,
            permanent=self.mechanism.rounds.permanent,
            reports_per_device=reports_per_device,
            **choices,
        )


class SampledSupport(OneHotSupport):
    """Bits of a sample of the symbols: a report speaks for those that its cohort was asked for, and for no other."""

    encoding: SampledBits
    work = Work("n d' bits added", cell=7e-9)
    watched: ClassVar[frozenset[str]] = frozenset({"ones"})

    def table(self, values: Sequence[Any]) -> NDArray[Any]:  # noqa: ARG002 - all that a device can hold
        """Return the bit at each distance from the cohort; one past the last where there is none."""
        none, distances = self.encoding.num_bits, range(self.encoding.domain_size)
        return np.array([self.encoding.places.get(distance, none) for distance in distances], np.int32).reshape(
            1, -1, 1
        )

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        """Encode distances from the cohort, with a bit more for what is not asked for; then drop that bit."""
        asked, size = self.encoding.num_bits, self.encoding.domain_size
        distances = ((symbols.astype(np.int64) - cohorts) % size).astype(np.int32)
        bits = self.simulate(table, distances, np.zeros(len(symbols), np.uint16), stream, asked + 1)
        bits[:, asked // 64] &= np.uint64((1 << asked % 64) - 1)
        return bits[:, : -(-asked // 64)]

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count bits by cohort: an estimate says which symbols they are of."""
        self.refuse_values(values, BITS)
        return batch.accumulate()

    def asked(self, counts: SupportCounts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each symbol how many reports were asked for it, and in how many its bit was set."""
        size = self.encoding.domain_size
        asked, ones = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for bit, offset in enumerate(self.encoding.offsets):
            asked += np.roll(counts.totals, offset)
            ones += np.roll(counts.ones[:, bit], offset)
        return asked, ones

    def estimate(
        self, counts: SupportCounts, names: Sequence[str] | None, *, reports_per_device: float = 1.0, **choices: Any
    ) -> Estimate:
        """Debias bits among the s of n reports asked for them, which adds ``x (1 - x) (1 - s/n) / s`` of variance."""
        from overstory.analysis.estimate import null_support, unbiased
        from overstory.analysis.variance import clustering

        asked, ones = self.asked(counts)
        (p_star, q_star), reports = self.rates, counts.num_reports
        reached = np.maximum(asked, 1)
        shares = np.where(asked, (ones / reached - q_star) / (p_star - q_star), 0.0)
        held = np.clip(shares, 0, 1)
        shared = clustering(self.mechanism, reports_per_device)
        noise = support_noise(held, 1 - held, p_star, q_star) + shared.excess(held, 1 - held)
        sampling = reports_per_device * held * (1 - held) * (1 - reached / max(reports, 1))  # devices were sampled
        spread = (noise / (p_star - q_star) ** 2 + sampling) / reached
        errors = np.where(asked, np.sqrt(spread) * reports, np.inf)
        values = [str(symbol) for symbol in range(len(asked))] if names is None else names
        return unbiased(
            values,
            shares * reports,
            errors,
            reports,
            reports_per_device=reports_per_device,
            notes=shared.note,
            joint_errors=SampledErrors(self.encoding, counts.totals),
            null_support=null_support(ones, asked, self.rates, shared),
            **choices,
        )
