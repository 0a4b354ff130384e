"""A file of JSON lines: an object a line, whose keys are the columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from overstory.files.opening import Advance, reading
from overstory.protocol.errors import FormatError

ROWS: Final = 1 << 16
"""Lines in a block."""
LONGEST: Final = 1 << 26
"""Bytes of a line."""


def is_json(path: str) -> bool:
    """Whether the file begins as JSON lines do, or as one JSON text.

    Raises
    ------
    FormatError
        When it is JSON, but one list of all objects.
    """
    with reading(path) as stream:
        first = stream.read(1 << 12).removeprefix(b"\xef\xbb\xbf").lstrip()
    if first.startswith(b"[") and first[1:].lstrip().startswith(b"{"):
        raise FormatError("this is one JSON list: write an object a line (jq -c '.[]' FILE)", source=path)
    return first.startswith(b"{") and first[1:].lstrip().startswith((b'"', b"}"))


def keys_of(path: str) -> tuple[str, ...]:
    """Return the keys of the first object, in order."""
    return next((tuple(record) for _, record in _records(path, None)), ())


def texts_of(path: str, columns: Sequence[str], advance: Advance | None) -> Iterator[list[list[str | None]]]:
    """Yield blocks of some columns as text, None where a key is missing, null or an empty text.

    Raises
    ------
    FormatError
        When a line is no object, or what stands under a key is a list or an object.
    """
    block: list[list[str | None]] = [[] for _ in columns]
    for line, record in _records(path, advance):
        for texts, column in zip(block, columns, strict=True):
            texts.append(_text(record.get(column), path, line, column))
        if len(block[0]) == ROWS:
            yield block
            block = [[] for _ in columns]
    if block[0]:
        yield block


def _records(path: str, advance: Advance | None) -> Iterator[tuple[int, dict[str, Any]]]:
    with reading(path, advance) as stream:
        for line, raw in enumerate(iter(lambda: stream.readline(LONGEST), b""), start=1):
            if not raw.strip():
                continue
            try:
                record = json.loads(raw.removeprefix(b"\xef\xbb\xbf") if line == 1 else raw)
            except (ValueError, RecursionError) as error:
                raise FormatError("this line is no JSON: expected an object a line", source=path, line=line) from error
            if not isinstance(record, dict):
                raise FormatError("expected an object a line", source=path, line=line)
            yield line, record


def _text(value: Any, path: str, line: int, column: str) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "an object"
        raise FormatError(f"expected a text or a number, found {kind}", source=path, line=line, field=column)
    return json.dumps(value)
