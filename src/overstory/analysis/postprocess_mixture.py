"""Expectation maximization for any channel: counts of outputs, a table P(output | symbol), and the shares behind them.

Also known as iterative Bayesian update (Agrawal and Aggarwal, PODS 2001). The likelihood is concave, so there is one
maximum; but where the channel blurs neighbours, its distribution is jagged, and stopping before it is what smooths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    F64 = NDArray[np.float64]

MOST_ITERATIONS = 100_000


@dataclass(frozen=True, eq=False)
class Mixture:
    """Shares that explain the counts.

    Attributes
    ----------
    shares : ndarray, shape (d,)
        Not negative, of sum 1.
    iterations : int
        How many steps were taken.
    log_likelihood : float
        Of the counts, up to a constant.
    shortfall : float
        The maximum of the log-likelihood is at most this much higher. By concavity, ``max(gradient) - n``.
    converged : bool
        Whether the tolerance ended the search, not the limit on iterations.
    """

    shares: F64
    iterations: int
    log_likelihood: float
    shortfall: float
    converged: bool


def expectation_maximization(
    counts: ArrayLike,
    table: ArrayLike,
    *,
    tolerance: float = 1e-6,
    smooth: bool = False,
    most_iterations: int = MOST_ITERATIONS,
) -> Mixture:
    """Raise the likelihood step by step from equal shares, until a step gains less than `tolerance`.

    Parameters
    ----------
    counts : array_like, shape (m,)
        How often each output was seen.
    table : array_like, shape (m, d)
        P(output | symbol); columns sum to 1.
    tolerance : float
        The least gain of the log-likelihood for which another step is taken.
    smooth : bool
        After each step, replace each share by (1, 2, 1) / 4 of it and its neighbours (EMS: Silverman et al. 1990;
        Li et al. 2020). It is then no longer a maximum of anything simple, and `shortfall` is large.
    most_iterations : int
        The limit.

    Raises
    ------
    ParameterError
        When shapes disagree, a column is no distribution, or there are no counts.

    Examples
    --------
    >>> found = expectation_maximization([70, 30], [[0.75, 0.25], [0.25, 0.75]])
    >>> found.shares.round(3).tolist(), found.shortfall < 0.1
    ([0.9, 0.1], True)
    """
    seen, channel = _checked(counts, table)
    total = seen.sum()
    shares = np.full(channel.shape[1], 1.0 / channel.shape[1])
    before = -np.inf
    for iteration in range(most_iterations + 1):
        expected = channel @ shares
        likelihood = float(seen @ np.log(expected))
        slope = channel.T @ (seen / expected)
        finished = likelihood - before < tolerance
        if finished or iteration == most_iterations:
            break
        before = likelihood
        shares = shares * slope / total
        if smooth:
            shares = smoothed(shares)
    return Mixture(shares / shares.sum(), iteration, likelihood, float(slope.max() - total), finished)


def smoothed(shares: F64) -> F64:
    """Return (1, 2, 1) / 4 of each share and its neighbours; an end is its own neighbour, so the sum is kept.

    Examples
    --------
    >>> smoothed(np.array([1.0, 0.0, 0.0])).tolist()
    [0.75, 0.25, 0.0]
    """
    padded = np.concatenate((shares[:1], shares, shares[-1:]))
    return np.asarray(padded[:-2] / 4 + padded[1:-1] / 2 + padded[2:] / 4)


def _checked(counts: ArrayLike, table: ArrayLike) -> tuple[F64, F64]:
    """Return counts and table as floats, without the outputs that were never seen."""
    seen, channel = np.asarray(counts, np.float64), np.asarray(table, np.float64)
    if channel.ndim != 2 or seen.shape != channel.shape[:1]:
        raise ParameterError(f"counts of shape {seen.shape} are not the outputs of a table of shape {channel.shape}")
    if (channel < 0).any() or not np.allclose(channel.sum(axis=0), 1.0, atol=1e-9):
        raise ParameterError("a table's columns are P(output | symbol): not negative, each of sum 1")
    if (seen < 0).any() or not seen.any():
        raise ParameterError("counts must not be negative, and some must be positive")
    held = seen > 0
    if not channel[held].any(axis=1).all():
        raise ParameterError("an output was seen that no symbol can give: the counts are another channel's")
    return seen[held], channel[held]
