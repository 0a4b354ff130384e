"""counts.csv: no header; a row per cohort, its number of reports and then how often each bit was set, bit 0 first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overstory.analysis.counts import SupportCounts
from overstory.files.opening import reading, writing_text
from overstory.files.records import all_records
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from overstory.files.fields import Place
    from overstory.files.opening import FilePath

MOST = (1 << 62) - 1
"""The largest count: two such files still add up within 64 bits."""


def read_counts(path: FilePath, num_cohorts: int, num_bits: int, notes: list[str] | None = None) -> SupportCounts:
    """Read counts.csv; several times as many rows as cohorts are added up, as Google's `AdjustCounts` does.

    Parameters
    ----------
    path
        The file. Row i, from 0, is of cohort i modulo `num_cohorts`.
    num_cohorts, num_bits
        m and k.
    notes
        Where it is noted that rows were added up.

    Raises
    ------
    FormatError
        When the file is empty, has no multiple of m rows, another number of columns than k + 1, or a field is no
        count, or larger than its cohort's number of reports.
    """
    source = os.fspath(path)

    def convert(place: Place, fields: list[str]) -> list[int]:
        return _row(place, fields, num_bits)

    with reading(path) as stream:
        rows = list(all_records(stream, source, convert))
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


def _row(place: Place, fields: list[str], num_bits: int) -> list[int]:
    if len(fields) != num_bits + 1:
        raise place.error(
            f"expected {num_bits + 1} fields, the cohort's reports and {num_bits} bit counts (k), found {len(fields)}"
        )
    total = place.whole(fields[0], "total", 0, MOST)
    counts = [place.whole(text, f"bit{i}", 0, MOST) for i, text in enumerate(fields[1:])]
    for i, count in enumerate(counts):
        if count > total:
            raise place.error(f"the bit is set {count} times in {total} reports: expected at most {total}", f"bit{i}")
    return [total, *counts]


def write_counts(path: FilePath, counts: SupportCounts) -> None:
    """Write counts.csv."""
    with writing_text(path) as text:
        for total, ones in zip(counts.totals.tolist(), counts.ones.tolist(), strict=True):
            text.write(",".join(map(str, [total, *ones])) + "\n")
