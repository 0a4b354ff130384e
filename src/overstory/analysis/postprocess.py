r"""Post-processing as named steps: what is done to the unbiased counts after they are estimated.

    postprocess(estimate, "base-cut", "norm-sub")

The unbiased counts, their standard errors and what is detected stay as they were (`raw_counts`); only the counts to
report change, and the result lists the steps. Post-processing reads no report, so it costs no privacy.

Wang, Lopuhaa-Zwakenberg, Li, Skoric, Li, "Locally differentially private frequency estimation with consistency", NDSS
2020, name and compare Norm-Sub and Base-Cut among others.

*Smoothing the estimates of small groups*: each is moved towards the mean of all, the less precise it is the more.
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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.estimate import Estimate, converted
from overstory.analysis.selection import bounded_interval, normal_quantile
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from overstory.analysis.selection import F64


def clip(estimate: Estimate) -> F64:
    """Move each count to the nearest one that is possible: not negative, and no more than the reports."""
    return np.clip(estimate.counts, 0.0, estimate.num_reports)


def norm_sub(estimate: Estimate) -> F64:
    """Project onto counts >= 0 that sum to the reports: ``max(count + delta, 0)``; sums over many are biased."""
    return project_simplex(estimate.counts, estimate.num_reports)


def base_cut(estimate: Estimate) -> F64:
    """Set to 0 counts with p above alpha / d: at most alpha absent values stay on average (Bassily and Smith 2015)."""
    return np.where(estimate.p_values <= estimate.alpha / max(len(estimate), 1), estimate.counts, 0.0)


def project_simplex(values: ArrayLike, total: float = 1.0) -> F64:
    """Return the nearest ``max(values + delta, 0)`` of sum `total` (Held, Wolfe, Crowder 1974; arXiv 1309.1541)."""
    given = np.asarray(values, np.float64)
    if given.ndim != 1 or not given.size or total < 0:
        raise ParameterError(f"give a list of numbers and a total that is not negative, not {given.shape} and {total}")
    # With the k largest above 0, delta_k = (total - their sum) / k; the last k whose smallest stays above 0 is right.
    falling = np.sort(given)[::-1]
    deltas = (total - np.cumsum(falling)) / np.arange(1, given.size + 1)
    last = int(np.flatnonzero(falling + deltas >= 0)[-1])
    return np.asarray(np.maximum(given + deltas[last], 0.0))


def smooth(estimate: Estimate) -> F64:
    """Return a smoothing spline on the ordered counts, as rough as their own noise allows; one spike is blurred.

    The amplitude of a wave of k half periods shrinks by ``1 / (1 + penalty k**4)``, penalized least squares in the
    cosine basis (Garcia 2010): the slope is 0 at both ends, and the sum stays. The penalty is that of the least squared
    error by Stein's unbiased estimate (Stein 1981). Counts may still be negative: "norm-sub" after it.
    """
    from scipy.fft import dct, idct

    errors = estimate.standard_errors[np.isfinite(estimate.standard_errors)]
    if not errors.size:
        raise ParameterError("smoothing needs a finite standard error to know noise from shape")
    # In the orthonormal cosine basis noise keeps its variance, and the penalty acts on each wave alone.
    amplitudes = dct(estimate.counts, norm="ortho")
    penalty = least_risk(amplitudes, float(np.mean(errors**2)))
    return np.asarray(idct(amplitudes * shrinkage(amplitudes.size, penalty), norm="ortho"))


def shrinkage(size: int, penalty: float) -> F64:
    """Return what is left of each wave's amplitude, longest first."""
    return np.asarray(1.0 / (1.0 + penalty * np.arange(size, dtype=np.float64) ** 4))


def least_risk(amplitudes: F64, noise_variance: float) -> float:
    """Return the penalty of the least estimated squared error, of 25 a decade; unbiased for Gaussian noise."""
    size = amplitudes.size
    penalties = 10.0 ** np.arange(-4 * np.log10(size) - 2, 2.0, 0.04)
    factors = np.array([shrinkage(size, penalty) for penalty in penalties])
    # Stein: sum (1 - h)^2 a^2 + 2 noise_variance sum h, for each penalty.
    risk = (1 - factors) ** 2 @ amplitudes**2 + 2 * noise_variance * factors.sum(axis=1)
    return float(penalties[np.argmin(risk)])


STEPS: Final[Mapping[str, Callable[[Estimate], F64]]] = MappingProxyType(
    {
        "clip": clip,
        "norm-sub": norm_sub,
        "base-cut": base_cut,
        "smooth": smooth,
    }
)
"""The steps, by name."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Processed(Estimate):
    """An estimate whose `counts` went through `steps`, in that order, from the `counts` of the estimate before."""

    steps: tuple[str, ...] = ()

    def _around(self, reach: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return bounded_interval(self.counts, self.raw_counts, reach, self.num_reports)

    def summary(self) -> dict[str, Any]:
        return {**super().summary(), "steps": list(self.steps)}


def postprocess(estimate: Estimate, *steps: str) -> Processed:
    """Return `estimate` with the steps applied to its counts, one after the other.

    Parameters
    ----------
    estimate
        The estimate to start from; it is not changed.
    *steps
        Names: clip, norm-sub, base-cut, smooth.

    Raises
    ------
    ParameterError
        When a step is unknown, or cannot be applied to these counts.

    Examples
    --------
    >>> raw = Estimate(values=["a", "b", "c"], counts=[70, 50, -20], raw_counts=[70, 50, -20],
    ...                standard_errors=[9, 9, 9], num_reports=100)
    >>> done = postprocess(raw, "norm-sub")
    >>> done.counts.tolist(), done.raw_counts.tolist(), done.steps
    ([60.0, 40.0, 0.0], [70.0, 50.0, -20.0], ('norm-sub',))
    """
    done = estimate if isinstance(estimate, Processed) else _with_counts(estimate, estimate.counts)
    for step in steps:
        if step not in STEPS:
            raise ParameterError(f"there is no post-processing step {step!r}: choose one of {', '.join(STEPS)}")
        done = _with_counts(done, STEPS[step](done), step)
    return done


def _with_counts(estimate: Estimate, counts: NDArray[np.float64], *names: str) -> Processed:
    before = estimate.steps if isinstance(estimate, Processed) else ()
    return converted(Processed, estimate, counts=counts, steps=(*before, *names))


FEWEST: Final = 3  # groups below which a spread between them is not estimated

HALVINGS: Final = 60  # halvings of the range in which tau^2 lies: to the last digit


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Smoothed shares of M values in S groups."""

    shares: F64  # shape (S, M)
    errors: F64  # shape (S, M): the square roots of the mean squared errors
    spread: F64  # shape (M,): the estimated standard deviation of a value's true share between groups
    mean: F64  # shape (M,): the share that groups are moved towards


def move_to_mean(shares: F64, variances: F64) -> Smoothed:
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
    for _ in range(HALVINGS):
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
    smoothed = move_to_mean(shares, variances)
    return Smoothed(
        *(_spread_out(part, usable) for part in (smoothed.shares, smoothed.errors, smoothed.spread, smoothed.mean))
    )


def _spread_out(numbers: F64, usable: NDArray[np.bool_]) -> F64:
    """Put numbers of the usable values into their places among all."""
    out = np.full((*numbers.shape[:-1], usable.size), np.nan)
    out[..., usable] = numbers
    return out
