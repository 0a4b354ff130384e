"""How well a frequency can be known: the variance of its unbiased estimate, before anything is collected."""

from __future__ import annotations

import math

from overstory.protocol.encodings import Bloom
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism


def frequency_variance(
    mechanism: BitMechanism, num_reports: float, frequency: float = 0.0, *, num_candidates: int | None = None
) -> float:
    """Variance of the unbiased estimate of a value's frequency, from one report a device.

    Of a bit that a share u of the devices truly sets, the debiased count has variance
    ``n (u p* (1 - p*) + (1 - u) q* (1 - q*)) / (p* - q*)**2``, p* being P(1|1) and q* P(1|0) of the whole channel
    (Wang et al. 2017, theorem 2, in their letters).

    - One-hot: u = x, one bit.
    - Bloom: a value has h bits, which share their filters with other strings: u is x plus the others' load
      ``h / k``; a bit is read against its cohort's k - h others, which leaves ``1 - h/k`` of its information, and
      M candidates fitted to k m counts leave ``1 - M / (k m)`` of it to each (docs/planning.md derives both and
      compares with the Cramer-Rao bound).

    Parameters
    ----------
    mechanism
        Whose estimate.
    num_reports
        n, one report a device.
    frequency
        x, the value's true share.
    num_candidates
        M, for Bloom filters; unless given, so few that it does not matter.

    Raises
    ------
    ParameterError
        When there are no reports or the frequency is no share.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> one_million = frequency_variance(mechanism("rappor"), 10**6, num_candidates=200)
    >>> round(1e6 * math.sqrt(one_million))
    2975
    """
    if num_reports <= 0 or not 0 <= frequency <= 1:
        raise ParameterError(f"give a positive number of reports and a share, not {num_reports} and {frequency}")
    channel, encoding = mechanism.channel, mechanism.encoding
    load, information = frequency, 1.0
    if isinstance(encoding, Bloom):
        fill = encoding.num_hashes / encoding.num_bits
        load = frequency + (1 - frequency) * fill
        information = encoding.num_hashes * (1 - fill)
        rows = encoding.num_bits * encoding.num_cohorts
        if num_candidates is not None and num_candidates < rows:
            information *= 1 - num_candidates / rows
    kept, raised = float(channel.keep_one), float(channel.raise_zero)
    noise = load * kept * (1 - kept) + (1 - load) * raised * (1 - raised)
    return noise / (float(channel.span) ** 2 * information * num_reports)


def standard_error(mechanism: BitMechanism, num_reports: float, frequency: float = 0.0) -> float:
    """Square root of `frequency_variance`, as a share."""
    return math.sqrt(frequency_variance(mechanism, num_reports, frequency))
