"""From a wished epsilon to integer thresholds: the least noise whose exact epsilon is not above the wish.

Nothing here is solved in closed form and then rounded. A family of channels is indexed by one integer threshold, more
noise for a larger one; bisection on the exact epsilon finds the first that keeps the promise. The answer is within one
step of 2**-32 of the real optimum, on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Final

from overstory.protocol.channels import ONE, BinaryChannel, Differences, Rounds
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import check_epsilon

ONE_BIT_EACH = ((1, 1),)
IDENTITY: Final = BinaryChannel.identity()


def least_noise(
    promised: Callable[[int], float], epsilon: float, low: int, high: int, *, near: int | None = None
) -> int:
    """Return the smallest threshold in ``low .. high`` with ``promised(threshold) <= epsilon``."""
    under = promised(high) - epsilon
    if under > 0:
        raise ParameterError(f"no channel on the 2**-32 grid reaches epsilon = {epsilon}: it is too small")
    over = promised(low) - epsilon
    if over <= 0:
        return low
    for guess in () if near is None else (near + 1, near - 1):
        if low < guess < high:
            excess = promised(guess) - epsilon
            low, over, high, under = (guess, excess, high, under) if excess > 0 else (low, over, guess, excess)
    steps, before = 0, 0.0
    while high - low > 1:  # promised(low) > epsilon >= promised(high)
        middle = _between(low, over, high, under) if steps < MOST_INTERPOLATED else (low + high) // 2
        excess, steps = promised(middle) - epsilon, steps + 1
        if excess > 0:
            low, over, under = middle, excess, under / 2 if before > 0 else under
        else:
            high, under, over = middle, excess, over / 2 if before < 0 else over
        before = excess or -1.0
    return high


MOST_INTERPOLATED: Final = 24
"""Steps until plain bisection takes over; an epsilon that is nearly linear in the logarithm needs some ten."""


def _between(low: int, over: float, high: int, under: float) -> int:
    """Return where the excess is about 0: on a line in the logarithm of the threshold, else in the middle.

    The caller halves the excess of an end that stays twice (the Illinois rule), so that both ends come closer.
    """
    if low < 1 or not math.isfinite(over):
        return (low + high) // 2
    there = math.log(low) + math.log(high / low) * over / (over - under)
    return min(max(round(math.exp(there)), low + 1), high - 1)


def symmetric(threshold: int) -> BinaryChannel:
    """Flip with probability ``threshold / 2**32`` (SUE, Warner): P(1|1) = 1 - P(1|0)."""
    return BinaryChannel(Fraction(ONE - threshold, ONE), Fraction(threshold, ONE))


def optimized(threshold: int) -> BinaryChannel:
    """Keep a one with probability 1/2, raise a zero with ``threshold / 2**32`` (OUE)."""
    return BinaryChannel(Fraction(1, 2), Fraction(threshold, ONE))


Family = Callable[[int], BinaryChannel]
MOST_CHANNELS: Final = 256
"""Channels that each search keeps for the next mechanism with the same needs: one search takes 5 ms."""


@lru_cache(MOST_CHANNELS)
def calibrated(
    family: Family,
    epsilon: float,
    differences: Differences = ONE_BIT_EACH,
    *,
    permanent: BinaryChannel = IDENTITY,
    reports: int = 1,
) -> BinaryChannel:
    """Return the family's channel of least noise that so many fresh reports, after `permanent`, pass within `epsilon`.

    Encodings differ as `differences` says.
    """

    def promised(threshold: int) -> float:
        return Rounds(permanent, family(threshold)).epsilon(differences, reports=reports)

    return family(least_noise(promised, epsilon, 1 if permanent.is_identity else 0, ONE // 2 - 1))


def check_two(epsilon_permanent: float, epsilon_report: float) -> tuple[float, float]:
    """Return both epsilons of two rounds, or raise ParameterError unless the first is larger."""
    permanent = check_epsilon("epsilon_permanent", epsilon_permanent)
    report = check_epsilon("epsilon_report", epsilon_report)
    if report >= permanent:
        raise ParameterError(
            f"epsilon_report = {report} must be below epsilon_permanent = {permanent}: otherwise one round does"
        )
    return permanent, report
