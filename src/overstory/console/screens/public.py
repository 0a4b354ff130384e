"""The public pages: what is collected, why, how to stop it, and what came out. Nobody has to log in.

Nothing of a metric that is not published is read from the store, so no number of its results can reach a page.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from overstory.analysis.selection import interval_words
from overstory.analysis.tables.output import MOST_DRAWN, estimate_picture, estimate_table, interval_caption
from overstory.console.screens.page import Page, ReadingPage, capitalized, is_shares, sentence
from overstory.console.view import Query, View
from overstory.presentation.document import (
    Block,
    Column,
    Heading,
    KeyValues,
    Lines,
    Link,
    Links,
    Notice,
    Paragraph,
    Preformatted,
    Table,
)
from overstory.presentation.formats import date_words, epsilon_text, factor, with_article
from overstory.privacy.registry.cost import headline, in_two_sentences
from overstory.privacy.registry.page import MetricPage, how_often, metric_page
from overstory.privacy.statements import claims_blocks
from overstory.protocol.metrics.metric import SLACK
from overstory.queries.counts import PeriodCounts

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric, MetricRegistry
    from overstory.queries.estimates import EstimateSeries


MEANING: Final = (
    "Each device adds random noise to its answer before it sends it. So no single report tells for certain what the "
    "answer was. Many reports together tell how frequent an answer is."
)
UNPUBLISHED: Final = "Results are not published."
MOST_ROWS: Final = 500

_page_of = lru_cache(maxsize=256)(metric_page)
"""A page of a metric depends on the registry alone, and takes a moment to compute."""


def _page_in(registry: MetricRegistry, metric: Metric) -> MetricPage:
    return _page_of(metric, route=registry.oblivious, budget=registry.budget)


def show_collected(data: ConsoleData, _: Query) -> View:
    """Show of every metric why, who answers for it, what it costs, and until when."""
    registry = data.registry
    table = Table("Every metric", _columns(), [_row(data, metric) for metric in registry.values()])
    blocks = (
        Heading(1, registry.title),
        Paragraph(MEANING, is_lead=True),
        *([Lines(*in_two_sentences(registry))] if registry else []),
        *_how_to_stop(registry),
        table if registry else Notice("Nothing is collected.", "faint"),
        Paragraph("An epsilon bounds what reports reveal; a smaller one is more private."),
        *([Paragraph(headline(registry).sentence)] if registry else []),
        *_registry_facts(registry),
    )
    facts = {
        **_registry_json(registry),
        "metrics": [_page_in(registry, metric).to_json() for metric in registry.values()],
    }
    return View(registry.title, blocks, table, facts=facts)


def _columns() -> tuple[Column, ...]:
    return (
        Column("title", "Metric", is_left=True, link=lambda row: f"/about/{row['metric']}"),
        Column("description", "What", is_left=True),
        Column(
            "purpose",
            "Why",
            lambda why: urlsplit(why).hostname or why,
            is_left=True,
            link=lambda row: str(row["purpose"]),
        ),
        Column("owner", "Responsible", is_left=True),
        Column("how_often", "How often", is_left=True),
        Column("one_report", "What one report reveals", is_left=True),
        Column("expires", "Until", date_words, is_left=True),
        Column("state", "State", is_left=True, tone=lambda state: "faint" if state == "ended" else ""),
        Column("results", "Results", is_left=True),
    )


def _row(data: ConsoleData, metric: Metric) -> dict[str, Any]:
    epsilon = metric.mechanism.epsilon_report
    return {
        "metric": metric.id,
        "title": metric.title,
        "description": metric.description,
        "purpose": metric.purpose,
        "owner": metric.owner,
        "how_often": how_often(metric),
        "one_report": f"changes the odds between two answers by a factor of at most {factor(epsilon)} "
        f"(epsilon {epsilon_text(epsilon)})",
        "expires": metric.expires.isoformat(),
        "state": "ended" if metric.expired(data.clock()) else "collected",
        "results": "published" if metric.publish == "estimates" else "not published",
    }


def _how_to_stop(registry: MetricRegistry) -> Iterator[Block]:
    if registry.opt_out is not None:
        yield Heading(2, "How to stop it", "stop")
        yield Paragraph(registry.opt_out)


def _registry_facts(registry: MetricRegistry) -> Iterator[Block]:
    yield Heading(2, "The registry", "registry")
    yield Paragraph("One reviewed file states all of this; devices and collectors read the same file.")
    yield KeyValues((("Version", registry.version), ("Digest", registry.digest.hex())))
    files = (
        ("as TOML", "/registry.toml"),
        ("as JSON", "/registry.json"),
        ("as a page", "/registry"),
    )
    yield Links("The registry", files)
    if registry.operator is not None and registry.operator.url is not None:
        yield Link(f"Collected by {registry.operator.name}", registry.operator.url)


def _registry_json(registry: MetricRegistry) -> dict[str, Any]:
    operator = None if registry.operator is None else registry.operator.to_json()
    about = {"registry": registry.version, "digest": registry.digest.hex()}
    return about | {"operator": operator, "opt_out": registry.opt_out}


def show_about(data: ConsoleData, query: Query, **path: str) -> View:
    """Show the facts of one metric, what it costs, and what came out, where that is published."""
    metric = data.metric(path["metric"])
    counted = _published(data, metric)
    if counted is None:
        words = UNPUBLISHED if metric.publish == "nothing" else _when(data, metric)
        nothing = PeriodCounts(metric, None, None, {})
        return AboutPage(data, metric, query, nothing, said=[Notice(words, "faint")]).view()
    page = SharesPublished if is_shares(metric) else ReadingPublished
    return page(data, metric, query, counted).view()


class AboutPage(Page):
    """The page of a metric, without results."""

    def head(self) -> Iterator[Block]:
        metric, page = self.metric, self._about
        yield Heading(1, metric.title)
        yield Paragraph(metric.description, is_lead=True)
        if metric.expired(self.data.clock()):
            yield Notice(
                f"It ended on {date_words(metric.expires.isoformat())}: nothing is recorded any more.", "faint"
            )
        yield Link(f"Why: {metric.purpose}", metric.purpose)
        yield KeyValues(tuple(pair for pair in page.facts if pair[0] != "Why"))
        yield Heading(2, "What it costs a person", "privacy")
        yield Paragraph(page.plain_words())
        yield from claims_blocks(page.claims)
        yield Heading(2, "Results", "results")

    @property
    def _about(self) -> MetricPage:
        return _page_in(self.data.registry, self.metric)

    def results(self) -> Any:
        return self.said[0].text

    def more(self) -> Iterator[Block]:
        yield from _how_to_stop(self.data.registry)
        yield Link("All that is collected", "/")

    def rests_on(self) -> Iterable[Block]:
        return ()

    def facts(self) -> Mapping[str, Any]:
        return {**_registry_json(self.data.registry), **self._about.to_json(), "results": self.results()}


class ReadingPublished(AboutPage, ReadingPage):
    """The page of a metric with results that are no shares."""

    @cached_property
    def reading(self) -> Any:
        return self.data.reading(self.counted, "total", self.options)

    def results(self) -> Any:
        return self.reading.to_json()


class SharesPublished(ReadingPublished):
    """The page of a metric with results that are shares."""

    @cached_property
    def reading(self) -> EstimateSeries:
        return self.data.estimates(self.counted, "total", self.options)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.reading.parts[0].estimate.rows()
        return rows

    @property
    def _period(self) -> str:
        return self.counted.label(self.reading.parts[0].first) or ""

    @property
    def _when(self) -> str:
        return with_article(date_words(self._period))

    def notices(self) -> Iterator[Block]:
        yield Paragraph(
            f"Estimated from {self.counted.num_reports:,} reports of {self._when}, one per device. An estimate can be "
            "below zero, because the noise is subtracted. An answer that is not detected was given by nobody, or by "
            "too few to tell them from noise; one that nobody gave can be detected by chance: on average, that is at "
            "most 5% of the detected answers."
        )

    def pictures(self) -> Iterator[Picture]:
        yield estimate_picture(
            f"{self.metric.id}-{self._period}",
            f"Share of each answer in {self._when}, with {interval_caption(0.95)}.",
            self._rows[:MOST_DRAWN],
        )

    def results(self) -> Any:
        return self.reading.summary()

    def tables(self) -> Iterator[Block]:
        series, rows = self.reading, self._rows
        yield Lines(
            f"Intervals: {interval_words(series.interval_kind)}",
            *map(sentence, self.counted.panel_sentences()),
            *series.parts[0].estimate.notes,
            *series.notes,
        )
        detected = sum(row["detected"] for row in rows)
        yield Heading(3, f"Detected: {detected:,} of {len(rows):,}", "detected")
        yield estimate_table(sorted(rows, key=lambda row: not row["detected"])[:MOST_ROWS])
        if (left_out := len(rows) - MOST_ROWS) > 0:
            yield Paragraph(f"{left_out:,} more are in the files.")


def _published(data: ConsoleData, metric: Metric) -> PeriodCounts | None:
    """Return the counts of the newest period that is published, or None.

    A period is published from when it is final until its reports are deleted, if enough reports of today's parameters
    came. So its answers never change: nothing is added to a final period, and once a store has taken reports out of its
    counts, which it does earlier where it keeps reports for fewer days, the period is published no more.
    """
    if metric.publish == "nothing" or (is_shares(metric) and not metric.labels):
        return None
    first = metric.period.last_ended(data.clock() + SLACK, metric.retention_days) + 1
    tally = data.store.tally(metric.id, first, metric.newest_final(data.clock()))
    enough = [
        period
        for (period, digest), reports in tally.items()
        if digest == metric.mechanism.digest and reports >= metric.publish_least
    ]
    if not enough:
        return None
    counted = data.counts(metric, max(enough), max(enough))
    if counted.taken_out:
        return None
    # What reports of other parameters there are, and what a relay released, is about few reports, perhaps.
    return replace(counted, others=(), released=None)


def _when(data: ConsoleData, metric: Metric) -> str:
    """Say when the next period may be published: this follows from the registry and the time alone."""
    period = metric.newest_final(data.clock()) + 1
    if metric.expired(metric.period.start(period)):
        return "No period is published any more: the collection has ended."
    day = dt.datetime.fromtimestamp(metric.final_from(period), dt.UTC)
    which, when = map(date_words, (metric.period.label(period), f"{day:%Y-%m-%dT%H:%M}"))
    return (
        f"No period is published now. {capitalized(with_article(which))} is next, on {when}, if at least "
        f"{metric.publish_least:,} reports of it came."
    )


def show_registry(data: ConsoleData, _: Query) -> View:
    """Show the registry's file, as it is reviewed."""
    registry = data.registry
    shown = (Heading(2, "The file", "file"), Preformatted(registry.text.strip())) if registry.text else ()
    blocks = (
        Heading(1, "The registry"),
        KeyValues((("Version", registry.version), ("Digest", registry.digest.hex()))),
        *shown,
    )
    facts = {"digest": registry.digest.hex(), **registry.to_json()}
    return View("The registry", blocks, facts=facts, toml=registry.text or "")
