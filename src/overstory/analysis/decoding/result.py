"""What decoding returns: an estimate, and what the reports themselves say about how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis.estimate import Estimate
from overstory.analysis.selection import bounded_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.selection import IntervalKind


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Decoded(Estimate):
    """A decoded collection.

    `counts` are the maximum-likelihood counts that are not negative and, with those outside the list, add up to the
    reports; `raw_counts`, `standard_errors` and everything derived from them are the unbiased estimates.

    Attributes
    ----------
    method : str
        ``gls``, ``pursuit`` or ``lasso``: what really ran.
    unallocated : float
        Reports whose string is not in the list (by pursuit: or was too rare to fit), raw and unbiased.
    unallocated_standard_error : float
        Its standard error.
    dispersion : float
        Residual variance over the channel's own; standard errors carry its square root when it is above 1.
    degrees_of_freedom : int
        Rows left to judge the dispersion by.
    cohort_chi_square, cohort_p_value : float
        Test of the cohorts' sizes against equal shares.
    colliding : tuple of tuple of str
        Groups of candidates that no cohort tells apart; each row of a group shows the group's own raw count.
    """

    method: str
    unallocated: float
    unallocated_standard_error: float
    dispersion: float
    degrees_of_freedom: int
    cohort_chi_square: float
    cohort_p_value: float
    colliding: tuple[tuple[str, ...], ...] = ()

    def interval(
        self, level: float = 0.95, kind: IntervalKind | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the interval to show with `counts`, in reports: `selection.bounded_interval`."""
        return bounded_interval(self.counts, self.raw_counts, self.errors(kind), self.num_reports, level)

    def summary(self) -> dict[str, Any]:
        """Return what is known about the decoding as a whole, ready for JSON."""
        error = self.unallocated_standard_error
        return {
            **super().summary(),
            "method": self.method,
            "allocated_mass": float(self.frequencies.sum()),
            "unallocated_count": self.unallocated,
            "unallocated_standard_error": error if np.isfinite(error) else None,
            "residual_dispersion": self.dispersion,
            "degrees_of_freedom": self.degrees_of_freedom,
            "cohort_chi_square": self.cohort_chi_square,
            "cohort_p_value": self.cohort_p_value,
            "colliding_candidates": [list(group) for group in self.colliding],
        }
