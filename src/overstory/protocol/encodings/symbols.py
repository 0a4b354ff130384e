"""Encodings into a symbol: the value itself, its hash, or its sign in a row of a public matrix.

The cohort is public randomness: a hash function's seed or a matrix row's number. It belongs to the device, follows
from its secret, and travels with every report; privacy does not depend on how it is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final

from overstory.protocol.encodings.base import (
    MAX_SYMBOLS,
    SEEDS,
    Meeting,
    SymbolEncoding,
    check_count,
    check_symbol,
)
from overstory.protocol.errors import ParameterError

_MASK32: Final = (1 << 32) - 1
MAX_HASH_BITS: Final = 12  # of a linear hash: a report adds a sign at each of its 2**m points


@dataclass(frozen=True)
class Direct(SymbolEncoding):
    """The value is the symbol (direct encoding, GRR)."""

    domain_size: int

    server: ClassVar[str] = "analysis.support.symbols:DirectSupport"
    direct: ClassVar[bool] = True
    pairable: ClassVar[bool] = True
    guessed_exactly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_SYMBOLS)

    @property
    def num_symbols(self) -> int:
        return self.domain_size

    num_cohorts: ClassVar[int] = 1

    @property
    def meeting(self) -> Meeting:
        """Every value owns its symbol alone."""
        return Meeting(self.domain_size, 1, 0, self.domain_size, 1)

    @property
    def collision(self) -> Fraction:
        """Different values are different symbols."""
        return Fraction(0)

    def symbol(self, value: Any, cohort: int) -> int:  # noqa: ARG002 - nothing is public
        return check_symbol(value, self.domain_size)

    def canonical(self) -> dict[str, Any]:
        return {"encoding": "direct", "domain_size": self.domain_size}


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
    from overstory.protocol.encodings.hashing import OverstoryV1

    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not isinstance(raw, bytes):
        raise ParameterError(f"a hashing oracle without a domain takes a string or bytes, not {type(value).__name__}")
    return OverstoryV1(key.encode()).digest(raw)


def hash_word(word: int, seed: int) -> int:
    """Return 32 bits of a value's 64-bit word under a seed, the upper ones well mixed; the kernels compute the same.

    Two multiplications: what 10**10 (report, value) pairs can afford in a second.
    """
    low, high = word & _MASK32, word >> 32
    mixed = low ^ mix32(seed)
    mixed = (mixed ^ (mixed >> 16)) * 0x21F0AAAD + high & _MASK32
    return (mixed ^ (mixed >> 15)) * 0x735A2D97 & _MASK32


@dataclass(frozen=True)
class HadamardRow(SymbolEncoding):
    """The value's sign in a row of the Hadamard matrix: symbol 0 is +1, symbol 1 is -1.

    Rows of different values are orthogonal: they agree in exactly half of the columns.
    """

    domain_size: int
    server: ClassVar[str] = "analysis.support.symbols:HadamardSupport"

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_SYMBOLS)

    @property
    def num_symbols(self) -> int:
        return 2

    @property
    def num_cohorts(self) -> int:
        """The matrix's order: the next power of two."""
        return 1 << (self.domain_size - 1).bit_length()

    def symbol(self, value: Any, cohort: int) -> int:
        """Return the parity of ``value & cohort`` (Sylvester's construction)."""
        return (check_symbol(value, self.domain_size) & cohort).bit_count() & 1

    def canonical(self) -> dict[str, Any]:
        return {"encoding": "hadamard", "domain_size": self.domain_size}


@lru_cache(maxsize=1024)
def matrix_rows(seed: int, num_bits: int, hash_bits: int) -> tuple[int, ...]:
    """Return the matrix of a seed: `hash_bits` masks of `num_bits` bits, from SplitMix64."""
    from overstory.protocol.encodings.hashing import GOLDEN, MASK64, mix64

    return tuple(mix64(((seed << 8 | row) + 1) * GOLDEN & MASK64) >> (64 - num_bits) for row in range(hash_bits))


@dataclass(frozen=True)
class LinearHash(SymbolEncoding):
    """The value's bits times the seed's matrix, modulo 2: ``hash(v) = A v``, A being m x b.

    Two different values share a symbol for one matrix in ``2**m``, exactly, if matrices are uniform. The values that a
    report supports are an affine subspace, so all values are counted by one fast transform
    (`overstory.kernels.symbols.transforms`).
    """

    domain_size: int  # at most 2**64; a value has b = ceil(log2 domain_size) bits
    hash_bits: int  # m: there are 2**m symbols
    server: ClassVar[str] = "analysis.support.symbols:LinearSupport"

    linear: ClassVar[bool] = True

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
