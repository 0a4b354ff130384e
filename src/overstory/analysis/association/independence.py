r"""Whether two variables have to do with each other at all: a test that noise does not fool.

With a and b the marginals, :math:`\Delta = P - a b'` is 0 where the variables are independent. It is looked at through
contrasts, weights that add up to 0 in every row and every column; its derivative is
:math:`d\Delta = dP - (dP\, 1)\, b' - a\, (1'\, dP)`. With C the covariances of the contrasts d of :math:`\Delta`, if
the cells were the products of the marginals,

.. math:: T = d' C^{-1} d

is chi-square with :math:`(k_x - 1)(k_y - 1)` degrees of freedom under independence. The usual chi-square of a table
whose negative cells were removed first is not: noise alone makes it reject nearly always.

What T would have detected is stated as Cramer's V, in the mean over all ways in which variables can depend.

*How strongly* they hang together: conditional shares, their differences, and Cramer's V.

The share of y among those with x, :math:`r = P_{xy} / a_x`, varies as the weighted sum of cells that is its
derivative: :math:`(e_{xy} - r\, 1_x) / a_x`. The normal approximation of r fails where a_x is unsure: a row whose share
is below four standard errors has no conditional shares.

For :math:`\Delta = P - a b'`, C its covariances and weights :math:`w = 1 / (a b')`,

.. math:: \hat\phi^2 = \sum w \Delta^2 - m , \qquad m = \sum w \operatorname{Var} \Delta ,

and :math:`V = \sqrt{\max(\phi^2, 0) / (\min(k_x, k_y) - 1)}`: what noise adds to a sum of squares is taken off. The sum
of squares is taken for :math:`g` times a noncentral chi-square of :math:`\nu` degrees and noncentrality
:math:`\phi^2 / g`, with the mean and variance that it has without dependence: :math:`g \nu = m`, :math:`g^2 \nu =
\sum_{uv} w_u w_v C_{uv}^2` (exact for 2 x 2, given the weights). Both ends of the interval are noncentralities at which
it would be as extreme with probability (1 - level) / 2. The upper end is never below that of a sum of squares as large
as its noise.

:math:`\Delta` of one cell has the derivative :math:`e_{ij} - b_j 1_{i \cdot} - a_i 1_{\cdot j}`; its error is taken as
if the variables were independent. Of all cells those differ surely that a false discovery rate admits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis import selection
from overstory.analysis.association.table import errors_of
from overstory.analysis.selection import check_alpha, chi2_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.association.table import TableEstimate
    from overstory.analysis.selection import F64


def orthogonal(direction: F64) -> F64:
    """Return an orthonormal basis of the vectors orthogonal to a direction, shape (k, k - 1), by a reflection."""
    reflected = direction / np.linalg.norm(direction)
    reflected[0] += np.copysign(1.0, reflected[0])
    basis = np.outer(reflected, -2.0 / (reflected @ reflected) * reflected[1:])
    basis[np.arange(1, len(basis)), np.arange(len(basis) - 1)] += 1.0
    return np.asarray(basis)


MOST_CELLS: Final = 2_500  # cells whose errors are compared with each other at once: a matrix of 50 MB
POWER: Final = 0.8  # the chance at which an association counts as one that would have been detected


@dataclass(frozen=True)
class Independence:
    """The result of a test of independence."""

    statistic: float  # T, which is chi-square under independence
    degrees: int
    p_value: float  # the chance of a T at least as large where the variables are independent
    alpha: float = 0.05  # the chance of rejecting wrongly
    detectable: float = math.nan  # Cramer's V detected 8 times in 10 with as many reports; at most 1

    @property
    def rejected(self) -> bool:
        return self.p_value <= self.alpha

    def to_json(self) -> dict[str, Any]:
        return {
            "statistic": self.statistic,
            "degrees": self.degrees,
            "p_value": self.p_value,
            "alpha": self.alpha,
            "independence_rejected": self.rejected,
            "detectable_cramers_v": None if math.isnan(self.detectable) else self.detectable,
        }


def independence(table: TableEstimate, alpha: float = 0.05) -> Independence | None:
    """Test whether the variables are independent; None over 2,500 cells, and where there are too few reports."""
    check_alpha(alpha)
    if not table.num_reports or table.shares.size > MOST_CELLS:
        return None
    from scipy import linalg

    difference, covariance = _contrasts(table)
    degrees = len(difference)
    try:
        factor = linalg.cho_factor(covariance)
    except linalg.LinAlgError:
        return None
    statistic = float(difference @ linalg.cho_solve(factor, difference))
    p_value = chi2_tail(degrees, statistic)
    return Independence(statistic, degrees, p_value, alpha, _detectable(table, factor[0], alpha))


def _contrasts(table: TableEstimate) -> tuple[F64, F64]:
    """Return the contrasts of P - ab', and their covariances if the variables are independent."""
    product, derivative = _departure(table.shares)
    # (B_x (x) B_y)' J, a row of weights on the cells for each contrast.
    contrasts = np.kron(*(orthogonal(np.ones(size)) for size in product.shape)).T
    weights = contrasts @ derivative
    spread = table.covariance.at(product).apply(weights.reshape(-1, *product.shape)).reshape(weights.shape)
    return np.asarray(contrasts @ (table.shares - product).ravel()), np.asarray(spread @ weights.T)


def _departure(cells: F64) -> tuple[F64, F64]:
    """Return ab', and J of d(P - ab') = dP - (dP 1) b' - a (1' dP): a matrix on the cells row by row."""
    rows, columns = cells.sum(axis=1), cells.sum(axis=0)
    by_row = np.kron(np.eye(len(rows)), np.outer(columns, np.ones(len(columns))))
    by_column = np.kron(np.outer(rows, np.ones(len(rows))), np.eye(len(columns)))
    return np.outer(rows, columns), np.asarray(np.eye(cells.size) - by_row - by_column)


def _detectable(table: TableEstimate, factor: F64, alpha: float) -> float:
    """Return the V at which T has its power, T's noncentrality being averaged over the directions of dependence."""
    from scipy import linalg, special

    degrees = len(factor)
    critical = special.chdtri(degrees, alpha)
    needed = float(special.chndtrinc(critical, degrees, 1.0 - POWER))
    held = [np.maximum(marginal.shares, 1e-9) for marginal in table.marginals]
    roots = [np.sqrt(shares / shares.sum()) for shares in held]
    # Delta = sqrt(a b') z, z of length phi and orthogonal to the roots of a and b: every direction is as likely.
    ways = [orthogonal(np.ones(len(root))).T @ (root[:, None] * orthogonal(root)) for root in roots]
    # d = S z, of noncentrality z' S' C^-1 S z: the mean over z is its trace, with C = U'U the squares of U'^-1 S.
    mean = float((linalg.solve_triangular(factor, np.kron(*ways), trans="T") ** 2).sum()) / degrees
    return min(math.sqrt(needed / mean / (min(table.shares.shape) - 1)), 1.0)


SURE: Final = 4.0  # A row has conditional shares where its own share is at least as many standard errors

FAR: Final = 1e6
"""A chi-square from which its root is as good as normal (its probabilities to 1e-7); SciPy's search ends at 1e10."""


@dataclass(frozen=True, eq=False)
class Conditional:
    """The shares of the columns' values in each row."""

    table: TableEstimate
    estimable: NDArray[np.bool_]  # shape (k_x,): which rows are large enough
    shares: F64  # shape (k_x, k_y): P(column | row); nan in rows that are not estimable

    @cached_property
    def standard_errors(self) -> F64:
        errors = np.full(self.shares.shape, math.nan)
        for row in np.flatnonzero(self.estimable):
            errors[row] = errors_of(self.table.covariance, self.weights(int(row)))
        return errors

    def interval(self, level: float = 0.95) -> tuple[F64, F64]:
        reach = selection.normal_reach(level) * self.standard_errors
        return np.clip(self.shares - reach, 0.0, 1.0), np.clip(self.shares + reach, 0.0, 1.0)

    def weights(self, row: int) -> F64:
        """Return the derivative of each share of a row by the cells, shape (k_y, k_x, k_y)."""
        rows, columns = self.shares.shape
        weights = np.zeros((columns, rows, columns))
        weights[:, row, :] = np.eye(columns) - self.shares[row][:, None]
        return weights / float(self.table.shares[row].sum())


def conditional(table: TableEstimate) -> Conditional:
    """Return the shares of the columns' values in each row."""
    rows, estimable = table.shares.sum(axis=1), sure(table)[0]
    shares = np.full(table.shares.shape, math.nan)
    shares[estimable] = table.shares[estimable] / rows[estimable, None]
    return Conditional(table, estimable, shares)


def sure(table: TableEstimate) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rows and which columns have a share of at least `SURE` standard errors."""
    rows, columns = (marginal.shares >= SURE * marginal.standard_errors for marginal in table.sums)
    reports = np.bool_(table.num_reports > 0)
    return rows & reports, columns & reports


def departures(table: TableEstimate) -> tuple[F64, F64]:
    """Return P - a b', and its standard errors where the variables are independent."""
    product, derivative = _departure(table.shares)
    errors = errors_of(table.covariance.at(product), derivative.reshape(-1, *product.shape))
    return table.shares - product, errors.reshape(product.shape)


def depart(table: TableEstimate, alpha: float = 0.05) -> NDArray[np.bool_]:
    """Return which cells surely differ from the product of their row's and column's shares; of over 2,500 none."""
    if not table.num_reports or table.shares.size > MOST_CELLS:
        return np.zeros(table.shares.shape, bool)
    differences, errors = departures(table)
    p_values = np.minimum(2.0 * selection.upper_p_values(np.abs(differences), errors), 1.0)
    return np.asarray(selection.adjusted_p_values(p_values.ravel(), "fdr").reshape(errors.shape) <= alpha)


@dataclass(frozen=True)
class Compared:
    """The share of `column` in the row `row`, less that in another one."""

    column: str
    row: str
    estimate: float
    low: float
    high: float

    @property
    def apart(self) -> bool:
        """Whether the interval leaves out that the shares are equal."""
        return not self.low <= 0.0 <= self.high


def compare_rows(table: TableEstimate, against: int, level: float = 0.95) -> list[Compared]:
    """Compare the shares in each row that is large enough with those in one of them; of two columns, the second's."""
    given, (rows, columns) = conditional(table), table.labels
    found, base, shown = [], given.weights(against), range(1 if len(columns) == 2 else 0, len(columns))
    for row in np.flatnonzero(given.estimable).tolist():
        if row != against:
            errors = errors_of(table.covariance, given.weights(row) - base)
            for column in shown:
                difference = float(given.shares[row, column] - given.shares[against, column])
                reach = selection.normal_reach(level) * float(errors[column])
                ends = difference - reach, difference + reach
                found.append(Compared(columns[column], rows[row], difference, *ends))
    return found


@dataclass(frozen=True)
class CramersV:
    """Cramer's V: 0 where the variables are independent, 1 where one follows from the other."""

    estimate: float  # nan where independence is not rejected: noise alone would give a V above 0
    low: float  # 0 where independence is not rejected
    high: float
    level: float
    # rows and columns whose shares are below four standard errors: V is that of the others
    left_out: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def to_json(self) -> dict[str, Any]:
        return {
            "estimate": None if math.isnan(self.estimate) else self.estimate,
            "low": self.low,
            "high": self.high,
            "level": self.level,
            "left_out": [list(names) for names in self.left_out],
        }


def cramers_v(table: TableEstimate, tested: Independence | None, level: float = 0.95) -> CramersV | None:
    """Return Cramer's V of the rows and columns that are large enough; None for fewer than two, or where not tested."""
    rows, columns = sure(table)
    if tested is None or min(rows.sum(), columns.sum()) < 2:
        return None
    squares, noise, scale = _squares(table, np.ix_(rows, columns))
    degrees = min(rows.sum(), columns.sum()) - 1
    estimate, low, high = (
        math.sqrt(min(max(value, 0.0) / degrees, 1.0))
        for value in (
            squares - noise,
            scale * _noncentrality(squares / scale, noise / scale, (1 + level) / 2),
            scale * _noncentrality(max(squares, noise) / scale, noise / scale, (1 - level) / 2),
        )
    )
    left_out = [
        tuple(label for label, is_in in zip(labels, kept, strict=True) if not is_in)
        for labels, kept in zip(table.labels, (rows, columns), strict=True)
    ]
    if not tested.rejected:
        estimate, low = math.nan, 0.0
    return CramersV(estimate, low, high, level, (left_out[0], left_out[1]))


def _noncentrality(statistic: float, degrees: float, chance: float) -> float:
    """Return the noncentrality at which a chi-square is below `statistic` with this chance; 0 where it is seldom so."""
    from scipy import special

    if special.chndtr(statistic, degrees, 0.0) <= chance:
        return 0.0
    if statistic > FAR:  # Sankaran (1959): sqrt(x - (nu - 1) / 2) has mean sqrt(lambda + (nu - 1) / 2), variance 1
        shift = (degrees - 1) / 2
        return (math.sqrt(statistic - shift) - selection.normal_quantile(chance)) ** 2 - shift
    return float(special.chndtrinc(statistic, degrees, chance))


def _squares(table: TableEstimate, chosen: Any) -> tuple[float, float, float]:
    """Return the sum of squares of some rows and columns by themselves, what noise adds to it (m), and g."""
    part = table.shares[chosen]
    total = float(part.sum())
    cells = part / total
    size, places = cells.size, (chosen[0] * table.shares.shape[1] + chosen[1]).ravel()
    unit = np.zeros((size, table.shares.size))
    unit[np.arange(size), places] = 1.0
    spread = table.covariance.apply(unit.reshape(-1, *table.shares.shape)).reshape(size, -1)[:, places]
    # d(P / total), then d(P - ab').
    scaled = (np.eye(size) - np.outer(cells.ravel(), np.ones(size))) / total
    product, derivative = _departure(cells)
    together = derivative @ scaled @ spread @ scaled.T @ derivative.T
    difference, weight = (cells - product).ravel(), 1.0 / product.ravel()
    noise = float(weight @ np.diag(together))
    return float(weight @ difference**2), noise, float(weight @ together**2 @ weight) / noise
