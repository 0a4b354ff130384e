"""Oracles that report a symbol of the value's hash: one of a small public set of hash functions, or a linear one.

The number of the function, its seed, is a cohort, shared by many devices: with s seeds, 64 to 1,024, one device in s
has the same one, and reports can be counted by (seed, symbol), for candidates that come later.

Two values collide under a share of a small set's seeds that is not exactly 1/g, and what is wrong with it stays wrong
however many reports arrive. Two ways out, the first without any price:

- `BalancedHash`: an orthogonal array of strength 2. Seeds are the vectors a of GF(g)^m, values are different points u
  of the projective space PG(m-1, g), the symbol is the inner product <a, u>. For two points a -> (<a, u>, <a, w>) is
  linear and onto GF(g)^2, so they collide under exactly s/g of the s = g^m seeds. There are (g^m - 1)/(g - 1) points;
  no set is balanced for more values (Plackett and Burman, "The design of optimum multifactorial experiments",
  Biometrika 1946; Rao's bound for strength 2).
- `SeededHash`: pseudo-random functions, keyed by the metric, for strings and for large domains. The server takes the
  actual collisions into account (`overstory.analysis.kinds.hashes`).

The variance of a frequency is 1 / (alpha(g)^2 (g - 1)) per report when every two values collide in 1/g of the seeds.
With pseudo-random seeds the server fits d values to s (g - 1) independent counts, which leaves ``1 - d / (s (g - 1))``
of the information to each. Of all sets within a hundredth of the least variance, the one with the fewest seeds is
taken: a device is then one of more.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final

from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import (
    DEFAULT_SEEDS,
    MAX_SYMBOLS,
    SEEDS,
    SymbolEncoding,
    check_count,
    check_epsilon,
    check_symbol,
)
from overstory.protocol.kinds.finite_fields import Field, digits_of, field_of, is_field_size
from overstory.protocol.kinds.symbols import SymbolMechanism, build_once, build_twice, check_rounds
from overstory.protocol.sampling import context

_MASK32: Final = (1 << 32) - 1
MAX_HASH_BITS: Final = 12  # of a linear hash: a report adds a sign at each of its 2**m points


def mix32(word: int) -> int:
    """Finalize a 32-bit word (a bijection with full avalanche; Wellons' low-bias constants)."""
    word = (word ^ (word >> 16)) * 0x21F0AAAD & _MASK32
    word = (word ^ (word >> 15)) * 0x735A2D97 & _MASK32
    return word ^ (word >> 15)


def value_word(value: Any, domain_size: int | None, key: str) -> int:
    """Return the 64-bit word that a value is hashed from: a symbol's own mix, or a string's keyed digest."""
    if domain_size is not None:
        symbol = check_symbol(value, domain_size)
        return mix32(2 * symbol + 1) | mix32(2 * symbol + 2) << 32
    from overstory.protocol.kinds.hashing import OverstoryV1

    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not isinstance(raw, bytes):
        raise ParameterError(f"a hashing oracle without a domain takes a string or bytes, not {type(value).__name__}")
    return OverstoryV1(key.encode()).digest(raw)


def hash_word(word: int, seed: int) -> int:
    """Return 32 bits of a value's 64-bit word under a seed, the upper ones well mixed; the kernels compute the same."""
    low, high = word & _MASK32, word >> 32
    mixed = low ^ mix32(seed)
    mixed = (mixed ^ (mixed >> 16)) * 0x21F0AAAD + high & _MASK32
    return (mixed ^ (mixed >> 15)) * 0x735A2D97 & _MASK32


@lru_cache(maxsize=1024)
def matrix_rows(seed: int, num_bits: int, hash_bits: int) -> tuple[int, ...]:
    """Return the matrix of a seed: `hash_bits` masks of `num_bits` bits, from SplitMix64."""
    from overstory.protocol.kinds.hashing import GOLDEN, MASK64, mix64

    return tuple(mix64(((seed << 8 | row) + 1) * GOLDEN & MASK64) >> (64 - num_bits) for row in range(hash_bits))


@dataclass(frozen=True)
class LinearHash(SymbolEncoding):
    """The value's bits times the seed's matrix, modulo 2: ``hash(v) = A v``; counted by one fast transform."""

    domain_size: int  # at most 2**64; a value has b = ceil(log2 domain_size) bits
    hash_bits: int  # m: there are 2**m symbols

    server: ClassVar[str] = "analysis.kinds.symbols:LinearSupport"

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, 1 << 64)
        check_count("hash_bits", self.hash_bits, 1, MAX_HASH_BITS)

    @property
    def num_bits(self) -> int:
        """b, the bits of a value."""
        return (self.domain_size - 1).bit_length()

    @property
    def num_symbols(self) -> int:
        return 1 << self.hash_bits

    @property
    def num_cohorts(self) -> int:
        return SEEDS

    def symbol(self, value: Any, cohort: int) -> int:
        bits = check_symbol(value, self.domain_size)
        rows = matrix_rows(cohort, self.num_bits, self.hash_bits)
        return sum(((row & bits).bit_count() & 1) << place for place, row in enumerate(rows))

    def canonical(self) -> dict[str, Any]:
        """Return the parameters; a domain of all b-bit numbers goes by b, for 2**64 is no number in JSON."""
        smaller = {"domain_size": self.domain_size} if self.domain_size < 1 << self.num_bits else {}
        return {"encoding": "linear-hash", "num_bits": self.num_bits, "hash_bits": self.hash_bits} | smaller


FEWEST_SEEDS: Final = 64
MOST_SEEDS: Final = 1024
MOST_SYMBOLS: Final = 1024  # so that counts by (seed, symbol) are at most a million numbers
MOST_FITTED: Final = 2000
"""Values up to which the server fits the collisions of pseudo-random seeds: a second, and 64 megabytes."""


@dataclass(frozen=True)
class SmallSet(SymbolEncoding):
    """The value's hash into ``0 .. hash_range - 1`` under one of few public functions, the cohorts."""

    hash_range: int  # g
    num_seeds: int  # s

    by_seed: ClassVar[bool] = True

    @property
    def num_symbols(self) -> int:
        return self.hash_range

    @property
    def num_cohorts(self) -> int:
        return self.num_seeds


@dataclass(frozen=True)
class BalancedHash(SmallSet):
    """The inner product of the seed's vector and the value's point, over GF(g): any two values collide in s/g seeds."""

    domain_size: int  # at most (s - 1) / (g - 1)

    form: ClassVar[tuple[str, str]] = ("encoding", "balanced-hash")
    server: ClassVar[str] = "analysis.kinds.hashes:BalancedSupport"

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_SYMBOLS)
        if self.domain_size > balanced_values(self.hash_range, self.num_seeds):
            raise ParameterError(
                f"{self.num_seeds} seeds with {self.hash_range} symbols are balanced for at most "
                f"{balanced_values(self.hash_range, self.num_seeds)} values, not {self.domain_size}"
            )

    @property
    def field(self) -> Field:
        return field_of(self.hash_range)

    @cached_property
    def dimension(self) -> int:
        """m: the coordinates of a seed."""
        return dimension_of(self.hash_range, self.num_seeds) or 0

    def vector(self, seed: int) -> tuple[int, ...]:
        return digits_of(seed, self.hash_range, self.dimension)

    def point(self, value: Any) -> tuple[int, ...]:
        """Return the point of a value: some digits, then a 1, then zeros; no two are multiples of each other."""
        rest, length, many = check_symbol(value, self.domain_size), 0, 1
        while rest >= many:
            rest, length, many = rest - many, length + 1, many * self.hash_range
        return (*digits_of(rest, self.hash_range, length), 1, *(0,) * (self.dimension - 1 - length))

    def symbol(self, value: Any, cohort: int) -> int:
        return self.field.inner(self.vector(cohort), self.point(value))

    def canonical(self) -> dict[str, Any]:
        return super().canonical() | self.field.canonical()


def dimension_of(hash_range: int, num_seeds: int) -> int | None:
    """Return m with ``hash_range ** m == num_seeds``; None where there is none, or no such field."""
    if not is_field_size(hash_range):
        return None
    dimension, power = 0, 1
    while power < num_seeds:
        dimension, power = dimension + 1, power * hash_range
    return dimension if power == num_seeds else None


def balanced_values(hash_range: int, num_seeds: int) -> int:
    """Return for how many values there is a balanced set of so many seeds: (g^m - 1) / (g - 1), or 0."""
    return 0 if dimension_of(hash_range, num_seeds) is None else (num_seeds - 1) // (hash_range - 1)


@dataclass(frozen=True)
class SeededHash(SmallSet):
    """The value's hash under one of a metric's `num_seeds` public pseudo-random seeds."""

    domain_size: int | None = None  # None for strings, of which any candidate can be asked later
    key: str = ""  # public: a metric's id; the seeds follow from it, and the digests of strings

    form: ClassVar[tuple[str, str]] = ("encoding", "seeded-hash")
    server: ClassVar[str] = "analysis.kinds.hashes:SeededSupport"
    pure: ClassVar[bool] = False
    uneven: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("hash_range", self.hash_range, 2, MOST_SYMBOLS)
        check_count("num_seeds", self.num_seeds, FEWEST_SEEDS, MOST_SEEDS)
        if self.domain_size is not None:
            check_count("domain_size", self.domain_size, 2, MAX_SYMBOLS)

    @property
    def seeds(self) -> tuple[int, ...]:
        return seeds_of(self.key, self.num_seeds)

    def can_be_fitted(self, num_values: int, num_seeds: float | None = None) -> bool:
        """Whether so many values can be told apart by their collisions, of all seeds or of those with reports."""
        seeds = self.num_seeds if num_seeds is None else num_seeds
        return num_values <= MOST_FITTED and 2 * num_values <= seeds * (self.hash_range - 1)

    def symbol(self, value: Any, cohort: int) -> int:
        word = value_word(value, self.domain_size, self.key)
        return hash_word(word, self.seeds[cohort]) * self.hash_range >> 32


@lru_cache(maxsize=64)
def seeds_of(key: str, num_seeds: int) -> tuple[int, ...]:
    """Return the public seeds of a metric: 31 bits each, from BLAKE2b of its key and the seed's number."""
    names = (context(key, number) for number in range(num_seeds))
    digests = (hashlib.blake2b(name, digest_size=4, person=b"public seed").digest() for name in names)
    return tuple(int.from_bytes(raw, "little") >> 1 for raw in digests)


def blh(
    *, epsilon: float, domain_size: int | None = None, hash_key: str = "", num_seeds: int | None = None
) -> SymbolMechanism:
    """Binary local hashing: one randomized bit of the value's hash.

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

    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _hashed("olh", dict(locals()), hash_range, check_epsilon("epsilon", epsilon))


def linear_hash(*, domain_size: int, epsilon: float, hash_bits: int | None = None) -> SymbolMechanism:
    """Local hashing by a random linear map of the value's bits: all values are counted by one fast transform.

    The seed of the map is the device's own, and travels with every report. The variance is OLH's at a hash range of
    ``2**hash_bits``, a power of two.

    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017
    (local hashing); Bassily, Nissim, Stemmer, Thakurta, "Practical locally private heavy hitters", NeurIPS 2017
    (the Hadamard transform in place of a scan).
    """
    parameters = dict(locals())
    encoding = LinearHash(domain_size, best_hash_bits(epsilon) if hash_bits is None else hash_bits)
    return build_once("linear-hash", parameters, encoding, epsilon)


def random_matrix(
    *, epsilon: float, domain_size: int | None = None, hash_key: str = "", num_seeds: int | None = None
) -> SymbolMechanism:
    """One randomized sign of the lecture's public pseudo-random +-1 matrix.

    Where the lecture sends the true sign with probability 1/2 + a, epsilon is ln((1/2 + a) / (1/2 - a)), about 4 a.

    Bassily, Smith, "Local, private, efficient protocols for succinct histograms", STOC 2015; the lecture, after it.
    """
    parameters = dict(locals())
    return build_once("random-matrix", parameters, _small(parameters, 2, lambda size: 1 / size), epsilon)


def loloha(
    *,
    epsilon_permanent: float,
    epsilon_report: float,
    domain_size: int | None = None,
    hash_range: int | None = None,
    hash_key: str = "",
    num_seeds: int | None = None,
) -> SymbolMechanism:
    """LOLOHA: a public hash, then GRR memoized per hashed symbol, then GRR afresh.

    The chain is exactly one GRR at epsilon_report, so its range is that of OLH.

    Arcolezi, Pinzón, Palamidessi, Gambs, "Frequency estimation of evolving data under local differential privacy",
    EDBT 2023.
    """
    parameters, (_, report) = dict(locals()), check_rounds(epsilon_permanent, epsilon_report)
    return build_twice("loloha", parameters, _small(parameters, hash_range, kept_by(report)))


def _hashed(name: str, parameters: dict[str, Any], hash_range: int | None, epsilon: float) -> SymbolMechanism:
    return build_once(name, parameters, _small(parameters, hash_range, kept_by(epsilon)), epsilon)


def _small(parameters: dict[str, Any], hash_range: int | None, alpha: Alpha) -> SmallSet:
    """Return a small public set of hash functions, and complete the parameters by its size."""
    if parameters["num_seeds"] is not None:
        check_count("num_seeds", parameters["num_seeds"], FEWEST_SEEDS, MOST_SEEDS)
    if hash_range is not None:
        check_count("hash_range", hash_range, 2, MOST_SYMBOLS)
    if parameters["domain_size"] is not None:
        check_count("domain_size", parameters["domain_size"], 2, MAX_SYMBOLS)
    encoding = _set_of(alpha, hash_range, parameters["domain_size"], parameters["hash_key"], parameters["num_seeds"])
    parameters["num_seeds"] = encoding.num_seeds
    return encoding


Alpha = Callable[[int], float]  # from a hash range to the probability that the whole chain keeps a symbol
SLACK: Final = 1.01
MAX_RANGE: Final = 1 << 16


def _set_of(alpha: Alpha, hash_range: int | None, domain_size: int | None, key: str, num_seeds: int | None) -> SmallSet:
    """Return the set of hash functions for these needs; without a domain's size, of strings, nobody knows how many."""
    usual = hash_range or least_range(range(2, MOST_SYMBOLS + 1), alpha)  # best where nothing collides too often
    if domain_size is None:
        return SeededHash(usual, num_seeds or DEFAULT_SEEDS, None, key)
    ranges = range(2, min(4 * usual, MOST_SYMBOLS) + 1) if hash_range is None else (hash_range,)
    options = list(_options(alpha, ranges, domain_size, key, num_seeds))
    if not options:  # too many values for any set: the more seeds, the smaller the error that stays
        return SeededHash(usual, num_seeds or MOST_SEEDS, domain_size, key)
    least = min(variance for variance, _ in options)
    near = [(encoding.num_seeds, variance, encoding) for variance, encoding in options if variance <= SLACK * least]
    return min(near, key=lambda option: option[:2])[2]


def _options(
    alpha: Alpha, ranges: Iterable[int], domain_size: int, key: str, num_seeds: int | None
) -> Iterator[tuple[float, SmallSet]]:
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
