"""The thesis's measurements: a mechanism, homes that report step by step, and two distances from the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.counts import SupportCounts
from overstory.analysis.distances import jensen_shannon, mean_squared_error
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess import postprocess
from overstory.experiments.accumulating import accumulated
from overstory.experiments.comparison import REACH
from overstory.experiments.context import Context
from overstory.experiments.protecting.homes import BINS, READINGS, Homes, Symbols, frequencies
from overstory.protocol.mechanisms.mechanism import Mechanism

Key = tuple[str, float, int]
"""A strategy, its epsilon, and how many homes."""

STEP: Final = "est-freq-clipped"
"""Est_Freq of the thesis (Definition 17) with the sum over the clipped estimates, so that it is a distribution."""


@dataclass(frozen=True)
class Distances:
    """How far one estimate is from the truth.

    Attributes
    ----------
    mse
        Mean squared error of the frequencies (Definition 18).
    raw_mse, literal_mse
        The same of the unbiased estimates, as they are, and of Est_Freq literally, divided by the unclipped sum (None
        where that sum is not positive).
    jsd
        Jensen-Shannon distance, base 2 (Definition 19).
    """

    mse: float
    raw_mse: float
    literal_mse: float | None
    jsd: float


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
