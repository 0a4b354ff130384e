"""values.csv: true values, before any randomizing; header ``client,cohort,value``. For tests and simulations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from overstory.files.fields import Place, quoted, short
from overstory.files.opening import Advance, FilePath, reading, writing_text
from overstory.files.records import Skipped, blocks, records, split_header

COLUMNS = ("client", "cohort", "value")


class Holding(NamedTuple):
    """A client, its cohort, and a true value that it holds."""

    client: str
    cohort: int
    value: str


def read_values(
    path: FilePath, num_cohorts: int, *, skipped: Skipped | None = None, advance: Advance | None = None
) -> Iterator[Holding]:
    """Yield the rows of values.csv, in a stream; each client's cohort is kept in memory.

    Raises
    ------
    FormatError
        When the header lacks a column, or (unless skipped) a row has another number of fields, a cohort outside
        ``0 .. num_cohorts - 1`` or other than in the client's first row, or text that is not UTF-8.
    """
    source = os.fspath(path)
    cohorts: dict[str, int] = {}
    with reading(path, advance) as stream:
        names, rest = split_header(blocks(stream, source), source, COLUMNS)
        client, cohort, value = (names.index(name) for name in COLUMNS)

        def convert(place: Place, fields: list[str]) -> Holding:
            holding = Holding(
                place.text(place.column(fields, client, len(names)), "client"),
                place.whole(fields[cohort], "cohort", 0, num_cohorts - 1),
                place.text(fields[value], "value"),
            )
            first = cohorts.setdefault(holding.client, holding.cohort)
            if first != holding.cohort:
                stands = f"client {short(holding.client)} is in cohort {holding.cohort} here and in {first} above"
                raise place.error(f"{stands}: give it one cohort in all its rows", "cohort")
            return holding

        for block in rest:
            yield from records(block, source, convert, skipped)


def write_values(path: FilePath, holdings: Iterable[Holding]) -> None:
    """Write values.csv."""
    with writing_text(path) as text:
        text.write(",".join(COLUMNS) + "\n")
        text.writelines(f"{quoted(client)},{cohort},{quoted(value)}\n" for client, cohort, value in holdings)
