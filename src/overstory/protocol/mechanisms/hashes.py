"""Oracles that report a symbol of the value's hash, or its sign in a public matrix.

Wang et al. (USENIX Security 2017): BLH, OLH. The lecture (after Bassily and Smith 2015): one randomized bit of a public
random matrix. Arcolezi et al. (2023): LOLOHA.

How many symbols and public seeds a hashing oracle takes depends on its variance. That of a frequency is 1 / (alpha(g)^2
(g - 1)) per report when every two values collide in 1/g of the seeds. A balanced set has that. With pseudo-random seeds
the server fits d values to s (g - 1) independent counts, which leaves ``1 - d / (s (g - 1))`` of the information to
each (`overstory.analysis.support.seeds`). Of all sets within a hundredth of the least variance, the one with
the fewest seeds is taken: a device is then one of more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, Final

from overstory.protocol.channels import ONE, SymbolChannel, SymbolRounds
from overstory.protocol.encodings.base import (
    DEFAULT_SEEDS,
    MAX_SYMBOLS,
    SymbolEncoding,
    check_count,
    check_epsilon,
)
from overstory.protocol.encodings.seeds import (
    FEWEST_SEEDS,
    MOST_SEEDS,
    MOST_SYMBOLS,
    BalancedHash,
    SeededHash,
    balanced_values,
)
from overstory.protocol.encodings.symbols import MAX_HASH_BITS, LinearHash
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import SymbolMechanism
from overstory.protocol.mechanisms.symbols import build_once, build_twice, check_rounds, published_alpha


def blh(
    *, epsilon: float, domain_size: int | None = None, hash_key: str = "", num_seeds: int | None = None
) -> SymbolMechanism:
    """Binary local hashing: one randomized bit of the value's hash.

    `num_seeds`, as for all hashing oracles: how many public hash functions there are, from 64 to 1,024 (chosen where it
    is not given).

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _hashed("blh", dict(locals()), 2, check_epsilon("epsilon", epsilon))


def olh(
    *,
    epsilon: float,
    domain_size: int | None = None,
    hash_range: int | None = None,
    hash_key: str = "",
    num_seeds: int | None = None,
) -> SymbolMechanism:
    """Optimal local hashing: GRR on the value's hash into the range of least variance, near e^eps + 1.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _hashed("olh", dict(locals()), hash_range, check_epsilon("epsilon", epsilon))


def linear_hash(*, domain_size: int, epsilon: float, hash_bits: int | None = None) -> SymbolMechanism:
    """Local hashing by a random linear map of the value's bits: all values are counted by one fast transform.

    The seed of the map is the device's own, and travels with every report. The variance is OLH's at a hash range of
    ``2**hash_bits``, a power of two.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017
    (local hashing); Bassily, Nissim, Stemmer, Thakurta, "Practical locally private heavy hitters", NeurIPS 2017
    (the Hadamard transform in place of a scan).
    """
    parameters = dict(locals())
    encoding = LinearHash(domain_size, best_hash_bits(epsilon) if hash_bits is None else hash_bits)
    return build_once("linear-hash", parameters, encoding, epsilon)


def random_matrix(
    *,
    epsilon: float | None = None,
    domain_size: int | None = None,
    advantage: float | None = None,
    hash_key: str = "",
    num_seeds: int | None = None,
) -> SymbolMechanism:
    """One randomized sign of the lecture's public pseudo-random +-1 matrix.

    `advantage` is the lecture's small epsilon: the true sign is sent with probability 1/2 + advantage. Its real
    epsilon is ln((1/2 + advantage) / (1/2 - advantage)), about four times as large, and `epsilon_report` says so.

    References
    ----------
    Bassily, Smith, "Local, private, efficient protocols for succinct histograms", STOC 2015; the lecture, after it.
    """
    parameters = dict(locals())
    if (epsilon is None) == (advantage is None):
        raise ParameterError("random-matrix: give either epsilon, or the lecture's advantage")
    encoding = _small(parameters, 2, lambda size: 1 / size)
    if advantage is None:
        assert epsilon is not None
        return build_once("random-matrix", parameters, encoding, epsilon)
    if not 0 < advantage < 0.5:
        raise ParameterError(f"advantage = {advantage!r}: 1/2 + advantage must be a probability between 1/2 and 1")
    alpha = Fraction(math.floor(Fraction(advantage) * 2 * ONE), ONE)
    channel = SymbolChannel(2, alpha)
    return SymbolMechanism("random-matrix", parameters, encoding, SymbolRounds(channel, SymbolChannel(2, Fraction(1))))


def loloha(
    *,
    epsilon_permanent: float,
    epsilon_report: float,
    domain_size: int | None = None,
    hash_range: int | None = None,
    hash_key: str = "",
    published: bool = False,
    num_seeds: int | None = None,
) -> SymbolMechanism:
    """LOLOHA: a public hash, then GRR memoized per hashed symbol, then GRR afresh.

    Without `hash_range`, the range of least variance for the chain that is really used. The exact chain is one GRR at
    epsilon_report, whatever the permanent round, so its range is that of OLH; the published one adds noise of its own.

    References
    ----------
    Arcolezi, Pinzón, Palamidessi, Gambs, "Frequency estimation of evolving data under local differential privacy",
    EDBT 2023.
    """
    parameters, two = dict(locals()), check_rounds(epsilon_permanent, epsilon_report)
    alpha = _published_chain(*two) if published else kept_by(epsilon_report)
    return build_twice("loloha", parameters, _small(parameters, hash_range, alpha))


def _published_chain(epsilon_permanent: float, epsilon_report: float) -> Alpha:
    first = math.expm1(min(epsilon_permanent, 700.0))

    def alpha(size: int) -> float:
        return first / (first + size) * float(published_alpha(size, epsilon_permanent, epsilon_report))

    return alpha


def _hashed(name: str, parameters: dict[str, Any], hash_range: int | None, epsilon: float) -> SymbolMechanism:
    """Return one round on a hash, of `hash_range` symbols where that is given."""
    return build_once(name, parameters, _small(parameters, hash_range, kept_by(epsilon)), epsilon)


def _small(parameters: dict[str, Any], hash_range: int | None, alpha: Alpha) -> SymbolEncoding:
    """Return a small public set of hash functions, and complete the parameters by its size."""
    if parameters["num_seeds"] is not None:
        check_count("num_seeds", parameters["num_seeds"], FEWEST_SEEDS, MOST_SEEDS)
    if hash_range is not None:
        check_count("hash_range", hash_range, 2, MOST_SYMBOLS)
    if parameters["domain_size"] is not None:
        check_count("domain_size", parameters["domain_size"], 2, MAX_SYMBOLS)
    usual = least_range(range(2, MOST_SYMBOLS + 1), alpha) if hash_range is None else hash_range
    encoding = small_set(
        alpha,
        usual,
        domain_size=parameters["domain_size"],
        key=parameters["hash_key"],
        hash_range=hash_range,
        num_seeds=parameters["num_seeds"],
    )
    parameters["num_seeds"] = encoding.num_seeds
    return encoding


Alpha = Callable[[int], float]
"""From a hash range to the probability that the whole chain keeps a symbol."""

SLACK: Final = 1.01
MAX_RANGE: Final = 1 << 16


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
    ranges = [1 << bits for bits in range(1, MAX_HASH_BITS + 1)]
    return least_range(ranges, kept_by(check_epsilon("epsilon", epsilon))).bit_length() - 1
