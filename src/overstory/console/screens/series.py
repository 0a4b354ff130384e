"""A metric over time: how many, how sure, since when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field as Parameter

from overstory.analysis.selection import Adjustment
from overstory.analysis.tables.output import estimate_table
from overstory.console.screens.columns import MOST_CUMULATIVE, Columns, reports_picture
from overstory.console.screens.facts import (
    adjustment_field,
    alarm_notices,
    epsilons,
    estimate_picture,
    interval_caption,
    metric_links,
    people_for,
    period_columns,
    rests_on,
    sentence,
    share_that_shows,
    state_words,
)
from overstory.console.screens.lines import Shown, shown_lines, too_uncertain
from overstory.console.screens.readings import is_shares, refuse_options, series_view, unused_fields
from overstory.console.screens.readings.groups import dimension_words, group_field, group_words
from overstory.console.view import Query, Screen, ScreenError, View
from overstory.presentation.charts.series import MOST_COLUMNS, over_time
from overstory.presentation.document import (
    Block,
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
from overstory.presentation.formats import percent
from overstory.queries.estimates import Aggregation, EstimateOptions, EstimateSeries

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric

MOST_VALUES: Final = 6
NEWEST_ROWS: Final = 25
OLDER_ROWS: Final = 30
"""Rows of the page's tables; the downloads have every row."""
OF_SHARES: Final = ("values", "every", "level")
"""What an address may ask of shares alone."""

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
        """Return the page of a metric."""
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
        table = Table("Every estimate", period_columns(self.query.adjustment), list(self._rows()))
        uncertain = too_uncertain(self.series.parts[-1].estimate)
        picture = None if uncertain else self._picture(shown)
        alarms, refresh = alarm_notices(self.data, self.metric)
        blocks = [
            metric_links(self.data, self.metric, "Over time"),
            Heading(1, self._title + ("" if uncertain else f": {self._newest_words()}")),
            Paragraph(self.metric.description, is_lead=True),
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
        return View(self.metric.title, tuple(blocks), table, picture, facts, refresh=refresh)

    @property
    def _title(self) -> str:
        return f"{self.metric.title}{group_words(self.metric, self.query.group)}"

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

    def _rows(self) -> Iterator[dict[str, Any]]:
        for part in self.series.parts:
            ends = {"from": self._label(part.first), "to": self._label(part.last)}
            for row in part.estimate.rows(level=self.query.level):
                yield {**ends, **row}

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
        last = self.columns.counted.periods[-1]
        if uncertain is not None:
            part = self.series.parts[-1]
            needed = people_for(self.metric.mechanism, 0.1, len(part.estimate.values))
            yield Notice(
                f"Too few reports for shares: {part.estimate.num_reports:,} devices, and a share is uncertain by "
                f"{uncertain:.0%} of all. To see a share of 10%, it needs about {needed}."
            )
        if self.data.state(self.metric, last) != "final":
            yield Notice(f"{self._label(last)} is {state_words(self.data, self.metric, last)}.", "faint")
        for note in dict.fromkeys((*self.series.notes, *self.series.parts[-1].estimate.notes)):
            yield Notice(sentence(note), "faint")

    def _picture(self, shown: Shown) -> Picture:
        if self.query.reading == "total":
            return _total_picture(self.metric, self._part_rows(0)[:50])
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
        return self.series.parts[number].estimate.rows(level=self.query.level)

    def _tables(self, shown: Shown) -> Iterator[Block]:
        part = self.series.parts[-1]
        when = (
            self._label(part.last)
            if part.first == part.last
            else f"{self._label(part.first)} to {self._label(part.last)}"
        )
        newest = self._part_rows(-1)
        table = estimate_table(newest[:NEWEST_ROWS], level=self.query.level)
        yield Heading(2, f"Newest: {when}")
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


def _total_picture(metric: Metric, rows: Sequence[dict[str, Any]]) -> Picture:
    caption = f"Share of each value over the range: the {len(rows)} most frequent, with intervals."
    return estimate_picture(f"{metric.id}-series", caption, rows)


def _without_reports(data: ConsoleData, metric: Metric, query: SeriesQuery) -> View:
    every = data.counts(metric).periods
    label = metric.period.label
    detail = (
        f"There are no reports in this range. There are some from {label(every[0])} to {label(every[-1])}."
        if every
        else "There are no reports of this metric yet."
    )
    blocks = (
        metric_links(data, metric, "Over time"),
        Heading(1, f"{metric.title}: no reports"),
        Paragraph(metric.description, is_lead=True),
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
        metric_links(data, metric, "Over time"),
        Heading(1, f"{metric.title}: {columns.counted.num_reports:,} reports"),
        Paragraph(metric.description, is_lead=True),
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
        Field(
            "every",
            "Periods in a column",
            "" if query.every is None else str(query.every),
            "number",
            least=1,
            step=1,
        ),
        Field(
            "reports_per_device",
            "Reports per device",
            "" if query.reports_per_device is None else f"{query.reports_per_device:g}",
            "number",
            least=1,
            hint="In a column; empty: the worst case.",
        ),
        Field("level", "Interval level", f"{query.level:g}", "number", least=0.5, most=0.999, step=0.001),
        adjustment_field(query.adjustment),
        Field("reading", "Estimates of", query.reading, "choice", READINGS),
        Field("values", "Values, one a line", names, "lines", hint="Empty: the five most frequent."),
    )
    unused = {*OF_SHARES, *unused_fields(metric)}
    asked = [field for field in fields if is_shares(metric) or field.name not in unused]
    return Form("What is shown", tuple(asked), "Show", f"/m/{metric.id}", is_live=True)
