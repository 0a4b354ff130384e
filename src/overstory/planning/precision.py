"""How well one string's count will be known (docs/explanation/planning.md derives and measures every line)."""

from __future__ import annotations

import math

from overstory.analysis.variance import frequency_variance
from overstory.protocol.encodings import Bloom
from overstory.protocol.mechanisms.bits import BitMechanism


def count_error(mechanism: BitMechanism, num_reports: float, frequency: float, num_fitted: int) -> float:
    """Return the standard error of the estimated count of a string of that frequency, in reports.

    The variance is the channel's, `overstory.analysis.variance.frequency_variance`, in the string's own bits and in
    those that correct for collisions, and that of the cohorts' luck, `cohort_variance`.

    Parameters
    ----------
    mechanism
        The mechanism.
    num_reports
        N, one report a device.
    frequency
        The string's true share.
    num_fitted
        How many strings are estimated together: see `fitted_candidates`.

    Examples
    --------
    For RAPPOR's section 5.2 (`bench/plan_gain.py` prints the Cramer-Rao bound beside it):

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> round(count_error(rappor, 10**6, 0.0, 200))
    2976
    """
    kept = information(mechanism, num_fitted)
    own, others = (frequency_variance(mechanism, num_reports, x, num_candidates=num_fitted) for x in (frequency, 0.0))
    luck = cohort_variance(mechanism, num_reports, frequency, num_fitted)
    return num_reports * math.sqrt(kept * own + (1 - kept) * others + luck)


def information(mechanism: BitMechanism, num_fitted: int) -> float:
    """Return the share of a string's signal that is not in line with the others': 1 where nothing collides.

    A bit is read against its cohort's others, which leaves ``1 - h/k``, and each of F strings fitted to k m counts
    takes ``1 / (k m)`` of what is left. Of the estimate's variance this is also the share that the string's own bits
    bring; the rest comes from the counts that correct for collisions.
    """
    encoding = mechanism.encoding
    if not isinstance(encoding, Bloom):
        return 1.0
    rows = encoding.num_bits * encoding.num_cohorts
    crowding = 1 - num_fitted / rows if num_fitted < rows else 1.0
    return (1 - encoding.num_hashes / encoding.num_bits) * crowding


def cohort_variance(mechanism: BitMechanism, num_reports: float, frequency: float, num_fitted: int) -> float:
    """Variance of a frequency because other people's strings meet this one in some cohorts and not in others.

    A cohort is a sample without replacement of 1/m of the devices. A bit that a share u of all devices sets is set by
    u of the cohort's, give or take the variance ``u (1 - u) (1 - 1/m)`` of one of its ``N / m`` devices; averaged over
    hashes, ``u (1 - u)`` is at most ``(h/k) (1 - h/k)``. It is spread over h bits, and enlarged by collisions, as the
    channel's noise is. Negligible against RAPPOR's noise, not at large epsilons.
    """
    encoding = mechanism.encoding
    if not isinstance(encoding, Bloom):
        return 0.0
    fill = encoding.num_hashes / encoding.num_bits
    luck = (1 - frequency) * fill * (1 - fill) * (1 - 1 / encoding.num_cohorts)
    return luck / (encoding.num_hashes * information(mechanism, num_fitted) * num_reports)


def fitted_candidates(mechanism: BitMechanism, num_candidates: int, frequency: float) -> int:
    """Return how many strings the counts have to tell apart, when shares below `frequency` are not looked for.

    All candidates, as long as they are at most half as many as the counts (least squares over all of them then costs
    at most a factor sqrt(2)). Otherwise a screening decoder fits those that are frequent enough to be found, of which
    there are at most ``1 / frequency``.
    """
    encoding = mechanism.encoding
    most = encoding.num_bits * encoding.num_cohorts // 2
    if not isinstance(encoding, Bloom) or num_candidates <= most:
        return num_candidates
    return min(most, math.ceil(1 / frequency))
