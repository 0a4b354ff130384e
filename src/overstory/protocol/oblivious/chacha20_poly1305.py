"""ChaCha20-Poly1305 (RFC 8439): encryption that shows every change of a message."""

from __future__ import annotations

import hmac
import struct
from typing import Final

from overstory.protocol.errors import ParameterError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
BLOCK: Final = 64
MASK: Final = 0xFFFFFFFF
CONSTANTS: Final = struct.unpack("<4I", b"expand 32-byte k")
PRIME: Final = 2**130 - 5
CLAMP: Final = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
ROUNDS: Final = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)
"""The quarter rounds of a double round: columns, then diagonals."""


def seal(key: bytes, nonce: bytes, message: bytes, about: bytes = b"") -> bytes:
    """Return the encrypted message and its tag; `about` is covered by the tag and not encrypted."""
    _check(key, nonce)
    hidden = _xor(key, nonce, message)
    return hidden + _tag(key, nonce, hidden, about)


def unseal(key: bytes, nonce: bytes, sealed: bytes, about: bytes = b"") -> bytes:
    """Return the message; ParameterError where it was altered, or sealed with another key, nonce or `about`."""
    _check(key, nonce)
    hidden, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(key, nonce, hidden, about)):
        raise ParameterError("the message was altered on its way, or is not for this key")
    return _xor(key, nonce, hidden)


def _check(key: bytes, nonce: bytes) -> None:
    if len(key) != KEY_BYTES or len(nonce) != NONCE_BYTES:
        raise ParameterError(f"give a key of {KEY_BYTES} bytes and a nonce of {NONCE_BYTES}")


def _xor(key: bytes, nonce: bytes, message: bytes) -> bytes:
    """Return the message with ChaCha20's stream from block 1 on."""
    blocks = range(1, -(-len(message) // BLOCK) + 1)
    stream = b"".join(_block(key, counter, nonce) for counter in blocks)[: len(message)]
    return (int.from_bytes(message, "little") ^ int.from_bytes(stream, "little")).to_bytes(len(message), "little")


def _block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """Return one block of the stream (section 2.3)."""
    start = (*CONSTANTS, *struct.unpack("<8I", key), counter, *struct.unpack("<3I", nonce))
    x = list(start)
    for _ in range(10):
        for a, b, c, d in ROUNDS:
            xa, xb, xc, xd = x[a], x[b], x[c], x[d]
            xa = xa + xb & MASK
            xd ^= xa
            xd = (xd << 16 | xd >> 16) & MASK
            xc = xc + xd & MASK
            xb ^= xc
            xb = (xb << 12 | xb >> 20) & MASK
            xa = xa + xb & MASK
            xd ^= xa
            xd = (xd << 8 | xd >> 24) & MASK
            xc = xc + xd & MASK
            xb ^= xc
            xb = (xb << 7 | xb >> 25) & MASK
            x[a], x[b], x[c], x[d] = xa, xb, xc, xd
    return struct.pack("<16I", *(word + first & MASK for word, first in zip(x, start, strict=True)))


def _tag(key: bytes, nonce: bytes, hidden: bytes, about: bytes) -> bytes:
    """Return Poly1305 of both parts and their lengths, with block 0 of the stream as its key (section 2.8)."""
    once = _block(key, 0, nonce)
    r, s = int.from_bytes(once[:16], "little") & CLAMP, int.from_bytes(once[16:32], "little")
    text = about + bytes(-len(about) % 16) + hidden + bytes(-len(hidden) % 16)
    text += struct.pack("<QQ", len(about), len(hidden))
    total = 0
    for start in range(0, len(text), 16):
        # Each block is a number of 17 bytes whose last is 1.
        total = (total + int.from_bytes(text[start : start + 16], "little") + (1 << 128)) * r % PRIME
    return (total + s & (1 << 128) - 1).to_bytes(TAG_BYTES, "little")
