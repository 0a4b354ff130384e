"""Encodings: from a value to the bits that the channels randomize."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

from overstory.protocol.channels import Differences
from overstory.protocol.errors import ParameterError
from overstory.protocol.hashing import HashFamily, hash_family

MAX_COHORTS = 1 << 16  # that are counted apart; they travel as 16 bits
DEFAULT_SEEDS = 256  # of a hashing oracle's small public set: of a million devices about 3,900 share each
SEEDS = 1 << 31  # public seeds and matrix rows, which are not; they travel as 32 bits
MAX_SYMBOLS = 1 << 31
MAX_BITS = (1 << 16) - 1  # so does the number of bits


class Encoding(Protocol):
    """A deterministic map from (value, cohort) to a vector of bits."""

    @property
    def num_bits(self) -> int:
        """Length of the vector."""
        ...

    @property
    def num_cohorts(self) -> int:
        """How many ways of encoding a value there are; a device belongs to one for ever."""
        ...

    @property
    def differences(self) -> Differences:
        """Worst pairs (ones lowered, zeros raised) between two values' vectors: what privacy depends on."""
        ...

    @property
    def nothing(self) -> int:
        """The bits of no value: no further from any value's than `differences` says."""
        ...

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:
        """Return the positions that `value` sets, possibly with repetitions."""
        ...

    def canonical(self) -> dict[str, Any]:
        """Return the parameters that a report's meaning depends on, as JSON values."""
        ...


def encode(encoding: Encoding, value: Any, cohort: int) -> int:
    """Return the bits of `value` as an integer, bit i of the vector being bit i of the integer.

    Raises
    ------
    ParameterError
        When the value is outside the domain or the cohort does not exist.

    Examples
    --------
    >>> bin(encode(OneHot(4), 2, 0))
    '0b100'
    """
    check_cohort(cohort, encoding.num_cohorts)
    return bits_at(encoding.positions(value, cohort))


def bits_at(positions: Iterable[int]) -> int:
    """Return the integer whose bits at `positions` are 1."""
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits


def whole_number(value: Any) -> Any:
    """Return an integer of any library, such as NumPy's, as Python's own; anything else, and a boolean, as it is.

    Examples
    --------
    >>> whole_number(3), whole_number(3.0), whole_number(True)
    (3, 3.0, True)
    """
    if isinstance(value, bool):
        return value
    try:
        return index(value)
    except TypeError:
        return value


def check_cohort(cohort: int, num_cohorts: int) -> None:
    """Raise ParameterError unless `cohort` is in ``0 .. num_cohorts - 1``."""
    if not isinstance(cohort, int) or isinstance(cohort, bool) or not 0 <= cohort < num_cohorts:
        raise ParameterError(f"cohort {cohort!r} does not exist: cohorts are 0 .. {num_cohorts - 1}")


def check_count(name: str, value: Any, low: int, high: int) -> None:
    """Raise ParameterError unless `value` is an integer in ``low .. high``."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        whole = isinstance(value, float) and value.is_integer()
        advice = f", {int(value)} instead of {value!r}" if whole and low <= value <= high else ""
        raise ParameterError(f"{name} = {value!r}: give a whole number from {low} to {high}{advice}")


def check_symbol(value: Any, domain_size: int) -> int:
    """Return `value` as an int, or raise ParameterError unless it is a symbol of ``0 .. domain_size - 1``."""
    given = value if type(value) is int else whole_number(value)
    if type(given) is not int or not 0 <= given < domain_size:
        raise ParameterError(f"symbol {value!r} is outside the domain 0 .. {domain_size - 1}")
    return given


@dataclass(frozen=True)
class OneHot:
    """Symbol s of ``0 .. domain_size - 1`` sets bit s alone ("Basic RAPPOR", unary encoding).

    Raises
    ------
    ParameterError
        When the domain has fewer than two values.
    """

    domain_size: int

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_BITS)

    @property
    def num_bits(self) -> int:
        """One bit per symbol."""
        return self.domain_size

    @property
    def num_cohorts(self) -> int:
        """All devices encode alike."""
        return 1

    @property
    def differences(self) -> Differences:
        """Another symbol lowers one bit and raises one."""
        return ((1, 1),)

    @property
    def nothing(self) -> int:
        """No bit: every value differs from that in one."""
        return 0

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:  # noqa: ARG002 - one cohort encodes as any
        """Return the symbol itself."""
        return (check_symbol(value, self.domain_size),)

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"encoding": "one-hot", "domain_size": self.domain_size}


@dataclass(frozen=True)
class Bloom:
    """A string sets `num_hashes` of `num_bits` bits, other ones in every cohort (RAPPOR, section 2).

    Parameters
    ----------
    num_bits, num_hashes, num_cohorts
        RAPPOR's k, h and m.
    family, hash_key
        The hash family's name, and its public key where it takes one.

    Raises
    ------
    ParameterError
        When a size is out of range, the hashes do not fit the filter, or the family does not exist.

    Examples
    --------
    >>> Bloom(128, 2, 16).differences
    ((2, 2),)
    """

    num_bits: int
    num_hashes: int
    num_cohorts: int
    family: str = "overstory-v1"
    hash_key: str = ""

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
        """The hash family."""
        family: HashFamily = self.__dict__["_family"]
        return family

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
        """Return the parameters."""
        return {
            "encoding": "bloom",
            "num_bits": self.num_bits,
            "num_hashes": self.num_hashes,
            "num_cohorts": self.num_cohorts,
            "hash_family": self.family,
            "hash_key": self.hash_key,
        }
