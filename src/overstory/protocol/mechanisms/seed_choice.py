"""Which small set of public seeds a hashing oracle takes, and with how many symbols.

The variance of a frequency is 1 / (alpha(g)^2 (g - 1)) per report when every two values collide in 1/g of the seeds.
A balanced set has that. With pseudo-random seeds the server fits d values to s (g - 1) independent counts, which leaves
``1 - d / (s (g - 1))`` of the information to each (`overstory.analysis.seed_estimates`). Of all sets within a hundredth
of the least variance, the one with the fewest seeds is taken: a device is then one of more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from overstory.protocol.encodings import DEFAULT_SEEDS, SEEDS
from overstory.protocol.errors import ParameterError
from overstory.protocol.public_seeds import (
    FEWEST_SEEDS,
    MOST_SEEDS,
    MOST_SYMBOLS,
    BalancedHash,
    SeededHash,
    balanced_values,
)

Alpha = Callable[[int], float]
"""From a hash range to the probability that the whole chain keeps a symbol."""

SLACK: Final = 1.01


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
    key
        The metric's.
    hash_range, num_seeds
        Where they are given.

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
