"""The thesis's measurements: a mechanism, homes that report step by step, and two distances from the truth.

The thesis's figures, a panel for each epsilon, N across, a line for each strategy; and the same as a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess.processed import postprocess
from overstory.analysis.reports import SupportCounts
from overstory.experiments.accumulation import accumulated
from overstory.experiments.comparison import REACH
from overstory.experiments.registry import Context
from overstory.experiments.result import Cell, Table
from overstory.experiments.smart_homes.distances import jensen_shannon, mean_squared_error
from overstory.experiments.smart_homes.homes import BINS, READINGS, Homes, Symbols, frequencies
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.protocol.mechanisms.base import Mechanism

Key = tuple[str, float, int]
"""A strategy, its epsilon, and how many homes."""

STEP: Final = "est-freq-clipped"
"""Est_Freq of the thesis (Definition 17) with the sum over the clipped estimates, so that it is a distribution."""


@dataclass(frozen=True)
class Distances:
    """How far one estimate is from the truth.

    Attributes
    ----------
    raw_mse, literal_mse
        The same of the unbiased estimates, as they are, and of Est_Freq literally, divided by the unclipped sum (None
        where that sum is not positive).
    """

    mse: float  # mean squared error of the frequencies (Definition 18)
    raw_mse: float
    literal_mse: float | None
    jsd: float  # jensen-Shannon distance, base 2 (Definition 19)


def distances(oracle: FrequencyOracle, counts: SupportCounts, truth: NDArray[np.float64]) -> Distances:
    """Estimate as the thesis does and compare."""
    raw = oracle.estimate(counts)
    estimated = np.asarray(postprocess(raw, STEP).frequencies)
    literal = None
    if raw.frequencies.sum() > 0:
        literal = mean_squared_error(postprocess(raw, "est-freq").frequencies, truth)
    unbiased = mean_squared_error(raw.frequencies, truth)
    return Distances(mean_squared_error(estimated, truth), unbiased, literal, jensen_shannon(estimated, truth))


def per_step(mechanism: Mechanism, homes: Symbols, rng: np.random.Generator, steps: int) -> list[Distances]:
    """Estimate from the reports of each time step alone (section 4.4, the second reading of the response set)."""
    return [distances(oracle, counts, truth) for oracle, counts, truth in _steps(mechanism, homes, rng, steps)]


def cumulative(mechanism: Mechanism, homes: Symbols, rng: np.random.Generator, steps: int) -> list[Distances]:
    """Estimate from all reports so far, at each time step (the first reading); the truth is over the same steps."""
    found, so_far = [], None
    for step, (oracle, counts, _) in enumerate(_steps(mechanism, homes, rng, steps)):
        so_far = counts if so_far is None else so_far + counts
        found.append(distances(oracle, so_far, frequencies(homes[: step + 1], counts.num_bits)))
    return found


def _steps(
    mechanism: Mechanism, homes: Symbols, rng: np.random.Generator, steps: int
) -> list[tuple[FrequencyOracle, SupportCounts, NDArray[np.float64]]]:
    """Let every home report in each step: its reading changes, its permanent responses stay with the readings."""
    oracle = FrequencyOracle(mechanism)
    devices = oracle.devices(homes[0], rng)
    size = oracle.support.domain_size
    assert size is not None
    return [
        (oracle, accumulated(oracle, replace(devices, symbols=homes[step]), step), frequencies(homes[step], size))
        for step in range(steps)
    ]


def measured(
    context: Context, homes: Homes, cases: Sequence[Key], build: Callable[[str, float], Mechanism], doing: str
) -> dict[Key, list[Distances]]:
    """Measure one (strategy, epsilon, number of homes) after another, by time step; all strategies on one draw."""
    found: dict[Key, list[Distances]] = {}
    for place, (name, epsilon, size) in enumerate(context.steps(cases, doing)):
        readings = homes.draw(size, context.rng(1, size))
        found[name, epsilon, size] = per_step(build(name, epsilon), readings, context.rng(2, place), READINGS)
    return found


def inputs(homes: Homes, sizes: Sequence[int], epsilons: Sequence[float]) -> dict[str, Any]:
    """Return what `measured` was run on."""
    numbers = {"N": list(sizes), "epsilon": list(epsilons), "bins": BINS, "steps": READINGS}
    return {"homes": homes.description, **numbers}


def mean_ratio(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[float, float, float]:
    """Return the ratio of each pair's means, averaged over the pairs, and its 99% interval (delta method).

    Examples
    --------
    >>> [round(number, 3) for number in mean_ratio([([9.0, 11.0], [20.0, 20.0])])]  # 10, known to 1, over 20
    [0.5, 0.371, 0.629]
    """
    ratios, variances = [], []
    for pair in pairs:
        one, other = (np.asarray(errors) for errors in pair)
        ratios.append(float(one.mean() / other.mean()))
        relative = sum((errors.std(ddof=1) / errors.mean()) ** 2 / errors.size for errors in (one, other))
        variances.append(float(relative) * ratios[-1] ** 2)
    far = REACH * math.sqrt(math.fsum(variances)) / len(ratios)
    mean = math.fsum(ratios) / len(ratios)
    return mean, mean - far, mean + far


def means(found: Sequence[Distances]) -> tuple[float, float]:
    """Return the mean MSE and the mean JSD."""
    return float(np.mean([one.mse for one in found])), float(np.mean([one.jsd for one in found]))


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
    figure, axes = figures.panels(width=9.6, height=3.2, columns=len(epsilons), sharey=True)
    for axis, value in zip(np.atleast_1d(axes), epsilons, strict=True):
        _panel(axis, found, names, value, read, last=value == epsilons[-1])
        figures.panel_title(axis, f"{epsilon.partition(' ')[0]} = {value:g}")
        axis.set(xlabel="homes (N)")
    np.atleast_1d(axes)[0].set_ylabel(said)
    return figures.picture(
        figure,
        name,
        f"{said[0].upper()}{said[1:]} against the number of homes, by {epsilon}; a dot is {dot}.",
        f"{len(epsilons)} panels; the {said} falls as homes are added, and from panel to panel as epsilon grows.",
    )


def _panel(
    axis: Any, found: Found, names: Mapping[str, str], epsilon: float, read: Callable[[Distances], float], *, last: bool
) -> None:
    ends = []
    for colour, (name, label) in zip(figures.SERIES, names.items(), strict=False):
        sizes = sorted(size for known, e, size in found if known == name and e == epsilon)
        runs = [[read(one) for one in found[name, epsilon, size]] for size in sizes]
        centres = [float(np.mean(run)) for run in runs]
        axis.loglog(sizes, centres, color=colour, linewidth=1.8)
        for size, run in zip(sizes, runs, strict=True):
            axis.loglog([size] * len(run), run, ".", color=colour, markersize=2.5, alpha=0.5)
        ends.append((centres[-1], label, colour))
    if last:
        figures.labels(axis, sizes[-1], ends)
