r"""Smoothing the estimates of small groups: each is moved towards the mean of all, the less precise it is the more.

The model of Fay and Herriot [1]_, for each value by itself: the estimate of group s is :math:`y_s = p_s + e_s` with a
known variance v_s, and the shares of the groups are :math:`p_s \sim (\mu, \tau^2)`. With :math:`\gamma_s = \tau^2 /
(\tau^2 + v_s)` the smoothed share is :math:`\mu + \gamma_s (y_s - \mu)`. The spread :math:`\tau^2` is that of Paule and
Mandel [2]_: the one for which :math:`\sum (y_s - \mu)^2 / (\tau^2 + v_s) = S - 1`, or 0 where none is as small. The
mean squared error is :math:`g_1 + g_2 + 2 g_3`: of the noise that is left, of the mean, and of :math:`\tau^2` [3]_.

Smoothed shares are on average nearer to the truth. They are not unbiased, and where groups differ by less than the
noise their intervals are too short in some groups: an interval is always that of the estimate itself.

References
----------
.. [1] Fay and Herriot, "Estimates of income for small places", JASA 74 (1979).
.. [2] Paule and Mandel, "Consensus values and weighting factors", J. Res. NBS 87 (1982).
.. [3] Datta, Rao and Smith, "On measuring the variability of small area estimators under a basic area level model",
   Biometrika 92 (2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.selection import normal_quantile
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import F64


FEWEST: Final = 3
"""Groups below which a spread between them is not estimated."""

STEPS: Final = 60
"""Halvings of the range in which tau^2 lies: to the last digit."""


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Smoothed shares of M values in S groups."""

    shares: F64  # shape (S, M)
    errors: F64  # shape (S, M): the square roots of the mean squared errors
    spread: F64  # shape (M,): the estimated standard deviation of a value's true share between groups
    mean: F64  # shape (M,): the share that groups are moved towards


def smooth(shares: F64, variances: F64) -> Smoothed:
    """Move unbiased shares of M values in S >= 3 groups, shape (S, M), towards their mean; variances are above 0."""
    if shares.ndim != 2 or shares.shape != variances.shape or not (variances > 0).all():
        raise ParameterError("give shares and their variances by group and value, and variances above 0")
    if len(shares) < FEWEST:
        raise ParameterError(f"{len(shares)} groups: smoothing needs at least {FEWEST}, to see how far they differ")
    between = _between(shares, variances)
    weights = 1 / (between + variances)
    mean = (weights * shares).sum(axis=0) / weights.sum(axis=0)
    kept = between * weights
    left = kept * variances
    of_mean = (1 - kept) ** 2 / weights.sum(axis=0)
    of_between = variances**2 * weights**3 * 2 * len(shares) / weights.sum(axis=0) ** 2
    errors = np.sqrt(left + of_mean + 2 * of_between)
    return Smoothed(mean + kept * (shares - mean), errors, np.sqrt(between), mean)


def _between(shares: F64, variances: F64) -> F64:
    """Return tau^2 of each value (float64, shape (M,)): where the weighted sum of squares falls to S - 1."""

    def surplus(between: F64) -> F64:
        weights = 1 / (between + variances)
        mean = (weights * shares).sum(axis=0) / weights.sum(axis=0)
        return np.asarray((weights * (shares - mean) ** 2).sum(axis=0) - (len(shares) - 1))

    low = np.zeros(shares.shape[1])
    high = np.maximum(((shares - shares.mean(axis=0)) ** 2).sum(axis=0), 1e-300)  # beyond it the sum is below S - 1
    for _ in range(STEPS):
        middle = (low + high) / 2
        above = surplus(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(surplus(np.zeros_like(low)) > 0, (low + high) / 2, 0.0)


LEVEL: Final = 0.95


@dataclass(frozen=True, eq=False)
class WeightedShares:
    """Shares among all devices, each group by its public share, and their errors (float64, shape (M,))."""

    values: Sequence[Any]
    shares: F64
    errors: F64

    def rows(self) -> list[dict[str, Any]]:
        order = np.argsort(-self.shares, kind="stable")
        return [
            {"value": self.values[place], **with_interval(self.shares[place], self.errors[place])}
            for place in order[np.isfinite(self.errors[order])]
        ]


def with_interval(raw: float, error: float) -> dict[str, float]:
    """Return a share within 0 and 1, the unbiased one, its error, and its interval, not corrected for selection."""
    reach = normal_quantile(0.5 + LEVEL / 2) * error
    share, low, high = (min(max(float(bound), 0.0), 1.0) for bound in (raw, raw - reach, raw + reach))
    return {"share": share, "raw_share": float(raw), "standard_error": float(error), "low": low, "high": high}


def weighted_shares(weights: Sequence[float], estimates: Sequence[Estimate]) -> WeightedShares | None:
    """Return the shares of all devices: the groups' own, each by its public share; None where no device is expected."""
    if not sum(weights):
        return None
    parts = np.array(weights) / sum(weights)
    shares = np.stack([estimate.raw_frequencies for estimate in estimates])
    errors = np.stack([estimate.errors() / estimate.num_reports for estimate in estimates])
    return WeightedShares(estimates[0].values, parts @ shares, np.sqrt(parts**2 @ errors**2))


def smoothed_shares(pooled: Estimate, estimates: Sequence[Estimate]) -> Smoothed:
    """Smooth with the variances at the pooled shares: a group's own would depend on its noise."""
    of_one = pooled.errors() ** 2 / pooled.num_reports
    usable = np.isfinite(of_one) & (of_one > 0)
    shares = np.array([estimate.raw_frequencies[usable] for estimate in estimates]).reshape(-1, usable.sum())
    variances = np.array([of_one[usable] / estimate.num_reports for estimate in estimates]).reshape(shares.shape)
    smoothed = smooth(shares, variances)
    return Smoothed(
        *(_spread_out(part, usable) for part in (smoothed.shares, smoothed.errors, smoothed.spread, smoothed.mean))
    )


def _spread_out(numbers: F64, usable: NDArray[np.bool_]) -> F64:
    """Put numbers of the usable values into their places among all."""
    out = np.full((*numbers.shape[:-1], usable.size), np.nan)
    out[..., usable] = numbers
    return out
