"""The thesis's future work: what the number of bins and the shape of the distribution do to the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.experiments.comparison import Comparison, simulated
from overstory.experiments.registry import Context
from overstory.experiments.result import Result, Table
from overstory.experiments.smart_homes.cumulative import EPSILON, strategy
from overstory.experiments.smart_homes.homes import MOST_KWH, Symbols, binned, made_up
from overstory.experiments.smart_homes.study import Distances, means, per_step
from overstory.experiments.smart_homes.window_based import Row
from overstory.presentation import figures
from overstory.presentation.svg import Picture

F32 = NDArray[np.float32]
NAMES: Final = {"wb": "WB", "opt-dr": "OPT-DR", "l-osue": "L-OSUE", "rappor": "RAPPOR"}
STEPS: Final = 4
MANY: Final = 1_000_000
"""Of so many runs the mean is the expectation: the interval is then that of ours alone."""
SHAPES: Final[dict[str, Callable[[int, np.random.Generator], F32]]] = {
    "meters": lambda number, rng: made_up(number, rng)[:STEPS],
    "uniform": lambda number, rng: rng.uniform(0, MOST_KWH, (STEPS, number)).astype(np.float32),
    "bell": lambda number, rng: rng.normal(MOST_KWH / 2, MOST_KWH / 10, (STEPS, number)).astype(np.float32),
    "two peaks": lambda number, rng: _two_peaks(rng.random((STEPS, number)) < 0.5, rng),
    "one value": lambda number, _: np.full((STEPS, number), MOST_KWH / 3, np.float32),
}


def run(context: Context) -> Result:
    """Vary one, then the other."""
    size = context.pick(quick=20_000, full=200_000)
    bins = context.pick(quick=(10, 100, 500), full=(10, 50, 100, 200, 500, 1_000))
    cases = [(name, "meters", d) for name in NAMES for d in bins]
    cases += [(name, shape, 100) for name in NAMES for shape in SHAPES if shape != "meters"]
    found: dict[tuple[str, str, int], list[Distances]] = {}
    for place, (name, shape, d) in enumerate(context.steps(cases, "bins and shapes")):
        homes = _drawn(shape, size, context.rng(1, place), d)
        found[name, shape, d] = per_step(strategy(name, d), homes, context.rng(2, place), STEPS)
    return context.result(
        list(_raw_errors(found)),
        inputs={"N": size, "epsilon": EPSILON, "bins": list(bins), "shapes": list(SHAPES), "steps": STEPS},
        random=True,
        tables=[_table(found)],
        figures=[_draw(found, bins)],
        notes=["The unbiased estimates' error hangs neither on the bins nor on the shape; what clipping gains does."],
    )


def _drawn(shape: str, size: int, rng: np.random.Generator, bins: int) -> Symbols:
    return binned(np.clip(SHAPES[shape](size, rng), 0, MOST_KWH), bins)


def _two_peaks(low: NDArray[np.bool_], rng: np.random.Generator) -> F32:
    return np.asarray(rng.normal(np.where(low, 0.25, 0.75) * MOST_KWH, MOST_KWH / 20), np.float32)


def _raw_errors(found: dict[tuple[str, str, int], list[Distances]]) -> list[Comparison]:
    return [
        simulated(
            f"{NAMES[name]}, {shape}, {d} bins: MSE, unbiased estimates", [one.raw_mse for one in runs], averaged=MANY
        )
        for (name, shape, d), runs in found.items()
        if name == "opt-dr"
    ]


def _table(found: dict[tuple[str, str, int], list[Distances]]) -> Table:
    rows: list[Row] = []
    for (name, shape, d), runs in found.items():
        raw = float(np.mean([one.raw_mse for one in runs]))
        rows.append((NAMES[name], shape, d, round(raw, 8), *(round(mean, 8) for mean in means(runs))))
    head = ("strategy", "shape", "bins", "MSE, unbiased", "MSE, Est_Freq", "Jensen-Shannon distance")
    return Table("Bins and shapes", head, tuple(rows))


def _draw(found: dict[tuple[str, str, int], list[Distances]], bins: tuple[int, ...]) -> Picture:
    figure, (left, right) = figures.panels(width=9.0, height=3.8, columns=2)
    ends = []
    places = np.arange(len(SHAPES))
    for place, (colour, (name, label)) in enumerate(zip(figures.SERIES, NAMES.items(), strict=False)):
        by_bins = np.array([[one.jsd for one in found[name, "meters", d]] for d in bins])
        figures.band(left, bins, by_bins.min(axis=1).tolist(), by_bins.max(axis=1).tolist(), colour)
        left.semilogx(bins, by_bins.mean(axis=1), color=colour, marker="o", markersize=4)
        ends.append((float(by_bins[-1].mean()), label, colour))
        by_shape = np.array([[one.jsd for one in found[name, shape, 100]] for shape in SHAPES])
        at = places + 0.2 * (place - 1.5)
        right.bar(at, by_shape.mean(axis=1), 0.18, color=colour)
        right.vlines(at, by_shape.min(axis=1), by_shape.max(axis=1), color=figures.INK, linewidth=1)
    figures.labels(left, bins[-1], ends)
    figures.panel_title(left, "meters")
    figures.panel_title(right, "100 bins")
    left.set(xlabel="bins", ylabel="Jensen-Shannon distance")
    right.set(xlabel="shape of the distribution", ylabel="Jensen-Shannon distance")
    right.set_xticks(places, list(SHAPES))
    return figures.picture(
        figure,
        "protecting-shapes",
        f"Distance from the truth in one time step at epsilon {EPSILON:g}: by the number of bins, and by the shape of "
        f"the distribution; means of {STEPS} steps, with the least and the greatest. Colours are those on the left.",
        "On the left distances grow with the number of bins; on the right WB's are the longest for every shape.",
    )
