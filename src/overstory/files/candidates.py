"""Candidates: the strings that may have been reported, and the bits that each of them sets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overstory.analysis.candidates import CandidateMap
from overstory.analysis.positions import positions_of
from overstory.files.opening import reading
from overstory.files.records import all_records, blocks
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from overstory.files.fields import Place
    from overstory.files.opening import Advance, FilePath
    from overstory.protocol.encodings import Encoding


def read_candidates(path: FilePath, advance: Advance | None = None) -> list[str]:
    """Read candidates, one per line, in order; a file named ``.csv`` has them as its only column, quoted if need be.

    Blank lines are passed over, and a candidate that stands there twice is taken once.

    Raises
    ------
    FormatError
        When there are none, one is not UTF-8, or a CSV record has more than one field.
    """
    source = os.fspath(path)
    with reading(path, advance) as stream:
        if source.removesuffix(".gz").endswith(".csv"):
            found: Iterable[str] = all_records(stream, source, _only_field)
        else:
            found = (line for block in blocks(stream, source) for line in _lines(block.raw, block.first_line, source))
        candidates = list(dict.fromkeys(found))
    if not candidates:
        raise FormatError("the file is empty: expected one candidate per line", source=source)
    return candidates


def _only_field(place: Place, fields: list[str]) -> str:
    if len(fields) != 1:
        raise place.error(f"expected one candidate, found {len(fields)} fields: put a candidate with commas in quotes")
    return place.text(fields[0], "candidate")


def _lines(raw: bytes, first: int, source: str) -> Iterable[str]:
    for number, line in enumerate(raw.split(b"\n"), first):
        bare = line.removesuffix(b"\r")
        if bare:
            try:
                yield bare.decode()
            except UnicodeDecodeError as error:
                raise FormatError(
                    f"expected UTF-8 text ({error.reason})", source=source, line=number, field="candidate"
                ) from error


def hash_candidates(candidates: Sequence[str], encoding: Encoding) -> CandidateMap:
    """Return the bits that each candidate sets in each cohort.

    Examples
    --------
    >>> from overstory.protocol.encodings import Bloom
    >>> hash_candidates(["v1"], Bloom(16, 2, 1, "google-rappor-python")).positions.tolist()
    [[[8, 10]]]
    """
    return CandidateMap(candidates, positions_of(encoding, candidates), encoding.num_bits)
