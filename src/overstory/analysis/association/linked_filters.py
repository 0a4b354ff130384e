r"""A table from linked reports of which a part, or both, is a Bloom filter: strings whose candidates are named later.

In cohort c, with the filters of the candidates as the columns of X and Y, the covariance of the two parts' supports is
:math:`C_c = (p_x - q_x)(p_y - q_y) X_c \Delta Y_c'`, where :math:`\Delta = P - a b'` has rows and columns of sum 0.
Each support has about the variance :math:`\theta (1 - \theta)`, :math:`\theta` being how often it comes, and pairs of
supports err independently. So least squares solves, with :math:`W = (p - q)^2 / (\theta (1 - \theta))` and
:math:`J = X' W X`,

.. math:: \sum_c \tfrac{n_c}{n} J_{xc} \Delta J_{yc}
          = \sum_c \tfrac{n_c}{n} X_c' W_{xc} \frac{C_c}{(p_x - q_x)(p_y - q_y)} W_{yc} Y_c

in bases of the vectors of sum 0 (`linked_equations`), where its inverse over n is the covariance of :math:`\Delta`. The
marginals are the decoder's. Strings outside a list are one more column, h/k in every bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.association.linked import FiniteVariable
from overstory.analysis.association.linked_equations import System, system_of, zero_sum
from overstory.analysis.association.table import Marginal, TableEstimate
from overstory.analysis.decoding import CandidateMap, decode
from overstory.analysis.reports import SupportCounts
from overstory.analysis.support.linked import pair_counts
from overstory.analysis.variance import check_reports_per_device, clustering
from overstory.protocol.encodings.bits import Bloom
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import BitMechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from overstory.analysis.selection import IntervalKind
    from overstory.protocol.mechanisms.base import Mechanism
    from overstory.protocol.mechanisms.joint import JointMechanism

    F64 = NDArray[np.float64]
    I64 = NDArray[np.int64]

OTHER: Final = "other"
"""What strings outside a list are called."""


@dataclass(frozen=True, eq=False)
class DecodedVariable:
    """One of two linked variables, decoded by itself.

    Attributes
    ----------
    shares : ndarray of float64, shape (K,)
        Unbiased shares of the values; strings outside the list come last, where there may be some.
    covariance : ndarray of float64, shape (K, K)
        Of `shares`.
    designs : ndarray of float64, shape (num_cohorts or 1, k, K)
        Which supports each value has, in each cohort.
    weights : ndarray of float64, shape (num_cohorts or 1, k)
        (p - q)^2 / (theta (1 - theta)) of each support.
    span : float
        p - q.
    memoized : float
        The largest part of a support's variance that two reports of one device share.
    """

    shares: F64
    covariance: F64
    designs: F64
    weights: F64
    span: float
    memoized: float
    notes: tuple[str, ...] = ()

    def information(self, cohort: int) -> F64:
        """Return J of a cohort, shape (K, K)."""
        design, weights = self._in(cohort)
        return np.asarray(design.T @ (weights[:, None] * design))

    def against(self, cohort: int) -> F64:
        """Return X' W of a cohort, shape (K, k)."""
        design, weights = self._in(cohort)
        return np.asarray(design.T * weights)

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
    assert isinstance(part, BitMechanism)
    p, q = float(part.p_star), float(part.q_star)
    decoded = decode(
        SupportCounts(totals, supported),
        candidates,
        p_star=p,
        q_star=q,
        complete=complete,
        permanent=part.rounds.permanent,
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
    return DecodedVariable(shares, covariance, designs, weights, p - q, _memoized(part), decoded.notes)


def _memoized(part: Mechanism) -> float:
    """Return the largest share of a support's variance that the permanent response makes."""
    p, q = float(part.p_star), float(part.q_star)
    shared = clustering(part, 2.0)
    return max(shared.own / (p * (1 - p)), shared.other / (q * (1 - q)))


@dataclass(frozen=True, eq=False)
class FilterCovariance:
    """The covariances of the cells: those of Delta, and of the product of the marginals.

    Parameters
    ----------
    system, bases
        What the covariance of Delta follows from.
    scale : float
        1 / n, larger where devices reported repeatedly.
    marginals : tuple of two ndarray of float64
        The covariances of the rows' and of the columns' shares.
    shares : ndarray of float64, shape (k_x, k_y)
    people : float
        What of the sampling of people is left out: 1 / n times the reports of a device, or 0.
    """

    system: System
    bases: tuple[F64, F64]
    scale: float
    marginals: tuple[F64, F64]
    shares: F64
    people: float

    def variances(self) -> F64:
        """Return the cells' variances, shape (k_x, k_y)."""
        a, b = self.shares.sum(axis=1), self.shares.sum(axis=0)
        first, second = self.marginals
        total = self.scale * self.system.diagonal(*self.bases)
        total += np.outer(a**2, np.diag(second)) + np.outer(np.diag(first), b**2)
        held = np.clip(self.shares, 0.0, 1.0)
        return np.asarray(np.maximum(total - self.people * held * (1.0 - held), 0.0))

    def apply(self, weights: F64) -> F64:
        """Return the covariances with weighted sums of cells."""
        a, b = self.shares.sum(axis=1), self.shares.sum(axis=0)
        first, second = self.marginals
        (x, y), held = self.bases, np.clip(self.shares, 0.0, 1.0)
        total = self.scale * (x @ self.system.solve(x.T @ weights @ y) @ y.T)
        total += np.outer(a, a) @ weights @ second + first @ weights @ np.outer(b, b)
        possible = held / max(1.0, float(held.sum()))
        drawn = weights * held - possible * (weights * possible).sum(axis=(-2, -1), keepdims=True)
        return np.asarray(total - self.people * drawn)

    def at(self, shares: F64) -> FilterCovariance:
        """Return those at other cells: the noise hardly depends on them."""
        return replace(self, shares=shares)


def linked_filters(
    mechanism: JointMechanism,
    counts: SupportCounts,
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    *,
    maps: Sequence[CandidateMap | None] = (None, None),
    complete: bool = False,
    reports_per_device: float = 1.0,
    interval_kind: IntervalKind = "population",
) -> TableEstimate:
    """Return the table of two variables of which at least one is a string in a Bloom filter.

    Parameters
    ----------
    counts
        Counts of pairs of supports by cohort.
    names, labels
        What the variables and their values are called; of strings, the candidates.
    maps
        The candidates' bits, where they were made elsewhere; None: by the mechanism's own hashes.
    complete
        Whether every string is in its list: then no value is called "other".
    reports_per_device, interval_kind
        See `linked_cells`.

    Raises
    ------
    ParameterError
        If the counts are another mechanism's, or the candidates cannot be told apart.
    """
    per_device = check_reports_per_device(reports_per_device)
    apart = pair_counts(mechanism, counts)
    supported = apart.first, apart.second
    variables, shown = [], []
    for place, part in enumerate(mechanism.components):
        named = tuple(labels[place])
        if isinstance(part.encoding, Bloom):
            given = maps[place]
            candidates = candidate_map(part.encoding, named) if given is None else given
            variables.append(
                filter_variable(part, candidates, supported[place], apart.totals, per_device, complete=complete)
            )
            shown.append(named if complete else (*named, OTHER))
        else:
            variables.append(finite_variable(part, supported[place], apart.totals, per_device))
            shown.append(named)
    first, second = variables
    system, right, bases = _system(first, second, _centred(apart.both, *supported, apart.totals), apart.totals)
    delta = bases[0] @ system.solve(right) @ bases[1].T
    cells = np.outer(first.shares, second.shares) + delta
    reports = max(counts.num_reports, 1)
    again = 1.0 + (per_device - 1.0) * first.memoized * second.memoized
    people = per_device / reports if interval_kind == "reports" else 0.0
    covariance = FilterCovariance(system, bases, again / reports, (first.covariance, second.covariance), cells, people)
    return TableEstimate(
        names=(names[0], names[1]),
        labels=(shown[0], shown[1]),
        shares=cells,
        covariance=covariance,
        num_reports=counts.num_reports,
        design="linked",
        interval_kind=interval_kind,
        other=_others(shown, labels),
        own_shares=(_marginal(first, people), _marginal(second, people)),
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
    )


def candidate_map(encoding: Bloom, candidates: Sequence[str]) -> CandidateMap:
    """Return the candidates' bits by the mechanism's own hashes."""
    from overstory.analysis.support.positions import positions_of

    if not candidates:
        raise ParameterError("a Bloom filter can only be asked for given strings: name candidates")
    return CandidateMap(candidates, positions_of(encoding, candidates), encoding.num_bits)


def _others(shown: Sequence[tuple[str, ...]], labels: Sequence[Sequence[str]]) -> tuple[int | None, int | None]:
    first, second = (
        len(each) - 1 if len(each) > len(given) else None for each, given in zip(shown, labels, strict=True)
    )
    return first, second


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
    bases = zero_sum(len(first.shares)), zero_sum(len(second.shares))
    used = [int(cohort) for cohort in np.flatnonzero(totals > 1)]
    if not used:
        raise ParameterError("no cohort has two reports: nothing can be said of pairs")
    right = np.zeros((bases[0].shape[1], bases[1].shape[1]))
    rows, columns = [], []
    for cohort in used:
        part = totals[cohort] / totals.sum()
        x, y = bases[0].T @ first.against(cohort), bases[1].T @ second.against(cohort)
        right += part / (first.span * second.span) * (x @ centred[cohort] @ y.T)
        rows.append(part * bases[0].T @ first.information(cohort) @ bases[0])
        columns.append(bases[1].T @ second.information(cohort) @ bases[1])
    return system_of(np.stack(rows), np.stack(columns)), right, bases
