"""A distribution over the bins of a range, as an estimate gives it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Distribution:
    """Shares of equal bins.

    Attributes
    ----------
    edges : ndarray, shape (d + 1,)
        The bins' edges.
    shares : ndarray, shape (d,)
        Not negative, of sum 1. Made by maximum likelihood, so biased where many are near 0; there is no unbiased
        estimate of a bin from these reports with a variance worth having.
    method : str
        "em" or "ems".
    num_reports : int
        Reports behind it.
    iterations : int
        Steps taken.
    observed, expected : ndarray, shape (m,)
        How many reports fell into each bucket, and how many these shares would send there.
    notes : tuple of str
        What a reader must know before trusting the numbers.
    """

    edges: F64
    shares: F64
    method: str
    num_reports: int
    iterations: int
    observed: NDArray[np.int64]
    expected: F64
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("edges", "shares", "observed", "expected"):
            array = np.array(getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @cached_property
    def cumulated(self) -> F64:
        """Share of people at or below each edge: 0 at the first, 1 at the last."""
        inner = np.cumsum(self.shares)
        return np.concatenate(([0.0], inner / inner[-1]))

    @property
    def mean(self) -> float:
        """Mean, everybody at the middle of their bin."""
        return float(self.shares @ (self.edges[:-1] + self.edges[1:]) / 2)

    def share_between(self, low: float, high: float) -> float:
        """Return the share of people from `low` to `high`, spread evenly within a bin."""
        below = np.interp([low, high], self.edges, self.cumulated)
        return float(below[1] - below[0])

    def quantile(self, share: float) -> float:
        """Return the value that `share` of the people are at or below.

        Raises
        ------
        ParameterError
            When it is no share.
        """
        if not 0 <= share <= 1:
            raise ParameterError(f"a quantile is asked for by a share from 0 to 1, not {share}")
        at = min(int(np.searchsorted(self.cumulated, share)), self.shares.size)
        if at == 0:
            return float(self.edges[0])
        return float(np.interp(share, self.cumulated[at - 1 : at + 1], self.edges[at - 1 : at + 1]))

    @property
    def chi_square(self) -> float:
        """Pearson's statistic of the buckets: near their number when the model fits."""
        return float(((self.observed - self.expected) ** 2 / self.expected).sum())

    def to_json(self) -> dict[str, Any]:
        """Return everything but the buckets, ready for JSON."""
        bins = zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), self.shares.tolist(), strict=True)
        return {
            "reports": self.num_reports,
            "method": self.method,
            "iterations": self.iterations,
            "mean": self.mean,
            "notes": list(self.notes),
            "bins": [{"low": low, "high": high, "frequency": share} for low, high, share in bins],
        }
