"""The thesis's future work: what the number of bins and the shape of the distribution do to the error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from papers import figures
from papers.comparison import simulated
from papers.smart_homes.cumulative import EPSILON, strategy
from papers.smart_homes.homes import MOST_KWH, Symbols, binned, made_up
from papers.smart_homes.measurement import Distances, per_step
from papers.study import Context, Study, Table, each, mean

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


def run(context: Context) -> Study:
    """Vary one, then the other."""
    size = context.pick(quick=20_000, full=200_000)
    bins = context.pick(quick=(10, 100, 500), full=(10, 50, 100, 200, 500, 1_000))
    cases = [(name, "meters", d) for name in NAMES for d in bins]
    cases += [(name, shape, 100) for name in NAMES for shape in SHAPES if shape != "meters"]
    distances: dict[tuple[str, str, int], list[Distances]] = {}
    for place, (name, shape, d) in enumerate(context.steps(cases, "bins and shapes")):
        homes = _drawn(shape, size, context.rng(1, place), d)
        distances[name, shape, d] = per_step(strategy(name, d), homes, context.rng(2, place), STEPS)
    return Study(
        inputs={"N": size, "epsilon": EPSILON, "bins": list(bins), "shapes": list(SHAPES), "steps": STEPS},
        comparisons=[
            simulated(f"OPT-DR, {shape}, {d} bins: MSE, unbiased estimates", each(runs, "raw_mse"), averaged=MANY)
            for (name, shape, d), runs in distances.items()
            if name == "opt-dr"
        ],
        tables=[_table(distances)],
        figures=[_draw(distances, bins)],
        notes="The unbiased estimates' error hangs neither on the bins nor on the shape; what clipping gains does.",
    )


def _drawn(shape: str, size: int, rng: np.random.Generator, bins: int) -> Symbols:
    return binned(np.clip(SHAPES[shape](size, rng), 0, MOST_KWH), bins)


def _two_peaks(low: NDArray[np.bool_], rng: np.random.Generator) -> F32:
    return np.asarray(rng.normal(np.where(low, 0.25, 0.75) * MOST_KWH, MOST_KWH / 20), np.float32)


def _table(distances: Mapping[tuple[str, str, int], list[Distances]]) -> Table:
    strategies, shapes, bins = zip(*distances, strict=True)
    columns: dict[str, Sequence[Any]] = {
        "strategy": [NAMES[name] for name in strategies],
        "shape": shapes,
        "bins": bins,
    }
    for name, heading in (("raw_mse", "MSE, unbiased"), ("mse", "MSE, Est_Freq"), ("jsd", "Jensen-Shannon distance")):
        columns[heading] = [round(mean(each(runs, name)), 8) for runs in distances.values()]
    return Table.of("Bins and shapes", columns)


def _draw(distances: Mapping[tuple[str, str, int], list[Distances]], bins: tuple[int, ...]) -> figures.Picture:
    figure, (left, right) = figures.panels(width=9.0, height=3.8, columns=2)
    left.set(xscale="log")
    ends = []
    places = np.arange(len(SHAPES))
    for place, (colour, (name, label)) in enumerate(zip(figures.SERIES, NAMES.items(), strict=False)):
        by_bins = np.array([each(distances[name, "meters", d], "jsd") for d in bins])
        figures.spread(left, bins, by_bins, colour)
        figures.line(left, bins, by_bins.mean(axis=1), colour, marker="o", markersize=4, linewidth=None)
        ends.append((float(by_bins[-1].mean()), label, colour))
        by_shape = np.array([each(distances[name, shape, 100], "jsd") for shape in SHAPES])
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
