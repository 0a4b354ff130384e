"""Encapsulated messages (RFC 9458): a request sealed for a gateway's key, and the response sealed for its sender."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.oblivious.formats import Entry, read_entries
from overstory.protocol.oblivious.hpke import (
    AES_128_GCM,
    CHACHA20_POLY1305,
    KDF,
    KEM,
    Cipher,
    Context,
    check_key,
    expand,
    extract,
    sender,
)

REQUEST_TYPE: Final = "message/ohttp-req"
RESPONSE_TYPE: Final = "message/ohttp-res"

REQUEST_LABEL: Final = b"message/bhttp request\0"
RESPONSE_LABEL: Final = b"message/bhttp response"
HEADER_BYTES: Final = 7


@dataclass(frozen=True)
class KeyConfiguration:
    """A gateway's public key: its number, the key, and the ciphers that the gateway takes, as numbers of RFC 9180."""

    key_id: int
    public: bytes
    ciphers: tuple[int, ...] = (AES_128_GCM, CHACHA20_POLY1305.number)

    def __post_init__(self) -> None:
        check_key(self.public)
        if not 0 <= self.key_id < 256:
            raise ParameterError(f"key id {self.key_id}: give a number from 0 to 255")

    def encode(self) -> bytes:
        """Return one entry of application/ohttp-keys, its length first (section 3.2)."""
        algorithms = b"".join(_two(KDF) + _two(cipher) for cipher in self.ciphers)
        entry = bytes([self.key_id]) + _two(KEM) + self.public + _two(len(algorithms)) + algorithms
        return _two(len(entry)) + entry

    def header(self, cipher: int) -> bytes:
        """Return what a request begins with: key, KEM, KDF and cipher, by their numbers."""
        return bytes([self.key_id]) + _two(KEM) + _two(KDF) + _two(cipher)


def _two(number: int) -> bytes:
    return number.to_bytes(2, "big")


def read_keys(raw: bytes) -> tuple[KeyConfiguration, ...]:
    """Read application/ohttp-keys; keys of another kind than X25519 with HKDF-SHA256 are left out.

    WireError where the bytes are no such list, or no key of it can be used.
    """
    keys = [_key(entry) for entry in read_entries(raw) if entry.kem == KEM]
    usable = tuple(key for key in keys if key.ciphers)
    if not usable:
        raise WireError("oblivious", "no key of the list is of X25519 with HKDF-SHA256")
    return usable


def usable_key(raw: bytes) -> KeyConfiguration:
    """Return the first key of a list that a device can encrypt for; WireError where there is none."""
    for key in read_keys(raw):
        if CHACHA20_POLY1305.number in key.ciphers:
            return key
    raise WireError("oblivious", "no key of the list is for ChaCha20-Poly1305")


def _key(entry: Entry) -> KeyConfiguration:
    return KeyConfiguration(entry.key_id, entry.public, tuple(cipher for kdf, cipher in entry.suites if kdf == KDF))


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
    """Return a binary request sealed for a gateway's key (section 4.3).

    ParameterError where the gateway does not take this cipher, or its key is none.
    """
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
