"""The files of RAPPOR's public tools for two variables: reports of both, and counts of their pairs of bits.

Reports, as Google's `decode-assoc` reads them: a header with ``cohort`` and a column for each variable, bits as text,
most significant first; a boolean variable is one bit. As its simulation `assoc_sim` writes them: no header, the cohort
counted from 1, and bits least significant first. Both variables have the parameters of one params.csv.

Counts: no header; for each cohort k_x + 1 rows of k_y + 1 numbers, how many reports have both of two bits. The last
row and the last column count one bit alone, and their corner the reports.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.support.linked import count_bit_pairs
from overstory.files.csv import (
    Block,
    Skipped,
    bit_string,
    blocks,
    integer,
    read_records,
    records,
    row_parser,
    split_header,
)
from overstory.files.io import reading, writing_text
from overstory.files.rappor import MOST
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from overstory.files.io import Advance, FilePath
    from overstory.files.rappor import RapporParameters


@dataclass(frozen=True)
class PairForm:
    """The form of reports of two variables.

    Attributes
    ----------
    names
        The variables: the columns of a file with a header.
    widths
        How many bits each has: k, or 1 where it is boolean.
    num_cohorts
        m.
    """

    names: tuple[str, str]
    widths: tuple[int, int]
    num_cohorts: int

    @property
    def num_bits(self) -> int:
        """Bits of both."""
        return sum(self.widths)

    def batch(self, rows: list[tuple[int, int]]) -> ReportBatch:
        """Return reports, each a cohort and the bits of both variables, the first one's in the low bits."""
        width = 8 * -(-self.num_bits // 64)
        octets = b"".join(bits.to_bytes(width, "little") for _, bits in rows)
        matrix = np.frombuffer(octets, "<u8").astype(np.uint64, copy=False).reshape(-1, width // 8)
        return ReportBatch(np.array([row[0] for row in rows], np.uint16), matrix, self.num_bits, self.num_cohorts)


def pair_form(parameters: RapporParameters, names: Sequence[str], boolean: str | None) -> PairForm:
    """Return the form of reports of two variables with these parameters.

    Raises
    ------
    ParameterError
        When the boolean variable is none of them, or both are the same.
    """
    if names[0] == names[1]:
        raise ParameterError(f"--pair {names[0]} {names[1]}: name two variables")
    if boolean is not None and boolean not in names:
        raise ParameterError(f"--boolean {boolean}: it is none of the variables {names[0]} and {names[1]}")
    widths = [1 if name == boolean else parameters.k for name in names]
    return PairForm((names[0], names[1]), (widths[0], widths[1]), parameters.m)


def read_pairs(
    path: FilePath, form: PairForm, *, skipped: Skipped | None = None, advance: Advance | None = None
) -> Iterator[ReportBatch]:
    """Yield the reports of a file in batches, in a stream; whether it has a header shows which form it has.

    With `skipped`, a bad record is counted and passed over: Google's files have empty fields where a device did not
    report a variable.
    """
    source = os.fspath(path)
    with reading(path, advance) as stream:
        cut = blocks(stream, source)
        head = next(cut, None)
        if head is None or not head.raw.strip():
            raise FormatError(
                f"the file is empty: expected a header with cohort,{','.join(form.names)}, or reports", source=source
            )
        first, every = head.raw.split(b",", 1)[0], chain((head,), cut)
        parse, rest = _simulated(form, every) if first.strip().isdigit() else _headed(form, every, source)
        for block in rest:
            rows = list(records(block, source, parse, skipped))
            if rows:
                yield form.batch(rows)


def _headed(form: PairForm, cut: Iterator[Block], source: str) -> tuple[Callable[[list[str]], Any], Iterator[Block]]:
    """Read the header; cohorts are counted from 0, and bits are written most significant first."""
    names, rest = split_header(cut, source, ("cohort", *form.names))
    bits = [
        (names.index(name), name, partial(bit_string, num_bits=k))
        for name, k in zip(form.names, form.widths, strict=True)
    ]
    cohort = (names.index("cohort"), "cohort", partial(integer, low=0, high=form.num_cohorts - 1))
    parse = row_parser(len(names), (*bits, cohort))

    def read(fields: list[str]) -> tuple[int, int]:
        first, second, place = parse(fields)
        return place, first | second << form.widths[0]

    return read, rest


def _simulated(form: PairForm, cut: Iterator[Block]) -> tuple[Callable[[list[str]], Any], Iterator[Block]]:
    """Read without a header; cohorts are counted from 1, and bits are written least significant first."""
    bits = [
        (place, name, partial(_turned, num_bits=k))
        for place, name, k in zip((1, 2), form.names, form.widths, strict=True)
    ]
    parse = row_parser(3, ((0, "cohort", partial(integer, low=1, high=form.num_cohorts)), *bits))

    def read(fields: list[str]) -> tuple[int, int]:
        place, first, second = parse(fields)
        return place - 1, first | second << form.widths[0]

    return read, cut


def _turned(text: str, num_bits: int) -> int:
    return bit_string(text[::-1], num_bits)


def sum_pairs(batches: Iterable[ReportBatch], form: PairForm) -> SupportCounts:
    """Count the pairs of bits of batches, in a stream."""
    first, second = form.widths
    counts = SupportCounts.empty(form.num_cohorts, (first + 1) * (second + 1))
    for batch in batches:
        table = count_bit_pairs(batch, first, second)
        counts += SupportCounts(table[:, first, second], table.reshape(len(table), -1))
    return counts


def write_pair_counts(path: FilePath, counts: SupportCounts, form: PairForm) -> None:
    """Write counts of pairs."""
    with writing_text(path) as text:
        for row in counts.ones.reshape(-1, form.widths[1] + 1).tolist():
            text.write(",".join(map(str, row)) + "\n")


def read_pair_counts(path: FilePath, form: PairForm) -> SupportCounts:
    """Read counts of pairs."""
    source, (first, second) = os.fspath(path), form.widths
    count = partial(integer, low=0, high=MOST)
    columns = ((place, f"column {place + 1}", count) for place in range(second + 1))
    rows = list(
        read_records(path, row_parser(second + 1, columns, f"counts, one for each of {second} bits, and a sum"))
    )
    if len(rows) != form.num_cohorts * (first + 1):
        raise FormatError(
            f"expected {form.num_cohorts * (first + 1):,} rows, {first} bits and a sum for each of {form.num_cohorts} "
            f"cohorts, found {len(rows):,}: make it with `overstory sum --pair`",
            source=source,
        )
    table = np.array(rows, np.int64).reshape(form.num_cohorts, first + 1, second + 1)
    alone = np.minimum(table[:, :, -1:], table[:, -1:, :])
    wrong = np.argwhere(table > alone)
    if len(wrong):
        cohort, i, j = (int(place) for place in wrong[0])
        line = cohort * (first + 1) + i + 1
        problem = (
            f"column {j + 1}: {table[cohort, i, j]} reports have both bits, but only {alone[cohort, i, j]} one of them"
        )
        raise FormatError(problem, source=source, line=line)
    return SupportCounts(table[:, -1, -1], table.reshape(form.num_cohorts, -1))
