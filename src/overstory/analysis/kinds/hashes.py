r"""Support and estimates of reports whose public part is one of a small set of seeds: counts by (seed, symbol).

Nothing of a report is needed past its two numbers, so a store keeps counts, and candidates can be asked for later.
In a balanced set any two values collide in equally many seeds, and each is debiased by itself. In a pseudo-random one
the actual collisions matter.

Let n_a reports have seed a, c_ay of them symbol y, h_a be the seed's hash, alpha the chain's probability of keeping a
symbol. With f the shares of all values that devices hold,

.. math:: E[c_{ay}] = n_a / g + \alpha n_a \sum_v f_v (1[h_a(v) = y] - 1/g) .

At most half as many values as there are independent counts, s (g - 1), are *fitted*: weighted least squares on these
equations, exactly unbiased given the seeds when the values are all that there are; the variance grows by
``1 / (1 - d / (s (g - 1)))``. More are debiased each *by itself*, which leaves an error of ``sum over w != v of f_w
(share of seeds in which v and w collide - 1/g)`` over ``1 - 1/g``: no number of reports makes it smaller, and its
variance over keys is ``sum f_w^2 / (s (g - 1))``. Both are unbiased over the draw of the key.

Standard errors *of all devices like these*: for a known domain, fitted, from the model (multinomial counts, given the
seeds). Otherwise *between the seeds*: they are independent draws, so the spread of their contributions counts noise,
collisions and what the reports of one device share alike (the sandwich of Liang and Zeger, Biometrika 1986). Both take
the holders of a value to fall on each seed by chance, as people do: ``R n f (1 - f)`` is the sampling of people.
Without that, and never below the noise of randomization, it is the variance *of these reports*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.estimate import Estimate, unbiased
from overstory.analysis.kinds.base import Cohorts, pooled, symbols_of, words_of
from overstory.analysis.kinds.symbols import SymbolSupport
from overstory.analysis.kinds.work import Work
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.selection import people_covariance, people_variance
from overstory.analysis.variance import design_effect, support_noise
from overstory.presentation.formats import repeated_note
from overstory.protocol.channels import check_reports_per_device
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.finite_fields import Field
from overstory.protocol.kinds.hashes import FEWEST_SEEDS, BalancedHash, SeededHash

if TYPE_CHECKING:
    from overstory.analysis.selection import IntervalKind


F64 = NDArray[np.float64]
BLOCK: Final = 4096  # values whose symbols under all seeds are looked at together
EVEN: Final = 0.5
"""Share of the reports by which the squares of the seeds' numbers of reports vary by chance, and not more: with 64
seeds, the fewest, it is nearly three standard deviations."""
ROWS: Final = 128  # values whose weights on all counts are held at once
BY_ITSELF: Final = (
    "more values than the seeds can tell apart: collisions add an error that does not shrink with the number of "
    "reports, counted in the standard errors"
)


class SeedSupport(SymbolSupport):
    """A report supports the values that have its symbol under its seed; which these are is asked when estimating."""

    work = Work("n + s d", seed=4e-8)
    independent_seeds = True

    def shape(self, labels: Sequence[str]) -> tuple[int, int]:  # noqa: ARG002 - candidates are chosen later
        return self.mechanism.num_cohorts, self.num_outputs

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        self.refuse_values(values, "by seed and symbol, not by value: give candidates to `estimate`")
        seeds, symbols = self.shape(())
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
        expected = self.shape(())
        if counts.ones.shape != expected:
            raise ParameterError(f"{self.mechanism.name} has counts of {expected[0]} seeds and {expected[1]} symbols")
        return counts


class BalancedSupport(SeedSupport):
    """Any two values collide in exactly 1/g of the seeds: sums over the seeds are all that is needed."""

    encoding: BalancedHash

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return inner_products(self.encoding)[symbols_of(values, self.encoding.domain_size)]

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        return np.asarray(table[symbols, cohorts], np.uint32)

    def of_domain(self, counts: SupportCounts) -> NDArray[np.int64]:
        """Return how many reports support each value of the domain."""
        seeds = np.arange(self.mechanism.num_cohorts)
        return np.array([counts.ones[seeds, row].sum() for row in self.table(self.values_of(None))], np.int64)

    def estimate(
        self, counts: SupportCounts, names: Sequence[str] | None, *, reports_per_device: float = 1.0, **choices: Any
    ) -> Estimate:
        """Debias the support of each value: unbiased given the seeds, with the variance of pairwise independence."""
        self.values_of(names)
        reports = counts.num_reports
        supported = pooled(self.of_domain(self.checked(counts)), reports)
        estimate = super().estimate(supported, names, reports_per_device=reports_per_device, **choices)
        seeds, squares = self.mechanism.num_cohorts, float((counts.totals.astype(float) ** 2).sum())
        # Where retention has left some seeds alone, collisions no longer cancel. With x_w the others' counts and n_a
        # the reports of seed a, they add sum (x_w / n)^2 (sum n_a^2 - n^2 / s - R n) / (g - 1): 0 as reports come.
        uneven = squares - reports**2 / seeds - reports * reports_per_device
        if not reports or uneven < EVEN * reports * reports_per_device:
            return estimate
        held = np.maximum(estimate.raw_counts**2 - estimate.standard_errors**2, 0.0) / reports**2
        others = np.minimum(held.sum() - held, 1.0)
        variances = estimate.standard_errors**2 + others * uneven / (self.num_outputs - 1)
        return replace(estimate, standard_errors=np.sqrt(variances), null_support=None)


class SeededSupport(SeedSupport):
    """Pseudo-random seeds: the actual collisions are fitted, or their error is measured between the seeds."""

    encoding: SeededHash

    @property
    def seeds(self) -> NDArray[np.uint32]:
        return np.array(self.encoding.seeds, np.uint32)

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return words_of(self.encoding, values)

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
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
        """Fit the values to the counts, or debias each by itself: see the module."""
        counts = self.checked(counts)
        values, each = self.values_of(names), check_reports_per_device(reports_per_device)
        labels = [str(value) for value in values] if names is None else names
        reports = counts.num_reports
        if not reports:
            return unbiased(labels, np.zeros(len(values)), np.full(len(values), np.inf), 0, **choices)
        read = _read(self, counts, values, each)
        raw = read.shares * reports
        people = people_variance(raw, reports, read.sharing)
        holders = np.clip(raw, 0, reports)
        p_star, q_star = float(self.mechanism.p_star), float(self.mechanism.q_star)
        # Of these reports: without the sampling of people, and never below the noise of randomization.
        least = support_noise(holders, reports - holders, p_star, q_star) / (p_star - q_star) ** 2
        variances = np.maximum((read.errors * reports) ** 2 - people, least) * read.effect
        return unbiased(
            labels,
            raw,
            np.sqrt(variances),
            reports,
            reports_per_device=each,
            notes=read.notes,
            joint_errors=SeedErrors(self, counts, values, each),
            **choices,
        )


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


@dataclass(frozen=True, eq=False)
class _Cells:
    """Counts by seed and symbol, of the seeds with reports: what is above the even share, and the reports."""

    above: F64
    totals: F64
    alpha: float


@dataclass(frozen=True, eq=False)
class SeedErrors:
    """How the values' estimates vary together: computed from the counts on demand."""

    support: SeededSupport
    counts: SupportCounts
    names: Sequence[Any]
    reports_per_device: float

    def covariance(self, estimate: Estimate, kind: IntervalKind, places: NDArray[np.intp]) -> F64:
        read = _read(self.support, self.counts, self.names, self.reports_per_device, places)
        assert read.together is not None
        reports, effect = estimate.num_reports, np.broadcast_to(read.effect, len(estimate))[places]
        drawn = people_covariance(estimate.raw_counts[places], reports, self.reports_per_device)
        over_people = drawn * read.sharing / self.reports_per_device
        noise = (read.together * reports**2 - over_people) * np.sqrt(np.outer(effect, effect))
        return np.asarray(noise + drawn if kind == "population" else noise)


class _Reading(NamedTuple):
    """Shares of the values, and what their standard errors are of."""

    shares: F64
    errors: F64
    sharing: float  # reports of a device that the errors count as one draw
    effect: F64 | float  # factor of the variance for the others
    notes: tuple[str, ...]
    together: F64 | None = None  # covariances of the shares at `places`


def _read(
    support: SeededSupport,
    counts: SupportCounts,
    values: Sequence[Any],
    each: float,
    places: NDArray[np.intp] | None = None,
) -> _Reading:
    """Fit the values where the seeds distinguish them; else debias each by itself."""
    used = counts.totals > 0
    totals = counts.totals[used].astype(np.float64)
    above = counts.ones[used] - totals[:, None] / support.num_outputs
    cells = _Cells(above, totals, float(support.mechanism.channel.alpha))
    if not support.encoding.can_be_fitted(len(values), effective_seeds(totals)):
        if places is not None:
            listed = support.symbols([values[place] for place in places])
            scores = np.concatenate([_by_itself(cells, block[:, used])[1] for block in listed])
            return _Reading(np.empty(0), np.empty(0), each, 1.0, (), scores @ scores.T)
        parts = []
        for block in support.symbols(values):
            share, scores = _by_itself(cells, block[:, used])
            parts.append((share, np.sqrt((scores**2).sum(axis=1))))
        shares, errors = (np.concatenate(column) for column in zip(*parts, strict=True))
        return _Reading(shares, errors, each, 1.0, (BY_ITSELF,))
    symbols = np.concatenate(list(support.symbols(values)))[:, used]
    if support.domain_size is None:
        shares, errors, together = _fitted(cells, symbols, places, is_domain=False)
        return _Reading(shares, errors, each, 1.0, (), together)
    shares, errors, together = _fitted(cells, symbols, places, is_domain=True)
    # The model counts reports, not devices: what a device's reports share is a factor.
    effect = np.array([design_effect(support.mechanism, each, float(x)) for x in np.clip(shares, 0, 1)])
    return _Reading(shares, errors, 1.0, effect, repeated_note(each), together)


def effective_seeds(totals: F64) -> float:
    """Return to how many equally filled seeds these numbers of reports amount: uneven numbers weigh the seeds unevenly.

    >>> effective_seeds(np.array([4.0, 4.0, 0.0])), round(effective_seeds(np.array([1.0, 2.0, 3.0])), 2)
    (2.0, 2.57)
    """
    return float(totals.sum() ** 2 / (totals**2).sum())


def _fitted(
    cells: _Cells, symbols: NDArray[np.int64], places: NDArray[np.intp] | None, *, is_domain: bool
) -> tuple[F64, F64, F64 | None]:
    """Return least-squares shares, errors, and covariances at `places`; `is_domain`: there are no other values."""
    from scipy import linalg, sparse

    values, seeds = symbols.shape
    size = cells.above.shape[1]
    columns = (symbols + size * np.arange(seeds)).ravel()
    rows = np.arange(0, values * seeds + 1, seeds)
    design = sparse.csr_array((np.ones(columns.size), columns, rows), shape=(values, seeds * size))
    weights = np.repeat(cells.totals, size)
    gram = (design.multiply(weights) @ design.T).toarray() - cells.totals.sum() / size
    inverse = linalg.pinvh(gram)
    # Normal equations of X = 1[h_a(v) = y] - 1/g with weights n_a: X' W X f alpha = X' (c - n / g).
    shares = inverse @ (design @ cells.above.ravel()) / cells.alpha
    expected = _expected(cells, design, shares)
    residuals = cells.above - cells.alpha * cells.totals[:, None] * _centred(design.T @ shares, size)
    chances = expected / cells.totals[:, None]

    def weight(rows: Any) -> F64:
        """Return the estimates' weights on the counts, shape (rows, seeds, symbols)."""
        solved = inverse[rows]
        return np.asarray((solved @ design - solved.sum(axis=1, keepdims=True) / size).reshape(-1, seeds, size))

    blocks = (weight(slice(start, start + ROWS)) for start in range(0, values, ROWS))
    widened = 1.0
    if not is_domain:
        widened = _of_few(seeds) ** 2 / (max(1 - values / (seeds * (size - 1)), 1 / 2) * (1 - 1 / seeds))
    if is_domain:  # multinomial counts: n (sum of pi w^2 - (sum of pi w)^2) for each seed
        variances = np.concatenate([_multinomial(block, chances, cells.totals) for block in blocks])
    else:
        variances = np.concatenate([(np.einsum("vay,ay->va", block, residuals) ** 2).sum(axis=1) for block in blocks])
    together = None
    if places is not None:
        chosen = weight(places)
        scores = np.einsum("vay,ay->va", chosen, chances * np.sqrt(cells.totals)[:, None] if is_domain else residuals)
        sign = -1.0 if is_domain else 1.0
        together = sign * scores @ scores.T
        if is_domain:
            flat = chosen.reshape(len(places), -1)
            together += (flat * expected.ravel()) @ flat.T
        together *= widened / cells.alpha**2
    return shares, np.sqrt(variances * widened) / cells.alpha, together


def _multinomial(weight: F64, chances: F64, totals: F64) -> F64:
    spread = np.einsum("vay,ay->va", weight**2, chances) - np.einsum("vay,ay->va", weight, chances) ** 2
    return np.asarray(spread @ totals)


def _centred(expected: F64, size: int) -> F64:
    by_seed = expected.reshape(-1, size)
    return np.asarray(by_seed - by_seed.mean(axis=1, keepdims=True))


def _expected(cells: _Cells, design: Any, shares: F64) -> F64:
    """Return the expected counts of the fitted shares, which are made a distribution for it."""
    held = np.clip(shares, 0, None)
    held /= max(held.sum(), 1e-12)
    size = cells.above.shape[1]
    chances = (1 - cells.alpha) / size + cells.alpha * (design.T @ held).reshape(-1, size)
    return np.asarray(cells.totals[:, None] * chances)


def _by_itself(cells: _Cells, symbols: NDArray[np.int64]) -> tuple[F64, F64]:
    """Return each value's debiased share, and its seeds' scores: standard errors are the roots of their squares."""
    seeds, reports = np.arange(symbols.shape[1]), cells.totals.sum()
    span = cells.alpha * (1 - 1 / cells.above.shape[1])
    supported = cells.above[seeds, symbols]
    shares = supported.sum(axis=1) / (span * reports)
    scores = supported - span * shares[:, None] * cells.totals
    many = len(seeds)
    if many == 1:
        return shares, np.full_like(scores, np.inf)
    # The sandwich between seeds: each seed's contribution is one draw.
    return shares, scores * (np.sqrt(many / (many - 1)) * _of_few(many) / (span * reports))


def _of_few(seeds: int) -> float:
    """Return how much wider errors are that were measured between few seeds, as retention leaves them: Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(seeds - 1, 0.975) / stdtrit(np.inf, 0.975)) if seeds < FEWEST_SEEDS else 1.0
