"""Devices divided over tables: the support of each table's cells, a table in the place of a cohort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.support.base import Cohorts, ServerHalf, StreamKey, Support, Words
from overstory.analysis.support.bits import OneHotSupport
from overstory.analysis.support.positions import symbols_of
from overstory.analysis.support.sets import PointSupport
from overstory.analysis.support.symbols import DirectSupport
from overstory.protocol.encodings.bits import OneHot
from overstory.protocol.encodings.sets import Projective
from overstory.protocol.encodings.symbols import Direct
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.divided import DividedMechanism

_HALVES: dict[type, type[Support[Any]]] = {Direct: DirectSupport, OneHot: OneHotSupport, Projective: PointSupport}


def half_of(part: Mechanism) -> Support[Any]:
    """Return the server's half of one table's oracle."""
    return _HALVES[type(part.encoding)](part)


class DividedHalf(ServerHalf[DividedMechanism]):
    """The server's half: each report is counted by the oracle of its table."""

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return symbols_of(values, self.mechanism.domain_size)

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        held = np.asarray(table)[symbols]
        out = np.zeros((held.size, -(-self.mechanism.payload_bits // 64)), np.uint64)
        for number, part in enumerate(self.mechanism.parts):
            here, half = np.asarray(cohorts) == number, half_of(part)
            keyed = StreamKey(bytes(byte ^ number for byte in stream.key), stream.first_device, stream.report_index)
            cells = self.cells(held, number).astype(np.int32)
            sent = half.respond(half.table(range(part.domain_size or 0)), cells, np.zeros(held.size, np.uint16), keyed)
            out[here, : sent.shape[1]] = sent[here]
        return out

    def cells(self, symbols: NDArray[Any], table: int) -> NDArray[np.int64]:
        """Return which cell of a table each symbol is in."""
        parts = np.unravel_index(symbols, self.mechanism.sizes)
        chosen = self.mechanism.tables[table]
        shape = [self.mechanism.sizes[variable] for variable in chosen]
        return np.asarray(np.ravel_multi_index([parts[variable] for variable in chosen], shape), np.int64)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None = None) -> SupportCounts:
        """Count the support of each table's cells, a row for each table."""
        if values is not None:
            raise ParameterError(f"{self.mechanism.name} counts the cells of its tables, not chosen values")
        totals = np.zeros(self.mechanism.num_cohorts, np.int64)
        ones = np.zeros((self.mechanism.num_cohorts, self.num_cells), np.int64)
        for number, part in enumerate(self.mechanism.parts):
            rows = np.asarray(batch.cohorts) == number
            if not rows.any():
                continue
            words = np.ascontiguousarray(batch.bits[rows, : -(-part.payload_bits // 64)])
            own = ReportBatch(np.zeros(len(words), np.uint16), words, part.payload_bits, 1)
            counted = half_of(part).count(own, None)
            totals[number] = counted.num_reports
            ones[number, : counted.num_bits] = counted.ones.sum(axis=0)
        return SupportCounts(totals, ones)

    @property
    def num_cells(self) -> int:
        return max(part.domain_size or 0 for part in self.mechanism.parts)

    def of_table(self, counts: SupportCounts, table: int) -> SupportCounts:
        """Return one table's counts, as its oracle estimates from them."""
        size = self.mechanism.parts[table].domain_size or 0
        return SupportCounts([counts.totals[table]], counts.ones[table : table + 1, :size])

    def num_counts(self, labels: Sequence[str]) -> int:  # noqa: ARG002 - tables have cells of their own
        return self.mechanism.num_cohorts * self.num_cells

    def count_names(self, size: int, labels: Sequence[str]) -> list[str]:  # noqa: ARG002 - tables have cells of their own
        return [f"cell{cell}" for cell in range(size)]
