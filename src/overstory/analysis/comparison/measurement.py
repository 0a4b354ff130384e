"""Choosing an oracle by trial: the same population asked through several oracles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.comparison.ranking import Choice
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.oracle import oracle as build_oracle
from overstory.analysis.reports import ReportBatch

ERRORS: Final = 200
"""Independent errors that give the mean square to 10%, and its root to 5%."""
TOGETHER: Final = 1 << 12
"""Devices that are simulated in one go: for fewer, NumPy's calls cost more than what they work out."""


@dataclass(frozen=True)
class Measured:
    """What an oracle's error came out as in simulated collections."""

    error: float  # root mean square error of all frequencies, over all collections
    standard_error: float | None  # of `error`, from how much the collections differ; None for one collection
    rounds: int  # collections


def rounds_to_order(domain_size: int) -> int:
    """Return how many collections distinguish the oracles: each error is then measured to about 5%, or better.

    One collection has about d - 1 independent errors, and the root of the mean of n squares varies by ``1 / sqrt(2 n)``
    of itself. 4 to 20: with few values oracles are many collections apart, and 20 must do.

    Examples
    --------
    >>> [rounds_to_order(size) for size in (2, 21, 50, 1000)]
    [20, 10, 5, 4]
    """
    return min(max(math.ceil(ERRORS / max(domain_size - 1, 1)), 4), 20)


def measured_error(
    choice: Choice,
    symbols: NDArray[np.integer],
    domain_size: int,
    rng: np.random.Generator,
    *,
    rounds: int = 1,
    advance: Callable[[int], object] = lambda _: None,
) -> Measured:
    """Return the root mean square error of all frequencies, over `rounds` simulated collections.

    Parameters
    ----------
    symbols : ndarray of int, shape (n,)
        What each device holds.

    Examples
    --------
    >>> from overstory.analysis.comparison.ranking import rank
    >>> symbols = np.arange(20_000) % 8
    >>> best = rank(8, 1.0, 20_000)[0]
    >>> measured = measured_error(best, symbols, 8, np.random.default_rng(1), rounds=20)
    >>> bool(abs(measured.error - best.standard_error) < 4 * measured.standard_error)
    True
    """
    oracle = build_oracle(choice.name, **choice.parameters)
    truth = np.bincount(symbols, minlength=domain_size) / len(symbols)
    squares = []
    for reports in _collections(oracle, symbols, rounds, rng):
        estimate = oracle.estimate(oracle.accumulate(reports))
        squares.append(np.mean((estimate.raw_frequencies - truth) ** 2))
        advance(1)
    error = math.sqrt(np.mean(squares))
    # The square root's slope is 1 / (2 sqrt).
    spread = float(np.std(squares, ddof=1)) / math.sqrt(rounds) / (2 * error) if rounds > 1 and error else None
    return Measured(error, spread, rounds)


def _collections(
    oracle: FrequencyOracle, symbols: NDArray[np.integer], rounds: int, rng: np.random.Generator
) -> Iterator[ReportBatch]:
    """Yield the reports of each collection; small ones are drawn together, as different devices of one population."""
    size, together = len(symbols), max(1, TOGETHER // len(symbols))
    for first in range(0, rounds, together):
        drawn = oracle.simulate(np.tile(symbols, min(together, rounds - first)), rng)
        for start in range(0, len(drawn), size):
            rows = slice(start, start + size)
            yield ReportBatch(drawn.cohorts[rows], drawn.bits[rows], drawn.num_bits, drawn.num_cohorts)


def measured_errors(
    ranking: Sequence[Choice],
    symbols: NDArray[np.integer],
    domain_size: int,
    seed: int,
    *,
    rounds: int = 1,
    advance: Callable[[int], object] = lambda _: None,
    only: int | None = None,
) -> Iterator[Measured]:
    """Yield `measured_error` of every choice, or of the one in place `only`; each has randomness of its own."""
    for number, choice in enumerate(ranking):
        if only not in {None, number}:
            continue
        rng = np.random.default_rng([seed, number])
        yield measured_error(choice, symbols, domain_size, rng, rounds=rounds, advance=advance)


def zipf(num_reports: int, domain_size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return what each of n devices holds when value v has a share proportional to 1 / (v + 1).

    Examples
    --------
    >>> zipf(5, 3, np.random.default_rng(1)).max() < 3
    np.True_
    """
    shares = 1 / np.arange(1, domain_size + 1)
    return rng.choice(domain_size, size=num_reports, p=shares / shares.sum())
