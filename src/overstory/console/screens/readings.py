"""Pages of metrics that are read in another way than as shares of values: tables, sets, numbers, searches.

A reading says itself what a person reads of it (`queries.readings`); a page adds pictures and what it rests on.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from overstory.console.screens.columns import Columns, reports_picture
from overstory.console.screens.estimates import adjustment_field
from overstory.console.screens.facts import NO_DIMENSIONS, epsilons, metric_links, rests_on, sentence, state_words
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
    from overstory.queries.readings import Reading

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

PICTURES: Final[Mapping[str, str]] = {"table": "overstory.console.screens.tables:table_pictures"}
"""By reading: what draws it, from a name for files and the reading; loaded when it is first used."""

TABLES: Final[Mapping[str, str]] = {"table": "overstory.console.screens.tables:marginal_tables"}
"""By reading: what its page shows below what the reading says."""

WHOLE_RANGE: Final = frozenset({"search"})
"""Readings of all periods together: a device answers once."""

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
    title = f"{metric.title}, {label}"
    reading, picture, said = page.read()
    blocks = (
        metric_links(data, metric, label, label),
        Heading(1, f"{title}: {counted.num_reports:,} reports"),
        Paragraph(metric.description, is_lead=True),
        KeyValues((("Reports", f"{counted.num_reports:,}"), *epsilons(metric)[:2]), "figures"),
        *page.state_notice(),
        *said,
        _form(options, f"/m/{metric.id}/{label}"),
        *page.tail(),
    )
    return View(title, blocks, _rows(reading), picture, _facts(reading))


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
    shown = counted if whole else data.counts(metric, newest, newest)
    page = ReadingPage(data, metric, shown, options)
    reading, picture, said = page.read()
    periods = counted.periods[-MOST_PERIODS:]
    every = reading
    if not whole and len(periods) > 1:
        every = data.reading(data.counts(metric, periods[0], newest), kind, options)
    when = metric.period.label(newest) if not whole else _ends(metric, counted)
    blocks = (
        metric_links(data, metric, "Over time"),
        Heading(1, f"{metric.title}: {shown.num_reports:,} reports, {when}"),
        Paragraph(metric.description, is_lead=True),
        KeyValues(epsilons(metric), "figures"),
        *page.state_notice(),
        *said,
        Heading(2, "Over time"),
        Figure(reports_picture(metric, Columns.of(counted, None))),
        _periods(metric, counted),
        *_left_out(len(counted.periods) - len(periods), whole=whole),
        form,
        *page.tail(),
    )
    return View(metric.title, blocks, _rows(every), picture, _facts(every))


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
        pictures = self._made(PICTURES, f"{self.metric.id}-{label}", reading)
        more = self._made(TABLES, reading)
        own = tuple(_for_a_page(block) for block in reading.blocks())
        return reading, (pictures[0] if pictures else None), (*map(Figure, pictures), *own, *more)

    def _made(self, makers: Mapping[str, str], *given: Any) -> list[Any]:
        where = makers.get(self.metric.reading)
        if where is None:
            return []
        module, _, function = where.partition(":")
        make: Callable[..., Sequence[Any]] = getattr(import_module(module), function)
        return list(make(*given))

    def state_notice(self) -> Iterator[Block]:
        """Say of a newest period that is not final how long it takes reports."""
        last = self.counted.periods[-1]
        if self.data.state(self.metric, last) != "final":
            words = f"{self.metric.period.label(last)} is {state_words(self.data, self.metric, last)}."
            yield Notice(words, "faint")

    def tail(self) -> Iterator[Block]:
        """Say what the numbers rest on."""
        kind, adjustment = self.options.interval_kind or "population", self.options.adjustment
        yield Heading(2, "What these numbers rest on")
        yield rests_on(self.data, self.metric, self.counted.num_reports, self.counted.periods, kind, adjustment)
        if self.metric.reading != "table":
            yield Lines(NO_DIMENSIONS)


def _for_a_page(block: Block) -> Block:
    """Return a block of a reading as a page shows it: headings below the page's own, sentences for notes."""
    if isinstance(block, Heading):
        return replace(block, level=max(block.level, 2))
    if isinstance(block, Lines):
        return Lines(*(sentence(text.removeprefix("note: ").removesuffix(".")) for text in block.texts))
    return block


def _rows(reading: Reading) -> Table:
    """Return the rows of a reading's CSV file as a table, for the downloads."""
    header, *lines = csv.reader(line.rstrip("\r\n") for line in reading.csv_lines())
    columns = list(zip(*lines, strict=True)) if lines else [()] * len(header)
    values = [_typed(column) for column in columns]
    rows = [dict(zip(header, row, strict=True)) for row in zip(*values, strict=True)]
    return Table("", tuple(map(Column, header)), rows)


def _typed(column: Sequence[str]) -> list[Any]:
    """Return the cells of a column as numbers or truth values, where all of them are; an empty one is None."""
    if {*column} <= {"true", "false"}:
        return [text == "true" for text in column]
    try:
        return [float(text) if text else None for text in column]
    except ValueError:
        return list(column)


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


def _form(options: EstimateOptions, address: str) -> Form:
    alpha = Field("alpha", "Alpha", f"{options.alpha:g}", "number", least=0.0001, most=0.5, step=0.0001)
    return Form("What is shown", (alpha, adjustment_field(options.adjustment)), "Show", address, is_live=True)


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
