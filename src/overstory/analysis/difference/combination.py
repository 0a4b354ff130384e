r"""Several values of one estimate together: their total, and the ratio of two totals, each with its interval.

Errors of two values do not simply add up: a report that supports one value may support no other, and a device that
holds one value holds no other. With :math:`\Sigma` the covariances of the estimate (`Estimate.covariance`) and weights
a, the total :math:`a'\hat f` has the variance :math:`a' \Sigma a`.

A ratio's interval is Fieller's [1]_: every :math:`\rho` at which :math:`a'\hat f - \rho\, b'\hat f` is no surprise.
It keeps its level however small the denominator, and is unbounded where the denominator may be 0.

References
----------
.. [1] Fieller, "Some problems in interval estimation", Journal of the Royal Statistical Society B 16 (1954).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis import selection
from overstory.analysis.tables.output import label_text
from overstory.presentation.formats import finite
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import IntervalKind


@dataclass(frozen=True, kw_only=True)
class Combined:
    """A total of shares, or a ratio of two totals, with its interval.

    Attributes
    ----------
    values : tuple of str
        The values that were added up; of a ratio, those of the numerator.
    per : tuple of str
        The values of the denominator; empty for a total.
    estimate : float
        The share of all reports, or the ratio of two such shares.
    low, high : float
        The interval's ends; infinite where the interval has no end.
    level : float
        The interval's confidence level.
    interval_kind : {"reports", "population"}
        What the interval describes: the devices that reported, or all devices like these.
    """

    values: tuple[str, ...]
    per: tuple[str, ...] = ()
    estimate: float
    low: float
    high: float
    level: float
    interval_kind: IntervalKind

    @property
    def is_bounded(self) -> bool:
        """Whether the interval has two ends: a ratio's has none where its denominator may be 0."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; None where there is no number."""
        return {
            "values": list(self.values),
            "per": list(self.per),
            "estimate": finite(self.estimate),
            "low": finite(self.low),
            "high": finite(self.high),
            "level": self.level,
            "interval": self.interval_kind,
        }


def total(estimate: Estimate, values: Sequence[Any], *, level: float = 0.95) -> Combined:
    """Return the share of all reports that hold one of several values.

    Parameters
    ----------
    estimate
        The estimate whose unbiased counts are added up; the interval is of its kind.
    values
        Which of the estimate's values.
    level
        The confidence level of the interval, between 0 and 1.

    Raises
    ------
    ParameterError
        If a value is not one of the estimate's or is given twice, no decoder can tell two of them apart, or it is not
        known how their errors go together.

    Examples
    --------
    Two of three answers add up to what the third leaves:

    >>> import overstory
    >>> grr = overstory.oracle("grr", labels=["no", "yes", "unsure"], epsilon=1.0)
    >>> asked = grr.estimate(grr.accumulate(grr.simulate(["no", "yes", "unsure", "no"] * 5_000, rng=1)))
    >>> both, rest = total(asked, ["no", "yes"]), total(asked, ["unsure"])
    >>> round(both.estimate + rest.estimate, 9), round((both.high - both.low) / (rest.high - rest.low), 2)
    (1.0, 1.0)
    """
    places = _places(estimate, values)
    reach = selection.normal_reach(level)
    scale = max(estimate.num_reports, 1)
    share = float(estimate.raw_counts[places].sum()) / scale
    error = math.sqrt(max(_added(estimate, places), 0.0)) / scale
    return Combined(
        values=_names(estimate, places),
        estimate=share,
        low=share - reach * error,
        high=share + reach * error,
        level=level,
        interval_kind=estimate.interval_kind,
    )


def ratio(estimate: Estimate, values: Sequence[Any], per: Sequence[Any], *, level: float = 0.95) -> Combined:
    """Return how many times as many reports hold one of `values` as one of `per`.

    Parameters
    ----------
    estimate
        The estimate whose unbiased counts are divided; the interval is of its kind.
    values, per
        Which of the estimate's values: those of the numerator and those of the denominator.
    level
        The confidence level of the interval, between 0 and 1.

    Returns
    -------
    Combined
        Its interval is Fieller's, and has no ends where the denominator may be 0.

    Raises
    ------
    ParameterError
        As for `total`.

    Examples
    --------
    >>> import overstory
    >>> grr = overstory.oracle("grr", labels=["no", "yes", "never"], epsilon=1.0)
    >>> asked = grr.estimate(grr.accumulate(grr.simulate(["no", "no", "yes"] * 10_000, rng=1)))
    >>> twice = ratio(asked, ["no"], ["yes"])
    >>> bool(twice.low < 2 < twice.high), ratio(asked, ["no"], ["never"]).is_bounded
    (True, False)
    """
    above, below = _places(estimate, values), _places(estimate, per)
    scale = max(estimate.num_reports, 1)
    every = list(dict.fromkeys([*above, *below]))
    _check_apart(estimate, every)
    weights = np.array([[place in chosen for place in every] for chosen in (above, below)], np.float64)
    top, bottom = (float(x) for x in weights @ estimate.raw_counts[every] / scale)
    spread = np.full((2, 2), np.inf)
    if np.isfinite(estimate.standard_errors[every]).all():
        spread = weights @ estimate.covariance(places=every) @ weights.T / scale**2
    low, high = fieller(top, bottom, spread, selection.normal_reach(level))
    return Combined(
        values=_names(estimate, above),
        per=_names(estimate, below),
        estimate=top / bottom if bottom else math.inf,
        low=low,
        high=high,
        level=level,
        interval_kind=estimate.interval_kind,
    )


def fieller(top: float, bottom: float, spread: Any, reach: float) -> tuple[float, float]:
    """Return the ends of the ratios rho with (top - rho bottom)^2 <= reach^2 Var(top - rho bottom)."""
    square = reach * reach
    # a rho^2 - 2 b rho + c <= 0; with a <= 0 the denominator may be 0 and the set of ratios has no ends.
    a, b, c = bottom**2 - square * spread[1, 1], top * bottom - square * spread[0, 1], top**2 - square * spread[0, 0]
    if not (math.isfinite(a) and a > 0):
        return -math.inf, math.inf
    root = math.sqrt(max(b * b - a * c, 0.0))
    return float((b - root) / a), float((b + root) / a)


def _added(estimate: Estimate, places: list[int]) -> float:
    _check_apart(estimate, places)
    if not np.isfinite(estimate.standard_errors[places]).all():
        return math.inf
    if len(places) == 1:
        return float(estimate.errors()[places[0]] ** 2)
    return float(estimate.covariance(places=places).sum())


def _places(estimate: Estimate, values: Sequence[Any]) -> list[int]:
    if isinstance(values, str) or not len(values):
        raise ParameterError("give a list of at least one value")
    number = {label_text(value): place for place, value in enumerate(estimate.values)}
    asked = [label_text(value) for value in values]
    unknown = [name for name in asked if name not in number]
    if unknown:
        raise ParameterError(f"{unknown[0]!r} is none of the {len(number):,} estimated values")
    if len(set(asked)) < len(asked):
        raise ParameterError("a value is listed twice: a device counts once")
    return [number[name] for name in asked]


def _names(estimate: Estimate, places: list[int]) -> tuple[str, ...]:
    return tuple(label_text(estimate.values[place]) for place in places)


def _check_apart(estimate: Estimate, places: list[int]) -> None:
    """Refuse values of which each row shows the same sum."""
    names = {str(estimate.values[place]) for place in places}
    for group in getattr(estimate, "colliding", ()):
        if len(same := [name for name in group if name in names]) > 1:
            raise ParameterError(
                f"{same[0]!r} and {same[1]!r} set the same bits in every cohort, so that each shows the count of both: "
                "give one of them"
            )
