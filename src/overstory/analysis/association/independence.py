r"""Whether two variables have to do with each other at all: a test that noise does not fool.

With a and b the marginals, :math:`\Delta = P - a b'` is 0 where the variables are independent. It is looked at through
contrasts, weights that add up to 0 in every row and every column; its derivative is
:math:`d\Delta = dP - (dP\, 1)\, b' - a\, (1'\, dP)`. With C the covariances of the contrasts d of :math:`\Delta`, if
the cells were the products of the marginals,

.. math:: T = d' C^{-1} d

is chi-square with :math:`(k_x - 1)(k_y - 1)` degrees of freedom under independence. The usual chi-square of a table
whose negative cells were removed first is not: noise alone makes it reject nearly always.

What T would have detected is stated as Cramer's V, in the mean over all ways in which variables can depend.

*Covariances.* What is stated of a table needs :math:`\Sigma w` for weights w on the cells: a marginal, a conditional
share and a contrast are such weights. For a pair of variables in one report, with the letters of
`overstory.analysis.kinds.base`, n reports and shares f,

.. math:: n (p^* - q^*)^2 \Sigma_{vw} = c_0 + (f_v + f_w) (c_1 - c_0) , \quad v \ne w ,

which is a diagonal and a matrix of rank 2; the sampling of people adds diag f - ff'.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from overstory.analysis.kinds.base import pair_covariance
from overstory.analysis.selection import check_alpha, chi2_tail
from overstory.analysis.variance import clustering, support_noise

if TYPE_CHECKING:
    from overstory.analysis.association.table import TableEstimate
    from overstory.analysis.selection import F64, IntervalKind
    from overstory.protocol.kinds.base import Mechanism


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


def orthogonal(direction: F64) -> F64:
    """Return an orthonormal basis of the vectors orthogonal to a direction, shape (k, k - 1), by a reflection."""
    reflected = direction / np.linalg.norm(direction)
    reflected[0] += np.copysign(1.0, reflected[0])
    basis = np.outer(reflected, -2.0 / (reflected @ reflected) * reflected[1:])
    basis[np.arange(1, len(basis)), np.arange(len(basis) - 1)] += 1.0
    return np.asarray(basis)


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
        p_star, q_star = float(self.mechanism.p_star), float(self.mechanism.q_star)
        own, other = pair_covariance(self.mechanism, p_star, q_star)
        shared_own, shared_other = pair_covariance(self.mechanism, *self.mechanism.permanent_support)
        more, span = self.reports_per_device - 1.0, (p_star - q_star) ** 2
        own, other = own + more * shared_own, other + more * shared_other
        return other / span, (own - other) / span


@dataclass(frozen=True, eq=False)
class DenseCovariance:
    """Of cells whose errors go together in no simple way: sampled bits, a few public seeds, Bloom filters."""

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


MOST_CELLS: Final = 2_500
"""Cells whose errors are compared with each other at once: a matrix of 50 MB."""
POWER: Final = 0.8
"""The chance at which an association counts as one that would have been detected."""


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
    detectable = _detectable(table, linalg.cho_solve(factor, np.eye(degrees)), degrees, alpha)
    return Independence(statistic, degrees, p_value, alpha, detectable)


def _contrasts(table: TableEstimate) -> tuple[F64, F64]:
    """Return the contrasts of P - ab', and their covariances if the variables are independent."""
    cells = table.shares
    rows, columns = cells.sum(axis=1), cells.sum(axis=0)
    product = np.outer(rows, columns)
    by_row, by_column = (orthogonal(np.ones(size)) for size in cells.shape)
    # (B_x (x) B_y)' J, a row of weights on the cells for each contrast: dP - (dP 1) b' - a (1' dP), contrasted.
    weights = np.einsum("ia,jb->abij", by_row, by_column)
    weights = weights - np.einsum("ia,b->abi", by_row, by_column.T @ columns)[..., None]
    weights = weights - np.einsum("a,jb->abj", by_row.T @ rows, by_column)[..., None, :]
    flat = weights.reshape(-1, *cells.shape)
    spread = table.covariance.at(product).apply(flat).reshape(len(flat), -1)
    difference = (by_row.T @ (cells - product) @ by_column).ravel()
    return difference, np.asarray(spread @ flat.reshape(len(flat), -1).T)


def _detectable(table: TableEstimate, precision: F64, degrees: int, alpha: float) -> float:
    """Return the V at which T has its power, T's noncentrality being averaged over the directions of dependence."""
    from scipy import special

    critical = special.chdtri(degrees, alpha)
    needed = float(special.chndtrinc(critical, degrees, 1.0 - POWER))
    held = [np.maximum(marginal.shares, 1e-9) for marginal in table.marginals]
    roots = [np.sqrt(shares / shares.sum()) for shares in held]
    # Delta = sqrt(a b') z, z of length phi and orthogonal to the roots of a and b: every direction is as likely.
    ways = [orthogonal(np.ones(len(root))).T @ (root[:, None] * orthogonal(root)) for root in roots]
    shape = np.kron(*ways)
    mean = float(np.einsum("ij,ik,kj->", precision, shape, shape, optimize=True)) / degrees
    return min(math.sqrt(needed / mean / (min(table.shares.shape) - 1)), 1.0)
