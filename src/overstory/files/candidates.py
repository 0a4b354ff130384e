"""Candidates: the strings that may have been reported, and the bits that each of them sets.

map.csv: no header; a candidate, then m * h integers ``cohort * k + bit + 1``, cohort by cohort.

When two hashes of a candidate fall on one bit, it is written twice. Google's own sample has it once, and an empty field
at the end of such a row: both are read. A map made elsewhere is taken as it is: which family hashed it is not asked.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.support.positions import positions_of
from overstory.files.columns.reader import SMALLEST, read_block
from overstory.files.csv import Block, Parser, blocks, integer, parse_field, read_records, records, row_parser, utf8
from overstory.files.io import reading, writing_text
from overstory.presentation.render_data import quoted
from overstory.privacy.text import plural
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from overstory.files.io import Advance, FilePath
    from overstory.protocol.encodings.base import Encoding


def read_candidates(path: FilePath, advance: Advance | None = None) -> list[str]:
    """Read candidates, one per line, in order; a file named ``.csv`` has them as its only column, quoted if need be.

    Blank lines are passed over, and a candidate that occurs twice is taken once.
    """
    source = os.fspath(path)
    lines = read_records(path, _only_field, advance=advance) if _is_csv(path) else _lines(path, advance)
    candidates = list(dict.fromkeys(lines))
    if not candidates:
        raise FormatError("the file is empty: expected one candidate per line", source=source)
    return candidates


def write_candidates(path: FilePath, candidates: Iterable[str]) -> None:
    """Write candidates as `read_candidates` reads them from a file of this name."""
    with writing_text(path) as text:
        text.writelines(f"{_field(candidate) if _is_csv(path) else candidate}\n" for candidate in candidates)


def _field(candidate: str) -> str:
    """Return a candidate as the only field of its line, which may be blank or begin like a byte order mark."""
    if candidate.strip("\ufeff \t") == candidate:
        return quoted(candidate)
    return '"' + candidate.replace('"', '""') + '"'


def _is_csv(path: FilePath) -> bool:
    return os.fspath(path).removesuffix(".gz").endswith(".csv")


def _only_field(fields: list[str]) -> str:
    if len(fields) != 1:
        problem = f"expected one candidate, found {len(fields)} fields: put a candidate with commas in quotes"
        raise FormatError(problem)
    return parse_field(fields[0], "candidate", utf8)


def _lines(path: FilePath, advance: Advance | None) -> Iterator[str]:
    source = os.fspath(path)
    with reading(path, advance) as stream:
        for block in blocks(stream, source):
            for number, line in enumerate(block.raw.split(b"\n"), block.first_line):
                try:
                    if candidate := line.removesuffix(b"\r").decode():
                        yield candidate
                except UnicodeDecodeError as error:
                    problem = f"expected UTF-8 text ({error.reason})"
                    raise FormatError(problem, source=source, line=number, field="candidate") from error


def hash_candidates(candidates: Sequence[str], encoding: Encoding) -> CandidateMap:
    """Return the bits that each candidate sets in each cohort.

    >>> from overstory.protocol.encodings.bits import Bloom
    >>> hash_candidates(["v1"], Bloom(16, 2, 1, "google-rappor-python")).positions.tolist()
    [[[8, 10]]]
    """
    return CandidateMap(candidates, positions_of(encoding, candidates), encoding.num_bits)


CHUNK = 1 << 14
TABLE_CELLS = 1 << 20
"""Up to this many different integers are written once, before any line is."""


def write_map(path: FilePath, candidates: CandidateMap) -> None:
    """Write map.csv, in a stream."""
    offsets = 1 + candidates.num_bits * np.arange(candidates.num_cohorts, dtype=np.int64)[:, None, None]
    table = _written(np.arange(candidates.num_rows + 1)) if candidates.num_rows <= TABLE_CELLS else None
    with writing_text(path) as text:
        for start in range(0, candidates.num_candidates, CHUNK):
            cells = (candidates.positions[:, start : start + CHUNK] + offsets).transpose(1, 0, 2)
            lines = _map_lines(cells.reshape(cells.shape[0], -1), table)
            names = candidates.candidates[start : start + CHUNK]
            text.writelines(f"{quoted(str(name))}{line}\n" for name, line in zip(names, lines, strict=True))


def _map_lines(cells: NDArray[np.int64], table: NDArray[np.bytes_] | None) -> list[str]:
    """Write a matrix of integers, each after a comma, a text per row: looked up in a table, the padding taken out."""
    if table is None:
        distinct, cells = np.unique(cells, return_inverse=True)
        table = _written(distinct)
    octets = np.ascontiguousarray(table[cells]).view(np.uint8).reshape(cells.shape[0], -1)
    ends = np.full((cells.shape[0], 1), ord("\n"), np.uint8)
    return np.hstack((octets, ends)).tobytes().translate(None, b"\0").decode("ascii").split("\n")[:-1]


def _written(numbers: NDArray[np.int64]) -> NDArray[np.bytes_]:
    return np.array([f",{number}".encode() for number in numbers.tolist()])


EMPTY: Final = "Empty"
"""What Google's reader calls the candidate without a letter."""


def read_map(
    path: FilePath,
    *,
    num_bits: int,
    num_hashes: int,
    num_cohorts: int,
    notes: list[str] | None = None,
    advance: Advance | None = None,
) -> CandidateMap:
    """Read map.csv, as Google's `ReadMapFile` does.

    A row may have fewer positions in a cohort where hashes met, and empty fields. Of rows with the same candidate the
    first counts; a candidate without a letter is called `EMPTY`.
    """
    source = os.fspath(path)
    rows = _MapFormat(source, num_bits, num_hashes, num_cohorts)
    names: list[str] = []
    parts = []
    with reading(path, advance) as stream:
        for block in blocks(stream, source):
            some, positions = rows.quick(block) or rows.exact(block)
            names += some
            parts.append(positions)
    if not names:
        raise FormatError("the file is empty: expected a row per candidate", source=source)
    names, first = _named_once(names, source, notes)
    positions = np.concatenate(parts)
    return CandidateMap(names, (positions if first is None else positions[first]).transpose(1, 0, 2), num_bits)


def _named_once(names: list[str], source: str, notes: list[str] | None) -> tuple[list[str], NDArray[np.intp] | None]:
    """Return each candidate once, and the rows of their first occurrence; None where no row is left out."""
    new_notes = []
    if "" in names:
        names = [name or EMPTY for name in names]
        new_notes.append(f"{source}: the candidate without a letter is called {EMPTY}, as by Google's tools")
    first: dict[str, int] = {}
    if len(set(names)) < len(names):
        for row, name in enumerate(names):
            first.setdefault(name, row)
        left = len(names) - len(first)
        new_notes.append(
            f"{source}: {plural(left, 'row')} with an earlier row's candidate left out, as by Google's tools"
        )
    if notes is not None:
        notes += new_notes
    return (list(first), np.array(list(first.values()), np.intp)) if first else (names, None)


class _MapFormat:
    """What the rows of one map must look like."""

    def __init__(self, source: str, num_bits: int, num_hashes: int, num_cohorts: int) -> None:
        self.source, self.num_bits, self.num_hashes, self.num_cohorts = source, num_bits, num_hashes, num_cohorts
        self.cells = num_cohorts * num_hashes
        self.kind = np.uint8 if num_bits <= 256 else np.uint16
        ranges = [self._range(cohort) for cohort in range(num_cohorts)]
        places = [(cohort, which) for cohort in range(num_cohorts) for which in range(num_hashes)]
        self._firsts = [ranges[cohort][0] for cohort, _ in places]  # the integer of bit 0, for each cell
        parsers = [partial(integer, low=low, high=high) for low, high in ranges]
        cells = ((f"cohort {cohort} hash {which}", parsers[cohort]) for cohort, which in places)
        columns: tuple[tuple[str, Parser], ...] = (("candidate", utf8), *cells)
        self._parse = row_parser(self.cells + 1, ((i, *column) for i, column in enumerate(columns)))

    def _range(self, cohort: int) -> tuple[int, int]:
        """Return the integers of a cohort's first and last bit."""
        return cohort * self.num_bits + 1, (cohort + 1) * self.num_bits

    def exact(self, block: Block) -> tuple[list[str], NDArray[Any]]:
        """Read record by record; the first bad one is named."""
        rows = list(records(block, self.source, self._convert))
        bits = np.array([positions for _, positions in rows], self.kind)
        return [name for name, _ in rows], bits.reshape(-1, self.num_cohorts, self.num_hashes)

    def _convert(self, fields: list[str]) -> tuple[str, list[int]]:
        given = [text for text in fields[1:] if text.strip()]
        if len(fields) > self.cells + 1 or len(given) < self.num_cohorts:
            raise FormatError(
                f"expected a candidate and m * h = {self.num_cohorts} * {self.num_hashes} = {self.cells} integers "
                f"(fewer where two hashes meet), found {len(given)}"
            )
        if len(given) < self.cells:
            return parse_field(fields[0], "candidate", utf8), list(self._fewer_bits(given))
        name, *integers = self._parse(fields)
        return name, [integer - first for integer, first in zip(integers, self._firsts, strict=True)]

    def _fewer_bits(self, given: list[str]) -> Iterator[int]:
        """Yield the positions of a row that has some once: each cohort's last is repeated, which sets no other bit."""
        bits_of: list[list[int]] = [[] for _ in range(self.num_cohorts)]
        cohort, last = 0, self.num_cohorts * self.num_bits
        for text in given:
            in_order = partial(integer, low=self._range(cohort)[0], high=last)
            cohort, bit = divmod(parse_field(text, f"cohort {cohort}", in_order) - 1, self.num_bits)
            bits_of[cohort].append(bit)
        for cohort, bits in enumerate(bits_of):
            if not 1 <= len(bits) <= self.num_hashes:
                low, high = self._range(cohort)
                problem = f"expected 1 to {self.num_hashes} integers from {low} to {high}, found {len(bits)}"
                raise FormatError(problem, field=f"cohort {cohort}")
            yield from bits + bits[-1:] * (self.num_hashes - len(bits))

    def quick(self, block: Block) -> tuple[list[str], NDArray[Any]] | None:
        """Read a large block of well-formed records at once, or return None."""
        if len(block.raw) < SMALLEST or b"0x" in block.raw or b"0X" in block.raw:
            return None  # Arrow would read sixteen there
        import pyarrow as pa

        types = {str(i): pa.int32() for i in range(self.cells)}
        table = read_block(block.raw, ["name", *types], {"name": pa.string(), **types})
        if table is None or not table.num_rows:
            return None
        bits = np.empty((table.num_rows, self.cells), self.kind)
        for cell in range(self.cells):
            # Not by `to_numpy`, which loads pandas where there is one: more than the decoding of 10,000 candidates.
            column = np.from_dlpack(table.column(cell + 1).chunk(0)) - (cell // self.num_hashes * self.num_bits + 1)
            if column.min() < 0 or column.max() >= self.num_bits:
                return None
            bits[:, cell] = column
        return table.column(0).to_pylist(), bits.reshape(-1, self.num_cohorts, self.num_hashes)
