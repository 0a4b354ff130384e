"""What was true next to what was learned, a row for each value: the picture that two pages share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from overstory.presentation.charts.drawing import Chart
from overstory.presentation.charts.scale import F64, Scale, text_width
from overstory.presentation.svg import OURS, THEIRS


def against_truth(
    names: Sequence[str],
    *,
    truth: F64,
    learned: F64,
    low: F64,
    high: F64,
    detected: NDArray[np.bool_],
    xlabel: str,
) -> str:
    """Draw truth against estimate with its 95% interval as SVG; what was not detected is hollow.

    Parameters
    ----------
    truth, learned, low, high, detected : ndarray, shape (values,)
        In the unit that `xlabel` names.
    """
    width, height, count = 518.0, 68 + 15.0 * max(len(names), 3), len(names)
    least, most = float(min(low.min(), truth.min())), float(max(high.max(), truth.max()))
    margin = 0.03 * (most - least) or 0.5
    left = 14 + max(map(text_width, names))
    chart = Chart(
        width,
        height,
        Scale(least - margin, most + margin, left, width - 12),
        Scale(count - 0.4, -0.6, height - 34, 26),
    )
    chart.axes(xlabel, rows=names)
    for row in range(count):
        chart.line([(float(low[row]), row), (float(high[row]), row)], OURS, 2, 'stroke-opacity="0.55"')
        chart.dot(float(learned[row]), row, OURS, hollow=not detected[row])
        chart.bar(float(truth[row]), row, THEIRS)
    entries = [("dot", "learned, 95% interval", OURS)]
    entries += [] if detected.all() else [("hollow", "not detected", OURS)]
    chart.legend([*entries, ("bar", "truth", THEIRS)])
    return chart.svg()
