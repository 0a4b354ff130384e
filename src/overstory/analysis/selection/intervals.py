r"""Intervals: what they are for, how far they reach, and those of values that were selected because they look large.

Of the 95% intervals of all candidates 95% hold the truth; of those of the *detected* ones fewer do, because a value is
detected more easily where the noise added to it.

With R selected of m tested by a rule such as Benjamini and Hochberg's, intervals of level :math:`1 - a R / m` have a
false coverage rate of at most a: the expected share of the selected values' intervals that miss [1]_.

Given that an estimate :math:`X \sim N(\mu, s^2)` passed its threshold c, its distribution is a truncated normal one,

.. math:: P_\mu(X > x \mid X > c) = \frac{1 - \Phi((x - \mu) / s)}{1 - \Phi((c - \mu) / s)} ,

and the :math:`\mu` at which this is a/2, 1/2 and 1 - a/2 are an interval and a median-unbiased estimate [2]_. For a
two-sided test both tails are in the denominator. The threshold of Benjamini and Hochberg's rule does not depend on how
far an estimate passes it, so it is taken as fixed.

References
----------
.. [1] Benjamini and Yekutieli, "False discovery rate-adjusted multiple confidence intervals for selected parameters",
   Journal of the American Statistical Association 100 (2005).
.. [2] Zhong and Prentice, "Bias-reduced estimators and confidence intervals for odds ratios in genome-wide association
   studies", Biostatistics 9 (2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from overstory.analysis.selection.detection import normal_quantile, upper_tail
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    F64 = NDArray[np.float64]
    Interval = tuple[F64, F64]

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


NEAR: Final = 8.0
"""Standard errors above its threshold from which an estimate owes nothing to it: a limit moves by less than 1e-8."""
STEPS: Final = 40
"""Halvings of the bracket of a limit, which is about 30 standard errors wide."""


@dataclass(frozen=True, eq=False)
class Selected:
    """Which of several estimates were selected, and by what test.

    Attributes
    ----------
    chosen : ndarray of bool, shape (M,)
        Which were selected.
    p_values : ndarray of float64, shape (M,)
        What each was judged by.
    num_tested : int
        How many were tested, of which these M are some or all.
    needed : float
        The p-value that each had to reach: `selection.needed_p_value`.
    two_sided : bool
        Whether small estimates were selected as well as large ones.
    """

    chosen: NDArray[np.bool_]
    p_values: F64
    num_tested: int
    needed: float
    two_sided: bool = False

    def reach(self, level: float) -> F64:
        """Return how many standard errors the intervals reach to either side, shape (M,).

        Examples
        --------
        One value of 100 was detected:

        >>> selected = Selected(np.array([True, False]), np.array([1e-6, 0.5]), 100, 0.0005)
        >>> selected.reach(0.95).round(2).tolist()
        [3.48, 1.96]
        """
        plain, number = normal_reach(level), int(np.count_nonzero(self.chosen))
        if not number:
            return np.full(self.chosen.size, plain)
        # Benjamini and Yekutieli: level 1 - a R / m.
        missing = (1.0 - level) * number / max(self.num_tested, number)
        return np.where(self.chosen, -normal_quantile(missing / 2.0), plain)

    def interval(
        self, adjustment: Adjustment, estimates: F64, errors: F64, level: float, around: Callable[[F64], Interval]
    ) -> Interval:
        """Return the estimates' intervals, those of selected ones adjusted.

        Given that they were selected in a one-sided test, which is of shares, they end at 0 as shares do.

        Parameters
        ----------
        around
            Returns the intervals that reach so far to either side.

        Raises
        ------
        ParameterError
            If there is no such adjustment, or the level is not between 0 and 1.
        """
        check_adjustment(adjustment)
        if adjustment == "fcr":
            return around(self.reach(level) * errors)
        plain = around(normal_reach(level) * errors)
        if adjustment == "none":
            return plain
        tails = (1.0 - level) / 2.0, (1.0 + level) / 2.0
        low, high = (
            np.where(self.chosen, self._limit(estimates, errors, tail), end)
            for tail, end in zip(tails, plain, strict=True)
        )
        return low, high

    def corrected(self, estimates: F64, errors: F64) -> F64:
        """Return the selected estimates without what selection adds to them on average; the others as they are.

        Examples
        --------
        Two estimates that had to reach 3.29 standard errors: one nearly did not, the other did so by far.

        >>> selected = Selected(np.array([True, True]), np.array([1e-4, 1e-15]), 100, 0.0005)
        >>> selected.corrected(np.array([37.2, 79.4]), np.array([10.0, 10.0])).round(1).tolist()
        [23.9, 79.4]
        """
        return np.where(self.chosen, self._limit(estimates, errors, 0.5), estimates)

    def _limit(self, estimates: F64, errors: F64, probability: float) -> F64:
        """Return the means under which a selected estimate is exceeded with a probability."""
        sign = np.where(estimates < 0.0, -1.0, 1.0)
        # A limit above a positive estimate is one below its mirror image.
        limits = np.array(estimates, np.float64)
        for side, wanted in ((1.0, probability), (-1.0, 1.0 - probability)):
            at = np.flatnonzero(self.chosen & (sign == side) & np.isfinite(errors) & (errors > 0.0))
            if at.size:
                x = side * estimates[at] / errors[at]
                limits[at] = side * errors[at] * self._solve(x, np.minimum(x * self._cuts(at), x), wanted)
        return limits

    def _cuts(self, at: NDArray[np.intp]) -> F64:
        """Return each threshold as a share of the estimate: the needed z value over that of the p-value."""
        sides = 2.0 if self.two_sided else 1.0
        least = np.finfo(np.float64).tiny
        reached = [-normal_quantile(max(p / sides, least)) for p in self.p_values[at].tolist()]
        return -normal_quantile(self.needed / sides) / np.maximum(reached, 1e-12)

    def _solve(self, x: F64, cut: F64, probability: float) -> F64:
        """Return the means, in standard errors, under which x is exceeded with a probability, given the cut."""
        plain = x + normal_quantile(probability)
        low, high = np.full(x.shape, 0.0), x + 10.0
        if self.two_sided:
            low = -x - 10.0
        for _ in range(STEPS):
            middle = (low + high) / 2.0
            selected = upper_tail(cut - middle) + (upper_tail(cut + middle) if self.two_sided else 0.0)
            # The chance to exceed x grows with the mean.
            is_below = upper_tail(x - middle) < probability * selected
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return np.where(x - cut > NEAR, plain if self.two_sided else np.maximum(plain, 0.0), low)
