"""The file of private keys: several of them during a rotation, the newest last. Only its owner may read it.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.oblivious.formats import KEY_BYTES, KeyConfiguration

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
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

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
