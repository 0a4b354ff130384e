"""Shares over groups: all groups weighted by their public shares, and each moved towards the mean of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.postprocess.small_areas import Smoothed, smooth
from overstory.analysis.selection import normal_quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate

    F64 = NDArray[np.float64]

LEVEL: Final = 0.95


@dataclass(frozen=True, eq=False)
class WeightedShares:
    """Shares among all devices, each group by its public share, and their errors (float64, shape (M,))."""

    values: Sequence[Any]
    shares: F64
    errors: F64

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per value, most frequent first."""
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
