r"""From two estimates to their difference: values matched by name, variances added, overlapping devices taken away.

If m devices report in both collections and keep their values, of n_a and n_b, and c is the covariance of one device's
two reports of a value (the permanent responses that they share),

.. math:: \operatorname{Cov}(\hat f_a, \hat f_b) = \frac{m}{n_a n_b} \left( \frac{c}{(p^* - q^*)^2} + f (1 - f) \right),

the last term for the population alone, is taken away twice from the variance of the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.difference.result import Difference
from overstory.analysis.support.base import SupportErrors
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import IntervalKind

    F64 = NDArray[np.float64]

MOST_TESTED: Final = 500
"""Values up to which the overall test takes into account how their errors go together."""
OVERLAPPING: Final = (
    "{:.0%} of the devices of the smaller collection are taken to be in both and to have kept their values: if fewer "
    "did, the intervals are too short"
)


def difference(
    a: Estimate, b: Estimate, *, interval_kind: IntervalKind = "population", overlap: float = 0.0, alpha: float = 0.05
) -> Difference:
    """Return the shares of `a` less those of `b`, for every value that both have.

    Parameters
    ----------
    a, b
        Estimates from two collections.
    interval_kind
        ``population``: do the populations differ, of which these devices are samples? ``reports``: do the devices
        differ that reported, with no word on others? Neither estimate's own kind matters.
    overlap
        Share of the smaller collection's devices that reported in both and kept their values, 0 to 1. They share
        noise and people, so that smaller changes are seen. Too small a share is safe, too large a one is not.
    alpha
        The false discovery rate of `Difference.changed`.

    Raises
    ------
    ParameterError
        If no value is in both, one lists a value twice, or an overlap is given that these estimates cannot use.

    Examples
    --------
    Two weeks of an oracle with little noise, 900 and 1,100 of 2,000 devices:

    >>> from overstory import Estimate
    >>> weeks = [Estimate(values=["on"], counts=[count], raw_counts=[count], standard_errors=[5], num_reports=2_000)
    ...          for count in (1_100, 900)]
    >>> for kind in ("population", "reports"):
    ...     both = difference(*weeks, interval_kind=kind)
    ...     print(kind, both.differences.round(3).tolist(), both.standard_errors.round(4).tolist())
    population [0.1] [0.0161]
    reports [0.1] [0.0035]
    """
    names = [[str(value) for value in estimate.values] for estimate in (a, b)]
    if any(len(set(listed)) < len(listed) for listed in names):
        raise ParameterError("one of the estimates lists a value twice: values cannot be matched")
    place = {value: index for index, value in enumerate(names[1])}
    first = [index for index, value in enumerate(names[0]) if value in place]
    if not first:
        raise ParameterError("the two estimates have no value in common")
    second = [place[names[0][index]] for index in first]
    left = len(names[0]) + len(names[1]) - 2 * len(first)
    notes = (f"{left:,} value(s) occur in only one of the estimates and are not compared",) if left else ()
    together = _together(a, b, first, second, interval_kind)
    # Two independent collections: Var (f - g) = Var f + Var g.
    errors = [
        estimate.errors(interval_kind)[rows] / max(estimate.num_reports, 1)
        for estimate, rows in ((a, first), (b, second))
    ]
    variances = np.asarray(errors[0] ** 2 + errors[1] ** 2)
    if overlap:
        shared = shared_errors(a, b, first, second, interval_kind, overlap)
        variances = np.maximum(variances - 2 * np.diag(shared), 0.0)
        together = None if together is None else together - 2 * shared
        notes = (*notes, OVERLAPPING.format(overlap))
    return Difference(
        values=[names[0][index] for index in first],
        differences=a.raw_frequencies[first] - b.raw_frequencies[second],
        standard_errors=np.sqrt(variances),
        num_reports=(a.num_reports, b.num_reports),
        interval_kind=interval_kind,
        alpha=alpha,
        notes=notes,
        first=a.raw_frequencies[first],
        second=b.raw_frequencies[second],
        overlap=overlap,
        correlations_squared=None if together is None else _squared_correlations(together, variances),
    )


def _together(a: Estimate, b: Estimate, first: list[int], second: list[int], kind: IntervalKind) -> F64 | None:
    """Return the covariances of the differences without overlap; None where they are not known or too many."""
    if len(first) > MOST_TESTED:
        return None
    covariances = np.zeros((len(first), len(first)))
    for estimate, rows in ((a, first), (b, second)):
        if estimate.joint_errors is None or not estimate.num_reports:
            return None
        covariances += estimate.covariance(kind, rows) / estimate.num_reports**2
    return covariances


def _squared_correlations(together: F64, variances: F64) -> float:
    """Return tr R^2 over the values whose difference has an error; R is 1 on its diagonal."""
    known = np.flatnonzero(np.isfinite(variances) & (variances > 0))
    errors = np.sqrt(variances[known])
    correlations = np.clip(together[np.ix_(known, known)] / np.outer(errors, errors), -1.0, 1.0)
    np.fill_diagonal(correlations, 1.0)
    return float((correlations**2).sum())


def shared_errors(
    a: Estimate, b: Estimate, first: list[int], second: list[int], kind: IntervalKind, overlap: float
) -> F64:
    """Return the covariances of the two collections' shares, from the devices that are in both."""
    if not 0.0 <= overlap <= 1.0:
        raise ParameterError(f"overlap is a share of the devices, 0 to 1, not {overlap}")
    joint = a.joint_errors
    if not isinstance(joint, SupportErrors) or joint != b.joint_errors:
        raise ParameterError(
            "an overlap of devices can be declared for two collections of one oracle that is estimated in closed form "
            "(not Bloom filters, sampled bits or pseudo-random seeds); without it the test is conservative"
        )
    devices = [max(estimate.num_reports, 1) / estimate.reports_per_device for estimate in (a, b)]
    shares = (a.raw_frequencies[first] + b.raw_frequencies[second]) / 2
    # m devices in both, each with a share 1 / n_a and 1 / n_b of the two estimates.
    return overlap * min(devices) / (devices[0] * devices[1]) * joint.overlap(shares, kind)
