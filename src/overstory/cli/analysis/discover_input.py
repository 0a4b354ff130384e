"""The column that ``overstory discover`` gives its simulated devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.discovery import CodedIntegers, CodedStrings
from overstory.files.columns.blocks import is_json
from overstory.files.columns.layout import line_of
from overstory.files.columns.reader import blocks, is_parquet
from overstory.presentation.streams import printable
from overstory.protocol.domains.codes import MAX_BYTES
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.discovery import CodedDomain
    from overstory.files.columns.layout import Form
    from overstory.files.io import Advance

SHOWN: Final = 40
"""Characters of a value that an error shows."""


def read_column(path: str, column: str, domain: CodedDomain, form: Form, advance: Advance | None = None) -> Any:
    """Return the values of a column, one a device; rows without one, and empty texts, are left out.

    Parameters
    ----------
    path, column, form
        See `overstory.files.columns.reader.blocks`.
    advance
        Called with the number of bytes that were read.
    """
    known: dict[str, int] = {}
    read = [texts.numbered(known) for (texts,) in blocks(path, [column], form=form, advance=advance)]
    numbers = np.concatenate(read) if read else np.zeros(0, np.int32)
    texts = list(known)
    values: list[Any] = []
    for text in texts:
        try:
            values.append(domain.parse(text) if text else None)
        except ParameterError as error:
            line = None if is_parquet(path) or is_json(path) else line_of(path, form, column, text)
            said = _needed(texts, domain) or str(error)
            raise FormatError(said, source=path, line=line, field=column) from error
    held = [values[number] for number in numbers.tolist() if number >= 0 and values[number] is not None]
    return np.array(held, np.uint64) if isinstance(domain, CodedIntegers) else held


def _needed(texts: list[str], domain: CodedDomain) -> str | None:
    """Say which option these texts need; None where they are what the domain is of, or were meant to be."""
    numbers = sum(text.strip().isdigit() for text in texts if text)
    if isinstance(domain, CodedIntegers) and 2 * numbers >= len(texts):
        return None  # a column of numbers, one of which is none
    longest = max(texts, key=_size)
    shown, size = f"{printable(longest)[:SHOWN]!r}", _size(longest)
    bound = f"--bytes {domain.max_bytes}" if isinstance(domain, CodedStrings) else None
    said = f"values are longer than {bound}" if bound else "the column holds text"
    if size <= MAX_BYTES:
        return f"{said}: give --bytes {size} (the longest value, {shown}, has {size} bytes in UTF-8)"
    return (
        f"{said}: the longest value, {shown}, has {size} bytes in UTF-8, and at most {MAX_BYTES} can be searched for; "
        "shorten the values, or give a list of them to `overstory collect --candidates`"
    )


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
