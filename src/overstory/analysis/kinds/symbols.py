"""Support of reports that are one output of a set system: a report supports the values whose symbol or subset it is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.estimate import Estimate
from overstory.analysis.kinds.base import Cohorts, Support, Words, chosen, pooled, symbols_of
from overstory.analysis.kinds.work import Work
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.variance import error_bound
from overstory.protocol.channels import ONE
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_SYMBOLS, check_symbol
from overstory.protocol.kinds.symbols import SymbolMechanism

if TYPE_CHECKING:
    from overstory.kernels.devices import StreamKey


class OutputSupport(Support[Any]):
    """One output a report."""

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return symbols_of(values, self.domain_size or 0)

    @property
    def inside(self) -> int:
        """P(the output is one of the value's own) over 2**32."""
        return int(self.mechanism.p_star * ONE)


class CountedByValue(Support[Any]):
    """Which values an output supports is counted at once, for the whole domain."""

    @abstractmethod
    def supports(self, batch: ReportBatch) -> NDArray[np.integer[Any]]:
        """Return how many reports support each value of the domain."""

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        return chosen(pooled(self.supports(batch), len(batch)), values)


class SymbolSupport(OutputSupport):
    """The output is a symbol: what the value is encoded as, sent through the channels."""

    mechanism: SymbolMechanism

    @abstractmethod
    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        """Return the symbol that the channels work on, for each device."""

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        from overstory.kernels.devices import simulate_symbols

        rounds = self.mechanism.rounds
        alphas = [int(channel.alpha * ONE) for channel in (rounds.permanent, rounds.instantaneous)]
        permanent, instantaneous = (None if alpha == ONE else alpha for alpha in alphas)
        reported = simulate_symbols(
            self.encode(table, symbols, cohorts),
            cohorts.astype(np.uint32),
            self.num_outputs,
            permanent,
            instantaneous,
            stream,
        )
        return reported.astype(np.uint64).reshape(-1, 1)


class DirectSupport(CountedByValue, SymbolSupport):
    """The value is the symbol."""

    work = Work("n + d")

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:  # noqa: ARG002
        return table[symbols]

    def supports(self, batch: ReportBatch) -> NDArray[np.intp]:
        return np.bincount(self.outputs(batch), minlength=self.num_outputs)


class HadamardSupport(CountedByValue, SymbolSupport):
    """The value's sign in the report's row of the Hadamard matrix; all values at once by a fast transform."""

    work = Work("n + d log d")
    watched: ClassVar[frozenset[str]] = frozenset({"pairs", "seeds"})

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        from overstory.kernels.small_hashes import encode_hadamard

        return encode_hadamard(table[symbols], cohorts)

    def supports(self, batch: ReportBatch) -> NDArray[np.int64]:
        from overstory.kernels.small_hashes import count_hadamard_support

        return count_hadamard_support(batch.cohorts, self.outputs(batch).astype(np.uint32), self.encoding.domain_size)

    def votes(self, batch: ReportBatch, num_values: int) -> Words:
        table, signs = self.table(range(num_values)), batch.bits[:, 0].astype(np.uint32)
        votes = np.zeros((len(batch), -(-num_values // 64)), np.uint64)
        for value in range(num_values):
            encoded = self.encode(table, np.full(len(batch), value, np.int32), batch.cohorts)
            votes[:, value // 64] |= (encoded == signs).astype(np.uint64) << np.uint64(value % 64)
        return votes


class LinearSupport(CountedByValue, SymbolSupport):
    """The value's linear hash under the report's seed; all values at once by a fast transform."""

    work = Work("n g + d log d", report=1e-7)
    watched: ClassVar[frozenset[str]] = frozenset({"seeds"})
    independent_seeds = True

    @property
    def hash_shape(self) -> tuple[int, int]:
        """Bits of a value, and of its hash."""
        return self.encoding.num_bits, self.encoding.hash_bits

    def table(self, values: Sequence[Any]) -> NDArray[np.uint64]:
        size = self.domain_size or 0
        if size > 1 << 63:  # no signed integer holds these
            return np.array([check_symbol(value, size) for value in values], np.uint64)
        return super().table(values).astype(np.uint64)

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[np.uint32]:
        from overstory.kernels.small_hashes import encode_linear

        return encode_linear(table, symbols, cohorts, *self.hash_shape)

    def supports(self, batch: ReportBatch) -> NDArray[np.int64]:
        size = self.encoding.domain_size
        if size > MAX_SYMBOLS:
            raise ParameterError(f"{self.mechanism.name}: {size} values are too many to count at once: give values")
        return self._first_supports(batch, size)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count the domain, or a range from 0, by one transform; other values one by one."""
        if values is None:
            return super().count(batch, None)
        if isinstance(values, range) and len(values) and values == range(len(values)):
            return pooled(self._first_supports(batch, len(values)), len(batch))
        return pooled(self.count_extensions(batch, self.table(values), 0)[:, 0], len(batch))

    def _first_supports(self, batch: ReportBatch, size: int) -> NDArray[np.int64]:
        return self.count_extensions(batch, np.zeros(1, np.uint64), (size - 1).bit_length())[0, :size]

    def count_extensions(self, batch: ReportBatch, parents: NDArray[np.uint64], step: int) -> NDArray[np.int64]:
        """Return the support of every extension of `parents` by `step` bits, shape (b, 2**step)."""
        from overstory.kernels.small_hashes import count_blocks, masks_of

        masks = masks_of(batch.cohorts, *self.hash_shape)
        return count_blocks(masks, self.outputs(batch).astype(np.uint32), parents, step)


class SubsetSupport(CountedByValue, OutputSupport):
    """A subset of the values, as bits, supports its members."""

    work = Work("n d bits added", cell=5e-11)
    watched: ClassVar[frozenset[str]] = frozenset({"pairs"})

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:  # noqa: ARG002
        """Draw subsets; they are memoized, so all reports of a device are one."""
        from overstory.kernels.devices import simulate_subsets

        shape = self.encoding.domain_size, self.encoding.subset_size
        return simulate_subsets(table[symbols], *shape, self.inside, stream)

    def supports(self, batch: ReportBatch) -> NDArray[np.int64]:
        size, members = self.encoding.subset_size, np.bitwise_count(batch.bits).sum(axis=1)
        if (wrong := members[members != size]).size:
            raise ParameterError(f"a report of {self.mechanism.name} has {size} members, not {wrong[0]}")
        return batch.accumulate().ones


class ListedSupport(CountedByValue, OutputSupport):
    """An output supports the values that own it, as `protocol.kinds.own_oracles` lists them."""

    work = Work("n + d outputs each", value=1e-7)

    @property
    def inside(self) -> int:
        return int(self.mechanism.inside * ONE)  # p* is what its author states

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:  # noqa: ARG002
        """Draw outputs; they are memoized, so all reports of a device are one."""
        from overstory.kernels.devices import below, in_tiles, stream_starts, stream_words

        (outputs, own, _), held, drawn = self.encoding.sizes, table[symbols], np.empty(len(symbols), np.uint64)
        # A value's own outputs, then all others.
        order = np.array([[*owned, *sorted({*range(outputs)} - {*owned})] for owned in self.encoding.owned])

        def draw(rows: slice, devices: NDArray[np.int64]) -> None:
            starts = stream_starts(stream.key, b"listed-1", devices, held[rows])
            is_inside = stream_words(starts, 0) >> np.uint64(32) < np.uint64(self.inside)
            place = below(stream_words(starts, 1), np.where(is_inside, own, outputs - own)).astype(np.int64)
            drawn[rows] = order[held[rows], np.where(is_inside, place, own + place)]

        in_tiles(draw, stream, held.size)
        return drawn.reshape(-1, 1)

    def supports(self, batch: ReportBatch) -> NDArray[np.integer[Any]]:
        histogram = np.bincount(self.outputs(batch), minlength=self.num_outputs)
        return np.asarray(histogram[np.array(self.encoding.owned)].sum(axis=1))


def lecture_notes(mechanism: SymbolMechanism, num_reports: int, reports_per_device: float = 1.0) -> list[str]:
    """Return in words: the error bound, where seeds leave no error of their own, and the lecture's real epsilon."""
    notes: list[str] = []
    if mechanism.name != "random-matrix" or not num_reports:
        return notes
    if not mechanism.encoding.uneven:
        # Hoeffding over devices: one's r reports span r times as far, so the sum of squared spans is R times as large.
        bound = error_bound(mechanism, num_reports / reports_per_device, 0.05) * num_reports
        several = "" if reports_per_device == 1 else f", r = {reports_per_device:g} reports a device"
        formula = f"sqrt(2 n {'r ' if several else ''}ln(2 / beta)) (e^eps + 1) / (e^eps - 1){several}"
        notes.append(f"with probability 95% the count of any one value is within {bound:,.0f} of it: {formula}")
    advantage = mechanism.parameters.get("advantage")
    if advantage is not None:
        notes.append(
            f"the true sign is sent with probability 1/2 + {advantage:g}: that is epsilon "
            f"{mechanism.epsilon_report:.4f}, not {advantage:g}"
        )
    return notes


def with_notes(estimate: Estimate, *notes: str) -> Estimate:
    """Return the estimate with more for its reader to know."""
    return replace(estimate, notes=(*estimate.notes, *notes))
