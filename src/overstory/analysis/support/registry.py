"""Which encoding is read by which support, and the simulated devices of any oracle.

The table here is the one place where the server's half tells oracles apart. A population reporting at once, in the same
mechanism with the same numbers.

Every device has a number; its permanent response is a keyed function of (seed, device, cohort, value), so a second
report of the same value keeps it, as on a real device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.support.base import Cohorts, ServerHalf, StreamKey, Support
from overstory.analysis.support.bits import BloomSupport, OneHotSupport, SampledSupport
from overstory.analysis.support.divided import DividedHalf
from overstory.analysis.support.item_sets import ItemBitSupport, PaddedSupport
from overstory.analysis.support.linked import LinkedSupport
from overstory.analysis.support.numbers import LevelHalf, MeanHalf, WaveHalf
from overstory.analysis.support.positions import symbols_of
from overstory.analysis.support.searches import SearchHalf
from overstory.analysis.support.seeds import BalancedSupport, SeededSupport
from overstory.analysis.support.sets import PointSupport, SubsetSupport
from overstory.analysis.support.symbols import DirectSupport, HadamardSupport, LinearSupport
from overstory.protocol.encodings.base import MAX_COHORTS
from overstory.protocol.encodings.bits import Bloom, OneHot, SampledBits
from overstory.protocol.encodings.item_sets import ItemBits, PaddedItems
from overstory.protocol.encodings.seeds import BalancedHash, SeededHash
from overstory.protocol.encodings.sets import Projective, Subsets
from overstory.protocol.encodings.symbols import Direct, HadamardRow, LinearHash
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Mechanism
from overstory.protocol.mechanisms.divided import DividedMechanism
from overstory.protocol.mechanisms.joint import JointMechanism
from overstory.protocol.numeric.means import MeanRandomizer
from overstory.protocol.numeric.ranges import RangeRandomizer
from overstory.protocol.numeric.windows import SquareWave
from overstory.protocol.search.mechanism import SearchMechanism

FAMILIES: Final[dict[type, type[Support[Any]]]] = {
    OneHot: OneHotSupport,
    Bloom: BloomSupport,
    SampledBits: SampledSupport,
    Direct: DirectSupport,
    LinearHash: LinearSupport,
    HadamardRow: HadamardSupport,
    BalancedHash: BalancedSupport,
    SeededHash: SeededSupport,
    Subsets: SubsetSupport,
    Projective: PointSupport,
    PaddedItems: PaddedSupport,
    ItemBits: ItemBitSupport,
}


def support_of(mechanism: Mechanism) -> Support[Any]:
    """Return the server's half of a mechanism."""
    family = FAMILIES.get(type(mechanism.encoding))
    if family is None:
        raise ParameterError(f"there is no server's half for the encoding {type(mechanism.encoding).__name__}")
    return family(mechanism)


HALVES: Final[dict[type, type[ServerHalf[Any]]]] = {
    DividedMechanism: DividedHalf,
    JointMechanism: LinkedSupport,
    MeanRandomizer: MeanHalf,
    SquareWave: WaveHalf,
    RangeRandomizer: LevelHalf,
    SearchMechanism: SearchHalf,
}
"""The server's half of a mechanism that is no frequency oracle, by its class."""


def server_half(mechanism: LocalRandomizer) -> ServerHalf[Any]:
    """Return what counts a mechanism's reports, whichever its kind."""
    half = next((HALVES[kind] for kind in type(mechanism).__mro__ if kind in HALVES), None)
    if half is not None:
        return half(mechanism)
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(f"reports of {mechanism.name} are not counted: there is no server's half for them")
    return support_of(mechanism)


def count_reports(mechanism: LocalRandomizer, batch: ReportBatch, values: Sequence[Any] | None = None) -> SupportCounts:
    """Return the counts of a batch of a mechanism's reports."""
    shape = mechanism.payload_bits, mechanism.num_cohorts
    if (batch.num_bits, batch.num_cohorts) != shape:
        raise ParameterError(
            f"{mechanism.name} reports have {shape[0]} bits and {shape[1]} cohorts, "
            f"not {batch.num_bits} and {batch.num_cohorts}"
        )
    return server_half(mechanism).count(batch, values)


Rng: TypeAlias = "int | np.integer[Any] | np.random.Generator | None"  # a text: numpy.random is not loaded for it
"""Randomness for simulations, as NumPy takes it: a seed, a generator, or None for a fresh one."""


def generator(rng: Rng) -> np.random.Generator:
    """Return a generator for a simulation. Real devices never take one: their bits come from the operating system."""
    try:
        if not isinstance(rng, bool | np.bool):
            return np.random.default_rng(rng)
    except (TypeError, ValueError):
        pass
    raise ParameterError(f"rng = {rng!r}: give a whole number of at least 0, a numpy.random.Generator, or None")


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedDevices:
    """A population of devices, each holding one value: all the randomness follows from the 32 bytes of `key`."""

    mechanism: LocalRandomizer
    table: NDArray[Any]  # what each value is encoded from: see `Support.table`
    symbols: NDArray[np.int32]  # shape (n,): each device's value, as an index into `table`
    cohorts: Cohorts  # shape (n,)
    key: bytes

    @classmethod
    def holding(
        cls, mechanism: LocalRandomizer, values: Sequence[Any], symbols: NDArray[Any], rng: np.random.Generator
    ) -> SimulatedDevices:
        """Make devices of which number i holds ``values[symbols[i]]``, in cohorts drawn uniformly."""
        held = symbols_of(symbols, len(values))
        if isinstance(values, range) and len(values) > MAX_COHORTS:  # of a large domain, only what somebody holds
            distinct, held = np.unique(held, return_inverse=True)
            values = distinct.tolist()
        key, support = rng.bytes(32), server_half(mechanism)
        cohorts = support.assign_cohorts(key, len(held))
        return cls(mechanism, support.table(values), held.astype(np.int32), cohorts, key)

    def __len__(self) -> int:
        return len(self.symbols)

    def __repr__(self) -> str:
        return f"SimulatedDevices({len(self):,} devices, {self.mechanism.name})"

    def report(self, index: int = 0, *, start: int = 0, stop: int | None = None) -> ReportBatch:
        """Return report number `index` of the devices ``start .. stop - 1``; the same call gives the same bits."""
        rows = slice(start, len(self) if stop is None else stop)
        stream = StreamKey(self.key, first_device=start, report_index=index)
        cohorts, built = self.cohorts[rows], self.mechanism
        bits = server_half(built).respond(self.table, self.symbols[rows], cohorts, stream)
        return ReportBatch(cohorts, bits, built.payload_bits, built.num_cohorts)

    def batches(self, index: int = 0, *, size: int = 1 << 17) -> Iterator[ReportBatch]:
        """Yield report number `index` of all devices in batches of `size`, so that memory stays flat."""
        for start in range(0, len(self), size):
            yield self.report(index, start=start, stop=min(start + size, len(self)))
