"""The files of RAPPOR's public tools.

params.csv: RAPPOR's six letters, header ``k,h,m,p,q,f`` and one row.

counts.csv: no header; a row per cohort, its number of reports and then how often each bit was set, bit 0 first.

values.csv: true values, before any randomizing; header ``client,cohort,value``. For tests and simulations.

results.csv and metrics.json: what decoding writes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from overstory.analysis.reports import SupportCounts
from overstory.files.csv import Parser, Skipped, decimal, integer, read_records, read_table, row_parser, short, utf8
from overstory.files.io import Advance, FilePath, writing_csv, writing_text
from overstory.presentation.formats import finite
from overstory.privacy import text as privacy_text
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.analysis.decoding import Decoded
    from overstory.protocol.mechanisms.payloads import BitMechanism


LETTERS = ("k", "h", "m", "p", "q", "f")


@dataclass(frozen=True)
class RapporParameters:
    """RAPPOR's parameters under their own letters, in the order of params.csv.

    Parameters
    ----------
    f : float
        Share of the permanent bits that are noise.

    Examples
    --------
    >>> parameters = RapporParameters(k=128, h=2, m=16, p=0.5, q=0.75, f=0.5)
    >>> round(parameters.mechanism().epsilon_report, 4)
    1.0743
    """

    k: int
    h: int
    m: int
    p: float
    q: float
    f: float

    def __post_init__(self) -> None:
        self.mechanism()

    def mechanism(self, hash_family: str = "overstory-v1", hash_key: str = "") -> BitMechanism:
        """Return the mechanism: the parameters with a hash family."""
        from overstory.protocol.mechanisms.bits import rappor

        return rappor(
            num_bits=self.k,
            num_hashes=self.h,
            num_cohorts=self.m,
            f=self.f,
            p=self.p,
            q=self.q,
            hash_family=hash_family,
            hash_key=hash_key,
        )


def read_params(path: FilePath) -> RapporParameters:
    """Read params.csv."""
    parsers = dict.fromkeys("khm", partial(integer, low=1, high=1 << 16)) | dict.fromkeys("pqf", decimal)
    rows = list(read_table(path, parsers, _checked))
    if len(rows) != 1:
        raise FormatError(f"expected one row under the header, found {len(rows)}", source=os.fspath(path))
    return rows[0]


def _checked(letters: list[Any]) -> RapporParameters:
    try:
        return RapporParameters(*letters)
    except ParameterError as error:
        raise FormatError(str(error)) from error


def write_params(path: FilePath, parameters: RapporParameters) -> None:
    """Write params.csv."""
    with writing_text(path) as text:
        text.write(",".join(LETTERS) + "\n")
        text.write(",".join(map(repr, astuple(parameters))) + "\n")


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


COLUMNS = ("client", "cohort", "value")


class Holding(NamedTuple):
    """A client, its cohort, and a true value that it holds."""

    client: str
    cohort: int
    value: str


def read_values(
    path: FilePath, num_cohorts: int, *, skipped: Skipped | None = None, advance: Advance | None = None
) -> Iterator[Holding]:
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
    return read_table(path, parsers, checked, skipped=skipped, advance=advance)


LADDER: Final = (1, 2, 3, 5, 10)
"""For how many reports of one value epsilon is stated."""


def privacy(mechanism: BitMechanism) -> dict[str, Any]:
    """Return the epsilons under their JSON names; None means no bound.

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


def epsilon_text(epsilon: float | None) -> str:
    """Return an epsilon as results hold it in text: four decimals, rounded up.

    Examples
    --------
    >>> epsilon_text(1.00001), epsilon_text(None)
    ('1.0001', 'without bound')
    """
    return privacy_text.epsilon_text(math.inf if epsilon is None else epsilon, "without bound")


def metrics(decoded: Decoded, parameters: RapporParameters, mechanism: BitMechanism) -> dict[str, Any]:
    """Return what metrics.json says: of the privacy spent, the parameters, and the decoding."""
    letters = {letter: getattr(parameters, letter) for letter in ("k", "h", "m", "p", "q", "f")}
    summary = {key: finite(value) for key, value in decoded.summary().items()}
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
    results, summary = target / "results.csv", target / "metrics.json"
    with writing_csv(results, spreadsheet=spreadsheet) as text:
        decoded.to_csv(text)
    with writing_text(summary) as text:
        text.write(json.dumps(about, indent=2, allow_nan=False) + "\n")
    return results, summary
