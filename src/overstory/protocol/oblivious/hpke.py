"""Hybrid public key encryption (RFC 9180), base mode: DHKEM(X25519, HKDF-SHA256) and HKDF-SHA256."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from overstory.protocol.errors import ParameterError
from overstory.protocol.oblivious import chacha20_poly1305
from overstory.protocol.oblivious.key_list import X25519_KEM
from overstory.protocol.oblivious.x25519 import KEY_BYTES, public_key, shared_secret

KEM: Final = X25519_KEM
KDF: Final = 0x0001  # HKDF-SHA256
HASH_BYTES: Final = 32
NONCE_BYTES: Final = 12
_KEM_SUITE: Final = b"KEM" + KEM.to_bytes(2, "big")


class Seal(Protocol):
    """A function that seals a message, or one that unseals it."""

    def __call__(self, key: bytes, nonce: bytes, message: bytes, about: bytes, /) -> bytes:
        """Return the sealed message, or the message."""
        ...


class Cipher(NamedTuple):
    """How a message is encrypted: the number of RFC 9180, and how long a key is."""

    number: int
    key_bytes: int
    seal: Seal
    unseal: Seal

    def __repr__(self) -> str:
        return f"Cipher({self.number:#06x})"


CHACHA20_POLY1305: Final = Cipher(0x0003, chacha20_poly1305.KEY_BYTES, chacha20_poly1305.seal, chacha20_poly1305.unseal)
AES_128_GCM: Final = 0x0001
"""The other cipher's number; it needs more than the standard library."""


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
        """Return the first message of this context, or raise ParameterError."""
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
    """Return the keys of a message to the owner of a public key; the private key of this side is forgotten here.

    ParameterError where the public key is none. `draw` gives the 32 private bytes: the operating system's.
    """
    private = draw(KEY_BYTES)
    enc = public_key(private)
    return context_of(cipher, enc, encapsulated_secret(shared_secret(private, recipient), enc, recipient), info)


def check_key(public: bytes) -> bytes:
    """Return a public key, or raise ParameterError."""
    if len(public) != KEY_BYTES:
        raise ParameterError(f"a public key of X25519 has {KEY_BYTES} bytes, not {len(public)}")
    return public


def fingerprint(public: bytes) -> str:
    """Return a short name of a key, for people to compare."""
    return hashlib.sha256(public).hexdigest()[:16]
