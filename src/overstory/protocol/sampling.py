"""Where random bits come from, and how a probability becomes a bit or a symbol exactly.

The rule, the same on a device and in the bulk kernels (docs/explanation/laws.md): a bit compares its own
uniform 32-bit number U with a threshold, and is 1 when ``U < threshold``. Digit j of all the U's of a bit vector is
one random word, so a vector of any length costs one word per digit, and digits below the threshold's last set one
cost nothing.

A device's permanent response is derived from its secret whenever it is needed, so no file has to hold a value to find
it again, and a crash, a restart or a second process cannot draw it twice (RAPPOR, section 2, asks for it to be
memoized; drawing it again would let an observer average the noise away).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar, Final, Protocol

from overstory.protocol.channels import ONE, THRESHOLD_BITS, BinaryChannel, SymbolChannel
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
        if count & 7:
            return _as_integer(_from_system((count + 7) >> 3)) >> (-count & 7)
        return _as_integer(_from_system(count >> 3))


MIN_SECRET: Final = 16  # bytes that a device's secret has at least


def check_secret(secret: bytes) -> bytes:
    """Return `secret`, or raise ParameterError when it is too short to be one."""
    if not isinstance(secret, bytes):
        raise ParameterError(f"a device secret is bytes, at least {MIN_SECRET}, not {type(secret).__name__}")
    if len(secret) < MIN_SECRET:
        raise ParameterError(f"a device secret has at least {MIN_SECRET} bytes; this one has {len(secret)}")
    return secret if len(secret) <= 64 else hashlib.blake2b(secret).digest()


def context(*parts: bytes | str | int) -> bytes:
    """Join `parts` so that different parts never give the same bytes: each is preceded by its kind and length."""
    out = bytearray()
    for part in parts:
        if isinstance(part, int):
            raw, kind = str(part).encode(), b"i"
        elif isinstance(part, str):
            raw, kind = part.encode("utf-8", "surrogatepass"), b"s"
        else:
            raw, kind = part, b"b"
        out += kind + len(raw).to_bytes(8, "little") + raw
    return bytes(out)


class KeyedEntropy:
    """A stream of bits that is a pseudo-random function of a key and a context (keyed BLAKE2b in counter mode)."""

    __slots__ = ("_buffer", "_counter", "_hash", "_held")

    def __init__(self, key: bytes, context: bytes = b"", *, purpose: bytes = b"overstory") -> None:
        if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ParameterError(f"a key has 1 to 64 bytes; this one has {len(key)}")
        self._hash = hashlib.blake2b(context, key=key, person=purpose)
        self._counter = self._buffer = self._held = 0

    def bits_about(self, topic: bytes, count: int) -> int:
        """Return the first `count` bits of the stream of this context and `topic`; it leaves this stream alone."""
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
    """Repeatable randomness for experiments and known-answer vectors; never for a person's report."""

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


# `Entropy.bits` of some source, bound once: a call less for every report.
RandomBits = Callable[[int], int]
# From bits and a source of randomness to bits.
Draw = Callable[[int, RandomBits], int]


def channel_digits(channel: BinaryChannel) -> tuple[tuple[bool, bool], ...]:
    """Return the digits of both thresholds of a channel, keep_one's and raise_zero's, one pair for each random word.

    From the last digit up, ``U < t``: where t has a 1, U is below it if U has a 0 there, or if what follows is below;
    where t has a 0, only if U has a 0 there and what follows is below. Trailing zeros of t need no word.
    """
    keep, raised = channel.thresholds
    both = (keep | raised) % ONE
    spare = (both & -both).bit_length() - 1 if both else THRESHOLD_BITS
    return tuple((bool(keep >> i & 1), bool(raised >> i & 1)) for i in range(spare, THRESHOLD_BITS))


@lru_cache(maxsize=256)
def bit_sampler(channel: BinaryChannel, num_bits: int) -> Draw:
    """Return the function ``(bits & U < keep_one) | (~bits & U < raise_zero)`` of bits, with a fresh U for each."""
    digits = channel_digits(channel)
    mask, count = (1 << num_bits) - 1, num_bits * len(digits)
    (first_keep, first_raised), *others = digits or ((False, False),)
    rest = tuple(others)
    keep_always, raise_always = (threshold == ONE for threshold in channel.thresholds)

    def draw(bits: int, random_bits: RandomBits) -> int:
        # `ones` and `zeros` are the complements of U < keep_one and U < raise_zero, for negative integers are slow;
        # above bit num_bits they hold what is left of the pool. The last digit's word lies lowest in the pool.
        pool = random_bits(count)
        ones = pool if first_keep else mask
        zeros = pool if first_raised else mask
        for keep, raised in rest:
            pool >>= num_bits
            ones = ones & pool if keep else ones | pool
            zeros = zeros & pool if raised else zeros | pool
        if keep_always:
            ones = 0
        if raise_always:
            zeros = 0
        return (zeros ^ (bits & (ones ^ zeros))) & mask ^ mask

    return draw


def symbol_sampler(channel: SymbolChannel) -> Draw:
    """Return the function (symbol, random_bits) -> symbol of a channel with alpha on the 2**-32 grid."""
    scaled = channel.alpha * ONE
    if scaled.denominator != 1:
        raise ParameterError("this channel is not on the 2**-32 grid: draw the rounds it is composed of")
    threshold, size = int(scaled), channel.domain_size
    width = (size - 1).bit_length()

    def draw(symbol: int, random_bits: RandomBits) -> int:
        if threshold == ONE or random_bits(32) < threshold:
            return symbol
        while (drawn := random_bits(width)) >= size:
            pass
        return drawn

    return draw


# From a value and its true bits to the device's permanent response.
Responder = Callable[[bytes, int], int]


def halves(f: Fraction) -> BinaryChannel:
    """RAPPOR's permanent round: 1 with probability f/2, 0 with f/2, unchanged with 1 - f (section 2, step 2)."""
    return BinaryChannel.of(1 - f / 2, f / 2)


class Permanence:
    """How a device derives permanent responses from its secret: a keyed BLAKE2b stream of the context."""

    by_bits: ClassVar[bool] = False  # whether two values with the same true bits share one response

    @staticmethod
    def channel(f: Fraction) -> BinaryChannel:
        return halves(f)

    def responder(self, channel: BinaryChannel, num_bits: int, secret: bytes, about: bytes) -> Responder:
        """Return the function from (value, true bits) to the permanent response, in the context `about`."""
        draw = bit_sampler(channel, num_bits)
        bits_about = KeyedEntropy(check_secret(secret), about, purpose=b"permanent").bits_about

        def respond(value: bytes, bits: int) -> int:
            return draw(bits, partial(bits_about, value))

        return respond


class GooglePermanence(Permanence):
    """The permanent round of Google's public Python client: one HMAC-SHA256 of the filter, a byte per bit.

    A byte's lowest bit is the uniform bit, its upper seven say whether it replaces the true one: f is rounded up
    to a multiple of 1/128. The HMAC's key is derived for each context: with one key, two metrics would share their
    noise, and two responses with shared noise give bits away (test_law4_permanence).
    """

    by_bits = True
    max_bits: Final = 32  # the digest has 32 bytes

    @staticmethod
    def channel(f: Fraction) -> BinaryChannel:
        """Return the channel of ``ceil(128 f) / 128``, the f that this derivation really uses."""
        return halves(Fraction(math.ceil(f * 128), 128))

    def responder(self, channel: BinaryChannel, num_bits: int, secret: bytes, about: bytes) -> Responder:
        """Return the function to ``(bits and not noise) or (uniform and noise)``."""
        key = hashlib.blake2b(about, key=check_secret(secret), digest_size=32, person=b"google response").digest()
        return google_response(channel, num_bits, key)


class GoogleClientPermanence(GooglePermanence):
    """Google's client to the letter: the secret is the key. For files and known answers, never on a device."""

    def responder(self, channel: BinaryChannel, num_bits: int, secret: bytes, about: bytes) -> Responder:  # noqa: ARG002
        return google_response(channel, num_bits, secret)


def google_response(channel: BinaryChannel, num_bits: int, key: bytes) -> Responder:
    """Return Google's function of the true bits under a key."""
    import hmac  # which loads OpenSSL, and no other device needs it

    replaced = int(2 * channel.raise_zero * 128)

    def respond(value: bytes, bits: int) -> int:  # noqa: ARG001 - the filter alone decides
        uniform = noise = 0
        for i, byte in enumerate(hmac.digest(key, bits.to_bytes(4, "big"), hashlib.sha256)[:num_bits]):
            uniform |= (byte & 1) << i
            noise |= (byte >> 1 < replaced) << i
        return (bits & ~noise) | (uniform & noise)

    return respond
