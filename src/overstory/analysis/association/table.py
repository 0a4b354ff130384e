r"""The shares of every pair of two variables' values, and the shares of each variable's own.

What is said of a table needs its unbiased cells P, the covariances of their errors, and the marginals, nothing else.

*Covariances.* What is stated of a table needs :math:`\Sigma w` for weights w on the cells: a marginal, a conditional
share and a contrast are such weights. For a pair of variables in one report, with the letters of
`overstory.analysis.kinds.base`, n reports and shares f,

.. math:: n (p^* - q^*)^2 \Sigma_{vw} = c_0 + (f_v + f_w) (c_1 - c_0) , \quad v \ne w ,

which is a diagonal and a matrix of rank 2; the sampling of people adds diag f - ff'.

*Several tables*, over which devices were divided: each is learned from its own. A variable that is in several tables
has a marginal in each, from different devices, so their errors are independent: the weighted mean with the inverse
variances is the best of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from overstory.analysis import selection
from overstory.analysis.kinds.base import SupportErrors
from overstory.analysis.kinds.split import DividedSupport
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.variance import clustering, support_noise
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate
    from overstory.analysis.reports import SupportCounts
    from overstory.analysis.selection import F64, IntervalKind
    from overstory.protocol.kinds.base import Mechanism
    from overstory.protocol.kinds.split import DividedMechanism


TOGETHER: Final = 1 << 22  # weights on cells that are multiplied by the covariances at once: 32 MB


class TableCovariance(Protocol):
    """The covariances of a table's cells."""

    def apply(self, weights: F64) -> F64:
        """Return the covariances with weighted sums of cells: shape (..., k_x, k_y) in and out."""
        ...

    def variances(self) -> F64:
        """Return the cells' variances, shape (k_x, k_y)."""
        ...

    def at(self, shares: F64) -> TableCovariance:
        """Return the covariances that the same collection would have if these were the cells, shape (k_x, k_y)."""
        ...


def errors_of(covariance: TableCovariance, weights: F64) -> F64:
    """Return the standard errors of weighted sums of cells, shape (...) of weights (..., k_x, k_y)."""
    return np.asarray(np.sqrt(np.maximum((weights * covariance.apply(weights)).sum(axis=(-2, -1)), 0.0)))


@dataclass(frozen=True, eq=False)
class PairCovariance:
    """Of cells that one pure oracle reports."""

    mechanism: Mechanism
    shares: F64  # shape (k_x, k_y), as they were estimated
    num_reports: int
    reports_per_device: float = 1.0
    kind: IntervalKind = "population"
    beyond: F64 | float = 0.0  # shape (k_x, k_y): what seeds that are filled unevenly add to the variances

    def variances(self) -> F64:
        p_star, q_star = float(self.mechanism.p_star), float(self.mechanism.q_star)
        held = np.clip(self.shares, 0.0, 1.0)
        noise = support_noise(held, 1.0 - held, p_star, q_star)
        noise += clustering(self.mechanism, self.reports_per_device).excess(held, 1.0 - held)
        people = self._people * held * (1.0 - held)
        return np.asarray((noise / (p_star - q_star) ** 2 + people) / self._devices + self.beyond)

    def apply(self, weights: F64) -> F64:
        other, slope = self._together()
        held = np.clip(self.shares, 0.0, 1.0)
        possible = held / max(1.0, float(held.sum()))
        sums = weights.sum(axis=(-2, -1), keepdims=True)
        by_share = (weights * held).sum(axis=(-2, -1), keepdims=True)
        by_people = (weights * possible).sum(axis=(-2, -1), keepdims=True)
        apart = other * sums + slope * (held * sums + by_share) - self._people * possible * by_people
        # The low rank has a diagonal of its own, which is none of the cells'.
        diagonal = other + 2.0 * slope * held - self._people * possible**2
        return np.asarray(weights * (self.variances() - diagonal / self._devices) + apart / self._devices)

    def at(self, shares: F64) -> PairCovariance:
        return replace(self, shares=shares)

    @property
    def _devices(self) -> int:
        return max(self.num_reports, 1)

    @property
    def _people(self) -> float:
        return self.reports_per_device if self.kind == "population" else 0.0

    def _together(self) -> tuple[float, float]:
        """Return the covariance of two cells that nobody has, and what a share of one of them adds."""
        errors, more = SupportErrors.of(self.mechanism), self.reports_per_device - 1.0
        own, other = ((a + more * b) / errors.span**2 for a, b in zip(errors.once, errors.shared, strict=True))
        return other, own - other


@dataclass(frozen=True, eq=False)
class DenseCovariance:
    """Of cells whose errors go together in no simple way: sampled bits, a few public seeds."""

    noise: F64  # shape (K, K) of the K = k_x k_y cells, row by row: what randomization leaves
    shares: F64
    people: float  # 1 / n times the reports of a device; 0 where intervals are of these reports

    def variances(self) -> F64:
        held = np.clip(self.shares, 0.0, 1.0)
        return np.asarray(np.diag(self.noise).reshape(held.shape) + self.people * held * (1.0 - held))

    def apply(self, weights: F64) -> F64:
        held = np.clip(self.shares, 0.0, 1.0)
        possible = held / max(1.0, float(held.sum()))
        flat = weights.reshape(*weights.shape[:-2], -1)
        drawn = held * (1.0 - held) + possible**2
        people = weights * drawn - possible * (weights * possible).sum(axis=(-2, -1), keepdims=True)
        return np.asarray((flat @ self.noise).reshape(weights.shape) + self.people * people)

    def at(self, shares: F64) -> DenseCovariance:
        """Return those with other people; the noise hardly depends on them."""
        return DenseCovariance(self.noise, shares, self.people)


@dataclass(frozen=True, eq=False)
class SummedCovariance:
    """Of the pairs of two variables among more: each pair is a sum of `rest` cells that lie next to each other."""

    cells: TableCovariance
    rest: int

    def variances(self) -> F64:
        rows, wide = self.cells.variances().shape
        columns = wide // self.rest
        unit = np.zeros((columns, rows, columns))
        spread = np.empty((rows, columns))
        for row in range(rows):
            unit[:] = 0.0
            unit[np.arange(columns), row, np.arange(columns)] = 1.0
            spread[row] = self.apply(unit)[np.arange(columns), row, np.arange(columns)]
        return spread

    def apply(self, weights: F64) -> F64:
        wide = self.cells.apply(np.repeat(weights, self.rest, axis=-1))
        return np.asarray(wide.reshape(*weights.shape, self.rest).sum(axis=-1))

    def at(self, shares: F64) -> SummedCovariance:
        """Return those at other pairs: how a pair's cells share it changes no covariance of sums."""
        return SummedCovariance(self.cells.at(np.repeat(shares / self.rest, self.rest, axis=-1)), self.rest)


@dataclass(frozen=True, eq=False)
class Marginal:
    """The shares of one variable's values, unbiased, and their standard errors: shape (k,)."""

    shares: F64
    standard_errors: F64

    def interval(self, level: float = 0.95) -> tuple[F64, F64]:
        reach = selection.normal_reach(level) * self.standard_errors
        return self.shares - reach, self.shares + reach


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableEstimate:
    """The shares of all pairs of two variables' values."""

    names: tuple[str, str]  # of the rows' variable and of the columns'
    labels: tuple[tuple[str, ...], tuple[str, ...]]  # the values of each, k_x and k_y
    shares: F64  # shape (k_x, k_y), unbiased shares of the reports: noise makes some of them negative
    covariance: TableCovariance  # how the errors of `shares` go together
    num_reports: int
    interval_kind: IntervalKind = "population"  # for the devices that reported, or for all devices like these
    own_shares: tuple[Marginal, Marginal] | None = None  # where more is known of them than the cells' sums
    notes: tuple[str, ...] = ()  # what a reader must know before trusting the numbers

    def __post_init__(self) -> None:
        selection.check_interval_kind(self.interval_kind)
        cells = np.array(self.shares, np.float64)
        if cells.shape != tuple(len(labels) for labels in self.labels):
            raise ParameterError(f"{' x '.join(str(len(x)) for x in self.labels)} labels, but cells {cells.shape}")
        if min(cells.shape) < 2:
            raise ParameterError("a table has at least two rows and two columns")
        cells.flags.writeable = False
        object.__setattr__(self, "shares", cells)

    def __repr__(self) -> str:
        rows, columns = self.shares.shape
        return f"TableEstimate({self.names[0]} x {self.names[1]}, {rows} x {columns}, {self.num_reports:,} reports)"

    @cached_property
    def marginals(self) -> tuple[Marginal, Marginal]:
        return self.sums if self.own_shares is None else self.own_shares

    @cached_property
    def sums(self) -> tuple[Marginal, Marginal]:
        return self._sums(0), self._sums(1)

    @cached_property
    def standard_errors(self) -> F64:
        return np.asarray(np.sqrt(np.maximum(self.covariance.variances(), 0.0)))

    def interval(self, level: float = 0.95) -> tuple[F64, F64]:
        reach = selection.normal_reach(level) * self.standard_errors
        return self.shares - reach, self.shares + reach

    def _sums(self, axis: int) -> Marginal:
        """Return the sums of the cells of each row (0) or column (1), with their errors."""
        size, errors = self.shares.shape[axis], []
        for start in range(0, size, step := max(1, TOGETHER // self.shares.size)):
            places = np.arange(start, min(start + step, size))
            weights = np.zeros((len(places), *self.shares.shape))
            rows = np.arange(len(places))
            weights[(rows, places) if axis == 0 else (rows, slice(None), places)] = 1.0
            errors.append(errors_of(self.covariance, weights))
        return Marginal(self.shares.sum(axis=1 - axis), np.concatenate(errors))


def pair_table(
    mechanism: Mechanism,
    estimate: Estimate,  # of the cells in order, the last variable's value changing first
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    *,
    of: tuple[int, int] = (0, 1),  # which two of them; cells that differ in the others add up
    interval_kind: IntervalKind = "population",
) -> TableEstimate:
    """Return the table of two variables that were reported as one value."""
    sizes = [len(values) for values in labels]
    if len(estimate) != math.prod(sizes):
        raise ParameterError(f"a table of {' x '.join(map(str, sizes))} cells, but {len(estimate)} values")
    order = [*of, *(axis for axis in range(len(sizes)) if axis not in of)]
    wide = (sizes[of[0]], math.prod(sizes) // sizes[of[0]])
    places = np.arange(len(estimate)).reshape(sizes).transpose(order).reshape(wide)
    cells = estimate.raw_frequencies[places]
    covariance = _covariance(mechanism, estimate, places, cells, interval_kind)
    rest = wide[1] // sizes[of[1]]
    if rest > 1:
        covariance, cells = SummedCovariance(covariance, rest), cells.reshape(wide[0], -1, rest).sum(axis=-1)
    first, second = of
    return TableEstimate(
        names=(names[first], names[second]),
        labels=(tuple(labels[first]), tuple(labels[second])),
        shares=cells,
        covariance=covariance,
        num_reports=estimate.num_reports,
        interval_kind=interval_kind,
        notes=estimate.notes,
    )


def _covariance(
    mechanism: Mechanism, estimate: Estimate, places: NDArray[np.intp], cells: F64, kind: IntervalKind
) -> TableCovariance:
    reports = max(estimate.num_reports, 1)
    if isinstance(estimate.joint_errors, SupportErrors):
        pair = PairCovariance(mechanism, cells, estimate.num_reports, estimate.reports_per_device, "reports")
        stated = (estimate.standard_errors[places] / reports) ** 2
        beyond = np.maximum(stated - pair.variances(), 0.0) if estimate.num_reports else 0.0
        return replace(pair, kind=kind, beyond=beyond)
    noise = estimate.covariance("reports", places.ravel().tolist()) / reports**2
    return DenseCovariance(noise, cells, (kind == "population") * estimate.reports_per_device / reports)


def divided_tables(
    mechanism: DividedMechanism,
    counts: SupportCounts,
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    *,
    reports_per_device: float = 1.0,
) -> list[TableEstimate]:
    """Return the table of each two variables that were asked together, with the marginals of all tables."""
    half = DividedSupport(mechanism)
    tables: list[tuple[int, TableEstimate]] = []
    single: list[tuple[str, Marginal]] = []
    for number, variables in enumerate(mechanism.tables):
        own = [list(labels[variable]) for variable in variables]
        cells = [", ".join(cell) for cell in product(*own)]
        oracle = FrequencyOracle(mechanism.parts[number])
        estimate = oracle.estimate(
            half.counts_of(counts, number), cells, reports_per_device=reports_per_device, interval_kind="population"
        )
        if len(variables) == 1:
            errors = estimate.errors("population") / max(estimate.num_reports, 1)
            single.append((names[variables[0]], Marginal(estimate.raw_frequencies, errors)))
        for of in combinations(range(len(variables)), 2):
            called = [names[variable] for variable in variables]
            tables.append((number, pair_table(oracle.mechanism, estimate, called, own, of=of)))
    return _with_marginals(tables, single)


def _with_marginals(tables: list[tuple[int, TableEstimate]], single: list[tuple[str, Marginal]]) -> list[TableEstimate]:
    """Give each table the marginals that all tables together know."""
    known: dict[str, list[Marginal]] = {}
    for name, marginal in single:
        known.setdefault(name, []).append(marginal)
    # Of a table of three variables only the first pair counts for a variable: its pairs share their devices.
    seen: set[tuple[str, int]] = set()
    for number, table in tables:
        for name, marginal in zip(table.names, table.marginals, strict=True):
            if (name, number) not in seen:
                seen.add((name, number))
                known.setdefault(name, []).append(marginal)
    return [
        replace(table, own_shares=(weighted(known[table.names[0]]), weighted(known[table.names[1]])))
        for _, table in tables
    ]


def weighted(marginals: Sequence[Marginal]) -> Marginal:
    """Return the mean of independent estimates of the same shares, each weighted with its inverse variance.

    >>> both = weighted([Marginal(np.array([0.2]), np.array([0.1])), Marginal(np.array([0.5]), np.array([0.2]))])
    >>> both.shares.round(2).tolist(), both.standard_errors.round(3).tolist()
    ([0.26], [0.089])
    """
    precisions = np.array([1.0 / np.maximum(marginal.standard_errors, 1e-300) ** 2 for marginal in marginals])
    shares = np.array([marginal.shares for marginal in marginals])
    total = precisions.sum(axis=0)
    return Marginal((precisions * shares).sum(axis=0) / total, 1.0 / np.sqrt(total))
