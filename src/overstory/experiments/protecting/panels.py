"""The thesis's figures, a panel for each epsilon, N across, a line for each strategy; and the same as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from overstory.experiments import drawing
from overstory.experiments.protecting.study import Distances, means
from overstory.experiments.result import Cell, Picture, Table

Found = Mapping[tuple[str, float, int], Sequence[Distances]]

MEASURES: Final[tuple[tuple[str, str, Callable[[Distances], float]], ...]] = (
    ("mse", "mean squared error of a frequency", lambda one: one.mse),
    ("jsd", "Jensen-Shannon distance", lambda one: one.jsd),
)


def table(caption: str, found: Found, names: Mapping[str, str]) -> Table:
    """Return the mean distances of every strategy at every epsilon and N."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (names[name], epsilon, size, *(round(mean, 7) for mean in means(runs)))
        for (name, epsilon, size), runs in found.items()
    )
    return Table(caption, ("strategy", "epsilon", "N", "MSE", "Jensen-Shannon distance"), rows)


def by_size(
    name: str, found: Found, *, names: Mapping[str, str], epsilon: str, dot: str = "a time step"
) -> list[Picture]:
    """Draw one picture for each measure; `epsilon` says whose it is, `dot` what each of the distances is of."""
    return [_picture(f"{name}-{short}", found, names, epsilon, dot, said, read) for short, said, read in MEASURES]


def _picture(
    name: str,
    found: Found,
    names: Mapping[str, str],
    epsilon: str,
    dot: str,
    said: str,
    read: Callable[[Distances], float],
) -> Picture:
    epsilons = sorted({key[1] for key in found})
    figure, axes = drawing.panels(width=9.6, height=3.2, columns=len(epsilons), sharey=True)
    for axis, value in zip(np.atleast_1d(axes), epsilons, strict=True):
        _panel(axis, found, names, value, read, last=value == epsilons[-1])
        drawing.panel_title(axis, f"{epsilon.partition(' ')[0]} = {value:g}")
        axis.set(xlabel="homes (N)")
    np.atleast_1d(axes)[0].set_ylabel(said)
    return drawing.picture(
        figure,
        name,
        f"{said[0].upper()}{said[1:]} against the number of homes, by {epsilon}; a dot is {dot}.",
        f"{len(epsilons)} panels; the {said} falls as homes are added, and from panel to panel as epsilon grows.",
    )


def _panel(
    axis: Any, found: Found, names: Mapping[str, str], epsilon: float, read: Callable[[Distances], float], *, last: bool
) -> None:
    ends = []
    for colour, (name, label) in zip(drawing.SERIES, names.items(), strict=False):
        sizes = sorted(size for known, e, size in found if known == name and e == epsilon)
        runs = [[read(one) for one in found[name, epsilon, size]] for size in sizes]
        centres = [float(np.mean(run)) for run in runs]
        axis.loglog(sizes, centres, color=colour, linewidth=1.8)
        for size, run in zip(sizes, runs, strict=True):
            axis.loglog([size] * len(run), run, ".", color=colour, markersize=2.5, alpha=0.5)
        ends.append((centres[-1], label, colour))
    if last:
        drawing.labels(axis, sizes[-1], ends)
