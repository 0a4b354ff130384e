"""Support of reports that are one symbol: the value's own, its hash, or its sign."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.estimate import Estimate
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.support.base import Cohorts, StreamKey, Support, Words, chosen, pooled
from overstory.analysis.support.positions import symbols_of
from overstory.analysis.support.work import Work
from overstory.analysis.variance import error_bound
from overstory.protocol.channels import ONE
from overstory.protocol.encodings.base import MAX_SYMBOLS, check_symbol
from overstory.protocol.encodings.seeds import SeededHash
from overstory.protocol.encodings.symbols import LinearHash
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import SymbolMechanism


class SymbolSupport(Support[SymbolMechanism]):
    """A report supports the values that have its symbol in its cohort."""

    @property
    def num_outputs(self) -> int:
        """The alphabet's size."""
        return self.mechanism.encoding.num_symbols

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the symbols themselves."""
        return symbols_of(values, self.domain_size or 0)

    @abstractmethod
    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        """Return the symbol that the channels work on, for each device."""

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        """Pass the encoded symbols through both channels."""
        encoded, rounds = self.encode(table, symbols, cohorts), self.mechanism.rounds
        alphas = [int(channel.alpha * ONE) for channel in (rounds.permanent, rounds.instantaneous)]
        permanent, instantaneous = (None if alpha == ONE else alpha for alpha in alphas)
        from overstory.kernels.devices import simulate_symbols

        reported = simulate_symbols(
            encoded,
            cohorts.astype(np.uint32),
            self.num_outputs,
            permanent,
            instantaneous,
            stream.key,
            first_device=stream.first_device,
            report_index=stream.report_index,
        )
        return reported.astype(np.uint64).reshape(-1, 1)


class DirectSupport(SymbolSupport):
    """The value is the symbol."""

    work = Work("n + d")

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:  # noqa: ARG002
        """Return the value."""
        return table[symbols]

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count symbols."""
        ones = np.bincount(self.outputs(batch), minlength=self.num_outputs)
        return chosen(pooled(ones, len(batch)), values)


def lecture_notes(
    mechanism: SymbolMechanism, num_reports: int, reports_per_device: float = 1.0, beta: float = 0.05
) -> list[str]:
    """Return in words: the error bound, where seeds leave no error of their own, and the lecture's real epsilon."""
    notes: list[str] = []
    if mechanism.name != "random-matrix" or not num_reports:
        return notes
    if not isinstance(mechanism.encoding, SeededHash):
        # Hoeffding over devices: one's r reports span r times as far, so the sum of squared spans is R times as large.
        bound = error_bound(mechanism, num_reports / reports_per_device, beta) * num_reports
        several = "" if reports_per_device == 1 else f", r = {reports_per_device:g} reports a device"
        formula = f"sqrt(2 n {'r ' if several else ''}ln(2 / beta)) (e^eps + 1) / (e^eps - 1){several}"
        notes.append(
            f"with probability {1 - beta:.0%} the count of any one value is within {bound:,.0f} of it: {formula}"
        )
    advantage = mechanism.parameters.get("advantage")
    if advantage is not None:
        notes.append(
            f"the true sign is sent with probability 1/2 + {advantage:g}: that is epsilon "
            f"{mechanism.epsilon_report:.4f}, not {advantage:g}"
        )
    return notes


class HadamardSupport(SymbolSupport):
    """The value's sign in the report's row of the Hadamard matrix; all values at once by a fast transform."""

    work = Work("n + d log d")

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        """Look up the sign."""
        from overstory.kernels.small_hashes import encode_hadamard

        return encode_hadamard(table[symbols], cohorts)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Transform the signed histogram of rows."""
        size = self.domain_size
        assert size is not None
        from overstory.kernels.small_hashes import count_hadamard_support

        ones = count_hadamard_support(batch.cohorts, self.outputs(batch).astype(np.uint32), size)
        return chosen(pooled(ones, len(batch)), values)


class LinearSupport(SymbolSupport):
    """The value's linear hash under the report's seed; all values at once by a fast transform."""

    work = Work("n g + d log d", report=1e-7)

    @property
    def shape(self) -> tuple[int, int]:
        """Bits of a value, and of its hash."""
        encoding = self.mechanism.encoding
        assert isinstance(encoding, LinearHash)
        return encoding.num_bits, encoding.hash_bits

    def table(self, values: Sequence[Any]) -> NDArray[np.uint64]:
        """Return the values themselves."""
        size = self.domain_size or 0
        if size > 1 << 63:  # no signed integer holds these
            return np.array([check_symbol(value, size) for value in values], np.uint64)
        return super().table(values).astype(np.uint64)

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[np.uint32]:
        """Hash."""
        from overstory.kernels.small_hashes import encode_linear

        return encode_linear(table, symbols, cohorts, *self.shape)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count the domain, or a range from 0, by one transform; other values one by one."""
        size, many = self.domain_size, None if values is None else len(values)
        assert size is not None
        if many is None and size > MAX_SYMBOLS:
            raise ParameterError(f"{self.mechanism.name}: {size} values are too many to count at once: give values")
        if values is None or (isinstance(values, range) and many and values == range(many)):
            counted = size if many is None else many
            ones = self.count_extensions(batch, np.zeros(1, np.uint64), (counted - 1).bit_length())[0, :counted]
        else:
            ones = self.count_extensions(batch, self.table(values), 0)[:, 0]
        return pooled(ones, len(batch))

    def count_extensions(self, batch: ReportBatch, parents: NDArray[np.uint64], step: int) -> NDArray[np.int64]:
        """Return the support of every extension of `parents` by `step` bits, shape (b, 2**step)."""
        from overstory.kernels.small_hashes import count_blocks, masks_of

        masks = masks_of(batch.cohorts, *self.shape)
        return count_blocks(masks, self.outputs(batch).astype(np.uint32), parents, step)


def with_notes(estimate: Estimate, *notes: str) -> Estimate:
    """Return the estimate with more for its reader to know."""
    from dataclasses import replace

    return replace(estimate, notes=(*estimate.notes, *notes))
