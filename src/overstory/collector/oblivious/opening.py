"""Opens encapsulated requests and seals their responses (RFC 9458, sections 4.3 and 4.4; RFC 9180, base mode)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from overstory.collector.oblivious.keys import UNDECRYPTABLE, UNKNOWN_KEY, PrivateKey, read_private_keys
from overstory.protocol.errors import WireError
from overstory.protocol.oblivious.formats import AES_128_GCM, KDF, KEM, KEY_BYTES
from overstory.protocol.oblivious.messages import (
    CHACHA20_POLY1305,
    HEADER_BYTES,
    REQUEST_LABEL,
    Cipher,
    Context,
    context_of,
    encapsulated_secret,
    nonce_bytes,
    response_keys,
)

LEAST: Final = HEADER_BYTES + KEY_BYTES + 16


def _cipher(number: int, key_bytes: int, kind: type[AESGCM | ChaCha20Poly1305]) -> Cipher:
    return Cipher(
        number,
        key_bytes,
        lambda key, nonce, message, about: kind(key).encrypt(nonce, message, about),
        lambda key, nonce, message, about: kind(key).decrypt(nonce, message, about),
    )


CIPHERS: Final = (
    _cipher(AES_128_GCM, 16, AESGCM),
    _cipher(CHACHA20_POLY1305.number, CHACHA20_POLY1305.key_bytes, ChaCha20Poly1305),
)


@dataclass(frozen=True)
class OpenedRequest:
    """A request, and what seals its response."""

    message: bytes = field(repr=False)  # binary HTTP, as the device wrote it
    _context: Context = field(repr=False)

    def seal(self, response: bytes, *, draw: Callable[[int], bytes] = secrets.token_bytes) -> bytes:
        nonce = draw(nonce_bytes(self._context.cipher))
        key, own = response_keys(self._context, nonce)
        return nonce + self._context.cipher.seal(key, own, response, b"")


class KeyRing:
    """The private keys of a collector."""

    def __init__(self, keys: Iterable[PrivateKey]) -> None:
        self.keys = tuple(keys)
        self._by_header: dict[bytes, tuple[X25519PrivateKey, bytes, Cipher]] = {}
        for key in self.keys:
            public, private = key.public, X25519PrivateKey.from_private_bytes(key.private)
            for cipher in CIPHERS:
                self._by_header[public.header(cipher.number)] = private, public.public, cipher

    def open(self, request: bytes) -> OpenedRequest:
        header, enc = request[:HEADER_BYTES], request[HEADER_BYTES : HEADER_BYTES + KEY_BYTES]
        if len(request) < LEAST:
            raise WireError(UNDECRYPTABLE, f"an encapsulated request has at least {LEAST} bytes, not {len(request)}")
        if header not in self._by_header:
            raise WireError(UNKNOWN_KEY, self._unknown(header))
        private, public, cipher = self._by_header[header]
        try:
            exchanged = private.exchange(X25519PublicKey.from_public_bytes(enc))
            secret = encapsulated_secret(exchanged, enc, public)
            context = context_of(cipher, enc, secret, REQUEST_LABEL + header)
            return OpenedRequest(context.unseal(request[HEADER_BYTES + KEY_BYTES :]), context)
        except (InvalidTag, ValueError):  # ValueError: a public key of small order
            raise WireError(
                UNDECRYPTABLE, "the request cannot be opened: it was altered, or is for another key"
            ) from None

    def _unknown(self, header: bytes) -> str:
        if all(key.key_id != header[0] for key in self.keys):
            return f"there is no key {header[0]} here: the registry lists the keys"
        kem, kdf, cipher = (int.from_bytes(header[at : at + 2], "big") for at in (1, 3, 5))
        takes = " or ".join(f"{cipher.number:#06x}" for cipher in CIPHERS)
        return (
            f"KEM {kem:#06x}, KDF {kdf:#06x} and cipher {cipher:#06x} are not read here: use {KEM:#06x}, {KDF:#06x} "
            f"and {takes}"
        )


def load_ring(path: Path) -> KeyRing:
    """Read a file of private keys."""
    return KeyRing(read_private_keys(path))
