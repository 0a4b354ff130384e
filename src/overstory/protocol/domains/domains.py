"""Domains: sets of values; a finite one is numbered from 0. Here: what every domain answers, and named values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Final

from overstory.protocol.errors import ParameterError

MAX_SIZE: Final = 1 << 20  # the most symbols that a domain may have
FIELDS: Final = {"min": "minimum", "max": "maximum"}
"""Parameters whose names are functions of Python, and what domains call them."""
MOST_NAMES: Final = 20  # as many names are listed in words


class AnyDomain(ABC):
    """A set of values, finite or not."""

    kind: ClassVar[str]  # its name in a registry
    value_type: ClassVar[type[str | int | float | tuple[Any, ...]]] = str  # what an application measures
    value_word: ClassVar[str] = "value"  # what a person calls one
    choices: tuple[str, ...] = ()  # the values, where they are named one by one
    is_finite: ClassVar[bool] = False  # whether each value is a symbol
    reading: ClassVar[str | None] = None  # how its estimates are read, where that does not depend on the mechanism

    @property
    @abstractmethod
    def families(self) -> tuple[str, ...]:
        """The families of mechanisms that take its values: see `overstory.protocol.kinds.registry`."""

    @abstractmethod
    def completes(self, metric: str) -> dict[str, Any]:
        """Return the mechanism's parameters that follow from the domain and the metric's id, by name."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """How many symbols there are; None for strings."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """What each symbol is called; empty for strings."""

    @property
    @abstractmethod
    def ordered(self) -> bool:
        """Whether neighbouring symbols are neighbouring values: whether ranges and smoothing mean anything."""

    @property
    def refuses(self) -> bool:
        """Whether a value of the right type may be outside."""
        return False

    @property
    def num_values(self) -> int | None:
        """How many values a mechanism distinguishes; None where there is no end."""
        return self.size

    @abstractmethod
    def encode(self, value: Any) -> Any:
        """Return the symbol, or the string, that a mechanism takes for a value; ParameterError outside the domain."""

    def read(self, text: str) -> Any:
        """Return the value that a text stands for; ValueError where it stands for none."""
        return self.value_type(text)

    @abstractmethod
    def label(self, encoded: Any) -> str:
        """Return what an encoded value is called."""

    def examples(self) -> Sequence[Any]:
        """Return a value for each symbol; none of strings."""
        return ()

    @abstractmethod
    def encodings(self, labels: Sequence[str]) -> Sequence[Any]:
        """Return what a mechanism takes for each of the labels that are estimated."""

    def ends(self, symbol: int) -> tuple[float, float] | None:  # noqa: ARG002 - names and strings have none
        """Return the least and the greatest number that has the symbol; None where these are no numbers."""
        return None

    @abstractmethod
    def describe(self, num_candidates: int | None = None) -> str:
        """Say to a person what a report can be about; of strings, with how many candidates, where they were read."""

    def canonical(self) -> dict[str, Any]:
        """Return the parameters that a report's meaning depends on, as JSON values; `domain_from` is the inverse."""
        given = {field.name: _as_json(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"domain": self.kind, **{_SHORT.get(name, name): value for name, value in given.items()}}

    @property
    def numbering(self) -> Any:
        """What decides which value is which symbol: the canonical form without `ordered`, also of its parts."""
        return _without_order(self.canonical())

    def to_json(self) -> dict[str, Any]:
        """Return the same, and what a registry says besides."""
        return self.canonical()


_SHORT: Final = {name: short for short, name in FIELDS.items()}


def _as_json(value: Any) -> Any:
    if hasattr(value, "canonical"):  # a domain within another
        return value.canonical()
    return [_as_json(part) for part in value] if isinstance(value, tuple) else value


def _without_order(form: Any) -> Any:
    if isinstance(form, Mapping):
        return {key: _without_order(value) for key, value in form.items() if key != "ordered"}
    return [_without_order(part) for part in form] if isinstance(form, list) else form


class Domain(AnyDomain):
    """A finite set of values, numbered."""

    is_finite: ClassVar[bool] = True
    is_variable: ClassVar[bool] = True  # whether a table may have it as one of its variables

    @property
    @abstractmethod
    def size(self) -> int:
        """How many symbols there are."""

    @property
    def families(self) -> tuple[str, ...]:
        return ("symbols", "ordered") if self.ordered else ("symbols",)

    def completes(self, metric: str) -> dict[str, Any]:  # noqa: ARG002 - whatever the metric
        return {"domain_size": self.size}

    @abstractmethod
    def symbol(self, value: Any) -> int:
        """Return the symbol of `value`, or raise ParameterError where it has none."""

    @abstractmethod
    def examples(self) -> tuple[Any, ...]:
        """Return a value for each symbol."""

    def encode(self, value: Any) -> int:
        return self.symbol(value)

    def label(self, encoded: Any) -> str:
        label: str = self.labels[encoded]
        return label

    def encodings(self, labels: Sequence[str]) -> Sequence[int]:
        return range(len(labels))


def check_size(size: int, what: str) -> None:
    """Raise ParameterError unless a domain may have so many symbols."""
    if not 2 <= size <= MAX_SIZE:
        raise ParameterError(f"{size} {what}: a domain has from 2 to {MAX_SIZE} symbols")


@dataclass(frozen=True)
class Categories(Domain):
    """Named values; their order is the symbols' order."""

    names: tuple[str, ...]
    other: str | None = None  # a name for every value that is not listed: the last symbol; None: it is refused
    ordered: bool = False  # whether the names ascend

    kind = "categories"

    def __post_init__(self) -> None:
        if isinstance(self.names, str):  # type: ignore[unreachable] # a tuple by its type, not by its caller
            raise ParameterError(f"names = {self.names!r} is one string: give a list of names")
        object.__setattr__(self, "names", tuple(self.names))
        wrong = [name for name in self.labels if not isinstance(name, str)]
        if wrong:
            raise ParameterError(f"the category {wrong[0]!r} is no string: name categories by strings")
        if len(set(self.labels)) < self.size:
            twice = next(name for i, name in enumerate(self.labels) if name in self.labels[:i])
            raise ParameterError(f"the category {twice!r} comes twice: each may be listed once")
        if self.other is not None and self.ordered:
            raise ParameterError("an ordered domain has no place for other values: leave out `other` or `ordered`")
        check_size(self.size, "categories")

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override] # nobody sets it
        return self.names

    @property
    def refuses(self) -> bool:
        return self.other is None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return self.names if self.other is None else (*self.names, self.other)

    @cached_property
    def _symbols(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.labels)}

    def symbol(self, value: Any) -> int:
        if not isinstance(value, str):
            raise ParameterError(f"a category is a string, not {value!r}")
        symbol = self._symbols.get(value, None if self.other is None else self.size - 1)
        if symbol is None:
            shown = ", ".join(map(repr, self.names[:8])) + (", ..." if len(self.names) > 8 else "")
            raise ParameterError(f"{value!r} is not a category: choose one of {shown}")
        return symbol

    def examples(self) -> tuple[str, ...]:
        return self.labels

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - the names are the candidates
        names = ", ".join(self.names[:MOST_NAMES]) + (", ..." if len(self.names) > MOST_NAMES else "")
        others = "nothing" if self.other is None else self.other
        return f"one of {self.size}: {names}; any other value is reported as {others}"


MOST_BYTES: Final = 1 << 16  # of a string, in UTF-8


@dataclass(frozen=True)
class Strings(AnyDomain):
    """Any string: which ones are looked for is decided when reports are decoded."""

    candidates: str | None = None  # the file of candidates, one per line, as the registry names it

    size = None
    labels = ()
    ordered = False
    kind = "strings"
    families = ("strings",)

    def __post_init__(self) -> None:
        if not isinstance(self.candidates, str | None):
            raise ParameterError(f"candidates = {self.candidates!r:.80}: give the name of a file, one candidate a line")

    def completes(self, metric: str) -> dict[str, Any]:
        """Return the key of the hash: two metrics hash strings differently."""
        return {"hash_key": metric}

    def encode(self, value: Any) -> str:
        """Return a string, or raise ParameterError for anything else, and for one that no candidate list holds."""
        if not isinstance(value, str):
            raise ParameterError(f"this metric takes a string, not {type(value).__name__}")
        if len(value) > MOST_BYTES or len(value.encode("utf-8", "surrogatepass")) > MOST_BYTES:
            raise ParameterError(f"a string of {len(value)} characters is too long: give at most {MOST_BYTES} bytes")
        return value

    def label(self, encoded: Any) -> str:
        return str(encoded)

    def encodings(self, labels: Sequence[str]) -> Sequence[str]:
        return labels

    def describe(self, num_candidates: int | None = None) -> str:
        if num_candidates is None:
            return "any text, hashed; which texts are looked for is decided later"
        return f"any text, hashed; {num_candidates:,} texts are looked for (the file {self.candidates})"

    def canonical(self) -> dict[str, Any]:
        return {"domain": self.kind}

    def to_json(self) -> dict[str, Any]:
        return self.canonical() | ({} if self.candidates is None else {"candidates": self.candidates})
