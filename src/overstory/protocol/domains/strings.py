"""Any strings, by themselves or linked with another variable: which ones are looked for is decided at decoding.

A pair with a string has no list of cells, so only linked reports carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from overstory.protocol.domains.domains import AnyDomain, Domain
from overstory.protocol.domains.tables import Table, Variables
from overstory.protocol.errors import ParameterError

PAIR: Final = 2
"""How many variables linked reports have."""
MOST_BYTES: Final = 1 << 16
"""Of a string, in UTF-8."""


@dataclass(frozen=True)
class Strings(AnyDomain):
    """Any string: which ones are looked for is decided when reports are decoded.

    Parameters
    ----------
    candidates
        The file of candidates, one per line, as the registry names it.

    Raises
    ------
    ParameterError
        When the file's name is no text.

    Examples
    --------
    >>> Strings("engines.txt").encode("example.org")
    'example.org'
    """

    candidates: str | None = None

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
        """Return a string, or raise ParameterError for anything else.

        A string past 65,536 bytes of UTF-8 is refused: no candidate list holds it.
        """
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
    """Pairs of values, of which at least one is any string.

    Each variable has an oracle of its own, and both reports travel together: **a change of one variable redraws
    nothing of the other**, but the pair is another value, and takes one of the metric's `max_values`.

    Parameters
    ----------
    of
        The domains of the variables: two, at least one of them strings, the other strings or finite.
    names
        What each variable is called.

    Raises
    ------
    ParameterError
        When there are not two variables, none takes strings, or names and domains do not go together.

    Examples
    --------
    >>> from overstory.protocol.domains import Categories
    >>> pairs = StringTable((Strings("sites.txt"), Categories(("no", "yes"))), ("site", "crash"))
    >>> pairs.encode({"crash": "yes", "site": "example.org"})
    ('example.org', 1)
    >>> pairs.read("example.org, yes")
    ('example.org', 'yes')
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
        """Return the symbol or the string of each variable.

        Raises
        ------
        ParameterError
            When a variable is missing, unknown, or its value outside.
        """
        return tuple(self.encode_parts(value))

    def label(self, encoded: Any) -> str:
        """Return both values with their variables: ``site=example.org, crash=yes``."""
        each = zip(self.names, self.of, encoded, strict=True)
        return ", ".join(f"{name}={part.label(own)}" for name, part, own in each)

    def encoded_text(self, encoded: Any) -> str:
        each = zip(self.names, self.of, encoded, strict=True)
        return " and ".join(f"{name}: {part.encoded_text(own)}" for name, part, own in each)

    def read(self, text: str) -> tuple[Any, ...]:
        """Return both values of a text, with a comma between them, as a label or bare.

        Strings may have commas. The comma that counts is the one with a value of each variable beside it.

        Raises
        ------
        ParameterError
            When there is no such comma, or several.
        """
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
