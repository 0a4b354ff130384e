"""Where random bits come from, and how a probability becomes a bit exactly.

The rule, the same on a device and in the bulk kernels (docs/explanation/architecture.md): a bit compares its own
uniform 32-bit number U with a threshold, and is 1 when ``U < threshold``. Digit j of all the U's of a bit vector is
one random word, so a vector of any length costs one word per digit, and digits below the threshold's last set one
cost nothing.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

from overstory.protocol.errors import ParameterError

_from_system = os.urandom
_as_integer = int.from_bytes


class Entropy(Protocol):
    """A source of uniform, independent bits."""

    def bits(self, count: int) -> int:
        """Return `count` fresh uniform bits as an integer in ``0 .. 2**count - 1``."""
        ...


class SystemEntropy:
    """The operating system's randomness: what a device's secret is drawn from, and reports outside of a client."""

    __slots__ = ()

    def bits(self, count: int) -> int:
        """Return `count` fresh uniform bits."""
        if count & 7:
            return _as_integer(_from_system((count + 7) >> 3)) >> (-count & 7)
        return _as_integer(_from_system(count >> 3))


class KeyedEntropy:
    """A stream of bits that is a pseudo-random function of a key and a context (keyed BLAKE2b in counter mode).

    The same key and context always give the same bits; any other context gives independent ones. It carries a
    device's permanent responses and its reports (key: the metric's) and, with a seed for key, repeatable experiments.

    Parameters
    ----------
    key
        1 to 64 bytes.
    context
        What the bits are for; encode it injectively (`overstory.protocol.canonical.context`).
    purpose
        At most 16 bytes: separates the domains of different uses of one key.

    Examples
    --------
    >>> KeyedEntropy(b"key", b"a").bits(64) == KeyedEntropy(b"key", b"a").bits(64)
    True
    """

    __slots__ = ("_buffer", "_counter", "_hash", "_held")

    def __init__(self, key: bytes, context: bytes = b"", *, purpose: bytes = b"overstory") -> None:
        if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ParameterError(f"a key has 1 to 64 bytes; this one has {len(key)}")
        self._hash = hashlib.blake2b(context, key=key, person=purpose)
        self._counter = self._buffer = self._held = 0

    def bits_about(self, topic: bytes, count: int) -> int:
        """Return the first `count` bits of the stream of this context and `topic`; it leaves this stream alone.

        Streams of different topics are independent.
        """
        state = self._hash.copy()
        state.update(len(topic).to_bytes(9, "little") + topic)
        drawn = 0
        for block in range((count + 511) >> 9):
            counted = state.copy()
            counted.update(block.to_bytes(8, "little"))
            drawn |= _as_integer(counted.digest(), "little") << (block << 9)
        return drawn & ((1 << count) - 1)

    def about(self, topic: bytes) -> KeyedEntropy:
        """Return the stream of this context and `topic`, whose first bits `bits_about` gives."""
        stream = object.__new__(KeyedEntropy)
        stream._hash = self._hash.copy()
        stream._hash.update(len(topic).to_bytes(9, "little") + topic)
        stream._counter = stream._buffer = stream._held = 0
        return stream

    def bits(self, count: int) -> int:
        """Return the stream's next `count` bits."""
        while self._held < count:
            block = self._hash.copy()
            block.update(self._counter.to_bytes(8, "little"))
            self._buffer |= _as_integer(block.digest(), "little") << self._held
            self._counter += 1
            self._held += 512
        taken = self._buffer & ((1 << count) - 1)
        self._buffer >>= count
        self._held -= count
        return taken


class SeededEntropy(KeyedEntropy):
    """Repeatable randomness for experiments and known-answer vectors; never for a person's report.

    Examples
    --------
    >>> SeededEntropy(1).bits(32) == SeededEntropy(1).bits(32)
    True
    """

    __slots__ = ()

    def __init__(self, seed: int | str) -> None:
        super().__init__(b"overstory experiment", repr(seed).encode(), purpose=b"seed")


def uniform_below(bound: int, entropy: Entropy) -> int:
    """Return an exactly uniform integer in ``0 .. bound - 1``, by rejection."""
    if bound < 1:
        raise ParameterError(f"no integer lies in 0 .. {bound - 1}: the bound must be at least 1")
    width = (bound - 1).bit_length()
    while (drawn := entropy.bits(width) if width else 0) >= bound:
        pass
    return drawn
