"""A hashing oracle whose hash is linear, so that whole blocks of values are counted by one fast transform.

With ``hash(v) = A v`` over the bits, A an m x b matrix that follows from the report's public seed, the values that a
report supports are an affine subspace, and its indicator is a sum of ``2**m`` Walsh functions. Adding up those of all
reports and transforming once gives the support of every value (`overstory.kernels.symbols.linear_hash`): n 2**m + d log
d operations instead of OLH's n d. The randomizer is OLH's, on 2**m symbols; only the hash family is another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from overstory.protocol.channels import SymbolChannel
from overstory.protocol.encodings.base import SEEDS, check_count
from overstory.protocol.encodings.hashing import GOLDEN, MASK64, mix64
from overstory.protocol.encodings.symbols import BaseSymbols
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.calibration import check_epsilon
from overstory.protocol.mechanisms.payloads import SymbolMechanism
from overstory.protocol.sampling import SymbolRounds

MAX_HASH_BITS: Final = 12


@lru_cache(maxsize=1024)
def rows(seed: int, num_bits: int, hash_bits: int) -> tuple[int, ...]:
    """Return the matrix of a seed: `hash_bits` masks of `num_bits` bits, from SplitMix64."""
    return tuple(mix64(((seed << 8 | row) + 1) * GOLDEN & MASK64) >> (64 - num_bits) for row in range(hash_bits))


@dataclass(frozen=True)
class LinearHash(BaseSymbols):
    """The value's bits times the seed's matrix, modulo 2.

    Two different values share a symbol for one matrix in ``2**hash_bits``, exactly, if matrices are uniform.

    Parameters
    ----------
    num_bits
        Values are integers below ``2**num_bits``; at most 64.
    hash_bits
        m: there are ``2**m`` symbols.

    Examples
    --------
    >>> encoding = LinearHash(16, 3)
    >>> encoding.symbol(5 ^ 9, 77) == encoding.symbol(5, 77) ^ encoding.symbol(9, 77)
    True
    """

    num_bits: int
    hash_bits: int

    def __post_init__(self) -> None:
        check_count("num_bits", self.num_bits, 1, 64)
        check_count("hash_bits", self.hash_bits, 1, MAX_HASH_BITS)

    @property
    def domain_size(self) -> int:
        """How many values there are."""
        return 1 << self.num_bits

    @property
    def num_symbols(self) -> int:
        """The hash's range."""
        return 1 << self.hash_bits

    @property
    def num_cohorts(self) -> int:
        """One matrix per seed."""
        return SEEDS

    @property
    def collision(self) -> Fraction:
        """One seed in ``2**hash_bits``."""
        return Fraction(1, self.num_symbols)

    def symbol(self, value: Any, cohort: int) -> int:
        """Return the value's hash under the seed `cohort`."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < self.domain_size:
            raise ParameterError(f"{value!r} is outside the domain 0 .. 2**{self.num_bits} - 1")
        masks = rows(cohort, self.num_bits, self.hash_bits)
        return sum(((mask & value).bit_count() & 1) << row for row, mask in enumerate(masks))

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"encoding": "linear-hash", "num_bits": self.num_bits, "hash_bits": self.hash_bits}


def best_hash_bits(epsilon: float) -> int:
    """Return the m of least variance (E - 1 + g)^2 / ((E - 1)^2 (g - 1)), g = 2**m.

    Examples
    --------
    >>> [best_hash_bits(epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0)]
    [1, 2, 3, 6]
    """
    gain = math.expm1(min(check_epsilon("epsilon", epsilon), 20.0))

    def variance(bits: int) -> float:
        size = 1 << bits
        return (gain + size) ** 2 / (gain**2 * (size - 1))

    return min(range(1, MAX_HASH_BITS + 1), key=variance)


def linear_hash(*, num_bits: int, epsilon: float, hash_bits: int | None = None) -> SymbolMechanism:
    """Local hashing by a random linear map: the variance of OLH, decoded by a fast transform.

    Parameters
    ----------
    num_bits
        Values are integers below ``2**num_bits``.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017
    (local hashing); Bassily, Nissim, Stemmer, Thakurta, "Practical locally private heavy hitters", NeurIPS 2017
    (the Hadamard transform in place of a scan).
    """
    parameters = dict(locals())
    encoding = LinearHash(num_bits, best_hash_bits(epsilon) if hash_bits is None else hash_bits)
    channel = SymbolChannel.of(encoding.num_symbols, epsilon=check_epsilon("epsilon", epsilon))
    unchanged = SymbolChannel(encoding.num_symbols, Fraction(1))
    return SymbolMechanism("linear-hash", parameters, encoding, SymbolRounds(channel, unchanged))
