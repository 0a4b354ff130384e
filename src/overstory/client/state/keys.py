"""The key tree: one secret for all metrics, from which the key of one can be taken away for ever.

A binary tree over 64-bit leaves (Goldreich, Goldwasser, Micali 1986): a child is a keyed hash of its parent, a metric's
leaf is a hash of its id, and the leaf's key is the *metric key*, from which the metric's cohort, permanent responses,
tags and reports on this device follow. Whoever holds the root has every key. `KeyTree.without` takes one away: the
nodes on its path go, the siblings along the path stay, and no other key is lost (a puncturable function: Green and
Miers 2015).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from overstory.protocol.mechanisms.payloads import as_googles_client

if TYPE_CHECKING:
    from overstory.client.state.secret_file import DeviceSecret
    from overstory.protocol.mechanisms.base import Mechanism
    from overstory.protocol.metrics import Metric

DEPTH: Final = 64
KEY_BYTES: Final = 32
_PERSON: Final = b"key tree"
_SIDES: Final = {"0": b"\0", "1": b"\1"}


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree, which stands for all leaves below it.

    Attributes
    ----------
    depth, prefix
        Its place: the first `depth` bits of every leaf below it.
    """

    depth: int
    prefix: int
    key: bytes = field(repr=False)  # its 32 bytes

    def covers(self, leaf: int) -> bool:
        """Whether a leaf lies below it, or is it."""
        return leaf >> (DEPTH - self.depth) == self.prefix

    def child(self, bit: int) -> Node:
        """Return the left (0) or right (1) child."""
        return Node(self.depth + 1, self.prefix << 1 | bit, _child(self.key, bit))


def _child(key: bytes, bit: int) -> bytes:
    return hashlib.blake2b(b"\1" if bit else b"\0", key=key, digest_size=KEY_BYTES, person=_PERSON).digest()


class KeyTree:
    """What is left of a tree of keys.

    Examples
    --------
    >>> whole = KeyTree.of_root(bytes(32))
    >>> punctured = whole.without("colour")
    >>> punctured.key("colour") is None, punctured.key("engine") == whole.key("engine")
    (True, True)
    """

    __slots__ = ("_nodes",)

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = tuple(nodes)

    @classmethod
    def of_root(cls, root: bytes) -> KeyTree:
        """Return the whole tree."""
        if len(root) != KEY_BYTES:
            raise ValueError(f"the root of a key tree has {KEY_BYTES} bytes, not {len(root)}")
        return cls([Node(0, 0, root)])

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __repr__(self) -> str:
        return f"KeyTree({len(self._nodes)} nodes)"

    def key(self, metric: str) -> bytes | None:
        """Return a metric's key; None where it was taken away."""
        leaf = leaf_of(metric)
        node = self._above(leaf)
        if node is None:
            return None
        key, blake2b = node.key, hashlib.blake2b
        for bit in f"{leaf:0{DEPTH}b}"[node.depth :]:  # as `_child` does, without a call for each level
            key = blake2b(_SIDES[bit], key=key, digest_size=KEY_BYTES, person=_PERSON).digest()
        return key

    def without(self, metric: str) -> KeyTree:
        """Return the tree from which this metric's key cannot be derived, and every other one can."""
        leaf = leaf_of(metric)
        node = above = self._above(leaf)
        if node is None:
            return self
        siblings = []
        for place in range(DEPTH - node.depth - 1, -1, -1):
            bit = leaf >> place & 1
            siblings.append(node.child(1 - bit))
            node = node.child(bit)
        return KeyTree([*(one for one in self._nodes if one is not above), *siblings])

    def _above(self, leaf: int) -> Node | None:
        return next((node for node in self._nodes if node.covers(leaf)), None)


def leaf_of(metric: str) -> int:
    """Return the number of a metric's leaf."""
    return int.from_bytes(
        hashlib.blake2b(metric.encode(), digest_size=DEPTH // 8, person=b"metric leaf").digest(), "big"
    )


@dataclass(frozen=True)
class MetricKey:
    """What everything of a metric on this device is derived from."""

    mechanism: Mechanism  # the metric's, with the permanent round that goes with the key
    key: bytes = field(repr=False)  # the metric key; for a metric that version 1 of the secret reported on, that secret


def metric_key(secret: DeviceSecret, metric: Metric, *, legacy: bool = False) -> MetricKey | None:
    """Return what a metric is derived from; None where its key was destroyed.

    Parameters
    ----------
    legacy
        Whether its reports so far were made with a secret of version 1: it goes on with that one's derivation.
    """
    key = secret.key(metric.id)
    if key is None:
        return None
    if legacy and secret.legacy is not None:
        return MetricKey(as_googles_client(metric.mechanism), secret.legacy)
    return MetricKey(metric.mechanism, key)
