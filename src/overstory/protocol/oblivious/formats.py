"""What travels as bytes, without any cipher: binary HTTP, lists of keys, releases of a relay.

**Binary HTTP** (RFC 9292): requests and responses of known length. A message may be padded with zeros, so that messages
of different metrics have one length.

**A list of keys**: the entries of application/ohttp-keys (RFC 9458, section 3), as a registry checks them.

**A release**: the encapsulated requests that a shuffling relay passes on together, in an order drawn from the system.

    b"OVSR" | version 1 (1 byte) | release id (16 bytes) | then of each message: length (4 bytes, big-endian), message

A large release travels in several such bodies of one id: the server adds up what it takes of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from overstory.protocol.errors import ParameterError, WireError

REQUEST_TYPE: Final = "message/ohttp-req"
RESPONSE_TYPE: Final = "message/ohttp-res"

REQUEST: Final = 0
RESPONSE: Final = 1
INFORMATIONAL: Final = range(100, 200)
MOST_FIELDS: Final = 64

PADDED_TO: Final = 512  # Bytes: requests are filled up to a multiple of this, so that their length says little
RESPONSES_PADDED_TO: Final = 2048
"""Bytes: every answer to one report fits in one multiple of this, so that its length does not say which it is."""

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Request:
    """A request: what an HTTP/1.1 head says, and the body."""

    method: str
    scheme: str
    authority: str
    path: str
    fields: Fields = ()
    body: bytes = b""

    def encode(self, padded_to: int = 1) -> bytes:
        """Return the bytes; zeros fill them up to a multiple of `padded_to`."""
        head = (self.method, self.scheme, self.authority, self.path)
        parts = [varint(REQUEST), *(_text(part) for part in head), _fields(self.fields), _counted(self.body)]
        return _padded(b"".join(parts), padded_to)


@dataclass(frozen=True)
class Response:
    """The final response: its status, its fields and its body."""

    status: int
    fields: Fields = ()
    body: bytes = b""

    def encode(self, padded_to: int = 1) -> bytes:
        encoded = varint(RESPONSE) + varint(self.status) + _fields(self.fields) + _counted(self.body)
        return _padded(encoded, padded_to)


def read_request(raw: bytes) -> Request:
    """Read a request of known length; WireError where it is none."""
    reader = Reader(raw)
    reader.kind(REQUEST)
    method, scheme, authority, path = (reader.text() for _ in range(4))
    request = Request(method, scheme, authority, path, reader.fields(), reader.rest_or_counted())
    reader.end()
    return request


def read_response(raw: bytes) -> Response:
    """Read a response of known length; informational ones before it are left out. WireError where it is none."""
    reader = Reader(raw)
    reader.kind(RESPONSE)
    status = reader.number()
    while status in INFORMATIONAL:
        reader.fields()
        status = reader.number()
    if not 200 <= status < 600:
        raise WireError("oblivious", f"{status} is no status of a response")
    response = Response(status, reader.fields(), reader.rest_or_counted())
    reader.end()
    return response


def varint(number: int) -> bytes:
    """Return a number as QUIC writes it (RFC 9000, section 16): its first two bits say how many bytes it has."""
    for length, mark in ((1, 0), (2, 1), (4, 2), (8, 3)):
        if number < 1 << 8 * length - 2:
            return (number | mark << 8 * length - 2).to_bytes(length, "big")
    raise WireError("oblivious", f"{number} is too large for a number of 8 bytes")


def _padded(encoded: bytes, padded_to: int) -> bytes:
    return encoded + bytes(-len(encoded) % padded_to)


def _counted(raw: bytes) -> bytes:
    return varint(len(raw)) + raw


def _text(text: str) -> bytes:
    return _counted(text.encode("latin-1"))


def _fields(fields: Iterable[tuple[str, str]]) -> bytes:
    return _counted(b"".join(_text(name.lower()) + _text(value) for name, value in fields))


class Reader:
    """Reads a message from its beginning; where it ends early, the rest is empty (section 3.8)."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def kind(self, wanted: int) -> None:
        framing = self.number()
        if framing != wanted:
            raise WireError("oblivious", f"a message of kind {framing} where one of kind {wanted} belongs")

    def number(self) -> int:
        if self._at >= len(self._raw):
            raise WireError("oblivious", "the message ends before a number")
        length = 1 << (self._raw[self._at] >> 6)
        return int.from_bytes(self.take(length), "big") & ((1 << 8 * length - 2) - 1)

    def take(self, length: int) -> bytes:
        start, self._at = self._at, self._at + length
        if self._at > len(self._raw):
            raise WireError("oblivious", f"{length} bytes are announced, {len(self._raw) - start} are here")
        return self._raw[start : self._at]

    def text(self) -> str:
        return self.take(self.number()).decode("latin-1")

    def fields(self) -> Fields:
        if self._at == len(self._raw):
            return ()
        inner = Reader(self.take(self.number()))
        fields: list[tuple[str, str]] = []
        while not inner.is_done:
            if len(fields) == MOST_FIELDS:
                raise WireError("oblivious", f"more than {MOST_FIELDS} fields")
            fields.append((inner.text(), inner.text()))
        return tuple(fields)

    @property
    def is_done(self) -> bool:
        return self._at == len(self._raw)

    def rest_or_counted(self) -> bytes:
        return b"" if self.is_done else self.take(self.number())

    def end(self) -> None:
        """Check that nothing follows but trailers, which are left out, and zeros."""
        if not self.is_done:
            self.fields()
        if any(self._raw[self._at :]):
            raise WireError("oblivious", "bytes after the end of the message are not zero")


KEM: Final = 0x0020  # DHKEM(X25519, HKDF-SHA256)
KDF: Final = 0x0001  # HKDF-SHA256
AES_128_GCM: Final = 0x0001
CHACHA20: Final = 0x0003  # and Poly1305
KEY_BYTES: Final = 32
HEAD_BYTES: Final = 3  # the key's id and its KEM


@dataclass(frozen=True)
class KeyConfiguration:
    """A gateway's public key: its number, the key, and the ciphers that the gateway takes, as numbers of RFC 9180."""

    key_id: int
    public: bytes
    ciphers: tuple[int, ...] = (AES_128_GCM, CHACHA20)  # with HKDF-SHA256; none for a key of another kind

    def __post_init__(self) -> None:
        if self.ciphers and len(self.public) != KEY_BYTES:
            raise ParameterError(f"a public key of X25519 has {KEY_BYTES} bytes, not {len(self.public)}")
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
    """Read application/ohttp-keys; keys of another kind than X25519 with HKDF-SHA256 are left out."""
    usable = tuple(key for key in read_entries(raw) if key.ciphers)
    if not usable:
        raise WireError("oblivious", "no key of the list is of X25519 with HKDF-SHA256")
    return usable


def read_entries(raw: bytes) -> tuple[KeyConfiguration, ...]:
    """Read all keys of a list, in its order; WireError where the bytes are no such list."""
    keys, at = [], 0
    while at < len(raw):
        length = int.from_bytes(raw[at : at + 2], "big")
        entry = raw[at + 2 : at + 2 + length]
        if len(entry) != length or length < HEAD_BYTES:
            raise WireError("oblivious", "the list of keys is cut off")
        keys.append(_read_key(entry))
        at += 2 + length
    return tuple(keys)


def _read_key(entry: bytes) -> KeyConfiguration:
    if int.from_bytes(entry[1:HEAD_BYTES], "big") != KEM:
        return KeyConfiguration(entry[0], b"", ())
    public, rest = entry[HEAD_BYTES : HEAD_BYTES + KEY_BYTES], entry[HEAD_BYTES + KEY_BYTES :]
    length, pairs = int.from_bytes(rest[:2], "big"), rest[2:]
    if len(public) != KEY_BYTES or len(pairs) != length or length % 4:
        raise WireError("oblivious", "a key of the list is cut off")
    numbers = [int.from_bytes(pairs[i : i + 2], "big") for i in range(0, length, 2)]
    suites = zip(numbers[::2], numbers[1::2], strict=True)
    return KeyConfiguration(entry[0], public, tuple(cipher for kdf, cipher in suites if kdf == KDF))


RELEASE_TYPE: Final = "application/vnd.overstory.release"  # the media type of a release

MAGIC: Final = b"OVSR\x01"
ID_BYTES: Final = 16
LENGTH_BYTES: Final = 4


@dataclass(frozen=True)
class Release:
    """Messages that were released together, or a part of them."""

    id: bytes  # 16 bytes, drawn by the relay for each release
    messages: tuple[bytes, ...]  # encapsulated requests, each `message/ohttp-req`

    def encode(self) -> bytes:
        parts = (len(message).to_bytes(LENGTH_BYTES, "big") + message for message in self.messages)
        return b"".join((MAGIC, self.id, *parts))


def read_release(raw: bytes) -> Release:
    """Read a release; WireError where the bytes are none, or end early."""
    start = len(MAGIC) + ID_BYTES
    if not raw.startswith(MAGIC) or len(raw) < start:
        raise WireError("oblivious", "this is no release of a relay")
    messages, at = [], start
    while at < len(raw):
        first = at + LENGTH_BYTES
        at = first + int.from_bytes(raw[at:first], "big")
        if first > len(raw) or at > len(raw):
            raise WireError("oblivious", "the release is cut off")
        messages.append(raw[first:at])
    return Release(raw[len(MAGIC) : start], tuple(messages))
