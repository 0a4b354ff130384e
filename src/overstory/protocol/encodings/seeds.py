"""Encodings by a small public set of hash functions: the seed's number is a cohort, shared by many devices.

A seed of its own would be a number of the device in every report. With s seeds, 64 to 1,024, one device in s has the
same one, and reports can be counted by (seed, symbol): nothing of a report has to be kept, and candidates can come
later.

A small set has a price. Two values collide under a share of the seeds that is not exactly 1/g, and what is wrong with
it stays wrong however many reports arrive. Two ways out, the first without any price:

- `BalancedHash`: an orthogonal array of strength 2. Seeds are the vectors a of GF(g)^m, values are different points u
  of the projective space PG(m-1, g), the symbol is the inner product <a, u>. For two points a -> (<a, u>, <a, w>) is
  linear and onto GF(g)^2, so they collide under exactly s/g of the s = g^m seeds. There are (g^m - 1)/(g - 1) points.
- `SeededHash`: pseudo-random functions, keyed by the metric, for strings and for large domains. The server takes the
  actual collisions into account (`overstory.analysis.support.seeds`).

No set is balanced for more than (s - 1)/(g - 1) values (Plackett and Burman 1946; Rao's bound for strength 2).

References
----------
Plackett, Burman, "The design of optimum multifactorial experiments", Biometrika 1946.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final

from overstory.protocol.encodings.base import MAX_SYMBOLS, SymbolEncoding, check_count, check_symbol
from overstory.protocol.encodings.finite_fields import Field, field_of, is_field_size
from overstory.protocol.encodings.symbols import hash_word, value_word
from overstory.protocol.errors import ParameterError
from overstory.protocol.sampling import context

FEWEST_SEEDS: Final = 64
MOST_SEEDS: Final = 1024
MOST_SYMBOLS: Final = 1024
"""So that counts by (seed, symbol) are at most a million numbers."""
MOST_FITTED: Final = 2000
"""Values up to which the server fits the collisions of pseudo-random seeds: a second, and 64 megabytes."""


@dataclass(frozen=True)
class BalancedHash(SymbolEncoding):
    """The inner product of the seed's vector and the value's point, over GF(g): any two values collide in s/g seeds."""

    hash_range: int
    num_seeds: int  # s = g^m vectors; digit i of a seed in base g is coordinate i, the lowest first
    domain_size: int  # at most (s - 1) / (g - 1)

    server: ClassVar[str] = "analysis.support.seeds:BalancedSupport"
    by_seed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_SYMBOLS)
        if self.domain_size > balanced_values(self.hash_range, self.num_seeds):
            raise ParameterError(
                f"{self.num_seeds} seeds with {self.hash_range} symbols are balanced for at most "
                f"{balanced_values(self.hash_range, self.num_seeds)} values, not {self.domain_size}"
            )

    @property
    def field(self) -> Field:
        """GF(g)."""
        return field_of(self.hash_range)

    @property
    def num_symbols(self) -> int:
        return self.hash_range

    @property
    def num_cohorts(self) -> int:
        return self.num_seeds

    @cached_property
    def dimension(self) -> int:
        """m: the coordinates of a seed."""
        return dimension_of(self.hash_range, self.num_seeds) or 0

    def vector(self, seed: int) -> tuple[int, ...]:
        """Return the coordinates of a seed."""
        digits = []
        for _ in range(self.dimension):
            seed, digit = divmod(seed, self.hash_range)
            digits.append(digit)
        return tuple(digits)

    def point(self, value: Any) -> tuple[int, ...]:
        """Return the point of a value: some digits, then a 1, then zeros; no two are multiples of each other."""
        rest, length, many = check_symbol(value, self.domain_size), 0, 1
        while rest >= many:
            rest, length, many = rest - many, length + 1, many * self.hash_range
        digits = []
        for _ in range(length):
            rest, digit = divmod(rest, self.hash_range)
            digits.append(digit)
        return (*digits, 1, *(0,) * (self.dimension - 1 - length))

    def symbol(self, value: Any, cohort: int) -> int:
        return self.field.inner(self.vector(cohort), self.point(value))

    def canonical(self) -> dict[str, Any]:
        """Return the parameters; the polynomial is part of what a product means, where there is one."""
        own = {
            "encoding": "balanced-hash",
            "hash_range": self.hash_range,
            "num_seeds": self.num_seeds,
            "domain_size": self.domain_size,
        }
        return own | ({"polynomial": self.field.polynomial} if self.field.polynomial else {})


def dimension_of(hash_range: int, num_seeds: int) -> int | None:
    """Return m with ``hash_range ** m == num_seeds``; None where there is none, or no such field.

    >>> dimension_of(4, 256), dimension_of(6, 216), dimension_of(2, 100)
    (4, None, None)
    """
    if not is_field_size(hash_range):
        return None
    dimension, power = 0, 1
    while power < num_seeds:
        dimension, power = dimension + 1, power * hash_range
    return dimension if power == num_seeds else None


def balanced_values(hash_range: int, num_seeds: int) -> int:
    """Return for how many values there is a balanced set of so many seeds: (g^m - 1) / (g - 1), or 0.

    >>> [balanced_values(g, s) for g, s in ((2, 1024), (3, 729), (4, 256), (4, 1000))]
    [1023, 364, 85, 0]
    """
    return 0 if dimension_of(hash_range, num_seeds) is None else (num_seeds - 1) // (hash_range - 1)


@dataclass(frozen=True)
class SeededHash(SymbolEncoding):
    """The value's hash under one of a metric's `num_seeds` public pseudo-random seeds."""

    hash_range: int
    num_seeds: int
    domain_size: int | None = None  # None for strings, of which any candidate can be asked later
    key: str = ""  # public: a metric's id; the seeds follow from it, and the digests of strings

    server: ClassVar[str] = "analysis.support.seeds:SeededSupport"
    pure: ClassVar[bool] = False
    uneven: ClassVar[bool] = True
    by_seed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("hash_range", self.hash_range, 2, MOST_SYMBOLS)
        check_count("num_seeds", self.num_seeds, FEWEST_SEEDS, MOST_SEEDS)
        if self.domain_size is not None:
            check_count("domain_size", self.domain_size, 2, MAX_SYMBOLS)

    @property
    def num_symbols(self) -> int:
        return self.hash_range

    @property
    def num_cohorts(self) -> int:
        return self.num_seeds

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

    def canonical(self) -> dict[str, Any]:
        return {
            "encoding": "seeded-hash",
            "hash_range": self.hash_range,
            "num_seeds": self.num_seeds,
            "domain_size": self.domain_size,
            "hash_key": self.key,
        }


@lru_cache(maxsize=64)
def seeds_of(key: str, num_seeds: int) -> tuple[int, ...]:
    """Return the public seeds of a metric: 31 bits each, from BLAKE2b of its key and the seed's number.

    >>> seeds_of("colour", 64)[:2] == seeds_of("colour", 128)[:2] != seeds_of("size", 64)[:2]
    True
    """
    names = (context(key, number) for number in range(num_seeds))
    digests = (hashlib.blake2b(name, digest_size=4, person=b"public seed").digest() for name in names)
    return tuple(int.from_bytes(raw, "little") >> 1 for raw in digests)
