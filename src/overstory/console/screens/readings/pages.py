"""Pages of metrics that are read in another way than as shares of values: tables, sets, numbers, searches.

A reading says itself what a person reads of it (`queries.readings`); a page adds pictures and what it rests on.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from overstory.console.screens.columns import Columns, reports_picture
from overstory.console.screens.facts import (
    adjustment_field,
    epsilons,
    metric_links,
    rests_on,
    sentence,
    state_words,
)
from overstory.console.screens.readings.groups import dimension_words, group_field, group_words
from overstory.console.screens.readings.pictures import MORE, OVER_TIME, PICTURES
from overstory.console.view import ScreenError, View
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Notice,
    Paragraph,
    Table,
)
from overstory.presentation.formats import thousands

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import Aggregation, EstimateOptions
    from overstory.queries.readings import RangeComparison, Reading

SHARES: Final = "shares"
"""The reading whose pages are the screens' own."""

WORDS: Final[Mapping[str, str]] = {
    "table": "a table of several variables",
    "items": "sets of items",
    "search": "a search for values that nobody listed",
    "mean": "a mean",
    "distribution": "a distribution of numbers",
    "ranges": "numbers in ranges",
}
"""What each reading is, in an overview."""

DETECTING: Final = frozenset({"items", "search"})
"""Readings of which some values are detected."""

WHOLE_RANGE: Final = frozenset({"search"})
"""Readings of all periods together: a device answers once."""

TEXTS: Final = frozenset({"from", "to", "string", "of", "row", "column", "row_variable", "column_variable", "source"})
"""Columns of files that hold labels, also where these look like numbers."""

MOST_PERIODS: Final = 60
"""Periods that a page reads one by one; the newest ones."""


def is_shares(metric: Metric) -> bool:
    """Whether a metric's estimates are shares of values, which the screens draw themselves."""
    return metric.reading == SHARES


def reading_words(metric: Metric) -> str:
    """Return what a metric's reading is."""
    return WORDS.get(metric.reading, metric.reading)


def period_view(data: ConsoleData, metric: Metric, label: str, counted: PeriodCounts, options: EstimateOptions) -> View:
    """Return the page of one period with reports."""
    page = ReadingPage(data, metric, counted, options)
    title = f"{metric.title}, {label}{group_words(metric, counted.group or '')}"
    reading, picture, shown_blocks = page.read()
    blocks = (
        metric_links(data, metric, label, label),
        Heading(1, f"{title}: {counted.num_reports:,} reports"),
        Paragraph(metric.description, is_lead=True),
        KeyValues((("Reports", f"{counted.num_reports:,}"), *epsilons(metric)[:2]), "figures"),
        *page.state_notice(),
        *shown_blocks,
        _form(metric, counted.group or "", options, f"/m/{metric.id}/{label}"),
        *page.tail(),
    )
    return View(title, blocks, file_rows(reading.csv_lines()), picture, _facts(reading))


def series_view(
    data: ConsoleData, metric: Metric, counted: PeriodCounts, kind: Aggregation, options: EstimateOptions, form: Form
) -> View:
    """Return the page of a metric over time: what its newest period says, or all periods together, and all periods.

    Parameters
    ----------
    counted
        The counts of a range with reports.
    form
        The form that asks for another range.
    """
    whole = metric.reading in WHOLE_RANGE or kind == "total"
    newest = counted.periods[-1]
    group = counted.group or ""
    shown = counted if whole else data.counts(metric, newest, newest, group)
    page = ReadingPage(data, metric, shown, options)
    reading, picture, shown_blocks = page.read()
    periods = counted.periods[-MOST_PERIODS:]
    every = reading
    if not whole and len(periods) > 1:
        every = data.reading(data.counts(metric, periods[0], newest, group), kind, options)
    when = metric.period.label(newest) if not whole else _ends(metric, counted)
    reports, draw = reports_picture(metric, Columns.of(counted, None)), OVER_TIME.get(metric.reading)
    blocks = (
        metric_links(data, metric, "Over time"),
        Heading(1, f"{metric.title}{group_words(metric, group)}: {shown.num_reports:,} reports, {when}"),
        Paragraph(metric.description, is_lead=True),
        KeyValues(epsilons(metric), "figures"),
        *page.state_notice(),
        *shown_blocks,
        Heading(2, "Over time"),
        *map(Figure, () if draw is None else draw(metric.id, every)),
        Figure(reports),
        _periods(metric, counted),
        *_left_out(len(counted.periods) - len(periods), whole=whole),
        form,
        *page.tail(),
    )
    return View(metric.title, blocks, file_rows(every.csv_lines()), picture or reports, _facts(every))


def compared_view(
    data: ConsoleData, metric: Metric, compared: RangeComparison, head: Sequence[Block], tail: Sequence[Block]
) -> View:
    """Return the page of two ranges whose numbers are not shares of values.

    Parameters
    ----------
    head, tail
        The page's blocks before and after what the comparison says.
    """
    last = compared.a.periods[-1]
    newest = f"{metric.period.label(last)} ({state_words(data, metric, last)})"
    blocks = (
        *head,
        *(_for_a_page(block) for block in compared.blocks()),
        *tail,
        Heading(2, "What these numbers rest on"),
        KeyValues((("Differences", "range a less range b"), ("Last period of a", newest))),
    )
    facts = {name: value for name, value in compared.to_json().items() if name != "title"}
    return View(metric.title, blocks, file_rows(compared.csv_lines()), None, facts)


def _ends(metric: Metric, counted: PeriodCounts) -> str:
    first, last = (metric.period.label(counted.periods[end]) for end in (0, -1))
    return first if first == last else f"{first} to {last}"


class ReadingPage:
    """A reading of some periods, and the parts of its page."""

    def __init__(self, data: ConsoleData, metric: Metric, counted: PeriodCounts, options: EstimateOptions) -> None:
        self.data, self.metric, self.counted, self.options = data, metric, counted, options

    def read(self) -> tuple[Reading, Picture | None, tuple[Block, ...]]:
        """Return the reading, its first picture, and what a person reads of it.

        Raises
        ------
        ScreenError
            See `ConsoleData.reading`.
        """
        reading = self.data.reading(self.counted, "total", self.options)
        label = _ends(self.metric, self.counted).replace(" ", "-")
        draw, add = PICTURES.get(self.metric.reading), MORE.get(self.metric.reading)
        pictures = tuple(draw(f"{self.metric.id}-{label}", reading)) if draw else ()
        more = tuple(add(reading)) if add else ()
        own = tuple(_for_a_page(block) for block in reading.blocks())
        return reading, (pictures[0] if pictures else None), (*map(Figure, pictures), *own, *more)

    def state_notice(self) -> Iterator[Block]:
        """Say of a newest period that is not final how long it takes reports."""
        last = self.counted.periods[-1]
        if self.data.state(self.metric, last) != "final":
            words = f"{self.metric.period.label(last)} is {state_words(self.data, self.metric, last)}."
            yield Notice(words, "faint")

    def tail(self) -> Iterator[Block]:
        """Say what the numbers rest on."""
        kind = self.options.interval_kind or "population"
        adjustment = self.options.adjustment if self.metric.reading in DETECTING else None
        yield Heading(2, "What these numbers rest on")
        yield rests_on(self.data, self.metric, self.counted.num_reports, self.counted.periods, kind, adjustment)
        if self.metric.reading != "table":
            yield Lines(dimension_words(self.metric))


def _for_a_page(block: Block) -> Block:
    """Return a block of a reading as a page shows it: headings below the page's own, sentences for notes."""
    if isinstance(block, Heading):
        return replace(block, level=max(block.level, 2))
    if isinstance(block, Lines):
        return Lines(*(sentence(text.removeprefix("note: ").removesuffix(".")) for text in block.texts))
    return block


def file_rows(lines_of_file: Iterable[str]) -> Table:
    """Return the rows of a CSV file as a table, for the downloads."""
    header, *lines = csv.reader(lines_of_file)
    columns: list[Sequence[str]] = list(zip(*lines, strict=True)) if lines else [()] * len(header)
    values = [list(cells) if name in TEXTS else _typed(cells) for name, cells in zip(header, columns, strict=True)]
    rows = [dict(zip(header, row, strict=True)) for row in zip(*values, strict=True)]
    return Table("", tuple(map(Column, header)), rows)


def _typed(cells: Sequence[str]) -> list[Any]:
    """Return the cells of a column as numbers or truth values, where all of them are; an empty one is None."""
    if {*cells} <= {"true", "false"}:
        return [text == "true" for text in cells]
    try:
        return [float(text) if text else None for text in cells]
    except ValueError:
        return list(cells)


def _facts(reading: Reading) -> dict[str, Any]:
    return {f"{name}": value for name, value in reading.to_json().items() if name != "title"}


def _periods(metric: Metric, counted: PeriodCounts) -> Table:
    rows = [
        {"period": metric.period.label(period), "reports": counted.counts[period].num_reports}
        for period in reversed(counted.periods[-MOST_PERIODS:])
    ]
    link = Column("period", is_left=True, link=lambda row: f"/m/{metric.id}/{row['period']}")
    return Table("", (link, Column("reports", text=thousands)), rows)


def _left_out(number: int, *, whole: bool) -> Iterator[Block]:
    if number > 0:
        read = "All periods are read together; this table has" if whole else "This page and its downloads have"
        yield Paragraph(f"{read} the newest {MOST_PERIODS} periods; {number:,} older ones can be asked for below.")


def unused_fields(metric: Metric) -> set[str]:
    """Return the fields of a form over time that mean nothing for a metric's reading."""
    unused = set() if metric.reading in DETECTING else {"adjustment"}
    return unused | ({"reading", "reports_per_device"} if metric.reading in WHOLE_RANGE else set())


def _form(metric: Metric, group: str, options: EstimateOptions, address: str) -> Form:
    alpha = Field("alpha", "Alpha", f"{options.alpha:g}", "number", least=0.0001, most=0.5, step=0.0001)
    fields = (alpha, adjustment_field(options.adjustment)) if metric.reading in DETECTING else (alpha,)
    return Form("What is shown", (*group_field(metric, group), *fields), "Show", address, is_live=True)


def refuse_options(given: Mapping[str, object], metric: Metric) -> None:
    """Refuse what an address asks for that such a page does not have.

    Raises
    ------
    ScreenError
        With status 400.
    """
    for name, value in given.items():
        if value:
            raise ScreenError(400, f"{name}: {metric.id} is {reading_words(metric)}, whose page has no such choice")
