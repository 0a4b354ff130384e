"""Populations of two variables, and the counts that their reports would give."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

import overstory
from overstory.analysis.association.table import TableEstimate, pair_table
from overstory.analysis.reports import SupportCounts


def population(rows: int, columns: int, dependence: float):
    """Return shares: rows fall like 1 / i, columns like .75^j, and a part of them lies along a band."""
    first = 1.0 / np.arange(1, rows + 1)
    first /= first.sum()
    second = 0.75 ** np.arange(columns)
    second /= second.sum()
    places, values = np.arange(rows)[:, None], np.arange(columns)
    band = np.exp(-(((columns * places / rows - values) / 1.2) ** 2) / 2)
    band /= band.sum(axis=1, keepdims=True)
    return (1 - dependence) * np.outer(first, second) + dependence * first[:, None] * band


def clipped_chi_square(table: TableEstimate) -> float:
    """Return the p-value that noise fools: of the chi-square of a table that was clipped and normalized first."""
    cells = np.maximum(table.shares, 0.0)
    cells = cells / cells.sum() * table.num_reports
    expected = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / table.num_reports
    statistic = float(((cells - expected) ** 2 / np.maximum(expected, 1e-9)).sum())
    return float(chi2.sf(statistic, (cells.shape[0] - 1) * (cells.shape[1] - 1)))


def drawn_table(oracle, shares, num_reports: int, seed: int) -> TableEstimate:
    """Return the table of devices drawn from a population, by the distribution of its support counts."""
    drawn = np.random.default_rng(seed)
    held = drawn.multinomial(num_reports, shares.ravel())
    p_star, q_star = float(oracle.mechanism.p_star), float(oracle.mechanism.q_star)
    if oracle.name == "grr":
        chances = np.full((held.size, held.size), q_star)
        np.fill_diagonal(chances, p_star)
        ones = sum(drawn.multinomial(devices, row) for devices, row in zip(held, chances, strict=True))
    else:
        ones = drawn.binomial(held, p_star) + drawn.binomial(num_reports - held, q_star)
    estimate = oracle.estimate(SupportCounts([num_reports], np.asarray(ones).reshape(1, -1)))
    labels = [[str(number) for number in range(size)] for size in shares.shape]
    return pair_table(oracle.mechanism, estimate, ["x", "y"], labels)


def oracle_of(name: str, epsilon: float, shares):
    return overstory.oracle(name, domain_size=shares.size, epsilon=epsilon)
