"""Sets of items as bits, and as one item drawn from the set after it was padded.

An item is a symbol of ``0 .. domain_size - 1``; a set is a tuple of items, ascending, each once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from overstory.protocol.channels import Differences
from overstory.protocol.encodings.base import (
    MAX_BITS,
    MAX_SYMBOLS,
    AnyEncoding,
    Encoding,
    Shape,
    check_count,
    check_symbol,
)
from overstory.protocol.encodings.bits import OneHot
from overstory.protocol.errors import ParameterError
from overstory.protocol.sampling import Entropy, uniform_below

Items = tuple[int, ...]


def check_items(value: Any, domain_size: int) -> Items:
    """Return a set of items in its one form, or raise ParameterError.

    >>> check_items({5, 2}, 8), check_items([], 8)
    ((2, 5), ())
    """
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise ParameterError(f"{value!r:.100} is no set of items: give an iterable of whole numbers")
    return tuple(sorted({check_symbol(item, domain_size) for item in value}))


def items_key(items: Items) -> bytes:
    """Return bytes that no other set has."""
    return ",".join(map(str, items)).encode()


@dataclass(frozen=True)
class ItemBits(Encoding):
    """A bit for each item; a set of more than `most` items sets the bits of `most` of them, drawn at random.

    >>> ItemBits(10, 3).differences, ItemBits(4, 3).differences
    (((3, 3),), ((1, 3), (2, 2), (3, 1)))
    """

    domain_size: int
    most: int

    num_cohorts: ClassVar[int] = 1
    most_values: ClassVar[None] = None  # there are more sets than anybody can count
    server: ClassVar[str] = "analysis.support.item_sets:ItemBitSupport"

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_BITS)
        check_count("most", self.most, 1, self.domain_size)

    @property
    def num_bits(self) -> int:
        return self.domain_size

    @property
    def ones(self) -> tuple[int, int]:
        return 0, self.most

    @property
    def differences(self) -> Differences:
        """Two sets that share no item; where they would need more items than there are, they use all of them."""
        size, most = self.domain_size, self.most
        if 2 * most <= size:
            return ((most, most),)
        return tuple((lowered, size - lowered) for lowered in range(size - most, most + 1))

    def shapes(self, *, equal_bits: bool) -> tuple[Shape, ...]:
        """Return the corners of all that two sets can be: see `Encoding.shapes`.

        With l bits lowered, r raised and b in both: ``b + l`` and ``b + r`` are at most `most`, and ``b + l + r`` at
        most all. The corners of that, with ``l + r >= 1``, have b at one of its ends, and l and r among a few.
        Two sets of more than `most` items may set equal bits: then b is `most`.
        """
        size, most = self.domain_size, self.most
        rest = min(most, size - most)
        far = {(most, rest), (rest, most), (rest, rest), (most, 0), (0, most)}
        shapes = [Shape(most, 0, 0, size - most)] if equal_bits and most < size else []
        for lowered, raised in sorted({(0, 1), (1, 0), (1, 1), *far} - {(0, 0)}):
            room = min(most - max(lowered, raised), size - lowered - raised)
            shapes += [Shape(b, lowered, raised, size - lowered - raised - b) for b in sorted({0, room}) if room >= 0]
        return tuple(shapes)

    def positions(self, value: Any, cohort: int) -> Items:  # noqa: ARG002 - one cohort encodes as any
        """Return the items of a set of at most `most`."""
        items = check_items(value, self.domain_size)
        if len(items) > self.most:
            raise ParameterError(f"a set of {len(items)} items sets the bits of a random part of {self.most}")
        return items

    def counted(self, items: Items, entropy: Entropy) -> Items:
        """Return the items whose bits are set: all, or `most` of them, drawn without replacement (Fisher and Yates)."""
        if len(items) <= self.most:
            return items
        left = list(items)
        for place in range(self.most):
            drawn = place + uniform_below(len(left) - place, entropy)
            left[place], left[drawn] = left[drawn], left[place]
        return tuple(sorted(left[: self.most]))

    def canonical(self) -> dict[str, Any]:
        return {"encoding": "item-bits", "domain_size": self.domain_size, "most": self.most}


@dataclass(frozen=True)
class PaddedItems(AnyEncoding):
    """One item of a set that was padded with dummies to `length`; of a larger set, one of all its items.

    The dummies are the symbols from `domain_size` on. With one dummy, all padding is that one; otherwise there are
    `length` of them, and no padded set has one twice.
    """

    domain_size: int
    length: int
    num_dummies: int

    server: ClassVar[str] = "analysis.support.item_sets:PaddedSupport"
    num_cohorts: ClassVar[int] = 1

    def __post_init__(self) -> None:
        OneHot(self.domain_size)
        check_count("length", self.length, 1, self.domain_size)
        check_count("num_dummies", self.num_dummies, 1, MAX_SYMBOLS)
        if self.num_dummies not in {1, self.length}:
            raise ParameterError(f"num_dummies = {self.num_dummies}: give 1, or as many as length = {self.length}")

    @property
    def num_symbols(self) -> int:
        return self.domain_size + self.num_dummies

    def padded(self, items: Items) -> Items:
        """Return the symbols of which one is drawn, all equally likely."""
        missing = self.length - len(items)
        dummies = range(missing) if self.num_dummies > 1 else (0,) * missing
        return (*items, *(self.domain_size + dummy for dummy in dummies))

    def draw(self, items: Items, entropy: Entropy) -> int:
        """Return one of the padded symbols."""
        padded = self.padded(items)
        return padded[uniform_below(len(padded), entropy)]

    def canonical(self) -> dict[str, Any]:
        return {"domain_size": self.domain_size, "length": self.length, "num_dummies": self.num_dummies}
