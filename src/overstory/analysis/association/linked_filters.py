r"""A table from linked reports of which a part, or both, is a Bloom filter: strings whose candidates are named later.

In cohort c, with the filters of the candidates as the columns of X and Y, the covariance of the two parts' supports is
:math:`C_c = (p_x - q_x)(p_y - q_y) X_c \Delta Y_c'`, where :math:`\Delta = P - a b'` has rows and columns of sum 0.
Each support has about the variance :math:`\theta (1 - \theta)`, :math:`\theta` being how often it comes, and pairs of
supports err independently. So least squares solves, with :math:`W = (p - q)^2 / (\theta (1 - \theta))` and
:math:`J = X' W X`,

.. math:: \sum_c \tfrac{n_c}{n} J_{xc} \Delta J_{yc}
          = \sum_c \tfrac{n_c}{n} X_c' W_{xc} \frac{C_c}{(p_x - q_x)(p_y - q_y)} W_{yc} Y_c

in bases of the vectors of sum 0. The covariance of :math:`\Delta` has the supports' real ones in
the middle, for a string sets all its bits at once: with low noise its independent bits would claim a fourth too little.
The marginals are the decoder's. Strings outside a list are one more column, h/k in every bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.association.independence import orthogonal
from overstory.analysis.association.linked import DecodedVariable, filter_variable, finite_variable
from overstory.analysis.association.table import Marginal, TableEstimate
from overstory.analysis.decoding import CandidateMap
from overstory.analysis.decoding.model import SingularDesignError, inverse
from overstory.analysis.kinds.base import support_of
from overstory.analysis.kinds.linked import PairCounts, pair_counts
from overstory.analysis.tables.output import NOT_LISTED, unlike
from overstory.protocol.channels import check_reports_per_device
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overstory.analysis.reports import I64, SupportCounts
    from overstory.analysis.selection import F64, IntervalKind
    from overstory.protocol.kinds.joint import JointMechanism


DENSE: Final = 2_000  # unknowns up to which the system is a matrix
ACCURACY: Final = 1e-9  # of conjugate gradients: the residual over the right side
MOST_STEPS: Final = 500


@dataclass(frozen=True, eq=False)
class DenseSystem:
    """The equations M D = R for Delta, in bases of the vectors of sum 0: M's inverse, and the covariance of n D."""

    inverse: F64
    covariance: F64

    def solve(self, right: F64) -> F64:
        """Return D of M D = right, shape (..., K_x - 1, K_y - 1)."""
        return _times(right, self.inverse)

    def covary(self, weights: F64) -> F64:
        """Return the covariances of D, times n, with weighted sums of it."""
        return _times(weights, self.covariance)

    def diagonal(self, first: F64, second: F64) -> F64:
        """Return the variances, times n, of ``first D second'``: row by row of the first basis."""
        a, b = first.shape[1], second.shape[1]
        table = self.covariance.reshape(a, b, a, b)
        rows = []
        for row in first:
            between = np.einsum("a,abcd,c->bd", row, table, row, optimize=True)
            rows.append(np.einsum("jb,bd,jd->j", second, between, second, optimize=True))
        return np.asarray(rows)


def _times(right: F64, matrix: F64) -> F64:
    return np.asarray((right.reshape(*right.shape[:-2], -1) @ matrix).reshape(right.shape))


@dataclass(frozen=True, eq=False)
class IterativeSystem:
    """Conjugate gradients, all right sides at once; the inverses of both means of J are the preconditioner."""

    working: tuple[F64, F64]  # as in `system_of`, and so is `spread`
    spread: tuple[F64, F64]
    inverses: tuple[F64, F64]

    def _precondition(self, residual: F64) -> F64:
        return np.asarray(self.inverses[0] @ residual @ self.inverses[1])

    def solve(self, right: F64) -> F64:
        """Iterate until every residual is `ACCURACY` of its right side."""
        unknown, residual = np.zeros_like(right), right.copy()
        step = self._precondition(residual)
        size = _inner(residual, step)
        end = ACCURACY**2 * _inner(right, right)
        for _ in range(MOST_STEPS):
            if (_inner(residual, residual) <= end).all():
                return unknown
            moved = _multiply(self.working, step)
            length = size / np.maximum(_inner(step, moved), np.finfo(float).tiny)
            unknown += length * step
            residual -= length * moved
            turned = self._precondition(residual)
            before, size = size, _inner(residual, turned)
            step = turned + size / np.maximum(before, np.finfo(float).tiny) * step
        raise ParameterError("the candidates cannot be told apart: their pairs of bits overlap too much; name fewer")

    def covary(self, weights: F64) -> F64:
        return self.solve(_multiply(self.spread, self.solve(weights)))

    def diagonal(self, first: F64, second: F64) -> F64:
        """Return that of the cohorts' means: their information hardly varies."""
        middles = self.spread[0].sum(axis=0), self.spread[1].mean(axis=0)
        parts = []
        for basis, inverted, middle in zip((first, second), self.inverses, middles, strict=True):
            turned = basis @ inverted
            parts.append(np.einsum("ia,ab,ib->i", turned, middle, turned))
        return np.outer(parts[0], parts[1])


System = DenseSystem | IterativeSystem


def _multiply(parts: tuple[F64, F64], unknown: F64) -> F64:
    return np.asarray(np.sum([x @ unknown @ y for x, y in zip(*parts, strict=True)], axis=0))


def _inner(left: F64, right: F64) -> F64:
    return np.asarray((left * right).sum(axis=(-2, -1), keepdims=True))


def system_of(working: tuple[F64, F64], spread: tuple[F64, F64]) -> System:
    """Return the equations of all cohorts; `working` is each one's J, `spread` J by the supports' real precision."""
    first, second = working
    try:
        if first.shape[1] * second.shape[1] <= DENSE:
            inverted = inverse(_together(working))
            return DenseSystem(inverted, inverted @ _together(spread) @ inverted)
        return IterativeSystem(working, spread, (inverse(first.sum(axis=0)), inverse(second.mean(axis=0))))
    except SingularDesignError:
        raise ParameterError(
            "the candidates cannot be told apart: there are too many of them for these bits and cohorts; name fewer"
        ) from None


def _together(parts: tuple[F64, F64]) -> F64:
    """Return the sum over cohorts of the Kronecker products."""
    first, second = parts
    size = first.shape[1] * second.shape[1]
    return np.asarray(np.einsum("cab,cde->adbe", first, second, optimize=True).reshape(size, size))


class TooFewReportsError(ParameterError):
    """There are too few reports for an estimate."""


@dataclass(frozen=True, eq=False)
class FilterCovariance:
    """The covariances of the cells: those of Delta, and of the product of the marginals."""

    system: System
    bases: tuple[F64, F64]
    scale: float  # 1 / n, larger where devices reported repeatedly
    marginals: tuple[F64, F64]  # with people sampled as if the variables were independent, which is replaced
    shares: F64
    people: float  # 1 / n times the reports of a device
    kind: IntervalKind

    def variances(self) -> F64:
        a, b = self.shares.sum(axis=1), self.shares.sum(axis=0)
        first, second = self.marginals
        total = self.scale * self.system.diagonal(*self.bases)
        total += np.outer(a**2, np.diag(second)) + np.outer(np.diag(first), b**2)
        held, alone = self._people
        drawn = held * (1.0 - held) * (self.kind == "population") - alone * (1.0 - alone)
        return np.asarray(np.maximum(total + self.people * drawn, 0.0))

    def apply(self, weights: F64) -> F64:
        a, b = self.shares.sum(axis=1), self.shares.sum(axis=0)
        first, second = self.marginals
        (x, y), (held, alone) = self.bases, self._people
        total = self.scale * (x @ self.system.covary(x.T @ weights @ y) @ y.T)
        total += a[:, None] * (a @ weights @ second)[..., None, :]
        total += (weights @ b @ first.T)[..., None] * b
        drawn = _drawn(held, weights) * (self.kind == "population") - _drawn(alone, weights)
        return np.asarray(total + self.people * drawn)

    @property
    def _people(self) -> tuple[F64, F64]:
        """The cells as people hold them, and as they would if the variables were independent."""
        held = np.clip(self.shares, 0.0, 1.0)
        held /= max(1.0, float(held.sum()))
        return held, np.outer(held.sum(axis=1), held.sum(axis=0))

    def at(self, shares: F64) -> FilterCovariance:
        """Return those at other cells: the noise hardly depends on them."""
        return replace(self, shares=shares)


def _drawn(held: F64, weights: F64) -> F64:
    """Return the covariances of a multinomial's cells with weighted sums of them."""
    return np.asarray(weights * held - held * (weights * held).sum(axis=(-2, -1), keepdims=True))


def linked_filters(
    mechanism: JointMechanism,
    counts: SupportCounts,
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    *,
    complete: bool = False,  # every string is in its list: then no value is called "not listed"
    reports_per_device: float = 1.0,
    interval_kind: IntervalKind = "population",
) -> TableEstimate:
    """Return the table of two variables, one a Bloom filter or both; strings outside a list are one more value."""
    per_device = check_reports_per_device(reports_per_device)
    apart = pair_counts(mechanism, counts)
    shown, maps = listed_values(mechanism, labels, complete=complete)
    variables = [
        finite_variable(part, supported, apart.totals, per_device)
        if candidates is None
        else filter_variable(part, candidates, supported, apart.totals, per_device, complete=complete)
        for part, candidates, supported in zip(mechanism.components, maps, (apart.first, apart.second), strict=True)
    ]
    return table_of_variables(
        (variables[0], variables[1]),
        apart,
        (names[0], names[1]),
        shown,
        reports_per_device=per_device,
        interval_kind=interval_kind,
    )


def table_of_variables(
    variables: tuple[DecodedVariable, DecodedVariable],
    apart: PairCounts,
    names: tuple[str, str],
    labels: tuple[tuple[str, ...], tuple[str, ...]],
    *,
    reports_per_device: float = 1.0,
    interval_kind: IntervalKind = "population",
) -> TableEstimate:
    """Return the table of two variables that were decoded by themselves."""
    first, second = variables
    centred = _centred(apart.both, apart.first, apart.second, apart.totals)
    system, right, bases = _system(first, second, centred, apart.totals)
    cells = np.outer(first.shares, second.shares) + bases[0] @ system.solve(right) @ bases[1].T
    reports = max(int(apart.totals.sum()), 1)
    again = 1.0 + (reports_per_device - 1.0) * first.memoized * second.memoized
    people = reports_per_device / reports
    marginals = first.covariance, second.covariance
    covariance = FilterCovariance(system, bases, again / reports, marginals, cells, people, interval_kind)
    own = people if interval_kind == "reports" else 0.0
    return TableEstimate(
        names=names,
        labels=labels,
        shares=cells,
        covariance=covariance,
        num_reports=int(apart.totals.sum()),
        design="linked",
        interval_kind=interval_kind,
        own_shares=(_marginal(first, own), _marginal(second, own)),
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
    )


def listed_values(
    mechanism: JointMechanism, labels: Sequence[Sequence[str]], *, complete: bool
) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], list[CandidateMap | None]]:
    """Return of both variables the values to show, and the bits of candidates by its own hashes."""
    shown: list[tuple[str, ...]] = []
    maps: list[CandidateMap | None] = []
    for place, part in enumerate(mechanism.components):
        named = tuple(labels[place])
        maps.append(None)
        if part.encoding.decoded:
            if not named:
                raise ParameterError("a Bloom filter can only be asked for given strings: name candidates")
            maps[place] = CandidateMap(named, support_of(part).table(named), part.payload_bits)
            if not complete:
                named = (*named, unlike(NOT_LISTED, named))
        shown.append(named)
    return (shown[0], shown[1]), maps


def _marginal(variable: DecodedVariable, people: float) -> Marginal:
    held = np.clip(variable.shares, 0.0, 1.0)
    spread = np.diag(variable.covariance) - people * held * (1.0 - held)
    return Marginal(variable.shares, np.sqrt(np.maximum(spread, 0.0)))


def _centred(both: I64, first: I64, second: I64, totals: I64) -> F64:
    """Return each cohort's covariances of the supports of both parts; 0 in a cohort of fewer than two reports."""
    reports = np.maximum(totals, 1)[:, None, None].astype(np.float64)
    means = (first / reports[:, :, 0])[:, :, None] * (second / reports[:, :, 0])[:, None, :]
    # Covariances in a sample fall short by 1/n.
    return np.asarray(
        np.where(totals[:, None, None] > 1, (both / reports - means) * reports / np.maximum(reports - 1, 1), 0)
    )


def _system(
    first: DecodedVariable, second: DecodedVariable, centred: F64, totals: I64
) -> tuple[System, F64, tuple[F64, F64]]:
    """Return the equations for Delta, their right side, and the bases that its rows and columns are written in."""
    bases = orthogonal(np.ones(len(first.shares))), orthogonal(np.ones(len(second.shares)))
    used = [int(cohort) for cohort in np.flatnonzero(totals > 1)]
    if not used:
        raise TooFewReportsError("no cohort has two reports: nothing can be estimated of pairs")
    right = np.zeros((bases[0].shape[1], bases[1].shape[1]))
    working: tuple[list[F64], list[F64]] = ([], [])
    spread: tuple[list[F64], list[F64]] = ([], [])
    for cohort in used:
        part = totals[cohort] / totals.sum()
        x, y = bases[0].T @ first.against(cohort), bases[1].T @ second.against(cohort)
        right += part / (first.span * second.span) * (x @ centred[cohort] @ y.T)
        for place, (variable, sums, weight) in enumerate(((first, x, part), (second, y, 1.0))):
            working[place].append(weight * bases[place].T @ variable.information(cohort) @ bases[place])
            spread[place].append(weight * sums @ variable.together(cohort) @ sums.T)
    stacked = [(np.stack(each[0]), np.stack(each[1])) for each in (working, spread)]
    return system_of(*stacked), right, bases
