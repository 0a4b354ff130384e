"""RAPPOR in its four modes (Erlingsson, Pihur, Korolova, CCS 2014, section 2): Bloom filters, and one bit per symbol.

RAPPOR's letters: f is the share of permanent bits that are noise; q and p are P(1|1) and P(1|0) of the
instantaneous round.

Erlingsson, Pihur, Korolova, "RAPPOR: randomized aggregatable privacy-preserving ordinal response", CCS 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, cast

from overstory.protocol.channels import BinaryChannel, Rounds, check_probability
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_COHORTS, Encoding, Kind, Shape, check_count
from overstory.protocol.kinds.bits import BitMechanism, OneHot
from overstory.protocol.kinds.hashing import GoogleRapporPython, HashFamily, hash_family
from overstory.protocol.sampling import GoogleClientPermanence, GooglePermanence, Permanence


@dataclass(frozen=True)
class Bloom(Encoding):
    """A string sets `num_hashes` of `num_bits` bits, other ones in every cohort (RAPPOR, section 2)."""

    num_bits: int
    num_hashes: int
    num_cohorts: int
    family: str = "overstory-v1"
    hash_key: str = ""

    form: ClassVar[tuple[str, str]] = ("encoding", "bloom")
    domain_size: ClassVar[None] = None
    most_values: ClassVar[None] = None
    pure: ClassVar[bool] = False
    server: ClassVar[str] = "analysis.kinds.bits:BloomSupport"
    decoded: ClassVar[bool] = True

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
        """Return h (1 - h/k), and ``1 - M / (k m)`` of it where M candidates are fitted to the k m counts."""
        information = self.num_hashes * (1 - self.num_hashes / self.num_bits)
        rows = self.num_bits * self.num_cohorts
        if num_candidates is None or num_candidates >= rows:
            return information
        return information * (1 - num_candidates / rows)

    @property
    def nothing(self) -> int:
        """No bit, which differs from a filter in at most h ones.

        Where that is more than two filters of h distinct positions differ in (h > k/2): the first h bits, as a filter.
        """
        crowded = self.hashes.distinct and 2 * self.num_hashes > self.num_bits
        return (1 << self.num_hashes) - 1 if crowded else 0

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        if not isinstance(raw, bytes):
            raise ParameterError(f"a Bloom filter takes a string or bytes, not {type(value).__name__}")
        return self.hashes.positions(raw, cohort, self.num_bits, self.num_hashes)


def _overlaps(num_bits: int, first: int, second: int, *, equal_bits: bool) -> Iterator[Shape]:
    """Yield the shapes of the smallest and the largest overlap of so many ones and so many others."""
    fewest, most = max(0, first + second - num_bits), min(first, second)
    if first == second and not equal_bits:
        most -= 1
    for both in sorted({fewest, most}) if fewest <= most else ():
        yield Shape(both, first - both, second - both, num_bits - first - second + both)


def as_googles_client(mechanism: Kind) -> Kind:
    """Return the mechanism with the very permanent round of Google's client, where it has one like it."""
    if not isinstance(getattr(mechanism, "permanence", None), GooglePermanence):
        return mechanism
    return replace(cast("BitMechanism", mechanism), permanence=GoogleClientPermanence())


def rappor(
    *,
    num_bits: int = 128,
    num_hashes: int = 2,
    num_cohorts: int = 16,
    f: float = 0.5,
    p: float = 0.5,
    q: float = 0.75,
    hash_family: str = "overstory-v1",
    hash_key: str = "",
) -> BitMechanism:
    """Full RAPPOR: strings in a Bloom filter, a permanent and an instantaneous round."""
    parameters = dict(locals())
    encoding = Bloom(num_bits, num_hashes, num_cohorts, hash_family, hash_key)
    permanence = _permanence(encoding)
    return _two_rounds("rappor", parameters, encoding, permanence, f, p, q)


def rappor_one_time(
    *,
    num_bits: int = 128,
    num_hashes: int = 2,
    num_cohorts: int = 16,
    f: float | None = None,
    p: float | None = None,
    q: float | None = None,
    hash_family: str = "overstory-v1",
    hash_key: str = "",
) -> BitMechanism:
    """One-time RAPPOR: strings in a Bloom filter, one round, memoized: every report of a value is the same."""
    parameters = dict(locals())
    encoding = Bloom(num_bits, num_hashes, num_cohorts, hash_family, hash_key)
    return _one_round("rappor-one-time", parameters, encoding, f, p, q)


def basic_rappor(*, domain_size: int, f: float = 0.5, p: float = 0.5, q: float = 0.75) -> BitMechanism:
    """Basic RAPPOR: every symbol of a small domain has its own bit (h = 1), two rounds."""
    parameters = dict(locals())
    return _two_rounds("basic-rappor", parameters, OneHot(domain_size), Permanence(), f, p, q)


def basic_rappor_one_time(
    *, domain_size: int, f: float | None = None, p: float | None = None, q: float | None = None
) -> BitMechanism:
    """Basic One-time RAPPOR: a bit per symbol, one memoized round."""
    parameters = dict(locals())
    return _one_round("basic-rappor-one-time", parameters, OneHot(domain_size), f, p, q)


def _two_rounds(
    name: str, parameters: dict[str, Any], encoding: Encoding, permanence: Permanence, f: float, p: float, q: float
) -> BitMechanism:
    for letter, value in (("f", f), ("p", p), ("q", q)):
        check_probability(letter, value)
    return BitMechanism(name, parameters, encoding, _rounds(permanence.channel, f, p, q), permanence)


@lru_cache(maxsize=64, typed=True)
def _rounds(channel: Callable[[Fraction], BinaryChannel], f: float, p: float, q: float) -> Rounds:
    share, instantaneous = Fraction(f), _instantaneous(p, q)
    if share == 1:
        raise ParameterError("f = 1 replaces every permanent bit by noise: nothing can be learned; give f below 1")
    return Rounds(channel(share) if share else BinaryChannel.identity(), instantaneous)


def _one_round(
    name: str, parameters: dict[str, Any], encoding: Encoding, f: float | None, p: float | None, q: float | None
) -> BitMechanism:
    share = None if f is None else check_probability("f", f)
    if p is not None and q is not None and not share:
        channel = _instantaneous(p, q)
    elif p is None and q is None and share is not None:
        if share in (0, 1):
            raise ParameterError(f"f = {f}: one round needs f above 0 (to protect) and below 1 (to learn)")
        channel = Permanence.channel(share)
    else:
        raise ParameterError(f"{name} has one round: give either f, or both p and q")
    return BitMechanism(name, parameters, encoding, Rounds(channel, BinaryChannel.identity()))


def _instantaneous(p: float, q: float) -> BinaryChannel:
    for letter, value in (("p", p), ("q", q)):
        check_probability(letter, value)
    if p == q:
        raise ParameterError(f"p = q = {p}: the report would not depend on the value; give different p and q")
    return BinaryChannel.of(q, p)


def _permanence(encoding: Bloom) -> Permanence:
    """Google's family brings Google's permanent round, where its 32 bytes suffice."""
    if encoding.family != GoogleRapporPython.name:
        return Permanence()
    if encoding.num_bits > GooglePermanence.max_bits:
        raise ParameterError(
            f"{encoding.family}: its permanent round has one byte per bit of a 32-byte digest, so num_bits (k) is "
            f"at most {GooglePermanence.max_bits}, not {encoding.num_bits}; use overstory-v1 for larger filters"
        )
    return GooglePermanence()
