"""The file of private keys: several of them during a rotation, the newest last. Only its owner may read it.

A `KeyRing` opens encapsulated requests and seals their responses (RFC 9458, 4.3 and 4.4; RFC 9180, base mode).

[[keys]]
id = 1
created = 2026-11-23
private = "64 hexadecimal digits"
"""

from __future__ import annotations

import datetime as dt
import os
import secrets
import stat
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from overstory.protocol.errors import FormatError, ParameterError, WireError
from overstory.protocol.oblivious.formats import AES_128_GCM, KDF, KEM, KEY_BYTES, KeyConfiguration
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

HEADER: Final = """\
# Private keys of Oblivious HTTP: who has them can read what came through a relay. The newest key is the last.
# `overstory keys FILE` prints the public ones.
"""
MOST_BYTES: Final = 1 << 20

UNKNOWN_KEY: Final = "ohttp-key"  # the reason of a request for a key, or by a cipher, that is not here
UNDECRYPTABLE: Final = "undecryptable"
"""The reason of a request that was altered or cut off, or sealed for another key of the same id."""

_FIELDS: Final = {"id", "created", "private"}


@dataclass(frozen=True)
class PrivateKey:
    """A key that opens requests."""

    key_id: int  # from 0 to 255: every request names the key that it is sealed for
    created: dt.date  # the day on which it was made, in UTC
    private: bytes = field(repr=False)  # 32 bytes

    @property
    def public(self) -> KeyConfiguration:
        public = X25519PrivateKey.from_private_bytes(self.private).public_key().public_bytes_raw()
        return KeyConfiguration(self.key_id, public)


def public_line(keys: tuple[PrivateKey, ...]) -> str:
    """Return the registry's text of keys: application/ohttp-keys in hexadecimal, the newest first."""
    return b"".join(key.public.encode() for key in reversed(keys)).hex()


def read_private_keys(path: Path) -> tuple[PrivateKey, ...]:
    """Read a file of keys."""
    mode = path.stat().st_mode
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ParameterError(f"{path}: it holds private keys, and others may use it: chmod 600 {path}")
    try:
        with path.open("rb") as file:
            parsed = tomllib.loads(file.read(MOST_BYTES).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"this is not TOML: {error}", source=str(path)) from None
    entries = parsed.pop("keys", [])
    if parsed or not isinstance(entries, list):
        raise FormatError("a file of keys has [[keys]] and nothing else", source=str(path))
    keys = tuple(_read_key(path, entry) for entry in entries)
    if not keys:
        raise ParameterError(f"{path}: it has no key: overstory keys --new {path} adds one")
    ids = [key.key_id for key in keys]
    if len(set(ids)) < len(ids):
        raise FormatError("two keys have one id: a request names its key by the id", source=str(path))
    return keys


def _read_key(path: Path, entry: Any) -> PrivateKey:
    if not isinstance(entry, dict) or set(entry) != _FIELDS:
        raise FormatError("a key has id, created and private, and nothing else", source=str(path))
    key_id, created, private = entry["id"], entry["created"], entry["private"]
    if not isinstance(key_id, int) or isinstance(key_id, bool) or not 0 <= key_id < 256:
        raise FormatError(f"{key_id!r:.20}: give a number from 0 to 255", source=str(path), field="id")
    if not isinstance(created, dt.date) or isinstance(created, dt.datetime):
        raise FormatError("give a date such as 2026-11-23", source=str(path), field="created")
    try:
        raw = bytes.fromhex(private)
    except (TypeError, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES:  # the text itself is a secret
        raise FormatError(f"give {2 * KEY_BYTES} hexadecimal digits", source=str(path), field="private")
    return PrivateKey(key_id, created, raw)


def add_key(path: Path) -> tuple[PrivateKey, ...]:
    """Draw a new key and add it to a file, which is made where it is missing; return all keys."""
    keys = read_private_keys(path) if path.exists() else ()
    free = {*range(256)} - {key.key_id for key in keys}
    if not free:
        raise ParameterError(f"{path}: it has 256 keys, as many as there are numbers: remove earlier ones")
    key_id = min(free - {0}, default=0)
    keys = (*keys, PrivateKey(key_id, dt.datetime.now(dt.UTC).date(), secrets.token_bytes(KEY_BYTES)))
    _write(path, keys)
    return keys


def remove_key(path: Path, key_id: int) -> tuple[PrivateKey, ...]:
    """Remove an earlier key from a file; return the others. The newest one stays."""
    keys = read_private_keys(path)
    if all(key.key_id != key_id for key in keys):
        raise ParameterError(f"{path}: it has no key {key_id}; it has {', '.join(str(key.key_id) for key in keys)}")
    if keys[-1].key_id == key_id:
        raise ParameterError(f"{path}: key {key_id} is the newest, which devices use: add another one first")
    keys = tuple(key for key in keys if key.key_id != key_id)
    _write(path, keys)
    return keys


def _write(path: Path, keys: tuple[PrivateKey, ...]) -> None:
    """Replace the file: there is never half of one, and never one that others may read."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    text = HEADER + "".join(
        f'\n[[keys]]\nid = {key.key_id}\ncreated = {key.created}\nprivate = "{key.private.hex()}"\n' for key in keys
    )
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


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
