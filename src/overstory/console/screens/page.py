"""The page of a metric's results: the parts that every such page has, in their order; a screen says what is its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.selection import interval_words, normal_reach, people_variance
from overstory.analysis.tables.output import estimate_table
from overstory.console.view import ScreenError, View
from overstory.planning.detection import required_sample_size, smallest_share
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Links,
    Notice,
    Paragraph,
    Row,
    Table,
    Tone,
)
from overstory.presentation.formats import epsilon_text, interval, percent, with_article
from overstory.privacy.registry.cost import metric_cost
from overstory.protocol.errors import ParameterError
from overstory.queries.readings import WORDS, EstimateOptions, Reading

if TYPE_CHECKING:
    from overstory.analysis.decoding.decoder import Decoded
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.kinds.base import Mechanism
    from overstory.protocol.metrics import Metric, PersonBudget
    from overstory.queries.comparison import Comparison
    from overstory.queries.counts import PeriodCounts


OF_NUMBERS: Final = frozenset({"mean", "distribution", "ranges"})
"""Readings of which a number is drawn over all periods."""

ASK_AGAIN: Final = 3
"""Seconds after which a page that lacks something asks again: long enough to read and to follow a link."""

WHOLE_RANGE: Final = frozenset({"search"})  # readings of all periods together: few devices answer in one


def is_shares(metric: Metric) -> bool:
    """Whether a metric's estimates are shares of values, which the screens draw themselves."""
    return metric.reading == "shares"


OPTIONS: Final = ("alpha", "correction", "reports_per_device", "pool")


def options_of(query: Any) -> EstimateOptions:
    """Return what an address asks of estimates, whose intervals are of all devices like these."""
    asked = {name: getattr(query, name) for name in OPTIONS if hasattr(query, name)}
    return EstimateOptions(**asked, interval_kind="population")


@dataclass
class Page:
    """The page of a metric: its parts in their order, of which an empty one is not on it."""

    data: ConsoleData
    metric: Metric
    query: Any
    counted: PeriodCounts
    period: str = ""
    end: str = ""  # of its address, where it is no period's
    place: str = ""  # what the links of the metric call it; empty: its period
    words: str | None = None  # after the title; None: how many reports there are
    lead: Sequence[Block] = ()  # below the description
    notices: Sequence[Block] = ()
    pictures: Sequence[Picture] = ()
    choices: Sequence[Block] = ()  # below the first picture
    figures: Sequence[tuple[str, str]] = ()
    tables: Sequence[Block] = ()
    asks: str = "What is shown"  # the title of the form
    fields: Sequence[Field] = ()
    submit: str = "Show"
    more: Sequence[Block] = ()
    rests_on: Sequence[Block] | None = None  # None: the denominator, the last period, and `sentences`
    sentences: Sequence[str] = ()
    table: Table | None = None  # of the downloads, with `facts`
    facts: Mapping[str, Any] | None = None  # None: the metric, and how many reports
    refresh: int = 0

    def view(self, status: int = 200) -> View:
        words = f"{self.counted.num_reports:,} reports" if self.words is None else self.words
        faint = [block for block in self.notices if isinstance(block, Notice) and block.tone == "faint"]
        faint, pictures = faint if self.pictures else [], tuple(map(Figure, self.pictures))
        form = Form(self.asks, (*self._group_field(), *self.fields), self.submit, self.address, is_live=True)
        rests_on = tuple(self._rests_on() if self.rests_on is None else self.rests_on)
        blocks = (
            self._links(),
            Heading(1, f"{self.title}: {words}" if words else self.title),
            Paragraph(self.metric.description, is_lead=True),
            *self.lead,
            *(block for block in self.notices if block not in faint),
            *pictures[:1],
            *self.choices,
            *pictures[1:],
            *((KeyValues(tuple(self.figures), "figures"),) if self.figures else ()),
            *(replace(note, more=tuple(other.text for other in faint[1:])) for note in faint[:1]),
            *self.tables,
            *((form,) if self.fields else ()),
            *self.more,
            *((Heading(2, "What these numbers rest on"), *rests_on) if rests_on else ()),
        )
        picture = next((block.picture for block in blocks if isinstance(block, Figure)), None)
        facts = {"metric": self.metric.id, "reports": self.counted.num_reports} if self.facts is None else self.facts
        return View(self.title, blocks, self.table, picture, facts, status=status, refresh=self.refresh)

    def show_reading(self, reading: Reading) -> None:
        """Take the parts that a reading has which is not of shares: its pictures, tables and files."""
        self.pictures, self.tables = reading_pictures(reading), list(reading_blocks(reading))
        self.table, self.facts = reading.as_table(), facts_of(reading)

    @property
    def title(self) -> str:
        groups, group = self.metric.groups, str(getattr(self.query, "group", ""))
        period = f", {self.data.words(self.period)}" if self.period else ""
        return f"{self.metric.title}{period}" + (f", {groups.by} {group}" if groups is not None and group else "")

    @property
    def address(self) -> str:
        end = self.period or self.end
        return f"/m/{self.metric.id}/{end}" if end else f"/m/{self.metric.id}"

    def _links(self) -> Links:
        """Return the pages of the metric: that of its newest period with reports, and that of this period."""
        metric, data, path = self.metric, self.data, f"/m/{self.metric.id}"
        newest = map(self.label, data.store.periods(metric.id)[-1:])
        labels = dict.fromkeys((*newest, *filter(None, (self.period,))))
        periods = ((capitalized(data.words(label)), f"{path}/{label}") for label in labels)
        privacy = f"/about/{metric.id}#privacy"
        places = (("Over time", path), *periods, ("Compare", f"{path}/compare"), ("Privacy", privacy))
        return Links(metric.title, places, self.place or capitalized(data.words(self.period)))

    def _group_field(self) -> Iterator[Field]:
        groups = self.metric.groups
        if groups is not None and hasattr(self.query, "group"):
            shown = [(name, name) for name in groups.names if not groups.hidden(name)]
            yield Field("group", f"Group by {groups.by}", self.query.group, "choice", (("", "all devices"), *shown))

    def _rests_on(self) -> Iterator[Block]:
        counted, of_shares = self.counted, is_shares(self.metric)
        reports, periods = counted.num_reports, counted.periods
        each = "one per device" if len(periods) < 2 else f"of {len(periods):,} periods, at most one per device in each"
        facts = [("Percent of what", f"of {reports:,} reports, {each}")]
        facts.append(("Last period with reports", self.when(periods[-1]) if periods else "none"))
        if of_shares and periods:  # another reading says among its own sentences what its intervals and the panel are
            facts.append(("Intervals", interval_words("population")))
        yield KeyValues(tuple(facts))
        sentences = [*self.sentences, *_other_dimensions(self.metric)]
        if of_shares:
            sentences = [*map(sentence, counted.panel_sentences()), *sentences, *counted.central_sentences()]
        if sentences:
            yield Lines(*sentences)

    # What several parts say.

    def label(self, period: int) -> str:
        return self.metric.period.label(period)

    def said_label(self, period: int) -> str:
        return self.data.words(self.label(period))

    def when(self, period: int) -> str:
        return f"{self.said_label(period)} ({state_words(self.data, self.metric, period)})"

    def state(self, period: int, subject: str = "") -> list[Notice]:
        if self.data.state(self.metric, period) == "final":
            return []
        words = state_words(self.data, self.metric, period)
        return [Notice(sentence(f"{subject or self.said_label(period)} is {words}"), "faint")]

    def noted(self, notes: Iterable[str], tone: Tone) -> Iterator[Notice]:
        return (Notice(sentence(note), tone) for note in dict.fromkeys(notes))

    def no_reports(self, where: str) -> Notice:
        every = self.data.counts(self.metric).periods
        if not every:
            return Notice("There are no reports of this metric yet.", "faint")
        some = f"there are some from {' to '.join(with_article(self.said_label(every[end])) for end in (0, -1))}"
        return Notice(f"There are no reports in this {where}; {some}.", "faint")


def reading_pictures(reading: Reading) -> list[Picture]:
    """Return the pictures of a reading that is not of shares; a mean by itself is a number."""
    return [] if reading.metric.reading == "mean" else reading.pictures()


def reading_blocks(reading: Reading) -> Iterator[Block]:
    """Return the tables and sentences of a reading that is not of shares, and each variable of a table by itself."""
    yield from map(for_a_page, reading.blocks())
    if reading.metric.reading != "table" or not reading.parts:
        return
    yield Heading(2, "Each variable by itself")
    shown = set()
    for summary in reading.parts[-1].estimate:
        for name, rows in summary.to_json()["marginals"].items():
            if name not in shown:
                shown.add(name)
                columns = (
                    Column("value", name, is_left=True),
                    Column("share", "share", percent),
                    Column("interval", f"{summary.level:.0%} interval", interval(percent), ("low", "high")),
                )
                yield Table(name, columns, rows)


def estimate_blocks(rows: Sequence[Row], most: int, level: float = 0.95) -> Iterator[Block]:
    """Yield a table of estimates, and how many more of them there are."""
    yield estimate_table(rows[:most], level=level)
    if (left_out := len(rows) - most) > 0:
        yield Paragraph(f"{left_out:,} more are in the downloads.")


def _other_dimensions(metric: Metric) -> Iterator[str]:
    """Say what else goes together with a value: a table says so itself."""
    if metric.groups is not None and metric.reading != "table":
        named = f"A report names the {metric.groups.by} of its device in clear, and no noise protects that."
        yield f"{named} Nothing else that goes together with its value can be looked up afterwards."
    elif metric.reading != "table":
        yield NO_DIMENSIONS


NO_DIMENSIONS: Final = (
    "A report holds nothing but its value: what goes together with it (a platform, a version) cannot be looked up "
    "afterwards. To learn it, collect a metric of the pair, or give the metric groups."
)


@lru_cache(maxsize=256)
def epsilon_of_a_year(metric: Metric, budget: PersonBudget | None) -> tuple[str, str]:
    """Return what a year of reports costs a person at most; the page on privacy has the other epsilons."""
    which = "any" if metric.is_afresh else "the first"
    return f"Epsilon, {which} year", epsilon_text(metric_cost(metric, budget=budget).headline.epsilon)


@lru_cache(maxsize=4096)
def share_that_shows(mechanism: Mechanism, people: int, candidates: int, alpha: float = 0.05) -> str:
    """Return the smallest share that so many people show nine times in ten, in words."""
    try:
        share = smallest_share(mechanism, people, max(candidates, 1), alpha=alpha)
    except ParameterError:
        share = None
    return "none" if share is None else percent(share)


@lru_cache(maxsize=4096)
def people_for(mechanism: Mechanism, share: float, candidates: int) -> str:
    """Return the number of people with whom a share shows nine times in ten, in words."""
    try:
        return f"{required_sample_size(mechanism, share, max(candidates, 1)):,} devices"
    except ParameterError as error:
        return str(error)


def not_listed(estimate: Decoded, level: float) -> tuple[float, float, float]:
    """Return the share of the reports of strings in no list, with its interval, of all devices like these."""
    people = people_variance(np.array([estimate.unallocated]), estimate.num_reports, estimate.reports_per_device)
    scale = max(estimate.num_reports, 1)
    share = estimate.unallocated / scale
    reach = normal_reach(level) * float(np.sqrt(estimate.unallocated_standard_error**2 + people[0])) / scale
    return share, share - reach, share + reach


def state_words(data: ConsoleData, metric: Metric, period: int) -> str:
    """Say whether a period is running, settling or final, and until when."""
    state = data.state(metric, period)
    if state == "running":
        return f"running until {data.moment(metric.period.start(period + 1))}"
    return "final" if state == "final" else f"over; final from {data.moment(metric.final_from(period))}"


def sentence(note: str) -> str:
    """Return a note of an estimate as a page's sentence: what the command line calls by an option is a field here."""
    return f"{capitalized(note.replace('--reports-per-device', '“Reports per device”'))}."


def capitalized(text: str) -> str:
    """Return a text as a sentence begins."""
    return f"{text[:1].upper()}{text[1:]}"


def number_field(
    name: str, label: str, value: float | None, least: float, most: float | None, step: float | None, hint: str = ""
) -> Field:
    """Return a field that asks for a number; None is an empty one."""
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return Field(name, label, text, "number", least=least, most=most, step=step, hint=hint)


def for_a_page(block: Block) -> Block:
    """Return a block of a reading as a page shows it: headings below the page's own, sentences for notes."""
    if isinstance(block, Heading):
        return replace(block, level=max(block.level, 2))
    if isinstance(block, Lines):
        return Lines(*(sentence(text.removeprefix("note: ").removesuffix(".")) for text in block.texts))
    return block


def facts_of(answer: Reading | Comparison) -> dict[str, Any]:
    """Return what JSON says of an answer next to its rows."""
    return {name: value for name, value in answer.to_json().items() if name != "title"}


def refuse_options(given: Mapping[str, object], metric: Metric) -> None:
    """Refuse, with status 400, what an address asks for that such a page does not have."""
    for name, value in given.items():
        if value:
            raise ScreenError(400, f"{name}: {metric.id} is {WORDS[metric.reading]}, whose page has no such choice")
