"""What a small public set of seeds costs: the set that OLH takes, and its variance over that of even collisions.

The table of docs/reference/oracles.md.
With many reports and, past what can be fitted, other values that are all alike; there the
part that does not shrink is shown as a standard error of a frequency, at equal and at Zipf shares.
"""

from __future__ import annotations

import math

import numpy as np

import overstory
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.variance import lasting_variance
from overstory.protocol.kinds.hashes import BalancedHash, SeededHash

SIZES = (10, 40, 85, 100, 300, 1000, 10_000)
EPSILONS = (1.0, 2.0, 4.0)
MANY = 10**12


def row(size: int, epsilon: float, seeds: int | None) -> str:
    """Return what is taken for so many values."""
    few = overstory.oracle("olh", domain_size=size, epsilon=epsilon, num_seeds=seeds)
    odds = math.expm1(epsilon)
    even = min(((odds + g) / odds) ** 2 / (g - 1) for g in range(2, 1025)) / MANY
    encoding, lasting = few.mechanism.encoding, lasting_variance(few.mechanism)
    assert isinstance(encoding, BalancedHash | SeededHash)
    kind = "balanced" if isinstance(encoding, BalancedHash) else "by itself" if lasting else "fitted"
    cost = (few.variance(MANY) - lasting) / even - 1
    stays = _stays(few, size) if lasting else ""
    return (
        f"    {size:>6} {epsilon:>4g} {encoding.num_seeds:>6} {encoding.hash_range:>4} {kind:<10} {cost:>+7.1%} {stays}"
    )


def _stays(few: FrequencyOracle, size: int) -> str:
    """Return the standard error that stays, for the least frequent value."""
    encoding = few.mechanism.encoding
    zipf = 1 / np.arange(1, size + 1)
    zipf /= zipf.sum()
    even, skewed = (
        math.sqrt(float((shares**2).sum()) / (encoding.num_seeds * (encoding.hash_range - 1)))
        for shares in (np.full(size, 1 / size), zipf)
    )
    return f"{even:.1e} {skewed:.1e}"


if __name__ == "__main__":
    for title, seeds in (("as chosen", None), ("256 seeds", 256)):
        print(f"    values  eps  seeds    g set ({title:<9}) cost  error that stays: even, Zipf")
        for epsilon in EPSILONS:
            for size in SIZES:
                print(row(size, epsilon, seeds))
        print()
