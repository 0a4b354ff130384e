"""Estimates for a person: a table with intervals, what must be known to read it, and pictures in files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.selection import bound_text, interval_words
from overstory.analysis.tables.output import estimate_table, plot_height
from overstory.presentation.document import Block, Lines, Paragraph
from overstory.privacy.text import epsilons_text, plural
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def estimate_blocks(rows: list[dict[str, Any]], about: dict[str, Any], results: str | None) -> Iterator[Block]:
    """Return the rows of a decoding, and what must be known to read them."""
    yield estimate_table(rows) if rows else Paragraph("nothing was detected")
    detected = f"{about['detected']:,} of {plural(about['candidates'], 'candidate')} detected"
    yield Lines(
        f"{detected} in {plural(about['reports'], 'report')} ({bound_text(about['correction'], about['alpha'])})",
        f"{about['allocated_mass']:.1%} of the reports allocated to candidates; goodness of fit "
        f"{about['residual_dispersion']:.2f} (1 = as expected); method {about['method']}",
        f"intervals: {interval_words(about['interval'], about['adjustment'])}",
        f"privacy: {epsilons_text(about)}",
        *(f"note: {note}" for note in about["notes"]),
        *([] if results is None else [f"every candidate: {results}"]),
    )


def draw_panels(path: str, panels: Sequence[Any], title: str = "") -> None:
    """Draw panels, each of its height, below each other."""
    if not panels:
        raise ParameterError(f"--plot {path}: there are no reports to draw")
    heights = [panel.height for panel in panels]
    with picture(path, height=sum(heights)) as figure:
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for panel, ax in zip(panels, axes, strict=True):
            panel.draw(ax)
        if title:
            figure.suptitle(title, fontsize=9, x=0.01, ha="left")


def draw_estimate(path: str, estimate: Any) -> None:
    """Draw what a decoding, or an oracle, estimates."""
    with picture(path, height=plot_height(estimate)) as figure:
        estimate.plot(figure.subplots())


TIMELESS: Final = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""What would differ from one run to the next."""


@contextmanager
def picture(path: str, width: float = 10, height: float = 5) -> Iterator[Figure]:
    """Give a figure to draw into, in inches; write it when that is done, as .svg, .pdf or .png by the name."""
    from matplotlib import figure, rc_context

    from overstory.files.io import replacing

    with rc_context({"svg.hashsalt": "overstory"}):
        drawn = figure.Figure(figsize=(width, height), layout="constrained")
        yield drawn
        kind = path.rpartition(".")[2]
        with replacing(path) as name, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # of texts in any script; the file shows a box
            drawn.savefig(name, format=kind, metadata=TIMELESS.get(kind))
