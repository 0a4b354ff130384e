"""Smoothing: what an ordered domain allows, because neighbours tend to be alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate

    F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Smooth:
    """A smoothing spline on the ordered counts, as rough as the counts' own noise allows.

    **The prior on shape**: waves of k half periods over the domain have amplitudes that fall like k**-2, that is, the
    integrated squared second difference is small (and the slope is 0 at both ends). In the cosine basis the penalized
    least-squares solution shrinks each amplitude by ``1 / (1 + penalty k**4)`` (Garcia 2010). The sum is kept.

    **How smooth** is decided by Stein's unbiased estimate of the squared error (Stein 1981), which the known standard
    errors make possible; with noise that nothing stands out of, everything becomes flat. One spike on a smooth ground
    is blurred: smooth only where spikes are not the question. Counts may still be negative: "norm-sub" after it.

    Parameters
    ----------
    penalty
        Chosen by the rule above unless given.

    Raises
    ------
    ParameterError
        When the penalty is negative, or no standard error is finite.
    """

    penalty: float | None = None

    def __post_init__(self) -> None:
        if self.penalty is not None and not 0 <= self.penalty < np.inf:
            raise ParameterError(f"penalty = {self.penalty}: give a number, at least 0")

    @property
    def name(self) -> str:
        """The step's name, with the penalty when it was chosen."""
        return "smooth" if self.penalty is None else f"smooth(penalty={self.penalty:g})"

    def __call__(self, estimate: Estimate) -> F64:
        """Return the counts."""
        from scipy.fft import dct, idct

        known = estimate.standard_errors[np.isfinite(estimate.standard_errors)]
        if self.penalty is None and not known.size:
            raise ParameterError("smoothing needs a finite standard error to know noise from shape, or a penalty")
        amplitudes = dct(estimate.counts, norm="ortho")
        penalty = least_risk(amplitudes, float(np.mean(known**2))) if self.penalty is None else self.penalty
        return np.asarray(idct(amplitudes * shrinkage(amplitudes.size, penalty), norm="ortho"))


def shrinkage(size: int, penalty: float) -> F64:
    """Return what is left of each wave's amplitude, longest first.

    Examples
    --------
    >>> shrinkage(3, 1.0).round(3).tolist()
    [1.0, 0.5, 0.059]
    """
    return np.asarray(1.0 / (1.0 + penalty * np.arange(size, dtype=np.float64) ** 4))


def least_risk(amplitudes: F64, noise_variance: float) -> float:
    """Return the penalty with the smallest estimated squared error, of 25 a decade from none to everything.

    The estimate is ``sum (1 - h)**2 a**2 + 2 noise_variance sum h``, up to a constant: unbiased for Gaussian noise.
    """
    size = amplitudes.size
    penalties = 10.0 ** np.arange(-4 * np.log10(size) - 2, 2.0, 0.04)
    kept = np.array([shrinkage(size, penalty) for penalty in penalties])
    risk = (1 - kept) ** 2 @ amplitudes**2 + 2 * noise_variance * kept.sum(axis=1)
    return float(penalties[np.argmin(risk)])
