"""Section 4.4's two readings of the response set: each time step alone, or all reports so far.

With fresh noise, ten steps are as good as ten times as many homes. Where permanent responses are kept, a home's noise
comes back with its reading, so all reports together gain less: how much less hangs on how often readings repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from overstory.experiments.comparison import Comparison
from overstory.experiments.registry import Context
from overstory.experiments.result import Result, Table
from overstory.experiments.smart_homes import window_based
from overstory.experiments.smart_homes.double_randomization import built
from overstory.experiments.smart_homes.homes import BINS, READINGS, Homes, homes_of
from overstory.experiments.smart_homes.study import Distances, Key, by_size, cumulative, mean_ratio, table
from overstory.experiments.smart_homes.window_based import EPSILONS, Row
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.protocol.mechanisms.base import Mechanism

EPSILON: Final = 2.0
NAMES: Final = {"wb": "WB", "opt-wb": "OPT-WB", "opt-dr": "OPT-DR", "l-osue": "L-OSUE", "rappor": "RAPPOR"}
GRID: Final = 3
"""Runs at every epsilon and N."""
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
    sizes = context.pick(quick=(1_000, 10_000), full=(1_000, 10_000, 100_000, 1_000_000))
    grid = _everywhere(context, homes, sizes)
    return context.result(
        [_gain(label, found[name]) for name, label in NAMES.items()],
        inputs={
            "homes": homes.description,
            "N": size,
            "epsilon": EPSILON,
            "bins": BINS,
            "runs": runs,
            "every N": list(sizes),
            "every epsilon": list(EPSILONS),
            "runs at each": GRID,
        },
        random=True,
        tables=[_table(found), table("All ten reports of every home, at every epsilon and N", grid, NAMES)],
        figures=[
            _draw(found),
            *by_size(
                "protecting-cumulative",
                grid,
                names=NAMES,
                epsilon="epsilon (permanent, or of ten reports)",
                dot="a run, all ten reports of every home",
            ),
        ],
        notes=[
            "The gain is the error of one step over that of all ten: 10 for noise that is fresh in every report.",
            "WB and OPT-WB spend epsilon on every ten reports; the others once per distinct bin a home visits.",
        ],
    )


def strategy(name: str, bins: int = BINS, epsilon: float = EPSILON) -> Mechanism:
    """Return a strategy of the thesis; this module's epsilon, unless given."""
    if name in {"wb", "opt-wb"}:
        return window_based.built(name, epsilon, bins)
    return built(name, epsilon, bins)


def _everywhere(context: Context, homes: Homes, sizes: Sequence[int]) -> dict[Key, list[Distances]]:
    """Return the distances after all ten reports at every epsilon and N, run by run."""
    keys = [(name, epsilon, size) for size in sizes for epsilon in EPSILONS for name in NAMES]
    found: dict[Key, list[Distances]] = {key: [] for key in keys}
    for place, (name, epsilon, size) in enumerate(context.steps(keys, "every epsilon and N")):
        for i in range(GRID):
            readings = homes.draw(size, context.rng(3, size, i))
            steps = cumulative(strategy(name, epsilon=epsilon), readings, context.rng(4, place, i), READINGS)
            found[name, epsilon, size].append(steps[-1])
    return found


def _gain(label: str, runs: list[list[Distances]]) -> Comparison:
    """The mean error of the first step over that of all ten."""
    one, ten = ([run[step].raw_mse for run in runs] for step in (0, -1))
    name = f"{label}: what nine more reports of every home gain, in mean squared error"
    return Comparison(name, *mean_ratio([(one, ten)]), "times")


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
    figure, axes = figures.panels(height=3.8)
    steps = range(1, READINGS + 1)
    ends = []
    for colour, (name, label) in zip(figures.SERIES, NAMES.items(), strict=False):
        errors = np.array([[one.mse for one in run] for run in found[name]])
        axes.semilogy(steps, errors.mean(axis=0), color=colour, linewidth=2)
        figures.band(axes, list(steps), errors.min(axis=0).tolist(), errors.max(axis=0).tolist(), colour)
        ends.append((float(errors[:, -1].mean()), label, colour))
    figures.labels(axes, READINGS, ends)
    axes.set(xlabel="reports of each home", ylabel="mean squared error of a frequency")
    return figures.picture(
        figure,
        "protecting-cumulative",
        f"All reports so far, permanent epsilon {EPSILON:g} (of ten reports for WB and OPT-WB); bands from the least "
        "to the greatest run.",
        "Errors fall with every report, fastest for the window strategies, whose noise is fresh.",
    )
