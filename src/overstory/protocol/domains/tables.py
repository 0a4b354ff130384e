"""Several variables in one value: a cell of their table, which is reported at the whole epsilon.

The symbol of a cell is a number in mixed radix: that of the last variable changes first. So a value appended to the
first variable leaves every other cell its symbol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, ClassVar, Final, cast

from overstory.protocol.domains.domains import AnyDomain, Domain, check_size
from overstory.protocol.errors import ParameterError

ALL_PAIRS: Final = "all pairs"  # short for a table of each two variables


@dataclass(frozen=True)
class Variables(AnyDomain):
    """Several variables in one value: what tables of listed values and of strings have in common."""

    of: tuple[AnyDomain, ...]
    names: tuple[str, ...]

    kind = "table"
    ordered = False
    value_type = tuple
    value_word = "combination"
    reading = "table"

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", tuple(self.of))
        object.__setattr__(self, "names", texts("names", self.names))
        check_variables(self.of, self.names)

    @property
    def sizes(self) -> tuple[int | None, ...]:
        return tuple(domain.size for domain in self.of)

    @property
    def refuses(self) -> bool:
        return any(domain.refuses for domain in self.of)

    def encode_parts(self, value: Any) -> Iterator[Any]:
        """Yield the symbol or the string of each variable, or raise ParameterError with its name."""
        for name, domain, part in zip(self.names, self.of, parts_of(self.names, value), strict=True):
            try:
                yield domain.encode(part)
            except ParameterError as error:
                raise ParameterError(f"{name}: {error}") from None

    @property
    def _together(self) -> str:
        return f"{', '.join(self.names)} together"

    def describe(self, num_candidates: int | None = None) -> str:
        each = "; ".join(
            f"{name}: {domain.describe(num_candidates)}" for name, domain in zip(self.names, self.of, strict=True)
        )
        return f"{self._together} (a change of any of them is another value). {each}"


@dataclass(frozen=True)
class Table(Variables, Domain):
    """The combinations of several variables' values, each a symbol.

    **A change of any variable is another value**: it gets a permanent response of its own, and takes one of the
    metric's `max_values`.
    """

    is_variable: ClassVar[bool] = False
    of: tuple[Domain, ...]
    names: tuple[str, ...]
    tables: tuple[tuple[str, ...], ...] = ()  # where devices are divided: the variables of each; a device answers one

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.tables
        pairs = tuple(combinations(self.names, 2))
        tables = pairs if given == ALL_PAIRS else tuple(texts("tables", names) for names in _listed(given))
        object.__setattr__(self, "tables", tables)
        self._check_tables()
        check_size(self.size, "cells")
        if len(set(self.labels)) < self.size:
            raise ParameterError("two cells would have the same name: rename a value or a variable")

    def _check_tables(self) -> None:
        for names in self.tables:
            unknown = [name for name in names if name not in self.names]
            if unknown:
                raise ParameterError(f"tables: {unknown[0]!r} is none of the variables {', '.join(self.names)}")
            if len(set(names)) < len(names) or not names:
                raise ParameterError(f"tables: {list(names)}: name each variable of a table once")
        if len({frozenset(names) for names in self.tables}) < len(self.tables):
            raise ParameterError("tables: the same table is listed twice")
        if self.tables and (left := set(self.names) - {name for names in self.tables for name in names}):
            raise ParameterError(f"tables: {min(left)} is in none of them: remove it from the variables, or add it")

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(domain.size for domain in self.of)

    @property
    def size(self) -> int:
        return math.prod(self.sizes)

    @property
    def families(self) -> tuple[str, ...]:
        """Those that take a cell; of devices divided over tables, the one that divides them."""
        if self.tables:
            return ("divided",)
        return ("symbols", "tuples") if len(self.of) == 2 else ("symbols",)

    def completes(self, metric: str) -> dict[str, Any]:  # noqa: ARG002 - whatever the metric
        if not self.tables:
            return {"domain_size": self.size, "domain_sizes": self.sizes}
        places = (" ".join(str(self.names.index(name)) for name in names) for names in self.tables)
        return {"sizes": " ".join(map(str, self.sizes)), "tables": ", ".join(places)}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        parts = [
            [f"{name}={label}" for label in domain.labels] for name, domain in zip(self.names, self.of, strict=True)
        ]
        return tuple(", ".join(cell) for cell in product(*parts))

    def symbol(self, value: Any) -> int:
        symbol = 0
        for size, part in zip(self.sizes, self.encode_parts(value), strict=True):
            symbol = symbol * size + part
        return symbol

    def split(self, symbol: int) -> tuple[int, ...]:
        """Return the symbol of each variable."""
        parts = []
        for size in reversed(self.sizes):
            symbol, part = divmod(symbol, size)
            parts.append(part)
        return tuple(reversed(parts))

    def read(self, text: str) -> tuple[Any, ...]:
        texts = [part.strip() for part in text.split(",")]
        if len(texts) != len(self.names):
            if text in self._by_label:
                return self._by_label[text]
            raise ParameterError(f"{text!r}: give a value each of {', '.join(self.names)}, with commas between them")
        bare = [part.removeprefix(f"{name}=") for name, part in zip(self.names, texts, strict=True)]
        return tuple(domain.read(part) for domain, part in zip(self.of, bare, strict=True))

    @cached_property
    def _by_label(self) -> dict[str, tuple[Any, ...]]:
        return dict(zip(self.labels, self.examples(), strict=True))

    def examples(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(product(*(domain.examples() for domain in self.of)))

    @property
    def _together(self) -> str:
        if not self.tables:
            return super()._together
        several = " or ".join(" and ".join(names) for names in self.tables)
        return f"one of these, chosen at random: {several}"

    def canonical(self) -> dict[str, Any]:
        form = super().canonical()
        return form if self.tables else {key: value for key, value in form.items() if key != "tables"}


def check_variables(of: Sequence[AnyDomain], names: Sequence[str]) -> None:
    """Raise ParameterError unless there are two variables or more, each with a name of its own."""
    if len(of) < 2:
        raise ParameterError(f"of has {len(of)} domains: a table is of two variables or more")
    if len(names) != len(of):
        raise ParameterError(f"names has {len(names)} names for {len(of)} variables: name each")
    if len(set(names)) < len(names) or not all(names):
        raise ParameterError(f"names = {list(names)}: give each variable a name of its own")


def parts_of(names: Sequence[str], value: Any) -> Sequence[Any]:
    """Return the value of each variable; a value is a tuple or a list in order, or a mapping by name."""
    if isinstance(value, Mapping):
        missing = [name for name in names if name not in value]
        unknown = [name for name in value if name not in names]
        if missing or unknown:
            wrong = f"{missing[0]} is missing" if missing else f"{unknown[0]!r} is none of them"
            raise ParameterError(f"this metric takes {', '.join(names)}: {wrong}")
        return [value[name] for name in names]
    if not isinstance(value, tuple | list) or len(value) != len(names):
        what = f"{len(value)} values" if isinstance(value, tuple | list) else f"{type(value).__name__}"
        raise ParameterError(f"this metric takes a value each of {', '.join(names)}, not {what}")
    return value


def _listed(given: Any) -> Sequence[Any]:
    if not isinstance(given, tuple | list):
        raise ParameterError(f"tables = {given!r}: give lists of variables, or {ALL_PAIRS!r}")
    return given


def texts(what: str, given: Any) -> tuple[str, ...]:
    """Return a list of texts, or raise ParameterError."""
    if not isinstance(given, tuple | list) or not all(isinstance(name, str) for name in given):
        raise ParameterError(f"{what} = {given!r}: give a list of texts")
    return tuple(given)


PAIR: Final = 2  # how many variables linked reports have
MOST_BYTES: Final = 1 << 16  # of a string, in UTF-8


@dataclass(frozen=True)
class Strings(AnyDomain):
    """Any string: which ones are looked for is decided when reports are decoded."""

    candidates: str | None = None  # the file of candidates, one per line, as the registry names it

    size = None
    labels = ()
    ordered = False
    is_variable: ClassVar[bool] = True
    kind = "strings"
    families = ("strings",)

    def __post_init__(self) -> None:
        if not isinstance(self.candidates, str | None):
            raise ParameterError(f"candidates = {self.candidates!r:.80}: give the name of a file, one candidate a line")

    @property
    def candidate_files(self) -> tuple[str | None, ...]:
        return (self.candidates,)

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


@dataclass(frozen=True)
class StringTable(Variables):
    """Pairs of values, at least one of them any string; a pair has no list of cells, so linked reports carry it.

    Each variable has an oracle of its own, and both reports travel together: **a change of one variable redraws
    nothing of the other**, but the pair is another value, and takes one of the metric's `max_values`.
    """

    size = None
    labels = ()
    families = ("tuples",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.of) != PAIR:
            raise ParameterError(f"of has {len(self.of)} domains: strings are linked with one other variable")
        if all(part.is_finite for part in self.of):
            raise ParameterError("of: no variable takes strings; use a table of listed values")

    @property
    def candidate_files(self) -> tuple[str | None, ...]:
        return tuple(name for part in self.of for name in part.candidate_files)

    def completes(self, metric: str) -> dict[str, Any]:
        return {"domain_sizes": self.sizes, "hash_key": metric}

    def encode(self, value: Any) -> tuple[Any, ...]:
        return tuple(self.encode_parts(value))

    def label(self, encoded: Any) -> str:
        each = zip(self.names, self.of, encoded, strict=True)
        return ", ".join(f"{name}={part.label(own)}" for name, part, own in each)

    def read(self, text: str) -> tuple[Any, ...]:
        readings = list(dict.fromkeys(self._readings(text)))
        if len(readings) == 1:
            return readings[0]
        first, second = self.names
        wrong = "several commas may separate them" if readings else "no comma separates a value of each"
        raise ParameterError(f"{text!r:.100}: {wrong}; write {first}=VALUE, {second}=VALUE")

    def _readings(self, text: str) -> Iterator[tuple[Any, ...]]:
        first, second = self.names
        named = text.split(f", {second}=") if text.startswith(f"{first}=") else []
        if len(named) == PAIR:
            yield self._read_parts(named[0].removeprefix(f"{first}="), named[1])
            return
        texts_of_parts = text.split(",")
        for place in range(1, len(texts_of_parts)):
            left, right = (",".join(part).strip() for part in (texts_of_parts[:place], texts_of_parts[place:]))
            try:
                values = self._read_parts(left, right)
                self.encode(values)
            except ValueError:
                continue
            yield values

    def _read_parts(self, *parts: str) -> tuple[Any, ...]:
        return tuple(domain.read(part) for domain, part in zip(self.of, parts, strict=True))

    def encodings(self, labels: Sequence[str]) -> Sequence[tuple[Any, ...]]:
        return [self.encode(self.read(label)) for label in labels]

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - each list has its own number
        return super().describe()

    def to_json(self) -> dict[str, Any]:
        return self.canonical() | {"of": [part.to_json() for part in self.of]}


def table_of(
    build: Callable[[Mapping[str, Any]], AnyDomain], *, of: Any, names: Any, **given: Any
) -> Table | StringTable:
    """Return a table of variables as a registry or a canonical form has them; `build` makes a variable's domain."""
    if not isinstance(of, list | tuple) or not all(isinstance(part, Mapping) for part in of):
        raise ParameterError(f"of = {of!r:.80}: give a list of domains, one for each variable")
    parts: list[AnyDomain] = []
    for number, part in enumerate(of, start=1):
        try:
            domain = build({"domain" if key == "kind" else key: value for key, value in part.items()})
        except ParameterError as error:
            raise ParameterError(f"of: domain {number}: {error}") from None
        if not domain.is_variable:
            raise ParameterError(
                f"of: domain {number} is no list of values: choose categories, integers or bins, or strings"
            )
        parts.append(domain)
    if all(part.is_finite for part in parts):
        return Table(cast("tuple[Domain, ...]", tuple(parts)), names, **given)
    if given:
        raise ParameterError(
            f"{next(iter(given))}: devices are divided over tables of listed values; strings are linked with one "
            "other variable"
        )
    return StringTable(tuple(parts), names)
