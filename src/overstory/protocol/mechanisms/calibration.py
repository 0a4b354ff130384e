"""From a wished epsilon to integer thresholds: the least noise whose exact epsilon is not above the wish.

Nothing here is solved in closed form and then rounded. A family of channels is indexed by one integer threshold, more
noise for a larger one; bisection on the exact epsilon finds the first that keeps the promise. The answer is within one
step of 2**-32 of the real optimum, on the safe side.

How many symbols and public seeds a hashing oracle takes depends on its variance. That of a frequency is 1 / (alpha(g)^2
(g - 1)) per report when every two values collide in 1/g of the seeds. A balanced set has that. With pseudo-random seeds
the server fits d values to s (g - 1) independent counts, which leaves ``1 - d / (s (g - 1))`` of the information to
each (`overstory.analysis.support.seeds`). Of all sets within a hundredth of the least variance, the one with
the fewest seeds is taken: a device is then one of more. Only a hashing oracle loads the encodings by seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from overstory.protocol.channels import ONE, BinaryChannel, Rounds
from overstory.protocol.encodings.base import DEFAULT_SEEDS, check_count, check_epsilon
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.protocol.encodings.seeds import BalancedHash, SeededHash

ONE_BIT_EACH = ((1, 1),)


def least_noise(
    promised: Callable[[int], float], epsilon: float, low: int, high: int, *, near: int | None = None
) -> int:
    """Return the smallest threshold in ``low .. high`` with ``promised(threshold) <= epsilon``.

    The search begins `near`, such as at what a formula says in floats; the answer does not depend on it.
    """
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
def one_round(family: Family, epsilon: float) -> BinaryChannel:
    """Return the family's channel of least noise whose exact epsilon on one-hot bits is at most `epsilon`."""
    return family(least_noise(lambda t: family(t).epsilon, epsilon, 1, ONE // 2 - 1))


@lru_cache(MOST_CHANNELS)
def window_round(family: Family, epsilon: float, window: int) -> BinaryChannel:
    """Return the family's channel of least noise that `window` fresh reports of one-hot bits pass within `epsilon`."""
    fresh = BinaryChannel.identity()

    def promised(threshold: int) -> float:
        return Rounds(fresh, family(threshold)).epsilon(ONE_BIT_EACH, reports=window)

    return family(least_noise(promised, epsilon, 1, ONE // 2 - 1))


@lru_cache(MOST_CHANNELS)
def second_round(permanent: BinaryChannel, family: Family, epsilon: float) -> BinaryChannel:
    """Return the family's channel that, after `permanent`, brings one report down to `epsilon`; the least noise."""
    if permanent.epsilon < epsilon:
        raise ParameterError(
            f"epsilon_report = {epsilon} is above what the permanent round leaves ({permanent.epsilon:.6f}): "
            "give an epsilon_report below epsilon_permanent"
        )

    def promised(threshold: int) -> float:
        return Rounds(permanent, family(threshold)).epsilon(ONE_BIT_EACH)

    return family(least_noise(promised, epsilon, 0, ONE // 2 - 1))


Alpha = Callable[[int], float]
"""From a hash range to the probability that the whole chain keeps a symbol."""

SLACK: Final = 1.01
MAX_RANGE: Final = 1 << 16


def check_seeds(num_seeds: int | None) -> None:
    """Raise ParameterError unless the number is one that a hashing oracle takes."""
    from overstory.protocol.encodings.seeds import FEWEST_SEEDS, MOST_SEEDS

    if num_seeds is not None:
        check_count("num_seeds", num_seeds, FEWEST_SEEDS, MOST_SEEDS)


def small_set(
    alpha: Alpha,
    usual_range: int,
    *,
    domain_size: int | None,  # None for strings, of which nobody knows how many there are
    key: str,
    hash_range: int | None = None,
    num_seeds: int | None = None,
) -> BalancedHash | SeededHash:
    """Return the set of hash functions for these needs; `usual_range` is best where nothing collides too often."""
    from overstory.protocol.encodings.seeds import MOST_SEEDS, MOST_SYMBOLS, SeededHash

    ranges = range(2, min(4 * usual_range, MOST_SYMBOLS) + 1) if hash_range is None else (hash_range,)
    if domain_size is None:
        return SeededHash(ranges[0] if hash_range else usual_range, num_seeds or DEFAULT_SEEDS, None, key)
    options = list(_options(alpha, ranges, domain_size, key, num_seeds))
    if not options:  # too many values for any set: the more seeds, the smaller the error that stays
        return SeededHash(hash_range or usual_range, num_seeds or MOST_SEEDS, domain_size, key)
    least = min(variance for variance, _ in options)
    near = [(encoding.num_seeds, variance, encoding) for variance, encoding in options if variance <= SLACK * least]
    return min(near, key=lambda option: option[:2])[2]


def _options(
    alpha: Alpha, ranges: Iterable[int], domain_size: int, key: str, num_seeds: int | None
) -> Iterator[tuple[float, BalancedHash | SeededHash]]:
    """Yield every set that can tell the values apart, with its variance."""
    from overstory.protocol.encodings.seeds import MOST_SEEDS, BalancedHash, SeededHash, balanced_values

    for size in ranges:
        variance = _variance(alpha, size)
        for seeds in _powers(size) if num_seeds is None else (num_seeds,):
            if balanced_values(size, seeds) >= domain_size:
                yield variance, BalancedHash(size, seeds, domain_size)
        for seeds in (DEFAULT_SEEDS, MOST_SEEDS) if num_seeds is None else (num_seeds,):
            encoding = SeededHash(size, seeds, domain_size, key)
            if encoding.can_be_fitted(domain_size):
                yield variance / (1 - domain_size / (seeds * (size - 1))), encoding


def _powers(size: int) -> list[int]:
    """Return the powers of `size` from 64 to 1,024."""
    from overstory.protocol.encodings.seeds import FEWEST_SEEDS, MOST_SEEDS

    powers, power = [], size
    while power <= MOST_SEEDS:
        if power >= FEWEST_SEEDS:
            powers.append(power)
        power *= size
    return powers


def least_range(ranges: Iterable[int], alpha: Alpha) -> int:
    """Return the range g of least variance 1 / (alpha(g)^2 (g - 1)), alpha being the whole chain's."""
    usable = (g for g in ranges if 2 <= g <= MAX_RANGE)
    return min(usable, key=lambda size: _variance(alpha, size), default=MAX_RANGE)


def _variance(alpha: Alpha, size: int) -> float:
    """Return 1 / (alpha^2 (g - 1)) of a range; infinity where epsilon is too small for a float to tell alpha from 0."""
    squared = alpha(size) ** 2
    return 1 / (squared * (size - 1)) if squared else math.inf


def kept_by(epsilon: float) -> Alpha:
    """Return the alpha of one exact GRR on `size` symbols: (E - 1) / (E - 1 + size)."""
    odds = math.expm1(min(epsilon, 12.0))
    return lambda size: odds / (odds + size)


def best_hash_bits(epsilon: float) -> int:
    """Return the m of least variance among the ranges ``2**m``."""
    from overstory.protocol.encodings.symbols import MAX_HASH_BITS

    ranges = [1 << bits for bits in range(1, MAX_HASH_BITS + 1)]
    return least_range(ranges, kept_by(check_epsilon("epsilon", epsilon))).bit_length() - 1
