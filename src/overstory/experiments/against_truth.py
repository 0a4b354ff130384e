"""A picture that two pages share: what was true beside what was learned, a row for each value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from overstory.experiments import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

F64 = NDArray[np.float64]


def against_truth(
    names: Sequence[str],
    *,
    truth: F64,
    learned: F64,
    low: F64,
    high: F64,
    detected: NDArray[np.bool_],
    xlabel: str,
) -> Figure:
    """Draw truth against estimate with its 95% interval; what was not detected is hollow.

    Parameters
    ----------
    names
        Of the values, from top to bottom.
    truth, learned, low, high, detected : ndarray, shape (values,)
        In the unit that `xlabel` names.
    xlabel
        What is shown, with its unit.
    """
    at = np.arange(len(names))
    figure, axes = drawing.panels(7.2, 0.9 + 0.21 * max(len(names), 3))
    axes.hlines(at, low, high, color=drawing.OURS, linewidth=2, alpha=0.55)
    axes.plot(learned[detected], at[detected], "o", color=drawing.OURS, markersize=5, label="learned, 95% interval")
    if not detected.all():
        hollow = {"markerfacecolor": drawing.PAPER, "label": "not detected"}
        axes.plot(learned[~detected], at[~detected], "o", color=drawing.OURS, markersize=5, **hollow)
    axes.plot(truth, at, "|", color=drawing.THEIRS, markersize=11, markeredgewidth=2, label="truth")
    axes.set_yticks(at, names, parse_math=False)  # people's texts: a pair of $ is no formula
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set(xlabel=xlabel)
    axes.legend(frameon=False, labelcolor=drawing.INK, fontsize=9)
    drawn: Figure = figure
    return drawn
