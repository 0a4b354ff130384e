"""A metric over time: how many, how sure, since when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Parameter

from overstory.analysis.decoding.decoder import NEEDED_SHARE, Decoded
from overstory.analysis.difference.combination import total
from overstory.analysis.selection import Adjustment, normal_reach, people_variance
from overstory.analysis.tables.output import estimate_table
from overstory.console.screens.columns import MOST_CUMULATIVE, Columns, reports_picture
from overstory.console.screens.facts import (
    adjustment_field,
    alarm_notices,
    epsilons,
    estimate_picture,
    interval_caption,
    number_field,
    page_head,
    people_for,
    rests_on,
    sentence,
    share_that_shows,
    state_notice,
)
from overstory.console.screens.readings import (
    dimension_words,
    group_field,
    group_words,
    is_shares,
    refuse_options,
    series_view,
    unused_fields,
)
from overstory.console.view import Query, Screen, ScreenError, View
from overstory.presentation.charts.series import MOST_COLUMNS, Line, over_time
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Link,
    Notice,
    Paragraph,
    Table,
)
from overstory.presentation.formats import UNKNOWN, interval, percent, thousands
from overstory.protocol.errors import ParameterError
from overstory.queries.estimates import EstimateSeries
from overstory.queries.readings import Aggregation, EstimateOptions

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric

    F64 = NDArray[np.float64]


TOP: Final = 5
OTHER: Final = "other"
NOT_LISTED: Final = "not listed"


@dataclass(frozen=True, eq=False)
class Shown:
    """The lines: one for each value, then of all others and of what is not listed; and the table of their numbers."""

    columns: Columns
    lines: tuple[Line, ...]
    notes: tuple[str, ...]  # what a reader must know of them

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


MOST_VALUES: Final = 6
NEWEST_ROWS: Final = 25
OLDER_ROWS: Final = 30
"""Rows of the page's tables; the downloads have every row."""
OF_SHARES: Final = ("values", "every", "level")
"""What an address may ask of shares alone."""

WORST_CASE: Final = "In a column; empty: the worst case."
READINGS: Final = (
    ("per-period", "each period by itself"),
    ("cumulative", "all periods up to each"),
    ("total", "the range as one"),
)


class SeriesQuery(Query):
    """What the page shows: the range, the periods in a column, the level of the intervals, and the values."""

    first: str | None = Parameter(None, alias="from")
    last: str | None = Parameter(None, alias="to")
    group: str = ""
    every: int | None = Parameter(None, ge=1, le=100_000)
    level: float = Parameter(0.95, ge=0.5, lt=1)
    adjustment: Adjustment = "fcr"
    reading: Aggregation = "per-period"
    reports_per_device: float | None = Parameter(None, ge=1)
    values: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Return the values that were asked for: one a line."""
        return list(dict.fromkeys(line for text in self.values for line in text.splitlines() if line))


class SeriesScreen(Screen):
    """The shares of a metric's values over time, with their intervals."""

    name = "Over time"
    path = "/m/{metric}"
    query = SeriesQuery

    def view(self, data: ConsoleData, query: SeriesQuery, **path: str) -> View:
        metric = data.metric(path["metric"])
        counted = data.counts(metric, *data.periods(metric, query.first, query.last), query.group)
        if not counted.periods:
            return _without_reports(data, metric, query)
        most = MOST_CUMULATIVE if query.reading == "cumulative" else MOST_COLUMNS
        columns = Columns.of(counted, query.every, most)
        options = EstimateOptions(query.reports_per_device, interval_kind="population", adjustment=query.adjustment)
        if not is_shares(metric):
            refuse_options({name: name in query.model_fields_set for name in OF_SHARES}, metric)
            return series_view(data, metric, counted, query.reading, options, _form(metric, query, columns.labels))
        if not metric.labels:
            return _without_candidates(data, metric, query, columns)
        series = columns.estimates(data, query.reading, options)
        return _Page(data, metric, query, columns, series).view()


@dataclass(frozen=True)
class _Page:
    """The parts of the page of a metric with reports."""

    data: ConsoleData
    metric: Metric
    query: SeriesQuery
    columns: Columns
    series: EstimateSeries

    def view(self) -> View:
        shown = shown_lines(self.columns, self.series, self._wanted(), self.query.level)
        uncertain = too_uncertain(self.series.parts[-1].estimate)
        picture = None if uncertain else self._picture(shown)
        alarms, refresh = alarm_notices(self.data, self.metric)
        blocks = [
            *page_head(self.data, self.metric, "Over time", self._title(uncertain)),
            KeyValues(tuple(self._figures()), "figures"),
            *alarms,
            *self._notices(uncertain),
            *((Figure(picture),) if picture else ()),
            Figure(reports_picture(self.metric, self.columns)),
            _form(self.metric, self.query, self.columns.labels),
            *(() if uncertain else self._tables(shown)),
            Heading(2, "What these numbers rest on"),
            rests_on(
                self.data,
                self.metric,
                self.series.counted.num_reports,
                self.columns.counted.periods,
                self.series.interval_kind,
                self.query.adjustment,
            ),
            Lines(*self._sentences(shown), *self.columns.counted.central_sentences()),
        ]
        facts = {**self.series.summary(), "level": self.query.level, "every": self.columns.every}
        return View(
            self.metric.title, tuple(blocks), self.series.as_table(self.query.level), picture, facts, refresh=refresh
        )

    def _title(self, uncertain: float | None) -> str:
        newest = "" if uncertain else f": {self._newest_words()}"
        return f"{self.metric.title}{group_words(self.metric, self.query.group)}{newest}"

    def _wanted(self) -> list[str]:
        names = self.query.names()
        unknown = [name for name in names if name not in set(map(str, self.series.parts[-1].estimate.values))]
        if unknown:
            raise ScreenError(400, f"values: {self.metric.id} has no value {unknown[0]!r}")
        if len(names) > MOST_VALUES:
            raise ScreenError(400, f"values: a chart shows at most {MOST_VALUES} values, not {len(names)}")
        return names

    def _label(self, period: int) -> str:
        return self.metric.period.label(period)

    def _newest_words(self) -> str:
        part = self.series.parts[-1]
        row = part.estimate.rows(1, self.query.level)[0]
        when = self._label(part.last) if part.first == part.last else f"to {self._label(part.last)}"
        if not row["detected"]:
            return f"nothing detected, {when}"
        return f"{row['value']} {percent(row['frequency'])}, {when}"

    def _figures(self) -> Iterator[tuple[str, str]]:
        part = self.series.parts[-1]
        values = len(part.estimate.values)
        yield "Reports in the newest", f"{part.estimate.num_reports:,}"
        yield "Detected", f"{int(part.estimate.detected().sum()):,} of {values:,}"
        yield (
            "Smallest share, nine times in ten",
            share_that_shows(self.metric.mechanism, part.estimate.num_reports, values),
        )
        yield from epsilons(self.metric)

    def _notices(self, uncertain: float | None) -> Iterator[Block]:
        if uncertain is not None:
            part = self.series.parts[-1]
            needed = people_for(self.metric.mechanism, 0.1, len(part.estimate.values))
            yield Notice(
                f"Too few reports for shares: {part.estimate.num_reports:,} devices, and a share is uncertain by "
                f"{uncertain:.0%} of all. To see a share of 10%, it needs about {needed}."
            )
        yield from state_notice(self.data, self.metric, self.columns.counted.periods[-1])
        for note in dict.fromkeys((*self.series.notes, *self.series.parts[-1].estimate.notes)):
            yield Notice(sentence(note), "faint")

    def _picture(self, shown: Shown) -> Picture:
        if self.query.reading == "total":
            rows = self._part_rows(0)[:50]
            caption = f"Share of each value over the range: the {len(rows)} most frequent, with intervals."
            return estimate_picture(f"{self.metric.id}-series", caption, rows)
        kind = interval_caption(self.query.level, self.query.adjustment)
        caption = f"Share of each value, {self.columns.labels[0]} to {self.columns.labels[-1]}, with {kind}."
        return over_time(
            f"{self.metric.id}-series",
            caption,
            self.columns.labels,
            shown.lines,
            events=self.columns.events(self.data.store.notes(self.metric.id)),
            xlabel=self.columns.unit,
        )

    def _part_rows(self, number: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.series.parts[number].estimate.rows(level=self.query.level)
        return rows

    def _tables(self, shown: Shown) -> Iterator[Block]:
        part = self.series.parts[-1]
        newest = self._part_rows(-1)
        table = estimate_table(newest[:NEWEST_ROWS], level=self.query.level)
        yield Heading(2, f"Newest: {self.series.when(part)}")
        yield Table("", table.columns, table.rows, table.faint)
        if len(newest) > NEWEST_ROWS:
            yield Paragraph(f"{len(newest) - NEWEST_ROWS:,} more values are in the downloads.")
        if len(self.series.parts) > 1:
            yield Heading(2, "Over time")
            yield shown.table(OLDER_ROWS, f"/m/{self.metric.id}")
            if len(self.series.parts) > OLDER_ROWS:
                yield Paragraph(
                    f"The newest {OLDER_ROWS:,} of {len(self.series.parts):,} rows; the downloads have all."
                )

    def _sentences(self, shown: Shown) -> Iterator[str]:
        yield from shown.notes
        if self.columns.every > 1:
            yield f"Counts of {self.columns.every:,} periods are added up for each column; none is left out."
        if self.metric.oracle.encoding.decoded:
            yield "What is not in the list of candidates is drawn as “not listed”."
        yield dimension_words(self.metric)


def _without_reports(data: ConsoleData, metric: Metric, query: SeriesQuery) -> View:
    every = data.counts(metric).periods
    label = metric.period.label
    detail = (
        f"There are no reports in this range. There are some from {label(every[0])} to {label(every[-1])}."
        if every
        else "There are no reports of this metric yet."
    )
    blocks = (
        *page_head(data, metric, "Over time", f"{metric.title}: no reports"),
        KeyValues(epsilons(metric), "figures"),
        Notice(detail, "faint"),
        _form(metric, query, ()),
    )
    return View(metric.title, blocks, facts={"metric": metric.id, "reports": 0})


def _without_candidates(data: ConsoleData, metric: Metric, query: SeriesQuery, columns: Columns) -> View:
    periods = columns.counted.periods
    newest = metric.period.label(periods[-1])
    picture = reports_picture(metric, columns)
    blocks = (
        *page_head(data, metric, "Over time", f"{metric.title}: {columns.counted.num_reports:,} reports"),
        KeyValues(epsilons(metric), "figures"),
        Notice(
            "The registry has no list of candidates for this metric. Open its newest period to look for strings.",
            "faint",
        ),
        Link(f"Look for strings in {newest}", f"/m/{metric.id}/{newest}"),
        _form(metric, query, columns.labels),
        Figure(picture),
        rests_on(data, metric, columns.counted.num_reports, periods, "population"),
    )
    return View(metric.title, blocks, None, picture, {"metric": metric.id, "reports": columns.counted.num_reports})


def _form(metric: Metric, query: SeriesQuery, labels: Sequence[str]) -> Form:
    names = "\n".join(query.names())
    fields = (
        *group_field(metric, query.group),
        Field("from", "From", query.first or "", hint=f"such as {labels[0]}" if labels else ""),
        Field("to", "To", query.last or "", hint=f"such as {labels[-1]}" if labels else ""),
        number_field("every", "Periods in a column", query.every, 1, None, 1),
        number_field("reports_per_device", "Reports per device", query.reports_per_device, 1, None, None, WORST_CASE),
        number_field("level", "Interval level", query.level, 0.5, 0.999, 0.001),
        adjustment_field(query.adjustment),
        Field("reading", "Estimates of", query.reading, "choice", READINGS),
        Field("values", "Values, one a line", names, "lines", hint="Empty: the five most frequent."),
    )
    unused = {*OF_SHARES, *unused_fields(metric)}
    asked = [field for field in fields if is_shares(metric) or field.name not in unused]
    return Form("What is shown", tuple(asked), "Show", f"/m/{metric.id}", is_live=True)
