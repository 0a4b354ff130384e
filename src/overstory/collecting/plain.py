"""A small CSV file by Python's own reader, where it surely agrees with Arrow's: loading Arrow would take far longer.

Where anything stands that readers of CSV disagree about, and wherever something is wrong, the answer is None, and Arrow
is asked: so there is one set of rules, and one set of errors.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.collecting.layout import Layout
from overstory.files.arrow_csv import SMALLEST, surely_csv
from overstory.files.opening import reading

NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
"""How numbers are written, for sure; there are other ways."""

Fields = list[str | None]


def read_plain(path: str, layout: Layout, columns: Sequence[str]) -> list[Fields] | None:
    """Return some columns of a small CSV file, None in them being an empty, unquoted field; or None: ask Arrow.

    Parameters
    ----------
    path, layout
        The file.
    columns
        Their names, as a person writes them.
    """
    with reading(path) as stream:
        raw = stream.read(SMALLEST + 1)
    try:
        text = raw.decode(layout.encoding).removeprefix("\ufeff")
        octets = text.encode()
    except UnicodeError:
        return None
    delimiter = layout.delimiter.encode()
    quoted_nothing = b'""' in octets  # an empty text, or a quote within one: Python does not tell which
    last_nothing = octets.endswith(delimiter)  # after a quoted field Arrow takes it for an empty text
    if len(raw) > SMALLEST or quoted_nothing or last_nothing or b"\0" in octets:
        return None
    return _columns(text, layout, columns) if surely_csv(octets, delimiter) else None


def _columns(text: str, layout: Layout, columns: Sequence[str]) -> list[Fields] | None:
    try:
        records = [one for one in csv.reader(io.StringIO(text, newline=""), delimiter=layout.delimiter) if one]
    except csv.Error:
        return None
    header = records.pop(0) if layout.header else list(layout.raw_names)
    if not records or header != list(layout.raw_names) or any(len(record) != len(header) for record in records):
        return None
    places = [layout.names.index(name) for name in columns]
    read: list[Fields] = [[record[place] or None for record in records] for place in places]
    if layout.strip:
        return [[field and field.strip() for field in fields] for fields in read]
    return read


def numbers_of(fields: Fields, no_numbers: Collection[str]) -> NDArray[np.float64] | None:
    """Return the fields as numbers, NaN where one is missing; None where Arrow must say whether it is a number."""
    bare = ["" if field is None else field.strip() for field in fields]
    there = [field for field in bare if field not in no_numbers]
    if not all(map(NUMBER.fullmatch, there)):
        return None
    return np.array(["nan" if field in no_numbers else field for field in bare], np.str_).astype(np.float64)
