"""A metric's domain, from its table; the files that it names: one text per line, none twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from overstory.protocol.domains import domain_from
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.metrics.toml_fields import Fields

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from overstory.protocol.domains import AnyDomain


Folder: TypeAlias = "Path | Traversable"
"""Where a registry lies: a folder, or one inside a package."""

MOST_SHOWN: Final = 3


FILES: Final = ("known", "model")
"""Keys of a domain that may name a file on which reports depend."""

DOMAIN_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "categories": ("kind", "names", "other", "ordered"),
    "integers": ("kind", "min", "max", "outside"),
    "bins": ("kind", "min", "max", "count", "outside"),
    "interval": ("kind", "min", "max", "outside"),
    "strings": ("kind", "candidates"),
    "set": ("kind", "of", "most", "other"),
    "unknown-strings": ("kind", "max_bytes", "alphabet", "model", "order", "width", "known"),
    "unknown-integers": ("kind", "bits", "known"),
    "table": ("kind", "of", "names", "tables"),
}


class DomainRead(NamedTuple):
    """A metric's domain, with the lines of the candidate files that it names, where they were read."""

    domain: AnyDomain | None  # None after noting a fault
    candidates: tuple[str, ...] | None = None  # of strings
    candidate_lists: tuple[tuple[str, ...] | None, ...] = ()  # of each variable of a table with strings


def read_candidate_file(folder: Folder, name: str) -> tuple[str, ...]:
    """Return the candidates of a file in the registry's folder: UTF-8 text, one a line, without the blank lines."""
    if not name or "\\" in name or PurePosixPath(name).is_absolute():
        raise FormatError(f"{name!r} is no path relative to the registry's folder, with / between its parts")
    try:
        raw = folder.joinpath(*PurePosixPath(name).parts).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FormatError(f"cannot be read: {reason[:1].lower()}{reason[1:]}", source=name) from None
    seen: dict[str, int] = {}
    twice = [
        f"{text!r:.60} (lines {seen[text]} and {n})" for n, text in _lines(raw, name) if seen.setdefault(text, n) != n
    ]
    if twice:
        more = f" and {len(twice) - MOST_SHOWN} more" if len(twice) > MOST_SHOWN else ""
        shown = ", ".join(twice[:MOST_SHOWN]) + more
        raise FormatError(f"candidates stand there twice: {shown}; list each once", source=name)
    if not seen:
        raise FormatError("the file is empty: give one candidate per line", source=name)
    return tuple(seen)


def _lines(raw: bytes, name: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        bare = line.removesuffix(b"\r")
        if bare:
            try:
                yield number, bare.decode()
            except UnicodeDecodeError as error:
                raise FormatError(f"no UTF-8 text ({error.reason})", source=name, line=number) from None


def read_domain(fields: Fields, folder: Folder | None, *, read_candidates: bool = True) -> DomainRead:
    """Return a metric's domain, and its candidates where there are files of them."""
    table = fields.subtable("domain", 'a table such as {kind = "bins", min = 0, max = 2, count = 100}')
    if table is None:
        return DomainRead(None)
    kind = table.required("kind", f"one of {', '.join(DOMAIN_KEYS)}")
    if not isinstance(kind, str) or kind not in DOMAIN_KEYS:
        if kind is not None:
            table.fault("kind", f"{kind!r:.100} is no kind of domain: choose one of {', '.join(DOMAIN_KEYS)}")
        return DomainRead(None)
    before = len(table.faults)
    table.unknown(DOMAIN_KEYS[kind])
    if len(table.faults) > before:
        return DomainRead(None)
    domain = _symbols(fields, table, folder)
    return DomainRead(domain) if folder is None or not read_candidates else _with_candidates(domain, table, folder)


def _with_candidates(domain: AnyDomain | None, table: Fields, folder: Folder) -> DomainRead:
    """Return a domain with the lines of its candidate files."""
    if domain is None or not domain.candidate_files:
        return DomainRead(domain)
    if table.table["kind"] == "strings":
        return DomainRead(domain, _candidates(table, folder, "candidates", domain))
    variables: Iterable[AnyDomain] = domain.of  # type: ignore[attr-defined] # the other kind with files: a table
    return DomainRead(domain, None, tuple(_candidates(table, folder, "of", part) for part in variables))


def _candidates(table: Fields, folder: Folder, key: str, domain: AnyDomain) -> tuple[str, ...] | None:
    name = next(iter(domain.candidate_files), None)
    return None if name is None else _file(table, folder, key, name)


def _symbols(fields: Fields, table: Fields, folder: Folder | None) -> AnyDomain | None:
    given = {key: value for key, value in table.table.items() if key != "kind"}
    for key in FILES:  # a device needs them, too: its answer depends on them
        if isinstance(given.get(key), str):
            lines = _file(table, folder, key, given[key])
            if lines is None:
                return None
            given[key] = lines
    try:
        return domain_from({"domain": table.table["kind"], **given})
    except (ParameterError, TypeError, ValueError) as error:
        if table.table["kind"] == "strings":  # its one key
            table.fault(
                "candidates", f"{given['candidates']!r:.100}: give the name of a file with one candidate a line"
            )
        else:
            fields.fault("domain", str(error))
        return None


def _file(table: Fields, folder: Folder | None, key: str, name: str) -> tuple[str, ...] | None:
    """Return the lines of a file that a domain names, or None after noting a fault."""
    if folder is None:
        table.fault(key, f"{name!r:.100} cannot be read here: it is a file in the registry's folder")
        return None
    try:
        return read_candidate_file(folder, name)
    except FormatError as error:
        table.fault(key, str(error))
        return None
