"""Maximum likelihood: the distribution that makes the reports likeliest, which is never negative by itself.

Where it applies. The likelihood needs the channel, not only the estimate:

- one symbol a report (GRR and its chains): the counts are one multinomial, and the maximum is exact;
- one-hot bits (SUE, OUE, RAPPOR without hashing, the thesis's mechanisms): each bit's count is taken as a binomial of
  its own, which it is when people are drawn independently; only what the bits of one person have in common is left out;
- any other support counts (OLH, subset selection): the same formula is a composite likelihood, right in the mean;
- any table P(output | symbol) at all: `expectation_maximization` (IBU, Agrawal and Aggarwal 2001).

For the first two the maximum has one unknown, the Lagrange multiplier of "sums to one", and no iteration over shares.

Expectation maximization for any channel: counts of outputs, a table P(output | symbol), and the shares behind them.

Also known as iterative Bayesian update (Agrawal and Aggarwal, PODS 2001). The likelihood is concave, so there is one
maximum; but where the channel blurs neighbours, its distribution is jagged, and stopping before it is what smooths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from overstory.analysis.estimate import Estimate

    F64 = NDArray[np.float64]

Supports = Literal["bits", "symbols"]


@dataclass(frozen=True)
class MaximumLikelihood:
    """The first step only: it starts from the raw counts, whatever they were made into.

    p* is larger than q*. `supports` is "symbols" when a report supports exactly one value, "bits" when any number.
    """

    p_star: float
    q_star: float
    supports: Supports = "bits"

    def __post_init__(self) -> None:
        if not 0 <= self.q_star < self.p_star <= 1:
            raise ParameterError(f"p_star = {self.p_star} must be above q_star = {self.q_star}, both from 0 to 1")
        if self.supports not in {"bits", "symbols"}:
            raise ParameterError(f"supports = {self.supports!r}: choose bits or symbols")

    @property
    def name(self) -> str:
        return f"maximum-likelihood({self.supports})"

    def __call__(self, estimate: Estimate) -> F64:
        if not np.array_equal(estimate.counts, estimate.raw_counts):
            raise ParameterError("maximum likelihood starts from the raw counts: make it the first step")
        reports = estimate.num_reports
        supports = estimate.raw_counts * (self.p_star - self.q_star) + reports * self.q_star
        likeliest = likeliest_of_bits if self.supports == "bits" else likeliest_of_symbols
        return np.asarray(likeliest(np.clip(supports, 0, reports), reports, self.p_star, self.q_star) * reports)


def likeliest_of_symbols(supports: F64, num_reports: int, p_star: float, q_star: float) -> F64:
    """Maximize ``sum c log(q + (p - q) f)`` over distributions f: ``f = max(c / m - q, 0) / (p - q)``."""
    _check(supports, num_reports)

    def shares(multiplier: float) -> F64:
        # Stationary where c / u = m, u = q + (p - q) f.
        return np.asarray(np.maximum(supports / multiplier - q_star, 0.0) / (p_star - q_star))

    return _sums_to_one(shares, 0.0, supports.size * float(num_reports) / p_star)


def likeliest_of_bits(supports: F64, num_reports: int, p_star: float, q_star: float) -> F64:
    """Maximize ``sum c log(u) + (n - c) log(1 - u)``, u = q + (p - q) f, over distributions f.

    At a multiplier m, ``c / u - (n - c) / (1 - u) = m``, a quadratic: ``m u**2 - (n + m) u + c = 0``, of which the
    root between 0 and 1 is taken; it falls as m rises.
    """
    _check(supports, num_reports)

    def shares(multiplier: float) -> F64:
        # u = ((n + m) - root) / (2 m), written as 2 c / ((n + m) + root) where the difference would cancel.
        middle = num_reports + multiplier
        root = np.sqrt(np.maximum(middle**2 - 4 * multiplier * supports, 0.0))
        set_share = 2 * supports / (middle + root) if middle > 0 else (middle - root) / (2 * multiplier)
        return np.asarray(np.maximum(set_share - q_star, 0.0) / (p_star - q_star))

    # Double until the multiplier lies between the ends: shares sum to 1 or more at the low one, to 1 or less above.
    reach = 2.0 * num_reports
    while shares(-reach).sum() < 1:
        reach *= 2
    low = -reach
    while shares(reach).sum() > 1:
        reach *= 2
    return _sums_to_one(shares, low, reach)


def _check(supports: F64, num_reports: int) -> None:
    if num_reports < 1 or not supports.any():
        raise ParameterError("there are no reports, or none that support anything: nothing is likeliest")


def _sums_to_one(shares: Callable[[float], F64], low: float, high: float) -> F64:
    """Bisect the multiplier to the last bit; the sum falls as it rises."""
    while low < (middle := (low + high) / 2) < high:
        if shares(middle).sum() > 1:
            low = middle
        else:
            high = middle
    likeliest = shares(high)
    return np.asarray(likeliest / likeliest.sum())


MOST_ITERATIONS = 100_000


@dataclass(frozen=True, eq=False)
class Mixture:
    """Shares that explain the counts."""

    shares: F64  # shape (d,), not negative, of sum 1
    iterations: int
    log_likelihood: float  # of the counts, up to a constant
    shortfall: float  # the maximum is at most this much higher: by concavity, ``max(gradient) - n``
    converged: bool  # the tolerance ended the search, not the limit on iterations


def expectation_maximization(
    counts: ArrayLike,  # shape (m,): how often each output was seen
    table: ArrayLike,  # shape (m, d): P(output | symbol); columns sum to 1
    *,
    tolerance: float = 1e-6,
    smooth: bool = False,
    most_iterations: int = MOST_ITERATIONS,
    start: F64 | None = None,  # shape (d,): equal shares unless given
) -> Mixture:
    """Raise the likelihood step by step, until a step gains less than `tolerance`.

    With `smooth` each step replaces each share by (1, 2, 1) / 4 of it and its neighbours (EMS: Silverman et al. 1990;
    Li et al. 2020). It is then no longer a maximum of anything simple, and `shortfall` is large.
    """
    seen, channel = _checked(counts, table)
    total = seen.sum()
    shares = np.full(channel.shape[1], 1.0 / channel.shape[1]) if start is None else start
    before = -np.inf
    for iteration in range(most_iterations + 1):
        # L(f) = sum c_i log(A f)_i, and its slope A'(c / A f).
        expected = channel @ shares
        likelihood = float(seen @ np.log(expected))
        slope = channel.T @ (seen / expected)
        finished = likelihood - before < tolerance
        if finished or iteration == most_iterations:
            break
        before = likelihood
        # Expectation and maximization in one: f_j <- f_j slope_j / n, which never lowers L.
        shares = shares * slope / total
        if smooth:
            shares = smoothed(shares)
    return Mixture(shares / shares.sum(), iteration, likelihood, float(slope.max() - total), finished)


def smoothed(shares: F64) -> F64:
    """Return (1, 2, 1) / 4 of each share and its neighbours; an end is its own neighbour, so the sum stays.

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
    occurs = seen > 0
    if not channel[occurs].any(axis=1).all():
        raise ParameterError("an output was seen that no symbol can give: the counts are another channel's")
    return seen[occurs], channel[occurs]
