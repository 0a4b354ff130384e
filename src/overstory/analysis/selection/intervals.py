"""What intervals are for, which of them are corrected for the choice of values, and how far they reach."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from overstory.analysis.selection.numerics import normal_quantile
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

IntervalKind = Literal["reports", "population"]
"""What an interval is for: the devices that reported, or all devices like these."""

INTERVAL_KINDS: Final[Mapping[IntervalKind, str]] = MappingProxyType(
    {
        "reports": "of these reports (noise of randomization alone)",
        "population": "of all devices like these (noise, and the sampling of people)",
    }
)
"""Each kind in words, for tables and notes."""

Adjustment = Literal["fcr", "conditional", "none"]
"""How the intervals of selected values pay for their selection; the others always have their plain interval."""

ADJUSTMENTS: Final[Mapping[Adjustment, str]] = MappingProxyType(
    {
        "fcr": "wider for {0} values, so that the level holds for them too (false coverage rate)",
        "conditional": "for {0} values, given that they were {0}",
        "none": "not corrected for selection: too short for {0} values",
    }
)
"""Each in words, for tables and notes; the blank is what the selected values are."""


def check_interval_kind(kind: str) -> None:
    """Refuse what is no kind of interval."""
    if kind not in INTERVAL_KINDS:
        raise ParameterError(f"interval_kind = {kind!r}: choose one of {', '.join(INTERVAL_KINDS)}")


def check_adjustment(adjustment: str) -> None:
    """Refuse what is no adjustment of intervals."""
    if adjustment not in ADJUSTMENTS:
        raise ParameterError(f"adjustment = {adjustment!r}: choose one of {', '.join(ADJUSTMENTS)}")


def interval_words(kind: IntervalKind, adjustment: Adjustment, selected: str = "detected") -> str:
    """Return in words what intervals are for, and what they are for selected values.

    Examples
    --------
    >>> interval_words("reports", "conditional")
    'of these reports (noise of randomization alone); for detected values, given that they were detected'
    """
    return f"{INTERVAL_KINDS[kind]}; {ADJUSTMENTS[adjustment].format(selected)}"


def people_variance(counts: F64, num_reports: int, reports_per_device: float) -> F64:
    """Return what the sampling of people adds to the variance of counts: ``R N f (1 - f)``.

    With ``r_i`` reports of device i, of one value, a count over devices that were drawn from a population with share
    f varies by ``sum r_i^2 f (1 - f)``, which is ``R N f (1 - f)`` with ``R = sum r_i^2 / sum r_i``: of the share,
    ``f (1 - f)`` over N / R devices. f is the estimate itself, moved into 0 .. 1.

    Examples
    --------
    >>> people_variance(np.array([50.0, -3.0]), 100, 1.0).tolist()
    [25.0, 0.0]
    """
    shares = np.clip(counts / max(num_reports, 1), 0.0, 1.0)
    return np.asarray(reports_per_device * num_reports * shares * (1.0 - shares))


def people_covariance(counts: F64, num_reports: int, reports_per_device: float) -> F64:
    """Return what the sampling of people adds to the covariances of counts: ``R N f (1 - f)`` and ``- R N f g``.

    Estimated shares that add up to more than 1 are divided by their sum off the diagonal, as no people are.

    Examples
    --------
    >>> people_covariance(np.array([50.0, 20.0]), 100, 1.0).tolist()
    [[25.0, -10.0], [-10.0, 16.0]]
    """
    shares = np.clip(counts / max(num_reports, 1), 0.0, 1.0)
    possible = shares / max(1.0, float(shares.sum()))
    together = -reports_per_device * num_reports * np.outer(possible, possible)
    np.fill_diagonal(together, people_variance(counts, num_reports, reports_per_device))
    return np.asarray(together)


def normal_reach(level: float) -> float:
    """Return how many standard errors an interval of that level reaches to either side.

    Examples
    --------
    >>> round(normal_reach(0.95), 2)
    1.96
    """
    if not 0.0 < level < 1.0:
        raise ParameterError(f"a confidence level lies between 0 and 1, not {level}")
    return normal_quantile(0.5 + level / 2.0)


def bounded_interval(counts: F64, raw: F64, reach: F64, num_reports: int) -> tuple[F64, F64]:
    """Return an interval for each true count that holds the reported count, and lies between 0 and the reports.

    It is the raw count's normal interval after the raw count was moved to the nearest possible one, stretched where
    the reported count lies outside. What it leaves out of the raw interval is impossible, so it covers no less often,
    and it is never empty.

    Parameters
    ----------
    reach : ndarray, shape (M,)
        How many reports the normal interval reaches to either side.

    Examples
    --------
    Raw counts of -30 and 95, whose intervals reach 19.6 to either side, in 100 reports:

    >>> low, high = bounded_interval(np.array([0.0, 95.0]), np.array([-30.0, 95.0]), np.array([19.6, 19.6]), 100)
    >>> low.round(1).tolist(), high.round(1).tolist()
    ([0.0, 75.4], [19.6, 100.0])
    """
    centre = np.clip(raw, 0.0, num_reports)
    low = np.where(np.isfinite(reach), np.minimum(np.maximum(centre - reach, 0.0), counts), -np.inf)
    high = np.where(np.isfinite(reach), np.maximum(np.minimum(centre + reach, num_reports), counts), np.inf)
    return low, high
