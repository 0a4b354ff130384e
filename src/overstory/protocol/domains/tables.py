"""Several variables in one value: a cell of their table, which is reported at the whole epsilon.

The symbol of a cell is a number in mixed radix: that of the last variable changes first. So a value appended to the
first variable leaves every other cell its symbol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, ClassVar, Final

from overstory.protocol.domains.domains import AnyDomain, Domain, check_size
from overstory.protocol.errors import ParameterError

ALL_PAIRS: Final = "all pairs"  # short for a table of each two variables


@dataclass(frozen=True)
class Table(Domain):
    """The combinations of several variables' values, each a symbol.

    **A change of any variable is another value**: it gets a permanent response of its own, and takes one of the
    metric's `max_values`.
    """

    is_variable: ClassVar[bool] = False
    kind = "table"
    ordered = False
    value_type = tuple
    value_word = "combination"
    reading = "table"

    of: tuple[Domain, ...]
    names: tuple[str, ...]
    tables: tuple[tuple[str, ...], ...] = ()  # where devices are divided: the variables of each; a device answers one

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", tuple(self.of))
        object.__setattr__(self, "names", texts("names", self.names))
        self._check_variables()
        given: Any = self.tables
        pairs = tuple(combinations(self.names, 2))
        tables = pairs if given == ALL_PAIRS else tuple(texts("tables", names) for names in _listed(given))
        object.__setattr__(self, "tables", tables)
        self._check_tables()
        check_size(self.size, "cells")
        if len(set(self.labels)) < self.size:
            raise ParameterError("two cells would have the same name: rename a value or a variable")

    def _check_variables(self) -> None:
        """Raise ParameterError unless there are two variables or more, each with a name of its own."""
        if len(self.of) < 2:
            raise ParameterError(f"of has {len(self.of)} domains: a table is of two variables or more")
        if len(self.names) != len(self.of):
            raise ParameterError(f"names has {len(self.names)} names for {len(self.of)} variables: name each")
        if len(set(self.names)) < len(self.names) or not all(self.names):
            raise ParameterError(f"names = {list(self.names)}: give each variable a name of its own")

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
        return ("divided",) if self.tables else ("symbols",)

    @property
    def refuses(self) -> bool:
        return any(domain.refuses for domain in self.of)

    def completes(self, metric: str) -> dict[str, Any]:
        if not self.tables:
            return super().completes(metric)
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
        for name, domain, part in zip(self.names, self.of, parts_of(self.names, value), strict=True):
            try:
                symbol = symbol * domain.size + domain.symbol(part)
            except ParameterError as error:
                raise ParameterError(f"{name}: {error}") from None
        return symbol

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

    def describe(self, num_candidates: int | None = None) -> str:
        several = " or ".join(" and ".join(names) for names in self.tables)
        asked = f"one of these, chosen at random: {several}" if self.tables else f"{', '.join(self.names)} together"
        each = "; ".join(
            f"{name}: {domain.describe(num_candidates)}" for name, domain in zip(self.names, self.of, strict=True)
        )
        return f"{asked} (a change of any of them is another value). {each}"

    def canonical(self) -> dict[str, Any]:
        form = super().canonical()
        return form if self.tables else {key: value for key, value in form.items() if key != "tables"}


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


def table_of(build: Callable[[Mapping[str, Any]], AnyDomain], *, of: Any, names: Any, **given: Any) -> Table:
    """Return a table of variables as a registry or a canonical form has them; `build` makes a variable's domain."""
    if not isinstance(of, list | tuple) or not all(isinstance(part, Mapping) for part in of):
        raise ParameterError(f"of = {of!r:.80}: give a list of domains, one for each variable")
    parts: list[Domain] = []
    for number, part in enumerate(of, start=1):
        try:
            domain = build(part)
        except ParameterError as error:
            raise ParameterError(f"of: domain {number}: {error}") from None
        if not (isinstance(domain, Domain) and domain.is_variable):
            raise ParameterError(f"of: domain {number} is no list of values: choose categories, integers or bins")
        parts.append(domain)
    return Table(tuple(parts), names, **given)
