"""Support of reports whose public part is one of a small set of seeds: counted by (seed, symbol), like cohorts.

Nothing of a report is needed past its two numbers, so a store keeps counts, and candidates can be asked for later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.support.base import Cohorts, pooled
from overstory.analysis.support.positions import symbols_of, words_of
from overstory.analysis.support.symbols import SymbolSupport, lecture_notes, with_notes
from overstory.analysis.support.work import Work
from overstory.protocol.encodings.finite_fields import Field
from overstory.protocol.encodings.seeds import BalancedHash, SeededHash
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate

BLOCK: Final = 4096
"""Values whose symbols under all seeds are looked at together."""
EVEN: Final = 0.5
"""Share of the reports by which the squares of the seeds' numbers of reports vary by chance, and not more: with 64
seeds, the fewest, it is nearly three standard deviations."""


class SeedSupport(SymbolSupport):
    """A report supports the values that have its symbol under its seed; which these are is asked when estimating."""

    work = Work("n + s d", seed=4e-8)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count reports by seed and symbol."""
        if values is not None:
            raise ParameterError(
                f"{self.mechanism.name} counts by seed and symbol, not by value: give candidates to `estimate`"
            )
        seeds, symbols = self.mechanism.num_cohorts, self.num_outputs
        cells = batch.cohorts.astype(np.int64) * symbols + self.outputs(batch)
        ones = np.bincount(cells, minlength=seeds * symbols).reshape(seeds, symbols)
        return SupportCounts(ones.sum(axis=1), ones)

    def values_of(self, names: Sequence[Any] | None) -> Sequence[Any]:
        """Return what is estimated: the whole domain, of which `names` are the labels, or the strings given."""
        size = self.domain_size
        if size is None:
            if names is None:
                raise ParameterError(
                    f"{self.mechanism.name} without a domain_size needs candidates: strings to look for"
                )
            return names
        if names is not None and len(names) != size:
            raise ParameterError(f"{len(names)} labels for a domain of {size} values")
        return range(size)

    def checked(self, counts: SupportCounts) -> SupportCounts:
        """Return the counts, or raise ParameterError when they are another mechanism's."""
        expected = self.mechanism.num_cohorts, self.num_outputs
        if counts.ones.shape != expected:
            raise ParameterError(f"{self.mechanism.name} has counts of {expected[0]} seeds and {expected[1]} symbols")
        return counts


class BalancedSupport(SeedSupport):
    """Any two values collide in exactly 1/g of the seeds: sums over the seeds are all that is needed."""

    @property
    def encoding(self) -> BalancedHash:
        """The array."""
        encoding = self.mechanism.encoding
        assert isinstance(encoding, BalancedHash)
        return encoding

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return each value's symbols under all seeds."""
        return inner_products(self.encoding)[symbols_of(values, self.encoding.domain_size)]

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        """Look up the symbol."""
        return np.asarray(table[symbols, cohorts], np.uint32)

    def supports(self, counts: SupportCounts) -> SupportCounts:
        """Return how many reports support each value of the domain."""
        table = self.table(self.values_of(None))
        seeds = np.arange(self.mechanism.num_cohorts)
        ones = np.array([counts.ones[seeds, row].sum() for row in table], np.int64)
        return pooled(ones, counts.num_reports)

    def estimate(
        self, counts: SupportCounts, names: Sequence[str] | None, *, reports_per_device: float = 1.0, **choices: Any
    ) -> Estimate:
        """Debias the support of each value: unbiased given the seeds, with the variance of pairwise independence.

        Where retention has left some seeds alone, collisions no longer cancel. With x_w the others' counts, n_a the
        reports of seed a and R reports per device, they add ``sum (x_w / n)^2 (sum n_a^2 - n^2 / s - R n) / (g - 1)``:
        nothing on average as reports come, for which the sum of n_a^2 is ``n^2 / s + R n``.
        """
        self.values_of(names)
        supported, reports = self.supports(self.checked(counts)), counts.num_reports
        estimate = super().estimate(supported, names, reports_per_device=reports_per_device, **choices)
        seeds, squares = self.mechanism.num_cohorts, float((counts.totals.astype(float) ** 2).sum())
        uneven = squares - reports**2 / seeds - reports * reports_per_device
        if uneven < EVEN * reports * reports_per_device:
            return with_notes(estimate, *lecture_notes(self.mechanism, reports, reports_per_device))
        held = np.maximum(estimate.raw_counts**2 - estimate.standard_errors**2, 0.0) / reports**2
        others = np.minimum(held.sum() - held, 1.0)
        variances = estimate.standard_errors**2 + others * uneven / (self.num_outputs - 1)
        return replace(estimate, standard_errors=np.sqrt(variances))


class SeededSupport(SeedSupport):
    """Pseudo-random seeds: the actual collisions are fitted, or their error is measured between the seeds."""

    @property
    def encoding(self) -> SeededHash:
        """The seeds."""
        encoding = self.mechanism.encoding
        assert isinstance(encoding, SeededHash)
        return encoding

    @property
    def seeds(self) -> NDArray[np.uint32]:
        """The public seeds."""
        return np.array(self.encoding.seeds, np.uint32)

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the word that each value is hashed from."""
        return words_of(self.encoding, values)

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        """Hash each device's value under its seed."""
        from overstory.kernels.small_hashes import encode_hash

        return encode_hash(table, symbols, self.seeds[cohorts], self.num_outputs)

    def symbols(self, values: Sequence[Any]) -> Iterator[NDArray[np.int64]]:
        """Yield the symbols of blocks of values under all seeds, a row for each value."""
        from overstory.kernels.small_hashes import encode_hash

        words, seeds = self.table(values), self.seeds
        for start in range(0, len(words), BLOCK):
            block = words[start : start + BLOCK]
            rows = np.repeat(np.arange(len(block), dtype=np.int32), len(seeds))
            hashed = encode_hash(block, rows, np.tile(seeds, len(block)), self.num_outputs)
            yield hashed.reshape(len(block), len(seeds)).astype(np.int64)

    def estimate(
        self, counts: SupportCounts, names: Sequence[str] | None, *, reports_per_device: float = 1.0, **choices: Any
    ) -> Estimate:
        """Fit the values to the counts, or debias each by itself; see `overstory.analysis.support.seeds.estimates`."""
        from overstory.analysis.support.seeds.estimates import estimate_by_seed

        estimate = estimate_by_seed(self, self.checked(counts), names, reports_per_device, **choices)
        return with_notes(estimate, *lecture_notes(self.mechanism, counts.num_reports))


@lru_cache(maxsize=8)
def inner_products(encoding: BalancedHash) -> NDArray[np.uint16]:
    """Return `BalancedHash.symbol` of every value under every seed, a row for each value: of 1,000 values, 2 MB."""
    field, size = encoding.field, encoding.hash_range
    plus, times = (_table(field, operation) for operation in ("plus", "times"))
    vectors = np.array([encoding.vector(seed) for seed in range(encoding.num_seeds)], np.uint16)
    points = np.array([encoding.point(value) for value in range(encoding.domain_size)], np.uint16)
    total = np.zeros((len(points), encoding.num_seeds), np.uint16)
    for place in range(encoding.dimension):
        total = plus[total, times[points[:, place, None], vectors[None, :, place]]]
    assert int(total.max()) < size
    total.flags.writeable = False
    return total


def _table(field: Field, operation: str) -> NDArray[np.uint16]:
    apply, numbers = getattr(field, operation), range(field.size)
    return np.array([[apply(a, b) for b in numbers] for a in numbers], np.uint16)
