"""Pictures of readings of numbers: means over time, and shares with their intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from overstory.queries.readings import Panel
from overstory.queries.shares import MOST_PANELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overstory.queries.numbers import NumberPart, NumberSeries


def draw_number_panels(series: NumberSeries) -> tuple[list[Panel], str]:
    """Return one panel of means where these are all that is learned, else one for each of the last ranges."""
    parts = [part for part in series.parts if part.estimate.quantities]
    if not parts:
        return [], ""
    if series.metric.reading == "mean":
        return [Panel(3.0, _means(series, parts))], ""
    last = parts[-MOST_PANELS:]
    left_out = f"{len(last)} of {len(parts)} ranges shown, the last" if len(last) < len(parts) else ""
    return [Panel(3.0, _shares(series, part)) for part in last], left_out


def _means(series: NumberSeries, parts: list[NumberPart]) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        rows = [row for part in parts for row in part.estimate.of_kind("mean")]
        low, middle, high = ([float(getattr(row, name)) for row in rows] for name in ("low", "value", "high"))
        places = range(len(rows))
        spread = [[m - end for m, end in zip(middle, low, strict=True)]]
        spread.append([end - m for m, end in zip(middle, high, strict=True)])
        ax.errorbar(places, middle, yerr=spread, fmt="o", capsize=3)
        ax.set_xticks(places, [str(series.counted.label(part.last)) for part in parts], rotation=30, ha="right")
        ax.set_ylabel("mean, 95% interval")
        ax.set_title(series.metric.title, loc="left")

    return draw


def _shares(series: NumberSeries, part: NumberPart) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        rows = list(part.estimate.of_kind("share"))
        numeric = all(row.start is not None and row.stop is not None for row in rows)
        edges = [(float(row.start or 0), float(row.stop or 0)) for row in rows] if numeric else []
        least = min((stop - start for start, stop in edges if stop > start), default=1.0)
        left = [start for start, _ in edges] if numeric else [place - 0.4 for place in range(len(rows))]
        widths = [max(stop - start, least) for start, stop in edges] if numeric else [0.8] * len(rows)
        heights = [float(row.value) for row in rows]
        ax.bar(left, [max(height, 0.0) for height in heights], widths, align="edge", color="C0", alpha=0.4, linewidth=0)
        middles = [start + width / 2 for start, width in zip(left, widths, strict=True)]
        ends = [(float(row.low), float(row.high)) for row in rows]
        ax.vlines(middles, [low for low, _ in ends], [high for _, high in ends], color="C0")
        if not numeric:
            ax.set_xticks(middles, [row.of for row in rows], rotation=30, ha="right")
        ax.set_ylabel("share, 95% interval")
        first, last = series.counted.label(part.first), series.counted.label(part.last)
        when = str(first) if first == last else f"{first} to {last}"
        ax.set_title(f"{series.metric.title}, {when}: {part.estimate.num_reports:,} reports", loc="left")

    return draw
