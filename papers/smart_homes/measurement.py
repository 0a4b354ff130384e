"""The thesis's measurements: homes that report step by step, distances from the truth, and its figures of them.

Five measures say how far an estimate is from the truth. Each takes two lists of shares (or counts) of the same symbols.
What it needs of them is checked, for a distance between things that are no distributions looks like any other number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import SupportCounts
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism
from papers import figures
from papers.comparison import REACH
from papers.smart_homes.homes import BINS, DESCRIPTION, READINGS, Symbols, draw, frequencies
from papers.study import Context, Table, accumulate, each, mean

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    F64 = NDArray[np.float64]

# Two totals this close, relatively, are one total.
SAME_TOTAL: Final = 1e-6


def mean_squared_error(first: ArrayLike, second: ArrayLike) -> float:
    """Sum of squared differences over the number of symbols (the thesis, section 5.2).

    Examples
    --------
    >>> round(mean_squared_error([0.5, 0.5], [0.7, 0.3]), 6)
    0.04
    """
    a, b = _pair(first, second)
    return float(np.mean((a - b) ** 2))


def maximum_error(first: ArrayLike, second: ArrayLike) -> float:
    """Largest absolute difference (the lecture's error of a frequency oracle).

    Examples
    --------
    >>> maximum_error([0, 1, 0], [0, 0.5, 0.25])
    0.5
    """
    a, b = _pair(first, second)
    return float(np.abs(a - b).max())


def total_variation(first: ArrayLike, second: ArrayLike) -> float:
    """Half the sum of absolute differences: the largest difference in any event's share.

    Examples
    --------
    >>> total_variation([1, 0, 0], [0, 0.5, 0.5])
    1.0
    """
    a, b = _pair(first, second)
    _check_totals(a, b, "total variation")
    return float(np.abs(a - b).sum() / 2)


def jensen_shannon(first: ArrayLike, second: ArrayLike) -> float:
    """Jensen-Shannon distance: the root of the divergence, in base 2, so from 0 to 1 (the thesis, section 5.2).

    Each is divided by its own total first, as SciPy does; so the thesis's Est_Freq, which does not add up to one,
    has a distance too.

    Examples
    --------
    >>> jensen_shannon([1, 0], [0, 1]), jensen_shannon([1, 3], [0.25, 0.75])
    (1.0, 0.0)
    """
    a, b = _pair(first, second)
    if min(a.min(), b.min()) < 0 or not (a.any() and b.any()):
        raise ParameterError(
            "the Jensen-Shannon distance is between distributions, and there are negative shares or none: "
            "post-process the estimate first (norm-sub)"
        )
    a, b = a / a.sum(), b / b.sum()
    middle = (a + b) / 2
    divergence = (_relative_entropy(a, middle) + _relative_entropy(b, middle)) / 2
    return float(np.sqrt(np.clip(divergence, 0.0, 1.0)))


def wasserstein(first: ArrayLike, second: ArrayLike, *, width: float = 1.0) -> float:
    """Earth mover's distance of an ordered domain: the sum of differences of cumulated shares, times `width`.

    Parameters
    ----------
    first, second
        Shares of symbols that lie `width` apart.
    width
        Distance between neighbouring symbols: 1 / d measures a range as 1.

    Examples
    --------
    >>> wasserstein([1, 0, 0], [0, 0, 1])
    2.0
    """
    a, b = _pair(first, second)
    _check_totals(a, b, "the Wasserstein distance")
    return float(np.abs(np.cumsum(a - b)[:-1]).sum() * width)


DISTANCES: Final[Mapping[str, Callable[[ArrayLike, ArrayLike], float]]] = MappingProxyType(
    {
        "mse": mean_squared_error,
        "jensen-shannon": jensen_shannon,
        "total-variation": total_variation,
        "wasserstein": wasserstein,
        "maximum-error": maximum_error,
    }
)


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[F64, F64]:
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1 or not a.size:
        raise ParameterError(f"two lists of shares of the same symbols are compared, not shapes {a.shape}, {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ParameterError("shares must be finite numbers")
    return a, b


def _check_totals(a: F64, b: F64, what: str) -> None:
    one, other = float(a.sum()), float(b.sum())
    if abs(one - other) > SAME_TOTAL * max(abs(one), abs(other)):
        raise ParameterError(f"{what} is between equal totals, not {one:.6g} and {other:.6g}: normalize first")


def _relative_entropy(a: F64, reference: F64) -> float:
    """Sum of a log2(a / reference), 0 log 0 being 0."""
    held = a > 0
    return float((a[held] * np.log2(a[held] / reference[held])).sum())


Key = tuple[str, float, int]
"""A strategy, its epsilon, and how many homes."""


def est_freq(frequencies: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Return Est_Freq of the thesis (Definition 17): ``max(0, estimate)`` over their sum."""
    if total <= 0:
        raise ParameterError(f"Est_Freq divides by the sum of the estimates, which is {total:.6g}")
    return np.maximum(frequencies, 0.0) / total


@dataclass(frozen=True)
class Distances:
    """How far one estimate is from the truth."""

    mse: float  # mean squared error of the frequencies (Definition 18)
    raw_mse: float  # that of the unbiased estimates
    literal_mse: float | None  # that of Est_Freq literally, divided by the unclipped sum; None where it is not positive
    jsd: float  # Jensen-Shannon distance, base 2 (Definition 19)


def distances(oracle: FrequencyOracle, counts: SupportCounts, truth: NDArray[np.float64]) -> Distances:
    """Estimate as the thesis does, and compare."""
    raw = oracle.estimate(counts)
    # The sum over the clipped estimates makes it a distribution; literally, it is the one before clipping.
    estimated = est_freq(raw.frequencies, float(np.maximum(raw.frequencies, 0.0).sum()))
    literal = None
    if (total := float(raw.frequencies.sum())) > 0:
        literal = mean_squared_error(est_freq(raw.frequencies, total), truth)
    unbiased = mean_squared_error(raw.frequencies, truth)
    return Distances(mean_squared_error(estimated, truth), unbiased, literal, jensen_shannon(estimated, truth))


def per_step(mechanism: Mechanism, homes: Symbols, rng: np.random.Generator, steps: int) -> list[Distances]:
    """Estimate from the reports of each time step alone (section 4.4, the second reading of the response set)."""
    return [distances(oracle, counts, truth) for oracle, counts, truth in _steps(mechanism, homes, rng, steps)]


def cumulative(mechanism: Mechanism, homes: Symbols, rng: np.random.Generator, steps: int) -> list[Distances]:
    """Estimate from all reports so far, at each time step (the first reading); the truth is over the same steps."""
    measured, so_far = [], None
    for step, (oracle, counts, _) in enumerate(_steps(mechanism, homes, rng, steps)):
        so_far = counts if so_far is None else so_far + counts
        measured.append(distances(oracle, so_far, frequencies(homes[: step + 1], counts.num_bits)))
    return measured


def _steps(
    mechanism: Mechanism, homes: Symbols, rng: np.random.Generator, steps: int
) -> list[tuple[FrequencyOracle, SupportCounts, NDArray[np.float64]]]:
    """Let every home report in each step; each reading keeps its permanent response."""
    oracle = FrequencyOracle(mechanism)
    devices = oracle.devices(homes[0], rng)
    size = oracle.support.domain_size
    assert size is not None
    return [
        (oracle, accumulate(oracle, replace(devices, symbols=homes[step]), step), frequencies(homes[step], size))
        for step in range(steps)
    ]


def measured(
    context: Context, cases: Sequence[Key], build: Callable[[str, float], Mechanism], doing: str
) -> dict[Key, list[Distances]]:
    """Measure one (strategy, epsilon, number of homes) after another, by time step; all strategies on one draw."""
    distances: dict[Key, list[Distances]] = {}
    for place, (name, epsilon, size) in enumerate(context.steps(cases, doing)):
        readings = draw(size, context.rng(1, size))
        distances[name, epsilon, size] = per_step(build(name, epsilon), readings, context.rng(2, place), READINGS)
    return distances


def inputs(sizes: Sequence[int], epsilons: Sequence[float]) -> dict[str, Any]:
    """Return what `measured` was run on."""
    return {"homes": DESCRIPTION, "N": list(sizes), "epsilon": list(epsilons), "bins": BINS, "steps": READINGS}


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


Measured = Mapping[Key, Sequence[Distances]]

MEASURES: Final = {"mse": "mean squared error of a frequency", "jsd": "Jensen-Shannon distance"}


def table(caption: str, measured: Measured, names: Mapping[str, str]) -> Table:
    """Return the mean distances of every strategy at every epsilon and N."""
    strategies, epsilons, sizes = zip(*measured, strict=True)
    columns: dict[str, Sequence[Any]] = {
        "strategy": [names[name] for name in strategies],
        "epsilon": epsilons,
        "N": sizes,
        "MSE": [round(mean(each(runs, "mse")), 7) for runs in measured.values()],
        "Jensen-Shannon distance": [round(mean(each(runs, "jsd")), 7) for runs in measured.values()],
    }
    return Table.of(caption, columns)


def by_size(
    name: str, measured: Measured, *, names: Mapping[str, str], epsilon: str, dot: str = "a time step"
) -> list[figures.Picture]:
    """Draw one picture for each measure: a panel for each epsilon, N across, a line for each strategy.

    `epsilon` says what it is the epsilon of, `dot` what each of the distances is of.
    """
    return [_picture(name, measure, measured, names, epsilon, dot) for measure in MEASURES]


def _picture(
    name: str, measure: str, measured: Measured, names: Mapping[str, str], epsilon: str, dot: str
) -> figures.Picture:
    epsilons, meaning = sorted({key[1] for key in measured}), MEASURES[measure]
    figure, axes = figures.panels(width=9.6, height=3.2, columns=len(epsilons), sharey=True)
    for axis, value in zip(np.atleast_1d(axes), epsilons, strict=True):
        axis.set(xscale="log", yscale="log")
        ends = []
        for colour, (strategy, label) in zip(figures.SERIES, names.items(), strict=False):
            sizes = sorted(size for key, e, size in measured if key == strategy and e == value)
            runs = [each(measured[strategy, value, size], measure) for size in sizes]
            figures.line(axis, sizes, [mean(run) for run in runs], colour)
            for size, run in zip(sizes, runs, strict=True):
                axis.plot([size] * len(run), run, ".", color=colour, markersize=2.5, alpha=0.5)
            ends.append((mean(runs[-1]), label, colour))
        if value == epsilons[-1]:
            figures.labels(axis, sizes[-1], ends)
        figures.panel_title(axis, f"{epsilon.partition(' ')[0]} = {value:g}")
        axis.set(xlabel="homes (N)")
    np.atleast_1d(axes)[0].set_ylabel(meaning)
    return figures.picture(
        figure,
        f"{name}-{measure}",
        f"{meaning[0].upper()}{meaning[1:]} against the number of homes, by {epsilon}; a dot is {dot}.",
        f"{len(epsilons)} panels; the {meaning} falls as homes are added, and from panel to panel as epsilon grows.",
    )
