"""What a person reads of estimates over a range of periods: a table, the facts to read it by, and pictures."""

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
