"""Binary HTTP (RFC 9292): requests and responses of known length, as bytes.

A message may be padded with zeros, so that messages of different metrics have one length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from overstory.protocol.errors import WireError

REQUEST: Final = 0
RESPONSE: Final = 1
INFORMATIONAL: Final = range(100, 200)
MOST_FIELDS: Final = 64

PADDED_TO: Final = 512
"""Bytes: requests are filled up to a multiple of this, so that their length says little."""
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
        """Check that the message is of a kind."""
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
        """Return the fields; none where the message ends here."""
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
        """Return the body; empty where the message ends here."""
        return b"" if self.is_done else self.take(self.number())

    def end(self) -> None:
        """Check that nothing follows but trailers, which are left out, and zeros."""
        if not self.is_done:
            self.fields()
        if any(self._raw[self._at :]):
            raise WireError("oblivious", "bytes after the end of the message are not zero")
