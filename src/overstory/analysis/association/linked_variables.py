"""One of two linked variables by itself: its shares, their errors, and what each support says of its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.association.linked import FiniteVariable
from overstory.analysis.decoding import CandidateMap, decode
from overstory.analysis.reports import SupportCounts
from overstory.analysis.variance import clustering
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import BitMechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.protocol.mechanisms.base import Mechanism

    F64 = NDArray[np.float64]
    I64 = NDArray[np.int64]


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
    covariances : ndarray of float64, shape (num_cohorts or 1, k, k)
        Of the debiased supports of one report.
    span : float
        p - q.
    memoized : float
        The largest part of a support's variance that two reports of one device share.
    """

    shares: F64
    covariance: F64
    designs: F64
    weights: F64
    covariances: F64
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
    true = np.clip(designs @ shares, 0.0, 1.0)
    noise = (true * p * (1 - p) + (1 - true) * q * (1 - q)) / (p - q) ** 2
    if not complete:  # each of their bits is set by itself
        noise = noise + max(float(shares[-1]), 0.0) * candidates.fill * (1 - candidates.fill)
    people = (designs * shares) @ designs.transpose(0, 2, 1) - true[:, :, None] * true[:, None, :]
    covariances = people + noise[:, :, None] * np.eye(candidates.num_bits)
    return DecodedVariable(shares, covariance, designs, weights, covariances, p - q, _memoized(part), decoded.notes)


def boolean_variable(part: Mechanism, supported: I64, totals: I64, per_device: float) -> DecodedVariable:
    """Return a variable of two values, true and false, of which one noisy bit is reported: 1 speaks for true.

    Parameters
    ----------
    part
        The oracle whose noise the bit has.
    supported : ndarray of int64, shape (num_cohorts, 1)
        Reports whose bit is 1.
    """
    reports = max(int(totals.sum()), 1)
    p, q = float(part.p_star), float(part.q_star)
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
    p, q = float(part.p_star), float(part.q_star)
    shared = clustering(part, 2.0)
    return max(shared.own / (p * (1 - p)), shared.other / (q * (1 - q)))
