"""The simulated devices of any mechanism: a population reporting at once, in the same mechanism with the same numbers.

Every device has a number; its permanent response is a keyed function of (seed, device, cohort, value), so a second
report of the same value keeps it, as on a real device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch
from overstory.analysis.support.base import Cohorts, count_reports, server_half, support_of
from overstory.analysis.support.positions import symbols_of
from overstory.kernels.devices import StreamKey
from overstory.protocol.encodings.base import MAX_COHORTS
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer

__all__ = ["Rng", "SimulatedDevices", "count_reports", "generator", "server_half", "support_of"]

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
