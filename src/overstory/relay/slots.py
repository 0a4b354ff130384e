"""A file of slots: messages on disk, in places that say nothing about when or in which order they came.

The file has its full size from the beginning. Each message is written into free slots drawn at random, with one
`fdatasync` for all messages that wait for it, and is overwritten with zeros once it is done. There is no journal and no
index: each slot has a checksum, so after a crash a half-written message is recognized, and it was never acknowledged.

    slot 0: magic (8 bytes) | slots (4) | start of the file (8, seconds) | most of one sender (4) | check (8)
        | start of the gathering, if it is later (8, seconds) | zeros
    a message, in one slot or a chain: key (16, random) | 1 in the first slot, else 2 (1) | next slot (4; 0: none)
        | bytes of the message from here to its end (4) | check (8) | data | zeros
"""

from __future__ import annotations

import os
import secrets
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from overstory.protocol.errors import FormatError

SLOT: Final = 1024
MAGIC: Final = b"OVSPOOL1"
_START: Final = struct.Struct(">8sIQI")
_LATER: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">16sBII")
CHECK: Final = 8
DATA: Final = SLOT - _HEAD.size - CHECK
"""Bytes of a message that fit into one slot."""

FIRST: Final = 1
LATER: Final = 2
EMPTY: Final = bytes(SLOT)
BLOCK: Final = 1 << 10  # slots that are read or written at once
EMPTY_BLOCK: Final = bytes(SLOT * BLOCK)

_sync = getattr(os, "fdatasync", os.fsync)  # without the time of change, where the system can leave it out


class Piece(NamedTuple):
    """What one slot holds of a message."""

    key: bytes
    kind: int
    next: int
    rest: int
    data: bytes


def slots_of(message: bytes) -> int:
    """Return how many slots a message takes."""
    return max(1, -(-len(message) // DATA))


class SlotFile:
    """One file of slots; not safe for several threads at once.

    `began` is when the file was begun and `since` from when the time of its messages counts, both in seconds since
    1970: not when a message came. No sender has more than `most_of_one` messages in it. `heads` are the first slots of
    messages, in the order of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("r+b", buffering=0)
        try:
            self.slots, self.began, self.since, self.most_of_one = self._read_start()
            self.heads, self._free = array("I"), array("I")
            self._scan()
        except BaseException:
            self._file.close()
            raise

    @staticmethod
    def create(path: Path, slots: int, began: int) -> None:
        """Write a file without messages, and wait until it is on the disk."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(_start_slot(slots, began, began, 0))
            for at in range(0, slots, BLOCK):
                file.write(EMPTY_BLOCK[: SLOT * (slots - at)])
            file.flush()
            os.fsync(file.fileno())

    def add(self, messages: Sequence[bytes]) -> list[bool]:
        """Write messages durably; return of each whether there was room. After an error its slots stay out of use."""
        fitting = []
        for message in messages:
            count = slots_of(message)
            fitting.append(count <= len(self._free))
            if fitting[-1]:
                self._write_message(message, [self._draw() for _ in range(count)])
        if any(fitting):
            _sync(self._file.fileno())
        return fitting

    def _draw(self) -> int:
        at = secrets.randbelow(len(self._free))
        self._free[at], last = self._free[-1], self._free[at]
        self._free.pop()
        return last

    def _write_message(self, message: bytes, slots: list[int]) -> None:
        key = secrets.token_bytes(16)
        for number, slot in enumerate(slots):
            start = number * DATA
            following = slots[number + 1] if number + 1 < len(slots) else 0
            kind = LATER if number else FIRST
            piece = Piece(key, kind, following, len(message) - start, message[start : start + DATA])
            self._write(slot, _encode(slot, piece))
        self.heads.append(slots[0])

    def read(self, head: int) -> bytes | None:
        """Return the message that begins in a slot; None when it is not complete."""
        chain = self._chain(head)
        return None if chain is None else b"".join(piece.data for _, piece in chain)

    def _chain(self, head: int) -> list[tuple[int, Piece]] | None:
        piece = self._piece(head)
        if piece is None or piece.kind != FIRST:
            return None
        chain = [(head, piece)]
        while piece.rest > DATA:
            slot, before = piece.next, piece
            following = self._piece(slot) if 0 < slot <= self.slots else None
            if following is None or following[:2] != (before.key, LATER) or following.rest != before.rest - DATA:
                return None
            piece = following
            chain.append((slot, piece))
        return chain

    def wipe(self, heads: Iterable[int]) -> None:
        """Overwrite messages with zeros, and wait until that is on the disk; `heads` itself is left to the caller."""
        for head in heads:
            for slot, _ in self._chain(head) or ():
                self._write(slot, EMPTY)
                self._free.append(slot)
        _sync(self._file.fileno())

    def restart(self, began: int) -> None:
        """Remove all messages, and begin the file again at another time."""
        self.wipe(self.heads)
        self.heads, self.began, self.most_of_one = array("I"), began, 0
        self.count_from(began)
        _sync(self._file.fileno())

    def count_from(self, since: int) -> None:
        """Let the time of the messages that come now count from then; it is on the disk when they are."""
        self.since = since
        self._write_start(self.most_of_one)

    def allow(self, most_of_one: int) -> None:
        """Let one sender have that many messages; it is on the disk before any of them is."""
        self._write_start(most_of_one)
        _sync(self._file.fileno())
        self.most_of_one = most_of_one

    def _write_start(self, most_of_one: int) -> None:
        self._write(0, _start_slot(self.slots, self.began, self.since, most_of_one))

    def touch(self) -> None:
        """Change the file's times, so that they are not those of the last message."""
        os.utime(self.path)

    def close(self) -> None:
        self._file.close()

    def _scan(self) -> None:
        """Look for complete messages; what remains of others is overwritten."""
        filled, used = array("I"), bytearray(self.slots + 1)
        for slot in self._filled():
            filled.append(slot)
            chain = self._chain(slot)
            for member, _ in chain or ():
                used[member] = 1
            if chain is not None:
                self.heads.append(slot)
        broken = [slot for slot in filled if not used[slot]]
        for slot in broken:
            self._write(slot, EMPTY)
        if broken:
            _sync(self._file.fileno())
        self._free.extend(slot for slot in range(1, self.slots + 1) if not used[slot])

    def _filled(self) -> Iterator[int]:
        """Yield the slots that are not empty; empty ones are skipped many at a time."""
        for first in range(1, self.slots + 1, BLOCK):
            self._file.seek(first * SLOT)
            block = self._file.read(SLOT * min(BLOCK, self.slots + 1 - first))
            if block != EMPTY_BLOCK[: len(block)]:
                for place in range(len(block) // SLOT):
                    if block[place * SLOT : (place + 1) * SLOT] != EMPTY:
                        yield first + place

    def _piece(self, slot: int) -> Piece | None:
        raw = self._raw(slot)
        if raw == EMPTY or len(raw) != SLOT:
            return None
        key, kind, following, rest = _HEAD.unpack_from(raw)
        start = _HEAD.size + CHECK
        if raw[_HEAD.size : start] != _check(slot, raw[: _HEAD.size], raw[start:]):
            return None
        return Piece(key, kind, following, rest, raw[start : start + min(rest, DATA)])

    def _raw(self, slot: int) -> bytes:
        self._file.seek(slot * SLOT)
        return self._file.read(SLOT)

    def _write(self, slot: int, raw: bytes) -> None:
        self._file.seek(slot * SLOT)
        if self._file.write(raw) != SLOT:
            raise OSError(f"{self.path}: a slot was written in part")

    def _read_start(self) -> tuple[int, int, int, int]:
        raw = self._raw(0)
        size = os.fstat(self._file.fileno()).st_size
        if len(raw) == SLOT and raw.startswith(MAGIC):
            _, slots, began, most_of_one = _START.unpack_from(raw)
            since = _LATER.unpack_from(raw, _START.size + CHECK)[0] or began
            if raw == _start_slot(slots, began, since, most_of_one) and size == (slots + 1) * SLOT:
                return slots, began, since, most_of_one
        raise FormatError("this is no spool of a relay, or it is damaged", source=str(self.path))


def _start_slot(slots: int, began: int, since: int, most_of_one: int) -> bytes:
    start = _START.pack(MAGIC, slots, began, most_of_one)
    later = b"" if since == began else _LATER.pack(since)
    return (start + _check(0, start, later) + later).ljust(SLOT, b"\0")


def _encode(slot: int, piece: Piece) -> bytes:
    head = _HEAD.pack(piece.key, piece.kind, piece.next, piece.rest)
    data = piece.data.ljust(DATA, b"\0")
    return head + _check(slot, head, data) + data


def _check(slot: int, head: bytes, data: bytes) -> bytes:
    return blake2b(head + data, digest_size=CHECK, salt=slot.to_bytes(4, "big")).digest()
