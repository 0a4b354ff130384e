"""Section 4.4's two readings of the response set: each time step alone, or all reports so far.

With fresh noise, ten steps are as good as ten times as many homes. Where permanent responses are kept, a home's noise
comes back with its reading, so all reports together gain less: how much less hangs on how often readings repeat.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from overstory.experiments import drawing
from overstory.experiments.comparison import Comparison
from overstory.experiments.context import Context
from overstory.experiments.protecting import window_based
from overstory.experiments.protecting.double_randomization import built
from overstory.experiments.protecting.homes import BINS, READINGS, homes_of
from overstory.experiments.protecting.study import Distances, cumulative
from overstory.experiments.protecting.window_based import Row
from overstory.experiments.result import Picture, Result, Table
from overstory.protocol.mechanisms.mechanism import Mechanism

EPSILON: Final = 2.0
NAMES: Final = {"wb": "WB", "opt-wb": "OPT-WB", "opt-dr": "OPT-DR", "l-osue": "L-OSUE", "rappor": "RAPPOR"}
Found = Mapping[str, list[list[Distances]]]


def run(context: Context) -> Result:
    """Follow each strategy over ten steps."""
    size = context.pick(quick=10_000, full=100_000)
    runs = context.pick(quick=12, full=40)
    homes = homes_of(context)
    found: dict[str, list[list[Distances]]] = {name: [] for name in NAMES}
    cases = [(name, i) for name in NAMES for i in range(runs)]
    for place, (name, i) in enumerate(context.steps(cases, "all reports so far")):
        readings = homes.draw(size, context.rng(1, i))
        found[name].append(cumulative(strategy(name), readings, context.rng(2, place), READINGS))
    return context.result(
        [_gain(label, found[name]) for name, label in NAMES.items()],
        inputs={"homes": homes.description, "N": size, "epsilon": EPSILON, "bins": BINS, "runs": runs},
        random=True,
        tables=[_table(found)],
        figures=[_draw(found)],
        notes=[
            "The gain is the error of one step over that of all ten: 10 for noise that is fresh in every report.",
            "WB and OPT-WB spend epsilon on every ten reports; the others once per distinct bin a home visits.",
        ],
    )


def strategy(name: str, bins: int = BINS) -> Mechanism:
    """Return a strategy of the thesis at this module's epsilon."""
    if name in {"wb", "opt-wb"}:
        return window_based.built(name, EPSILON, bins)
    return built(name, EPSILON, bins)


def _gain(label: str, runs: list[list[Distances]]) -> Comparison:
    """The ratio of two mean errors, with its 99% interval by the delta method."""
    one, ten = (np.array([run[step].raw_mse for run in runs]) for step in (0, -1))
    ratio = float(one.mean() / ten.mean())
    relative = math.sqrt(sum((errors.std(ddof=1) / errors.mean()) ** 2 / len(runs) for errors in (one, ten)))
    far = 2.576 * relative * ratio
    name = f"{label}: what nine more reports of every home gain, in mean squared error"
    return Comparison(name, ratio, ratio - far, ratio + far, "times")


def _table(found: Found) -> Table:
    rows: list[Row] = []
    for name, runs in found.items():
        for step in (0, 1, 4, 9):
            mse = float(np.mean([run[step].mse for run in runs]))
            jsd = float(np.mean([run[step].jsd for run in runs]))
            rows.append((NAMES[name], step + 1, round(mse, 7), round(jsd, 4)))
    head = ("strategy", "reports of each home", "MSE", "Jensen-Shannon distance")
    return Table("All reports so far, against the truth over the same steps", head, tuple(rows))


def _draw(found: Found) -> Picture:
    figure, axes = drawing.panels(height=3.8)
    steps = range(1, READINGS + 1)
    ends = []
    for colour, (name, label) in zip(drawing.SERIES, NAMES.items(), strict=False):
        errors = np.array([[one.mse for one in run] for run in found[name]])
        axes.semilogy(steps, errors.mean(axis=0), color=colour, linewidth=2)
        drawing.band(axes, list(steps), errors.min(axis=0).tolist(), errors.max(axis=0).tolist(), colour)
        ends.append((float(errors[:, -1].mean()), label, colour))
    drawing.labels(axes, READINGS, ends)
    axes.set(xlabel="reports of each home", ylabel="mean squared error of a frequency")
    return drawing.picture(
        figure,
        "protecting-cumulative",
        f"All reports so far, permanent epsilon {EPSILON:g} (of ten reports for WB and OPT-WB); bands from the least "
        "to the greatest run.",
        "Errors fall with every report, fastest for the window strategies, whose noise is fresh.",
    )
