"""The fields of a metric's table, and the faults in them.

Keys are taken one by one: each is right, or a fault with its line. All faults of a registry are reported at once.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from overstory.protocol.errors import FormatError, suggestion
from overstory.protocol.wire import METRIC_ID

if TYPE_CHECKING:
    from overstory.protocol.metrics.toml_positions import Path, TomlPosition


Value = TypeVar("Value")


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong.

    Examples
    --------
    >>> str(Fault(7, "metrics.search-engine.period", "'daily' is no period"))
    "line 7, metrics.search-engine.period: 'daily' is no period"
    """

    line: int  # the number of the line at fault, from 1
    field: str  # the key, dotted: ``metrics.search-engine.period``
    message: str  # what is wrong, and what would be right

    def __str__(self) -> str:
        return f"line {self.line}, {self.field}: {self.message}" if self.field else f"line {self.line}: {self.message}"


class RegistryError(FormatError):
    """A registry with faults; `faults` holds every one of them, in the order of the lines.

    Parameters
    ----------
    faults
        Everything that is wrong with the registry, in any order.
    source
        The name of the registry's file, where there is one.

    Examples
    --------
    >>> error = RegistryError([Fault(3, "b", "second"), Fault(2, "a", "first")], source="metrics.toml")
    >>> print(error)
    metrics.toml: 2 faults
      line 2, a: first
      line 3, b: second
    """

    def __init__(self, faults: Iterable[Fault], *, source: str | None = None) -> None:
        self.faults = tuple(sorted(faults))
        if len(self.faults) == 1:
            only = self.faults[0]
            super().__init__(only.message, source=source, line=only.line, field=only.field)
        else:
            shown = "".join(f"\n  {fault}" for fault in self.faults)
            super().__init__(f"{len(self.faults)} faults{shown}", source=source)


MOST_TEXT: Final = 4000


@dataclass
class Fields:
    """One table of the document, and the faults found in it.

    All tables of a document share `faults`; every method that finds a fault adds it there, and returns None.
    """

    table: Mapping[str, Any]
    path: Path  # where the table lies
    positions: Mapping[Path, TomlPosition]  # by key
    faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before = len(self.faults)

    @property
    def is_sound(self) -> bool:
        return len(self.faults) == self._before

    def fault(self, key: str | None, message: str) -> None:
        """Note a fault of a key, at its line, or at the nearest table's that was written."""
        path = self.path if key is None else (*self.path, *key.split("."))
        nearest = path
        while nearest and nearest not in self.positions:
            nearest = nearest[:-1]
        line = self.positions[nearest].line if nearest else 1
        self.faults.append(Fault(line, ".".join(map(str, path)), message))

    def unknown(self, keys: Collection[str]) -> None:
        """Note every key that is not known, with the one that may have been meant."""
        for key in self.table:
            if key not in keys:
                wanted = suggestion(key, keys) or f"; the keys are {', '.join(keys)}"
                path = (*self.path, key)
                self.faults.append(Fault(self.positions[path].line, ".".join(map(str, path)), f"no such key{wanted}"))

    def required(self, key: str, wanted: str) -> Any:
        if key not in self.table:
            self.fault(key, f"missing: give {wanted}")
        return self.table.get(key)

    def taken(
        self,
        key: str,
        value: Any,
        kind: type[Value] | tuple[type[Value], ...],
        problem: str,
        is_right: Callable[[Value], bool] | None = None,
    ) -> Value | None:
        """Return a value of a type, or None after noting a problem, in which ``{}`` stands for it; of None, None."""
        if value is None:
            return None
        if isinstance(value, kind) and not isinstance(value, bool) and (is_right is None or is_right(value)):
            return value
        self.fault(key, problem.replace("{}", f"{value!r:.100}"))
        return None

    def text(self, key: str, wanted: str, *, is_optional: bool = False) -> str | None:
        problem = f"give {wanted}: text of 1 to {MOST_TEXT} characters"
        given = self.table.get(key) if is_optional else self.required(key, wanted)
        value = self.taken(key, given, str, problem, lambda text: bool(text.strip()) and len(text) <= MOST_TEXT)
        return None if value is None else " ".join(value.split())

    def identifier(self, key: str) -> str | None:
        problem = "{}: give up to 64 of a-z, 0-9, '.', '_' and '-', a-z or 0-9 first"
        return self.taken(key, self.table.get(key), str, problem, lambda text: METRIC_ID.fullmatch(text) is not None)

    def link(self, key: str, wanted: str) -> str | None:
        problem = f"{{}} is no link: give {wanted}, starting with https://"
        return self.taken(key, self.required(key, wanted), str, problem, _is_link)

    def whole(self, key: str, low: int, high: int, *, default: int | None = None) -> int | None:
        problem = f"{{}}: give a whole number from {low} to {high}"
        return self.taken(key, self.table.get(key, default), int, problem, lambda number: low <= number <= high)

    def choice(self, key: str, choices: Collection[str], default: str) -> str | None:
        value = self.table.get(key, default)
        near = "" if value in choices else suggestion(value, choices)
        problem = f"{{}}{near or ':'} choose one of {', '.join(choices)}"
        return self.taken(key, value, str, problem, lambda word: word in choices)

    def date(self, key: str, wanted: str) -> dt.date | None:
        problem = f"give {wanted}: a date without quotes, such as 2027-11-21"
        value = self.required(key, wanted)
        return self.taken(key, value, dt.date, problem, lambda day: not isinstance(day, dt.datetime))

    def subtable(self, key: str, wanted: str, keys: Collection[str] = ()) -> Fields | None:
        """Return a table inside; where `keys` are given, every other key of it is noted."""
        value = self.taken(key, self.required(key, wanted), dict, f"{{}} is no table: give {wanted}")
        if value is None:
            return None
        inner = Fields(value, (*self.path, key), self.positions, self.faults)
        if keys:
            inner.unknown(keys)
        return inner


def _is_link(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"https", "http"} and bool(parts.hostname) and re.search(r'[<>"\s]', text) is None


def read_root(text: str, *, source: str | None = None) -> Fields:
    """Return the document's root with the positions of its keys, nothing checked but that it is TOML."""
    try:
        return Fields(tomllib.loads(text), (), _Positions(text, source))
    except (ValueError, RecursionError) as error:  # a ValueError is also what a number of 5,000 digits gives
        raise RegistryError([_syntax(error, text)], source=source) from None


class _Positions(Mapping["Path", "TomlPosition"]):
    """The positions in a document, found when a fault asks for its line: a device's registry has none."""

    def __init__(self, text: str, source: str | None) -> None:
        self._text, self._source = text, source

    @cached_property
    def _found(self) -> dict[Path, TomlPosition]:
        from overstory.protocol.metrics.toml_positions import positions

        try:
            return positions(self._text)
        except RecursionError as error:
            raise RegistryError([_syntax(error, self._text)], source=self._source) from None

    def __getitem__(self, path: Path) -> TomlPosition:
        return self._found[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _syntax(error: Exception, text: str) -> Fault:
    message = "arrays or tables are nested too deeply" if isinstance(error, RecursionError) else str(error)
    message = f"no TOML: {message[:1].lower()}{message[1:]}"
    position = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if position:
        return Fault(int(position[1]), "", f"{message[: position.start()]}, at column {position[2]}")
    return Fault(text.count("\n") + 1, "", message)
