"""Ranges: consistency is the best linear unbiased estimate, sums agree, and errors are as stated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.numeric.quantities import ConsistentTree, estimate_ranges
from overstory.analysis.postprocess import project_simplex
from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric import RangeRandomizer
from support.numeric_alarms import Alarm, check_coverage, check_spread, check_unbiased


@st.composite
def noisy_trees(draw):
    tree = RangeRandomizer(draw(st.integers(2, 40)), 1.0, draw(st.integers(2, 6)))
    variances = tuple(draw(st.floats(0.01, 10)) for _ in range(tree.num_levels))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    own = [rng.normal(1 / size, np.sqrt(variances[i]), size) for i, size in enumerate(tree.level_sizes)]
    return ConsistentTree(tree, variances), own


def least_squares(consistent, own):
    """All nodes' estimates as rows of one weighted regression on the leaves, which sum to 1 (a Lagrange multiplier)."""
    tree = consistent.tree
    rows = [
        [float(tree.project(leaf, level - 1) == node) for leaf in range(tree.domain_size)]
        for level in range(1, tree.num_levels + 1)
        for node in range(tree.level_sizes[level - 1])
    ]
    design, weights = np.array(rows), 1 / np.repeat(consistent.level_variances, tree.level_sizes)
    ones = np.ones((tree.domain_size, 1))
    system = np.block([[design.T * weights @ design, ones], [ones.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.append(design.T * weights @ np.concatenate(own), 1.0))
    return solved[:-1]


@settings(max_examples=80)
@given(noisy_trees())
def test_consistency_is_least_squares_over_the_tree(case):
    consistent, own = case
    tree, leaves = consistent.tree, least_squares(consistent, own)
    assert leaves.sum() == pytest.approx(1, abs=1e-9)
    for level, found in enumerate(consistent.consistent(own)):
        nodes = [tree.project(leaf, level) for leaf in range(tree.domain_size)]
        assert np.allclose(found, np.bincount(nodes, leaves), atol=1e-8)


@settings(max_examples=80)
@given(noisy_trees(), st.data())
def test_weights_say_what_each_node_contributes(case, data):
    consistent, own = case
    size = consistent.tree.domain_size
    start, stop = sorted((data.draw(st.integers(0, size)), data.draw(st.integers(0, size))))
    constant, weights = consistent.weights(start, stop)
    found = constant + sum(w @ y for w, y in zip(weights, own, strict=True))
    assert found == pytest.approx(consistent.consistent(own)[-1][start:stop].sum(), abs=1e-8)


SHARES = np.concatenate((np.full(4, 0.15), np.full(20, 0.4 / 20), np.zeros(8)))
BUILT = RangeRandomizer(32, 1.0)
RANGES = [(0, 4), (3, 17), (20, 32)]
COLLECTIONS, PEOPLE = 800, 1500


def estimated(built, symbols, rng):
    """What a collection from these people shows of them."""
    devices = SimulatedDevices.holding(built, range(built.domain_size), symbols, rng)
    return estimate_ranges(built, count_reports(built, devices.report()), interval_kind="reports")


@pytest.fixture(scope="module")
def collected():
    """Errors of three ranges over many collections of the same people: sound, with projected leaves; stated errors."""
    rng = np.random.default_rng(11)
    symbols = np.repeat(np.arange(32), np.rint(SHARES * PEOPLE).astype(int))
    truth = np.bincount(symbols, minlength=32) / symbols.size
    errors, projected, stated = [], [], []
    for _ in range(COLLECTIONS):
        estimate = estimated(BUILT, symbols, rng)
        for into, shares in ((errors, estimate.levels[-1]), (projected, project_simplex(estimate.levels[-1]))):
            into.append([shares[a:b].sum() - truth[a:b].sum() for a, b in RANGES])
        stated.append([estimate.range(a, b)[1] for a, b in RANGES])
    return np.array(errors), np.array(projected), np.array(stated)


def check_all(errors, stated):
    for error, sigma in zip(errors.T, stated.T, strict=True):
        check_unbiased(error, sigma**2)
        check_spread(error, sigma**2)
        check_coverage(np.abs(error) <= 1.959964 * sigma)


def test_ranges_are_unbiased_with_the_stated_error(collected):
    errors, _, stated = collected
    check_all(errors, stated)


def test_an_overconfident_error_is_caught(collected):
    errors, _, stated = collected
    with pytest.raises(Alarm, match="variance"):
        check_all(errors, stated * 0.8)


def test_projecting_the_leaves_first_is_caught(collected):
    _, projected, stated = collected
    with pytest.raises(Alarm, match="bias"):
        check_all(projected, stated)


def test_quantiles_and_their_intervals():
    rng = np.random.default_rng(3)
    symbols = np.clip(rng.normal(100, 20, 400_000), 0, 255).astype(int)
    found = estimated(RangeRandomizer(256, 2.0), symbols, rng)
    for share in (0.1, 0.5, 0.9):
        middle, low, high = found.quantile(share, level=0.9999)
        assert low <= middle <= high
        assert low <= np.quantile(symbols, share) <= high
        assert high - low < 12
    assert found.range(0, 256) == (pytest.approx(1), pytest.approx(0, abs=1e-9))
    assert found.range(7, 7) == (0.0, 0.0)


def test_a_level_without_reports_is_refused():
    with pytest.raises(ParameterError, match="every level"):
        estimated(BUILT, np.zeros(1, np.int64), np.random.default_rng(1))


def test_ranges_outside_the_domain_are_refused():
    symbols = np.arange(32).repeat(20)
    found = estimated(BUILT, symbols, np.random.default_rng(1))
    for pair in ((-1, 3), (5, 4), (0, 33)):
        with pytest.raises(ParameterError, match="not within"):
            found.range(*pair)
    with pytest.raises(ParameterError, match="between 0 and 1"):
        found.quantile(0)
