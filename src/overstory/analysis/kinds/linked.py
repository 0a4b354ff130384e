"""Support of linked reports: in how many reports of each cohort two supports, one of each part, come together.

A support is a symbol, or a bit that is 1. A last row and a last column count each support alone, and their corner the
reports: all that an estimate of the table needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Cohorts, ServerHalf, Support, Words, support_of, symbols_of
from overstory.analysis.reports import ReportBatch, SupportCounts, count_bits, unpack_bits
from overstory.kernels.columns import COMPILING, are_few
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_COHORTS
from overstory.protocol.kinds.joint import JointMechanism

if TYPE_CHECKING:
    from overstory.kernels.devices import StreamKey


I64 = NDArray[np.int64]
TOGETHER: Final = 1 << 14  # products of bits that NumPy sums in the time of a block of `overstory.kernels.columns`
ROWS: Final = 1 << 12  # reports that are unpacked at a time


class PairCounts(NamedTuple):
    """The counts of one collection, apart."""

    both: I64  # shape (num_cohorts, k_x, k_y): reports that have a support of each part
    first: I64  # shape (num_cohorts, k_x): reports that have each support of this part
    second: I64  # shape (num_cohorts, k_y)
    totals: I64  # shape (num_cohorts,)


def pair_counts(mechanism: JointMechanism, counts: SupportCounts) -> PairCounts:
    """Take a collection's counts apart."""
    first, second = LinkedSupport(mechanism).sizes
    if counts.ones.shape != (mechanism.num_cohorts, (first + 1) * (second + 1)):
        raise ParameterError(
            f"{mechanism.name} counts {mechanism.num_cohorts} x {(first + 1) * (second + 1)} pairs, not "
            f"{counts.num_cohorts} x {counts.num_bits}"
        )
    return apart(counts, first, second)


def apart(counts: SupportCounts, first: int, second: int) -> PairCounts:
    """Take the counts of pairs of supports apart."""
    table = counts.ones.reshape(-1, first + 1, second + 1)
    if not np.array_equal(table[:, first, second], counts.totals):
        raise ParameterError("these are no counts of pairs: the last count of a cohort is not its number of reports")
    return PairCounts(table[:, :first, :second], table[:, :first, second], table[:, first, :second], counts.totals)


class LinkedSupport(ServerHalf[JointMechanism]):
    """The server's half of linked reports."""

    @cached_property
    def halves(self) -> tuple[Support[Any], Support[Any]]:
        first, second = map(support_of, self.mechanism.components)
        return first, second

    @property
    def sizes(self) -> tuple[int, int]:
        first, second = (half.num_supports for half in self.halves)
        return first, second

    def shape(self, labels: Sequence[str]) -> tuple[int, int]:  # noqa: ARG002 - candidates are chosen later
        first, second = self.sizes
        return self.mechanism.num_cohorts, (first + 1) * (second + 1)

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        pairs = [self.mechanism.split(value) for value in values]
        tables = np.empty(2, object)
        for place, half in enumerate(self.halves):
            tables[place] = half.table([pair[place] for pair in pairs])
        return tables

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        """Let each part respond from a stream of its own, and lay the payloads side by side."""
        words = []
        for place, half in enumerate(self.halves):
            own = cohorts if half.mechanism.num_cohorts > 1 else np.zeros_like(cohorts)
            key = blake2b(stream.key, digest_size=32, person=b"linked part %d" % place).digest()
            words.append(half.respond(table[place], symbols, own, replace(stream, key=key)))
        low = self.mechanism.components[self.mechanism.low]
        first, second = words[self.mechanism.low], words[1 - self.mechanism.low]
        if all(half.one_support for half in self.halves):
            return np.asarray(first + np.uint64(low.payload_limit) * second)
        return beside(first, second, low.payload_bits, self.mechanism.payload_bits)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        self.refuse_values(values, "pairs of supports, not values: give candidates to decode")
        table = self._count(batch)
        return SupportCounts(table[:, -1, -1], table.reshape(len(table), -1))

    def _count(self, batch: ReportBatch) -> I64:
        (x, y), (first, second) = self.halves, self.sizes
        if not (x.one_support or y.one_support):
            return count_bit_pairs(batch, first, second)
        cohorts = batch.cohorts.astype(np.int64)
        if x.one_support and y.one_support:
            pairs = (cohorts * first + self._symbols(batch, 0)) * second + self._symbols(batch, 1)
            both = np.bincount(pairs, minlength=batch.num_cohorts * first * second).reshape(-1, first, second)
            return _bordered(both, both.sum(axis=2), both.sum(axis=1), both.sum(axis=(1, 2)))
        place = 0 if x.one_support else 1
        size, width = self.sizes[place], self.sizes[1 - place]
        words = words_of_part(self.mechanism, batch.bits, 1 - place)
        each, ones = _bits_by_symbol(words, cohorts, self._symbols(batch, place), batch, size)
        both = ones[:, :, :width]
        if place == 0:
            return _bordered(both, each, both.sum(axis=1), each.sum(axis=1))
        return _bordered(both.transpose(0, 2, 1), both.sum(axis=1), each, each.sum(axis=1))

    def _symbols(self, batch: ReportBatch, place: int) -> I64:
        symbols = words_of_part(self.mechanism, batch.bits, place)[:, 0].astype(np.int64)
        return symbols_of(symbols, self.sizes[place])


def count_bit_pairs(batch: ReportBatch, first: int, second: int) -> I64:
    """Count pairs of bits, each bit alone, and reports: shape (num_cohorts, first + 1, second + 1)."""
    if are_few(len(batch) * first * second // TOGETHER, "bits/pairs", at_once=COMPILING):
        return count_pairs_slowly(batch.bits, batch.cohorts, batch.num_cohorts, first, second)
    from overstory.kernels.bits.pairs import count_pairs_by_cohort

    return count_pairs_by_cohort(batch.bits, batch.cohorts, batch.num_cohorts, first, second)


def words_of_part(mechanism: JointMechanism, bits: Words, place: int) -> Words:
    """Return the packed payloads of one part of linked reports."""
    parts, low = mechanism.components, mechanism.low
    unit = parts[low].payload_limit
    if all(half.one_support for half in LinkedSupport(mechanism).halves):
        high, rest = np.divmod(bits, np.uint64(unit))
        return rest if place == low else high
    offset = 0 if place == low else parts[low].payload_bits
    return part_of(bits, offset, parts[place].payload_bits)


def _bits_by_symbol(bits: Words, cohorts: I64, symbols: I64, batch: ReportBatch, size: int) -> tuple[I64, I64]:
    """Return the reports of each (cohort, symbol), and how many of them have each bit."""
    groups = batch.num_cohorts * size
    if groups > MAX_COHORTS:
        raise ParameterError(f"{batch.num_cohorts} cohorts of {size} symbols: at most {MAX_COHORTS} are counted apart")
    totals, ones = count_bits(bits, (cohorts * size + symbols).astype(np.uint16), groups)
    return totals.reshape(-1, size), ones.reshape(batch.num_cohorts, size, -1)


def _bordered(both: I64, first: I64, second: I64, totals: I64) -> I64:
    """Return the counts of pairs with those of each support alone, and of reports, as last row and column."""
    cohorts, rows, columns = both.shape
    table = np.empty((cohorts, rows + 1, columns + 1), np.int64)
    table[:, :rows, :columns], table[:, :rows, columns], table[:, rows, :columns] = both, first, second
    table[:, rows, columns] = totals
    return table


def part_of(bits: Words, offset: int, width: int) -> Words:
    """Return `width` bits of packed reports from bit `offset` on, packed from bit 0."""
    word, shift = divmod(offset, 64)
    words = -(-width // 64)
    taken = bits[:, word : word + words] >> np.uint64(shift)
    if shift:
        above = bits[:, word + 1 : word + 1 + words] << np.uint64(64 - shift)
        taken[:, : above.shape[1]] |= above
    if taken.shape[1] < words:  # never where the reports have all the bits
        raise ParameterError(f"reports of {64 * bits.shape[1]} bits have no {width} bits from bit {offset} on")
    if width % 64:
        taken[:, -1] &= np.uint64((1 << width % 64) - 1)
    return taken


def beside(first: Words, second: Words, width: int, total: int) -> Words:
    """Return payloads of `total` bits: `first` in the low `width` bits, `second` above."""
    words, (word, shift) = -(-total // 64), divmod(width, 64)
    out = np.zeros((len(first), words), np.uint64)
    out[:, : first.shape[1]] = first
    out[:, word : word + second.shape[1]] |= (second << np.uint64(shift))[:, : words - word]
    if shift:
        above = (second >> np.uint64(64 - shift))[:, : words - word - 1]
        out[:, word + 1 : word + 1 + above.shape[1]] |= above
    return out


def count_pairs_slowly(bits: Words, cohorts: Cohorts, num_cohorts: int, first: int, second: int) -> I64:
    """Return what `kernels.bits.pairs` counts, by matrix products of unpacked bits."""
    counts = np.zeros((num_cohorts, first + 1, second + 1), np.int64)
    for cohort in range(num_cohorts):
        rows = np.flatnonzero(cohorts == cohort)
        for start in range(0, len(rows), ROWS):
            unpacked = unpack_bits(bits[rows[start : start + ROWS]])
            ones = np.ones((len(unpacked), 1), np.float32)
            x = np.hstack((unpacked[:, :first], ones)).astype(np.float32)
            y = np.hstack((unpacked[:, first : first + second], ones)).astype(np.float32)
            counts[cohort] += (x.T @ y).astype(np.int64)  # sums below 2**12 are exact in 24 bits
    return counts
