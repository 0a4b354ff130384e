"""What a person reads of estimates over a range of periods: a table, the facts to read it by, pictures; numbers too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from overstory.analysis.selection import bound_text, interval_words
from overstory.analysis.tables.output import chosen_rows, estimate_table, plot_height
from overstory.presentation.document import Block, Column, Lines, Paragraph
from overstory.queries.facts import HOW, note_lines, range_sentences
from overstory.queries.readings import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overstory.queries.estimates import EstimateSeries, PeriodEstimate
    from overstory.queries.numbers import NumberPart, NumberSeries

MOST_PANELS: Final = 12
"""Periods in one picture."""


def series_panels(series: EstimateSeries) -> tuple[list[Panel], str]:
    """Return a panel for each of the last ranges, and what is left out."""
    parts = series.parts[-MOST_PANELS:]
    left_out = f"{len(parts)} of {len(series.parts)} ranges shown, the last" if len(parts) < len(series.parts) else ""
    return [Panel(plot_height(part.estimate), _drawing(series, part)) for part in parts], left_out


def _drawing(series: EstimateSeries, part: PeriodEstimate) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        part.estimate.plot(ax)
        first, last = series.counted.label(part.first), series.counted.label(part.last)
        ax.set_title(f"{first if first == last else f'{first} to {last}'}: {ax.get_title('left')}", loc="left")

    return draw


def series_blocks(series: EstimateSeries, *, everything: bool, written: str | None) -> Iterator[Block]:
    """Return the estimates as one table, and the facts to read it by."""
    rows, empty = [], []
    for part in series.parts:
        label = str(series.counted.label(part.last))
        chosen = chosen_rows(part.estimate, everything=everything)
        rows += [{"period": label, **row} for row in chosen]
        empty += [] if chosen else [label]
    if rows:
        yield estimate_table(rows, first=() if series.kind == "total" else (Column("period", is_left=True),))
    if empty:
        yield Paragraph("nothing was detected" + ("" if series.kind == "total" else f" in {', '.join(empty)}"))
    notes = note_lines(
        series.counted, (*series.notes, *(note for part in series.parts for note in part.estimate.notes))
    )
    yield Lines(*summary(series), *notes, *([] if written is None else [f"every value: {written}"]))


def summary(series: EstimateSeries) -> list[str]:
    """Return what was read, how, and what it costs, in sentences."""
    options = series.options
    how = f"estimated {HOW[series.kind]}; {bound_text(options.correction, options.alpha)}"
    return range_sentences(series.counted, how, interval_words(series.interval_kind, options.adjustment))


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
