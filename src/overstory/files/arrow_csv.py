"""The fast reader of a block of CSV: Arrow's, where it surely agrees with the exact reader, or None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SMALLEST: Final = 1 << 20
"""Below this many bytes the exact reader is done before Arrow is even imported."""


def read_block(raw: bytes, names: Sequence[str], types: Mapping[str, Any]) -> Any:
    """Return the columns named in `types` as an Arrow table, or None where only the exact reader can tell."""
    if not surely_csv(raw):
        return None
    import pyarrow as pa
    from pyarrow import csv

    try:
        return csv.read_csv(
            pa.BufferReader(raw),
            read_options=csv.ReadOptions(column_names=list(names)),
            parse_options=csv.ParseOptions(newlines_in_values=b'"' in raw),
            convert_options=csv.ConvertOptions(
                include_columns=list(types), column_types=dict(types), null_values=[], strings_can_be_null=False
            ),
        ).combine_chunks()
    except pa.ArrowInvalid:
        return None


def surely_csv(raw: bytes, delimiter: bytes = b",") -> bool:
    """Whether readers of CSV cannot disagree about these bytes."""
    if b"\r" in raw and raw.count(b"\r") != raw.count(b"\r\n"):
        return False  # Arrow ends a line there, Python refuses it
    return b'"' not in raw or _quotes_enclose(np.frombuffer(raw, np.uint8), delimiter)


def _quotes_enclose(characters: np.ndarray[Any, np.dtype[np.uint8]], delimiter: bytes = b",") -> bool:
    """Whether quotes only open and close entire fields, a doubled one inside being closed and opened at once."""
    quotes = np.flatnonzero(characters == ord('"'))
    if quotes.size % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    before = characters[opening[opening > 0] - 1]
    after = characters[closing[closing < characters.size - 1] + 1]
    ends = np.frombuffer(delimiter + b'\n"', np.uint8)
    return bool(np.isin(before, ends).all() and np.isin(after, np.append(ends, np.uint8(13))).all())
