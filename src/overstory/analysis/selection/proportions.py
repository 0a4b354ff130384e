"""Counts of independent trials: their exact law, and exact bounds of the probability behind them.

References
----------
Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika 1934.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]


def binomial_law(trials: int, probability: float) -> F64:
    """Return P(0), ..., P(trials) of a binomial distribution.

    Examples
    --------
    >>> binomial_law(2, 0.25).round(12).tolist(), binomial_law(1, 0.0).tolist()
    ([0.5625, 0.375, 0.0625], [1.0, 0.0])
    """
    if not 0.0 < probability < 1.0:
        return np.asarray(np.arange(trials + 1) == (trials if probability else 0), np.float64)
    successes = np.arange(trials)
    steps = np.log(trials - successes) - np.log(successes + 1) + math.log(probability) - math.log1p(-probability)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def lower_bound(hits: int, trials: int, alpha: float) -> float:
    """Return the probability that is too small with confidence 1 - alpha (Clopper and Pearson, one-sided).

    Examples
    --------
    >>> round(lower_bound(100, 100, 0.05), 4), lower_bound(0, 10, 0.05)
    (0.9705, 0.0)
    """
    from scipy.special import betaincinv

    return float(betaincinv(hits, trials - hits + 1, alpha)) if hits else 0.0


def clopper_pearson(hits: int, trials: int, level: float) -> tuple[float, float]:
    """Return the chances under which so few, or so many, hits are not rarer than (1 - level) / 2 (exact, conservative).

    Examples
    --------
    >>> [[round(end, 4) for end in clopper_pearson(hits, 100, 0.95)] for hits in (0, 50)]
    [[0.0, 0.0362], [0.3983, 0.6017]]
    """
    tail = (1 - level) / 2
    return lower_bound(hits, trials, tail), 1.0 - lower_bound(trials - hits, trials, tail)
