"""How well a frequency can be known: the variance of its unbiased estimate, before anything is collected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from overstory.protocol.encodings import Bloom
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Mechanism
from overstory.protocol.mechanisms.sampled import SampledBits
from overstory.protocol.public_seeds import SeededHash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Amount = TypeVar("Amount", float, "NDArray[np.float64]")


def support_noise(holders: Amount, others: Amount, p_star: float, q_star: float) -> Amount:
    """Variance of how many of these reports support a value: ``holders p* (1 - p*) + others q* (1 - q*)``.

    Examples
    --------
    >>> support_noise(10.0, 20.0, p_star=0.5, q_star=0.25)
    6.25
    """
    return holders * p_star * (1 - p_star) + others * q_star * (1 - q_star)


def frequency_variance(
    mechanism: Mechanism, num_reports: float, frequency: float = 0.0, *, num_candidates: int | None = None
) -> float:
    """Variance of the unbiased estimate of a value's frequency, from one report a device.

    When a share u of the devices truly supports something, its debiased count has variance
    ``n (u p* (1 - p*) + (1 - u) q* (1 - q*)) / (p* - q*)**2``, p* being the probability that a device's report
    supports its own value and q* that it supports another (Wang et al. 2017, theorem 2, in their letters).

    - All pure oracles (bits of one-hot vectors, symbols, hashes, signs, sets): u = x.
    - Bloom: a value has h bits, which share their filters with other strings: u is x plus the others' load
      ``h / k``; a bit is read against its cohort's k - h others, which leaves ``1 - h/k`` of its information, and
      M candidates fitted to k m counts leave ``1 - M / (k m)`` of it to each (docs/explanation/planning.md derives both
      and compares with the Cramer-Rao bound).
    - Sampled bits: a value is asked of a share d'/d of the devices; that these are a sample of all of them adds
      ``x (1 - x) (1 - d'/d)`` to the numerator.
    - Hashes of a small set of pseudo-random seeds (no balanced one): M values, or d, fitted to s (g - 1) counts leave
      ``1 - M / (s (g - 1))`` of the information; too many to be fitted, they keep what their collisions add, here of
      others that are all equally frequent.

    Parameters
    ----------
    mechanism
        Whose estimate.
    num_reports
        n, one report a device.
    frequency
        x, the value's true share.
    num_candidates
        M, for Bloom filters and hashed strings; unless given, so few that it does not matter.

    Raises
    ------
    ParameterError
        When there are no reports or the frequency is no share.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> one_million = frequency_variance(mechanism("rappor"), 10**6, num_candidates=200)
    >>> round(1e6 * one_million**0.5)
    2975
    """
    if num_reports <= 0 or not 0 <= frequency <= 1:
        raise ParameterError(f"give a positive number of reports and a share, not {num_reports} and {frequency}")
    encoding, information = mechanism.encoding, 1.0
    load, sampling = supporting(mechanism, frequency)
    if isinstance(encoding, Bloom):
        information = encoding.num_hashes * (1 - encoding.num_hashes / encoding.num_bits)
        rows = encoding.num_bits * encoding.num_cohorts
        if num_candidates is not None and num_candidates < rows:
            information *= 1 - num_candidates / rows
    elif isinstance(encoding, SampledBits):
        information = encoding.sampled_bits / encoding.domain_size
    kept, raised = float(mechanism.p_star), float(mechanism.q_star)
    noise = support_noise(load, 1 - load, kept, raised)
    alone = (noise / (kept - raised) ** 2 + sampling) / (information * num_reports)
    return (
        _by_seed(encoding, alone, num_reports, frequency, num_candidates) if isinstance(encoding, SeededHash) else alone
    )


def _by_seed(
    encoding: SeededHash, alone: float, num_reports: float, frequency: float, num_candidates: int | None
) -> float:
    """Return the variance with a small set of pseudo-random seeds, which are fitted, or leave their collisions.

    See `overstory.analysis.seed_estimates`: d values use up d of the s (g - 1) independent counts. By themselves,
    values keep an error of variance ``sum of the others' f^2 / (s (g - 1))``: here of others that are all alike.
    """
    values = encoding.domain_size or num_candidates or 0
    counts = encoding.num_seeds * num_reports / (encoding.num_seeds + num_reports) * (encoding.hash_range - 1)
    if encoding.can_be_fitted(values, counts / (encoding.hash_range - 1)):
        return alone / (1 - values / counts)
    return alone + _collisions(encoding, values, frequency)


def _collisions(encoding: SeededHash, values: int, frequency: float) -> float:
    return (1 - frequency) ** 2 / max(values - 1, 1) / (encoding.num_seeds * (encoding.hash_range - 1))


def lasting_variance(mechanism: Mechanism, frequency: float = 0.0, *, num_candidates: int | None = None) -> float:
    """Return the part of a frequency's variance that no number of reports makes smaller.

    Nothing, but for hashes of a small pseudo-random set with more values than it can tell apart.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> [lasting_variance(mechanism("olh", epsilon=1.0, domain_size=d)) > 0 for d in (100, 10_000)]
    [False, True]
    """
    encoding = mechanism.encoding
    values = getattr(encoding, "domain_size", None) or num_candidates or 0
    if not isinstance(encoding, SeededHash) or encoding.can_be_fitted(values):
        return 0.0
    return _collisions(encoding, values, frequency)


def supporting(mechanism: Mechanism, frequency: float) -> tuple[float, float]:
    """Return u, the share of devices that truly support a value of this frequency, and the sampling term above."""
    encoding = mechanism.encoding
    if isinstance(encoding, Bloom):
        return frequency + (1 - frequency) * encoding.num_hashes / encoding.num_bits, 0.0
    if isinstance(encoding, SampledBits):
        return frequency, frequency * (1 - frequency) * (1 - encoding.sampled_bits / encoding.domain_size)
    return frequency, 0.0


def error_bound(mechanism: Mechanism, num_reports: float, beta: float) -> float:
    """Bound that the error of one value's frequency exceeds with probability `beta` at most, whatever the data.

    Each report adds one of two numbers that lie ``1 / (p* - q*)`` apart, so by Hoeffding's inequality the bound is
    ``sqrt(ln(2 / beta) / (2 n)) / (p* - q*)``. For a random sign, p* - q* = (e^eps - 1) / (2 (e^eps + 1)), and in
    counts this is the lecture's ``sqrt(2 n ln(2 / beta)) (e^eps + 1) / (e^eps - 1)``. Pure oracles only: not Bloom
    filters, not sampled bits, not a few public seeds that values meet in unevenly.

    Raises
    ------
    ParameterError
        When there are no reports, `beta` is no probability, or the oracle is not pure.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> round(error_bound(mechanism("random-matrix", epsilon=1.0, num_seeds=1 << 31), 10**6, 0.05), 5)
    0.00588
    """
    if num_reports <= 0 or not 0 < beta < 1:
        raise ParameterError(f"give a positive number of reports and a probability, not {num_reports} and {beta}")
    if isinstance(mechanism.encoding, Bloom | SampledBits | SeededHash):
        raise ParameterError(f"{mechanism.name}: not every report speaks of every value, so this bound does not hold")
    span = abs(float(mechanism.p_star - mechanism.q_star))
    return math.sqrt(math.log(2 / beta) / (2 * num_reports)) / span
