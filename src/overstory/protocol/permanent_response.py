"""The permanent response: always the same on one device, and independent of any other device's.

It is derived from a device secret whenever it is needed, so no file has to hold a value to find it again, and a crash,
a restart or a second process cannot draw it twice (RAPPOR, section 2, asks for it to be memoized; drawing it again
would let an observer average the noise away).
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final

from overstory.protocol.channels import BinaryChannel
from overstory.protocol.sampling import KeyedEntropy, bit_sampler, check_secret

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
    replaced = int(2 * channel.raise_zero * 128)

    def respond(value: bytes, bits: int) -> int:  # noqa: ARG001 - the filter alone decides
        uniform = noise = 0
        for i, byte in enumerate(hmac.digest(key, bits.to_bytes(4, "big"), hashlib.sha256)[:num_bits]):
            uniform |= (byte & 1) << i
            noise |= (byte >> 1 < replaced) << i
        return (bits & ~noise) | (uniform & noise)

    return respond
