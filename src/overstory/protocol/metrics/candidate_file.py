"""The candidate file of a metric of strings: one per line, none twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, TypeAlias

from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

Folder: TypeAlias = "Path | Traversable"
"""Where a registry lies: a folder, or one inside a package."""

MOST_SHOWN: Final = 3


def read_candidate_file(folder: Folder, name: str) -> tuple[str, ...]:
    r"""Return the candidates of a file beside the registry.

    The file is UTF-8 text, one candidate per line; lines end in ``\n`` or ``\r\n``, and blank lines count for nothing.

    Raises
    ------
    FormatError
        When the name is no relative path, the file cannot be read, is not UTF-8, holds a candidate twice, or none.
    """
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
