"""Post-processing as named steps: what is done to the unbiased counts after they are estimated.

    postprocess(estimate, "base-cut", "norm-sub")

The unbiased counts, their standard errors and what is detected stay as they were (`raw_counts`); only the counts to
report change, and the result lists the steps. Post-processing reads no report, so it costs no privacy.

Wang, Lopuhaa-Zwakenberg, Li, Skoric, Li, "Locally differentially private frequency estimation with consistency", NDSS
2020, name and compare Norm-Sub and Base-Cut among others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from overstory.analysis.estimate import Estimate, converted
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

    is_bounded: ClassVar[bool] = True
    steps: tuple[str, ...] = ()

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
