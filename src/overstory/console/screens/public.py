"""The public pages: what is collected, why, how to stop it, and what came out. Nobody has to log in.

Nothing of a metric that is not published is read from the store, so no number of its results can reach a page.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from overstory.analysis.selection import interval_words
from overstory.analysis.tables.output import MOST_DRAWN, estimate_picture, interval_caption
from overstory.console.screens.page import (
    capitalized,
    estimate_blocks,
    is_shares,
    options_of,
    reading_blocks,
    reading_pictures,
    sentence,
)
from overstory.console.view import Query, View
from overstory.presentation.document import (
    Block,
    Column,
    Figure,
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

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.protocol.metrics import Metric, MetricRegistry
    from overstory.queries.counts import PeriodCounts
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
    metric, registry = data.metric(path["metric"]), data.registry
    about, counted, table, results = _page_in(registry, metric), _published(data, metric), None, UNPUBLISHED
    if counted is None:
        results = results if metric.publish == "nothing" else _when(data, metric)
        shown: list[Block] = [Notice(results, "faint")]
    else:
        reading: Any = data.read(counted, "total", options_of(query))
        of_shares, table = is_shares(metric), reading.as_table()
        results = reading.summary() if of_shares else reading.to_json()
        shown = list(_published_shares(reading) if of_shares else reading_blocks(reading))
        shown = shown if of_shares else [*map(Figure, reading_pictures(reading)), *shown]
    ended = f"It ended on {date_words(metric.expires.isoformat())}: nothing is recorded any more."
    blocks = (
        Heading(1, metric.title),
        Paragraph(metric.description, is_lead=True),
        *([Notice(ended, "faint")] if metric.expired(data.clock()) else []),
        Link(f"Why: {metric.purpose}", metric.purpose),
        KeyValues(tuple(pair for pair in about.facts if pair[0] != "Why")),
        Heading(2, "What it costs a person", "privacy"),
        Paragraph(about.plain_words()),
        *claims_blocks(about.claims),
        Heading(2, "Results", "results"),
        *shown,
        *_how_to_stop(registry),
        Link("All that is collected", "/"),
    )
    picture = next((block.picture for block in shown if isinstance(block, Figure)), None)
    facts = {**_registry_json(registry), **about.to_json(), "results": results}
    return View(metric.title, blocks, table, picture, facts)


def _published_shares(reading: EstimateSeries) -> Iterator[Block]:
    """Return the answers of a period, the detected ones first, and what to read them by."""
    counted, part = reading.counted, reading.parts[0]
    rows, period = part.estimate.rows(), counted.label(part.first) or ""
    when = with_article(date_words(period))
    yield Paragraph(
        f"Estimated from {counted.num_reports:,} reports of {when}, one per device. An estimate can be "
        "below zero, because the noise is subtracted. An answer that is not detected was given by nobody, or by "
        "too few to tell them from noise; one that nobody gave can be detected by chance: on average, that is at "
        "most 5% of the detected answers."
    )
    caption = f"Share of each answer in {when}, with {interval_caption(0.95)}."
    yield Figure(estimate_picture(f"{counted.metric.id}-{period}", caption, rows[:MOST_DRAWN]))
    yield Lines(
        f"Intervals: {interval_words(reading.interval_kind)}",
        *map(sentence, counted.panel_sentences()),
        *part.estimate.notes,
        *reading.notes,
    )
    detected = sum(row["detected"] for row in rows)
    yield Heading(3, f"Detected: {detected:,} of {len(rows):,}", "detected")
    yield from estimate_blocks(sorted(rows, key=lambda row: not row["detected"]), MOST_ROWS)


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
    return View("The registry", blocks, facts=facts, text=registry.text or "")
