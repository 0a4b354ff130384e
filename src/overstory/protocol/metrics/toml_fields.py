"""The fields of a metric's table, and the faults in them.

Keys are taken one by one: each is right, or a fault with its line. All faults of a registry are reported at once.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from overstory.protocol.errors import FormatError, suggestion
from overstory.protocol.wire import METRIC_ID

Value = TypeVar("Value")
Path = tuple[str, ...]  # keys from the document's root


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
    path: Path = ()  # where the table lies
    faults: list[tuple[Path, str]] = field(default_factory=list)  # what is wrong, by the keys that lead there

    def __post_init__(self) -> None:
        self._before = len(self.faults)

    @property
    def is_sound(self) -> bool:
        return len(self.faults) == self._before

    def fault(self, key: str | None, message: str) -> None:
        """Note a fault of a key, or of the table itself."""
        self.faults.append((self.path if key is None else (*self.path, *key.split(".")), message))

    def unknown(self, keys: Collection[str]) -> None:
        """Note every key that is not known, with the one that may have been meant."""
        for key in self.table:
            if key not in keys:
                wanted = suggestion(key, keys) or f"; the keys are {', '.join(keys)}"
                self.faults.append(((*self.path, key), f"no such key{wanted}"))

    def required(self, key: str, wanted: str) -> Any:
        if key not in self.table:
            self.fault(key, f"missing: give {wanted}")
        return self.table.get(key)

    def taken(
        self,
        key: str,
        kind: type[Value] | tuple[type[Value], ...],
        problem: str,
        is_right: Callable[[Value], bool] | None = None,
        *,
        wanted: str = "",
        default: Any = None,
    ) -> Value | None:
        """Return a value of a type, or None after noting a problem, in which ``{}`` stands for it.

        One that is wanted has to be there; any other may be left out, and is the default then.
        """
        value = self.required(key, wanted) if wanted else self.table.get(key, default)
        if value is None:
            return None
        if isinstance(value, kind) and not isinstance(value, bool) and (is_right is None or is_right(value)):
            return value
        self.fault(key, problem.replace("{}", f"{value!r:.100}"))
        return None

    def text(self, key: str, wanted: str) -> str | None:
        problem = f"give {wanted}: text of 1 to {MOST_TEXT} characters"
        value = self.taken(key, str, problem, lambda text: bool(text.strip()) and len(text) <= MOST_TEXT, wanted=wanted)
        return None if value is None else " ".join(value.split())

    def identifier(self, key: str) -> str | None:
        problem = "{}: give up to 64 of a-z, 0-9, '.', '_' and '-', a-z or 0-9 first"
        return self.taken(key, str, problem, lambda text: METRIC_ID.fullmatch(text) is not None)

    def link(self, key: str, wanted: str) -> str | None:
        return self.taken(key, str, f"{{}} is no link: give {wanted}, starting with https://", _is_link, wanted=wanted)

    def whole(self, key: str, low: int, high: int, *, wanted: str = "", default: int | None = None) -> int | None:
        problem = f"{{}}: give a whole number from {low} to {high}"
        return self.taken(key, int, problem, lambda number: low <= number <= high, wanted=wanted, default=default)

    def choice(self, key: str, choices: Collection[str], default: str) -> str | None:
        value = self.table.get(key, default)
        near = "" if value in choices else suggestion(value, choices)
        problem = f"{{}}{near or ':'} choose one of {', '.join(choices)}"
        return self.taken(key, str, problem, lambda word: word in choices, default=default)

    def date(self, key: str, wanted: str) -> dt.date | None:
        problem = f"give {wanted}: a date without quotes, such as 2027-11-21"
        return self.taken(key, dt.date, problem, lambda day: not isinstance(day, dt.datetime), wanted=wanted)

    def subtable(self, key: str, wanted: str) -> Fields | None:
        value = self.taken(key, dict, f"{{}} is no table: give {wanted}", wanted=wanted)
        return None if value is None else Fields(value, (*self.path, key), self.faults)

    def read(self, rows: Mapping[str, Row | None]) -> dict[str, Any]:
        """Return what each row makes of its key, and note every other key; None stands for a key read elsewhere."""
        self.unknown(rows)
        return {key: read(self, key) for key, read in rows.items() if read is not None}

    def read_table(self, key: str, wanted: str, rows: Mapping[str, Row]) -> dict[str, Any] | None:
        """Return the same of a table inside; None where it has a fault."""
        table = self.subtable(key, wanted)
        values = None if table is None else table.read(rows)
        return values if table is not None and table.is_sound else None


Row = Callable[[Fields, str], Any]  # reads one key of a table: its value, or None after noting what is wrong with it


def row(read: Callable[..., Any], *given: Any, is_optional: bool = False, **named: Any) -> Row:
    """Return a method of `Fields` with its arguments; where the key is optional and missing, None without a fault."""
    return lambda fields, key: None if is_optional and key not in fields.table else read(fields, key, *given, **named)


def _is_link(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"https", "http"} and bool(parts.hostname) and re.search(r'[<>"\s]', text) is None


def read_root(text: str, *, source: str | None = None) -> Fields:
    """Return the document's root, nothing checked but that it is TOML."""
    try:
        return Fields(tomllib.loads(text))
    except (ValueError, RecursionError) as error:  # a ValueError is also what a number of 5,000 digits gives
        raise RegistryError([_syntax(error, text)], source=source) from None


def _syntax(error: Exception, text: str) -> Fault:
    message = "arrays or tables are nested too deeply" if isinstance(error, RecursionError) else str(error)
    message = f"no TOML: {message[:1].lower()}{message[1:]}"
    position = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if position:
        return Fault(int(position[1]), "", f"{message[: position.start()]}, at column {position[2]}")
    return Fault(text.count("\n") + 1, "", message)


def located(faults: Iterable[tuple[Path, str]], text: str) -> Iterator[Fault]:
    """Yield faults with the line of their key, or of the nearest table that is written."""
    found = positions(text)
    for path, message in faults:
        written = (found[path[:length]].line for length in range(len(path), 0, -1) if path[:length] in found)
        yield Fault(next(written, 1), ".".join(path), message)


class TomlPosition(NamedTuple):
    """Where a statement is: its first line, from 1, and the offsets of its first character and of its end."""

    line: int
    start: int
    stop: int


_TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # a text of several lines, which may end in two quotes of its own
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)


def positions(text: str) -> dict[Path, TomlPosition]:
    """Return where each key is written first, in a document that `tomllib` accepts; the parser itself keeps no places.

    The keys of a statement are what the parser reads from it alone; they are all at its first line.
    """
    found: dict[Path, TomlPosition] = {}
    table: Path = ()
    for line, start, statement in _statements(text):
        try:
            paths = list(_paths(tomllib.loads(statement)))
        except RecursionError:  # nested as deeply as the document's reader, with more stack, just allowed
            continue
        bare = statement.lstrip()
        if is_header := bare.startswith("["):
            table, is_new = paths[-1], not bare.startswith("[[")
        begins = start + len(statement) - len(bare)
        place = TomlPosition(line, begins, begins + len(bare.rstrip()))
        for path in paths:
            full = path if is_header else (*table, *path)
            # A table that was only named before, on the way to another one, is where its own header is.
            if full not in found or (is_header and is_new and path == table):
                found[full] = place
    return found


def _statements(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield each statement with its first line and offset: it ends with a line outside of all brackets and texts."""
    line, start, depth = 1, 0, 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        if token[0] == "\n" and not depth:
            yield line, start, text[start : token.end()]
            line, start = line + text.count("\n", start, token.end()), token.end()
    yield line, start, text[start:]


def _paths(table: Mapping[str, Any]) -> Iterator[Path]:
    waiting: list[tuple[Path, Any]] = [((), table)]
    while waiting:
        before, value = waiting.pop()
        if before:
            yield before
        if isinstance(value, dict):
            waiting += [((*before, key), inner) for key, inner in reversed(value.items())]
