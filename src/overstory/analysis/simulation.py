"""Simulated devices: a whole population reporting at once, in the same mechanism with the same numbers.

Every device has a number; its permanent response is a keyed function of (seed, device, cohort, value), so a second
report of the same value keeps it, as on a real device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.positions import positions_of
from overstory.analysis.reports import ReportBatch
from overstory.protocol.channels import BinaryChannel
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism


@dataclass(frozen=True, eq=False)
class SimulatedDevices:
    """A population of devices, each holding one value.

    Parameters
    ----------
    mechanism
        What they randomize with.
    positions : ndarray of int, shape (num_cohorts, num_values, num_hashes)
        The bits each value sets.
    symbols : ndarray of int32, shape (n,)
        Each device's value, as an index into `positions`.
    cohorts : ndarray of uint16, shape (n,)
        Each device's cohort.
    key : bytes
        32 bytes that all the randomness follows from.
    """

    mechanism: BitMechanism
    positions: NDArray[np.integer[Any]]
    symbols: NDArray[np.int32]
    cohorts: NDArray[np.uint16]
    key: bytes

    @classmethod
    def holding(
        cls, mechanism: BitMechanism, values: Sequence[Any], symbols: NDArray[Any], rng: np.random.Generator
    ) -> SimulatedDevices:
        """Make devices of which number i holds ``values[symbols[i]]``, in cohorts drawn uniformly.

        Raises
        ------
        ParameterError
            When a value is outside the domain or a symbol outside `values`.
        """
        from overstory.kernels.simulate import assign_cohorts

        chosen = np.asarray(symbols)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(values):
            raise ParameterError(f"symbols must lie in 0 .. {len(values) - 1}: they are indices into the values")
        key = rng.bytes(32)
        cohorts = assign_cohorts(key, mechanism.encoding.num_cohorts, len(chosen))
        return cls(mechanism, positions_of(mechanism.encoding, values), chosen.astype(np.int32), cohorts, key)

    def __len__(self) -> int:
        return len(self.symbols)

    def report(self, index: int = 0, *, start: int = 0, stop: int | None = None) -> ReportBatch:
        """Return report number `index` of the devices ``start .. stop - 1``; the same call gives the same bits."""
        from overstory.kernels.simulate import simulate_bits

        rows = slice(start, len(self) if stop is None else stop)
        encoding, rounds = self.mechanism.encoding, self.mechanism.rounds
        bits = simulate_bits(
            self.positions,
            self.symbols[rows],
            self.cohorts[rows],
            _thresholds(rounds.permanent),
            _thresholds(rounds.instantaneous),
            self.key,
            num_bits=encoding.num_bits,
            first_device=start,
            report_index=index,
        )
        return ReportBatch(self.cohorts[rows], bits, encoding.num_bits, encoding.num_cohorts)

    def batches(self, index: int = 0, *, size: int = 1 << 17) -> Iterator[ReportBatch]:
        """Yield report number `index` of all devices in batches of `size`, so that memory stays flat."""
        for start in range(0, len(self), size):
            yield self.report(index, start=start, stop=min(start + size, len(self)))


def _thresholds(channel: BinaryChannel) -> tuple[int, int] | None:
    return None if channel.is_identity else channel.thresholds
