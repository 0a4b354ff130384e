"""Encodings into bits: one bit per symbol, Bloom filters, and a sample of the bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

from overstory.protocol.channels import Differences
from overstory.protocol.encodings.base import MAX_BITS, MAX_COHORTS, Encoding, Shape, check_count, check_symbol
from overstory.protocol.encodings.hashing import HashFamily, OverstoryV1, hash_family
from overstory.protocol.errors import ParameterError


@dataclass(frozen=True)
class OneHot(Encoding):
    """Symbol s of ``0 .. domain_size - 1`` sets bit s alone ("Basic RAPPOR", unary encoding)."""

    domain_size: int
    server: ClassVar[str] = "analysis.support.bits:OneHotSupport"

    num_cohorts: ClassVar[int] = 1
    pairable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_BITS)

    @property
    def num_bits(self) -> int:
        return self.domain_size

    @property
    def most_values(self) -> int:
        """All that there are."""
        return self.domain_size

    def shapes(self, *, equal_bits: bool) -> tuple[Shape, ...]:  # noqa: ARG002 - no two values have equal bits
        """Return the one of two bits that differ."""
        return (Shape(0, 1, 1, self.num_bits - 2),)

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:  # noqa: ARG002 - one cohort encodes as any
        return (check_symbol(value, self.domain_size),)

    def canonical(self) -> dict[str, Any]:
        return {"encoding": "one-hot", "domain_size": self.domain_size}


@dataclass(frozen=True)
class Bloom(Encoding):
    """A string sets `num_hashes` of `num_bits` bits, other ones in every cohort (RAPPOR, section 2)."""

    num_bits: int
    num_hashes: int
    num_cohorts: int
    family: str = "overstory-v1"
    hash_key: str = ""

    domain_size: ClassVar[None] = None
    most_values: ClassVar[None] = None
    pure: ClassVar[bool] = False
    server: ClassVar[str] = "analysis.support.bits:BloomSupport"
    decoded: ClassVar[bool] = True
    pairable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        family = hash_family(self.family, self.hash_key)
        check_count("num_bits (k)", self.num_bits, 2, family.max_bits)
        check_count("num_cohorts (m)", self.num_cohorts, 1, MAX_COHORTS)
        check_count("num_hashes (h)", self.num_hashes, 1, family.max_hashes)
        if self.num_hashes >= self.num_bits:
            raise ParameterError(
                f"num_hashes (h) = {self.num_hashes} does not fit num_bits (k) = {self.num_bits}: "
                "with as many hashes as bits every value would set the same bits; give fewer hashes"
            )
        object.__setattr__(self, "_family", family)

    @property
    def hashes(self) -> HashFamily:
        family: HashFamily = self.__dict__["_family"]
        return family

    @property
    def ones(self) -> tuple[int, int]:
        """Positions that fall together leave fewer than h."""
        return (self.num_hashes if self.hashes.distinct else 1), self.num_hashes

    def shapes(self, *, equal_bits: bool) -> tuple[Shape, ...]:
        fewest, most = self.ones
        weights = range(fewest, most + 1)
        pairs = (_overlaps(self.num_bits, *pair, equal_bits=equal_bits) for pair in product(weights, repeat=2))
        return tuple(dict.fromkeys(shape for shapes in pairs for shape in shapes))

    def supporting(self, frequency: float) -> float:
        """Return the holders' share, and of the others those whose filters have the bit, too: h / k of them."""
        return frequency + (1 - frequency) * self.num_hashes / self.num_bits

    def information(self, num_candidates: int | None) -> float:
        """Return h (1 - h/k), and ``1 - M / (k m)`` of it where M candidates are fitted to the k m counts.

        A value has h bits; each is read against its cohort's k - h others.
        """
        information = self.num_hashes * (1 - self.num_hashes / self.num_bits)
        rows = self.num_bits * self.num_cohorts
        if num_candidates is None or num_candidates >= rows:
            return information
        return information * (1 - num_candidates / rows)

    @property
    def differences(self) -> Differences:
        """Worst pairs (ones lowered, zeros raised) between the filters of two values in one cohort.

        Distinct positions: min(h, k - h) of each. Otherwise a filter holds 1 to h ones, and two filters differ in
        at most k bits; the pairs are then a bound. A known candidate map may be kinder: it is never worse.
        """
        hashes, bits = self.num_hashes, self.num_bits
        if self.hashes.distinct:
            either = min(hashes, bits - hashes)
            return ((either, either),)
        if 2 * hashes <= bits:
            return ((hashes, hashes),)
        return tuple((lowered, bits - lowered) for lowered in range(bits - hashes, hashes + 1))

    @property
    def nothing(self) -> int:
        """No bit, which differs from a filter in at most h ones.

        Where that is more than two filters of h distinct positions differ in (h > k/2): the first h bits, as a filter.
        """
        crowded = self.hashes.distinct and 2 * self.num_hashes > self.num_bits
        return (1 << self.num_hashes) - 1 if crowded else 0

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:
        """Return the positions of a string (hashed as UTF-8) or of bytes."""
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        if not isinstance(raw, bytes):
            raise ParameterError(f"a Bloom filter takes a string or bytes, not {type(value).__name__}")
        return self.hashes.positions(raw, cohort, self.num_bits, self.num_hashes)

    def canonical(self) -> dict[str, Any]:
        return {
            "encoding": "bloom",
            "num_bits": self.num_bits,
            "num_hashes": self.num_hashes,
            "num_cohorts": self.num_cohorts,
            "hash_family": self.family,
            "hash_key": self.hash_key,
        }


def _overlaps(num_bits: int, first: int, second: int, *, equal_bits: bool) -> Iterator[Shape]:
    """Yield the shapes of the smallest and the largest overlap of so many ones and so many others."""
    fewest, most = max(0, first + second - num_bits), min(first, second)
    if first == second and not equal_bits:
        most -= 1
    for both in sorted({fewest, most}) if fewest <= most else ():
        yield Shape(both, first - both, second - both, num_bits - first - second + both)


@dataclass(frozen=True)
class SampledBits(Encoding):
    """The bits of `sampled_bits` values, out of the one-hot vector: those at fixed offsets from the device's cohort.

    The cohort is public. As many cohorts as values, so every value is asked of exactly the share
    ``sampled_bits / domain_size`` of the cohorts; the offsets are spread over the domain by the project's hash family.

    >>> encoding = SampledBits(5, 2)
    >>> [sum(len(encoding.positions(value, cohort)) for cohort in range(5)) for value in range(5)]
    [2, 2, 2, 2, 2]
    """

    domain_size: int
    sampled_bits: int

    server: ClassVar[str] = "analysis.support.bits:SampledSupport"
    pure: ClassVar[bool] = False

    def __post_init__(self) -> None:
        OneHot(self.domain_size)
        check_count("sampled_bits", self.sampled_bits, 1, self.domain_size)

    @property
    def num_bits(self) -> int:
        return self.sampled_bits

    @property
    def num_cohorts(self) -> int:
        return self.domain_size

    @property
    def asked(self) -> float:
        """The share d'/d of the cohorts."""
        return self.sampled_bits / self.domain_size

    @property
    def most_values(self) -> int:
        """The sampled bits d', at least two of them.

        With d' >= 2 sampled bits a pair of values that differs in one bit costs no more than half of one that differs
        in two, and of all pairs of one history together at most d' ones are lowered and d' zeros raised: d' epsilons.
        With d' = 1 every pair differs in one bit, and two pairs can do so.
        """
        return min(max(self.sampled_bits, 2), self.domain_size)

    def shapes(self, *, equal_bits: bool) -> tuple[Shape, ...]:  # noqa: ARG002 - those that are not sampled have none
        """Return the shapes of one-hot vectors of which a value may show its bit, or none."""
        asked, others = self.num_bits, self.domain_size - self.num_bits
        both_asked = (Shape(0, 1, 1, asked - 2),) if asked > 1 else ()
        one_asked = (Shape(0, 1, 0, asked - 1), Shape(0, 0, 1, asked - 1)) if others else ()
        return both_asked + one_asked + ((Shape(0, 0, 0, asked),) if others > 1 else ())

    @property
    def differences(self) -> Differences:
        """Two sampled values differ in two bits; if one value alone is sampled, in its own."""
        return ((1, 1),) if self.sampled_bits > 1 else ((1, 0), (0, 1))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Return the distance from the cohort to the value that each bit stands for."""
        if self.sampled_bits == self.domain_size:
            return tuple(range(self.domain_size))
        family = OverstoryV1(b"d-bit flip")
        return tuple(sorted(family.positions(b"offsets", 0, self.domain_size, self.sampled_bits)))

    @cached_property
    def places(self) -> dict[int, int]:
        """Return the bit that stands for each sampled distance."""
        return {offset: bit for bit, offset in enumerate(self.offsets)}

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:
        """Return the value's bit, or nothing where it is not sampled."""
        distance = (check_symbol(value, self.domain_size) - cohort) % self.domain_size
        return (self.places[distance],) if distance in self.places else ()

    def canonical(self) -> dict[str, Any]:
        return {"encoding": "sampled-bits", "domain_size": self.domain_size, "sampled_bits": self.sampled_bits}
