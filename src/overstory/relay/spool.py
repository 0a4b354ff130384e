"""The folder of a shuffling relay: the messages that wait, and those of the release that is being sent.

lock                 held by the relay that uses the folder
waiting.slots        messages that wait
release-<id>.slots   the messages of one release: the rename from waiting.slots makes its id durable before it leaves
next.slots           an empty file that becomes waiting.slots
aside-<id>.slots     messages that the collector did not judge: renamed to release-<id>.slots, they are sent again

A file of slots has its full size from the beginning, and places that say nothing about when or in which order messages
came: each is written into free slots drawn at random, and overwritten with zeros once it is done. There is no journal
and no index: each slot has a checksum, so after a crash a half-written message, never acknowledged, is recognized.

    slot 0: magic (8 bytes) | slots (4) | start of the file (8, seconds) | start of the gathering (8, seconds)
        | most of one sender (4) | check (8) | zeros
    a message, in one slot or a chain: key (16, random) | 1 in the first slot, else 2 (1) | next slot (4; 0: none)
        | bytes of the message from here to its end (4) | check (8) | data | zeros
"""

from __future__ import annotations

import os
import secrets
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, NamedTuple

from overstory.client.outcomes import StateError
from overstory.client.state.files import locked, make_folder, sync_folder
from overstory.protocol.errors import FormatError, OverstoryError
from overstory.protocol.oblivious.formats import ID_BYTES
from overstory.supervision.clock import TRIAL, ClockWatch

SLOT: Final = 1024
MAGIC: Final = b"OVSPOOL1"
_START: Final = struct.Struct(">8sIQQI")
_HEAD: Final = struct.Struct(">16sBII")
CHECK: Final = 8
DATA: Final = SLOT - _HEAD.size - CHECK  # bytes of a message that fit into one slot

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
    """One file of slots; not safe for several threads at once; its times are not those of messages."""

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
            _, slots, began, since, most_of_one = _START.unpack_from(raw)
            if raw == _start_slot(slots, began, since, most_of_one) and size == (slots + 1) * SLOT:
                return slots, began, since, most_of_one
        raise FormatError("this is no spool of a relay, or it is damaged", source=str(self.path))


def _start_slot(slots: int, began: int, since: int, most_of_one: int) -> bytes:
    start = _START.pack(MAGIC, slots, began, since, most_of_one)
    return (start + _check(0, start, b"")).ljust(SLOT, b"\0")


def _encode(slot: int, piece: Piece) -> bytes:
    head = _HEAD.pack(piece.key, piece.kind, piece.next, piece.rest)
    data = piece.data.ljust(DATA, b"\0")
    return head + _check(slot, head, data) + data


def _check(slot: int, head: bytes, data: bytes) -> bytes:
    return blake2b(head + data, digest_size=CHECK, salt=slot.to_bytes(4, "big")).digest()


WAITING: Final = "waiting.slots"
NEXT: Final = "next.slots"
RELEASE: Final = "release-{}.slots"
ASIDE: Final = "aside-{}.slots"


@dataclass(frozen=True, slots=True)
class Rules:
    """When messages are released: when `least` wait and `every` seconds have passed since the last release.

    `at_most` seconds after the last release, messages are dropped if fewer than `least` have come: a smaller release
    would break the promise, and the collector no longer takes reports of periods that ended long ago. While nothing
    waits, that time moves on in steps of half of this: the first message after a silence has at least half of it.
    Nothing is dropped until the clock has run evenly for an hour, or half of this if that is shorter.

    One sender may have `per_release` messages in a release of `least` (None: a twentieth, and at least one); of a
    larger release, the same share.
    """

    least: int = 1000
    every: float = 86400.0
    at_most: float = 30 * 86400.0
    per_release: int | None = None

    @property
    def of_one(self) -> int:
        return max(1, self.least // 20) if self.per_release is None else self.per_release


class SpoolError(OverstoryError):
    """A spool that cannot be used."""


class Taken(Enum):
    """What became of a message that came."""

    STORED = 1  # it is on the disk, or was before: a copy is not stored again

    FULL = 2
    ENOUGH = 3  # its sender has as many messages as one may have in a release


class Spool:
    """The messages of one shuffling relay, for several threads; `clock` gives unix time, and whether it is trusted."""

    def __init__(self, folder: Path, capacity: int, rules: Rules = Rules(), clock: ClockWatch | None = None) -> None:
        self.folder, self.capacity, self.rules = folder, capacity, rules
        self._clock = clock or ClockWatch(trial=min(TRIAL, rules.at_most / 2))
        self._leapt, self._in_doubt = self._clock.leapt, False
        self.release: tuple[bytes, SlotFile] | None = None
        self.totals = Counter[str]()  # since the start: messages taken, refused, dropped, moved out; releases
        self._busy = Lock()
        self._opened = ExitStack()
        with ExitStack() as opening:
            make_folder(folder)
            try:
                opening.enter_context(locked(folder / "lock", 0.0))
            except StateError:
                raise SpoolError(
                    f"{folder}: another relay uses this spool: stop it, or give this one a --spool of its own"
                ) from None
            self._gather(self._open_waiting())
            self.observe()
            opening.callback(self._close_files)
            self.release = self._open_release()
            self._opened = opening.pop_all()

    def _open_waiting(self) -> SlotFile:
        waiting, fresh = self.folder / WAITING, self.folder / NEXT
        if not waiting.exists():  # it has just become a release, or the folder is new
            SlotFile.create(fresh, self.capacity, self._now())
            fresh.rename(waiting)
            sync_folder(self.folder)
        fresh.unlink(missing_ok=True)
        return SlotFile(waiting)

    def _gather(self, waiting: SlotFile) -> None:
        """Let messages come into a file, and count them and their senders by hashes; all earlier ones are forgotten."""
        self._waiting, self._key = waiting, secrets.token_bytes(32)
        self._sent, self._earlier = Counter[bytes](), waiting.most_of_one  # now, and before the relay was started
        read = (waiting.read(head) for head in waiting.heads)
        self._held = {self._digest(message) for message in read if message is not None}

    def _digest(self, message: bytes) -> bytes:
        return blake2b(message, digest_size=16, key=self._key).digest()

    def _open_release(self) -> tuple[bytes, SlotFile] | None:
        paths = sorted(self.folder.glob(RELEASE.format("*")))
        if not paths:
            return None
        digits = paths[0].name.removeprefix("release-").removesuffix(".slots")
        if len(paths) > 1 or len(digits) != 2 * ID_BYTES:
            names = ", ".join(path.name for path in paths)
            raise SpoolError(f"{self.folder}: there is one release at a time, and here are {names}: keep one of them")
        return bytes.fromhex(digits), SlotFile(paths[0])

    def _now(self) -> int:
        return int(self._clock.read())

    def observe(self) -> None:
        """Look at the clock: where it was set, the times of the messages that wait move with it."""
        with self._busy:
            now, waiting = self._now(), self._waiting
            leap, self._leapt = int(self._clock.leapt - self._leapt), self._clock.leapt
            waiting.began, waiting.since = min(waiting.began + leap, now), min(waiting.since + leap, now)
            if leap:
                waiting.count_from(waiting.since)

    @property
    def count(self) -> int:
        return len(self._held)

    @property
    def most_of_one(self) -> int:
        """No sender has more of the messages that wait: before a restart it sent as many as any did then."""
        return self._waiting.most_of_one

    @property
    def enough(self) -> bool:
        """Whether `least` messages wait, and no sender can have a larger share of them than `of_one` / `least`."""
        least = self.rules.least
        return self.count >= least and self.count * self.rules.of_one >= least * self.most_of_one

    @property
    def age(self) -> float:
        """Seconds since the last release, since messages were dropped, or since the folder was made."""
        return max(0.0, self._clock.read() - self._waiting.began)

    @property
    def waited(self) -> float:
        """Seconds that the messages are taken to have waited: no message that waits came earlier."""
        return max(0.0, self._clock.read() - self._waiting.since)

    @property
    def may_drop(self) -> bool:
        """Whether messages wait that are too few and too old, by a clock that can be trusted."""
        return bool(self.count) and not self.enough and self.waited >= self.rules.at_most and self._clock.trusted

    def put(self, messages: Sequence[bytes], senders: Sequence[bytes]) -> list[Taken]:
        """Write messages durably; return each outcome. `waited` moves in steps, so no message's moment is written."""
        with self._busy:
            step = self.rules.at_most // 2
            if not self.count and self.waited >= step:
                self._waiting.count_from(self._waiting.since + int(self.waited // step * step))
            digests = [self._digest(message) for message in messages]
            fresh: dict[bytes, tuple[bytes, bytes]] = {}
            refused = set()
            for digest, sender, message in zip(digests, senders, messages, strict=True):
                if digest in self._held or digest in fresh:
                    continue
                if self._sent[sender] >= self.rules.of_one:
                    refused.add(digest)
                    continue
                refused.discard(digest)  # another sender may have it
                fresh[digest] = sender, message
                self._sent[sender] += 1
            self._store(fresh)
            failed = {digest: Taken.ENOUGH if digest in refused else Taken.FULL for digest in digests}
            return [Taken.STORED if digest in self._held else failed[digest] for digest in digests]

    def _store(self, fresh: Mapping[bytes, tuple[bytes, bytes]]) -> None:
        """Write messages whose senders are counted; after an error they stay counted, as they may be on the disk."""
        of_one = self._earlier + max((self._sent[sender] for sender, _ in fresh.values()), default=0)
        if of_one > self._waiting.most_of_one:
            self._waiting.allow(of_one)
        self._in_doubt = True
        fitting = self._waiting.add([message for _, message in fresh.values()])
        self._in_doubt = False
        for (digest, (sender, _)), fits in zip(fresh.items(), fitting, strict=True):
            if fits:
                self._held.add(digest)
            else:
                self._sent[sender] -= 1
                if not self._sent[sender]:
                    del self._sent[sender]

    def seal(self) -> None:
        """Make a release of all messages that wait, if they are enough: its id is durable when this returns."""
        waiting, fresh = self.folder / WAITING, self.folder / NEXT
        SlotFile.create(fresh, self.capacity, self._now())  # this takes a while, and messages may come meanwhile
        with self._busy:
            if self.release is not None:
                raise SpoolError(f"{self.folder}: a release is being sent")
            if not self.enough:  # a sender has sent more meanwhile
                fresh.unlink()
                return
            identity = secrets.token_bytes(ID_BYTES)
            sealed = self.folder / RELEASE.format(identity.hex())
            waiting.rename(sealed)
            try:
                sync_folder(self.folder)
                fresh.rename(waiting)
                sync_folder(self.folder)
                gathering = SlotFile(waiting)
            except (OSError, MemoryError):
                sealed.rename(waiting)  # what comes now is written to it
                raise
            released = self._waiting
            self._gather(gathering)
            released.path = sealed
            self.release = identity, released

    def done(self, heads: Sequence[int], outcome: Mapping[str, int]) -> None:
        """Count how the collector answered a part of the release, and remove what needs no sending any more."""
        with self._busy:
            assert self.release is not None
            self.totals.update(outcome)
            self.release[1].wipe(heads)

    def set_aside(self, heads: Sequence[int]) -> Path | None:
        """Write messages of the release to a file of their own, and count them; None where too many are there."""
        with self._busy:
            assert self.release is not None
            identity, file = self.release
            messages = [message for message in map(file.read, heads) if message is not None]
            slots = sum(map(slots_of, messages))
            path = self.folder / ASIDE.format(identity.hex())
            others = [other.stat().st_size for other in self.folder.glob(ASIDE.format("*")) if other != path]
            fits = slots + sum(others) // SLOT <= self.capacity
            if fits:
                SlotFile.create(path, slots, 0)
                with closing(SlotFile(path)) as aside:
                    aside.add(messages)
            self.totals["moved out" if fits else "lost"] += len(messages)
            return path if fits else None

    def finish(self) -> None:
        with self._busy:
            assert self.release is not None
            _, file = self.release
            file.path.unlink(missing_ok=True)
            sync_folder(self.folder)
            self.release = None
            file.close()
            self.totals["releases"] += 1

    def drop(self) -> int:
        """Remove all messages that wait, unless they are enough by now, and return how many were removed."""
        with self._busy:
            dropped = self.count
            if self.enough:
                return 0
            self._waiting.restart(self._now())
            self._gather(self._waiting)
            self.totals["dropped"] += dropped
            return dropped

    def touch(self) -> None:
        """Change the times of the waiting messages' file; after a failed write, read what it holds."""
        with self._busy:
            self._waiting.touch()
            if self._in_doubt:
                before = self._waiting
                self._gather(SlotFile(before.path))
                before.close()
                self._in_doubt = False

    def close(self) -> None:
        with self._busy:
            self._opened.close()

    def _close_files(self) -> None:
        self._waiting.close()
        if self.release is not None:
            self.release[1].close()
