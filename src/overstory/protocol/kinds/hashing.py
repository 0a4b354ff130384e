"""Hash families: which bits of a Bloom filter a string sets in a cohort. Named and versioned.

A family is part of what was collected: a collection is read with the family that its devices used, so a family is
never changed, only joined by another.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Final

from overstory.protocol.errors import ParameterError

MASK64: Final = (1 << 64) - 1
GOLDEN: Final = 0x9E3779B97F4A7C15


def mix64(word: int) -> int:
    """Finalize a 64-bit word (Stafford's variant 13, as in SplitMix64): a bijection with full avalanche."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK64
    return word ^ (word >> 31)


@lru_cache(maxsize=4096)
def _cohort_offset(cohort: int) -> int:
    return mix64((cohort + 1) * GOLDEN & MASK64)


@dataclass(frozen=True)
class OverstoryV1:
    """The project's family: a keyed digest per value, a 64-bit mix per (cohort, hash), distinct positions (Floyd)."""

    key: bytes = b""

    name: ClassVar[str] = "overstory-v1"
    max_hashes: ClassVar[int] = 1 << 15
    max_bits: ClassVar[int] = (1 << 16) - 1  # a filter's size travels as 16 bits
    distinct: ClassVar[bool] = True  # the positions of one value never coincide
    person: ClassVar[bytes] = b"overstory-v1"

    def __post_init__(self) -> None:
        if len(self.key) > 64:
            raise ParameterError(f"a hash key has at most 64 bytes; this one has {len(self.key)}")

    def __reduce__(self) -> tuple[type[OverstoryV1], tuple[bytes]]:
        """Travel to another process without the hash's running state."""
        return OverstoryV1, (self.key,)

    @cached_property
    def _keyed(self) -> hashlib.blake2b:
        return hashlib.blake2b(digest_size=8, key=self.key, person=self.person)

    def digest(self, value: bytes) -> int:
        state = self._keyed.copy()
        state.update(value)
        return int.from_bytes(state.digest(), "little")

    def positions(self, value: bytes, cohort: int, num_bits: int, num_hashes: int) -> tuple[int, ...]:
        state = mix64(self.digest(value) + _cohort_offset(cohort) & MASK64)
        chosen: list[int] = []
        for last in range(num_bits - num_hashes, num_bits):
            state = state + GOLDEN & MASK64
            drawn = mix64(state) * (last + 1) >> 64
            chosen.append(last if drawn in chosen else drawn)
        return tuple(chosen)


@dataclass(frozen=True)
class GoogleRapporPython:
    """Google's public family: bytes of MD5(cohort, value) modulo the filter's size, some of which may coincide."""

    name: ClassVar[str] = "google-rappor-python"
    max_hashes: ClassVar[int] = 16  # an MD5 digest has 16 bytes
    max_bits: ClassVar[int] = 256  # one byte chooses a bit
    distinct: ClassVar[bool] = False

    @staticmethod
    def digest(value: bytes, cohort: int) -> bytes:
        return hashlib.md5(cohort.to_bytes(4, "big") + value, usedforsecurity=False).digest()

    def positions(self, value: bytes, cohort: int, num_bits: int, num_hashes: int) -> tuple[int, ...]:
        return tuple(byte % num_bits for byte in self.digest(value, cohort)[:num_hashes])


HashFamily = OverstoryV1 | GoogleRapporPython
FAMILIES: Final = (OverstoryV1.name, GoogleRapporPython.name)


def hash_family(name: str, key: str = "") -> HashFamily:
    """Return the family of that name."""
    if not isinstance(key, str):
        raise ParameterError(f"hash_key = {key!r}: give a string of at most 64 bytes")
    if name == OverstoryV1.name:
        return OverstoryV1(key.encode("utf-8", "surrogatepass"))
    if name == GoogleRapporPython.name:
        if key:
            raise ParameterError(f"the hash family {name} takes no key; this one was given: {key!r}")
        return GoogleRapporPython()
    raise ParameterError(f"there is no hash family {name!r}: choose one of {', '.join(FAMILIES)}")
