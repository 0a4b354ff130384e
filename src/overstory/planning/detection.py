"""How well a count will be known, and so what can be detected: critical values, smallest shares, how many people.

docs/explanation/planning.md derives and measures every line. A value is detected when its estimate passes Q of its own
standard errors, Q being Bonferroni's critical value over all candidates. Half the time, and with one standard error
whatever the share, that is `detectable_frequency` and `reports_needed`. For nine times in ten, of any oracle: the
estimate of a share x is normal around it, with variance ``v(x) / n`` from n people, and nine times in ten above
``y = x - z sqrt(v(x) / n)``, z = 1.28. So x is detected that often when ``y >= Q sqrt(v(y) / n)``: where v hardly
changes between y and x, ``n = v (Q + z)**2 / x**2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from statistics import NormalDist
from typing import Final

from overstory.analysis.variance import frequency_variance, lasting_variance
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism

LEAST_SHARE: Final = 1e-100
"""A smaller one is refused: the reports that it needs have more digits than a float's exponent."""


def count_error(mechanism: Mechanism, num_reports: float, frequency: float, num_fitted: int) -> float:
    """Return the standard error of the estimated count of a string of that frequency, in reports."""
    own_share = information(mechanism, num_fitted)
    # The string's own bits bring this share of the variance, counts that correct for collisions the rest.
    own, others = (frequency_variance(mechanism, num_reports, x, num_candidates=num_fitted) for x in (frequency, 0.0))
    luck = cohort_variance(mechanism, num_reports, frequency, num_fitted)
    return num_reports * math.sqrt(own_share * own + (1 - own_share) * others + luck)


def information(mechanism: Mechanism, num_fitted: int) -> float:
    """Return the share of a string's signal apart from the others', (1 - h/k) (1 - F / (k m)), F being fitted."""
    encoding = mechanism.encoding
    if not encoding.decoded:
        return 1.0
    rows = encoding.num_bits * encoding.num_cohorts
    crowding: float = 1 - num_fitted / rows if num_fitted < rows else 1.0
    fill: float = encoding.ones[1] / encoding.num_bits
    return (1 - fill) * crowding


def cohort_variance(mechanism: Mechanism, num_reports: float, frequency: float, num_fitted: int) -> float:
    """Variance of a frequency because other people's strings meet this one in some cohorts and not in others."""
    encoding = mechanism.encoding
    if not encoding.decoded:
        return 0.0
    hashes: int = encoding.ones[1]
    fill: float = hashes / encoding.num_bits
    # A cohort is a sample without replacement of 1/m of the devices: u (1 - u) (1 - 1/m) for a bit set by a share u,
    # and averaged over hashes u (1 - u) is at most (h/k) (1 - h/k). Spread and enlarged as the channel's noise is.
    luck: float = (1 - frequency) * fill * (1 - fill) * (1 - 1 / encoding.num_cohorts)
    return luck / (hashes * information(mechanism, num_fitted) * num_reports)


def fitted_candidates(mechanism: Mechanism, num_candidates: int, frequency: float) -> int:
    """Return how many strings the counts have to tell apart, when shares below `frequency` are not looked for."""
    encoding = mechanism.encoding
    # Least squares over half as many as the counts costs at most a factor sqrt(2); else a screening fits
    # the frequent, of which there are at most 1 / frequency.
    most: int = mechanism.payload_bits * encoding.num_cohorts // 2
    if not encoding.decoded or num_candidates <= most:
        return num_candidates
    return min(most, math.ceil(1 / frequency))


_NORMAL = NormalDist()
# Which share of the candidates is taken to be really there, when a false discovery rate is planned for.
PRESENT = 0.1
# A string at the critical value is found half the time; this much further out, nine times in ten.
NINE_IN_TEN = _NORMAL.inv_cdf(0.9)


def critical_value(alpha: float, num_tests: float) -> float:
    """Return Q = Phi^-1(1 - alpha / M) of M tests, one-sided with Bonferroni's correction (RAPPOR, appendix).

    >>> round(critical_value(0.05, 100), 2), round(critical_value(0.05, 10**6), 2)
    (3.29, 5.33)
    """
    if not 0 < alpha < 1:
        raise ParameterError(f"alpha = {alpha}: give a fraction above 0 and below 1, such as 0.05")
    if not num_tests > 0:
        raise ParameterError(f"{num_tests} candidates: give at least one")
    return -_NORMAL.inv_cdf(alpha / num_tests)


def critical_value_fdr(alpha: float, num_candidates: int, frequency: float) -> float:
    """Return the z of Benjamini and Hochberg: p <= alpha R / M of M candidates, R accepted, one in ten or 1 / share."""
    accepted = max(1.0, min(PRESENT * num_candidates, 1 / frequency))
    return critical_value(alpha, num_candidates / accepted)


def detectable_frequency(mechanism: Mechanism, num_reports: float, num_candidates: int, quantile: float) -> float:
    """Return the smallest share whose expected count reaches `quantile` standard errors; above 1 when none does."""
    error = _error_below(mechanism, num_reports, num_candidates)
    return root(lambda frequency: frequency - quantile * error(frequency) / num_reports)


def _error_below(mechanism: Mechanism, num_reports: float, num_candidates: int) -> Callable[[float], float]:
    """Return the error of a string nobody has by the frequency below which none is looked for, computed once a F."""
    error = cache(partial(count_error, mechanism, num_reports, 0.0))
    return lambda frequency: error(fitted_candidates(mechanism, num_candidates, min(1.0, frequency)))


def rare_error(mechanism: Mechanism, num_reports: float, num_candidates: int, alpha: float) -> float:
    """Return the standard error of the count of a string that nobody has."""
    smallest = detectable_frequency(mechanism, num_reports, num_candidates, critical_value(alpha, num_candidates))
    return count_error(mechanism, num_reports, 0.0, fitted_candidates(mechanism, num_candidates, smallest))


def detectable_frequency_fdr(mechanism: Mechanism, num_reports: float, num_candidates: int, alpha: float) -> float:
    """Return the smallest share that a false discovery rate of alpha would let pass; see `critical_value_fdr`."""
    error = _error_below(mechanism, num_reports, num_candidates)
    return root(
        lambda frequency: (
            frequency - critical_value_fdr(alpha, num_candidates, frequency) * (error(frequency) / num_reports)
        )
    )


def reports_needed(mechanism: Mechanism, num_candidates: int, frequency: float, quantile: float) -> int:
    """Return the fewest reports with which a string of that share is detected: N = (Q sd_1 / share)^2."""
    check_share(frequency)
    fitted = fitted_candidates(mechanism, num_candidates, frequency)
    return math.ceil((quantile * count_error(mechanism, 1.0, 0.0, fitted) / frequency) ** 2)


def check_share(share: float) -> None:
    """Raise ParameterError unless this is a fraction that some number of devices shows."""
    if not 0 < share <= 1:
        raise ParameterError(f"share = {share}: give a fraction above 0 and at most 1, such as 0.01")
    if share < LEAST_SHARE:
        raise ParameterError(f"share = {share}: no number of devices would be enough; give a larger fraction")


def root(rising: Callable[[float], float]) -> float:
    """Return where a function of a positive number, negative near 0, becomes positive, by bisection."""
    low, high = 1e-15, 1.0
    while rising(high) < 0:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high


MANY: Final = 1e12
MOST_PEOPLE: Final = 1 << 62


def variance_per_person(mechanism: Mechanism, frequency: float, num_candidates: int) -> float:
    """Return the variance of a share from one person's report, without `lasting_variance`."""
    if mechanism.encoding.decoded:
        fitted = fitted_candidates(mechanism, num_candidates, max(frequency, 1e-12))
        return count_error(mechanism, 1.0, frequency, fitted) ** 2
    if mechanism.encoding.uneven:  # with enough people for every seed
        lasting = lasting_variance(mechanism, frequency, num_candidates=num_candidates)
        return (frequency_variance(mechanism, MANY, frequency, num_candidates=num_candidates) - lasting) * MANY
    return frequency_variance(mechanism, 1.0, frequency)


def required_sample_size(mechanism: Mechanism, share: float, num_candidates: int, *, alpha: float = 0.05) -> int:
    """Return the fewest people with whom a value of that share, above 0, is detected nine times in ten."""
    check_share(share)
    shown, variance = _shown(mechanism, num_candidates, alpha), variance_per_person(mechanism, share, num_candidates)
    few, enough = 0, math.ceil(variance * ((critical_value(alpha, num_candidates) + NINE_IN_TEN) / share) ** 2) + 1
    while not shown(share, enough):
        few, enough = enough, 2 * enough
        if enough > MOST_PEOPLE:
            raise ParameterError(
                f"no number of people shows a share of {share:g} by {mechanism.name}: its "
                f"{mechanism.num_cohorts} seeds are too few for so many values; take an oracle without seeds"
            )
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if shown(share, middle) else (middle, enough)
    return enough


def smallest_share(
    mechanism: Mechanism,
    num_people: int,
    num_candidates: int,
    *,
    alpha: float = 0.05,
    num_tests: float | None = None,  # that alpha pays for; unless given, as many as candidates
    reach: float = NINE_IN_TEN,
) -> float | None:
    """Return the smallest share that so many people show nine times in ten, or half the time at reach 0; or None."""
    shown = _shown(mechanism, num_candidates, alpha, num_tests, reach)
    if num_people < 1 or not shown(1.0, num_people):
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle, num_people) else (middle, high)
    return high


def _shown(
    mechanism: Mechanism,
    num_candidates: int,
    alpha: float,
    num_tests: float | None = None,
    reach: float = NINE_IN_TEN,
) -> Callable[[float, int], bool]:
    """Return whether (a share, so many people) passes its critical value, with `reach` standard errors to spare."""
    quantile = critical_value(alpha, num_tests or num_candidates)

    def error(share: float, people: int) -> float:
        variance = variance_per_person(mechanism, share, num_candidates)
        return math.sqrt(variance / people + lasting_variance(mechanism, share, num_candidates=num_candidates))

    def shown(share: float, people: int) -> bool:
        nearly_lowest = share - reach * error(share, people)
        return nearly_lowest > 0 and nearly_lowest >= quantile * error(nearly_lowest, people)

    return shown
