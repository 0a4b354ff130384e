"""The server's half of a question: what its devices would send, and how many reports support a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.counts import SupportCounts
from overstory.analysis.reports import ReportBatch
from overstory.analysis.support import Cohorts, Simulation, Support, pooled
from overstory.analysis.support_families import support_of
from overstory.analysis.support_symbols import SymbolSupport
from overstory.discovery.linear_hash import LinearHash
from overstory.kernels.few_hashes import count_blocks, encode_linear, masks_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Mechanism


class LinearSupport(SymbolSupport):
    """The value's linear hash under the report's seed."""

    @property
    def shape(self) -> tuple[int, int]:
        """Bits of a value, and of a hash."""
        encoding = self.mechanism.encoding
        assert isinstance(encoding, LinearHash)
        return encoding.num_bits, encoding.hash_bits

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the values themselves."""
        return np.array(values, np.uint64)

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        """Hash."""
        hashed: NDArray[np.uint32] = encode_linear(table, symbols, cohorts, *self.shape)
        return hashed

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count values: a range from 0 to a power of two by one transform, others one by one.

        Raises
        ------
        ParameterError
            When none are given: there are too many to count.
        """
        if values is None:
            raise ParameterError("the linear hash's domain is too large to count whole: give values")
        if isinstance(values, range) and values == range(1 << (len(values).bit_length() - 1)):
            whole = self.blocks(batch, np.zeros(1, np.uint64), len(values).bit_length() - 1)
            return pooled(whole, len(batch))
        return pooled(self.blocks(batch, self.table(values), 0)[:, 0], len(batch))

    def blocks(self, batch: ReportBatch, parents: NDArray[np.uint64], step: int) -> NDArray[np.int64]:
        """Return the support of every extension of `parents` by `step` bits, shape (b, 2**step)."""
        masks = masks_of(batch.cohorts, *self.shape)
        return count_blocks(masks, self.outputs(batch).astype(np.uint32), parents, step)


def reader_of(mechanism: Mechanism) -> Support[Any]:
    """Return the server's half of a mechanism, the linear hash's included."""
    if isinstance(mechanism.encoding, LinearHash):
        return LinearSupport(mechanism)  # type: ignore[arg-type]
    return support_of(mechanism)


def respond(mechanism: Mechanism, names: Sequence[Any], symbols: NDArray[np.int64], key: bytes) -> ReportBatch:
    """Return one report of each device, device i holding ``names[symbols[i]]``, through the mechanism's own kernels."""
    reader = reader_of(mechanism)
    size = getattr(mechanism.encoding, "domain_size", None)
    if size is None or isinstance(mechanism.encoding, LinearHash):
        table, held = reader.table(names), symbols
    else:  # the whole domain is one range, and a name is its place in it
        table, held = reader.table(range(size)), np.asarray(names, np.int64)[symbols]
    cohorts = reader.assign_cohorts(key, len(symbols))
    bits = reader.respond(table, held.astype(np.int32), cohorts, Simulation(key))
    return ReportBatch(cohorts, bits, mechanism.payload_bits, mechanism.num_cohorts)


def support_counts(mechanism: Mechanism, batch: ReportBatch, names: Sequence[Any]) -> NDArray[np.int64]:
    """Return how many reports support each of `names`; a range of the whole domain is counted fastest."""
    reader = reader_of(mechanism)
    whole = isinstance(names, range) and names == range(reader.domain_size or 0)
    return np.asarray(reader.count(batch, None if whole else names).ones.sum(axis=0))
