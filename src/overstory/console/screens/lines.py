"""The lines of a metric's chart: the values asked for or the most frequent, all others added up, what is not listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.decoding.caveats import NEEDED_SHARE
from overstory.analysis.decoding.decoder import Decoded
from overstory.analysis.difference.combination import total
from overstory.analysis.selection import normal_reach, people_variance
from overstory.presentation.charts.series import Line
from overstory.presentation.document import Column, Table
from overstory.presentation.formats import UNKNOWN, interval, percent, thousands
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate
    from overstory.console.screens.columns import Columns
    from overstory.queries.estimates import EstimateSeries

    F64 = NDArray[np.float64]

TOP: Final = 5
OTHER: Final = "other"
NOT_LISTED: Final = "not listed"


@dataclass(frozen=True, eq=False)
class Shown:
    """The lines, and the table of the same numbers.

    Attributes
    ----------
    columns
        The columns of the lines.
    lines
        One for each value, then those of all others and of what is not listed.
    notes
        What a reader must know of them.
    """

    columns: Columns
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    def table(self, most: int, address: str) -> Table:
        """Return the newest `most` columns as rows; each leads to its period's page, below `address`."""
        reports, labels = self.columns.reports(), self.columns.labels
        places = [place for place in range(len(labels) - 1, -1, -1) if reports[place]][:most]
        rows = [
            {"period": labels[place], "reports": reports[place]}
            | {f"{number}": _cell(line, place) for number, line in enumerate(self.lines)}
            for place in places
        ]
        link = (lambda row: f"{address}/{row['period']}") if self.columns.every == 1 else None
        columns = (
            Column("period", "from" if self.columns.every > 1 else "period", is_left=True, link=link),
            Column("reports", text=thousands),
            *(Column(f"{number}", line.name, _share_text) for number, line in enumerate(self.lines)),
        )
        return Table("", columns, rows)


def _cell(line: Line, place: int) -> tuple[float, float, float, bool]:
    return float(line.shares[place]), float(line.low[place]), float(line.high[place]), bool(line.detected[place])


def _share_text(cell: tuple[float, float, float, bool]) -> str:
    share, low, high, detected = cell
    if not np.isfinite([share, low, high]).all():
        return UNKNOWN
    return f"{percent(share) if detected else 'not detected'} ({interval(percent)(low, high)})"


def shown_lines(columns: Columns, series: EstimateSeries, names: Sequence[str], level: float) -> Shown:
    """Return the lines of `names`; without any, of the five most frequent over the range."""
    listed = [str(value) for value in series.parts[-1].estimate.values]
    chosen = list(names) or _most_frequent(series, listed)
    place = {name: index for index, name in enumerate(listed)}
    places = np.array([place[name] for name in chosen], np.intp)
    rest = [index for index in range(len(listed)) if index not in set(places.tolist())]
    lines = list(_value_lines(chosen, places, columns, series, level))
    notes = []
    others = [listed[index] for index in rest]
    if rest and not names and series.parts[-1].estimate.adds_up:
        name = listed[rest[0]] if len(rest) == 1 else OTHER
        lines.append(_line(name, columns, series, lambda estimate: _together(estimate, others, level)))
        notes = [f"“{OTHER}” adds up {len(rest):,} values; its interval is that of the sum."] * (len(rest) > 1)
    if all(isinstance(part.estimate, Decoded) for part in series.parts):
        lines.append(_line(NOT_LISTED, columns, series, lambda estimate: _not_listed(estimate, level)))
        notes.append(f"“{NOT_LISTED}” is the share of reports of strings that are not among the candidates.")
    return Shown(columns, tuple(lines), tuple(notes))


def _most_frequent(series: EstimateSeries, listed: Sequence[str]) -> list[str]:
    """Return the values with the most reports over all columns."""
    total = np.zeros(len(listed))
    for part in series.parts:
        total += part.estimate.counts
    return [listed[index] for index in np.argsort(-total, kind="stable")[:TOP].tolist()]


Four = tuple[float, float, float, bool]


def _value_lines(
    names: Sequence[str], places: NDArray[np.intp], columns: Columns, series: EstimateSeries, level: float
) -> Iterator[Line]:
    numbers = np.full((3, len(names), columns.number), np.nan)
    detected = np.zeros((len(names), columns.number), bool)
    for part in series.parts:
        at, scale = columns.column(part), max(part.estimate.num_reports, 1)
        low, high = part.estimate.interval(level)
        numbers[:, :, at] = np.stack([part.estimate.counts, low, high])[:, places] / scale
        detected[:, at] = part.estimate.detected()[places]
    for number, name in enumerate(names):
        shares, low, high = numbers[:, number]
        yield Line(name, shares, low, high, detected[number])


def _line(name: str, columns: Columns, series: EstimateSeries, numbers: Callable[[Any], Four]) -> Line:
    shares, low, high = (np.full(columns.number, np.nan) for _ in range(3))
    detected = np.zeros(columns.number, bool)
    for part in series.parts:
        at = columns.column(part)
        shares[at], low[at], high[at], detected[at] = numbers(part.estimate)
    return Line(name, shares, low, high, detected)


def _together(estimate: Estimate, names: Sequence[str], level: float) -> Four:
    """Return the share of several values together."""
    try:
        sum_of = total(estimate, names, level=level)
    except ParameterError:  # no decoder tells two of them apart
        return np.nan, np.nan, np.nan, False
    return sum_of.estimate, sum_of.low, sum_of.high, sum_of.low > 0


def _not_listed(estimate: Decoded, level: float) -> Four:
    people = people_variance(np.array([estimate.unallocated]), estimate.num_reports, estimate.reports_per_device)
    scale = max(estimate.num_reports, 1)
    error = float(np.sqrt(estimate.unallocated_standard_error**2 + people[0])) / scale
    share, reach = estimate.unallocated / scale, normal_reach(level) * error
    return share, share - reach, share + reach, share > reach


def too_uncertain(estimate: Estimate) -> float | None:
    """Return the typical standard error of a share, where it is too large for a picture; None where it is not."""
    errors = estimate.frequency_standard_errors
    finite = errors[np.isfinite(errors)]
    typical = float(np.median(finite)) if finite.size else 1.0
    return typical if typical > NEEDED_SHARE else None
