"""A metric over time: how many, how sure, since when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Parameter

from overstory.analysis.decoding.decoder import NEEDED_SHARE, Decoded
from overstory.analysis.difference import total
from overstory.analysis.tables.output import (
    MOST_DRAWN,
    NOT_LISTED,
    estimate_picture,
    interval_caption,
    unlike,
)
from overstory.console.alarms import find_alarms, notice
from overstory.console.changes import DRAWN, Trend
from overstory.console.screens.page import (
    ASK_AGAIN,
    OF_NUMBERS,
    WHOLE_RANGE,
    Page,
    capitalized,
    epsilon_of_a_year,
    estimate_blocks,
    facts_of,
    is_shares,
    not_listed,
    number_field,
    options_of,
    people_for,
    refuse_options,
    share_that_shows,
)
from overstory.console.view import Query, ScreenError, View
from overstory.presentation.charts.numbers import counts_over_time
from overstory.presentation.charts.series import MOST_COLUMNS, Event, Line, over_time
from overstory.presentation.document import Block, Column, Field, Figure, Heading, Link, Links, Notice, Paragraph, Table
from overstory.presentation.formats import UNKNOWN, interval, percent, short_dates, thousands
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics.period import DAY, WEEK
from overstory.queries.counts import parse_range

if TYPE_CHECKING:
    from overstory.analysis.alarms.alarm import Alarm
    from overstory.analysis.estimate import Estimate
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import EstimateSeries
    from overstory.queries.readings import PeriodEstimate

    F64 = NDArray[np.float64]


EVENTS: Final = ("release", "incident")
PRESETS: Final = (4, 12)  # weeks up to the newest report that a link shows
MOST_CHOICES: Final = 200  # periods that a form lists; of more, a label is typed


TOP: Final = 5


Four = tuple[float, float, float, bool]  # A share, its interval, and whether it was detected


def _share_text(cell: Four) -> str:
    share, low, high, detected = cell
    if not np.isfinite([share, low, high]).all():
        return UNKNOWN
    return f"{f'{share:.1%}' if detected else 'not detected'} ({interval('{:.1%}'.format)(low, high)})"


def _together(estimate: Estimate, names: Sequence[str], level: float) -> Four:
    try:
        sum_of = total(estimate, names, level=level)
    except ParameterError:  # no decoder tells two of them apart
        return np.nan, np.nan, np.nan, False
    return sum_of.estimate, sum_of.low, sum_of.high, sum_of.low > 0


def _of_values(estimate: Estimate, level: float) -> F64:
    scale = max(estimate.num_reports, 1)
    shares = np.stack([estimate.counts, *estimate.interval(level)]) / scale
    return np.vstack([shares, estimate.detected()])


def _unlisted(estimate: Decoded, level: float) -> Four:
    share, low, high = not_listed(estimate, level)
    return share, low, high, low > 0


MOST_VALUES: Final = 6
MOST_READ: Final = 60  # periods of another reading than shares: each is read by itself
NEWEST_ROWS: Final = 25
OLDER_ROWS: Final = 30  # rows of the page's tables; the downloads have every row
OF_SHARES: Final = ("values", "level")  # what an address may ask of shares alone

OTHER_TESTS: Final = frozenset({"first", "last", "group", "reading", "pool", "reports_per_device"})
"""What makes other estimates of an address than the board's."""

POOLED: Final = "Of each period by itself: estimated with those before it."
WORST_CASE: Final = "In a period; empty: the worst case."
READINGS: Final = (
    ("per-period", "each period by itself"),
    ("total", "the range as one"),
)


class SeriesQuery(Query):
    """What the page shows: the range, the level of the intervals, and the values."""

    first: str | None = Parameter(None, alias="from")
    last: str | None = Parameter(None, alias="to")
    group: str = ""
    level: float = Parameter(0.95, ge=0.5, lt=1)
    reading: Literal["per-period", "total"] = "per-period"
    pool: int = Parameter(1, ge=1, le=1000)
    reports_per_device: float | None = Parameter(None, ge=1)
    values: tuple[str, ...] = ()

    def names(self) -> list[str]:
        return list(dict.fromkeys(line for text in self.values for line in text.splitlines() if line))


def show_series(data: ConsoleData, query: SeriesQuery, **path: str) -> View:
    """Show the shares of a metric's values over time, with their intervals."""
    metric = data.metric(path["metric"])
    counted = data.counts(metric, *parse_range(metric, query.first, query.last), query.group)
    page = (SharesOverTime if is_shares(metric) else OverTime)(data, metric, query, counted)
    page.figures = [epsilon_of_a_year(metric, data.registry.budget)]
    page.fields, page.choices = list(page.form_fields()), list(page.range_links())
    if not counted.periods:
        page.words, page.notices, page.rests_on = "no reports", [page.no_reports("range")], ()
    elif not isinstance(page, SharesOverTime):
        refuse_options({name: name in query.model_fields_set for name in OF_SHARES}, metric)
        _show_reading(page)
    elif metric.labels:
        page.show_shares()
    else:
        newest = page.newest_period
        words = "The registry has no list of candidates for this metric. Open its newest period to look for strings."
        link = Link(f"Look for strings in {page.said_label(newest)}", f"{page.address}/{page.label(newest)}")
        page.notices, page.more = [Notice(words, "faint"), link], [Figure(page.reports_picture())]
    return page.view()


class OverTime(Page):
    """The page of a metric over time."""

    most: int = MOST_READ
    """The newest periods whose numbers are shown one by one, with reports or without."""

    def __init__(self, data: ConsoleData, metric: Metric, query: SeriesQuery, every: PeriodCounts) -> None:
        super().__init__(data, metric, query, every, place="Over time")
        self.every = every

    def newest_ones(self) -> PeriodCounts:
        first, periods = self.first_one, self.every.periods
        group: str = self.query.group
        return self.every if first <= periods[0] else self.data.counts(self.metric, first, periods[-1], group)

    @property
    def first_one(self) -> int:
        return self.every.periods[-1] + 1 - self.most

    def left_out(self) -> Iterator[Block]:
        if older := sum(period < self.first_one for period in self.every.periods):
            words = f"This page and its downloads have the newest {self.most} periods"
            yield Paragraph(f"{words}; {older:,} older ones with reports can be asked for in the form.")

    @cached_property
    def newest_period(self) -> int:
        """The newest period that is over and has reports, as on the board; while there is none, the newest one."""
        last, periods = self.metric.newest_over(self.data.clock()), self.every.periods
        return max([period for period in periods if period <= last] or periods)

    @cached_property
    def columns(self) -> range:
        """The columns of a chart, a period each: the newest ones."""
        periods = self.every.periods
        return range(max(periods[0], periods[-1] + 1 - MOST_COLUMNS), periods[-1] + 1)

    @cached_property
    def labels(self) -> list[str]:
        return list(map(self.label, self.columns))

    @cached_property
    def reports(self) -> F64:
        counts = self.every.counts
        return np.array([counts[period].num_reports if period in counts else 0.0 for period in self.columns])

    def reports_picture(self) -> Picture:
        unit, labels = str(self.metric.period), short_dates(self.labels)
        return counts_over_time(f"{self.metric.id}-reports", f"Reports by {unit}.", labels, self.reports, xlabel=unit)

    def form_fields(self) -> Iterator[Field]:
        query = self.query
        shares, whole = is_shares(self.metric), self.metric.reading in WHOLE_RANGE
        yield from (self._end(*end) for end in (("from", "From", query.first), ("to", "To", query.last)))
        if not whole:
            each = query.reports_per_device
            yield number_field("reports_per_device", "Reports per device", each, 1, None, None, WORST_CASE)
        if shares:
            yield number_field("level", "Interval level", query.level, 0.5, 0.999, 0.001)
        if not whole:
            yield Field("reading", "Estimates of", query.reading, "choice", READINGS)
            yield number_field("pool", "Periods pooled", query.pool, 1, 1000, 1, POOLED)
        if shares:
            names = "\n".join(query.names())
            yield Field("values", "Values, one a line", names, "lines", hint="Empty: the five most frequent.")

    @cached_property
    def every_label(self) -> list[str]:
        return [self.label(period) for period in reversed(self.data.store.periods(self.metric.id))]

    def _end(self, name: str, title: str, chosen: str | None) -> Field:
        labels = dict.fromkeys((*filter(None, [chosen]), *self.every_label))
        if len(labels) > MOST_CHOICES:
            return Field(name, title, chosen or "", hint=f"such as {self.every_label[0]}")
        choices = tuple((label, self.data.words(label)) for label in labels)
        return Field(name, title, chosen or "", "choice", (("", "all"), *choices))

    def range_links(self) -> Iterator[Block]:
        period, labels, query = self.metric.period, self.every_label, self.query
        newest, oldest = (period.parse_label(labels[end]) for end in (0, -1)) if labels else (0, 0)
        starts = {newest + 1 - weeks * WEEK // period.seconds: f"last {weeks} weeks" for weeks in PRESETS}
        names = {self.label(start): name for start, name in starts.items() if start > oldest} | {None: "all"}
        if len(names) > 1:
            places = tuple((name, query.address(self.address, first=at, last=None)) for at, name in names.items())
            yield Links("Range", places, "" if query.last else names.get(query.first, ""))

    def period_column(self) -> Column:
        return Column("period", None, self.data.words, is_left=True, link=lambda row: f"{self.address}/{row['period']}")


def _show_reading(page: OverTime) -> None:
    """Show what the newest period says, or all periods together, and all periods."""
    data, metric, query, every = page.data, page.metric, page.query, page.every
    options, newest = options_of(query), page.newest_period
    whole = metric.reading in WHOLE_RANGE or query.reading == "total"
    if not whole:
        page.counted = data.counts(metric, max(newest - query.pool + 1, every.periods[0]), newest, query.group)
    reading = over_time = data.read(page.counted, "total", options)
    if not whole and len(every.periods) > 1:
        over_time = data.read(page.newest_ones(), query.reading, options)
    ends = " to ".join(dict.fromkeys(page.said_label(page.counted.periods[end]) for end in (0, -1)))
    page.words = f"{page.counted.num_reports:,} reports, {ends}"
    page.notices = page.state(every.periods[-1])
    page.show_reading(reading)
    page.table, page.facts = over_time.as_table(), facts_of(over_time)
    rows = [
        {"period": page.label(period), "reports": every.counts[period].num_reports}
        for period in reversed(every.periods)
        if period >= page.first_one
    ]
    page.tables = [
        *page.tables,
        Heading(2, "Over time"),
        *(map(Figure, over_time.over_time()) if metric.reading in OF_NUMBERS else ()),
        Figure(page.reports_picture()),
        Table("", (page.period_column(), Column("reports", text=thousands)), rows),
        *(() if whole else page.left_out()),
    ]


class SharesOverTime(OverTime):
    """The page of shares over time."""

    most = MOST_COLUMNS

    def show_shares(self) -> None:
        """Fill the page's parts."""
        total = self.query.reading == "total"
        self.counted = self.every if total else self.newest_ones()
        row = self.rows[0]
        self.words = f"{row['value']} {percent(row['frequency'])}" if row["detected"] else "nothing detected"
        self.words = "" if self.uncertain else f"{self.words}, {self._newest_words()}"
        self.lead, self.notices = list(self._changes()), list(self._notices())
        self.refresh = ASK_AGAIN if self.alarms is None else 0
        self.figures = [*self._newest_figures(), *self.figures]
        self.pictures = [*self._lines_picture(), self.reports_picture()]
        if self.uncertain is None:
            self.choices = [*self.choices, *(() if total else self._value_links())]
            self.more = [*self._tables(), *(() if total else self.left_out())]
        self.sentences = list(self._sentences())
        self.table = self.series.as_table(self.query.level)
        self.facts = {**self.series.summary(), "level": self.query.level}

    @cached_property
    def series(self) -> EstimateSeries:
        series: EstimateSeries = self.data.read(self.counted, self.query.reading, options_of(self.query))
        return series

    @cached_property
    def alarms(self) -> list[Alarm] | None:
        try:
            return [alarm for alarm in find_alarms(self.data) if alarm.metric == self.metric.id]
        except ScreenError as error:
            if error.status != 202:
                raise
            return None

    def _changes(self) -> Iterator[Block]:
        """Say what the board says; of another range, or of a group, it would be another test, which nobody counts."""
        if self.query.model_dump(exclude_defaults=True).keys() & OTHER_TESTS or self.uncertain is not None:
            return
        metric, data, newest = self.metric, self.data, self.newest.last
        shown = {one.last: one.estimate for one in self.series.parts if newest - DRAWN < one.last <= newest}
        trend = Trend.of(metric, shown, data.store.notes(metric.id), len(data.registry), self.said_label)
        yield Paragraph(f"{capitalized(self.said_label(newest))}: {trend.sentence}")

    @property
    def newest(self) -> PeriodEstimate:
        parts = self.series.parts
        return next((part for part in reversed(parts) if part.last <= self.newest_period), parts[-1])

    @cached_property
    def uncertain(self) -> float | None:
        """The typical standard error of a share, where it is too large for a picture; None where it is not."""
        errors = self.newest.estimate.frequency_standard_errors
        finite = errors[np.isfinite(errors)]
        typical = float(np.median(finite)) if finite.size else 1.0
        return typical if typical > NEEDED_SHARE else None

    @cached_property
    def shown(self) -> tuple[list[Line], list[str]]:
        """The lines, and what must be known of them: the values asked for, or else the most frequent and all others."""
        names, level, parts = self.query.names(), self.query.level, self.series.parts
        listed = list(map(str, self.newest.estimate.values))
        unknown = [name for name in names if name not in set(listed)]
        if unknown:
            raise ScreenError(400, f"values: {self.metric.id} has no value {unknown[0]!r}")
        if len(names) > MOST_VALUES:
            raise ScreenError(400, f"values: a chart shows at most {MOST_VALUES} values, not {len(names)}")
        most = sum(part.estimate.counts for part in parts)
        chosen = names or [listed[index] for index in np.argsort(-most, kind="stable")[:TOP].tolist()]
        places = [listed.index(name) for name in chosen]
        lines, notes = self._lines(chosen, lambda estimate: _of_values(estimate, level)[:, places]), []
        others = [name for name in listed if name not in set(chosen)]
        if others and not names and self.newest.estimate.adds_up:
            name = others[0] if len(others) == 1 else unlike(f"{len(others):,} more values", listed)
            lines += self._lines([name], lambda estimate: _together(estimate, others, level))
            notes = [f"“{name}” adds up their shares; its interval is that of the sum."] * (len(others) > 1)
        if all(isinstance(part.estimate, Decoded) for part in parts):
            name = unlike(NOT_LISTED, listed)
            lines += self._lines([name], lambda estimate: _unlisted(estimate, level))
            notes.append(f"“{name}” is the share of reports of strings that are not among the candidates.")
        return lines, notes

    def _lines(self, names: Sequence[str], numbers: Callable[[Any], Any]) -> list[Line]:
        """Return a line for each name, from what `numbers` says of an estimate: shares, both ends, and detected."""
        drawn = np.full((4, len(names), len(self.columns)), np.nan)
        drawn[3] = 0
        for part in self.series.parts:
            drawn[:, :, part.last - self.columns.start] = np.reshape(numbers(part.estimate), (4, -1))
        return [
            Line(name, share, low, high, detected.astype(bool))
            for name, share, low, high, detected in zip(names, *drawn, strict=True)
        ]

    def _line_table(self) -> Table:
        reports, labels, lines = self.reports, self.labels, self.shown[0]
        places = [place for place in range(len(labels) - 1, -1, -1) if reports[place]][:OLDER_ROWS]
        rows = [
            {"period": labels[place], "reports": reports[place]}
            | {f"{number}": line.at(place) for number, line in enumerate(lines)}
            for place in places
        ]
        shown = (
            self.period_column(),
            Column("reports", text=thousands),
            *(Column(f"{number}", line.name, _share_text) for number, line in enumerate(lines)),
        )
        return Table("", shown, rows)

    def _newest_words(self) -> str:
        part = self.newest
        return f"{'' if part.first == part.last else 'to '}{self.said_label(part.last)}"

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.newest.estimate.rows(level=self.query.level)
        return rows

    def _newest_figures(self) -> Iterator[tuple[str, str]]:
        estimate = self.newest.estimate
        reports, values = estimate.num_reports, len(estimate.values)
        yield "Reports in the newest", f"{reports:,}"
        if (active := self.counted.devices(self.newest.last, self.newest.last)) is not None:
            yield f"Devices in the newest period ({active.low:,} to {active.high:,})", f"{active.estimate:,}"
        yield "Detected", f"{int(estimate.detected().sum()):,} of {values:,}"
        yield "Smallest share, nine times in ten", share_that_shows(self.metric.mechanism, reports, values)

    def _notices(self) -> Iterator[Block]:
        if self.alarms is None:
            words = "Alarms are not there yet: earlier periods are being decoded. This page asks again by itself."
            yield Notice(words, "faint")
        for alarm in self.alarms or ():
            yield notice(self.data, alarm)
        estimate = self.newest.estimate
        if self.uncertain is not None:
            needed = people_for(self.metric.mechanism, 0.1, len(estimate.values))
            yield Notice(
                f"Too few reports for shares: {estimate.num_reports:,} devices, and a share is uncertain by "
                f"{self.uncertain:.0%} of all. To see a share of 10%, it needs about {needed}."
            )
        yield from self.state(self.counted.periods[-1])
        yield from self.noted((*self.series.notes, *estimate.notes), "faint")

    def _lines_picture(self) -> Iterator[Picture]:
        name = f"{self.metric.id}-series"
        if self.uncertain is None and self.query.reading == "total":
            rows = self.rows[:MOST_DRAWN]
            caption = f"Share of each value over the range: the {len(rows)} most frequent, with intervals."
            yield estimate_picture(name, caption, rows)
        elif self.uncertain is None:
            kind = interval_caption(self.query.level)
            ends = " to ".join(dict.fromkeys(self.data.words(self.labels[end]) for end in (0, -1)))
            caption = f"Share of each value, {ends}, with {kind}."
            days, unit = short_dates(self.labels), str(self.metric.period)
            yield over_time(name, caption, days, self.shown[0], events=list(self._events()), xlabel=unit)

    def _events(self) -> Iterator[Event]:
        """Yield releases and incidents of the range at the place of their day; a column's middle is at its number."""
        period = self.metric.period
        for note in self.data.store.notes(self.metric.id):
            number = period.number(note.day * DAY)
            part = (note.day * DAY - period.start(number)) / period.seconds
            place = number + part - self.columns.start - 0.5
            if note.kind in EVENTS and -0.5 <= place <= len(self.columns) - 0.5:
                yield Event(place, note.text, "incident" if note.kind == "incident" else "release")

    def _value_links(self) -> Iterator[Block]:
        every = [str(row["value"]) for row in self.rows]
        drawn = [line.name for line in self.shown[0] if line.name in set(every)]
        fewer = {f"without {name}": [one for one in drawn if one != name] for name in drawn if len(drawn) > 1}
        others = [name for name in every[: 2 * MOST_VALUES] if name not in drawn][: MOST_VALUES - 1]
        more = {f"with {name}": [*drawn, name] for name in others if len(drawn) < MOST_VALUES}
        usual: dict[str, list[str]] = {"the most frequent": []} if self.query.values else {}
        if chosen := fewer | more | usual:
            places = {text: self.query.address(self.address, values=tuple(names)) for text, names in chosen.items()}
            yield Links("Values in the chart", tuple(places.items()))

    def _tables(self) -> Iterator[Block]:
        newest, parts = self.rows, len(self.series.parts)
        yield Heading(2, f"Newest: {self._newest_words()}")
        yield from estimate_blocks(newest, NEWEST_ROWS, self.query.level)
        if parts > 1:
            yield Heading(2, "Over time")
            yield self._line_table()
        if parts > OLDER_ROWS:
            yield Paragraph(f"The newest {OLDER_ROWS:,} of {parts:,} rows; the downloads have all.")

    def _sentences(self) -> Iterator[str]:
        yield from self.shown[1]
        if self.query.pool > 1 and self.query.reading == "per-period":
            yield f"Each share is of a period and the {self.query.pool - 1:,} before it, as one estimate."
        if self.metric.oracle.encoding.decoded:
            yield "What is not in the list of candidates is drawn as “not listed”."
