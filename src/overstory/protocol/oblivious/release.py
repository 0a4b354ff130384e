"""A release: the encapsulated requests that a shuffling relay passes on together, in an order drawn from the system.

    b"OVSR" | version 1 (1 byte) | release id (16 bytes) | then of each message: length (4 bytes, big-endian), message

A large release travels in several such bodies of one id: the server adds up what it takes of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from overstory.protocol.errors import WireError

RELEASE_TYPE: Final = "application/vnd.overstory.release"
"""The media type of a release."""

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
