"""Section 4.4's two readings of the response set: each time step alone, or all reports so far.

With fresh noise, ten steps are as good as ten times as many homes. Where permanent responses are kept, a home's noise
comes back with its reading, so all reports together gain less: how much less hangs on how often readings repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from overstory.protocol.kinds.base import Mechanism
from papers import figures
from papers.comparison import Comparison
from papers.smart_homes import homes, window_based
from papers.smart_homes.double_randomization import built
from papers.smart_homes.homes import BINS, READINGS
from papers.smart_homes.measurement import Distances, Key, by_size, cumulative, mean_ratio, table
from papers.smart_homes.window_based import EPSILONS
from papers.study import Context, Study, Table, each, mean

EPSILON: Final = 2.0
NAMES: Final = {"wb": "WB", "opt-wb": "OPT-WB", "opt-dr": "OPT-DR", "l-osue": "L-OSUE", "rappor": "RAPPOR"}
GRID: Final = 3
"""Runs at every epsilon and N."""
NOTES: Final = """
The gain is the error of one step over that of all ten: 10 for noise that is fresh in every report.

WB and OPT-WB spend epsilon on every ten reports; the others once per distinct bin a home visits.
"""
Steps = Mapping[str, list[list[Distances]]]
"""By strategy: for every run, the distances after each step."""


def run(context: Context) -> Study:
    """Follow each strategy over ten steps."""
    size = context.pick(quick=10_000, full=100_000)
    runs = context.pick(quick=12, full=40)
    steps: dict[str, list[list[Distances]]] = {name: [] for name in NAMES}
    cases = [(name, i) for name in NAMES for i in range(runs)]
    for place, (name, i) in enumerate(context.steps(cases, "all reports so far")):
        readings = homes.draw(size, context.rng(1, i))
        steps[name].append(cumulative(strategy(name), readings, context.rng(2, place), READINGS))
    sizes = context.pick(quick=(1_000, 10_000), full=(1_000, 10_000, 100_000, 1_000_000))
    grid = _everywhere(context, sizes)
    epsilon = "epsilon (permanent, or of ten reports)"
    dot = "a run, all ten reports of every home"
    return Study(
        inputs={"homes": homes.DESCRIPTION, "N": size, "epsilon": EPSILON, "bins": BINS, "runs": runs}
        | {"every N": list(sizes), "every epsilon": list(EPSILONS), "runs at each": GRID},
        comparisons=[_gain(label, steps[name]) for name, label in NAMES.items()],
        tables=[_table(steps), table("All ten reports of every home, at every epsilon and N", grid, NAMES)],
        figures=[_draw(steps), *by_size("protecting-cumulative", grid, names=NAMES, epsilon=epsilon, dot=dot)],
        notes=NOTES,
    )


def strategy(name: str, bins: int = BINS, epsilon: float = EPSILON) -> Mechanism:
    """Return a strategy of the thesis; this module's epsilon, unless given."""
    if name in {"wb", "opt-wb"}:
        return window_based.built(name, epsilon, bins)
    return built(name, epsilon, bins)


def _everywhere(context: Context, sizes: Sequence[int]) -> dict[Key, list[Distances]]:
    """Return the distances after all ten reports at every epsilon and N, run by run."""
    keys = [(name, epsilon, size) for size in sizes for epsilon in EPSILONS for name in NAMES]
    distances: dict[Key, list[Distances]] = {key: [] for key in keys}
    for place, (name, epsilon, size) in enumerate(context.steps(keys, "every epsilon and N")):
        for i in range(GRID):
            readings = homes.draw(size, context.rng(3, size, i))
            steps = cumulative(strategy(name, epsilon=epsilon), readings, context.rng(4, place, i), READINGS)
            distances[name, epsilon, size].append(steps[-1])
    return distances


def _gain(label: str, runs: list[list[Distances]]) -> Comparison:
    """The mean error of the first step over that of all ten."""
    one, ten = ([run[step].raw_mse for run in runs] for step in (0, -1))
    name = f"{label}: what nine more reports of every home gain, in mean squared error"
    return Comparison(name, *mean_ratio([(one, ten)]), "times")


def _table(steps: Steps) -> Table:
    cells = [(name, step) for name in NAMES for step in (0, 1, 4, 9)]
    columns: dict[str, list[Any]] = {
        "strategy": [NAMES[name] for name, _ in cells],
        "reports of each home": [step + 1 for _, step in cells],
        "MSE": [round(mean([run[step].mse for run in steps[name]]), 7) for name, step in cells],
        "Jensen-Shannon distance": [round(mean([run[step].jsd for run in steps[name]]), 4) for name, step in cells],
    }
    return Table.of("All reports so far, against the truth over the same steps", columns)


def _draw(steps: Steps) -> figures.Picture:
    figure, axes = figures.panels(height=3.8)
    axes.set(yscale="log")
    numbers = range(1, READINGS + 1)
    ends = []
    for colour, (name, label) in zip(figures.SERIES, NAMES.items(), strict=False):
        errors = np.array([each(run, "mse") for run in steps[name]])
        figures.line(axes, numbers, errors.mean(axis=0), colour, linewidth=2)
        figures.spread(axes, numbers, errors.T, colour)
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
