"""What one group of devices is asked about its value, and through which mechanism it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from overstory.protocol.encodings.base import SEEDS
from overstory.protocol.encodings.bits import Bloom, SampledBits
from overstory.protocol.encodings.hashing import OverstoryV1
from overstory.protocol.encodings.seeds import BalancedHash, SeededHash
from overstory.protocol.encodings.symbols import LinearHash
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.registry import mechanism as build_mechanism

BUCKETS: Final = 1 << 20
KEYED: Final = ("olh", "blh", "random-matrix")

OracleChoice = str | Callable[[float, int, str], Mechanism]
"""A registry name, or a function (epsilon, domain size, key) -> mechanism."""

ELSEWHERE: Final = b""
"""What stands for a value that the question is not about: shorter than any prefix."""


def build(oracle: OracleChoice, epsilon: float, domain_size: int, key: str) -> Mechanism:
    """Return the mechanism of that name at `epsilon`.

    OLH, BLH and the random matrix hash any bytes, each report under a seed of its own, so that a test is exact for any
    candidate: a device answers once. "linear-hash" takes 64-bit words; every other oracle works on a
    domain of `domain_size` symbols.
    """
    if callable(oracle):
        made = oracle(epsilon, domain_size, key)
    elif oracle in KEYED:
        made = build_mechanism(oracle, epsilon=epsilon, hash_key=key, num_seeds=SEEDS)
    elif oracle == "linear-hash":
        made = build_mechanism(oracle, epsilon=epsilon, domain_size=1 << 64)
    else:
        made = build_mechanism(oracle, epsilon=epsilon, domain_size=domain_size)
    if isinstance(made.encoding, Bloom | SampledBits | BalancedHash | SeededHash):
        raise ParameterError(f"{made.name} cannot search: its reports do not speak of every value; take another oracle")
    return made


def symbols_for(num_bits: int) -> int:
    """Return how many symbols stand for prefixes of `num_bits` bits and for "elsewhere", hashed where they are many."""
    return (1 << num_bits) + 1 if 1 << num_bits < BUCKETS else BUCKETS


def prefix_bytes(code: int, width: int, num_bits: int) -> bytes:
    """Return the first `num_bits` bits of a code of `width` bits: whole bytes, the last filled up with zeros.

    Examples
    --------
    >>> prefix_bytes(0xABCD, 16, 12).hex(), prefix_bytes(0xABC, 12, 12).hex()
    ('abc0', 'abc0')
    """
    return (code >> (width - num_bits) << (-num_bits % 8)).to_bytes(-(-num_bits // 8), "big")


def bucket(raw: bytes, key: str, buckets: int) -> int:
    """Return the bucket that a public keyed hash puts `raw` in."""
    return hashed_by(key).digest(raw) * buckets >> 64


def hashed_by(key: str) -> OverstoryV1:
    """Return the hash of a public key."""
    if not isinstance(key, str):
        raise ParameterError(f"key = {key!r}: give text, the metric's id")
    return OverstoryV1(key.encode())


@dataclass(frozen=True)
class Question:
    """The first `num_bits` bits of the value's code.

    Parameters
    ----------
    name
        Said in traces; a device's permanent responses to two names are independent.
    key
        Public key of the hash that the mechanism's own symbols come from, where it needs one.
    """

    name: str
    width: int
    num_bits: int
    step: int
    mechanism: Mechanism
    key: str = ""

    def __post_init__(self) -> None:
        hashed_by(self.key)

    def value(self, code: int | None) -> bytes | int:
        """Return what the mechanism is given for a code; None is "elsewhere"."""
        return self.name_of(ELSEWHERE if code is None else prefix_bytes(code, self.width, self.num_bits))

    def name_of(self, raw: bytes) -> bytes | int:
        """Return what the mechanism is given for a prefix's bytes."""
        if self.domain_size is None:
            return raw
        if self.is_linear:
            return self._word(raw)
        if self.domain_size > 1 << self.num_bits:
            return int.from_bytes(raw, "big") >> (-self.num_bits % 8) if raw else 1 << self.num_bits
        return bucket(raw, self.key, self.domain_size)

    @property
    def domain_size(self) -> int | None:
        """How many symbols the mechanism knows; None when it takes bytes."""
        size: int | None = getattr(self.mechanism.encoding, "domain_size", None)
        return size

    @property
    def is_linear(self) -> bool:
        """Whether extensions of one prefix can be counted by one transform."""
        return isinstance(self.mechanism.encoding, LinearHash)

    def parent_word(self, parent: bytes) -> int:
        """Return the word of a prefix `step` bits shorter: its digest, the lowest `step` bits zero."""
        return hashed_by(self.key).digest(b"prefix" + parent) >> self.step << self.step

    def _word(self, raw: bytes) -> int:
        """Return the digest of all but the last `step` bits, and those bits."""
        if not raw:
            return hashed_by(self.key).digest(b"elsewhere")
        prefix = int.from_bytes(raw, "big") >> (-self.num_bits % 8)
        before = self.num_bits - self.step
        parent = prefix_bytes(prefix >> self.step, before, before)
        return self.parent_word(parent) | prefix & ((1 << self.step) - 1)


@dataclass(frozen=True)
class BitQuestion:
    """The value's bucket, and one bit of its code: the lecture's pair (h(x), x[l]).

    Parameters
    ----------
    bit
        l, from 0 for the most significant.
    mechanism
        Answers symbols ``2 h(x) + x[l]``.
    key
        Public key of h; the same for all bits.
    """

    name: str
    width: int
    bit: int
    buckets: int
    mechanism: Mechanism
    key: str = ""

    def __post_init__(self) -> None:
        hashed_by(self.key)

    @cached_property
    def shift(self) -> int:
        """How far the bit lies from the code's end."""
        return self.width - 1 - self.bit

    def value(self, code: int | None) -> int:
        """Return the pair as one number."""
        if code is None:
            raise ParameterError("a bit of no value was asked for")
        raw = prefix_bytes(code, self.width, self.width)
        return 2 * bucket(raw, self.key, self.buckets) + (code >> self.shift & 1)
