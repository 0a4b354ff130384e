"""The page of a metric's results: the parts that every such page has, in their order; a screen says what is its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from overstory.analysis.selection import INTERVAL_KINDS, interval_words
from overstory.console.screens.facts import metric_links, sentence, state_words
from overstory.console.screens.readings import DETECTING, dimension_words, facts_of, is_shares, reading_parts
from overstory.console.view import View
from overstory.presentation.document import (
    Block,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Notice,
    Paragraph,
    Table,
    Tone,
)
from overstory.queries.readings import EstimateOptions

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.readings import Reading


OPTIONS: Final = ("alpha", "correction", "adjustment", "reports_per_device")


class Page:
    """A page of a metric: a part that yields nothing is not on it.

    `said` is what a page says in place of numbers that there are not.
    """

    place: ClassVar[str] = ""  # what the links of the metric call it; empty: its period
    submit: ClassVar[str] = "Show"

    def __init__(
        self,
        data: ConsoleData,
        metric: Metric,
        query: Any,
        counted: PeriodCounts,
        period: str = "",
        said: Sequence[Notice] = (),
    ) -> None:
        self.data, self.metric, self.query, self.counted = data, metric, query, counted
        self.period, self.said = period, said
        self.group: str = getattr(query, "group", "")

    @property
    def title(self) -> str:
        """What is shown: the metric, its period and its group."""
        period = f", {self.period}" if self.period else ""
        group = f", {self.metric.groups.by} {self.group}" if self.metric.groups is not None and self.group else ""
        return f"{self.metric.title}{period}{group}"

    @property
    def asks(self) -> str:
        """What its form is for."""
        return "What is shown"

    @property
    def address(self) -> str:
        return f"/m/{self.metric.id}/{self.period}" if self.period else f"/m/{self.metric.id}"

    @property
    def options(self) -> EstimateOptions:
        """The options of estimates of all devices like these, as far as the address has any."""
        asked = {name: getattr(self.query, name) for name in OPTIONS if hasattr(self.query, name)}
        return EstimateOptions(**asked, interval_kind="population")

    @property
    def refresh(self) -> int:
        """The seconds after which the page asks again by itself; 0: never."""
        return 0

    def view(self, status: int = 200) -> View:
        """Return the page; its first picture is that of the downloads."""
        figures, fields, rests_on = tuple(self.figures()), tuple(self.fields()), tuple(self.rests_on())
        form = Form(self.asks, (*self.group_fields(), *fields), self.submit, self.address, is_live=True)
        blocks = (
            *self.head(),
            *((KeyValues(figures, "figures"),) if figures else ()),
            *self.notices(),
            *map(Figure, self.pictures()),
            *self.tables(),
            *((form,) if fields else ()),
            *self.more(),
            *((Heading(2, "What these numbers rest on"), *rests_on) if rests_on else ()),
        )
        picture = next((block.picture for block in blocks if isinstance(block, Figure)), None)
        return View(self.title, blocks, self.table, picture, self.facts(), status=status, refresh=self.refresh)

    # The parts, from the top of the page to its foot.

    def head(self) -> Iterator[Block]:
        """Yield where else to go, what is shown, and what the metric is."""
        words = self.words()
        yield metric_links(self.data, self.metric, self.place or self.period, self.period)
        yield Heading(1, f"{self.title}: {words}" if words else self.title)
        yield Paragraph(self.metric.description, is_lead=True)

    def words(self) -> str:
        """Return what the title says of the numbers."""
        return f"{self.counted.num_reports:,} reports"

    def figures(self) -> Iterable[tuple[str, str]]:
        return ()

    def notices(self) -> Iterable[Block]:
        return self.said

    def pictures(self) -> Iterable[Picture]:
        return ()

    def tables(self) -> Iterable[Block]:
        return ()

    def fields(self) -> Iterable[Field]:
        """Return what its form asks."""
        return ()

    def group_fields(self) -> Iterator[Field]:
        """Yield the field that asks for a group, where the page takes one."""
        groups = self.metric.groups
        if groups is not None and hasattr(self.query, "group"):
            shown = [(name, name) for name in groups.names if not groups.hidden(name)]
            yield Field("group", f"Group by {groups.by}", self.group, "choice", (("", "all devices"), *shown))

    def more(self) -> Iterable[Block]:
        """Return what stands below the form."""
        return ()

    def rests_on(self) -> Iterable[Block]:
        """Yield what the numbers rest on: their denominator, their newest period, their intervals, and sentences."""
        reports, periods = self.counted.num_reports, self.counted.periods
        detects = is_shares(self.metric) or self.metric.reading in DETECTING
        intervals = interval_words("population", self.query.adjustment) if detects else INTERVAL_KINDS["population"]
        each = "one per device" if len(periods) < 2 else f"of {len(periods):,} periods, at most one per device in each"
        yield KeyValues(
            (
                ("Percent of what", f"of {reports:,} reports, {each}"),
                ("Last period with reports", self.when(periods[-1]) if periods else "none"),
                ("Intervals", intervals),
            )
        )
        sentences = tuple(self.sentences())
        if sentences:
            yield Lines(*sentences)

    def sentences(self) -> Iterable[str]:
        """Return what else the numbers rest on."""
        return () if self.metric.reading == "table" else (dimension_words(self.metric),)

    # What the downloads have.

    @property
    def table(self) -> Table | None:
        return None

    def facts(self) -> Mapping[str, Any]:
        return {"metric": self.metric.id, "reports": self.counted.num_reports}

    # What several parts say.

    def label(self, period: int) -> str:
        return self.metric.period.label(period)

    def when(self, period: int) -> str:
        """Return a period and whether it is final."""
        return f"{self.label(period)} ({state_words(self.data, self.metric, period)})"

    def state(self, period: int, subject: str = "") -> Iterator[Notice]:
        """Say of a period that is not final how long it takes reports."""
        if self.data.state(self.metric, period) != "final":
            words = state_words(self.data, self.metric, period)
            yield Notice(f"{subject or self.label(period)} is {words}.", "faint")

    def noted(self, notes: Iterable[str], tone: Tone) -> Iterator[Notice]:
        """Yield each note once."""
        return (Notice(sentence(note), tone) for note in dict.fromkeys(notes))

    def no_reports(self, where: str) -> Notice:
        """Say that there are none, and where there are some."""
        every = self.data.counts(self.metric).periods
        if not every:
            return Notice("There are no reports of this metric yet.", "faint")
        some = f"there are some from {self.label(every[0])} to {self.label(every[-1])}"
        return Notice(f"There are no reports in this {where}; {some}.", "faint")


class ReadingPage(Page):
    """A page of a reading that is not of shares: its own pictures, tables and words."""

    @property
    def reading(self) -> Reading:
        raise NotImplementedError

    @cached_property
    def _parts(self) -> tuple[tuple[Picture, ...], tuple[Block, ...]]:
        return reading_parts(self.reading)

    def pictures(self) -> Iterable[Picture]:
        return self._parts[0]

    def tables(self) -> Iterable[Block]:
        return self._parts[1]

    @property
    def table(self) -> Table | None:
        return self.reading.as_table()

    def facts(self) -> Mapping[str, Any]:
        return facts_of(self.reading)
