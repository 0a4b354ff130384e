"""The files of RAPPOR's public tools, and lists of candidates.

params.csv: RAPPOR's six letters, header ``k,h,m,p,q,f`` and one row.

counts.csv: no header; a row per cohort, its number of reports and then how often each bit was set, bit 0 first.

map.csv: no header; a candidate, then m * h integers ``cohort * k + bit + 1``, cohort by cohort. When two hashes of a
candidate fall on one bit, it is written twice. Google's own sample has it once, and an empty field at the end of such a
row: both are read. A map made elsewhere is taken as it is: which family hashed it is not asked.

values.csv: true values, before any randomizing; header ``client,cohort,value``. For tests and simulations.

results.csv and metrics.json: what decoding writes.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.decoding import Decoded
from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.kinds.base import positions_of
from overstory.analysis.reports import SupportCounts
from overstory.files.io import (
    SMALLEST,
    Advance,
    Block,
    FilePath,
    Parser,
    blocks,
    decimal,
    integer,
    parse_field,
    read_block,
    read_records,
    read_table,
    reading,
    records,
    row_parser,
    short,
    utf8,
    writing_csv,
    writing_text,
)
from overstory.presentation.formats import finite, plural
from overstory.presentation.render_text import quoted
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Encoding
from overstory.protocol.kinds.bits import BitMechanism


def read_candidates(path: FilePath, advance: Advance | None = None) -> list[str]:
    """Read candidates, one per line or as the only column of a ``.csv``, each once; blank lines are passed over."""
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
    """Return the bits that each candidate sets in each cohort."""
    return CandidateMap(candidates, positions_of(encoding, candidates), encoding.num_bits)


CHUNK = 1 << 14
TABLE_CELLS = 1 << 20  # up to this many different integers are written once, before any line is


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


EMPTY: Final = "Empty"  # what Google's reader calls the candidate without a letter


def read_map(
    path: FilePath,
    *,
    num_bits: int,
    num_hashes: int,
    num_cohorts: int,
    notes: list[str] | None = None,
    advance: Advance | None = None,
) -> CandidateMap:
    """Read map.csv, as Google's `ReadMapFile` does: of rows with one candidate the first counts."""
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


LETTERS = ("k", "h", "m", "p", "q", "f")


@dataclass(frozen=True)
class RapporParameters:
    """RAPPOR's parameters under their own letters, in the order of params.csv."""

    k: int
    h: int
    m: int
    p: float
    q: float
    f: float  # share of the permanent bits that are noise
    hash_family: str | None = None  # None: overstory-v1; of labelled reports, the family of their label
    hash_key: str = ""  # of overstory-v1

    def __post_init__(self) -> None:
        self.mechanism()

    def mechanism(self, hash_family: str | None = None) -> BitMechanism:
        """Return the mechanism, with its own hash family or with another one."""
        from overstory.protocol.kinds.bits import rappor

        return rappor(
            num_bits=self.k,
            num_hashes=self.h,
            num_cohorts=self.m,
            f=self.f,
            p=self.p,
            q=self.q,
            hash_family=hash_family or self.hash_family or "overstory-v1",
            hash_key=self.hash_key,
        )


HASHING = ("hash_family", "hash_key")  # columns that params.csv need not have: Google's tools know neither


def read_params(path: FilePath) -> RapporParameters:
    """Read params.csv."""
    parsers = dict.fromkeys("khm", partial(integer, low=1, high=1 << 16)) | dict.fromkeys("pqf", decimal)
    rows = list(read_table(path, parsers, _checked, optional=dict.fromkeys(HASHING, utf8)))
    if len(rows) != 1:
        raise FormatError(f"expected one row under the header, found {len(rows)}", source=os.fspath(path))
    return rows[0]


def _checked(values: list[Any], *more: str) -> RapporParameters:
    hashing = {name: text for name, text in zip(more, values[len(LETTERS) :], strict=True) if text}
    try:
        return RapporParameters(*values[: len(LETTERS)], **hashing)
    except ParameterError as error:
        raise FormatError(str(error)) from error


def write_params(path: FilePath, parameters: RapporParameters) -> None:
    """Write params.csv."""
    hashing = {name: text for name in HASHING if (text := getattr(parameters, name))}
    with writing_text(path) as text:
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow((*LETTERS, *hashing))
        rows.writerow((*(repr(getattr(parameters, letter)) for letter in LETTERS), *hashing.values()))


MOST = (1 << 62) - 1  # the largest count: two such files still add up within 64 bits


def read_counts(path: FilePath, num_cohorts: int, num_bits: int, notes: list[str] | None = None) -> SupportCounts:
    """Read counts.csv; rows beyond the cohorts, row i being of cohort i modulo m, are added up as by Google."""
    source = os.fspath(path)
    rows = list(read_records(path, _counts_parser(num_bits)))
    if not rows:
        raise FormatError(f"the file is empty: expected {num_cohorts} rows, one per cohort (m)", source=source)
    times, left = divmod(len(rows), num_cohorts)
    if left:
        raise FormatError(
            f"expected {num_cohorts} rows, one per cohort (m), or a multiple of that, found {len(rows)}", source=source
        )
    if times > 1 and notes is not None:
        notes.append(
            f"{source}: {len(rows):,} rows are {times:,} for each of {num_cohorts:,} cohorts (m), and were added up"
        )
    counts = SupportCounts.empty(num_cohorts, num_bits)
    for start in range(0, len(rows), num_cohorts):
        part = rows[start : start + num_cohorts]
        counts += SupportCounts([row[0] for row in part], [row[1:] for row in part])
    return counts


def _counts_parser(num_bits: int) -> Callable[[list[str]], list[int]]:
    """Return the function from a record's fields to its total and counts, none of which exceeds the total."""
    names, count = ("total", *(f"bit{i}" for i in range(num_bits))), partial(integer, low=0, high=MOST)
    parse = row_parser(
        num_bits + 1,
        ((index, name, count) for index, name in enumerate(names)),
        f"fields, the cohort's reports and {num_bits} bit counts (k)",
    )

    def checked(fields: list[str]) -> list[int]:
        total, *counts = row = parse(fields)
        if max(counts) > total:
            bit, most = next((i, count) for i, count in enumerate(counts) if count > total)
            problem = f"the bit is set {most} times in {total} reports: expected at most {total}"
            raise FormatError(problem, field=f"bit{bit}")
        return row

    return checked


def write_counts(path: FilePath, counts: SupportCounts) -> None:
    """Write counts.csv."""
    with writing_text(path) as text:
        for total, ones in zip(counts.totals.tolist(), counts.ones.tolist(), strict=True):
            text.write(",".join(map(str, [total, *ones])) + "\n")


class Holding(NamedTuple):
    """A client, its cohort, and a true value that it holds."""

    client: str
    cohort: int
    value: str


def read_values(path: FilePath, num_cohorts: int, *, advance: Advance | None = None) -> Iterator[Holding]:
    """Yield the rows of values.csv, in a stream; each client's cohort stays in memory."""
    cohorts: dict[str, int] = {}

    def checked(values: list[Any]) -> Holding:
        client, cohort, _ = values
        if (first := cohorts.setdefault(client, cohort)) != cohort:
            problem = f"client {short(client)} is in cohort {cohort} here and in {first} above"
            raise FormatError(f"{problem}: give it one cohort in all its rows", field="cohort")
        return Holding._make(values)

    cohort = partial(integer, low=0, high=num_cohorts - 1)
    parsers: dict[str, Parser] = {"client": utf8, "cohort": cohort, "value": utf8}
    return read_table(path, parsers, checked, advance=advance)


LADDER: Final = (1, 2, 3, 5, 10)  # for how many reports of one value epsilon is stated


def privacy(mechanism: BitMechanism) -> dict[str, Any]:
    """Return the epsilons under their JSON names; None means no bound."""
    return {
        "epsilon_report": finite(mechanism.epsilon_report),
        "epsilon_permanent": finite(mechanism.epsilon_permanent),
        "epsilon_n": {str(n): finite(mechanism.epsilon_n(n)) for n in LADDER},
    }


def metrics(decoded: Decoded, parameters: RapporParameters, mechanism: BitMechanism) -> dict[str, Any]:
    """Return what metrics.json says: of the privacy spent, the parameters, and the decoding."""
    summary = {key: finite(value) for key, value in decoded.summary().items()}
    said = {name: value for name in (*LETTERS, *HASHING) if (value := getattr(parameters, name)) not in {None, ""}}
    return {**summary, **privacy(mechanism), "parameters": said}


def write_results(
    folder: FilePath, decoded: Decoded, about: dict[str, Any], *, spreadsheet: bool = False
) -> tuple[Path, Path]:
    """Write results.csv (every candidate, most frequent first; see `writing_csv`) and metrics.json; return both."""
    target = Path(os.fspath(folder))
    target.mkdir(parents=True, exist_ok=True)
    results, summary = target / "results.csv", target / "metrics.json"
    with writing_csv(results, spreadsheet=spreadsheet) as text:
        decoded.to_csv(text)
    with writing_text(summary) as text:
        text.write(json.dumps(about, indent=2, allow_nan=False) + "\n")
    return results, summary
