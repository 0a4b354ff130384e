"""How many symbols and public seeds a hashing oracle takes.

The variance of a frequency is 1 / (alpha(g)^2 (g - 1)) per report when every two values collide in 1/g of the seeds.
A balanced set has that. With pseudo-random seeds the server fits d values to s (g - 1) independent counts, which leaves
``1 - d / (s (g - 1))`` of the information to each (`overstory.analysis.support.seed_estimates`). Of all sets within a
hundredth of the least variance, the one with the fewest seeds is taken: a device is then one of more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from overstory.protocol.encodings.base import DEFAULT_SEEDS, SEEDS
from overstory.protocol.encodings.seeds import (
    FEWEST_SEEDS,
    MOST_SEEDS,
    MOST_SYMBOLS,
    BalancedHash,
    SeededHash,
    balanced_values,
)
from overstory.protocol.encodings.symbols import MAX_HASH_BITS
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.calibration import check_epsilon

Alpha = Callable[[int], float]
"""From a hash range to the probability that the whole chain keeps a symbol."""

SLACK: Final = 1.01
MAX_RANGE: Final = 1 << 16


def check_seeds(num_seeds: int | None) -> None:
    """Raise ParameterError unless the number is one that a hashing oracle takes."""
    fits = num_seeds is None or (isinstance(num_seeds, int) and not isinstance(num_seeds, bool))
    if not fits or not (num_seeds is None or num_seeds == SEEDS or FEWEST_SEEDS <= num_seeds <= MOST_SEEDS):
        raise ParameterError(
            f"num_seeds = {num_seeds!r}: give a whole number from {FEWEST_SEEDS} to {MOST_SEEDS}, or {SEEDS} to read a "
            "collection of version 0.1, whose devices have a seed of their own"
        )


def small_set(
    alpha: Alpha,
    usual_range: int,
    *,
    domain_size: int | None,
    key: str,
    hash_range: int | None = None,
    num_seeds: int | None = None,
) -> BalancedHash | SeededHash:
    """Return the set of hash functions for these needs.

    Parameters
    ----------
    alpha
        See `Alpha`.
    usual_range
        The range of least variance where nothing collides more often than it should.
    domain_size
        d; None for strings, of which nobody knows how many there are.

    Examples
    --------
    >>> small_set(lambda g: 1.718 / (1.718 + g), 4, domain_size=85, key="")
    BalancedHash(hash_range=4, num_seeds=256, domain_size=85)
    """
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
    for size in ranges:
        variance = 1 / (alpha(size) ** 2 * (size - 1))
        for seeds in _powers(size) if num_seeds is None else (num_seeds,):
            if balanced_values(size, seeds) >= domain_size:
                yield variance, BalancedHash(size, seeds, domain_size)
        for seeds in (DEFAULT_SEEDS, MOST_SEEDS) if num_seeds is None else (num_seeds,):
            encoding = SeededHash(size, seeds, domain_size, key)
            if encoding.can_be_fitted(domain_size):
                yield variance / (1 - domain_size / (seeds * (size - 1))), encoding


def _powers(size: int) -> list[int]:
    """Return the powers of `size` from 64 to 1,024."""
    powers, power = [], size
    while power <= MOST_SEEDS:
        if power >= FEWEST_SEEDS:
            powers.append(power)
        power *= size
    return powers


def best_hash_range(epsilon: float) -> int:
    """Return the integer g of least variance (E - 1 + g)^2 / ((E - 1)^2 (g - 1)); over the reals it is E + 1.

    Examples
    --------
    >>> [best_hash_range(epsilon) for epsilon in (0.1, 1.0, 2.0, 4.0)]
    [2, 4, 8, 56]
    """
    odds = math.exp(min(check_epsilon("epsilon", epsilon), 12.0))
    near = math.floor(odds + 1)
    return least_range((near, near + 1), lambda size: (odds - 1) / (odds - 1 + size))


def least_range(ranges: Iterable[int], alpha: Alpha) -> int:
    """Return the range g of least variance 1 / (alpha(g)^2 (g - 1)), alpha being the whole chain's."""
    usable = (g for g in ranges if 2 <= g <= MAX_RANGE)
    return min(usable, key=lambda g: 1 / (alpha(g) ** 2 * (g - 1)), default=MAX_RANGE)


def kept_by(epsilon: float) -> Alpha:
    """Return the alpha of one exact GRR on `size` symbols: (E - 1) / (E - 1 + size)."""
    odds = math.expm1(min(epsilon, 12.0))
    return lambda size: odds / (odds + size)


def best_hash_bits(epsilon: float) -> int:
    """Return the m of least variance among the ranges ``2**m``.

    Examples
    --------
    >>> [best_hash_bits(epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0)]
    [1, 2, 3, 6]
    """
    ranges = [1 << bits for bits in range(1, MAX_HASH_BITS + 1)]
    return least_range(ranges, kept_by(check_epsilon("epsilon", epsilon))).bit_length() - 1
