"""Sets of items: what a question with several answers takes, such as the plug-ins that are installed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, ClassVar, Final

from overstory.protocol.domains.domains import MOST_NAMES, AnyDomain, Domain
from overstory.protocol.domains.numbers import whole
from overstory.protocol.errors import ParameterError

SEPARATOR: Final = ";"  # between the items of a set that is written as a text
MOST_LISTED: Final = 4096  # as many sets are listed one by one
MOST_GIVEN: Final = 1 << 16  # as many items are looked at in one value, repetitions included


@dataclass(frozen=True)
class ItemSet(AnyDomain):
    """Sets of the symbols of a finite domain, the empty set included; an item counts once, however often it is given.

    A set may have more than `most` items: it is a value like any other, but its report speaks of a random part of it,
    of `most` items, which the device's secret decides. Each of its s items is then counted with probability
    ``most / s``, so estimates of counts, and of the mean size, are too low by what such devices have above `most`.
    """

    of: Domain  # of one item
    most: int  # as many items of one set count

    kind: ClassVar[str] = "set"
    families: ClassVar[tuple[str, ...]] = ("sets",)
    value_type: ClassVar[type[Any]] = frozenset
    value_word: ClassVar[str] = "set"
    reading: ClassVar[str] = "items"
    ordered = False

    def __post_init__(self) -> None:
        of: Any = self.of
        if not getattr(of, "is_finite", False):
            raise ParameterError(
                f"a set of {getattr(of, 'kind', repr(of))}: give the domain of one item, which has to be finite"
            )
        object.__setattr__(self, "most", whole("most", self.most))
        if not 1 <= self.most <= self.of.size:
            raise ParameterError(f"most = {self.most}: of {self.of.size} items, give a whole number from 1 to all")

    @property
    def size(self) -> int:
        return self.of.size

    @property
    def labels(self) -> tuple[str, ...]:
        return self.of.labels

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override] # nobody sets it
        return self.of.choices

    @property
    def refuses(self) -> bool:
        return self.of.refuses

    def completes(self, metric: str) -> dict[str, Any]:  # noqa: ARG002 - of any metric
        return {"domain_size": self.size, "most": self.most}

    def encode(self, value: Any) -> tuple[int, ...]:
        """Return the symbols of the items, ascending, each once; ParameterError where it is no set of items."""
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ParameterError(f"{value!r:.100} is no set of items: give a set or a list, {{...}} or [...]")
        given = list(islice(value, MOST_GIVEN + 1))
        if len(given) > MOST_GIVEN:
            raise ParameterError(f"more than {MOST_GIVEN} items in one value: give each item once")
        return tuple(sorted({self.of.symbol(item) for item in given}))

    def read(self, text: str) -> frozenset[Any]:
        items = (item.strip() for item in text.split(SEPARATOR))
        return frozenset(self.of.read(item) for item in items if item)

    def label(self, encoded: Any) -> str:
        return ", ".join(self.labels[symbol] for symbol in encoded) or "no item"

    def examples(self) -> Sequence[frozenset[Any]]:
        return tuple(frozenset([item]) for item in self.of.examples())

    @property
    def num_values(self) -> int | None:
        return 1 << self.size

    def encodings(self, labels: Sequence[str]) -> Sequence[tuple[int, ...]]:
        """Return all sets of at most `most` items, or of fewer, so that there are at most 4,096; always those of 1."""
        sizes = range(self.most + 1)
        upto = (k for k in sizes if sum(math.comb(len(labels), size) for size in sizes[: k + 1]) <= MOST_LISTED)
        largest = max(1, *upto, 0)
        return [items for k in sizes[: largest + 1] for items in combinations(range(len(labels)), k)]

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - the items are the candidates
        names = ", ".join(self.labels[:MOST_NAMES]) + (", ..." if self.size > MOST_NAMES else "")
        return (
            f"which of {self.size} items apply: {names}; of a set of more than {self.most}, "
            f"a random part of {self.most} counts"
        )


def item_set(
    build: Callable[[Mapping[str, Any]], Any],
    *,
    of: Sequence[str] | Mapping[str, Any],
    most: int | None = None,
    other: str | None = None,
) -> ItemSet:
    """Return the sets of listed names, or of a domain's symbols; `build` makes the domain of one item."""
    if isinstance(of, Mapping):
        if other is not None:
            raise ParameterError("other: an item's own domain says what happens to other items; give it in `of`")
        items = build(of)
    else:
        items = build({"domain": "categories", "names": of, "other": other})
    return ItemSet(items, items.size if most is None else most)
