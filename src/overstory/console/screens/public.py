"""The public pages: what is collected, why, how to stop it, and what came out. Nobody has to log in.

Nothing of a metric that is not published is read from the store, so no number of its results can reach a page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.selection import interval_words
from overstory.analysis.tables.output import estimate_table
from overstory.console.screens.facts import estimate_picture, interval_caption, period_columns, state_words
from overstory.console.screens.readings import ReadingPage, file_rows, is_shares
from overstory.console.view import Query, Screen, View
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
from overstory.privacy.claims import claims_blocks
from overstory.privacy.registry.changes import Kind, compare_registries
from overstory.privacy.registry.page import MetricPage, how_often, metric_page
from overstory.privacy.text import epsilon_text, factor
from overstory.queries.estimates import EstimateOptions

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.protocol.metrics import Metric, MetricRegistry
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import EstimateSeries

MEANING: Final = (
    "Each device adds random noise to its answer before it sends it, so that no single report tells for certain what "
    "its sender's answer was; how frequent an answer is can be estimated from the reports of many devices together."
)
UNPUBLISHED: Final = "Results are not published."
NOT_YET: Final = "Results are published once a period with reports is over."
OPTIONS: Final = EstimateOptions(interval_kind="population")
MOST_DOTS: Final = 50
MOST_ROWS: Final = 500

_page_of = lru_cache(maxsize=256)(metric_page)
"""A page of a metric depends on the registry alone, and takes a moment to compute."""


class PublicScreen(Screen):
    """Every metric in a row: why, who answers for it, what it costs, and until when."""

    name = "What is collected"
    path = "/"
    viewer = None

    def view(self, data: ConsoleData, query: Query, **path: str) -> View:  # noqa: ARG002 - every screen takes these
        """Return the page of all metrics."""
        registry = data.registry
        table = Table("Every metric", _columns(), [_row(data, metric) for metric in registry.values()])
        blocks = (
            Heading(1, "What is collected here"),
            Paragraph(MEANING, is_lead=True),
            *_how_to_stop(registry),
            table if registry else Notice("Nothing is collected.", "faint"),
            Paragraph("An epsilon bounds what reports reveal; a smaller one is more private."),
            *_registry_facts(registry),
        )
        facts = {
            **_registry_json(registry),
            "metrics": [_page_of(metric, route=registry.oblivious).to_json() for metric in registry.values()],
        }
        return View("What is collected here", blocks, table, facts=facts)


def _columns() -> tuple[Column, ...]:
    return (
        Column("title", "Metric", is_left=True, link=lambda row: f"/about/{row['metric']}"),
        Column("purpose", "Why", is_left=True, link=lambda row: str(row["purpose"])),
        Column("owner", "Responsible", is_left=True),
        Column("how_often", "How often", is_left=True),
        Column("one_report", "What one report reveals", is_left=True),
        Column("expires", "Until", is_left=True),
        Column("state", "State", is_left=True, tone=lambda state: "faint" if state == "ended" else ""),
        Column("results", "Results", is_left=True),
    )


def _row(data: ConsoleData, metric: Metric) -> dict[str, Any]:
    epsilon = metric.mechanism.epsilon_report
    return {
        "metric": metric.id,
        "title": metric.title,
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
        ("as a page, with what changed", "/registry"),
    )
    yield Links("The registry", files)


def _registry_json(registry: MetricRegistry) -> dict[str, Any]:
    return {"registry": registry.version, "digest": registry.digest.hex(), "opt_out": registry.opt_out}


class AboutScreen(Screen):
    """One metric: its facts, what it costs, and what came out, where that is published."""

    name = "About a metric"
    path = "/about/{metric}"
    viewer = None

    def view(self, data: ConsoleData, query: Query, **path: str) -> View:  # noqa: ARG002
        """Return the page of a metric."""
        metric = data.metric(path["metric"])
        page = _page_of(metric, route=data.registry.oblivious)
        counted = _published(data, metric)
        facts: dict[str, Any] = {**_registry_json(data.registry), **page.to_json()}
        head = (*_about(data, page), Heading(2, "Results", "results"))
        tail = (*_how_to_stop(data.registry), Link("All that is collected", "/"))
        if counted is None:
            words = UNPUBLISHED if metric.publish == "nothing" else NOT_YET
            return View(metric.title, (*head, Notice(words, "faint"), *tail), facts={**facts, "results": words})
        if not is_shares(metric):
            reading, picture, said = ReadingPage(data, metric, counted, OPTIONS).read()
            return View(
                metric.title,
                (*head, *said, *tail),
                file_rows(reading.csv_lines()),
                picture,
                {**facts, "results": reading.to_json()},
            )
        series = data.estimates(counted, "total", OPTIONS)
        (part,) = series.parts
        rows = [{"from": label, "to": label, **row} for row in part.estimate.rows() for label in [_label(series)]]
        table = Table("", period_columns(), rows)
        picture = estimate_picture(
            f"{metric.id}-{_label(series)}",
            f"Share of each answer in {_label(series)}, with {interval_caption(0.95, OPTIONS.adjustment)}.",
            rows[:MOST_DOTS],
        )
        results = tuple(_results(data, series, rows))
        blocks = (*head, *results[:1], Figure(picture), *results[1:], *tail)
        return View(metric.title, blocks, table, picture, {**facts, "results": series.summary()})


def _about(data: ConsoleData, page: MetricPage) -> Iterator[Block]:
    metric = page.metric
    yield Heading(1, metric.title)
    yield Paragraph(metric.description, is_lead=True)
    if metric.expired(data.clock()):
        yield Notice(f"It ended on {metric.expires}: nothing is recorded any more.", "faint")
    yield Link(f"Why: {metric.purpose}", metric.purpose)
    yield KeyValues(tuple(pair for pair in page.facts if pair[0] != "Why"))
    yield Heading(2, "What it costs a person", "privacy")
    yield Paragraph(page.plain_words())
    yield from claims_blocks(page.claims)


def _published(data: ConsoleData, metric: Metric) -> PeriodCounts | None:
    """Return the counts of the newest period that is over; None unless they are published and there are any."""
    if metric.publish != "estimates" or (is_shares(metric) and not metric.labels):
        return None
    over = [period for period in data.store.periods(metric.id) if data.state(metric, period) != "running"]
    for period in reversed(over):
        counted = data.counts(metric, period, period)
        if counted.periods:  # reports of today's parameters
            return counted
    return None


def _label(series: EstimateSeries) -> str:
    return series.counted.label(series.parts[0].first) or ""


def _results(data: ConsoleData, series: EstimateSeries, rows: list[dict[str, Any]]) -> Iterator[Block]:
    metric, (part,) = series.metric, series.parts
    yield Paragraph(
        f"Estimated from {series.counted.num_reports:,} reports of {_label(series)}, one per device "
        f"({state_words(data, metric, part.last)}). An estimate can be below zero, because the noise is subtracted."
    )
    yield Lines(
        f"Intervals: {interval_words(series.interval_kind, series.options.adjustment)}",
        *part.estimate.notes,
        *series.notes,
    )
    detected = [row for row in rows if row["detected"]]
    yield Heading(3, f"Detected: {len(detected):,} of {len(rows):,}", "detected")
    if detected:
        table = estimate_table(detected[:MOST_ROWS])
        yield replace(table, caption="Detected answers", columns=table.columns[:-1])
    missing = [row["value"] for row in rows if not row["detected"]]
    yield Heading(3, f"Asked and not detected: {len(missing):,}", "not-detected")
    yield Paragraph(
        "Nobody gave these answers, or too few to tell them from noise. An answer that nobody gave can be detected by "
        "chance: on average, that is at most 5% of the detected answers."
    )
    if missing:
        more = f" and {len(missing) - MOST_ROWS:,} more" if len(missing) > MOST_ROWS else ""
        yield Paragraph(", ".join(missing[:MOST_ROWS]) + more)


class RegistryScreen(Screen):
    """The registry's file, as it is reviewed, and what changed since the version before."""

    name = "Registry"
    path = "/registry"
    viewer = None

    def view(self, data: ConsoleData, query: Query, **path: str) -> View:  # noqa: ARG002
        """Return the page of the registry."""
        registry = data.registry
        shown = (Heading(2, "The file", "file"), Preformatted(registry.text.strip())) if registry.text else ()
        changes = _changes(data)
        blocks = (
            Heading(1, "The registry"),
            KeyValues((("Version", registry.version), ("Digest", registry.digest.hex()))),
            *_changed(data, changes),
            *shown,
        )
        facts = {"digest": registry.digest.hex(), **registry.to_json()}
        return View("The registry", blocks, changes, facts=facts, toml=registry.text or "")


def _changes(data: ConsoleData) -> Table | None:
    """Return what changed since the version before; None where nobody has it."""
    if data.previous is None:
        return None
    columns = (
        Column("metric", "Metric", text=lambda name: name or "the registry", is_left=True),
        Column("what", "What", is_left=True),
        Column("kind", "What it does", is_left=True, tone=lambda kind: "" if kind == Kind.HARMLESS else "bad"),
        Column("detail", "How", is_left=True),
    )
    rows = [change.to_json() for change in compare_registries(data.previous, data.registry)]
    return Table(f"Changes since version {data.previous.version}", columns, rows)


def _changed(data: ConsoleData, changes: Table | None) -> Iterator[Block]:
    if changes is None or data.previous is None:
        return
    yield Heading(2, "What changed", "changes")
    yield changes if changes.rows else Paragraph(f"Nothing changed since version {data.previous.version}.")
