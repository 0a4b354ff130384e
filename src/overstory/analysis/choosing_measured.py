"""Choosing by trial: the same population asked through several oracles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.choosing import Choice
from overstory.analysis.oracle import frequency_oracle


def measured_error(
    choice: Choice, symbols: NDArray[np.integer], domain_size: int, rng: np.random.Generator, *, rounds: int = 1
) -> float:
    """Return the root mean square error of all frequencies, over `rounds` simulated collections.

    Parameters
    ----------
    choice
        The oracle.
    symbols : ndarray of int, shape (n,)
        What each device holds.
    domain_size
        d.
    rng
        Where all randomness comes from.
    rounds
        Collections, each from all the devices.

    Examples
    --------
    >>> from overstory.analysis.choosing import rank
    >>> symbols = np.arange(20_000) % 8
    >>> best = rank(8, 1.0, 20_000)[0]
    >>> bool(abs(measured_error(best, symbols, 8, np.random.default_rng(1), rounds=20) / best.standard_error - 1) < 0.2)
    True
    """
    oracle = frequency_oracle(choice.name, **choice.parameters)
    truth = np.bincount(symbols, minlength=domain_size) / len(symbols)
    squares = []
    for _ in range(rounds):
        estimate = oracle.estimate(oracle.accumulate(oracle.simulate(symbols, rng)))
        squares.append(np.mean((estimate.raw_frequencies - truth) ** 2))
    return float(np.sqrt(np.mean(squares)))


def measured_errors(
    ranking: Sequence[Choice], symbols: NDArray[np.integer], domain_size: int, seed: int, *, rounds: int = 1
) -> Iterator[float]:
    """Yield `measured_error` of every choice, each with randomness of its own."""
    for number, choice in enumerate(ranking):
        yield measured_error(choice, symbols, domain_size, np.random.default_rng([seed, number]), rounds=rounds)


def zipf(num_reports: int, domain_size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return what each of n devices holds when value v has a share proportional to 1 / (v + 1).

    Examples
    --------
    >>> zipf(5, 3, np.random.default_rng(1)).max() < 3
    np.True_
    """
    shares = 1 / np.arange(1, domain_size + 1)
    return rng.choice(domain_size, size=num_reports, p=shares / shares.sum())
