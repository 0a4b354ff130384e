"""The groups of a metric's devices on pages: the choice of one, and a table of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from overstory.console.screens.facts import NO_DIMENSIONS
from overstory.presentation.document import Block, Column, Field, Heading, Paragraph, Table
from overstory.presentation.formats import interval, percent

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import EstimateOptions, EstimateSeries

MOST_SHARES: Final = 4
"""Values in the table of groups: the most frequent of all devices."""


def group_field(metric: Metric, chosen: str) -> tuple[Field, ...]:
    """Return the field that asks for a group; none where the metric has no groups."""
    groups = metric.groups
    if groups is None:
        return ()
    shown = [(name, name) for name in groups.names if not groups.hidden(name)]
    return (Field("group", f"Group by {groups.by}", chosen, "choice", (("", "all devices"), *shown)),)


def group_words(metric: Metric, chosen: str) -> str:
    """Return what a title says of the chosen group."""
    return f", {metric.groups.by} {chosen}" if metric.groups is not None and chosen else ""


def dimension_words(metric: Metric) -> str:
    """Say what a report holds in addition to its value."""
    if metric.groups is None:
        return NO_DIMENSIONS
    return (
        f"A report names the {metric.groups.by} of its device in clear, and no noise protects that. Nothing else that "
        "goes together with its value can be looked up afterwards."
    )


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
        *(
            Column(f"share{place}", str(value), _share_words, (f"share{place}", f"low{place}", f"high{place}"))
            for place, value in enumerate(values)
        ),
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


def _shares(series: EstimateSeries, values: Sequence[Any]) -> dict[str, float | None]:
    rows = {row["value"]: row for part in series.parts for row in part.estimate.rows()}
    keys = {"share": "frequency", "low": "frequency_low", "high": "frequency_high"}
    return {
        f"{short}{place}": rows[value][key] if value in rows else None
        for place, value in enumerate(values)
        for short, key in keys.items()
    }


def _share_words(share: float | None, low: float | None, high: float | None) -> str:
    if share is None or low is None or high is None:
        return "unknown"
    return f"{percent(share)} ({interval(percent)(low, high)})"
