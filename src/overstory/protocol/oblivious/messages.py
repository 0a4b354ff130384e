"""Sealed messages: encapsulated requests and responses (RFC 9458), and the hybrid public key encryption under them.

**HPKE** (RFC 9180), base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305.

**X25519** (RFC 7748) is Diffie-Hellman on the curve y^2 = x^3 + 486662 x^2 + x over GF(2^255 - 19). Whole numbers of
Python do not take the same time for all values. So this is for a private key that is used for one message and then
forgotten, never for a key that lasts.

**ChaCha20-Poly1305** (RFC 8439) is encryption that shows every change of a message.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.oblivious import formats
from overstory.protocol.oblivious.formats import KDF, KEM, KEY_BYTES, KeyConfiguration, read_keys

P: Final = 2**255 - 19
A24: Final = 121665  # (486662 - 2) / 4
BASE: Final = (9).to_bytes(KEY_BYTES, "little")


def public_key(private: bytes) -> bytes:
    """Return the public key of 32 private bytes."""
    return shared_secret(private, BASE)


def shared_secret(private: bytes, public: bytes) -> bytes:
    """Return what the owner of `private` and that of `public` have in common."""
    if len(private) != KEY_BYTES or len(public) != KEY_BYTES:
        raise ParameterError(f"a key of X25519 has {KEY_BYTES} bytes, not {len(private)} and {len(public)}")
    secret = _ladder(_scalar(private), int.from_bytes(public, "little") & ((1 << 255) - 1))
    if not secret:
        raise ParameterError("this public key has a small order: the secret would be zero for any private key")
    return secret.to_bytes(KEY_BYTES, "little")


def _scalar(private: bytes) -> int:
    """Return the private key as a number: a multiple of 8 with bit 254 set."""
    number = int.from_bytes(private, "little")
    return number & ((1 << 254) - 8) | 1 << 254


def _ladder(scalar: int, u: int) -> int:
    """Return the u-coordinate of `scalar` times the point of u (RFC 7748, section 5: the Montgomery ladder)."""
    x1, x2, z2, x3, z3, swapped = u % P, 1, 0, u % P, 1, 0
    for place in range(254, -1, -1):
        bit = scalar >> place & 1
        if swapped != bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swapped = bit
        a, b = x2 + z2, x2 - z2
        aa, bb = a * a % P, b * b % P
        e = aa - bb
        da, cb = (x3 - z3) * a % P, (x3 + z3) * b % P
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + A24 * e) % P
    if swapped:
        x2, z2 = x3, z3
    return x2 * pow(z2, P - 2, P) % P


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


HASH_BYTES: Final = 32
_KEM_SUITE: Final = b"KEM" + KEM.to_bytes(2, "big")


Seal = Callable[[bytes, bytes, bytes, bytes], bytes]
"""From key, nonce, message and what the tag covers besides: the sealed message, or the message."""


class Cipher(NamedTuple):
    """How a message is encrypted: the number of RFC 9180, and how long a key is."""

    number: int
    key_bytes: int
    seal: Seal
    unseal: Seal

    def __repr__(self) -> str:
        return f"Cipher({self.number:#06x})"


CHACHA20_POLY1305: Final = Cipher(formats.CHACHA20, KEY_BYTES, seal, unseal)  # AES needs more than is here


def extract(salt: bytes, secret: bytes) -> bytes:
    """HKDF-Extract (RFC 5869) with SHA-256."""
    return hmac.digest(salt or bytes(HASH_BYTES), secret, "sha256")


def expand(key: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand (RFC 5869) with SHA-256."""
    block, blocks = b"", []
    for counter in range(1, -(-length // HASH_BYTES) + 1):
        block = hmac.digest(key, block + info + bytes([counter]), "sha256")
        blocks.append(block)
    return b"".join(blocks)[:length]


def _labeled_extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return extract(salt, b"HPKE-v1" + suite + label + secret)


def _labeled_expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return expand(key, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, length)


def encapsulated_secret(exchanged: bytes, enc: bytes, recipient: bytes) -> bytes:
    """Return the secret that both sides derive from their exchange (section 4.1)."""
    key = _labeled_extract(_KEM_SUITE, b"", b"eae_prk", exchanged)
    return _labeled_expand(_KEM_SUITE, key, b"shared_secret", enc + recipient, HASH_BYTES)


@dataclass(frozen=True)
class Context:
    """The keys of one message between two sides."""

    cipher: Cipher
    enc: bytes  # the sender's public key for this message
    key: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    exporter: bytes = field(repr=False)

    def seal(self, message: bytes) -> bytes:
        """Return the message sealed: the first of this context, and the only one that it may seal."""
        return self.cipher.seal(self.key, self.nonce, message, b"")

    def unseal(self, sealed: bytes) -> bytes:
        return self.cipher.unseal(self.key, self.nonce, sealed, b"")

    def export(self, label: bytes, length: int) -> bytes:
        """Return further secret bytes that both sides have (section 5.3)."""
        return _labeled_expand(_suite(self.cipher), self.exporter, b"sec", label, length)


def _suite(cipher: Cipher) -> bytes:
    return b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (KEM, KDF, cipher.number))


def context_of(cipher: Cipher, enc: bytes, secret: bytes, info: bytes) -> Context:
    """Return the keys that follow from the encapsulated secret (section 5.1, base mode)."""
    suite = _suite(cipher)
    about = b"\0" + _labeled_extract(suite, b"", b"psk_id_hash", b"") + _labeled_extract(suite, b"", b"info_hash", info)
    base = _labeled_extract(suite, secret, b"secret", b"")
    key = _labeled_expand(suite, base, b"key", about, cipher.key_bytes)
    nonce = _labeled_expand(suite, base, b"base_nonce", about, NONCE_BYTES)
    return Context(cipher, enc, key, nonce, _labeled_expand(suite, base, b"exp", about, HASH_BYTES))


def sender(
    recipient: bytes,
    info: bytes,
    cipher: Cipher = CHACHA20_POLY1305,
    *,
    draw: Callable[[int], bytes] = secrets.token_bytes,
) -> Context:
    """Return the keys of a message to the owner of a public key; the private key of this side is forgotten here."""
    private = draw(KEY_BYTES)
    enc = public_key(private)
    return context_of(cipher, enc, encapsulated_secret(shared_secret(private, recipient), enc, recipient), info)


def fingerprint(public: bytes) -> str:
    """Return a short name of a key, for people to compare."""
    return hashlib.sha256(public).hexdigest()[:16]


REQUEST_LABEL: Final = b"message/bhttp request\0"
RESPONSE_LABEL: Final = b"message/bhttp response"
HEADER_BYTES: Final = 7


def usable_key(raw: bytes) -> KeyConfiguration:
    """Return the first key of a list that a device can encrypt for; WireError where there is none."""
    for key in read_keys(raw):
        if CHACHA20_POLY1305.number in key.ciphers:
            return key
    raise WireError("oblivious", "no key of the list is for ChaCha20-Poly1305")


@dataclass(frozen=True)
class SealedRequest:
    """A request as it travels, and what opens its response."""

    body: bytes  # what a relay passes on
    _context: Context = field(repr=False)

    def open(self, response: bytes) -> bytes:
        """Return the response; ParameterError where it was altered, or answers another request."""
        cipher = self._context.cipher
        length = nonce_bytes(cipher)
        key, nonce = response_keys(self._context, response[:length])
        return cipher.unseal(key, nonce, response[length:], b"")


def seal_request(
    message: bytes,
    key: KeyConfiguration,
    cipher: Cipher = CHACHA20_POLY1305,
    *,
    draw: Callable[[int], bytes] = secrets.token_bytes,
) -> SealedRequest:
    """Return a binary request sealed for a gateway's key (section 4.3)."""
    if cipher.number not in key.ciphers:
        raise ParameterError(f"the gateway's key {key.key_id} does not take the cipher {cipher.number:#06x}")
    header = key.header(cipher.number)
    context = sender(key.public, REQUEST_LABEL + header, cipher, draw=draw)
    return SealedRequest(header + context.enc + context.seal(message), context)


def nonce_bytes(cipher: Cipher) -> int:
    """Return how long a response's nonce is: as long as the cipher's key, and at least as its nonce."""
    return max(cipher.key_bytes, 12)


def response_keys(context: Context, nonce: bytes) -> tuple[bytes, bytes]:
    """Return the key and the nonce that a response is sealed with (section 4.4)."""
    length = nonce_bytes(context.cipher)
    secret = context.export(RESPONSE_LABEL, length)
    drawn = extract(context.enc + nonce, secret)
    return expand(drawn, b"key", context.cipher.key_bytes), expand(drawn, b"nonce", 12)
