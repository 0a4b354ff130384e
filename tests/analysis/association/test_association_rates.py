"""What is said of a table keeps its promises: errors, coverage, the size of the test, and the table that is shown.

Every random check asks whether a count is possible at the promised rate and fails wrongly at most once in a million
(`ALARM`); the counts are drawn from fixed seeds.
"""

import numpy as np
import pytest
from scipy.stats import binom

from overstory.analysis.association.independence import compare_rows, conditional, cramers_v, independence
from support.association_populations import clipped_chi_square, drawn_table, oracle_of, population

ALARM = 1e-6
SEEDS = 120


def _at_most(count, trials, chance):
    """Whether so many are possible at this chance, or a smaller one."""
    return bool(binom.sf(count - 1, trials, chance) > ALARM)


def _at_least(count, trials, chance):
    return bool(binom.cdf(count, trials, chance) > ALARM)


def test_the_errors_of_cells_are_those_of_the_design():
    """OUE at epsilon 2 over 20 x 10 cells: rmse sqrt(n) within 3% of .839."""
    shares = population(20, 10, 0.3)
    oracle = oracle_of("oue", 2.0, shares)
    errors = [((drawn_table(oracle, shares, 100_000, seed).shares - shares) ** 2).mean() for seed in range(60)]
    scaled = float(np.sqrt(np.mean(errors) * 100_000))
    assert scaled == pytest.approx(0.839, rel=0.03)


CASES = [("oue", 2.0, (20, 10)), ("grr", 4.0, (20, 10)), ("subset", 1.0, (6, 2)), ("grr", 2.0, (6, 2))]


@pytest.mark.parametrize(("name", "epsilon", "shape"), CASES)
def test_intervals_cover(name, epsilon, shape):
    """Mean coverage of 95% intervals lies between .94 and .96: cells, marginals, conditionals, differences."""
    shares = population(*shape, 0.3)
    first, second = shares.sum(axis=1), shares.sum(axis=0)
    truth = shares / first[:, None]
    oracle = oracle_of(name, epsilon, shares)
    inside = {"cells": [], "marginals": [], "conditionals": [], "differences": []}
    for seed in range(SEEDS):
        table = drawn_table(oracle, shares, 100_000, seed)
        inside["cells"].append(_inside(*table.interval(), shares))
        for marginal, true in zip(table.marginals, (first, second), strict=True):
            inside["marginals"].append(_inside(*marginal.interval(), true))
        given = conditional(table)
        large = given.estimable & (first > 0.05)
        inside["conditionals"].append(_inside(*given.interval(), truth)[large])
        for compared in compare_rows(table, 0):
            row, column = int(compared.row), int(compared.column)
            if large[row]:
                true = truth[row, column] - truth[0, column]
                inside["differences"].append(np.array([compared.low <= true <= compared.high]))
    for what, hits in inside.items():
        flat = np.concatenate([part.ravel() for part in hits])
        # Intervals of one table are not independent: each table counts as one trial for ten of its own.
        trials = max(flat.size // 10, 1)
        count = round(flat.mean() * trials)
        assert _at_least(count, trials, 0.945), (what, flat.mean())
        assert _at_most(count, trials, 0.955), (what, flat.mean())


def _inside(low, high, truth):
    return (low <= truth) & (truth <= high)


SIZES = [("oue", 2.0, (6, 2), 20_000), ("grr", 2.0, (6, 2), 20_000), ("oue", 1.0, (20, 10), 20_000)]


@pytest.mark.parametrize(("name", "epsilon", "shape", "reports"), SIZES)
def test_independent_variables_are_rejected_one_time_in_twenty(name, epsilon, shape, reports):
    """The size at 5% is at most .06, also where the marginals are unsure; and the usual chi-square's is not."""
    shares = population(*shape, 0.0)
    oracle = oracle_of(name, epsilon, shares)
    rejected = naive = 0
    many = 600 if shape == (6, 2) else 200
    for seed in range(many):
        table = drawn_table(oracle, shares, reports, seed)
        tested = independence(table)
        assert tested is not None
        rejected += tested.rejected
        naive += clipped_chi_square(table) < 0.05
    assert _at_most(rejected, many, 0.06), rejected
    assert not _at_most(naive, many, 0.06), "the statistic that noise fools must fail the same check"


@pytest.mark.parametrize(("name", "epsilon"), [("oue", 2.0), ("grr", 2.0)])
def test_the_power_is_what_it_says(name, epsilon):
    """With dependences in random directions, at the V that is named, between 70% and 85% are detected."""
    independent, drawn = population(6, 3, 0.0), np.random.default_rng(5)
    oracle = oracle_of(name, epsilon, independent)
    tested = independence(drawn_table(oracle, independent, 60_000, 0))
    assert tested is not None
    detected, many = 0, 300
    for seed in range(many):
        shares = _dependent(independent, tested.detectable, drawn)
        found = independence(drawn_table(oracle, shares, 60_000, 1000 + seed))
        assert found is not None
        detected += found.rejected
    assert _at_least(detected, many, 0.7), detected
    assert _at_most(detected, many, 0.85), detected


def _dependent(product, v, drawn):
    """Return a table with these marginals and this Cramer's V, departing in a random direction."""
    rows, columns = np.sqrt(product.sum(axis=1)), np.sqrt(product.sum(axis=0))
    while True:
        way = drawn.normal(size=product.shape)
        way -= np.outer(rows, rows @ way)
        way -= np.outer(way @ columns, columns)
        way *= v * np.sqrt(min(product.shape) - 1) / np.sqrt((way**2).sum())
        shares = product + way * np.outer(rows, columns)
        if shares.min() >= 0:
            return shares


@pytest.mark.parametrize("times", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize(("shape", "num_reports"), [((2, 2), 5_000), ((3, 3), 20_000), ((2, 6), 60_000)])
def test_each_end_of_cramers_v_misses_rarely(shape, num_reports, times):
    """At most 3.5% each, at several times the detectable V; 2.5% is nominal, and it was 11% for 2 x 2 at once."""
    independent, drawn = np.full(shape, 1 / (shape[0] * shape[1])), np.random.default_rng(7)
    oracle = oracle_of("grr", 1.0, independent)
    tested = independence(drawn_table(oracle, independent, num_reports, 0))
    assert tested is not None
    below = above = 0
    many = 400 if shape == (2, 2) else SEEDS
    for seed in range(many):
        shares = _dependent(independent, times * tested.detectable, drawn)
        product = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        true = float(np.sqrt(((shares - product) ** 2 / product).sum() / (min(shape) - 1)))
        table = drawn_table(oracle, shares, num_reports, seed)
        v = cramers_v(table, independence(table))
        assert v is not None
        below += v.high < true
        above += v.low > true
    assert _at_most(below, many, 0.035), below
    assert _at_most(above, many, 0.035), above
