r"""A table from linked reports of two variables with finite domains: exact estimates from counts of pairs of supports.

With :math:`\phi_i = (s_i - q) / (p - q)`, s_i saying whether a report supports value i, the mean of
:math:`\phi_i` given value x is 1 where i = x and 0 elsewhere. The two parts of a report draw independent noise, so

.. math:: P_{ij} = \frac{N_{ij} - q_x N_{.j} - q_y N_{i.} + n q_x q_y}{n (p_x - q_x)(p_y - q_y)}

is unbiased: the mean of :math:`\phi_i \psi_j`. The shares of a variable add up to 1, and least squares uses it: with
S the covariance of :math:`\phi`, :math:`u = Q \phi + S 1 / (1' S 1)`, :math:`Q = I - S 1 1' / (1' S 1)`, has
the sum 1 in every report and is still unbiased. The mean of :math:`u v'` is the product of the marginals and the
decoded cross-covariance.

The covariances are exact, whatever the dependence: :math:`E\,u u'` is linear in the values' shares,

.. math:: E (u u' \mid x) = A_0 + \sum_m d_m r_{mx} r_{mx}' ,

and given both values u and v are independent. Reports of one device share its permanent responses: the same with the
moments of two reports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from overstory.analysis.association.table import Marginal, TableEstimate
from overstory.analysis.decoding import CandidateMap, decode
from overstory.analysis.estimate import NO_REPORTS
from overstory.analysis.kinds.base import support_of
from overstory.analysis.kinds.linked import PairCounts, pair_counts
from overstory.analysis.reports import SupportCounts
from overstory.analysis.variance import clustering
from overstory.protocol.channels import check_reports_per_device
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overstory.analysis.reports import I64
    from overstory.analysis.selection import F64, IntervalKind
    from overstory.protocol.kinds.base import Mechanism
    from overstory.protocol.kinds.joint import JointMechanism


class Moments(NamedTuple):
    """E(u u' | x) = base + the sum of weight times r_x r_x' over the columns r_x of each (K, K) matrix."""

    base: F64
    own: tuple[tuple[float, F64], ...]

    def over(self, shares: F64) -> F64:
        """Return E u u' where the values have these shares."""
        parts = [weight * (columns * shares) @ columns.T for weight, columns in self.own]
        return np.asarray(self.base + np.sum(parts, axis=0))


@dataclass(frozen=True, eq=False)
class FiniteVariable:
    """One of two linked variables with a finite domain: its oracle is a symbol, or a bit for each value."""

    part: Mechanism
    supported: F64  # shape (K,): the share of the reports that support each value

    @property
    def rates(self) -> tuple[float, float]:
        return support_of(self.part).rates

    @property
    def is_symbol(self) -> bool:
        """Whether a report supports one value: then supports add up to 1 already."""
        return support_of(self.part).one_support

    @property
    def raw(self) -> F64:
        p, q = self.rates
        return np.asarray((self.supported - q) / (p - q))

    @cached_property
    def projection(self) -> tuple[F64, F64]:
        """Q, and S 1 / (1' S 1); S is taken at the raw shares, for clipped ones would inflate the test."""
        size = len(self.supported)
        if self.is_symbol:
            return np.eye(size), np.zeros(size)
        p, q = self.rates
        raw = self.raw
        spread = np.diag((raw * p * (1 - p) + (1 - raw) * q * (1 - q)) / (p - q) ** 2 + raw) - np.outer(raw, raw)
        edge = spread.sum(axis=1) / spread.sum()
        return np.eye(size) - edge[:, None], edge

    @property
    def shares(self) -> F64:
        projection, centre = self.projection
        return np.asarray(projection @ self.raw + centre)

    def moments(self, projection: F64, *, shared: bool = False) -> Moments:
        """Return E(u u' | x), u = Q phi + what keeps it unbiased, of one report, or (`shared`) of two of one device."""
        (p, q), eye = self.rates, np.eye(len(self.supported))
        own, other, left = self.part.permanent_support if shared else (p, q, 1.0)
        if self.is_symbol:
            # The symbol z that is shared has E(phi | z) = (left e_z + c 1) / (p - q), of mean e_x over z.
            centre = (1.0 - left) / len(eye) - q if shared else -q
            seen = (left * eye + centre) / (p - q)
            return Moments(other * seen @ seen.T, ((own - other, seen),))
        noise = left**2 / (p - q) ** 2
        mine, others = own * (1 - own) * noise, other * (1 - other) * noise
        return Moments(others * projection @ projection.T, ((mine - others, projection), (1.0, eye)))


@dataclass(frozen=True, eq=False)
class LinkedCovariance:
    """The exact covariances of the cells, from both variables' moments in one report, and in two of one device."""

    once: tuple[Moments, Moments]
    shared: tuple[Moments, Moments]
    shares: F64
    rows: F64
    columns: F64
    num_reports: int
    reports_per_device: float = 1.0
    kind: IntervalKind = "population"

    def variances(self) -> F64:
        total = self._spread(self.once) + (self.reports_per_device - 1.0) * self._spread(self.shared)
        if self.kind == "reports":
            held = np.clip(self.shares, 0.0, 1.0)
            total -= self.reports_per_device * held * (1.0 - held)
        return np.asarray(np.maximum(total, 0.0) / max(self.num_reports, 1))

    def _spread(self, moments: tuple[Moments, Moments]) -> F64:
        # sum over values s, t of pi_st m_x(s) m_y(t) - P^2, pi the table whose marginals are the rows and columns.
        first, second = (each.base.diagonal() for each in moments)
        (by_row, by_column) = (diagonal(each) for each in moments)
        cells = by_row @ self.shares @ by_column.T
        cells += np.outer(by_row @ self.rows, second) + np.outer(first, by_column @ self.columns)
        return np.asarray(cells + np.outer(first, second) - self.shares**2)

    def apply(self, weights: F64) -> F64:
        total = self._products(self.once, weights)
        if self.reports_per_device != 1.0:
            total += (self.reports_per_device - 1.0) * self._products(self.shared, weights)
        if self.kind == "reports":
            held = np.clip(self.shares, 0.0, 1.0)
            possible = held / max(1.0, float(held.sum()))
            people = weights * held - possible * (weights * possible).sum(axis=(-2, -1), keepdims=True)
            total -= self.reports_per_device * people
        return np.asarray(total / max(self.num_reports, 1))

    def _products(self, moments: tuple[Moments, Moments], weights: F64) -> F64:
        first, second = moments
        mean_first, mean_second = first.over(self.rows) - first.base, second.over(self.columns) - second.base
        total = first.base @ weights @ (second.base + mean_second) + mean_first @ weights @ second.base
        for weight, rows in first.own:
            for other, columns in second.own:
                inner = self.shares * (rows.T @ weights @ columns)
                total = total + weight * other * (rows @ inner @ columns.T)
        return np.asarray(total - self.shares * (weights * self.shares).sum(axis=(-2, -1), keepdims=True))

    def at(self, shares: F64) -> LinkedCovariance:
        return replace(self, shares=shares, rows=shares.sum(axis=1), columns=shares.sum(axis=0))


def diagonal(moments: Moments) -> F64:
    """Return what each value x adds to the diagonal of E(u u' | x), shape (K, K): a row for each entry."""
    return np.asarray(np.sum([weight * columns**2 for weight, columns in moments.own], axis=0))


def linked_cells(
    mechanism: JointMechanism,
    counts: SupportCounts,
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    *,
    reports_per_device: float = 1.0,  # reports of one device, its values unchanged
    interval_kind: IntervalKind = "population",
) -> TableEstimate:
    """Return the table of two variables with finite domains that were reported together, each by its own oracle."""
    if mechanism.domain_size is None:
        raise ParameterError(f"{mechanism.name}: a part takes strings, whose candidates must be named")
    apart = pair_counts(mechanism, counts)
    reports = max(counts.num_reports, 1)
    variables = [
        FiniteVariable(part, supported.sum(axis=0) / reports)
        for part, supported in zip(mechanism.components, (apart.first, apart.second), strict=True)
    ]
    raw = _raw_cells(variables, apart)
    projections = [each.projection[0] for each in variables]
    rows, columns = (each.shares for each in variables)
    centred = raw - np.outer(variables[0].raw, variables[1].raw)
    cells = np.outer(rows, columns) + projections[0] @ centred @ projections[1].T
    once, shared = (
        tuple(each.moments(q, shared=shared) for each, q in zip(variables, projections, strict=True))
        for shared in (False, True)
    )
    per_device = check_reports_per_device(reports_per_device)
    covariance = LinkedCovariance(
        (once[0], once[1]), (shared[0], shared[1]), cells, rows, columns, counts.num_reports, per_device, interval_kind
    )
    return TableEstimate(
        names=(names[0], names[1]),
        labels=(tuple(labels[0]), tuple(labels[1])),
        shares=cells,
        covariance=covariance,
        num_reports=counts.num_reports,
        design="linked",
        interval_kind=interval_kind,
        own_shares=_marginals(covariance),
        notes=() if counts.num_reports else (NO_REPORTS,),
    )


def _raw_cells(variables: Sequence[FiniteVariable], apart: PairCounts) -> F64:
    first, second = variables
    (p_x, q_x), (p_y, q_y) = first.rates, second.rates
    both = apart.both.sum(axis=0) / max(int(apart.totals.sum()), 1)
    # (N_ij - q_x N_.j - q_y N_i. + n q_x q_y) / (n (p_x - q_x) (p_y - q_y))
    centred = both - q_x * second.supported - q_y * first.supported[:, None] + q_x * q_y
    return np.asarray(centred / ((p_x - q_x) * (p_y - q_y)))


def _marginals(covariance: LinkedCovariance) -> tuple[Marginal, Marginal]:
    found = []
    for place, shares in enumerate((covariance.rows, covariance.columns)):
        spread = [
            each[place].base.diagonal() + diagonal(each[place]) @ shares - shares**2
            for each in (covariance.once, covariance.shared)
        ]
        total = spread[0] + (covariance.reports_per_device - 1.0) * spread[1]
        if covariance.kind == "reports":
            held = np.clip(shares, 0.0, 1.0)
            total -= covariance.reports_per_device * held * (1.0 - held)
        found.append(Marginal(shares, np.sqrt(np.maximum(total, 0.0) / max(covariance.num_reports, 1))))
    return found[0], found[1]


@dataclass(frozen=True, eq=False)
class DecodedVariable:
    """One of two linked variables, decoded by itself; over c cohorts (or 1), k supports and K values."""

    shares: F64  # shape (K,), unbiased; strings outside the list come last, where there may be some
    covariance: F64  # shape (K, K), of `shares`
    designs: F64  # shape (c, k, K): which supports each value has, in each cohort
    weights: F64  # shape (c, k): (p - q)^2 / (theta (1 - theta)) of each support
    covariances: F64  # shape (c, k, k): of the debiased supports of one report
    span: float  # p - q
    memoized: float  # the largest part of a support's variance that two reports of one device share
    notes: tuple[str, ...] = ()

    def information(self, cohort: int) -> F64:
        """Return J of a cohort, shape (K, K)."""
        design, weights = self._in(cohort)
        return np.asarray(design.T @ (weights[:, None] * design))

    def against(self, cohort: int) -> F64:
        """Return X' W of a cohort, shape (K, k)."""
        design, weights = self._in(cohort)
        return np.asarray(design.T * weights)

    def together(self, cohort: int) -> F64:
        """Return the covariances of one report's debiased supports, shape (k, k)."""
        return np.asarray(self.covariances[cohort if len(self.covariances) > 1 else 0])

    def _in(self, cohort: int) -> tuple[F64, F64]:
        place = cohort if len(self.designs) > 1 else 0
        return self.designs[place], self.weights[place]


def finite_variable(part: Mechanism, supported: I64, totals: I64, per_device: float) -> DecodedVariable:
    """Return a variable with a finite domain, of which there are counts of each value's support by cohort."""
    reports = max(int(totals.sum()), 1)
    variable = FiniteVariable(part, supported.sum(axis=0) / reports)
    (p, q), shares = variable.rates, variable.shares
    moments = [variable.moments(variable.projection[0], shared=shared) for shared in (False, True)]
    once, again = (each.over(shares) - np.outer(shares, shares) for each in moments)
    theta = np.clip(variable.supported, 1e-4, 1 - 1e-4)
    # Supports that are one symbol go together so that, among contrasts, 1 / theta is their precision.
    weights = (p - q) ** 2 / (theta if variable.is_symbol else theta * (1 - theta))
    return DecodedVariable(
        shares,
        (once + (per_device - 1.0) * again) / reports,
        np.eye(len(shares))[None],
        weights[None],
        (variable.moments(np.eye(len(shares))).over(shares) - np.outer(shares, shares))[None],
        p - q,
        _memoized(part),
    )


def filter_variable(
    part: Mechanism,
    candidates: CandidateMap,
    supported: I64,
    totals: I64,
    per_device: float,
    *,
    complete: bool,
) -> DecodedVariable:
    """Return a variable whose strings were looked for by the decoder."""
    half: Any = support_of(part)
    p, q = half.rates
    decoded = decode(
        SupportCounts(totals, supported),
        candidates,
        p_star=p,
        q_star=q,
        complete=complete,
        permanent=half.mechanism.rounds.permanent,
        reports_per_device=per_device,
        interval_kind="population",
    )
    if decoded.colliding:
        raise ParameterError(
            f"{' and '.join(decoded.colliding[0][:2])} set the same bits in every cohort: leave one of them out"
        )
    reports = max(decoded.num_reports, 1)
    shares, covariance = decoded.raw_counts / reports, decoded.covariance("population") / reports**2
    designs = candidates.dense().reshape(candidates.num_cohorts, candidates.num_bits, -1)
    if not complete:
        # The strings outside are what is left of 1: their column is h/k everywhere.
        all_shares = np.vstack((np.eye(len(shares)), -np.ones(len(shares))))
        shares, covariance = np.append(shares, 1.0 - shares.sum()), all_shares @ covariance @ all_shares.T
        designs = np.concatenate((designs, np.full((*designs.shape[:2], 1), candidates.fill)), axis=2)
    theta = np.clip(q + (p - q) * (designs @ shares), 1e-4, 1 - 1e-4)
    weights = (p - q) ** 2 / (theta * (1 - theta))
    true = np.clip(designs @ shares, 0.0, 1.0)
    noise = (true * p * (1 - p) + (1 - true) * q * (1 - q)) / (p - q) ** 2
    if not complete:  # each of their bits is set by itself
        noise = noise + max(float(shares[-1]), 0.0) * candidates.fill * (1 - candidates.fill)
    people = (designs * shares) @ designs.transpose(0, 2, 1) - true[:, :, None] * true[:, None, :]
    covariances = people + noise[:, :, None] * np.eye(candidates.num_bits)
    return DecodedVariable(shares, covariance, designs, weights, covariances, p - q, _memoized(part), decoded.notes)


def boolean_variable(part: Mechanism, supported: I64, totals: I64, per_device: float) -> DecodedVariable:
    """Return a variable of which one noisy bit is reported, 1 for true; `supported` counts the 1s: (num_cohorts, 1)."""
    reports = max(int(totals.sum()), 1)
    p, q = support_of(part).rates
    lit = float(supported.sum()) / reports
    true = (lit - q) / (p - q)
    theta = min(max(lit, 1e-4), 1 - 1e-4)
    memoized = _memoized(part)
    spread = theta * (1 - theta) * (1.0 + (per_device - 1.0) * memoized) / (reports * (p - q) ** 2)
    return DecodedVariable(
        np.array([true, 1.0 - true]),
        spread * np.array([[1.0, -1.0], [-1.0, 1.0]]),
        np.array([[[1.0, 0.0]]]),
        np.array([[(p - q) ** 2 / (theta * (1 - theta))]]),
        np.array([[[theta * (1 - theta) / (p - q) ** 2]]]),
        p - q,
        memoized,
    )


def _memoized(part: Mechanism) -> float:
    """Return the largest share of a support's variance that the permanent response makes."""
    p, q = support_of(part).rates
    shared = clustering(part, 2.0)
    return max(shared.own / (p * (1 - p)), shared.other / (q * (1 - q)))
