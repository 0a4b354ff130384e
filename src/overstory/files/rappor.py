"""counts.csv: no header; a row per cohort, its number of reports and then how often each bit was set, bit 0 first.

values.csv: true values, before any randomizing; header ``client,cohort,value``. For tests and simulations.

What decoding leaves behind: results.csv and metrics.json.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from overstory.analysis.reports import SupportCounts
from overstory.files.csv import RecordPosition, Skipped, all_records, blocks, quoted, records, short, split_header
from overstory.files.io import Advance, FilePath, reading, writing_text
from overstory.files.spreadsheet import writing_csv
from overstory.privacy import text as words
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from overstory.analysis.decoding import Decoded
    from overstory.files.params import RapporParameters
    from overstory.protocol.mechanisms.payloads import BitMechanism


MOST = (1 << 62) - 1
"""The largest count: two such files still add up within 64 bits."""


def read_counts(path: FilePath, num_cohorts: int, num_bits: int, notes: list[str] | None = None) -> SupportCounts:
    """Read counts.csv; several times as many rows as cohorts are added up, as Google's `AdjustCounts` does.

    Parameters
    ----------
    path
        The file. Row i, from 0, is of cohort i modulo `num_cohorts`.
    """
    source = os.fspath(path)

    def convert(place: RecordPosition, fields: list[str]) -> list[int]:
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


def _row(place: RecordPosition, fields: list[str], num_bits: int) -> list[int]:
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


COLUMNS = ("client", "cohort", "value")


class Holding(NamedTuple):
    """A client, its cohort, and a true value that it holds."""

    client: str
    cohort: int
    value: str


def read_values(
    path: FilePath, num_cohorts: int, *, skipped: Skipped | None = None, advance: Advance | None = None
) -> Iterator[Holding]:
    """Yield the rows of values.csv, in a stream; each client's cohort is kept in memory."""
    source = os.fspath(path)
    cohorts: dict[str, int] = {}
    with reading(path, advance) as stream:
        names, rest = split_header(blocks(stream, source), source, COLUMNS)
        client, cohort, value = (names.index(name) for name in COLUMNS)

        def convert(place: RecordPosition, fields: list[str]) -> Holding:
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


LADDER: Final = (1, 2, 3, 5, 10)
"""For how many reports of one value epsilon is stated."""


def privacy(mechanism: BitMechanism) -> dict[str, Any]:
    """Return the epsilons under their JSON names; None stands for no bound at all.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> spent = privacy(mechanism("rappor"))
    >>> round(spent["epsilon_report"], 3), round(spent["epsilon_n"]["2"], 3)
    (1.074, 2.017)
    """
    return {
        "epsilon_report": finite(mechanism.epsilon_report),
        "epsilon_permanent": finite(mechanism.epsilon_permanent),
        "epsilon_n": {str(n): finite(mechanism.epsilon_n(n)) for n in LADDER},
    }


def finite(number: float) -> float | None:
    """Return a number as JSON can hold it."""
    return number if math.isfinite(number) else None


def epsilon_text(epsilon: float | None) -> str:
    """Return an epsilon as results hold it in words: four decimals, rounded up.

    Examples
    --------
    >>> epsilon_text(1.00001), epsilon_text(None)
    ('1.0001', 'without bound')
    """
    return words.epsilon_text(math.inf if epsilon is None else epsilon, "without bound")


def metrics(decoded: Decoded, parameters: RapporParameters, mechanism: BitMechanism) -> dict[str, Any]:
    """Return what metrics.json says: of the privacy spent, the parameters, and the decoding as a whole."""
    letters = {letter: getattr(parameters, letter) for letter in ("k", "h", "m", "p", "q", "f")}
    summary = {key: finite(v) if isinstance(v, float) else v for key, v in decoded.summary().items()}
    return {**summary, **privacy(mechanism), "parameters": letters}


def write_results(
    folder: FilePath, decoded: Decoded, about: dict[str, Any], *, spreadsheet: bool = False
) -> tuple[Path, Path]:
    """Write results.csv (every candidate, most frequent first; see `writing_csv`) and metrics.json into `folder`.

    Returns
    -------
    results, metrics : Path
        The two files.
    """
    target = Path(os.fspath(folder))
    target.mkdir(parents=True, exist_ok=True)
    results, beside = target / "results.csv", target / "metrics.json"
    with writing_csv(results, spreadsheet=spreadsheet) as text:
        decoded.to_csv(text)
    with writing_text(beside) as text:
        text.write(json.dumps(about, indent=2, allow_nan=False) + "\n")
    return results, beside
