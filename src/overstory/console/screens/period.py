"""One period of a metric: every value with its interval, and the same reports decoded again with other candidates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field as Parameter

from overstory.analysis.selection import Adjustment
from overstory.analysis.tables.output import MOST_DRAWN, estimate_picture, estimate_table, interval_caption
from overstory.console.estimates import MOST_CANDIDATES
from overstory.console.screens.page import (
    DETECTING,
    Page,
    ReadingPage,
    adjustment_field,
    epsilon_of_a_year,
    is_shares,
    not_listed,
    number_field,
    refuse_options,
    share_that_shows,
)
from overstory.console.view import Query, Screen, ScreenError, View
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Form,
    Heading,
    Link,
    Notice,
    Paragraph,
    Table,
)
from overstory.presentation.formats import interval, percent, with_article
from overstory.queries.counts import PeriodCounts, parse_range

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.queries.estimates import EstimateSeries
    from overstory.queries.readings import EstimateOptions, Reading

MOST_SHARES: Final = 4  # values in the table of groups: the most frequent of all devices
MOST_ROWS: Final = 500
CORRECTIONS: Final = (("fdr", "the false discovery rate"), ("bonferroni", "the chance of any false detection"))
OF_SHARES: Final = ("candidates", "list")  # what an address may ask of shares alone


class PeriodQuery(Query):
    """What the page shows: the candidates, what counts as detected, and the level of the intervals."""

    group: str = ""
    candidates: str = ""
    list: str = ""
    alpha: float = Parameter(0.05, gt=0, lt=1)
    correction: Literal["fdr", "bonferroni"] = "fdr"
    level: float = Parameter(0.95, ge=0.5, lt=1)
    adjustment: Adjustment = "fcr"
    rank: int = Parameter(1, ge=1)


class PeriodScreen(Screen):
    """The values of one period, with the list of candidates to look for."""

    name = "Period"
    path = "/m/{metric}/{period}"
    query = PeriodQuery

    def view(self, data: ConsoleData, query: PeriodQuery, **path: str) -> View:
        metric, label = data.metric(path["metric"]), path["period"]
        first, last = parse_range(metric, label, label)
        counted = data.counts(metric, first, last, query.group)
        about = data, metric, query, counted, label
        if not counted.periods:
            return PeriodPage(*about).view()
        if not is_shares(metric):
            refuse_options({name: getattr(query, name) for name in OF_SHARES}, metric)
            return ReadingOfPeriod(*about).view()
        page = SharesOfPeriod(*about)
        return (page if page.candidates or metric.labels else PeriodPage(*about)).view()


class PeriodPage(Page):
    """The page of a period, without its numbers."""

    @cached_property
    def candidates(self) -> tuple[str, ...] | None:
        query = self.query
        held = self.data.lists.find(query.list) if query.list else query.candidates.splitlines()
        if held is None:
            raise ScreenError(404, "list: this list of candidates is no longer held; send it again")
        names = tuple(dict.fromkeys(filter(None, held)))
        return names if names or query.list else None

    @property
    def asks(self) -> str:
        return "What counts as detected" if is_shares(self.metric) else "What is shown"

    def fields(self) -> Iterator[Field]:
        query = self.query
        yield number_field("alpha", "Alpha", query.alpha, 0.0001, 0.5, 0.0001)
        if not is_shares(self.metric):
            if self.metric.reading in DETECTING:
                yield adjustment_field(query.adjustment)
            return
        yield Field("correction", "Alpha bounds", query.correction, "choice", CORRECTIONS)
        yield number_field("level", "Interval level", query.level, 0.5, 0.999, 0.001)
        yield adjustment_field(query.adjustment)
        yield number_field("rank", "Draw from rank", query.rank, 1, None, 1, "2 leaves out the first")
        yield from _hidden_fields(candidates=query.candidates, list=query.list)

    def notices(self) -> Iterable[Block]:
        if not self.counted.periods:
            return (self.no_reports("period"),)
        return (Notice("Type the strings to look for: one a line. The registry has no list.", "faint"),)

    def tables(self) -> Iterable[Block]:
        """Offer to look for other strings, where they can be named after the reports were sent."""
        encoding = self.metric.oracle.encoding if is_shares(self.metric) else None
        if encoding and (encoding.decoded or (encoding.uneven and self.metric.domain.size is None)):
            yield Heading(2, "Look for other strings", "candidates")
            yield Paragraph(
                "Decoding again reads the same counts: it costs no privacy, and changes nothing in the store."
            )
            yield self._list_form()
            if self.candidates is not None:
                yield Link("Back to the registry's list", self.address)

    def _list_form(self) -> Form:
        query, names = self.query, self.candidates or self.metric.labels
        text = "\n".join(names)
        fields = (
            Field("candidates", "Candidates, one a line", text if len(names) <= MOST_ROWS else "", "lines"),
            Field("candidates", "or a file of them", kind="file", hint=f"At most {MOST_CANDIDATES:,}, in UTF-8."),
            *_hidden_fields(alpha=f"{query.alpha:g}", correction=query.correction, group=self.group),
        )
        return Form("Candidates", fields, "Decode again", self.address, "post")

    def sentences(self) -> Iterator[str]:
        yield from super().sentences()
        if is_shares(self.metric):  # another reading says it among its own sentences
            yield from self.counted.central_sentences()

    def facts(self) -> Mapping[str, Any]:
        return {"metric": self.metric.id, "period": self.period, "reports": self.counted.num_reports}


def _hidden_fields(**values: str) -> Iterator[Field]:
    return (Field(name, "", value, "hidden") for name, value in values.items() if value)


class SharesOfPeriod(PeriodPage):
    """The page of a period's shares."""

    @cached_property
    def series(self) -> EstimateSeries:
        return self.data.estimates(self.counted, "total", replace(self.options, candidates=self.candidates))

    @cached_property
    def estimate(self) -> Any:
        (part,) = self.series.parts
        return part.estimate

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        rows = self.estimate.rows(level=self.query.level)
        return sorted(rows, key=lambda row: not row["detected"])

    def words(self) -> str:
        return f"{sum(row['detected'] for row in self.rows):,} of {len(self.rows):,} detected"

    def figures(self) -> Iterator[tuple[str, str]]:
        estimate, query, built = self.estimate, self.query, self.metric.mechanism
        reports, values = estimate.num_reports, len(estimate.values)
        yield "Reports", f"{reports:,}"
        yield "Smallest share, nine times in ten", share_that_shows(built, reports, values, query.alpha)
        if hasattr(estimate, "unallocated"):
            share, *ends = not_listed(estimate, query.level)
            yield f"Not listed ({interval(percent)(*ends)})", percent(share)
        yield epsilon_of_a_year(self.metric, self.data.registry.budget)

    def notices(self) -> Iterator[Block]:
        yield from self.state(self.series.parts[0].last, "This period")
        yield from self.noted((*self.estimate.notes, *self.series.notes), "bad")

    def pictures(self) -> Iterator[Picture]:
        """Draw the values from the rank on that was asked for: without the most frequent, the others have room."""
        rows, query = self.rows, self.query
        first = min(query.rank, len(rows)) - 1
        drawn = rows[first : first + MOST_DRAWN]
        which = f"; ranks {first + 1:,} to {first + len(drawn):,} of {len(rows):,}" if len(drawn) < len(rows) else ""
        shares = f"Share of each value in {with_article(self.data.words(self.period))}"
        yield estimate_picture(
            f"{self.metric.id}-{self.period}",
            f"{shares}, with {interval_caption(query.level, query.adjustment)}{which}.",
            drawn,
        )

    def tables(self) -> Iterator[Block]:
        yield Heading(2, "Every value")
        yield estimate_table(self.rows[:MOST_ROWS], level=self.query.level)
        if len(self.rows) > MOST_ROWS:
            yield Paragraph(f"{len(self.rows) - MOST_ROWS:,} more are in the downloads.")
        if not self.group:
            yield from group_blocks(self.data, self.counted, self.series.options)
        yield from super().tables()

    @property
    def table(self) -> Table:
        return self.series.as_table(self.query.level)

    def facts(self) -> Mapping[str, Any]:
        return {**self.series.summary(), **self.estimate.summary(), "level": self.query.level}


class ReadingOfPeriod(ReadingPage, PeriodPage):
    """The page of a period that is read as a table, as sets, by a search or as numbers."""

    @cached_property
    def reading(self) -> Reading:
        return self.data.reading(self.counted, "total", self.options)

    def figures(self) -> Iterator[tuple[str, str]]:
        yield "Reports", f"{self.counted.num_reports:,}"
        yield epsilon_of_a_year(self.metric, self.data.registry.budget)

    def notices(self) -> Iterable[Block]:
        return self.state(self.counted.periods[-1])


def group_blocks(data: ConsoleData, counted: PeriodCounts, options: EstimateOptions) -> Iterator[Block]:
    """Return a table of the groups: their devices, their reports, and the shares of the most frequent values."""
    metric, groups = counted.metric, counted.metric.groups
    if groups is None:
        return
    names = [name for name in groups.names if not groups.hidden(name)]
    of_groups = [data.counts(metric, counted.first, counted.last, name) for name in names]
    whole, *series = data.all_estimates([counted, *of_groups], "total", options)
    values = [row["value"] for row in whole.parts[0].estimate.rows(MOST_SHARES)]
    path = f"/m/{metric.id}/{counted.label(counted.first)}"
    columns = (
        Column("group", groups.by, is_left=True, link=lambda row: f"{path}?group={quote(row['group'])}"),
        Column("expected", "expected devices", "{:,.0f}".format),
        Column("reports", text="{:,}".format),
        *(Column(f"share{place}", str(value)) for place, value in enumerate(values)),
    )
    rows = [
        {"group": name, "expected": groups.expected(name), "reports": own.counted.num_reports, **_shares(own, values)}
        for name, own in zip(names, series, strict=True)
    ]
    yield Heading(2, f"By {groups.by}", "groups")
    yield Paragraph(
        f"Each group is estimated by itself; expected devices are by public shares. Reports name their {groups.by} in "
        "clear: no noise protects it."
    )
    yield Table("", columns, rows)


def _shares(series: EstimateSeries, values: Sequence[Any]) -> dict[str, str]:
    rows = {row["value"]: row for part in series.parts for row in part.estimate.rows()}
    return {f"share{place}": _share_words(rows.get(value)) for place, value in enumerate(values)}


def _share_words(row: Mapping[str, Any] | None) -> str:
    if row is None or None in (row["frequency"], row["frequency_low"], row["frequency_high"]):
        return "unknown"
    return f"{percent(row['frequency'])} ({interval(percent)(row['frequency_low'], row['frequency_high'])})"
