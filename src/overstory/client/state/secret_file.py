"""The device's secret: the tree of keys from which cohorts, permanent responses and reports follow, and its file.

One secret for all metrics, from which the key of one can be destroyed: a binary tree over 64-bit leaves (Goldreich,
Goldwasser, Micali 1986). A child is a keyed hash of its parent, a metric's leaf is a hash of its id, and the leaf's key
is the *metric key*. Whoever holds the root has every key. `DeviceSecret.without` takes one away: the nodes on its path
go, the siblings along the path stay, and no other key is lost (a puncturable function: Green and Miers 2015).

The file:

    magic "OVSS" | version u8 = 1 | 3 zero bytes | fingerprint 16 bytes | nodes u32
    for each node: depth u8 | prefix u64 | key 32 bytes | at the end: the first 12 bytes of BLAKE2b of all the above

Integers are little-endian. A fresh secret is one node, the root.

The fingerprint is the root's and never changes; the database has it too. A lost or altered secret differs from a device
that never had one, and is never replaced silently: a fresh one would draw every permanent response again, and with it
the privacy loss of every value would start again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from overstory.client.outcomes import Fault, StateError, of_other_version
from overstory.client.state.files import StatePaths, create, opened_own, sync_folder

DEPTH: Final = 64
KEY_BYTES: Final = 32
_PERSON: Final = b"key tree"
_SIDES: Final = {"0": b"\0", "1": b"\1"}
_HEAD: Final = b"OVSS\x01\0\0\0"
_CHECK: Final = 12
_LENGTHS: Final = struct.Struct("<16sI")
_NODE: Final = struct.Struct("<BQ32s")


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree: all leaves below it, whose first `depth` bits are `prefix`."""

    depth: int
    prefix: int
    key: bytes = field(repr=False)  # its 32 bytes

    def covers(self, leaf: int) -> bool:
        return leaf >> (DEPTH - self.depth) == self.prefix

    def child(self, bit: int) -> Node:
        key = hashlib.blake2b(_SIDES[str(bit)], key=self.key, digest_size=KEY_BYTES, person=_PERSON).digest()
        return Node(self.depth + 1, self.prefix << 1 | bit, key)


def leaf_of(metric: str) -> int:
    """Return the number of a metric's leaf."""
    return int.from_bytes(
        hashlib.blake2b(metric.encode(), digest_size=DEPTH // 8, person=b"metric leaf").digest(), "big"
    )


class DeviceSecret:
    """What is left of a tree of keys; neither `repr` nor pickle gives it away."""

    __slots__ = ("_nodes", "fingerprint")

    def __init__(self, nodes: Iterable[Node], fingerprint: bytes) -> None:
        self._nodes, self.fingerprint = tuple(nodes), fingerprint

    @classmethod
    def fresh(cls) -> DeviceSecret:
        return cls.of_root(os.urandom(KEY_BYTES))

    @classmethod
    def of_root(cls, root: bytes) -> DeviceSecret:
        """Return the secret with this root: a given one for simulations and vectors, where fresh ones would differ."""
        if len(root) != KEY_BYTES:
            raise ValueError(f"the root of a key tree has {KEY_BYTES} bytes, not {len(root)}")
        fingerprint = hashlib.blake2b(root, digest_size=16, person=b"fingerprint").digest()
        return cls([Node(0, 0, root)], fingerprint)

    def key(self, metric: str) -> bytes | None:
        """Return a metric's key; None where it was destroyed."""
        leaf = leaf_of(metric)
        node = self._above(leaf)
        if node is None:
            return None
        key, blake2b = node.key, hashlib.blake2b
        for bit in f"{leaf:0{DEPTH}b}"[node.depth :]:  # as `child` does, without a call for each level
            key = blake2b(_SIDES[bit], key=key, digest_size=KEY_BYTES, person=_PERSON).digest()
        return key

    def without(self, metrics: Iterable[str]) -> DeviceSecret:
        """Return the secret from which the keys of these metrics cannot be derived, and every other one can."""
        secret = self
        for leaf in map(leaf_of, sorted(metrics)):
            node = above = secret._above(leaf)
            if node is None:
                continue
            nodes = [other for other in secret._nodes if other is not above]
            for place in range(DEPTH - node.depth - 1, -1, -1):
                bit = leaf >> place & 1
                nodes.append(node.child(1 - bit))
                node = node.child(bit)
            secret = DeviceSecret(nodes, self.fingerprint)
        return secret

    def _above(self, leaf: int) -> Node | None:
        return next((node for node in self._nodes if node.covers(leaf)), None)

    def reveal(self) -> bytes:
        """Return the file's content, without the checksum."""
        lengths = _LENGTHS.pack(self.fingerprint, len(self._nodes))
        return b"".join((_HEAD, lengths, *(_NODE.pack(node.depth, node.prefix, node.key) for node in self._nodes)))

    def __repr__(self) -> str:
        return f"DeviceSecret(fingerprint={self.fingerprint.hex()[:8]})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a device's secret is not pickled: open the state where it is needed")


def read_secret(path: Path) -> DeviceSecret | None:
    """Return the secret in a file, or None when there is no file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(Fault.UNREADABLE, f"{path}: {error.strerror}; it must be readable by its owner") from error
    body, check = content[:-_CHECK], content[-_CHECK:]
    whole = check == _checksum(body)
    if whole and body[:4] == _HEAD[:4] and body[4:5] != _HEAD[4:5]:
        raise of_other_version(str(path), body[4], _HEAD[4])
    secret = _parsed(body) if whole else None
    if secret is None:
        raise StateError(
            Fault.DAMAGED,
            f"{path}: this is not the secret that was written; restore it from a backup, or forget the state: "
            "a fresh secret would restart the privacy loss",
        )
    return secret


def write_secret(path: Path, secret: DeviceSecret) -> None:
    """Write a secret to a new file."""
    body = secret.reveal()
    create(path, body + _checksum(body))


def replace_secret(paths: StatePaths, secret: DeviceSecret) -> None:
    """Replace a secret and overwrite the old one's bytes; after a crash, `discard_replaced` does the rest."""
    discard_replaced(paths)
    write_secret(paths.next, secret)
    with contextlib.suppress(OSError):  # a file system without hard links: the old bytes are unlinked alone
        os.link(paths.secret, paths.replaced)
    paths.next.replace(paths.secret)
    sync_folder(paths.folder)
    discard_replaced(paths)


def discard_replaced(paths: StatePaths) -> None:
    """Overwrite and unlink what `replace_secret` left where it was killed."""
    for path in (paths.next, paths.replaced):
        if os.path.exists(path):  # noqa: PTH110 - every opening of a state looks
            if not path.samefile(paths.secret):  # else killed before the new file took the name: this is the secret
                overwrite_secret(path)
            path.unlink()
            sync_folder(paths.folder)


def overwrite_secret(path: Path) -> None:
    """Overwrite a secret before it is unlinked; what somebody may have planted is left: links, and others' files."""
    with contextlib.suppress(OSError), opened_own(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())


def _parsed(body: bytes) -> DeviceSecret | None:
    start = len(_HEAD) + _LENGTHS.size
    if not body.startswith(_HEAD) or len(body) < start:
        return None
    fingerprint, count = _LENGTHS.unpack_from(body, len(_HEAD))
    nodes = body[start:]
    if len(nodes) != count * _NODE.size:
        return None
    return DeviceSecret((Node(*each) for each in _NODE.iter_unpack(nodes)), fingerprint)


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, person=b"secret file").digest()[:_CHECK]
